//! A file system that only passes requests on to a local directory: what FUSE itself costs, for
//! `trireme bench mount` to compare with.
