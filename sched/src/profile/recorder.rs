//! The counters of one worker, by kind of work and origin of the wake. The worker writes, all threads read.

use super::report::{ProfileLine, WakeOrigin};
use super::{Cause, ProfileMode, ProfileSettings};
use crate::task::WorkKind;
use std::panic::Location;
use std::sync::OnceLock;
use weir_sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use weir_sync::{Counter, StaticRef};

/// Profiling settings and counters of a worker.
pub(crate) struct Recorder {
    on: AtomicBool,
    wish: AtomicU64,
    /// The settings that the entries belong to.
    epoch: AtomicU64,
    entries: OnceLock<Box<[ProfileEntry]>>,
}

/// The measurements of one run.
pub(super) struct RunSample {
    pub(super) cpu_ns: u64,
    pub(super) latency_ns: Option<u64>,
    pub(super) memory_ns: u64,
    pub(super) lock_wait_ns: u64,
    pub(super) lock_held_ns: u64,
}

/// The counters of one kind of work and one place that wakes it. Unused while `kind` is unset.
#[derive(Default)]
struct ProfileEntry {
    kind: StaticRef<WorkKind>,
    place: StaticRef<Location<'static>>,
    cause: AtomicU64,
    calls: Counter,
    cpu_ns: Counter,
    latencies: Counter,
    latency_ns: Counter,
    memory_ns: Counter,
    lock_wait_ns: Counter,
    lock_held_ns: Counter,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            on: AtomicBool::new(false),
            wish: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            entries: OnceLock::new(),
        }
    }

    /// Whether the worker measures now: wakes from other threads then carry a stamp.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    pub(super) fn set_on(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    #[inline]
    pub(super) fn wish(&self) -> u64 {
        self.wish.load(Relaxed)
    }

    /// Stores the settings for the worker to apply. A new `number` resets the counters.
    pub(crate) fn set_wish(&self, settings: ProfileSettings, number: u32) {
        self.wish.store(wish_of(settings, number), Relaxed);
    }

    /// The number of the settings.
    pub(crate) fn number(&self) -> u32 {
        number_of(self.wish())
    }

    /// The requested settings.
    pub(crate) fn settings(&self) -> ProfileSettings {
        settings_of(self.wish())
    }

    /// Makes the entries, once.
    pub(super) fn prepare(&self) {
        self.entries.get_or_init(|| (0..ENTRIES).map(|_| ProfileEntry::default()).collect());
    }

    /// Resets all counters. Called only by the worker.
    pub(super) fn clear(&self) {
        for entry in self.entries.get().into_iter().flatten() {
            entry.kind.set(None);
            entry.counters().iter().for_each(|counter| counter.reset());
        }
        self.epoch.store(u64::from(self.number()), Relaxed);
    }

    /// The index of the entry of a kind and an origin; the last entry if the table is full. Called only by the worker.
    pub(super) fn entry(
        &self,
        kind: &'static WorkKind,
        origin: Option<(&'static Location<'static>, Cause)>,
    ) -> usize {
        let Some(entries) = self.entries.get() else { return 0 };
        let (place, cause) = origin.unzip();
        let cause = cause.map_or(UNKNOWN, |cause| cause as u64);
        let mut index = hash(kind, place, cause);
        for _ in 0..PROBES {
            let entry = &entries[index];
            if entry.is(kind, place, cause) {
                return index;
            }
            if entry.kind.get().is_none() {
                entry.place.set(place);
                entry.cause.store(cause, Relaxed);
                entry.kind.set(Some(kind));
                return index;
            }
            index = (index + 1) % (ENTRIES - 1);
        }
        let last = &entries[ENTRIES - 1];
        last.place.set(None);
        last.kind.set(Some(&OTHER));
        ENTRIES - 1
    }

    /// Adds a run. Called only by the worker.
    pub(super) fn add(&self, index: usize, sample: &RunSample) {
        let Some(entry) = self.entries.get().and_then(|entries| entries.get(index)) else { return };
        entry.calls.increment();
        entry.cpu_ns.add(sample.cpu_ns);
        if let Some(latency_ns) = sample.latency_ns {
            entry.latencies.increment();
            entry.latency_ns.add(latency_ns);
        }
        // Usually zero, because these measurements are optional. Zero amounts are not added, to leave the cache lines
        // untouched.
        for (counter, amount) in [
            (&entry.memory_ns, sample.memory_ns),
            (&entry.lock_wait_ns, sample.lock_wait_ns),
            (&entry.lock_held_ns, sample.lock_held_ns),
        ] {
            if amount != 0 {
                counter.add(amount);
            }
        }
    }

    /// The counters; empty until the worker adopts the newest settings.
    pub(super) fn lines(&self) -> Vec<ProfileLine> {
        let wish = self.wish();
        let current = self.epoch.load(Relaxed) == u64::from(number_of(wish));
        if settings_of(wish).mode == ProfileMode::On && !current {
            return Vec::new();
        }
        self.entries.get().into_iter().flatten().filter_map(ProfileEntry::line).collect()
    }
}

