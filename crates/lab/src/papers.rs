//! The papers' studies: one module per paper, one file per table or figure group.

pub mod ddio;
pub mod ionode;
pub mod ncube;
pub mod pios;
pub mod scheduling;
