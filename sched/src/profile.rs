//! Costs of each kind of work, by the source location that woke the task (R73, R77).
//!
//! ```text
//!  wake ──► note of the slot: when, where ──► run ──► counters of (kind, place) ──► report
//!           (or a stamp in the wake list,                (one writer, bounded,      (sums over
//!            when it comes from elsewhere)                readable by all)           the workers)
//! ```
//! While profiling is off, a wake and a run cost one predictable branch each, on a flag in the worker. While it is on,
//! a run costs two clock reads and a wake costs one. Neither allocates: places are `&'static` locations that callers
//! pass down (`#[track_caller]`), and notes are allocated with their slots.
//!
//! With `auto`, each worker turns profiling on when its average loop takes 1 ms, and off again below 990 us (manual, `profiling.tasks`).

mod recorder;
mod report;

pub(crate) use recorder::Recorder;
pub(crate) use report::of_workers;
pub use report::{ProfileLine, ProfileReport, WakeOrigin};

use crate::task::WorkKind;
use recorder::RunSample;
use std::cell::Cell;
use std::panic::Location;
use weir_containers::Arena;
use weir_sync::WakeStamp;

/// Whether work is measured (`profiling.tasks`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfileMode {
    Off,
    /// On each worker while its average loop is slow.
    #[default]
    Auto,
    On,
}

/// The profiling settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProfileSettings {
    pub mode: ProfileMode,
    /// Whether time spent on locks is measured too.
    pub locks: bool,
    /// Whether time spent on memory allocation is measured too.
    pub memory: bool,
}

/// The cause of a task's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    Spawn,
    Wake,
    /// An event on one of its descriptors.
    Event,
    Deadline,
    /// The task yielded.
    Yield,
    Kill,
}

impl Cause {
    pub(crate) const ALL: [Self; 6] =
        [Self::Spawn, Self::Wake, Self::Event, Self::Deadline, Self::Yield, Self::Kill];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spawn => "task_spawn",
            Self::Wake => "task_wakeup",
            Self::Event => "io_wakeup",
            Self::Deadline => "timer_wakeup",
            Self::Yield => "self_wakeup",
            Self::Kill => "task_kill",
        }
    }
}

/// The profiling of one worker.
pub(crate) struct Profiler {
    on: Cell<bool>,
    /// The last settings that were adopted.
    wish: Cell<u64>,
    mode: Cell<ProfileMode>,
    notes: Arena<Note>,
    /// Sum over about the last [`LOOPS`] loops, in nanoseconds.
    loops_ns: Cell<u64>,
    /// When the last measured run ended, in nanoseconds; 0 if something else happened since.
    ended_ns: Cell<u64>,
}

/// The first wake of a queued slot.
#[derive(Default)]
struct Note {
    /// When the wake happened; 0 if it was not measured (R78).
    date_ns: Cell<u64>,
    place: Cell<Option<&'static Location<'static>>>,
    cause: Cell<Option<Cause>>,
    /// How often the task ran while it was measured.
    calls: Cell<u64>,
}

/// A run that is being measured.
pub(crate) struct RunMeasurement {
    entry: usize,
    started_ns: u64,
    latency_ns: Option<u64>,
    memory_ns: u64,
    lock_ns: (u64, u64),
}

impl Profiler {
    pub(crate) fn new() -> Self {
        Self {
            on: Cell::new(false),
            wish: Cell::new(0),
            mode: Cell::new(ProfileMode::Off),
            notes: Arena::new(),
            loops_ns: Cell::new(0),
            ended_ns: Cell::new(0),
        }
    }

    /// Whether runs and wakes are measured on this worker now.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Makes room for the note of a new slot, so that no wake allocates.
    #[cold]
    pub(crate) fn make_room(&self, slots: u32) {
        while self.notes.len() < slots {
            if self.notes.push_default().is_none() {
                break;
            }
        }
    }

    /// Resets the note of a slot for a new task.
    #[cold]
    pub(crate) fn begin_task(&self, slot: u32) {
        self.make_room(slot + 1);
        if let Some(note) = self.notes.get(slot) {
            note.date_ns.set(0);
            note.calls.set(0);
        }
    }

    /// Records a wake, unless the slot already has an earlier one.
    #[inline(never)]
    pub(crate) fn note(&self, slot: u32, date_ns: u64, cause: Cause, place: &'static Location<'static>) {
        let Some(note) = self.notes.get(slot) else { return };
        if note.date_ns.get() == 0 {
            note.date_ns.set(date_ns);
            note.place.set(Some(place));
            note.cause.set(Some(cause));
        }
    }

