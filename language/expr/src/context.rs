//! The interface between expressions and their environment during evaluation.

use std::borrow::Cow;

use crate::alias::Alias;
use crate::args::Args;
use crate::fetch::FetchIndex;
use crate::sample::{Sample, Value};
use crate::script_names::ScriptName;
use crate::table::TableLookup;
use crate::time::{TimeZone, WallTime};
use crate::variables::{SetCondition, VariableId};
use crate::writer::LogWriter;

/// The result of a fetch or of a whole expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchResult<'a> {
    /// A value.
    Sample(Sample<'a>),
    /// The value is missing, and more data cannot supply it.
    Missing,
    /// The value is missing so far. More data may supply it.
    Later,
}

impl<'a> FetchResult<'a> {
    /// A stable sample.
    pub const fn value(value: Value<'a>) -> Self {
        FetchResult::Sample(Sample::new(value))
    }

    /// The sample, if there is one.
    pub fn sample(self) -> Option<Sample<'a>> {
        match self {
            FetchResult::Sample(sample) => Some(sample),
            FetchResult::Missing | FetchResult::Later => None,
        }
    }

    /// Copies borrowed data, so that the result is independent of the context.
    pub fn into_owned(self) -> FetchResult<'static> {
        match self {
            FetchResult::Sample(sample) => FetchResult::Sample(sample.into_owned()),
            FetchResult::Missing => FetchResult::Missing,
            FetchResult::Later => FetchResult::Later,
        }
    }
}

impl<'a> From<Option<Value<'a>>> for FetchResult<'a> {
    fn from(value: Option<Value<'a>>) -> Self {
        value.map_or(FetchResult::Missing, FetchResult::value)
    }
}

/// Position of a fetch among several values of the same name (each occurrence of a header, each cookie).
///
/// An ACL tests all of them: it calls the fetch again with the same cursor while [`FetchCursor::more`] is set. Other users need exactly
/// one value: [`FetchCursor::iterating`] is false, and the fetch chooses (`hdr` chooses the last).
#[derive(Debug, Clone, Copy, Default)]
pub struct FetchCursor {
    /// Whether the caller wants all values.
    pub iterating: bool,
    /// Set by the fetch if another value may follow. The caller clears it before each call.
    pub more: bool,
    /// State of the fetch between calls. Zero at the first call.
    pub position: [usize; 2],
}

impl FetchCursor {
    /// A cursor for callers that want one value.
    pub const fn single() -> Self {
        FetchCursor { iterating: false, more: false, position: [0; 2] }
    }

    /// A cursor for callers that want every value.
    pub const fn every() -> Self {
        FetchCursor { iterating: true, more: false, position: [0; 2] }
    }
}

/// Look-ups of named objects for a few converters (`nbsrv`, `srv_queue`, `srv_is_up`, `fe_exists`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectLookup {
    /// Number of usable servers of the backend with this name.
    UsableServers,
    /// Streams in the queue of the server `[backend/]server`.
    ServerQueue,
    /// Whether the server `[backend/]server` is up.
    ServerIsUp,
    /// Whether a frontend with this name exists.
    FrontendExists,
}

/// The message that a capture slot belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureSide {
    /// `declare capture request`.
    Request,
    /// `declare capture response`.
    Response,
}

/// Facts about the process that do not change while it runs, and the thread that evaluates.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessFacts<'a> {
    pub hostname: &'a str,
    pub pid: u32,
    /// The number of the thread that evaluates, from 0.
    pub thread: u32,
    /// The number of its group, from 1.
    pub thread_group: u32,
    /// Seconds since the process started.
    pub uptime: u64,
    /// The process is in a soft stop.
    pub stopping: bool,
}

