//! The number of tasks of each class that run in a scheduling round, as a pure function independent of the queues.

/// How urgent a task is, in falling order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
    /// Small work that others wait for: accepting, waking, answering an operator.
    Urgent,
    /// Ordinary work, in order of `nice`.
    #[default]
    Normal,
    /// Work that is always runnable: tasks that wake themselves.
    Bulk,
    /// Long computation that does not yield (a piece of an operator's dump, a TLS handshake). At most one per scheduling round (R44).
    Heavy,
}

/// Number of queued tasks, by [`Class`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// In the order urgent, normal, bulk, heavy.
    pub queued: [u32; CLASSES],
}

/// Number of tasks of each class that may run in this scheduling round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// In the order urgent, normal, bulk, heavy.
    pub runs: [u32; CLASSES],
}

/// Parameters that the operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerTuning {
    /// Maximum number of tasks that run between two polls (`tune.runqueue-depth`).
    pub runqueue_depth: u32,
    /// Whether queued tasks of a higher class run before the rest of a lower one within a round (`tune.sched.low-latency`, R39).
    pub low_latency: bool,
    /// Weights of urgent, normal and bulk work when each has more queued tasks than its share (R30).
    pub weights: [u32; SHARING],
}

impl Default for SchedulerTuning {
    fn default() -> Self {
        Self { runqueue_depth: 200, low_latency: false, weights: [16, 33, 50] }
    }
}

/// Computes the budget of a scheduling round.
///
/// - If all entries fit the depth, all run, and the rest of the depth is shared among the classes for entries that are
///   woken during the round.
/// - Between once and twice the depth, half of it runs now and half in the next round (R1): better than a full round and a small
///   remainder.
/// - Beyond, classes get their shares of the depth; a class leaves its unused share to the others (R30, R32).
/// - One heavy entry at most (R44), on top of the others, which it must not block (R31).
pub fn turn(load: &Load, tuning: &SchedulerTuning) -> Budget {
    #[cfg(test)]
    TURNS.set(TURNS.get() + 1);
    let depth = tuning.runqueue_depth.max(1);
    let queued = [load.queued[0], load.queued[1], load.queued[2]];
    let heavy = load.queued[Class::Heavy as usize].min(1);
    let total = queued.iter().fold(0, |sum: u32, &class| sum.saturating_add(class));
    let [urgent, normal, bulk] = if total <= depth {
        with_spare(queued, depth - total, &tuning.weights)
    } else if total < depth.saturating_mul(2) {
        shares(queued, total.div_ceil(2), &tuning.weights)
    } else {
        shares(queued, depth, &tuning.weights)
    };
    Budget { runs: [urgent, normal, bulk, heavy] }
}

/// All queued entries, plus for each class its share of `spare`.
fn with_spare(queued: [u32; SHARING], spare: u32, weights: &[u32; SHARING]) -> [u32; SHARING] {
    let total = total_weight(weights, |_| true);
    let share =
        |class: usize| (u64::from(spare) * u64::from(weights[class])).checked_div(total).unwrap_or(0) as u32;
    std::array::from_fn(|class| queued[class] + share(class))
}

/// Splits `room` by weight among the classes that have work, and splits unused shares again.
fn shares(queued: [u32; SHARING], room: u32, weights: &[u32; SHARING]) -> [u32; SHARING] {
    let mut runs = [0; SHARING];
    let mut left = room;
    // Each pass but the last satisfies at least one class.
    for _ in 0..SHARING {
        let wants: [bool; SHARING] = std::array::from_fn(|class| queued[class] > runs[class]);
        let total = total_weight(weights, |class| wants[class]);
        if left == 0 || total == 0 {
            break;
        }
        let round = left;
        for class in (0..SHARING).filter(|&class| wants[class]) {
            let share = (u64::from(round) * u64::from(weights[class]) / total) as u32;
            let granted = share.min(queued[class] - runs[class]);
            runs[class] += granted;
            left -= granted;
        }
    }
    // Rounding leaves less than one run per class. The most urgent class that can use it gets it.
    for class in 0..SHARING {
        let granted = left.min(queued[class] - runs[class]);
        runs[class] += granted;
        left -= granted;
    }
    runs
}

