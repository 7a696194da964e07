//! Safe wrappers of the kernel's system calls.
//!
//! All system calls of weir go through this crate: safe functions on descriptors of the standard library
//! ([`std::os::fd::OwnedFd`]), with [`Errno`] as the error, because comparing an `Errno` is one instruction. Most are
//! based on rustix, the rest on libc (process-wide identity, signals, rare socket options).
//!
//! Begin with [`Address`] and [`socket`]. [`option`] sets the socket options of `bind` and `server` lines. The
//! scheduler waits with [`poll`]. [`process`] contains the steps at startup.
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
pub mod thread_timer;
pub mod time;
pub mod users;

pub use address::{Address, AddressFamily};
pub use rustix::io::Errno;

/// The text of an error, without the error number appended by the standard library.
pub fn error_text(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Errno>;
