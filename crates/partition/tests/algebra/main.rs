//! The algebra against a brute-force map of every byte to its owner.

mod arrays;
mod coverage;
mod encoding;
mod expr;
mod intersection;
mod model;
mod packing;
mod paper_table2;
mod queries;
mod refusals;