/// The interface between expressions and their environment.
///
/// A sample borrows from the context, so a fetch can return parts of the message without a copy.
pub trait Context {
    /// Evaluates a fetch of the table that was given to [`crate::Registry::new`]. `fetch` is its index there.
    fn fetch<'c>(
        &'c mut self,
        fetch: FetchIndex,
        args: &'c Args,
        cursor: &mut FetchCursor,
    ) -> FetchResult<'c>;

    /// Evaluates a fetch of a script. Missing without scripts, and if the script fails.
    fn script_fetch(&mut self, name: ScriptName, args: &Args) -> FetchResult<'static> {
        let _ = (name, args);
        FetchResult::Missing
    }

    /// Evaluates a converter of a script. `None` without scripts, and if the script fails.
    fn script_converter(
        &mut self,
        name: ScriptName,
        value: Value<'static>,
        args: &Args,
    ) -> Option<Value<'static>> {
        let _ = (name, value, args);
        None
    }

    /// Whether the last fetch returned [`FetchResult::Later`] because its value is computed elsewhere. The evaluation resumes afterwards.
    fn is_suspended(&self) -> bool {
        false
    }

    /// The value of a variable, if it is set and its scope exists here.
    fn variable(&mut self, variable: VariableId) -> Option<Value<'_>>;

    /// Sets a variable if `condition` holds. False if the scope does not exist or is full.
    fn set_variable(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool;

    /// Unsets a variable. False if the scope does not exist here.
    fn unset_variable(&mut self, variable: VariableId) -> bool;

    /// The wall clock.
    fn now(&self) -> WallTime;

    /// The local time zone.
    fn time_zone(&self) -> &TimeZone {
        TimeZone::utc()
    }

    /// 64 random bits.
    fn random(&mut self) -> u64;

    /// Facts about the process.
    fn process(&self) -> ProcessFacts<'_>;

    /// Looks up a fact about a named object. `None` if the object does not exist.
    fn lookup(&mut self, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>> {
        let _ = (lookup, name);
        None
    }

    /// Looks up a key in a stick-table. `None` if the table does not exist or does not store this data. Without an entry, counts are 0,
    /// and times are the default.
    fn table(&mut self, lookup: TableLookup<'_>) -> Option<i64> {
        let _ = lookup;
        None
    }

    /// Stores a value in a capture slot. False if the slot does not exist.
    fn capture(&mut self, side: CaptureSide, slot: usize, value: &[u8]) -> bool {
        let _ = (side, slot, value);
        false
    }

    /// Emits the output of the `debug` converter.
    fn debug(&mut self, destination: &str, line: &[u8]) {
        let _ = (destination, line);
    }

    /// Writes the value of a log alias (`%ci`, `%ST`...).
    fn log_alias(&mut self, alias: Alias, out: &mut LogWriter<'_>) {
        let _ = alias;
        out.missing();
    }
}

/// A context without a stream, for the configuration parser, the command line and tests.
///
/// Variables of the process scope come from `variables`. All other scopes and external fetches are unknown.
#[derive(Debug, Default)]
pub struct DetachedContext<'a> {
    /// The facts that the context returns.
    pub process: ProcessFacts<'a>,
    /// The time that the context returns.
    pub now: WallTime,
    /// State of a small generator, for `rand` and `uuid`.
    pub seed: u64,
    pub variables: crate::variables::VariableStore,
}

impl Context for DetachedContext<'_> {
    fn fetch<'c>(&'c mut self, _: FetchIndex, _: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
        FetchResult::Missing
    }

    fn variable(&mut self, variable: VariableId) -> Option<Value<'_>> {
        self.variables.get(variable)
    }

    fn set_variable(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool {
        self.variables.set(variable, value, condition)
    }

    fn unset_variable(&mut self, variable: VariableId) -> bool {
        self.variables.unset(variable);
        true
    }

    fn now(&self) -> WallTime {
        self.now
    }

    fn random(&mut self) -> u64 {
        // SplitMix64: enough for a configuration parser, which needs no real entropy.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn process(&self) -> ProcessFacts<'_> {
        self.process
    }
}

/// Borrowed bytes as a string value, the most common answer of a fetch.
impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Str(Cow::Borrowed(bytes))
    }
}
