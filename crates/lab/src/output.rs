//! How reports leave the lab: text, JSON, CSV.

pub mod csv;
pub mod json;
pub mod text;
