//! How long one move of a scheduler takes, for each executor.

mod signal;
mod smol;
mod tokio;
mod weir;

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

pub use tokio::storm as tokio_storm;

/// A move: its name, and for each executor what does `count` of them.
struct Row {
    name: &'static str,
    count: u64,
    work: [fn(u64); 3],
}

pub fn report(word: &str) {
    let rows = [
        Row {
            name: "task switch: two tasks wake each other",
            count: 1_000_000,
            work: [weir::switches, tokio::switches, smol::switches],
        },
        Row { name: "yield, 100 tasks", count: 1_000_000, work: [weir::yields, tokio::yields, smol::yields] },
        Row { name: "spawn, run, end", count: 500_000, work: [weir::spawns, tokio::spawns, smol::spawns] },
        Row {
            name: "timer armed and cancelled (a timeout that is not reached)",
            count: 500_000,
            work: [weir::timers, tokio::timers, smol::timers],
        },
        Row {
            name: "the same, each nearer than the one before",
            count: 500_000,
            work: [weir::nearer_timers, tokio::nearer_timers, smol::nearer_timers],
        },
        Row {
            name: "wake-up across threads, 1 pair (both sleep in between)",
            count: 40_000,
            work: [
                |count| weir::across(1, count),
                |count| tokio::across(1, count),
                |count| smol::across(1, count),
            ],
        },
        Row {
            name: "wake-up across threads, 100 pairs",
            count: 400_000,
            work: [
                |count| weir::across(100, count),
                |count| tokio::across(100, count),
                |count| smol::across(100, count),
            ],
        },
    ];
    println!("nanoseconds of processor time each, best of {ROUNDS} rounds");
    println!("{:58} {:>8} {:>8} {:>8}   weir is faster than tokio, smol by", "", "weir", "tokio", "smol");
    for row in rows.into_iter().filter(|row| row.name.contains(word)) {
        let mut best = [[f64::MAX; 3]; 2];
        for _ in 0..ROUNDS {
            for (executor, work) in row.work.iter().enumerate() {
                let (start, cpu) = (Instant::now(), cpu_ns());
                work(row.count);
                let spent = [cpu_ns() - cpu, start.elapsed().as_nanos() as u64];
                for (best, spent) in best.iter_mut().zip(spent) {
                    best[executor] = best[executor].min(spent as f64 / row.count as f64);
                }
            }
        }
        print(row.name, best[0]);
        if row.name.contains("across") {
            print("  on the wall's clock", best[1]);
        }
    }
}

fn print(name: &str, [weir, tokio, smol]: [f64; 3]) {
    println!("{name:58} {weir:8.1} {tokio:8.1} {smol:8.1}   {:.1}, {:.1}", tokio / weir, smol / weir);
}

/// Processor time of all threads of this process.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const ROUNDS: usize = 7;
