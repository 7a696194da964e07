//! `HTTPClient`: one request of a script (`core.httpclient`).

use std::sync::Arc;

use weir_client::{AnswerLimits, RequestFailure, RequestFields, RequestRoute, Url, UrlFault};
use weir_lua::{LuaKind, LuaStack, Misuse};
use weir_sys::Errno;

use super::values::strings_in_order;
use super::{ApiCall, ApiMember, ApiResult};
use crate::held::HeldBytes;
use crate::network::{self, most_received};
use crate::requests::{RequestJob, ScriptRequest, push_failure};
use crate::wait::ScriptWait;

pub(super) const METHODS: &[ApiMember] = &[
    ("get", |call| send(call, "get", "GET")),
    ("head", |call| send(call, "head", "HEAD")),
    ("put", |call| send(call, "put", "PUT")),
    ("post", |call| send(call, "post", "POST")),
    ("delete", |call| send(call, "delete", "DELETE")),
];

/// `core.httpclient()`. Nothing while the configuration is read, as in HAProxy.
pub(super) fn new(call: &ApiCall<'_>) -> ApiResult {
    if call.host().is_loading.get() {
        return call.results(0);
    }
    call.push_object(call.host().classes().httpclient, UNUSED, 0);
    call.results(1)
}

/// The arguments of a request.
#[derive(Debug)]
struct RequestParameters {
    url: Option<String>,
    route: RequestRoute,
    fields: RequestFields,
    body: Vec<u8>,
    timeout_ms: u64,
}

/// `get(request)` and its kin.
fn send(call: &ApiCall<'_>, function: &'static str, method: &'static str) -> ApiResult {
    let class = call.host().classes().httpclient;
    let used = call.object(1, class).ok_or_else(|| call.wrong_kind(1, "HTTPClient"))?;
    if call.count() != 2 || call.kind(2) != LuaKind::Table {
        return Err(Misuse::text(format!("'{function}' needs a table as argument")));
    }
    if used != UNUSED {
        return Err(Misuse::text(
            "httpclient instance cannot be reused. It must process at most one request",
        ));
    }
    let RequestParameters { url, route, fields, body, timeout_ms } = parameters(call)?;
    let url = url.ok_or_else(|| Misuse::text(format!("'{function}' need a 'url' argument")))?;
    let url = parse_url(&url)?;
    let client = call.host().network.get().map(|network| Arc::clone(&network.client));
    let (url, client) = match (url, client) {
        (Some(url), Some(client)) if timeout_ms > 0 => (url, client),
        (url, _) => {
            call.parts(1).set_first(USED);
            let nowhere = || RequestFailure::NoConnection(Errno::ADDRNOTAVAIL.into());
            push_failure(call, url.map_or_else(nowhere, |_| RequestFailure::NoAnswerInTime));
            return call.results(1);
        }
    };
    let bytes = most_received(&call.host().settings);
    let limits = AnswerLimits { bytes, timeout_ms, is_idle_timeout: true, accepts_part: true };
    let request = ScriptRequest { method, url, route, fields, body, limits };
    let held = HeldBytes::new(Arc::clone(&call.host().held));
    let end = call.wait(ScriptWait::Job(Box::new(RequestJob::new(client, request, held))))?;
    call.parts(1).set_first(USED);
    Ok(end)
}

/// The parameters in the table of argument 2.
fn parameters(call: &ApiCall<'_>) -> Result<RequestParameters, Misuse> {
    let mut read = RequestParameters {
        url: None,
        route: RequestRoute::Host,
        fields: RequestFields::default(),
        body: Vec::new(),
        timeout_ms: DEFAULT_TIMEOUT_MS,
    };
    let invalid = |name: &str, kind: &str| {
        Err(Misuse::text(format!("invalid parameter in '{name}', must be a {kind}")))
    };
    call.each_pair(2, |stack| {
        let (name, kind) = (stack.bytes(-2).unwrap_or_default().to_vec(), stack.kind(-1));
        match (&name[..], kind) {
            (b"url", LuaKind::String) => read.url = Some(text(stack)),
            (b"url", _) => return invalid("url", "string"),
            (b"body", LuaKind::String) => read.body = stack.bytes(-1).unwrap_or_default().to_vec(),
            (b"body", _) => return invalid("body", "string"),
            (b"headers", LuaKind::Table) => read_fields(stack, &mut read.fields)?,
            (b"headers", _) => return invalid("headers", "table"),
            (b"timeout", LuaKind::Integer | LuaKind::Float) => read.timeout_ms = timeout_ms(stack),
            (b"timeout", _) => return invalid("timeout", "number"),
            (b"dst", _) => {
                let address = network::address(&text(stack));
                let address = address.ok_or_else(|| Misuse::text("Can't use the 'dst' argument"))?;
                read.route = RequestRoute::Address(address);
            }
            _ => {
                let name = String::from_utf8_lossy(&name);
                return Err(Misuse::text(format!("'{name}' invalid parameter name")));
            }
        }
        Ok(())
    })?;
    Ok(read)
}

