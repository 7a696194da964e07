//! The request line, and values derived from it and from the host.

use weir_backend::hash;
use weir_expr::SampleType::{Bin, Bool, Int, Ipv4, Method, Str};
use weir_expr::{
    ArgKind, ArgSpec, Args, ExpressionScope, FetchDecl, FetchResult, Needs, SampleType, Value, scratch,
};
use weir_http::{Head, KnownName, Version, uri};

use super::headers::parse_ip;
use super::values::{leading_number, made, made_binary, number, text, text_if, truth};
use super::{FetchRow, row, valid};
use crate::view::{Absent, FetchView, MessageSide};

const fn request(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST)
}

const fn known_later(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::STREAM).needs(Needs::HTTP_REQUEST_META)
}

const OPTIONS: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);
const VERSION: &str = "The version of the request, such as 1.1";

pub(super) const ROWS: &[FetchRow] = &[
    row(known_later("method", Method, "The method of the request"), |view, _, _| {
        of_kept_request(view, |head, raw| FetchResult::value(Value::method(head.method_text(raw))))
    }),
    row(known_later("req.ver", Str, VERSION), |view, _, _| {
        of_kept_request(view, |head, _| digits(head.version()))
    }),
    row(known_later("req_ver", Str, VERSION), |view, _, _| {
        of_kept_request(view, |head, _| digits(head.version()))
    }),
    row(
        known_later("http_first_req", Bool, "Whether the request is the first of its connection"),
        |view, _, _| truth(view.client_requests() <= 1),
    ),
    row(known_later("capture.req.method", Str, "The method of the request, as it came"), |view, _, _| {
        captured(view, |method, _| Some(method))
    }),
    row(
        known_later("capture.req.uri", Str, "The path and the query of the request, as they came"),
        |view, _, _| {
            captured(view, |_, target| Some(uri::path_and_query(target)).filter(|path| !path.is_empty()))
        },
    ),
    row(
        known_later("capture.req.ver", Str, "The version of the request, as it came, such as HTTP/1.1"),
        |view, _, _| of_kept_request(view, |head, _| wire(head.version())),
    ),
    row(request("url", Str, "The target of the request"), |view, _, _| {
        of_head(view, |head, raw| text(head.uri(raw)))
    }),
    row(
        request("url_ip", Ipv4, "The address in the target of the request, if its host is one"),
        |view, _, _| {
            of_head(view, |head, raw| {
                let host = host_and_port(head.uri(raw)).and_then(|(host, _)| parse_ip(host));
                host.map_or(FetchResult::Missing, |ip| FetchResult::value(Value::from(ip)))
            })
        },
    ),
    row(request("url_port", Int, "The port in the target of the request, 80 without one"), |view, _, _| {
        of_head(view, |head, raw| {
            let found = host_and_port(head.uri(raw)).filter(|(host, _)| parse_ip(host).is_some());
            found.map_or(FetchResult::Missing, |(_, port)| number(port))
        })
    }),
    row(request("path", Str, "The path of the request"), |view, _, _| {
        of_head(view, |head, raw| text_if(Some(head.path(raw)).filter(|path| !path.is_empty())))
    }),
    row(request("pathq", Str, "The path and the query of the request"), |view, _, _| {
        of_head(view, |head, raw| {
            text_if(Some(head.path_and_query(raw)).filter(|path| path.starts_with(b"/")))
        })
    }),
    row(
        request("query", Str, "The query of the request; with its question mark if with_qm says so")
            .args(OPTIONS)
            .check(check_query_option),
        |view, args, _| {
            let with_mark = args.str(0) == Some(WITH_MARK);
            of_head(view, |head, raw| {
                let target = head.uri(raw);
                let query = uri::query(target);
                // The question mark is omitted with an empty query.
                let marked = query.filter(|query| with_mark && !query.is_empty());
                text_if(marked.map(|query| &target[target.len() - query.len() - 1..]).or(query))
            })
        },
    ),
    row(request("base", Str, "The host and the path of the request"), |view, _, _| {
        joined(view, |head, raw| head.path(raw), made)
    }),
    row(request("baseq", Str, "The host, the path and the query of the request"), |view, _, _| {
        joined(view, |head, raw| head.path_and_query(raw), made)
    }),
    row(request("base32", Int, "A 32-bit hash of the host and the path"), |view, _, _| {
        joined(view, |head, raw| head.path(raw), hashed)
    }),
    row(request("url32", Int, "A 32-bit hash of the host, the path and the query"), |view, _, _| {
        joined(view, |head, raw| head.path_and_query(raw), hashed)
    }),
    row(
        request("base32+src", Bin, "A hash of the host and the path, then the client's address"),
        |view, _, _| {
            let source = view.source().and_then(|source| source.ip());
            joined(view, |head, raw| head.path(raw), |text| hashed_with(text, source))
        },
    ),
    row(
        request("url32+src", Bin, "A hash of the host, the path and the query, then the client's address"),
        |view, _, _| {
            let source = view.source().and_then(|source| source.ip());
            joined(view, |head, raw| head.path_and_query(raw), |text| hashed_with(text, source))
        },
    ),
];

fn of_head<'c>(
    view: &'c mut dyn FetchView,
    answer: impl FnOnce(&'c Head, &'c [u8]) -> FetchResult<'c>,
) -> FetchResult<'c> {
    of_side(view, MessageSide::Request, answer)
}

