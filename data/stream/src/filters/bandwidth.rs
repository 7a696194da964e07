//! `filter bwlim-in` and `filter bwlim-out`: limit the bytes per period (manual, 9.7).
//!
//! Credit grows linearly with time. A quiet stream keeps at most [`GRAIN_MS`] worth of credit, so no period passes more than the limit
//! plus that credit. Credit starts at zero, so the average holds from the first byte on.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_config::numbers::{delay_of, size_of};
use weir_config::proxy::{FilterContext, filter};
use weir_config::rows::DefaultValue::Described;
use weir_config::words::{Fault, Parsed, Words, fault};
use weir_expr::table::DataType;
use weir_expr::{Expr, Reference};
use weir_fingerprint::Canonical;
use weir_model::{BandwidthFacts, FilterArguments, FilterDirection, FilterFacts, SharedRate, Visit};
use weir_mux::{Failed, Filter, FilterOutput, More, Passed};
use weir_sched::Tick;

use super::shared_bandwidth::{SharedBandwidth, SharedEntry};
use super::{FilterParts, Row, StreamFilter};
use crate::instance::Proxy;
use crate::stream::Stream;
use crate::stream::attached::Attachment;

pub(super) const ROWS: &[Row] = &[
    filter(
        "BWLIM",
        "bwlim-in",
        ARGUMENTS,
        "a default-limit 1m default-period 1s",
        "limit what streams receive from clients",
        |context, words| read(context, words, FilterDirection::Request),
    )
    .default(Described("`min-size` is 0")),
    filter(
        "BWLIM",
        "bwlim-out",
        ARGUMENTS,
        "b default-limit 1m default-period 1s min-size 2896",
        "limit what streams send to clients",
        |context, words| read(context, words, FilterDirection::Response),
    )
    .default(Described("`min-size` is 0")),
];

const ARGUMENTS: &str = "<name> { default-limit <size> default-period <time> | limit <size> key <key> [table <table>] } \
                         [min-size <sz>]";

/// A bandwidth limit per stream, or shared by all streams of one key. `set-bandwidth-limit` enables it.
#[derive(Debug, Canonical)]
pub(super) struct BandwidthFilter {
    /// The filter's name in rules.
    pub name: Box<str>,
    pub direction: FilterDirection,
    /// `default-limit`, or `limit` of a shared limit, in bytes per period. Never 0.
    pub limit: u64,
    /// `default-period`. 0 only for a shared limit: there the table defines the period.
    pub period: Duration,
    /// `min-size`: minimum bytes forwarded at a time, except at the end.
    pub min_size: u64,
    /// `key`: the streams of one key share the limit. `None` for a limit per stream.
    pub shared: Option<Box<SharedLimit>>,
}

/// The key and the table of a shared limit.
#[derive(Debug, Canonical)]
pub(super) struct SharedLimit {
    /// `key`: the key of the table entry, evaluated when a rule enables the filter.
    pub key: Arc<Expr>,
    /// `table`, else the proxy's own table. Its entries count the bytes.
    pub table: Reference,
}

