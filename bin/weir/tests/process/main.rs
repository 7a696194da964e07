//! The real binary as a process: what it says, whom it serves, how it ends.

mod program;
mod serving;
mod starting;
