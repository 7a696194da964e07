//! The real binary as a process: its messages, its service, its end.

mod program;
mod serving;
mod starting;
