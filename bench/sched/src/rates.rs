//! How long one move of a scheduler takes, for each executor.

mod signal;
mod smol;
mod tokio;
mod weir;

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

pub use tokio::storm as tokio_storm;

/// A move: its name, and for each executor the function that makes `count` of them.
struct Move {
    name: &'static str,
    count: u64,
    work: [fn(u64); 3],
}

/// Prints the rows with `word` in their name; of one executor only, if one is named.
pub fn report(word: &str, only: Option<&str>) {
    let rows = [
        Move {
            name: "task switch: two tasks wake each other",
            count: 1_000_000,
            work: [weir::switches, tokio::switches, smol::switches],
        },
        Move { name: "yield, 100 tasks", count: 1_000_000, work: [weir::yields, tokio::yields, smol::yields] },
        Move { name: "spawn, run, end", count: 500_000, work: [weir::spawns, tokio::spawns, smol::spawns] },
        Move {
            name: "timer armed and cancelled (a timeout that is not reached)",
            count: 500_000,
            work: [weir::timers, tokio::timers, smol::timers],
        },
        Move {
            name: "the same, each nearer than the one before",
            count: 500_000,
            work: [weir::nearer_timers, tokio::nearer_timers, smol::nearer_timers],
        },
        Move {
            name: "wake-up across threads, 1 pair, one processor",
            count: 40_000,
            work: [
                |count| weir::across(1, count, ProcessorPlacement::Together),
                |count| tokio::across(1, count, ProcessorPlacement::Together),
                |count| smol::across(1, count, ProcessorPlacement::Together),
            ],
        },
        Move {
            name: "the same across threads, tokio without its sockets",
            count: 40_000,
            work: [
                |count| weir::across(1, count, ProcessorPlacement::Together),
                |count| tokio::across_without_sockets(1, count, ProcessorPlacement::Together),
                |count| smol::across(1, count, ProcessorPlacement::Together),
            ],
        },
        Move {
            name: "wake-up across threads, 1 pair, two processors",
            count: 20_000,
            work: [
                |count| weir::across(1, count, ProcessorPlacement::Apart),
                |count| tokio::across(1, count, ProcessorPlacement::Apart),
                |count| smol::across(1, count, ProcessorPlacement::Apart),
            ],
        },
        Move {
            name: "wake-up across threads, 100 pairs, one processor",
            count: 400_000,
            work: [
                |count| weir::across(100, count, ProcessorPlacement::Together),
                |count| tokio::across(100, count, ProcessorPlacement::Together),
                |count| smol::across(100, count, ProcessorPlacement::Together),
            ],
        },
        Move {
            name: "wake-up across threads, 100 pairs, two processors",
            count: 400_000,
            work: [
                |count| weir::across(100, count, ProcessorPlacement::Apart),
                |count| tokio::across(100, count, ProcessorPlacement::Apart),
                |count| smol::across(100, count, ProcessorPlacement::Apart),
            ],
        },
    ];
    println!("nanoseconds of processor time each, best of {ROUNDS} rounds");
    let [weir, tokio, smol] = EXECUTORS;
    println!("{:58} {weir:>8} {tokio:>8} {smol:>8}   weir is faster than tokio, smol by", "");
    for row in rows.into_iter().filter(|row| row.name.contains(word)) {
        // Processor time and time on the wall's clock, of each executor.
        let mut spent = [const { [const { Vec::new() }; 3] }; 2];
        for _ in 0..ROUNDS {
            for (executor, work) in row.work.iter().enumerate() {
                if only.is_some_and(|only| only != EXECUTORS[executor]) {
                    continue;
                }
                let (start, cpu) = (Instant::now(), cpu_ns());
                work(row.count);
                spent[0][executor].push((cpu_ns() - cpu) as f64 / row.count as f64);
                spent[1][executor].push(start.elapsed().as_nanos() as f64 / row.count as f64);
            }
        }
        spent.iter_mut().flatten().for_each(|rounds| rounds.sort_by(f64::total_cmp));
        let at = |clock: usize, rank: usize| {
            spent[clock].each_ref().map(|rounds| rounds.get(rank).copied().unwrap_or(f64::NAN))
        };
        print(row.name, at(0, 0));
        if row.name.contains("across") {
            // Which thread sleeps depends on the machine's other work, so the best round is luck.
            print("  the median round", at(0, ROUNDS / 2));
            print("  the median round on the wall's clock", at(1, ROUNDS / 2));
        }
    }
}

fn print(name: &str, [weir, tokio, smol]: [f64; 3]) {
    println!("{name:58} {weir:8.1} {tokio:8.1} {smol:8.1}   {:.1}, {:.1}", tokio / weir, smol / weir);
}

/// Where the two sides of wake-ups across threads run: left to the kernel, both move between the two places, and rounds
/// differ tenfold.
#[derive(Clone, Copy)]
enum ProcessorPlacement {
    /// On one processor: measures the executor and a switch of threads.
    Together,
    /// On two: with one pair, measures how fast this machine's processors wake each other.
    Apart,
}

impl ProcessorPlacement {
    /// The processors of one side.
    fn processors(self, side: usize) -> Vec<usize> {
        let processors = weir_sys::process::processors().unwrap_or_default();
        let number = match self {
            Self::Together => 0,
            Self::Apart => side % processors.len().max(1),
        };
        processors.get(number).copied().into_iter().collect()
    }

    /// Puts the calling thread there.
    fn take(self, side: usize) {
        let _ = weir_sys::process::set_processors(&self.processors(side));
    }
}

/// Processor time of all threads of this process.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const EXECUTORS: [&str; 3] = ["weir", "tokio", "smol"];
const ROUNDS: usize = 9;
