//! One way of matching a set: segments that are published to readers without a lock.
//!
//! What was loaded at start is one segment. The runtime API adds one-entry segments, which are merged when they
//! are of similar size, so that n additions cost n log n and a lookup visits few segments. Deleting marks the
//! entry dead in place. Nothing of this touches a set that nobody changes: its readers never see the published
//! list, they go straight to the first segment.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use super::MatchMethod;
use super::regex::Regex;
use super::segment::{Hit, Item, Segment};
use super::set::Entry;
use crate::sample::Value;

/// A set as one match method sees it.
#[derive(Debug)]
pub struct PatternIndex {
    method: MatchMethod,
    ignore_case: bool,
    /// What was there first; used as long as `changed` is not set.
    first: Arc<Segment>,
    changed: AtomicBool,
    published: ArcSwap<Vec<Arc<Segment>>>,
}

/// A matching entry.
#[derive(Debug, Clone, Copy)]
pub struct Found<'f> {
    /// The entry.
    pub entry: &'f Entry,
    /// Its regular expression, for methods that have one.
    pub regex: Option<&'f Regex>,
}

impl PatternIndex {
    pub(super) fn new(method: MatchMethod, ignore_case: bool, items: Vec<Item>) -> PatternIndex {
        let first = Arc::new(Segment::new(method, ignore_case, items));
        PatternIndex {
            method,
            ignore_case,
            published: ArcSwap::from_pointee(vec![first.clone()]),
            first,
            changed: AtomicBool::new(false),
        }
    }

    /// The match method.
    pub fn method(&self) -> MatchMethod {
        self.method
    }

    /// Whether case is ignored.
    pub fn ignore_case(&self) -> bool {
        self.ignore_case
    }

    /// Finds the entry that matches a value, and passes it to `then`. `None` if nothing matches.
    ///
    /// The value is cast to what the method compares; one that cannot be cast matches nothing.
    pub fn find<R>(&self, value: &Value<'_>, then: impl FnOnce(Found<'_>) -> R) -> Option<R> {
        let cast = match (self.method.input(), value.kind()) {
            (wanted, kind) if wanted == kind => None,
            _ => Some(crate::variables::borrow(value).cast(self.method.input())?),
        };
        let value = cast.as_ref().unwrap_or(value);
        let lower = match value {
            Value::Str(bytes)
                if self.first.wants_lower_case() && bytes.iter().any(u8::is_ascii_uppercase) =>
            {
                let mut lower = crate::scratch::take();
                lower.extend_from_slice(bytes);
                lower.make_ascii_lowercase();
                Some(Value::Str(Cow::Owned(lower)))
            }
            _ => None,
        };
        let result = self.find_exactly(lower.as_ref().unwrap_or(value), then);
        for used in [lower, cast].into_iter().flatten() {
            crate::scratch::recycle(used);
        }
        result
    }

    /// True if some entry matches.
    pub fn matches(&self, value: &Value<'_>) -> bool {
        self.find(value, |_| ()).is_some()
    }

    fn find_exactly<R>(&self, value: &Value<'_>, then: impl FnOnce(Found<'_>) -> R) -> Option<R> {
        let found = |hit: Hit<'_>| then(Found { entry: &hit.item.entry, regex: hit.item.regex() });
        if !self.changed.load(Ordering::Acquire) {
            return self.first.find(value).map(found);
        }
        let segments = self.published.load();
        let mut best = None::<Hit<'_>>;
        for segment in segments.iter() {
            if let Some(hit) = segment.find(value) {
                if !self.method.prefers_finest() {
                    best = Some(hit);
                    break;
                }
                if best.as_ref().is_none_or(|best| hit.fineness > best.fineness) {
                    best = Some(hit);
                }
            }
        }
        best.map(found)
    }

    /// Every entry with exactly this key, of an index for equal strings.
    pub(super) fn equal(&self, key: &[u8]) -> Vec<Arc<Entry>> {
        let mut found = Vec::new();
        for segment in self.published.load().iter() {
            segment.equal(key, &mut found);
        }
        found
    }

    /// Appends an entry. The caller serialises writers.
    pub(super) fn push(&self, item: Item) {
        let mut segments: Vec<Arc<Segment>> = (**self.published.load()).clone();
        let mut items = vec![item];
        while let Some(last) = segments.last().filter(|last| last.items().len() <= items.len()) {
            let alive = last.items().iter().filter(|item| item.entry.is_alive()).cloned();
            items = alive.chain(items).collect();
            segments.pop();
        }
        segments.push(Arc::new(Segment::new(self.method, self.ignore_case, items)));
        self.publish(segments);
    }

    /// Replaces everything. The caller serialises writers.
    pub(super) fn replace(&self, items: Vec<Item>) {
        self.publish(vec![Arc::new(Segment::new(self.method, self.ignore_case, items))]);
    }

    /// Every parsed entry, for rebuilding.
    pub(super) fn alive_items(&self) -> Vec<Item> {
        let segments = self.published.load();
        segments
            .iter()
            .flat_map(|segment| segment.items())
            .filter(|item| item.entry.is_alive())
            .cloned()
            .collect()
    }

    fn publish(&self, segments: Vec<Arc<Segment>>) {
        self.published.store(Arc::new(segments));
        self.changed.store(true, Ordering::Release);
    }
}
