//! The available part of a body: the bytes that wait in the receiver's buffer, without framing.

use std::borrow::Cow;

use weir_expr::SampleType::{Bin, Int};
use weir_expr::{FetchDecl, Fetched, Flags, Needs, Sample, SampleType, Value};

use super::access::{Absent, Side};
use super::values::number;
use super::{Row, row, valid};
use crate::stream::Stream;

const fn request(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST_BODY)
}

const fn response(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::RESPONSE).needs(Needs::HTTP_RESPONSE_BODY)
}

pub(super) const ROWS: &[Row] = &[
    row(request("req.body", Bin, "The request's body, as much of it as is there"), |stream, _, _| {
        answer(request_body(stream), content)
    }),
    row(request("req.body_len", Int, "How many bytes of the request's body are there"), |stream, _, _| {
        answer(request_body(stream), length)
    }),
    row(
        request("req.body_size", Int, "The announced length of the request's body, or how much is there"),
        |stream, _, _| answer(request_body(stream), size),
    ),
    row(response("res.body", Bin, "The response's body, as much of it as is there"), |stream, _, _| {
        answer(response_body(stream), content)
    }),
    row(response("res.body_len", Int, "How many bytes of the response's body are there"), |stream, _, _| {
        answer(response_body(stream), length)
    }),
    row(
        response("res.body_size", Int, "The announced length of the response's body, or how much is there"),
        |stream, _, _| answer(response_body(stream), size),
    ),
];

/// The available part of a body.
#[derive(Debug)]
pub(crate) struct Body<'c> {
    /// The payload.
    pub bytes: &'c [u8],
    /// The length that the head announced.
    pub announced: Option<u64>,
    /// Whether more may arrive before the next evaluation.
    pub grows: bool,
}

fn answer<'c>(body: Result<Body<'c>, Absent>, then: fn(Body<'c>) -> Fetched<'c>) -> Fetched<'c> {
    body.map_or_else(Fetched::from, then)
}

fn content(body: Body<'_>) -> Fetched<'_> {
    let flags = if body.grows { Flags::MAY_CHANGE } else { Flags::empty() };
    Fetched::Sample(Sample::new(Value::Bin(Cow::Borrowed(body.bytes))).with(flags).with(Flags::VOLATILE))
}

fn length(body: Body<'_>) -> Fetched<'_> {
    number(body.bytes.len() as i64)
}

fn size(body: Body<'_>) -> Fetched<'_> {
    match body.announced {
        Some(announced) => number(super::values::amount(announced)),
        None => length(body),
    }
}

/// The request's body. It is available from the complete head until it is sent to a server.
pub(crate) fn request_body(stream: &mut Stream) -> Result<Body<'_>, Absent> {
    if !stream.request.is_known() || stream.server.upstream.is_some() || stream.response.is_known() {
        return Err(Absent::Missing);
    }
    let announced = stream.request.message.head.content_length();
    if let Some(body) = stream.attempts.kept_body() {
        return Ok(Body { bytes: body.payload(), announced, grows: false });
    }
    stream.request.message.detach(&mut stream.client);
    if !stream.request.body.inspect(&mut stream.client) {
        return Err(Absent::Missing);
    }
    let grows = !stream.request.body.is_complete() && stream.may_wait();
    Ok(Body { bytes: stream.request.body.waiting(&stream.client), announced, grows })
}

/// The response's body: the part received with the head, until it is sent to the client.
pub(super) fn response_body(stream: &mut Stream) -> Result<Body<'_>, Absent> {
    stream.head(Side::Response)?;
    if !stream.response.is_known() || stream.response.is_leaving() || stream.response.reply.is_some() {
        return Err(Absent::Missing);
    }
    let announced = stream.response.message.head.content_length();
    let Some(upstream) = &mut stream.server.upstream else { return Err(Absent::Missing) };
    stream.response.begin_body(&upstream.connector, stream.response.size);
    stream.response.message.detach(&mut upstream.connector);
    if !stream.response.body.inspect(&mut upstream.connector) {
        return Err(Absent::Missing);
    }
    Ok(Body { bytes: stream.response.body.waiting(&upstream.connector), announced, grows: false })
}
