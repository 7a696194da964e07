//! Safe wrappers of the kernel's system calls.
//!
//! Every system call that weir makes goes through here: safe functions over descriptors that the standard library owns
//! ([`std::os::fd::OwnedFd`]), with [`Errno`] as the error, because comparing an `Errno` is one instruction. rustix
//! does most of the work; libc provides the rest (process-wide identity, signals, exotic socket options).
//!
//! Begin with [`Address`] and [`socket`]; [`option`] sets the options of `bind` and `server` lines; the scheduler waits
//! on [`poll`]; [`process`] holds the steps at the start.
//!
//! This crate must not know the purpose of weir: no policy, no configuration, no retries.

mod address;
pub mod capability;
pub mod child;
pub mod file;
pub mod memory;
pub mod option;
pub mod pass;
pub mod poll;
pub mod process;
pub mod program;
pub mod random;
pub mod signal;
pub mod socket;
pub mod splice;
pub mod standard_error;
pub mod tcp_info;
pub mod thread;
pub mod time;
pub mod users;

pub use address::{Address, AddressFamily};
pub use rustix::io::Errno;

/// The system's text for an error, without the number that the standard library adds.
pub fn error_text(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Errno>;