/// The value of a pair as text.
fn text(stack: &LuaStack<'_>) -> String {
    String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default()).into_owned()
}

/// The timeout in milliseconds: 0 and fractions are the default, as in HAProxy. A negative one has passed already.
fn timeout_ms(stack: &LuaStack<'_>) -> u64 {
    match stack.integer(-1).unwrap_or(0) {
        0 => DEFAULT_TIMEOUT_MS,
        wanted => u64::try_from(wanted).unwrap_or(0).min(MOST_TIMEOUT_MS),
    }
}

/// Reads the table of header fields: names, each with a table of values in the order of their numbers.
fn read_fields(stack: &LuaStack<'_>, fields: &mut RequestFields) -> Result<(), Misuse> {
    stack.each_pair(-1, |stack| {
        if stack.kind(-2) != LuaKind::String {
            return Err(Misuse::text(
                "invalid parameter in 'headers', the name of a header must be a string",
            ));
        }
        let name = stack.bytes(-2).unwrap_or_default().to_vec();
        if stack.kind(-1) != LuaKind::Table {
            // HAProxy ignores it, too.
            return Ok(());
        }
        strings_in_order(stack)?.try_for_each(|value| {
            fields.add(&name, &value).map_err(|fault| {
                let name = String::from_utf8_lossy(&name);
                Misuse::text(format!("invalid parameter in 'headers', '{name}': {fault}"))
            })
        })
    })
}

/// The URL. `None` if no server can have it.
fn parse_url(text: &str) -> Result<Option<Url>, Misuse> {
    // The fragment and the user do not belong to the request.
    let text = text.split('#').next().unwrap_or_default();
    let parsed = match text.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            Url::parse(&format!("{scheme}://{host}{target}"))
        }
        None => Url::parse(text),
    };
    match parsed {
        Ok(url) => Ok(Some(url)),
        Err(UrlFault::OtherScheme | UrlFault::Authority) => Ok(None),
        Err(UrlFault::WithoutScheme) => Err(Misuse::text("couldn't start the httpclient")),
        Err(UrlFault::WithoutHost | UrlFault::Characters | UrlFault::TooLong) => {
            Err(Misuse::text("Can't generate the HTTP request"))
        }
    }
}

/// The number of an object that has sent no request.
const UNUSED: i64 = 0;
const USED: i64 = 1;
/// How long a server may be silent, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 60_000;
/// The longest timeout, in milliseconds.
const MOST_TIMEOUT_MS: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_and_users_are_not_sent() {
        let shown = |text: &str| match parse_url(text) {
            Ok(url) => url.map_or("none".to_owned(), |url| url.absolute()),
            Err(Misuse::Text(text)) => text.into_owned(),
            Err(other) => format!("{other:?}"),
        };
        for (text, expected) in [
            ("http://a/x#y", "http://a/x"),
            ("http://u:p@a:81/x@y?z", "http://a:81/x@y?z"),
            ("http://u@v@a", "http://a/"),
            ("ftp://a/", "none"),
            ("http://a:0/", "none"),
            ("http://a:99999/", "none"),
            ("rubbish", "couldn't start the httpclient"),
            ("", "couldn't start the httpclient"),
            ("/path", "couldn't start the httpclient"),
            ("http://", "Can't generate the HTTP request"),
            ("http://a/b c", "Can't generate the HTTP request"),
            ("http://a/\r\nx: y", "Can't generate the HTTP request"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