fn read(
    context: &mut FilterContext<'_, '_>,
    words: &mut Words<'_>,
    direction: FilterDirection,
) -> Parsed<Arc<dyn FilterArguments>> {
    let who = context.word;
    let name = words.expect(&format!("'filter' : '{who}' : a name is expected as first argument "))?;
    let (mut limit, mut period, mut min_size) = (0, Duration::ZERO, 0);
    let (mut shared_limit, mut key, mut table, mut for_stream) = (0, None, None, false);
    while let Some(option) = words.take() {
        let missing = format!("'filter' : '{who}' : the value is missing for '{option}' option");
        let invalid = |mut bad: Fault| {
            let said = format!("'filter' : '{who}' : invalid value for option '{option}' ({})", bad.message);
            bad.message = said;
            bad
        };
        match option.text() {
            "default-limit" => {
                for_stream = true;
                limit = size_of(words.expect(&missing)?, "default-limit").map_err(invalid)?;
            }
            "default-period" => {
                for_stream = true;
                let word = words.expect(&missing)?;
                period = delay_of(words, word, "default-period").map_err(invalid)?;
            }
            "min-size" => min_size = size_of(words.expect(&missing)?, "min-size").map_err(invalid)?,
            "limit" => shared_limit = size_of(words.expect(&missing)?, "limit").map_err(invalid)?,
            "key" => {
                key = Some(context.expression(words)?);
            }
            "table" => {
                table = Some(words.expect(&missing)?.text().to_owned());
            }
            other => {
                return Err(fault(option.span(), format!("'filter {who}' : unknown keyword '{other}'.")));
            }
        }
    }
    let lacks = |what: &str| words.fault(format!("'filter' : '{who}' : <{what}> option is missing"));
    if key.is_some() || shared_limit > 0 || table.is_some() {
        if for_stream {
            let said = format!("'filter' : '{who}' : cannot mix per-stream and shared parameter");
            return Err(fault(name.span(), said));
        }
        if key.is_none() {
            return Err(lacks("key"));
        }
        if shared_limit == 0 {
            return Err(lacks("limit"));
        }
        limit = shared_limit;
    } else if period < Duration::from_millis(1) {
        return Err(lacks("default-period"));
    } else if limit == 0 {
        return Err(lacks("default-limit"));
    }
    let mut limits = context.earlier().iter().filter_map(|filter| filter.facts().bandwidth);
    if limits.any(|limit| *limit.name == *name.text()) {
        let said = format!(
            "'filter' : bwlim filter '{name}' already declared for proxy '{}'",
            context.section_name()
        );
        return Err(fault(name.span(), said));
    }
    let shared = key.map(|key| {
        let table = context.table(table.as_deref(), words);
        Box::new(SharedLimit { key, table })
    });
    let name = name.text().into();
    Ok(BandwidthFilter { name, direction, limit, period, min_size, shared }.into_arguments())
}

impl BandwidthFilter {
    /// The table's data type that counts this direction's bytes.
    fn data(&self) -> DataType {
        match self.direction {
            FilterDirection::Request => DataType::BytesInRate,
            FilterDirection::Response => DataType::BytesOutRate,
        }
    }
}

impl StreamFilter for BandwidthFilter {
    fn sees(&self, direction: FilterDirection) -> bool {
        self.direction == direction
    }

    fn attach(&self, _: &Stream, _: &Proxy) -> FilterParts {
        let (filter, bound): (Box<dyn Filter>, Bound) = match self.shared {
            Some(_) => {
                let entry = Rc::<SharedEntry>::default();
                let filter = SharedBandwidth::new(Rc::clone(&entry), self.data(), self.limit, self.min_size);
                (Box::new(filter), Bound::Shared(entry))
            }
            None => {
                let limit = Limit::default();
                (Box::new(Bandwidth::new(Rc::clone(&limit), self.min_size)), Bound::Own(limit))
            }
        };
        let attachment: Option<Box<dyn Attachment>> = Some(Box::new(bound));
        match self.direction {
            FilterDirection::Request => FilterParts { request: Some(filter), response: None, attachment },
            FilterDirection::Response => FilterParts { request: None, response: Some(filter), attachment },
        }
    }

    fn visit_references(&self, visit: Visit<'_>) {
        if let Some(shared) = &self.shared {
            shared.key.visit_references(visit);
            visit(&shared.table);
        }
    }

    fn facts(&self) -> FilterFacts<'_> {
        let data = self.data();
        let shared = self.shared.as_ref().map(|said| SharedRate { key: &said.key, table: &said.table, data });
        let bandwidth = Some(BandwidthFacts { name: &self.name, shared });
        FilterFacts { bandwidth, ..FilterFacts::NONE }
    }
}

/// A rule's access to the limit of a stream.
enum Bound {
    /// The stream's own rate.
    Own(Limit),
    /// The key's table entry. All streams of the key share the limit.
    Shared(Rc<SharedEntry>),
}

impl Attachment for Bound {}

