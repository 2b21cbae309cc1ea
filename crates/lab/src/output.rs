//! How reports leave the lab: text, JSON, CSV, one HTML page, and traces for a viewer.

pub mod csv;
pub mod html;
pub mod json;
pub mod perfetto;
pub mod svg;
pub mod text;
