//! Tracking of stick-table entries by streams and sessions, and the counters in them (manual, 11).
//!
//! Connection and session rules track an entry until the connection closes. All other rules track until the stream ends. A sticky
//! counter keeps its first entry, the stream's or the session's. A stream without tracked entries pays only a check of two pointers.

mod sticking;

use weir_containers::{LocalArc, PoolBox};
use weir_expr::FetchResult;
use weir_expr::table::DataType;
use weir_model::{RulesetKind, Track};
use weir_tables::{Key, Table};

use crate::instance::Proxy;
use crate::session::ClientSession;
use crate::stream::phases::StreamTables;
use crate::stream::table_use::TableUse;
use weir_vocabulary::tracked::{TrackedEntry, TrackedEvent, now_ms};

/// The result of a `track-sc` rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackResult {
    /// The rule is done, or there was nothing to do.
    Done,
    /// The key is not available yet. More data may contain it.
    Later,
}

impl ClientSession {
    /// Counts a session in its tracked entries, after the connection was accepted.
    pub(crate) fn count_tracked_session(&self) {
        self.count_tracked(DataType::SessionCount, DataType::SessionRate, 1);
    }

    /// Adds `count` glitches to the tracked entries of the session.
    #[cold]
    pub(crate) fn count_tracked_glitches(&self, count: u32) {
        self.count_tracked(DataType::GlitchCount, DataType::GlitchRate, count.into());
    }

    fn count_tracked(&self, total: DataType, rate: DataType, count: u64) {
        self.look_at_tracked(|tracked| tracked.count(&[(total, rate, count)]));
    }
}

impl StreamTables {
    /// `track-sc`: starts to track the entry of a key. Only the first rule of a counter that finds a key has an effect, in the stream and
    /// its session together.
    pub(crate) fn track(&mut self, kind: RulesetKind, proxy: &Proxy, track: &Track) -> TrackResult {
        let of_session = matches!(kind, RulesetKind::TcpRequestConnection | RulesetKind::TcpRequestSession);
        let counter = usize::from(track.counter);
        if self.counter(counter).is_some() {
            return TrackResult::Done;
        }
        let position = track.table.target().map(|(table, _)| table).or(proxy.config.table);
        let Some(table) =
            position.and_then(|position| self.stream.frontend.instance().table(position)).cloned()
        else {
            return TrackResult::Done;
        };
        let key = match self.table_key(&table, &track.key) {
            Ok(key) => key,
            Err(tracking) => return tracking,
        };
        // Frontend content rules run before the request is counted in all tracked entries, so they must not count it here.
        let is_early = kind == RulesetKind::TcpRequestContent && self.stream.frontend.is(proxy);
        let is_request =
            !of_session && !is_early && self.stream.speaks_http() && self.stream.request.is_known();
        let tracked = table.track(&key, now_ms(), |row| {
            row.count(DataType::ConnectionCount, DataType::ConnectionRate, 1);
            row.add(DataType::ConnectionsCurrent, 0, 1);
            if is_request {
                row.count(DataType::RequestCount, DataType::RequestRate, 1);
            }
        });
        let Some((entry, ())) = tracked else { return TrackResult::Done };
        let entry = TrackedEntry { table, entry };
        match of_session {
            true => self.stream.session.with_tracked(|tracked| tracked.set(counter, entry)),
            false => self.use_tables().tracked.set(counter, entry),
        }
        TrackResult::Done
    }

    /// Evaluates an expression to a key of a table.
    pub(crate) fn table_key(
        &mut self,
        table: &Table,
        expression: &weir_expr::Expr,
    ) -> Result<Key, TrackResult> {
        let kind = table.declaration().key;
        match expression.evaluate_as(&mut self.stream, kind.sample_type()) {
            FetchResult::Sample(sample) => Key::of(sample.value, kind).ok_or(TrackResult::Done),
            FetchResult::Missing => Err(TrackResult::Done),
            FetchResult::Later => Err(TrackResult::Later),
        }
    }

    /// The stream's use of tables, created on the first call.
    pub(crate) fn use_tables(&mut self) -> &mut TableUse {
        self.stream.tables.get_or_insert_with(|| PoolBox::new(TableUse::default()))
    }

    fn tracked(&self, counter: usize, of_session: bool) -> Option<TrackedEntry> {
        match of_session {
            true => self.stream.session.look_at_tracked(|tracked| tracked.get(counter).cloned()).flatten(),
            false => self.stream.tables.as_ref()?.tracked.get(counter).cloned(),
        }
    }

    /// The entry tracked by a counter: the stream's, else the session's.
    pub(crate) fn counter(&self, counter: usize) -> Option<TrackedEntry> {
        self.tracked(counter, false).or_else(|| self.tracked(counter, true))
    }

    /// The table that an expression names, or the current proxy's.
    pub(crate) fn table_named(&self, position: Option<u32>) -> Option<&LocalArc<Table>> {
        let of = |proxy: &Proxy| proxy.config.table;
        let position = position.or_else(|| of(&self.stream.backend)).or_else(|| of(&self.stream.frontend))?;
        self.stream.frontend.instance().table(position)
    }

    /// Whether any entry is tracked.
    #[inline]
    fn tracks(&self) -> bool {
        self.stream.tables.is_some() || self.stream.session.may_track()
    }

    /// Counts events of this stream in all tracked entries, the stream's and the session's.
    #[cold]
    fn count_tracked(&self, events: &[TrackedEvent]) {
        if let Some(tables) = &self.stream.tables {
            tables.tracked.count(events);
        }
        self.stream.session.look_at_tracked(|tracked| tracked.count(events));
    }

    /// Counts a request, valid or not, in the session's tracked entries.
    #[inline]
    pub(crate) fn count_tracked_request(&self) {
        if self.tracks() {
            self.count_tracked(&[(DataType::RequestCount, DataType::RequestRate, 1)]);
        }
    }

    /// Counts a client error: an invalid or refused request, or one that cannot be answered.
    #[inline]
    pub(crate) fn count_tracked_error(&self) {
        if self.tracks() && self.stream.speaks_http() {
            self.count_tracked(&[(DataType::ErrorCount, DataType::ErrorRate, 1)]);
        }
    }

    /// Counts a server failure: an invalid response or none.
    #[inline]
    pub(crate) fn count_tracked_failure(&self) {
        if self.tracks() && self.stream.speaks_http() {
            self.count_tracked(&[(DataType::FailureCount, DataType::FailureRate, 1)]);
        }
    }

    /// Counts a server's response by its status.
    #[inline]
    pub(crate) fn count_tracked_status(&self, status: u16) {
        if self.tracks() {
            if self.stream.frontend.instance().limits.error_codes.contains(status) {
                self.count_tracked_error();
            }
            if self.stream.frontend.instance().limits.failure_codes.contains(status) {
                self.count_tracked_failure();
            }
        }
    }

    /// Counts bytes from and to the client.
    #[inline]
    pub(crate) fn count_tracked_bytes(&self, from: u64, to: u64) {
        if self.tracks() {
            self.count_tracked(&[
                (DataType::BytesInCount, DataType::BytesInRate, from),
                (DataType::BytesOutCount, DataType::BytesOutRate, to),
            ]);
        }
    }
}
