//! The response's start line, and captured values.

use weir_expr::SampleType::{Int, Str};
use weir_expr::context::CaptureSide;
use weir_expr::{ArgKind, ArgSpec, Args, FetchDecl, Fetched, Needs, SampleType, Scope};

use super::access::Side;
use super::request::{digits, wire};
use super::values::{number, text_if};
use super::{Row, row, valid};
use crate::stream::Stream;

const fn answered(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::HTTP_RESPONSE_META)
}

const INDEX: ArgSpec = ArgSpec::new(1, &[ArgKind::Int]);

fn check_index(args: &mut Args, _: &Scope<'_>) -> Result<(), String> {
    match args.int(0) {
        Some(0..) => Ok(()),
        _ => Err("a position is expected, from 0".into()),
    }
}

const VERSION: &str = "The version of the response, such as 1.1";

pub(super) const ROWS: &[Row] = &[
    row(answered("status", Int, "The status of the response"), |stream, _, _| {
        match stream.head(Side::Response) {
            Ok((head, _)) => number(head.status()),
            Err(absent) => absent.into(),
        }
    }),
    row(
        answered("txn.status", Int, "The status that the client gets, -1 before there is one"),
        |stream, _, _| {
            number(if stream.response.status == 0 { -1 } else { i64::from(stream.response.status) })
        },
    ),
    row(
        answered("server_status", Int, "The status that the server sent, before rules changed it"),
        |stream, _, _| match stream.response.server_status {
            0 => Fetched::Missing,
            status => number(status),
        },
    ),
    row(answered("res.ver", Str, VERSION), |stream, _, _| version(stream)),
    row(answered("resp_ver", Str, VERSION), |stream, _, _| version(stream)),
    row(
        FetchDecl::new("capture.res.ver", Str, "The version of the response, such as HTTP/1.1")
            .valid(valid::STREAM)
            .needs(Needs::HTTP_RESPONSE_META),
        |stream, _, _| match stream.head(Side::Response) {
            Ok((head, _)) => wire(head.version()),
            Err(_) => Fetched::Missing,
        },
    ),
    row(
        FetchDecl::new("capture.req.hdr", Str, "A captured request header, by its position from 0")
            .args(INDEX)
            .check(check_index)
            .valid(valid::STREAM)
            .needs(Needs::HTTP_REQUEST_META),
        |stream, args, _| captured(stream.captures.slots(CaptureSide::Request), args),
    ),
    row(
        answered("capture.res.hdr", Str, "A captured response header, by its position from 0")
            .args(INDEX)
            .check(check_index),
        |stream, args, _| captured(stream.captures.slots(CaptureSide::Response), args),
    ),
];

fn version<'c>(stream: &mut Stream) -> Fetched<'c> {
    match stream.head(Side::Response) {
        Ok((head, _)) => digits(head.version()),
        Err(absent) => absent.into(),
    }
}

fn captured<'c>(kept: &'c [Option<Box<[u8]>>], args: &Args) -> Fetched<'c> {
    let index = args.int(0).and_then(|index| usize::try_from(index).ok());
    text_if(index.and_then(|index| kept.get(index)?.as_deref()))
}
