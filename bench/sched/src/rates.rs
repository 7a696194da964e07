//! How long one move of a scheduler takes, for each executor.

mod signal;
mod smol;
mod tokio;
mod weir;

pub use tokio::storm as tokio_storm;

/// A move: its name, and for each executor what does `count` of them.
struct Row {
    name: &'static str,
    count: u64,
    work: [fn(u64); 3],
}

pub fn report() {
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
    println!("nanoseconds each, best of {ROUNDS} rounds        weir     tokio      smol   weir is faster by");
    for row in rows {
        let mut best = [f64::MAX; 3];
        for _ in 0..ROUNDS {
            for (work, best) in row.work.iter().zip(&mut best) {
                let start = std::time::Instant::now();
                work(row.count);
                *best = best.min(start.elapsed().as_nanos() as f64 / row.count as f64);
            }
        }
        let [weir, tokio, smol] = best;
        println!(
            "{:60} {weir:9.1} {tokio:9.1} {smol:9.1}   {:.1} than tokio, {:.1} than smol",
            row.name,
            tokio / weir,
            smol / weir
        );
    }
}

const ROUNDS: usize = 5;
