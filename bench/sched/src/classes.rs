//! The guarantees of the classes: shares, light work beside heavy work, deep run queues, storms of deadlines.
//!
//! Waits are measured on the clock of the worker's processor time: how much of it the worker spent on others first. So
//! the numbers exclude other work of the machine. Work is a loop that was calibrated on the same clock.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};
use weir_sched::{
    Class, Descriptor, WorkKind, ReceiveResult, Runtime, RuntimeSettings, TaskKey, Tick, SchedulerTuning, activity, current, now,
    sleep_until, spawn, wait, wake, yield_now,
};
use weir_sys::time::ThreadClock;

static KIND: WorkKind = WorkKind::new("bench");

fn start(tuning: SchedulerTuning, init: impl Fn(usize) + Send + Sync + 'static) -> Runtime {
    Runtime::start(&RuntimeSettings { tuning, ..RuntimeSettings::default() }, init).expect("a thread")
}

fn end(runtime: Runtime) {
    runtime.stop();
    runtime.join().expect("no panic");
}

/// Computes for about `ns` nanoseconds.
fn spin(ns: u64) {
    static TURNS_PER_US: OnceLock<u64> = OnceLock::new();
    let turns_per_us = *TURNS_PER_US.get_or_init(|| {
        let clock = ThreadClock::of_this_thread().expect("Linux has them");
        let cost = |turns: u64| {
            let start = clock.ns();
            turn(turns);
            clock.ns().zip(start).map_or(1, |(end, start)| end - start)
        };
        let ns = (0..20).map(|_| cost(1_000_000)).min().unwrap_or(1);
        (1_000_000_000 / ns).max(1)
    });
    turn(turns_per_us * ns / 1000);
}

fn turn(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// R30, R31: endless work in every class; prints each class's share of the runs and of the time.
pub fn shares() {
    println!("\nshares of the runs with endless work of 2 us in each class, % (wanted 16 / 33 / 50 / 1)");
    let classes = [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy];
    spin(1);
    for depth in [200, 100] {
        let tuning = SchedulerTuning { runqueue_depth: depth, ..SchedulerTuning::default() };
        let runtime = start(tuning, move |_| {
            for class in classes {
                // Each wakes the next one: a task that woke itself would be bulk work.
                let keys: Rc<[Cell<TaskKey>]> = (0..1000).map(|_| Cell::default()).collect();
                for task in 0..keys.len() {
                    let keys_too = keys.clone();
                    let key = spawn(&KIND, class, async move {
                        loop {
                            spin(2000);
                            wake(keys_too[(task + 500) % 1000].get());
                            wait(Tick::NEVER).await;
                        }
                    });
                    keys[task].set(key);
                }
            }
        });
        let runs = || -> [u64; 4] {
            let measured = runtime
                .handle()
                .activity(0, |activity| std::array::from_fn(|class| activity.runs[class].value()));
            measured.expect("worker 0")
        };
        std::thread::sleep(Duration::from_millis(300));
        let before = runs();
        std::thread::sleep(Duration::from_secs(2));
        let after = runs();
        let differences: Vec<u64> = (0..4).map(|class| after[class] - before[class]).collect();
        let total: u64 = differences.iter().sum();
        let share = |part: &u64| format!("{:5.1}", *part as f64 * 100.0 / total as f64);
        println!("  depth {depth}: {}", differences.iter().map(share).collect::<Vec<_>>().join(" "));
        end(runtime);
    }
}

/// R41 to R49: 1,000 units that compute for 700 us whenever they may, and 16 light clients that run once a millisecond.
pub fn heavy() {
    println!("\n16 light clients beside 1,000 units of 700 us, milliseconds of the worker's time");
    spin(1);
    println!("  {:44} {:>8} {:>8} {:>8} {:>8}  heavy/s", "", "p50", "p99", "p99.9", "max");
    for (name, class, low_latency, seconds) in [
        ("no heavy class (they are bulk, as they yield)", Class::Normal, false, 12),
        ("heavy class", Class::Heavy, false, 6),
        ("heavy class, low latency", Class::Heavy, true, 6),
    ] {
        let tuning = SchedulerTuning { low_latency, ..SchedulerTuning::default() };
        let units = Arc::new(AtomicU64::new(0));
        let (near, far): (Vec<_>, Vec<_>) =
            (0..16).map(|_| weir_sys::socket::stream_pair().expect("two descriptors")).unzip();
        let near = Mutex::new(near);
        let (clock_sender, clock_receiver) = mpsc::channel();
        let server = {
            let units = units.clone();
            start(tuning, move |_| {
                clock_sender
                    .send(ThreadClock::of_this_thread().expect("Linux has them"))
                    .expect("the receiver waits");
                for socket in near.lock().expect("one thread").drain(..) {
                    spawn(&KIND, Class::Normal, echo(Descriptor::register(socket).expect("registers")));
                }
                for _ in 0..1000 {
                    let units = units.clone();
                    spawn(&KIND, class, async move {
                        loop {
                            spin(700_000);
                            units.fetch_add(1, Ordering::Relaxed);
                            yield_now().await;
                        }
                    });
                }
            })
        };
        let (sender, receiver) = mpsc::channel();
        let (far, clock) = (Mutex::new(far), clock_receiver.recv().expect("the worker sends"));
        let client = start(SchedulerTuning::default(), move |_| {
            for socket in far.lock().expect("one thread").drain(..) {
                let descriptor = Descriptor::register(socket).expect("registers");
                spawn(&KIND, Class::Normal, request(descriptor, clock, seconds, sender.clone()));
            }
        });
        let mut latencies: Vec<u64> = (0..16).flat_map(|_| receiver.recv().expect("a client")).collect();
        let units = units.load(Ordering::Relaxed) / seconds;
        end(client);
        end(server);
        println!("  {name:44} {}  {units}", percentiles(&mut latencies));
    }
}

async fn echo(descriptor: Descriptor) {
    descriptor.set_owner(current());
    loop {
        let mut byte = [0];
        match descriptor.receive_into(&mut byte) {
            Ok(ReceiveResult::Bytes(_)) => drop(descriptor.send(&byte, false)),
            Ok(ReceiveResult::Blocked) => drop(wait(Tick::NEVER).await),
            _ => break,
        }
    }
}

async fn request(descriptor: Descriptor, clock: ThreadClock, seconds: u64, sender: mpsc::Sender<Vec<u64>>) {
    descriptor.set_owner(current());
    let (mut latencies, end) = (Vec::new(), now().after(seconds * 1000));
    while now() < end {
        let start = clock.ns().unwrap_or(0);
        descriptor.send(b"?", false).expect("the server lives");
        while descriptor.receive_into(&mut [0]) == Ok(ReceiveResult::Blocked) {
            wait(Tick::NEVER).await;
        }
        latencies.push(clock.ns().unwrap_or(0) - start);
        sleep_until(now().after(1)).await;
    }
    sender.send(latencies).expect("the benchmark waits");
}

fn percentiles(latencies: &mut [u64]) -> String {
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1e6;
    format!("{:8.3} {:8.3} {:8.3} {:8.3}", at(0.5), at(0.99), at(0.999), at(1.0))
}

/// R39, R40: a run queue of 10,000 or 100,000 entries of 1 us that never empties, and one urgent task that another
/// thread wakes.
pub fn deep() {
    println!("\none urgent task woken by another thread, deep run queues, milliseconds of the worker's time");
    spin(1);
    println!("  {:44} {:>8} {:>8} {:>8} {:>8}", "", "p50", "p99", "p99.9", "max");
    for entries in [10_000_u32, 100_000] {
        for (low_latency, depth) in [(false, entries), (true, entries), (false, 200), (true, 200)] {
            let tuning = SchedulerTuning { low_latency, runqueue_depth: depth, ..SchedulerTuning::default() };
            let light = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false)));
            let (clock_sender, clock_receiver) = mpsc::channel();
            let runtime = {
                let light = light.clone();
                start(tuning, move |_| {
                    let worker_clock = ThreadClock::of_this_thread().expect("Linux has them");
                    clock_sender.send(worker_clock).expect("the receiver waits");
                    for _ in 0..entries {
                        spawn(&KIND, Class::Bulk, async {
                            loop {
                                spin(1000);
                                yield_now().await;
                            }
                        });
                    }
                    let light = light.clone();
                    spawn(&KIND, Class::Urgent, async move {
                        light.0.store(current().to_bits(), Ordering::Release);
                        loop {
                            wait(Tick::NEVER).await;
                            light.1.store(worker_clock.ns().unwrap_or(0), Ordering::Relaxed);
                            light.2.store(true, Ordering::Release);
                        }
                    });
                })
            };
            let clock = clock_receiver.recv().expect("the worker sends");
            let key = loop {
                match light.0.load(Ordering::Acquire) {
                    0 => std::thread::yield_now(),
                    bits => break TaskKey::from_bits(bits),
                }
            };
            // Past the first turn, in which everything runs once.
            std::thread::sleep(Duration::from_millis(500));
            let mut latencies = Vec::new();
            let end_at = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end_at {
                std::thread::sleep(Duration::from_micros(300 + latencies.len() as u64 % 7 * 100));
                let start = clock.ns().unwrap_or(0);
                wake(key);
                while !light.2.swap(false, Ordering::Acquire) {
                    std::thread::yield_now();
                }
                latencies.push(light.1.load(Ordering::Relaxed).saturating_sub(start));
            }
            end(runtime);
            let mode = if low_latency { "low latency" } else { "default" };
            let name = format!("{entries} entries, depth {depth}, {mode}");
            println!("  {name:44} {}", percentiles(&mut latencies));
        }
    }
}

