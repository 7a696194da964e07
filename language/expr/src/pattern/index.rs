//! The index of a set for one match method: segments that are published to readers without a lock.
//!
//! The entries loaded at start are one segment. The runtime API adds segments of one entry. Segments of similar size are merged, so that
//! n additions cost n log n and a lookup visits few segments. A merge has a bound, since a worker performs it. Deletion marks the entry
//! as deleted. Readers of a small set use the first segment directly until a list is published. A large set publishes a list at once,
//! since its replaced segments are freed.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use weir_fingerprint::{Canonical, FormEncoder};

use super::MatchMethod;
use super::discarded::discard_published;
use super::entry::{PatternEntry, encode_entries};
use super::regex::Regex;
use super::segment::{Hit, Segment, SegmentItem};
use super::set::SetName;
use crate::location::Location;
use crate::sample::Value;

/// The index of a set for one match method.
#[derive(Debug)]
pub struct PatternIndex {
    set: SetName,
    method: MatchMethod,
    ignore_case: bool,
    /// The first rule that uses this method.
    at: Location,
    /// The first segment of a small set. Used until a list is published.
    first: Option<Segment>,
    published: OnceLock<ArcSwap<Vec<Arc<Segment>>>>,
}

/// Encoded as the set, the method, the case and the entries. The split into segments does not count.
impl Canonical for PatternIndex {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let PatternIndex { set, method, ignore_case, at: _, first, published } = self;
        (set, *method, *ignore_case).encode(out);
        let is_by_key = matches!(method, MatchMethod::Str | MatchMethod::Beg);
        match (published.get(), first) {
            (Some(published), _) => {
                let segments = published.load();
                encode_entries(segments.iter().flat_map(|segment| segment.entries()), is_by_key, out);
            }
            (None, first) => {
                encode_entries(first.iter().flat_map(|segment| segment.entries()), is_by_key, out);
            }
        }
    }
}

/// The entry that matched.
#[derive(Debug, Clone, Copy)]
pub struct PatternMatch<'f> {
    pub entry: &'f PatternEntry,
    /// The regular expression of the entry, for methods that have one.
    pub regex: Option<&'f Regex>,
}

impl PatternIndex {
    pub(super) fn new(
        set: SetName,
        method: MatchMethod,
        ignore_case: bool,
        items: Vec<SegmentItem>,
        at: Location,
    ) -> PatternIndex {
        let first = Segment::new(method, ignore_case, items);
        let (first, published) = match first.len() <= DIRECT_MAX {
            true => (Some(first), OnceLock::new()),
            false => (None, OnceLock::from(ArcSwap::from_pointee(vec![Arc::new(first)]))),
        };
        PatternIndex { set, method, ignore_case, at, first, published }
    }

    /// An index that finds entries by their text, for changes.
    pub(super) fn by_text(items: Vec<SegmentItem>) -> PatternIndex {
        PatternIndex::new(SetName::Words, MatchMethod::Str, false, items, Location::default())
    }

    /// Parses an entry into the form that this index compares.
    pub(super) fn parse(&self, entry: &Arc<PatternEntry>) -> Result<SegmentItem, String> {
        SegmentItem::parse(self.method, self.ignore_case, entry.clone(), &self.at)
    }

    /// The match method.
    pub fn method(&self) -> MatchMethod {
        self.method
    }

    /// Whether case is ignored.
    pub fn ignore_case(&self) -> bool {
        self.ignore_case
    }