/// `set-bandwidth-limit`: enables the proxy's filter of this name. Missing values come from the `filter` line.
pub(crate) fn limit_bandwidth(
    stream: &mut Stream,
    proxy: &Proxy,
    name: &str,
    limit: Option<u64>,
    period_ms: Option<u64>,
) {
    let Some(attached) = &stream.attached else { return };
    let named = attached.of::<Bound>(proxy.index).find_map(|(position, bound)| {
        let configured = super::arguments::<BandwidthFilter>(proxy.config.filters.get(position)?)?;
        (*configured.name == *name).then_some((configured, bound))
    });
    let Some((configured, bound)) = named else { return };
    match bound {
        Bound::Own(rate) => {
            let default_period = u64::try_from(configured.period.as_millis()).unwrap_or(u64::MAX);
            rate.set(Some(Rate {
                bytes: limit.filter(|limit| *limit > 0).unwrap_or(configured.limit),
                period_ms: period_ms.filter(|period| *period > 0).unwrap_or(default_period),
            }));
        }
        Bound::Shared(entry) => {
            let (Some(said), entry) = (&configured.shared, Rc::clone(entry)) else { return };
            let position = said.table.target().map(|(table, _)| table).or(proxy.config.table);
            // Without a key the stream is unlimited.
            let table = position.and_then(|position| stream.frontend.instance().table(position));
            if let Some(table) = table.cloned()
                && let Ok(key) = stream.tracking_mut().table_key(&table, &said.key)
            {
                entry.set(&table, &key);
            }
        }
    }
}

/// A number of bytes per period. Neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    bytes: u64,
    /// The period, in milliseconds.
    period_ms: u64,
}

/// The current rate. `None` until a rule enables the filter.
type Limit = Rc<Cell<Option<Rate>>>;

/// One direction's limit.
#[derive(Debug)]
struct Bandwidth {
    limit: Limit,
    min_size: u64,
    /// The rate at which `credit` was computed.
    rate: Option<Rate>,
    /// The credit, in bytes times milliseconds of the period, to avoid rounding.
    credit: u128,
    /// When `credit` was computed.
    since: Tick,
}

impl Bandwidth {
    /// A limit that rules set. Forwards at least `min_size` bytes at a time, or all available bytes if fewer.
    fn new(limit: Limit, min_size: u64) -> Self {
        Bandwidth { limit, min_size, rate: None, credit: 0, since: Tick::from_ms(0) }
    }

    /// Minimum bytes forwarded at a time, if available.
    fn grain(&self, rate: Rate) -> u64 {
        let grain = u128::from(rate.bytes) * u128::from(GRAIN_MS) / u128::from(rate.period_ms);
        u64::try_from(grain).unwrap_or(u64::MAX).max(self.min_size).max(1)
    }

    /// Adds the credit earned up to `now`.
    fn earn(&mut self, rate: Rate, now: Tick) {
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            self.credit = 0;
            self.since = now;
        }
        let earned = u128::from(rate.bytes) * u128::from(now.since(self.since));
        let most = u128::from(self.grain(rate)) * u128::from(rate.period_ms);
        self.credit = (self.credit + earned).min(most);
        self.since = now;
    }
}

impl Filter for Bandwidth {
    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        _: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        Ok(self.admit(bytes, now))
    }
}

impl Bandwidth {
    fn admit(&mut self, bytes: &[u8], now: Tick) -> Passed {
        let Some(rate) = self.limit.get() else { return Passed::all(bytes) };
        self.earn(rate, now);
        let period = u128::from(rate.period_ms);
        let there = bytes.len() as u64;
        let allowed = u64::try_from(self.credit / period).unwrap_or(u64::MAX).min(there);
        let wait_for = |left: u64, credit: u128| {
            let missing = (u128::from(left.min(self.grain(rate))) * period).saturating_sub(credit);
            let wait = missing.div_ceil(u128::from(rate.bytes));
            now.after(u64::try_from(wait).unwrap_or(u64::MAX).max(1))
        };
        if allowed < there.min(self.grain(rate)) {
            return Passed { count: 0, replaced: false, until: wait_for(there, self.credit) };
        }
        let credit = self.credit - u128::from(allowed) * period;
        let until = if allowed == there { Tick::NEVER } else { wait_for(there - allowed, credit) };
        self.credit = credit;
        Passed { count: allowed as usize, replaced: false, until }
    }
}

