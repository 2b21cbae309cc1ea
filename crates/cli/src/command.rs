//! One file per command: its arguments with their help, and what it does.

pub mod advise;
pub mod bench;
pub mod cat;
pub mod completions;
pub mod cp;
pub mod demo;
pub mod df;
pub mod down;
pub mod fsck;
pub mod lab;
pub mod ls;
pub mod man;
pub mod mkdir;
pub mod mount;
pub mod mpi_run;
pub mod mv;
pub mod pios;
pub mod queueing;
pub mod rm;
pub mod serve;
pub mod stat;
pub mod status;
pub mod sync;
pub mod umount;
pub mod up;
pub mod where_is;
