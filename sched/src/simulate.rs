//! A whole worker in one test, on virtual time.
//!
//! Sockets are real, but both ends must be in the test (pairs, loopback). When no task is runnable and no event is
//! pending, nothing can happen before the next deadline, so the clock jumps to it. A test of a one-minute timeout takes
//! no time. Its seed determines all random numbers.
//!
//! [`SimulatedWorld`] goes further: several workers in one thread, with their order, the clock and the events decided by a seed.
//! [`network`] goes further in another direction: one worker with simulated sockets and scripts at their other ends.

pub mod network;
mod random;
mod world;

pub use random::SeededRandom;
pub use world::{Faults, SimulatedWorld};

use crate::driver::{Clock, Poller};
use std::cell::Cell;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use weir_sys::Result;
use weir_sys::poll::{Epoll, Readiness};

/// Runs `future` as the first task of a worker on virtual time. It may spawn other tasks, which are dropped when it
/// ends. `None` if it was stopped or panicked.
pub fn run<T: 'static>(seed: u64, future: impl Future<Output = T> + 'static) -> Result<Option<T>> {
    let time = Rc::new(Cell::new(START_NS));
    let poller = VirtualPoller { epoll: Epoll::new(200)?, time: time.clone(), watched: 0 };
    crate::runtime::run_on(Box::new(poller), Box::new(VirtualClock::new(time)), seed, future)
}

/// A clock that moves only when a test sets it.
struct VirtualClock {
    time: Rc<Cell<u64>>,
    /// Wall clock minus monotonic clock.
    wall_offset_ns: Rc<Cell<u64>>,
}

impl VirtualClock {
    fn new(time: Rc<Cell<u64>>) -> Self {
        VirtualClock { time, wall_offset_ns: Rc::new(Cell::new(WALL_OFFSET_NS)) }
    }
}

impl Clock for VirtualClock {
    fn monotonic_ns(&self) -> u64 {
        self.time.get()
    }

    fn wall_ns(&self) -> u64 {
        self.time.get() + self.wall_offset_ns.get()
    }
}

/// Polls the real poller without waiting. Moves the clock where the real one would have waited.
struct VirtualPoller {
    epoll: Epoll,
    time: Rc<Cell<u64>>,
    /// Number of registered descriptors.
    watched: usize,
}

impl Poller for VirtualPoller {
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.watched += 1;
        self.epoll.watch(descriptor, token)
    }

    fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.epoll.watch_level(descriptor, token)
    }

    fn forget(&mut self, descriptor: BorrowedFd<'_>) -> Result<()> {
        self.epoll.forget(descriptor)
    }

    fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize> {
        let mut events = self.epoll.wait(Some(0), &mut *report)?;
        if events == 0 && self.watched > 0 && timeout_ms.is_some_and(|timeout| timeout > 0) {
            // Bytes just sent by a task may still be in transit, because some kernels report them slightly later.
            events = self.epoll.wait(Some(DELIVERY_MS), &mut *report)?;
        }
        match timeout_ms {
            Some(timeout) if events == 0 => self.time.set(self.time.get() + timeout * 1_000_000),
            // Without runnable tasks and deadlines, only another thread can cause an event.
            None if events == 0 => return self.epoll.wait(None, report),
            _ => {}
        }
        Ok(events)
    }
}