/// R56: 100,000 deadlines in one millisecond; how long all other work has to wait.
pub fn storm() {
    println!(
        "\n100,000 deadlines in one millisecond: the longest that a task waits for its next turn, milliseconds of the thread's time"
    );
    const TIMERS: u64 = 100_000;
    let (sender, receiver) = mpsc::channel();
    let runtime = start(SchedulerTuning::default(), move |_| {
        let sender = sender.clone();
        spawn(&KIND, Class::Normal, async move {
            let clock = ThreadClock::of_this_thread().expect("Linux has them");
            let due = now().after(500);
            let left = Rc::new(Cell::new(TIMERS));
            for _ in 0..TIMERS {
                let left = left.clone();
                spawn(&KIND, Class::Normal, async move {
                    sleep_until(due).await;
                    left.set(left.get() - 1);
                });
            }
            sleep_until(due.after(0)).await;
            let timers = || activity(0, |activity| activity.timers.value()).unwrap_or(0);
            let (mut longest, mut most, mut passes) = (0, 0, 0);
            while left.get() > 0 {
                let (start, before) = (clock.ns().unwrap_or(0), timers());
                yield_now().await;
                longest = longest.max(clock.ns().unwrap_or(0) - start);
                most = most.max(timers() - before);
                passes += 1;
            }
            sender.send((longest, most, passes)).expect("the benchmark waits");
        });
    });
    let (longest, most, passes) = receiver.recv().expect("it ends");
    end(runtime);
    println!("  weir  {:8.3} ms; at most {most} deadlines in a pass, {passes} passes", longest as f64 / 1e6);
    println!("  tokio {:8.3} ms", crate::rates::tokio_storm(TIMERS) as f64 / 1e6);
}