impl ProfileEntry {
    #[inline]
    fn is(&self, kind: &'static WorkKind, place: Option<&'static Location<'static>>, cause: u64) -> bool {
        self.kind.is(kind)
            && self.cause.load(Relaxed) == cause
            && place.map_or(cause == UNKNOWN, |place| self.place.is(place))
    }

    fn counters(&self) -> [&Counter; 7] {
        [
            &self.calls,
            &self.cpu_ns,
            &self.latencies,
            &self.latency_ns,
            &self.memory_ns,
            &self.lock_wait_ns,
            &self.lock_held_ns,
        ]
    }

    fn line(&self) -> Option<ProfileLine> {
        let kind = self.kind.get()?;
        let cause = Cause::ALL.get(self.cause.load(Relaxed) as usize).copied();
        Some(ProfileLine {
            kind,
            origin: self.place.get().zip(cause).map(|(place, cause)| WakeOrigin { place, cause }),
            calls: self.calls.value(),
            cpu_ns: self.cpu_ns.value(),
            latencies: self.latencies.value(),
            latency_ns: self.latency_ns.value(),
            memory_ns: self.memory_ns.value(),
            lock_wait_ns: self.lock_wait_ns.value(),
            lock_held_ns: self.lock_held_ns.value(),
        })
        .filter(|line| line.calls > 0)
    }
}

/// The first slot to probe. Addresses of statics differ in their middle bits.
#[inline]
fn hash(kind: &'static WorkKind, place: Option<&'static Location<'static>>, cause: u64) -> usize {
    let kind = std::ptr::from_ref(kind).addr() as u64;
    let place = place.map_or(0, |place| std::ptr::from_ref(place).addr() as u64);
    let mixed = (kind ^ place.rotate_left(23) ^ cause).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize % (ENTRIES - 1)
}

fn wish_of(settings: ProfileSettings, number: u32) -> u64 {
    let flags = u64::from(settings.locks) << 2 | u64::from(settings.memory) << 3;
    u64::from(number) << 8 | flags | settings.mode as u64
}

pub(super) fn number_of(wish: u64) -> u32 {
    (wish >> 8) as u32
}

pub(super) fn settings_of(wish: u64) -> ProfileSettings {
    let mode = match wish & 3 {
        0 => ProfileMode::Off,
        1 => ProfileMode::Auto,
        _ => ProfileMode::On,
    };
    ProfileSettings { mode, locks: wish & 4 != 0, memory: wish & 8 != 0 }
}

/// Counts entries beyond the size of the table.
static OTHER: WorkKind = WorkKind::new("other");
/// Pairs of kind and place per worker, the last being "other". A program has a few dozen.
const ENTRIES: usize = 513;
/// Number of entries probed before a pair counts as "other".
const PROBES: usize = 64;
/// The cause of a run without a measured wake.
const UNKNOWN: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_settings_survive_a_round_trip() {
        for mode in [ProfileMode::Off, ProfileMode::Auto, ProfileMode::On] {
            for (locks, memory) in [(false, false), (true, false), (false, true), (true, true)] {
                let settings = ProfileSettings { mode, locks, memory };
                assert_eq!(settings_of(wish_of(settings, u32::MAX)), settings);
            }
        }
    }

    #[test]
    fn places_beyond_the_profile_table_are_counted_as_other() {
        let recorder = Recorder::new();
        recorder.prepare();
        let here = Location::caller();
        let sample =
            RunSample { cpu_ns: 1, latency_ns: None, memory_ns: 0, lock_wait_ns: 0, lock_held_ns: 0 };
        for _ in 0..2 * ENTRIES {
            let kind: &'static WorkKind = Box::leak(Box::new(WorkKind::new("many")));
            recorder.add(recorder.entry(kind, Some((here, Cause::Wake))), &sample);
        }
        let lines = recorder.lines();
        assert!(lines.len() <= ENTRIES);
        assert_eq!(lines.iter().map(|line| line.calls).sum::<u64>(), 2 * ENTRIES as u64);
        assert!(lines.iter().any(|line| line.kind.name == "other" && line.calls > 0));
        recorder.clear();
        assert!(recorder.lines().is_empty());
    }
}