/// Real time in milliseconds for the kernel to deliver bytes, before the clock jumps.
const DELIVERY_MS: u64 = 1;
/// Not zero, so that subtracting from the time in a test does not reach below it.
const START_NS: u64 = 1_000_000_000_000;
/// Makes the virtual wall clock show the first minutes of 2024.
const WALL_OFFSET_NS: u64 = 1_704_067_200_000_000_000 - START_NS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cause, ProfileMode, ProfileSettings};
    use crate::task::WorkKind;
    use crate::{Class, Descriptor, Tick, current, profile, set_profiling, spawn, wait, yield_now};
    use std::os::fd::OwnedFd;

    static READER: WorkKind = WorkKind::new("reader");
    const WAIT_NS: u64 = 7_000_000;
    const HANDSHAKE_NS: u64 = 700_000;

    /// A poller with waits of seven milliseconds each; the only descriptor then has one event, once.
    struct SlowPoller {
        time: Rc<Cell<u64>>,
        token: Rc<Cell<Option<u64>>>,
    }

    impl Poller for SlowPoller {
        fn watch(&mut self, _: BorrowedFd<'_>, token: u64) -> Result<()> {
            // Skips the worker's own event counter, which is registered first.
            self.token.set(Some(token).filter(|token| *token != u64::MAX));
            Ok(())
        }

        fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
            self.watch(descriptor, token)
        }

        fn forget(&mut self, _: BorrowedFd<'_>) -> Result<()> {
            Ok(())
        }

        fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize> {
            if timeout_ms == Some(0) {
                return Ok(0);
            }
            self.time.set(self.time.get() + WAIT_NS);
            let Some(token) = self.token.take() else { return Ok(0) };
            report(token, Readiness::IN);
            Ok(1)
        }
    }

    /// R75: wakes by the poller are dated at the poller's return: idle time does not count as latency.
    #[test]
    fn poller_wakes_are_dated_when_the_poller_returns() {
        let time = Rc::new(Cell::new(START_NS));
        let (poller, clock) =
            (SlowPoller { time: time.clone(), token: Rc::default() }, VirtualClock::new(time.clone()));
        let report = crate::runtime::run_on(Box::new(poller), Box::new(clock), 1, async {
            set_profiling(ProfileSettings { mode: ProfileMode::On, ..ProfileSettings::default() });
            yield_now().await;
            yield_now().await;
            let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("a socket can be made so");
            let main = current();
            spawn(&READER, Class::Normal, async move {
                let descriptor = Descriptor::register(OwnedFd::from(ours)).expect("a descriptor");
                descriptor.set_owner(current());
                descriptor.clear_readable();
                wait(Tick::NEVER).await;
                crate::wake(main);
            });
            wait(Tick::NEVER).await;
            profile()
        });
        let report = report.expect("a worker").expect("it ends");
        let of_event =
            |line: &&crate::ProfileLine| line.origin.is_some_and(|origin| origin.cause == Cause::Event);
        let line = report.lines.iter().find(of_event).expect("the poller woke it");
        assert_eq!((line.calls, line.latencies, line.latency_ns), (1, 1, 0));
        assert!(time.get() >= START_NS + WAIT_NS);
    }

    /// A poller that counts the looks at it, and passes the time that a worker would wait.
    struct CountingPoller {
        looks: Rc<Cell<u64>>,
        time: Rc<Cell<u64>>,
    }

    impl Poller for CountingPoller {
        fn watch(&mut self, _: BorrowedFd<'_>, _: u64) -> Result<()> {
            Ok(())
        }

        fn watch_level(&mut self, _: BorrowedFd<'_>, _: u64) -> Result<()> {
            Ok(())
        }

        fn forget(&mut self, _: BorrowedFd<'_>) -> Result<()> {
            Ok(())
        }

        fn wait(&mut self, timeout_ms: Option<u64>, _: &mut dyn FnMut(u64, Readiness)) -> Result<usize> {
            self.looks.set(self.looks.get() + 1);
            self.time.set(self.time.get() + timeout_ms.expect("there is a deadline") * 1_000_000);
            Ok(0)
        }
    }

    /// R45: the loop of a worker looks at the poller exactly once between two heavy runs.
    #[test]
    fn a_worker_polls_once_between_two_heavy_runs() {
        const RUNS: usize = 100;
        let (looks, time) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(START_NS)));
        let poller = CountingPoller { looks: looks.clone(), time: time.clone() };
        let seen =
            crate::runtime::run_on(Box::new(poller), Box::new(VirtualClock::new(time)), 1, async move {
                let seen = Rc::new(std::cell::RefCell::new(Vec::new()));
                for _ in 0..RUNS {
                    let (looks, seen) = (looks.clone(), seen.clone());
                    spawn(&READER, Class::Heavy, async move { seen.borrow_mut().push(looks.get()) });
                }
                while seen.borrow().len() < RUNS {
                    yield_now().await;
                }
                seen.take()
            });
        let seen = seen.expect("a worker").expect("it ends");
        assert_eq!(seen, (seen[0]..).take(RUNS).collect::<Vec<_>>());
    }

    /// R47 to R49: sixteen light tasks beside a thousand handshakes of 700 us each. As heavy work they leave the light tasks latencies
    /// that are at least ten times shorter than without the class, on average and at most.
    #[test]
    fn heavy_class_handshakes_cut_light_task_latencies_to_a_tenth() {
        let [with, without] = [Class::Heavy, Class::Normal].map(latencies_beside_handshakes);
        for (with, without) in std::iter::zip(with, without) {
            assert!(with * 10 <= without, "{with} ns with the class, {without} ns without");
        }
        assert!(with[1] <= 2 * HANDSHAKE_NS, "{} ns: one of them, and what is left of another", with[1]);
    }

    /// The average and the longest latency of light tasks in nanoseconds, beside handshakes of a class.
    fn latencies_beside_handshakes(class: Class) -> [u64; 2] {
        const LIGHT: u64 = 16;
        const EACH: u64 = 20;
        let time = Rc::new(Cell::new(START_NS));
        let poller = CountingPoller { looks: Rc::default(), time: time.clone() };
        let clock = VirtualClock::new(time.clone());
        let latencies = crate::runtime::run_on(Box::new(poller), Box::new(clock), 1, async move {
            for _ in 0..1000 {
                let time = time.clone();
                spawn(&READER, class, async move {
                    loop {
                        time.set(time.get() + HANDSHAKE_NS);
                        // The client's next handshake message arrives after a round trip.
                        crate::sleep_until(crate::now().after(1)).await;
                    }
                });
            }
            let latencies = Rc::new(std::cell::RefCell::new(Vec::new()));
            for number in 0..LIGHT {
                let (time, latencies) = (time.clone(), latencies.clone());
                spawn(&READER, Class::Normal, async move {
                    for _ in 0..EACH {
                        let due = crate::now().after(10 + number);
                        crate::sleep_until(due).await;
                        latencies.borrow_mut().push(time.get() - due.as_ms() * 1_000_000);
                    }
                });
            }
            while latencies.borrow().len() < (LIGHT * EACH) as usize {
                crate::sleep_until(crate::now().after(100)).await;
            }
            latencies.take()
        });
        let latencies = latencies.expect("a worker").expect("it ends");
        [latencies.iter().sum::<u64>() / latencies.len() as u64, latencies.into_iter().max().expect("some")]
    }
}
