//! `Channel`: the bytes of one direction of a stream, `txn.req` and `txn.res`.
//!
//! A function that lacks bytes or room waits where its caller can wait. Elsewhere, it does as much as is possible at once.

use std::ops::{Range, RangeInclusive};

use weir_lua::{LuaReference, Misuse};

use super::{ApiCall, ApiMember, ApiResult, expect_count, on_stream};
use crate::channel::{ChannelCall, ChannelRead, ReadLength, ReadUnit, position};
use crate::message::{ChannelState, ScriptSide};
use crate::target::ScriptTarget;
use crate::wait::ScriptWait;

pub(super) const METHODS: &[ApiMember] = &[
    ("append", append),
    ("data", |call| read_part(call, ReadUnit::Bytes, "data")),
    ("dup", |call| read_received(call, false, "dup")),
    ("forward", forward),
    ("get", |call| read_received(call, true, "get")),
    ("get_in_len", |call| integer(call, "input", |state| state.input)),
    ("get_out_len", |call| integer(call, "output", |state| state.output)),
    ("getline", getline),
    ("input", |call| integer(call, "input", |state| state.input)),
    ("insert", insert),
    ("is_full", |call| boolean(call, "is_full", |state| state.is_full)),
    ("is_resp", is_resp),
    ("line", |call| read_part(call, ReadUnit::Line, "line")),
    ("may_recv", |call| boolean(call, "may_recv", |state| state.may_receive)),
    ("output", |call| integer(call, "output", |state| state.output)),
    ("prepend", prepend),
    ("remove", remove),
    ("send", send),
    ("set", set),
];

/// A channel, or the message that a filter sees: the number of its stream, and its direction.
#[derive(Clone, Copy)]
pub(super) struct ChannelObject {
    pub number: i64,
    pub side: ScriptSide,
    /// Whether it is a message.
    pub is_message: bool,
}

impl ChannelObject {
    /// The channel in an argument.
    pub(super) fn of(call: &ApiCall<'_>, index: i32) -> Result<Self, Misuse> {
        let classes = call.host().classes();
        let channels = [classes.request_channel, classes.response_channel];
        Self::find(call, index, channels, false).ok_or_else(|| call.wrong_kind(index, "Channel"))
    }

    /// The message in an argument.
    pub(super) fn of_message(call: &ApiCall<'_>, index: i32) -> Result<Self, Misuse> {
        let found = call.host().filters.message_classes();
        let found = found.and_then(|classes| Self::find(call, index, classes, true));
        found.ok_or_else(|| call.wrong_kind(index, "HTTPMessage"))
    }

    /// The channel or the message in argument 1.
    fn of_either(call: &ApiCall<'_>) -> Result<Self, Misuse> {
        Self::of_message(call, 1).or_else(|_| Self::of(call, 1))
    }

    fn find(
        call: &ApiCall<'_>,
        index: i32,
        classes: [LuaReference; 2],
        is_message: bool,
    ) -> Option<ChannelObject> {
        let sides = classes.into_iter().zip([ScriptSide::Request, ScriptSide::Response]);
        sides.into_iter().find_map(|(class, side)| {
            call.object(index, class).map(|number| ChannelObject { number, side, is_message })
        })
    }

    /// Runs `act` with the stream of the channel.
    fn on_stream<R>(
        self,
        call: &ApiCall<'_>,
        act: impl FnOnce(&mut dyn ScriptTarget) -> Result<R, Misuse>,
    ) -> Result<R, Misuse> {
        on_stream(call, self.number, |target, _| act(target))
    }

    /// Like [`ChannelObject::on_stream`], for a function that HTTP does not allow. `act` gets the number of incoming bytes.
    fn on_bytes<R>(
        self,
        call: &ApiCall<'_>,
        act: impl FnOnce(&mut dyn ScriptTarget, usize) -> Result<R, Misuse>,
    ) -> Result<R, Misuse> {
        self.on_stream(call, |target| match target.incoming(self.side).map(<[u8]>::len) {
            Some(length) if self.is_message || !target.is_http() => act(target, length),
            _ if self.is_message => Err(Misuse::text("the payload of the message is not available here")),
            _ => Err(Misuse::bare("Cannot manipulate HAProxy channels in HTTP mode.")),
        })
    }
}

