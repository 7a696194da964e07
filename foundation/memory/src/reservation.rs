//! Reduces the address space reserved by allocators in a process with a limit on it.
//!
//! mimalloc reserves a gigabyte at the first allocation, or 128 MB where the kernel refuses that. The C library reserves 128 MB
//! for each thread that uses its allocator. Neither occupies memory, but both count against `ulimit -v`, and the first also
//! against `ulimit -d`. The remaining address space may be too small for the stacks of the workers.
//!
//! The limits of the process are read before `main`, since the runtime of Rust may allocate earlier than `main` does.

use std::ffi::{c_int, c_long};

use weir_sys::process;

/// The dynamic loader calls this function before `main`.
#[used]
// SAFETY: the section holds addresses of functions that the loader calls once each, and this is such an address. The function
// makes system calls and stores numbers: it needs nothing that the runtime of Rust prepares.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = keep_reservations_small;

extern "C" fn keep_reservations_small() {
    let address_space = process::address_space_limit();
    if let Some(limit) = address_space.into_iter().chain(process::data_limit()).min() {
        mi_option_set(ARENA_RESERVE, kilobytes_of_arena(limit));
    }
    if let Some(limit) = address_space {
        mallopt(ARENA_MAX, arenas_of_threads(limit));
    }
}

/// Size of a reservation by mimalloc, in kB. With 0 it maps memory on demand.
fn kilobytes_of_arena(limit: u64) -> c_long {
    let share = limit / SHARE;
    let bytes = if share < LEAST_ARENA { 0 } else { share.min(USUAL_ARENA) };
    c_long::try_from(bytes / 1024).unwrap_or(c_long::MAX)
}

/// Maximum number of arenas of the C library. Further threads share them.
fn arenas_of_threads(limit: u64) -> c_int {
    c_int::try_from(limit / SHARE / ARENA_OF_A_THREAD).unwrap_or(c_int::MAX).max(1)
}

/// An eighth of the limit may be reserved. The rest is for the program, stacks and large blocks.
const SHARE: u64 = 8;
/// `MI_ARENA_MIN_SIZE` of mimalloc/types.h: the smallest arena.
const LEAST_ARENA: u64 = 32 << 20;
/// The size that mimalloc reserves without a limit.
const USUAL_ARENA: u64 = 1 << 30;
/// Twice `HEAP_MAX_SIZE` of the C library, which maps this much to get an aligned half.
const ARENA_OF_A_THREAD: u64 = 128 << 20;
/// `mi_option_arena_reserve` of mimalloc.h.
const ARENA_RESERVE: c_int = 23;
/// `M_ARENA_MAX` of malloc.h.
const ARENA_MAX: c_int = -8;

// SAFETY: mimalloc.h and malloc.h declare them so. Each stores a number; an option that does not exist is ignored.
unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mallopt(option: c_int, value: c_int) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1 << 20;

    #[test]
    fn mimalloc_reserves_an_eighth_of_the_memory_limit() {
        assert_eq!(kilobytes_of_arena(255 * MEGABYTE), 0);
        assert_eq!(kilobytes_of_arena(256 * MEGABYTE), 32 * 1024);
        assert_eq!(kilobytes_of_arena(1024 * MEGABYTE), 128 * 1024);
        assert_eq!(kilobytes_of_arena(u64::MAX), 1024 * 1024);
    }

    #[test]
    fn the_number_of_thread_arenas_follows_the_memory_limit() {
        assert_eq!(arenas_of_threads(100 * MEGABYTE), 1);
        assert_eq!(arenas_of_threads(4096 * MEGABYTE), 4);
        assert_eq!(arenas_of_threads(u64::MAX), c_int::MAX);
    }

    /// The option's number in this version of mimalloc.
    #[test]
    fn the_arena_option_number_matches_this_mimalloc_version() {
        // SAFETY: mimalloc.h declares it so: it reads an option, by the same numbers, and gives sizes in bytes.
        unsafe extern "C" {
            safe fn mi_option_get_size(option: c_int) -> usize;
        }
        let limited = process::address_space_limit().is_some() || process::data_limit().is_some();
        assert!(limited || mi_option_get_size(ARENA_RESERVE) as u64 == USUAL_ARENA);
    }
}
