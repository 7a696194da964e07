//! `cargo run --release --manifest-path bench/sched/Cargo.toml`: the costs of the scheduler, in one run beside popular
//! executors. `-- rates`, `shares`, `heavy`, `deep` or `storm` runs a part, `-- rates=across` the rows with that word
//! in their name, `-- rates=across only=weir` those of one executor (for a profile, or to count its system calls).
//!
//! Rates are processor time, the best of several rounds with the executors taking turns, because the machine's other work
//! disturbs one and then another. Read ratios; the absolute numbers are of one machine on one day.

mod classes;
mod rates;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let value = |name: &str| wanted.iter().find_map(|word| word.strip_prefix(name));
    let row = value("rates=");
    if wants("rates") || row.is_some() {
        rates::report(row.unwrap_or_default(), value("only="));
    }
    if wants("shares") {
        classes::shares();
    }
    if wants("heavy") {
        classes::heavy();
    }
    if wants("deep") {
        classes::deep();
    }
    if wants("storm") {
        classes::storm();
    }
}
