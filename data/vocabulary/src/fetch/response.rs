//! The status line of the response, and captured values.

use weir_expr::SampleType::{Bool, Int, Str};
use weir_expr::context::CaptureSide;
use weir_expr::{ArgKind, ArgSpec, Args, ExpressionScope, FetchDecl, FetchResult, Needs, SampleType};

use super::access::of_stream;
use super::request::{digits, wire};
use super::values::{number, text_if, truth};
use super::{FetchRow, row, valid};
use crate::view::{FetchView, MessageSide};

const fn answered(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::HTTP_RESPONSE_META)
}

const INDEX: ArgSpec = ArgSpec::new(1, &[ArgKind::Int]);

fn check_index(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.int(0) {
        Some(0..) => Ok(()),
        _ => Err("a position is expected, from 0".into()),
    }
}

const VERSION: &str = "The version of the response, such as 1.1";

pub(super) const ROWS: &[FetchRow] = &[
    row(answered("status", Int, "The status of the response"), |view, _, _| {
        match view.head(MessageSide::Response) {
            Ok((head, _)) => number(head.status()),
            Err(absent) => absent.into(),
        }
    }),
    row(
        answered("txn.status", Int, "The status that the client gets, -1 before there is one"),
        |view, _, _| {
            of_stream(view, |stream| number(if stream.status == 0 { -1 } else { i64::from(stream.status) }))
        },
    ),
    row(
        answered("server_status", Int, "The status that the server sent, before rules changed it"),
        |view, _, _| {
            of_stream(view, |stream| match stream.server_status {
                0 => FetchResult::Missing,
                status => number(status),
            })
        },
    ),
    row(answered("res.comp", Bool, "Whether we compress the response"), |view, _, _| {
        truth(view.response_compression().is_some())
    }),
    row(answered("res.comp_algo", Str, "The algorithm with which we compress the response"), |view, _, _| {
        text_if(view.response_compression().map(|algorithm| algorithm.word().as_bytes()))
    }),
    row(answered("res.ver", Str, VERSION), |view, _, _| version(view)),
    row(answered("resp_ver", Str, VERSION), |view, _, _| version(view)),
    row(
        FetchDecl::new("capture.res.ver", Str, "The version of the response, such as HTTP/1.1")
            .valid(valid::STREAM)
            .needs(Needs::HTTP_RESPONSE_META),
        |view, _, _| match view.head(MessageSide::Response) {
            Ok((head, _)) => wire(head.version()),
            Err(_) => FetchResult::Missing,
        },
    ),
    row(
        FetchDecl::new("capture.req.hdr", Str, "A captured request header, by its position from 0")
            .args(INDEX)
            .check(check_index)
            .valid(valid::STREAM)
            .needs(Needs::HTTP_REQUEST_META),
        |view, args, _| captured(view.captured(CaptureSide::Request), args),
    ),
    row(
        answered("capture.res.hdr", Str, "A captured response header, by its position from 0")
            .args(INDEX)
            .check(check_index),
        |view, args, _| captured(view.captured(CaptureSide::Response), args),
    ),
];

fn version<'c>(view: &mut dyn FetchView) -> FetchResult<'c> {
    match view.head(MessageSide::Response) {
        Ok((head, _)) => digits(head.version()),
        Err(absent) => absent.into(),
    }
}

fn captured<'c>(kept: &'c [Option<Box<[u8]>>], args: &Args) -> FetchResult<'c> {
    let index = args.int(0).and_then(|index| usize::try_from(index).ok());
    text_if(index.and_then(|index| kept.get(index)?.as_deref()))
}
