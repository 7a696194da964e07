//! The buffered part of a body, without framing.

use std::borrow::Cow;

use weir_expr::SampleType::{Bin, Int};
use weir_expr::{FetchDecl, FetchResult, Needs, Sample, SampleFlags, SampleType, Value};

use super::values::number;
use super::{FetchRow, row, valid};
use crate::view::{Absent, AvailableBody};

const fn request(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST_BODY)
}

const fn response(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::RESPONSE).needs(Needs::HTTP_RESPONSE_BODY)
}

pub(super) const ROWS: &[FetchRow] = &[
    row(request("req.body", Bin, "The request's body, as much of it as is there"), |view, _, _| {
        answer(view.request_body(), content)
    }),
    row(request("req.body_len", Int, "How many bytes of the request's body are there"), |view, _, _| {
        answer(view.request_body(), length)
    }),
    row(
        request("req.body_size", Int, "The announced length of the request's body, or how much is there"),
        |view, _, _| answer(view.request_body(), size),
    ),
    row(response("res.body", Bin, "The response's body, as much of it as is there"), |view, _, _| {
        answer(view.response_body(), content)
    }),
    row(response("res.body_len", Int, "How many bytes of the response's body are there"), |view, _, _| {
        answer(view.response_body(), length)
    }),
    row(
        response("res.body_size", Int, "The announced length of the response's body, or how much is there"),
        |view, _, _| answer(view.response_body(), size),
    ),
];

fn answer<'c>(
    body: Result<AvailableBody<'c>, Absent>,
    then: fn(AvailableBody<'c>) -> FetchResult<'c>,
) -> FetchResult<'c> {
    body.map_or_else(FetchResult::from, then)
}

fn content(body: AvailableBody<'_>) -> FetchResult<'_> {
    let flags = if body.grows { SampleFlags::MAY_CHANGE } else { SampleFlags::empty() };
    FetchResult::Sample(
        Sample::new(Value::Bin(Cow::Borrowed(body.bytes))).with(flags).with(SampleFlags::VOLATILE),
    )
}

fn length(body: AvailableBody<'_>) -> FetchResult<'_> {
    number(body.bytes.len() as i64)
}

fn size(body: AvailableBody<'_>) -> FetchResult<'_> {
    match body.announced {
        Some(announced) => number(super::values::amount(announced)),
        None => length(body),
    }
}