/// Checks the number of arguments behind the object.
pub(super) fn expect_arguments(
    call: &ApiCall<'_>,
    allowed: RangeInclusive<i32>,
    name: &str,
) -> Result<(), Misuse> {
    if allowed.contains(&(call.arguments() - 1)) {
        return Ok(());
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(Misuse::text(match least {
        0 => format!("'{name}' expects at most {most} arguments"),
        1 => format!("'{name}' expects at least {least} argument and at most {most} arguments"),
        _ => format!("'{name}' expects at least {least} arguments and at most {most} arguments"),
    }))
}

/// The integer in an argument. `None` if it was not given.
fn optional_integer(call: &ApiCall<'_>, index: i32) -> Result<Option<i64>, Misuse> {
    if call.arguments() < index { Ok(None) } else { call.expect_integer(index).map(Some) }
}

/// The length in an argument. -1 means as much as possible.
fn expect_length(call: &ApiCall<'_>, index: i32) -> Result<Option<ReadLength>, Misuse> {
    Ok(match optional_integer(call, index)? {
        None => None,
        Some(-1) => Some(ReadLength::Most),
        Some(length) => Some(ReadLength::Exactly(
            usize::try_from(length).map_err(|_| Misuse::bare("length out of range."))?,
        )),
    })
}

/// The offset in argument `index`, from the start of `length` incoming bytes.
fn start(call: &ApiCall<'_>, index: i32, length: usize) -> Result<usize, Misuse> {
    let start = position(optional_integer(call, index)?.unwrap_or(0), length);
    if start <= length { Ok(start) } else { Err(Misuse::bare("offset out of range.")) }
}

/// The range of incoming bytes from the offset in argument `index` on, with the length in the next argument.
fn part(call: &ApiCall<'_>, index: i32, length: usize) -> Result<Range<usize>, Misuse> {
    let start = start(call, index, length)?;
    match expect_length(call, index + 1)? {
        None | Some(ReadLength::Most | ReadLength::Received) => Ok(start..length),
        Some(ReadLength::Exactly(count)) if count <= length - start => Ok(start..start + count),
        Some(ReadLength::Exactly(_)) => Err(Misuse::bare("length out of range.")),
    }
}

pub(super) fn integer(call: &ApiCall<'_>, name: &str, value: fn(ChannelState) -> usize) -> ApiResult {
    let state = state(call, name)?;
    call.push_integer(value(state) as i64);
    call.results(1)
}

pub(super) fn boolean(call: &ApiCall<'_>, name: &str, value: fn(ChannelState) -> bool) -> ApiResult {
    let state = state(call, name)?;
    call.push_boolean(value(state));
    call.results(1)
}

fn state(call: &ApiCall<'_>, name: &str) -> Result<ChannelState, Misuse> {
    expect_count(call, 1..=1, name)?;
    let channel = ChannelObject::of_either(call)?;
    channel.on_stream(call, |target| Ok(target.channel(channel.side)))
}

pub(super) fn is_resp(call: &ApiCall<'_>) -> ApiResult {
    state(call, "is_resp")?;
    call.push_boolean(ChannelObject::of_either(call)?.side == ScriptSide::Response);
    call.results(1)
}

/// `channel:data([offset [, length]])`, `channel:line([offset [, length]])`.
pub(super) fn read_part(call: &ApiCall<'_>, unit: ReadUnit, name: &str) -> ApiResult {
    expect_arguments(call, 0..=2, name)?;
    let channel = ChannelObject::of_either(call)?;
    let received = channel.on_bytes(call, |_, length| Ok(length))?;
    let offset = optional_integer(call, 2)?.unwrap_or(0);
    if channel.is_message && position(offset, received) > received {
        return Err(Misuse::bare("offset out of range."));
    }
    let length = expect_length(call, 3)?.unwrap_or(ReadLength::Received);
    read(call, channel, ChannelRead { unit, offset, length })
}

fn getline(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 1..=1, "getline")?;
    let read_line = ChannelRead { unit: ReadUnit::TakenLine, offset: 0, length: ReadLength::Most };
    read(call, ChannelObject::of_either(call)?, read_line)
}

fn read(call: &ApiCall<'_>, channel: ChannelObject, read: ChannelRead) -> ApiResult {
    let ChannelObject { side, .. } = channel;
    let bytes = channel.on_bytes(call, |target, _| {
        let is_final = target.channel(side).is_final || !call.can_wait();
        let is_ready = target.incoming(side).is_none_or(|input| read.find(input, is_final).is_some());
        Ok(is_ready.then(|| read.finish(target, side)))
    })?;
    match bytes {
        Some(bytes) => push(call, bytes.as_deref()),
        None => call.wait(ScriptWait::Channel(side, ChannelCall::Read(read))),
    }
}

