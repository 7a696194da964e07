//! The course that a seed gives a scenario: the network's behaviour, scarce resources, and the time of a soft stop.

use weir_sched::simulate::SeededRandom;
use weir_sched::simulate::network::Conditions;

/// The decisions of a seed before a run.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Whether faults may happen. Without faults, everything must work.
    pub faulty: bool,
    pub conditions: Conditions,
    /// The worker's limit of buffers.
    pub buffers: Option<usize>,
    /// The time of a soft stop.
    pub stop_after_ms: Option<u64>,
}

impl Course {
    /// The course of a seed. Every second one is faultless, but bytes are split and delayed in all of them.
    pub(crate) fn of(seed: u64) -> Course {
        let mut random = SeededRandom::new(!seed);
        let faulty = random.below(2) == 1;
        let mut conditions = Conditions {
            window: [512, 2_000, 16_384, 1 << 18][random.below(4) as usize],
            cuts: [0, 2, 4][random.below(3) as usize],
            latency_us: [50, 1_000, 20_000][random.below(3) as usize],
            short_sends: [0, 3, 20][random.below(3) as usize],
            spurious: [0, 20][random.below(2) as usize],
            ..Conditions::CALM
        };
        let mut course =
            Course { faulty, conditions: conditions.clone(), buffers: None, stop_after_ms: None };
        if faulty {
            conditions.resets = [0, 0, 30, 300][random.below(4) as usize];
            conditions.aborts = [0, 0, 10][random.below(3) as usize];
            if random.below(4) == 0 {
                conditions.descriptors = 3 + random.below(6) as usize;
            }
            if random.below(4) == 0 {
                course.buffers = Some(2 + random.below(6) as usize);
            }
            if random.below(3) == 0 {
                course.stop_after_ms = Some(random.below(3_000));
            }
            course.conditions = conditions;
        }
        course
    }
}
