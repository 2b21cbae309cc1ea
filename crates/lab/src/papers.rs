//! The papers' studies: one module per paper, one file per table or figure group.
