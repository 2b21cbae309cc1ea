//! A whole cluster in this process.