fn push(call: &ApiCall<'_>, bytes: Option<&[u8]>) -> ApiResult {
    match bytes {
        Some(bytes) => call.push_bytes(bytes),
        None => call.push_nil(),
    }
    call.results(1)
}

/// `channel:dup()`, `channel:get()`: the bytes received so far.
fn read_received(call: &ApiCall<'_>, takes: bool, name: &str) -> ApiResult {
    expect_count(call, 1..=1, name)?;
    let channel = ChannelObject::of_either(call)?;
    let bytes = channel.on_bytes(call, |target, length| {
        let bytes = target.incoming(channel.side).map(<[u8]>::to_vec);
        if takes && length > 0 {
            target.replace_incoming(channel.side, 0..length, b"");
        }
        Ok(bytes.filter(|_| length > 0 || target.channel(channel.side).may_receive))
    })?;
    push(call, bytes.as_deref())
}

/// The text in argument 2.
fn text<'c>(call: &'c ApiCall<'_>) -> Result<&'c [u8], Misuse> {
    call.expect_bytes(2)
}

/// Replaces a range of the incoming bytes by the text. The result is the length of the text, or -1 if it does not fit.
fn replace(call: &ApiCall<'_>, range: impl FnOnce(usize) -> Result<Range<usize>, Misuse>) -> ApiResult {
    let channel = ChannelObject::of_either(call)?;
    let fits = channel.on_bytes(call, |target, length| {
        let bytes = text(call)?;
        let range = range(length)?;
        Ok(target.replace_incoming(channel.side, range, bytes).then_some(bytes.len()))
    })?;
    push_count(call, fits)
}

/// Pushes a number of bytes. -1 for `None`.
fn push_count(call: &ApiCall<'_>, count: Option<usize>) -> ApiResult {
    call.push_integer(count.map_or(-1, |count| count as i64));
    call.results(1)
}

pub(super) fn append(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "append")?;
    replace(call, |length| Ok(length..length))
}

pub(super) fn prepend(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "prepend")?;
    replace(call, |_| Ok(0..0))
}

/// `channel:insert(text [, offset])`.
pub(super) fn insert(call: &ApiCall<'_>) -> ApiResult {
    expect_arguments(call, 1..=2, "insert")?;
    replace(call, |length| start(call, 3, length).map(|start| start..start))
}

/// `channel:set(text [, offset [, length]])`.
pub(super) fn set(call: &ApiCall<'_>) -> ApiResult {
    expect_arguments(call, 1..=3, "set")?;
    replace(call, |length| part(call, 3, length))
}

/// `channel:remove([offset [, length]])`: the number of removed bytes.
pub(super) fn remove(call: &ApiCall<'_>) -> ApiResult {
    expect_arguments(call, 0..=2, "remove")?;
    let channel = ChannelObject::of_either(call)?;
    let removed = channel.on_bytes(call, |target, length| {
        let range = part(call, 2, length)?;
        let count = range.len();
        if count > 0 {
            target.replace_incoming(channel.side, range, b"");
        }
        Ok(count)
    })?;
    push_count(call, Some(removed))
}

/// `channel:forward(length)`: the number of forwarded bytes. A negative length means all received bytes.
pub(super) fn forward(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "forward")?;
    let channel = ChannelObject::of_either(call)?;
    let (count, is_done) = channel.on_bytes(call, |target, length| {
        let count = usize::try_from(call.expect_integer(2)?).unwrap_or(length);
        let is_done = count <= length || target.channel(channel.side).is_final || !call.can_wait();
        if is_done {
            target.forward(channel.side, count.min(length));
        }
        Ok((count.min(if is_done { length } else { count }), is_done))
    })?;
    match is_done {
        true => push_count(call, Some(count)),
        false => call.wait(ScriptWait::Channel(channel.side, ChannelCall::Forward(count))),
    }
}

/// `channel:send(text)`: the number of sent bytes. A client takes them at its own pace. Bytes for a server have to fit the buffer, because they
/// leave once there is one.
pub(super) fn send(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "send")?;
    let channel = ChannelObject::of_either(call)?;
    channel.on_bytes(call, |_, _| Ok(()))?;
    let bytes = text(call)?;
    if channel.side == ScriptSide::Response && call.can_wait() {
        return call.wait(ScriptWait::Channel(channel.side, ChannelCall::Send(bytes.to_vec())));
    }
    let fits = channel.on_bytes(call, |target, _| Ok(target.add_outgoing(channel.side, bytes)))?;
    push_count(call, fits.then_some(bytes.len()))
}
