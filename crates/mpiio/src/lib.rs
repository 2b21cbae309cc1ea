//! MPI-IO on trireme for programs as they are: preloaded, this library takes over `MPI_File_*` for
//! files named `trireme:/path` (or below `$TRIREME_PREFIX`) and leaves every other file to MPI.
//!
//! No `mpi.h` is needed to build it, and one library serves MPICH and Open MPI: handles are machine
//! words, and what differs between the two stands in one table chosen at run time (`abi`).
//!
//! | file | owns |
//! |---|---|
//! | `abi.rs`, `mpi.rs` | which MPI this is; its own routines, found behind ours |
//! | `class.rs` | errors as MPI classes |
//! | `handle.rs` | `MPI_File` handles of ours, which no MPI can have made |
//! | `datatype.rs` | MPI types as partitions |
//! | `memory.rs`, `view.rs` | the two sides of a transfer: a user's buffer, a file's view |
//! | `open.rs`, `transfer.rs`, `pointer.rs`, `queue.rs`, `request.rs`, `progress.rs` | what an open file does |
//! | `surface/` | the exported symbols, one file per group of routines |
//!
//! `docs/mpi.md` is the user's guide.

mod abi;
mod class;
mod comm;
mod datatype;
mod errhandler;
mod external;
mod folded;
mod handle;
mod info;
mod memory;
mod mpi;
mod name;
mod open;
mod operation;
mod pointer;
mod progress;
mod queue;
mod request;
mod surface;
mod transfer;
mod view;