/// Minimum wait before more bytes are forwarded, in milliseconds. Twenty wake-ups a second cost little compared with the bytes moved.
const GRAIN_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rate: Option<(u64, u64)>, min_size: u64) -> Bandwidth {
        let rate = rate.map(|(bytes, period_ms)| Rate { bytes, period_ms });
        Bandwidth::new(Rc::new(Cell::new(rate)), min_size)
    }

    /// Offers pieces of `piece` bytes until `total` bytes passed. Returns the time in ms, and the sizes that passed.
    fn run(filter: &mut Bandwidth, total: usize, piece: usize) -> (u64, Vec<usize>) {
        let began = 1_000_000;
        let (mut now, mut sizes) = (Tick::from_ms(began), Vec::new());
        let bytes = vec![0; piece];
        while sizes.iter().sum::<usize>() < total {
            let there = piece.min(total - sizes.iter().sum::<usize>());
            let passed = filter.admit(&bytes[..there], now);
            if passed.count > 0 {
                sizes.push(passed.count);
            }
            assert!(!passed.replaced);
            if passed.count < there {
                assert!(passed.until > now, "who holds back says until when");
                now = passed.until;
            }
        }
        (now.as_ms() - began, sizes)
    }

    #[track_caller]
    fn check_rate(rate: (u64, u64), total: usize, piece: usize, want_ms: u64) {
        let (took, _) = run(&mut filter(Some(rate), 0), total, piece);
        assert!(took.abs_diff(want_ms) <= want_ms / 100 + 1, "{rate:?} {total}: {took} ms, not {want_ms}");
    }

    #[test]
    fn the_bandwidth_filter_passes_bytes_at_its_rate() {
        // HAProxy 3.2 takes 2.94 s and 5.87 s for the first two rates.
        check_rate((102_400, 1000), 300_000, 16_384, 2930);
        check_rate((102_400, 1000), 600_000, 16_384, 5860);
        check_rate((102_400, 10_000), 30_000, 16_384, 2930);
        check_rate((1, 1000), 5, 100, 5000);
        check_rate((1, 1), 500, 7, 500);
        check_rate((1_000_000_000, 1000), 50_000_000, 16_384, 50);
        check_rate((3, 7000), 9, 100, 21_000);
        check_rate((u64::MAX, u64::MAX), 10, 100, 10);
    }

    #[test]
    fn a_bandwidth_filter_without_a_rule_does_not_delay_bytes() {
        assert_eq!(run(&mut filter(None, 1000), 1_000_000, 1000).0, 0);
    }

    #[test]
    fn an_idle_period_does_not_allow_a_burst() {
        let mut limited = filter(Some((1000, 1000)), 0);
        let bytes = [0; 2000];
        let now = Tick::from_ms(5000);
        let held = limited.admit(&bytes, now);
        assert_eq!((held.count, held.until), (0, now.after(50)));
        let later = limited.admit(&bytes, now.after(100_000));
        assert_eq!((later.count, later.until), (50, now.after(100_050)));
    }

    #[test]
    fn less_than_min_size_is_passed_only_at_eof() {
        let (took, sizes) = run(&mut filter(Some((10_000, 1000)), 3000), 10_000, 16_384);
        assert_eq!(sizes, [3000, 3000, 3000, 1000]);
        assert_eq!(took, 1000);
        // More than a period's bytes at a time: the transfer pauses, as the manual warns.
        let (_, sizes) = run(&mut filter(Some((1000, 1000)), 5000), 12_000, 16_384);
        assert_eq!(sizes, [5000, 5000, 2000]);
    }

    #[test]
    fn a_new_bandwidth_rate_applies_at_once() {
        let mut limited = filter(Some((100, 1000)), 0);
        run(&mut limited, 100, 100);
        limited.limit.set(Some(Rate { bytes: 10_000, period_ms: 1000 }));
        let (took, _) = run(&mut limited, 10_000, 10_000);
        assert_eq!(took, 1000);
    }
}
