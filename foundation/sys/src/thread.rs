//! A reserve of threads for a process that will lose the right to create threads.

use std::ffi::CStr;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Thread};

/// Stack size of a reserved thread in bytes. These threads write lines and look up names, in shallow calls. With the usual 2 MB,
/// three of them took a tenth of the address space under a low `ulimit -v`.
const RESERVED_STACK: usize = 512 << 10;

type ThreadBody = Box<dyn FnOnce() + Send>;

/// A reserved thread, waiting for a function to run.
struct Spare {
    thread: Thread,
    body: Sender<(&'static CStr, ThreadBody)>,
}

static RESERVE: Mutex<Vec<Spare>> = Mutex::new(Vec::new());

/// Creates `count` threads that sleep until [`start`] uses them, once each.
pub fn reserve(count: usize) -> io::Result<()> {
    for _ in 0..count {
        let (sender, receiver) = channel::<(&'static CStr, ThreadBody)>();
        let wait = move || {
            if let Ok((name, body)) = receiver.recv() {
                // Ignore errors. The name is only informative.
                let _ = rustix::thread::set_name(name);
                body();
            }
        };
        let thread =
            Builder::new().name("spare".to_owned()).stack_size(RESERVED_STACK).spawn(wait)?.thread().clone();
        RESERVE.lock().unwrap_or_else(PoisonError::into_inner).push(Spare { thread, body: sender });
    }
    Ok(())
}

/// Checks that `count` normal and `reserved` reserved threads can be created, by creating them all and ending them at once.
pub fn rehearse(count: usize, reserved: usize) -> io::Result<()> {
    let all_there = Mutex::new(());
    std::thread::scope(|scope| {
        let until_all_are_there = all_there.lock();
        let wait = || drop(all_there.lock());
        let usual = std::iter::repeat_with(Builder::new).take(count);
        let small = std::iter::repeat_with(|| Builder::new().stack_size(RESERVED_STACK)).take(reserved);
        let created = usual.chain(small).try_for_each(|thread| thread.spawn_scoped(scope, wait).map(drop));
        drop(until_all_are_there);
        created
    })
}

/// Runs `body` on a reserved thread, or on a new one if the reserve is empty.
pub fn start(name: &'static CStr, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let spare = RESERVE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    match spare {
        Some(spare) => {
            spare.body.send((name, Box::new(body))).expect("it waits for this");
            Ok(spare.thread)
        }
        None => {
            let name = name.to_string_lossy().into_owned();
            Ok(Builder::new().name(name).spawn(body)?.thread().clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_creation_of_threads_can_be_rehearsed() {
        assert!(rehearse(0, 0).is_ok() && rehearse(10, 10).is_ok());
    }

    /// A single test, because the reserve is process-wide.
    #[test]
    fn start_uses_reserved_threads_first() {
        let thread_id_of = |name| {
            let (sender, receiver) = channel();
            let thread = start(name, move || {
                let known = rustix::thread::name().expect("it has one");
                let _ = sender.send((known, std::thread::current().id()));
            });
            let (known, id) = receiver.recv().expect("it runs");
            assert_eq!((known.as_c_str(), thread.expect("a thread").id()), (name, id));
            id
        };
        assert!(reserve(2).is_ok());
        let reserved: Vec<_> =
            RESERVE.lock().expect("no panic").iter().map(|spare| spare.thread.id()).collect();
        let used = [thread_id_of(c"one"), thread_id_of(c"two")];
        assert!(reserved.iter().all(|id| used.contains(id)), "{reserved:?} {used:?}");
        assert!(!reserved.contains(&thread_id_of(c"three")));
    }
}