    /// Records a wake from another thread. Without a stamp, its time is unknown and it is ignored.
    #[cold]
    pub(crate) fn note_stamp(&self, slot: u32, stamp: Option<WakeStamp>) {
        if let Some(WakeStamp { date_ns, place }) = stamp {
            self.note(slot, date_ns, Cause::Wake, place);
        }
    }

    /// The source location that woke the queued task in this slot. `None` if the wake was not measured.
    pub(crate) fn place(&self, slot: u32) -> Option<&'static Location<'static>> {
        self.notes.get(slot).filter(|note| note.date_ns.get() != 0).and_then(|note| note.place.get())
    }

    /// Begins to measure a run. Takes the time of the wake before the task can be woken again (R66).
    #[inline(never)]
    pub(crate) fn begin(
        &self,
        recorder: &Recorder,
        slot: u32,
        kind: &'static WorkKind,
        clock: impl Fn() -> u64,
    ) -> RunMeasurement {
        let (mut origin, mut date_ns) = (None, 0);
        if let Some(note) = self.notes.get(slot) {
            date_ns = note.date_ns.replace(0);
            note.calls.set(note.calls.get() + 1);
            if date_ns != 0 {
                origin = note.place.get().zip(note.cause.get());
            }
        }
        // Between two runs of one scheduling round nothing else happens, so one clock read serves both.
        let started_ns = match self.ended_ns.get() {
            0 => clock(),
            ended_ns => ended_ns,
        };
        RunMeasurement {
            entry: recorder.entry(kind, origin),
            started_ns,
            latency_ns: (date_ns != 0).then(|| started_ns.saturating_sub(date_ns)),
            memory_ns: weir_memory::spent_ns(),
            lock_ns: weir_sync::lock_times_ns(),
        }
    }

    /// Ends the measuring of a run.
    #[inline(never)]
    pub(crate) fn end(&self, recorder: &Recorder, run: RunMeasurement, now_ns: u64) {
        self.ended_ns.set(now_ns);
        let (waited_ns, held_ns) = weir_sync::lock_times_ns();
        recorder.add(
            run.entry,
            &RunSample {
                cpu_ns: now_ns.saturating_sub(run.started_ns),
                latency_ns: run.latency_ns,
                memory_ns: weir_memory::spent_ns().wrapping_sub(run.memory_ns),
                lock_wait_ns: waited_ns.wrapping_sub(run.lock_ns.0),
                lock_held_ns: held_ns.wrapping_sub(run.lock_ns.1),
            },
        );
    }

    /// Records that something other than a run happened, so that the next run reads the clock.
    #[inline]
    pub(crate) fn interrupt(&self) {
        self.ended_ns.set(0);
    }

    /// Ends an iteration of the event loop of a worker with `slots` slots, which was busy for `busy_ns`. Returns the
    /// average over about the last thousand iterations in nanoseconds.
    #[inline]
    pub(crate) fn end_loop(&self, recorder: &Recorder, slots: u32, busy_ns: u64) -> u64 {
        let sum = self.loops_ns.get();
        let sum = sum - sum / LOOPS + busy_ns.min(LONGEST_LOOP_NS);
        self.loops_ns.set(sum);
        let average_ns = sum / LOOPS;
        let settled = wanted(self.mode.get(), self.on.get(), average_ns) == self.on.get();
        if !settled || recorder.wish() != self.wish.get() {
            self.adopt(recorder, slots, average_ns);
        }
        average_ns
    }

    /// Turns profiling on or off according to the operator's settings and the load.
    #[cold]
    fn adopt(&self, recorder: &Recorder, slots: u32, average_ns: u64) {
        let wish = recorder.wish();
        let settings = recorder::settings_of(wish);
        let fresh = recorder::number_of(wish) != recorder::number_of(self.wish.replace(wish));
        self.mode.set(settings.mode);
        if fresh && settings.mode == ProfileMode::On {
            recorder.clear();
        }
        let on = wanted(settings.mode, self.on.get(), average_ns);
        if on && !self.on.get() {
            recorder.prepare();
            self.make_room(slots);
            // Tasks queued now were woken before measuring began, so their dates are not valid (R78).
            self.notes.iter().for_each(|note| note.date_ns.set(0));
        }
        weir_sync::measure_locks(on && settings.locks);
        self.on.set(on);
        self.interrupt();
        recorder.set_on(on);
    }