/// A value of the request, also available after the response began.
fn of_kept_request<'c>(
    view: &'c mut dyn FetchView,
    answer: impl FnOnce(&'c Head, &'c [u8]) -> FetchResult<'c>,
) -> FetchResult<'c> {
    of_side(view, MessageSide::KeptRequest, answer)
}

fn of_side<'c>(
    view: &'c mut dyn FetchView,
    side: MessageSide,
    answer: impl FnOnce(&'c Head, &'c [u8]) -> FetchResult<'c>,
) -> FetchResult<'c> {
    match view.head(side) {
        Ok((head, raw)) => answer(head, raw),
        Err(absent) => absent.into(),
    }
}

/// The digits of a version. Known versions are static text.
pub(super) fn digits<'c>(version: Version) -> FetchResult<'c> {
    match version {
        Version::HTTP_11 => text(b"1.1"),
        Version::HTTP_10 => text(b"1.0"),
        version => super::values::copied(&version.digits()),
    }
}

/// A version as in the start line.
pub(super) fn wire<'c>(version: Version) -> FetchResult<'c> {
    match version {
        Version::HTTP_11 => text(b"HTTP/1.1"),
        Version::HTTP_10 => text(b"HTTP/1.0"),
        version => super::values::copied(&version.wire()),
    }
}

/// Applies `part` to the original method and target, before rules changed them. They come from the request line kept for the log,
/// or else from the current head.
fn captured(
    view: &mut dyn FetchView,
    part: impl for<'l> Fn(&'l [u8], &'l [u8]) -> Option<&'l [u8]>,
) -> FetchResult<'_> {
    if let Some(line) = view.request_line().filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return part(method, target).map_or(FetchResult::Missing, super::values::copied);
    }
    let Ok((head, raw)) = view.head(MessageSide::KeptRequest) else { return FetchResult::Missing };
    text_if(part(head.method_text(raw), head.uri(raw)))
}

/// Host and port of a target in absolute form.
fn host_and_port(target: &[u8]) -> Option<(&[u8], u16)> {
    uri::scheme(target)?;
    let authority = uri::without_userinfo(uri::authority(target)?);
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (host, port) = authority.split_at(authority.len() - digits);
    match host {
        [host @ .., b':'] if !host.is_empty() && !host.ends_with(b":") => {
            Some((host, u16::try_from(leading_number(port)).ok()?))
        }
        _ => Some((authority, 80)),
    }
}

const WITH_MARK: &[u8] = b"with_qm";

fn check_query_option(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(0) {
        None | Some(b"" | WITH_MARK) => Ok(()),
        Some(option) => {
            Err(format!("unknown option '{}' (expects 'with_qm')", String::from_utf8_lossy(option)))
        }
    }
}

/// The first Host field followed by a part of the target. Missing if neither exists.
fn joined<'c>(
    view: &mut dyn FetchView,
    part: impl for<'h> Fn(&'h Head, &'h [u8]) -> &'h [u8],
    then: impl FnOnce(Vec<u8>) -> FetchResult<'c>,
) -> FetchResult<'c> {
    let (head, raw) = match view.head(MessageSide::Request) {
        Ok(found) => found,
        Err(absent) => return absent.into(),
    };
    let host = head.find_known(raw, KnownName::Host);
    let part = part(head, raw);
    if host.is_none() && part.is_empty() {
        return Absent::Missing.into();
    }
    let mut text = scratch::take();
    text.extend_from_slice(host.unwrap_or_default());
    text.extend_from_slice(part);
    then(text)
}

fn hash_of(text: Vec<u8>) -> u32 {
    let hash = hash::avalanche(hash::sdbm(&text));
    scratch::give(text);
    hash
}

fn hashed<'c>(text: Vec<u8>) -> FetchResult<'c> {
    number(hash_of(text))
}

fn hashed_with<'c>(text: Vec<u8>, source: Option<std::net::IpAddr>) -> FetchResult<'c> {
    let Some(source) = source else { return FetchResult::Missing };
    let mut bytes = scratch::take();
    bytes.extend(hash_of(text).to_be_bytes());
    match source {
        std::net::IpAddr::V4(ip) => bytes.extend(ip.octets()),
        std::net::IpAddr::V6(ip) => bytes.extend(ip.octets()),
    }
    made_binary(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of HAProxy 2.6 for `base32` and `url32`.
    #[test]
    fn base32_and_url32_equal_haproxys_hashes() {
        assert_eq!(hash_of(b"ho.st:8080/a/b".to_vec()), 652_409_259);
        assert_eq!(hash_of(b"ho.st:8080/a/b?c=d".to_vec()), 2_852_866_428);
        assert_eq!(hash_of(b"/".to_vec()), 2_118_074_832);
    }

    #[test]
    fn parses_host_and_port_of_absolute_targets() {
        #[track_caller]
        fn check(target: &str, expected: Option<(&str, u16)>) {
            let found = host_and_port(target.as_bytes());
            assert_eq!(found, expected.map(|(host, port)| (host.as_bytes(), port)), "{target}");
        }
        check("http://10.0.0.1:81/p", Some(("10.0.0.1", 81)));
        check("http://10.0.0.1/p", Some(("10.0.0.1", 80)));
        check("http://10.0.0.1:/p", Some(("10.0.0.1", 0)));
        check("http://u@[::1]:8080/", Some(("[::1]", 8080)));
        check("http://10.0.0.1:99999/", None);
        check("/p", None);
        check("10.0.0.1:443", None);
    }
}