    /// Finds the entry that matches a value, and passes it to `then`. `None` if no entry matches.
    ///
    /// The value is cast to the input type of the method. A value that cannot be cast matches nothing.
    pub fn find<R>(&self, value: &Value<'_>, then: impl FnOnce(PatternMatch<'_>) -> R) -> Option<R> {
        let wants_cast = match (self.method, value) {
            // No cast: IPv4 and IPv6 addresses are compared with each other.
            (MatchMethod::Ip, Value::Ipv4(_) | Value::Ipv6(_)) => false,
            _ => value.kind() != self.method.input(),
        };
        if !wants_cast && !self.wants_lower_case() {
            return self.find_exactly(value, then);
        }
        let cast = match wants_cast {
            true => Some(crate::variables::borrow(value).cast(self.method.input())?),
            false => None,
        };
        let value = cast.as_ref().unwrap_or(value);
        let lower = match value {
            Value::Str(bytes) if self.wants_lower_case() && bytes.iter().any(u8::is_ascii_uppercase) => {
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

    /// Whether an entry matches.
    pub fn matches(&self, value: &Value<'_>) -> bool {
        self.find(value, |_| ()).is_some()
    }

    fn find_exactly<R>(&self, value: &Value<'_>, then: impl FnOnce(PatternMatch<'_>) -> R) -> Option<R> {
        let found = |hit: Hit<'_>| then(PatternMatch { entry: hit.entry, regex: hit.regex });
        let Some(published) = self.published.get() else {
            return self.first.as_ref()?.find(value).map(found);
        };
        let segments = published.load();
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

    /// Every entry with exactly this key, in an index for equal strings.
    pub(super) fn equal(&self, key: &[u8]) -> Vec<Arc<PatternEntry>> {
        let mut found = Vec::new();
        match (self.published.get(), &self.first) {
            (Some(published), _) => {
                published.load().iter().for_each(|segment| segment.equal(key, &mut found));
            }
            (None, Some(first)) => first.equal(key, &mut found),
            (None, None) => {}
        }
        found
    }

    /// True if subjects must be converted to lower case.
    fn wants_lower_case(&self) -> bool {
        self.ignore_case && !matches!(self.method, MatchMethod::Reg | MatchMethod::Bin | MatchMethod::Len)
    }

    /// Appends an entry. The caller serializes writers.
    pub(super) fn push(&self, item: SegmentItem) {
        let mut segments: Vec<Arc<Segment>> = (*self.segments()).clone();
        self.append(&mut segments, item);
        self.publish(segments);
    }

    /// Appends an entry to unpublished segments.
    pub(super) fn append(&self, segments: &mut Vec<Arc<Segment>>, item: SegmentItem) {
        let mut items = vec![item];
        let most = MERGE_MAX.max(segments.iter().map(|segment| segment.len()).sum::<usize>() / 32);
        let similar = |last: &&Arc<Segment>, items: &Vec<SegmentItem>| {
            last.len() <= items.len() && last.len() + items.len() <= most
        };
        while let Some(last) = segments.last().filter(|last| similar(last, &items)) {
            items = last.alive_items().chain(items).collect();
            segments.pop();
        }
        segments.push(Arc::new(Segment::new(self.method, self.ignore_case, items)));
    }

    /// Replaces all segments. The caller serializes writers.
    pub(super) fn replace(&self, segments: Vec<Arc<Segment>>) {
        if let Some(former) = self.publish(segments) {
            discard_published(former);
        }
    }

    /// Removes deleted entries. The caller serializes writers.
    pub(super) fn sweep(&self) {
        let segments = self.segments();
        let items = segments.iter().flat_map(|segment| segment.alive_items()).collect();
        self.replace(vec![Arc::new(Segment::new(self.method, self.ignore_case, items))]);
    }

    /// The published list, or one with a copy of the first segment.
    pub(super) fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        let copy = |first: &Segment| {
            Arc::new(Segment::new(self.method, self.ignore_case, first.alive_items().collect()))
        };
        match self.published.get() {
            Some(published) => published.load_full(),
            None => Arc::new(self.first.iter().map(copy).collect()),
        }
    }

    /// A copy of a segment without its deleted entries. None if there are too few of them.
    pub(super) fn swept(&self, segment: &Segment) -> Option<Segment> {
        let items = segment.alive_items().collect::<Vec<_>>();
        let dead = segment.len() - items.len();
        (dead * WORTH_SWEEPING > segment.len()).then(|| Segment::new(self.method, self.ignore_case, items))
    }

    /// Replaces a segment by a newer one, if it is still published. The caller serializes writers.
    pub(super) fn exchange(&self, former: &Arc<Segment>, newer: Segment) {
        let mut segments = (*self.segments()).clone();
        if let Some(place) = segments.iter_mut().find(|segment| Arc::ptr_eq(segment, former)) {
            *place = Arc::new(newer);
            if let Some(former) = self.publish(segments) {
                discard_published(former);
            }
        }
    }

    /// Publishes a list. Returns the previous one.
    fn publish(&self, segments: Vec<Arc<Segment>>) -> Option<Arc<Vec<Arc<Segment>>>> {
        let segments = Arc::new(segments);
        match self.published.get() {
            Some(published) => Some(published.swap(segments)),
            None => {
                let _ = self.published.set(ArcSwap::new(segments));
                None
            }
        }
    }
}

/// The largest first segment that is never freed, so that lookups in unchanged sets need no published list.
const DIRECT_MAX: usize = 1024;
/// A segment is swept only if more than one in this many entries is deleted.
const WORTH_SWEEPING: usize = 8;
/// The limit of entries in one merge (or a thirty-second of all entries, if that is more): some ten milliseconds.
const MERGE_MAX: usize = 1 << 16;
