//! The interface of scripts to a stream.

use std::any::Any;
use std::ops::Range;

use weir_expr::pattern::regex::Regex;
use weir_expr::{Context, Reference};
use weir_http::Head;

use crate::filter_turn::FilterTurn;
use crate::message::{ChannelState, ScriptSide};

/// A part of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLinePart {
    Method,
    Path,
    Query,
    /// The whole target. `Host` follows it.
    Uri,
}

/// A setting of a stream that scripts change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamSetting {
    /// The level of its log line, 0 to 7. `None` for no line.
    LogLevel(Option<u8>),
    /// The TOS field towards the client.
    Tos(u8),
    /// The netfilter mark towards the client.
    Mark(u32),
    /// The class in the queues of servers.
    PriorityClass(i64),
    /// The advance in the queues of servers, in milliseconds.
    PriorityOffset(i64),
}

/// Calls its argument with each reference of an expression.
pub type VisitAll<'v> = &'v mut dyn FnMut(&mut dyn FnMut(&Reference));

/// A stream, as scripts see it.
pub trait ScriptTarget: ScriptChannels {
    /// The stream's number. No two streams of a process have the same one.
    fn number(&self) -> i64;

    /// The context of expressions.
    fn context(&mut self) -> &mut dyn Context;

    /// Resolves the names of proxies, servers and tables in an expression. `visit_all` calls its argument with each of them.
    fn resolve(&self, visit_all: VisitAll<'_>);

    /// The head of a message and its received bytes, if rules may still change it.
    fn head(&mut self, side: ScriptSide) -> Option<(&mut Head, &[u8])>;

    /// The length of the request's body. 0 for a chunked body that did not arrive completely.
    fn body_length(&mut self) -> u64;

    /// Sets a part of the request line. False if the value is invalid, or the head lacks room.
    fn edit_request_line(&mut self, part: RequestLinePart, value: &[u8]) -> bool;

    /// Called after a change of `Host`, which an absolute target follows. False if it cannot.
    fn follow_host(&mut self) -> bool;

    /// Replaces the matches of a regular expression in the fields with a name: in whole values, or in each member of lists. False if the head
    /// lacks room.
    fn replace_fields(
        &mut self,
        side: ScriptSide,
        name: &[u8],
        pattern: &Regex,
        template: &[u8],
        each: bool,
    ) -> bool;

    /// The call of a filter, while it runs.
    fn filter_turn(&mut self) -> Option<&mut FilterTurn>;

    /// Whether a message has arrived completely.
    fn is_complete(&self, side: ScriptSide) -> bool;

    /// Whether the stream has HTTP messages.
    fn is_http(&self) -> bool;

    /// Changes a setting of the stream.
    fn set(&mut self, setting: StreamSetting);

    /// Keeps an object until the stream ends.
    fn keep(&mut self, object: Box<dyn Any>);

    /// Counts a change of a head that failed for lack of room.
    fn count_failed_rewrite(&mut self);

    /// Logs a message of the script. The level is that of syslog, 0 to 7. False if no logger takes it.
    fn log(&mut self, level: u8, text: &str) -> bool;
}

/// The access of scripts to the channels of a stream.
pub trait ScriptChannels {
    /// The state of a channel.
    fn channel(&mut self, side: ScriptSide) -> ChannelState;

    /// The incoming bytes. `None` in HTTP, where scripts cannot change them.
    fn incoming(&self, side: ScriptSide) -> Option<&[u8]>;

    /// Replaces a part of the incoming bytes. False if the result exceeds the buffer, or if the channel does not take bytes any more.
    fn replace_incoming(&mut self, side: ScriptSide, range: Range<usize>, bytes: &[u8]) -> bool;

    /// Adds outgoing bytes, behind the earlier ones. False as in [`ScriptChannels::replace_incoming`].
    fn add_outgoing(&mut self, side: ScriptSide, bytes: &[u8]) -> bool;

    /// Moves the first `count` of the incoming bytes to the outgoing ones.
    fn forward(&mut self, side: ScriptSide, count: usize);
}