    /// Number of measured runs of the task in this slot, and the time of its wake. `None` if it is not queued or not measured.
    pub(crate) fn waiting(&self, slot: u32) -> (u64, Option<u64>) {
        self.notes.get(slot).map_or((0, None), |note| {
            (note.calls.get(), Some(note.date_ns.get()).filter(|date_ns| *date_ns != 0 && self.on.get()))
        })
    }
}

/// Whether a worker profiles. `auto` has hysteresis between its two thresholds, so that it does not flap.
#[inline]
fn wanted(mode: ProfileMode, on: bool, average_ns: u64) -> bool {
    match mode {
        ProfileMode::Off => false,
        ProfileMode::On => true,
        ProfileMode::Auto if on => average_ns >= AUTO_OFF_NS,
        ProfileMode::Auto => average_ns >= AUTO_ON_NS,
    }
}

/// Number of loop iterations in the average (manual, `profiling.tasks`).
const LOOPS: u64 = 1024;
/// `auto` turns on at this average.
const AUTO_ON_NS: u64 = 1_000_000;
/// `auto` turns off below this average.
const AUTO_OFF_NS: u64 = 990_000;
/// Longer iterations count as this long, so that the sum cannot overflow.
const LONGEST_LOOP_NS: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use ProfileMode::{Auto, Off, On};

    /// R73: the manual's thresholds of `auto`, and that it holds between them.
    #[test]
    fn automatic_profiling_starts_at_1000_us_and_stops_below_990_us() {
        for (mode, on, average_us, expected) in [
            (Off, true, 5000, false),
            (On, false, 0, true),
            (Auto, false, 999, false),
            (Auto, false, 1000, true),
            (Auto, true, 995, true),
            (Auto, true, 990, true),
            (Auto, true, 989, false),
        ] {
            assert_eq!(wanted(mode, on, average_us * 1000), expected, "{mode:?} {on} {average_us}");
        }
    }

    #[test]
    fn automatic_profiling_runs_while_the_loops_of_a_worker_are_slow() {
        let (profiler, recorder) = (Profiler::new(), Recorder::new());
        recorder.set_wish(ProfileSettings { mode: Auto, ..ProfileSettings::default() }, 1);
        let mut loops = 0;
        while !profiler.is_on() && loops < 10_000 {
            profiler.end_loop(&recorder, 2, 2_000_000);
            loops += 1;
        }
        // At twice the threshold the average passes it after about half of the averaged loops.
        assert!((500..1000).contains(&loops), "{loops}");
        while profiler.is_on() && loops < 20_000 {
            profiler.end_loop(&recorder, 2, 1000);
            loops += 1;
        }
        assert!(loops < 1200, "{loops}");
        assert!(!recorder.is_on());
    }

    /// R78: a task woken before profiling began is counted without a latency; the latency of a task woken twice counts
    /// from the first wake.
    #[test]
    fn a_task_woken_before_profiling_is_counted_without_a_latency() {
        static KIND: WorkKind = WorkKind::new("work");
        let (profiler, recorder) = (Profiler::new(), Recorder::new());
        let here = Location::caller();
        profiler.make_room(2);
        profiler.note(0, 5, Cause::Wake, here);
        recorder.set_wish(ProfileSettings { mode: On, ..ProfileSettings::default() }, 1);
        profiler.end_loop(&recorder, 2, 0);
        assert!(profiler.is_on());
        let run = profiler.begin(&recorder, 0, &KIND, || 1_000);
        assert_eq!(run.latency_ns, None);
        profiler.end(&recorder, run, 1_300);
        profiler.note(1, 1_100, Cause::Wake, here);
        profiler.note(1, 1_200, Cause::Event, here);
        // The end of the run before is the beginning of this one.
        let run = profiler.begin(&recorder, 1, &KIND, || unreachable!("known"));
        assert_eq!(run.latency_ns, Some(200));
        profiler.end(&recorder, run, 1_400);
        let lines = recorder.lines();
        assert_eq!(lines.len(), 2);
        let total: u64 = lines.iter().map(|line| line.cpu_ns).sum();
        assert_eq!((total, lines.iter().map(|line| line.latency_ns).sum::<u64>()), (400, 200));
        assert!(lines.iter().any(|line| line.latencies == 0 && line.origin.is_none()));
    }
}