fn total_weight(weights: &[u32; SHARING], counts: impl Fn(usize) -> bool) -> u64 {
    (0..SHARING).filter(|&class| counts(class)).map(|class| u64::from(weights[class])).sum()
}

/// In the order urgent, normal, bulk, heavy.
pub(crate) const CLASSES: usize = 4;
/// Classes that share the depth: all but heavy.
const SHARING: usize = 3;

#[cfg(test)]
thread_local! {
    /// How often the current thread planned a round.
    pub(crate) static TURNS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(depth: u32, queued: [u32; CLASSES], expected: [u32; CLASSES]) {
        let tuning = SchedulerTuning { runqueue_depth: depth, ..SchedulerTuning::default() };
        assert_eq!(turn(&Load { queued }, &tuning).runs, expected, "depth {depth}, queued {queued:?}");
    }

    #[test]
    fn a_queue_below_twice_the_depth_is_split_into_equal_halves() {
        // R1, with only one class: N <= D, D < N < 2D, N >= 2D.
        check(100, [0, 100, 0, 0], [0, 100, 0, 0]);
        check(100, [0, 101, 0, 0], [0, 51, 0, 0]);
        check(100, [0, 199, 0, 0], [0, 100, 0, 0]);
        check(100, [0, 200, 0, 0], [0, 100, 0, 0]);
        check(100, [0, 90_000, 0, 0], [0, 100, 0, 0]);
    }

    #[test]
    fn full_classes_share_a_turn_by_weight() {
        // R30: 16%, 33%, 50% of the total of the three; the entry lost in rounding goes to urgent.
        check(99, [1000, 1000, 1000, 0], [16, 33, 50, 0]);
        check(200, [1000, 1000, 1000, 0], [33, 66, 101, 0]);
    }

    #[test]
    fn other_classes_get_the_unused_share_of_a_class() {
        check(99, [1, 1000, 1000, 0], [1, 39, 59, 0]);
        check(99, [0, 0, 1000, 0], [0, 0, 99, 0]);
        check(99, [1000, 0, 5, 0], [94, 0, 5, 0]);
    }

    #[test]
    fn one_heavy_entry_runs_per_turn_in_addition_to_the_depth() {
        // R31, R44.
        check(99, [0, 0, 0, 10], [16, 33, 50, 1]);
        check(99, [1000, 1000, 1000, 1000], [16, 33, 50, 1]);
    }

    #[test]
    fn zero_weights_and_empty_queues_do_not_divide_by_zero() {
        // R32.
        check(0, [0; CLASSES], [0, 0, 0, 0]);
        let tuning = SchedulerTuning { weights: [0; SHARING], ..SchedulerTuning::default() };
        assert_eq!(turn(&Load { queued: [1, 0, 0, 0] }, &tuning).runs, [1, 0, 0, 0]);
        assert_eq!(turn(&Load { queued: [500, 500, 0, 0] }, &tuning).runs, [200, 0, 0, 0]);
    }

    #[test]
    fn unused_budget_is_available_to_tasks_woken_during_the_turn() {
        check(200, [1, 0, 0, 0], [33, 66, 100, 0]);
    }

    proptest! {
        #[test]
        fn every_turn_makes_progress_within_its_depth(
            queued in prop::array::uniform4(0..5000_u32),
            depth in 1..1000_u32,
            weights in prop::array::uniform3(0..100_u32),
        ) {
            let tuning = SchedulerTuning { runqueue_depth: depth, low_latency: false, weights };
            let runs = turn(&Load { queued }, &tuning).runs;
            let total: u32 = queued[..SHARING].iter().sum();
            let usable: u32 = (0..SHARING).map(|class| runs[class].min(queued[class])).sum();
            prop_assert!(runs[..SHARING].iter().sum::<u32>() <= depth);
            prop_assert!(runs[3] <= 1 && (runs[3] == 1) == (queued[3] > 0));
            let expected = if total <= depth { total } else if total < 2 * depth { total.div_ceil(2) } else { depth };
            prop_assert_eq!(usable, expected);
        }
    }
}
