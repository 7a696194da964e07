//! The parameters of a request to an application (manual, 10.2).

use weir_expr::scratch::Scratch;
use weir_fcgi::Params;
use weir_fcgi::params::parameter_byte;
use weir_http::{Head, auth};
use weir_model::FcgiApplication;
use weir_vocabulary::application::CgiRequest;

use crate::ending::{By, During};
use crate::instance::application::Application;
use crate::stream::rule_state::{RefusingOption, StoppedBy};
use crate::stream::{PhaseResult, Stream, StreamError};

/// Writes the parameters of the stream's request to `params`. `length` is the length of its body in bytes.
///
/// # Errors
/// 400 for a path that cannot be decoded or divided safely.
pub(crate) fn write(stream: &mut Stream, length: u64, params: &mut Params) -> PhaseResult {
    params.clear();
    let Some(application) = stream.backend.application.clone() else { return Ok(()) };
    let custom = evaluate(stream, &application);
    let passed = passed_headers(stream, &application.config);
    if !write_request(stream, &application.config, length, &passed, &custom, params) {
        stream.counts().count_bad_request();
        stream.rules.stopped_by = StoppedBy::Option(RefusingOption::ApplicationPath);
        return Err(StreamError::error(400, By::Proxy, During::Headers));
    }
    for (name, value) in &custom {
        // A rule cannot change the length: the application would wait for bytes that do not come.
        if *name != CONTENT_LENGTH {
            params.push(name, value.as_slice());
        }
    }
    Ok(())
}

/// Writes the parameters that do not depend on lines of the application. False if its path cannot be decoded or divided safely.
fn write_request(
    stream: &Stream,
    application: &FcgiApplication,
    length: u64,
    passed: &[&[u8]],
    custom: &[(&[u8], Scratch)],
    params: &mut Params,
) -> bool {
    let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
    let (source, destination) = (stream.source(), stream.destination());
    let request = CgiRequest {
        application,
        head,
        raw,
        length,
        source: Some(&source),
        destination: Some(&destination),
        is_secured: stream.client.tls().is_some(),
    };
    let overwrites = |name: &[u8]| custom.iter().any(|(known, _)| *known == name);
    if request.write_defaults(params, &overwrites, &mut crate::recycle::bytes()).is_err() {
        return false;
    }
    write_user(head, raw, &overwrites, params);
    request.write_fields(params, |name| {
        let is_in = |list: &[&[u8]]| list.iter().any(|one| name.eq_ignore_ascii_case(one));
        let is_hidden = is_in(NEVER) || (is_in(HIDDEN) && !is_in(passed));
        is_hidden || custom.iter().any(|(known, _)| is_parameter_of(known, name))
    });
    true
}

/// The values of `set-param`, each name once.
fn evaluate<'a>(stream: &mut Stream, application: &'a Application) -> Vec<(&'a [u8], Scratch)> {
    let mut custom: Vec<(&[u8], Scratch)> = Vec::new();
    for (name, line) in application.parameters() {
        if line.condition.as_ref().is_some_and(|condition| !stream.holds(condition)) {
            continue;
        }
        let value = stream.format(&line.value);
        // A line without a value is ignored.
        if value.as_slice().is_empty() {
            continue;
        }
        match custom.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => custom.push((name, value)),
        }
    }
    custom
}

/// The headers of the `pass-header` lines that apply.
fn passed_headers<'a>(stream: &mut Stream, application: &'a FcgiApplication) -> Vec<&'a [u8]> {
    let lines = application.pass_headers.iter();
    let applying =
        lines.filter(|line| line.condition.as_ref().is_none_or(|condition| stream.holds(condition)));
    applying.map(|line| &*line.name).collect()
}

/// The client's credentials: their kind, and the name of the user.
fn write_user(head: &Head, raw: &[u8], overwrites: &dyn Fn(&[u8]) -> bool, params: &mut Params) {
    let mut push = |name: &[u8], value: &[u8]| {
        if !overwrites(name) {
            params.push(name, value);
        }
    };
    let Some(value) = head.find_line(raw, b"authorization", 1) else { return };
    if let Some(credentials) = auth::basic(value) {
        push(b"AUTH_TYPE", b"Basic");
        push(b"REMOTE_USER", &credentials.user);
    } else if auth::scheme(value).is_some_and(|(name, _)| name.eq_ignore_ascii_case(b"Bearer")) {
        push(b"AUTH_TYPE", b"Bearer");
    }
}

/// Whether the parameter is that of the field.
fn is_parameter_of(parameter: &[u8], field: &[u8]) -> bool {
    let Some(rest) = parameter.strip_prefix(b"HTTP_") else { return false };
    let same = |(one, other): (&u8, &u8)| *one == parameter_byte(*other);
    rest.len() == field.len() && rest.iter().zip(field).all(same)
}

const CONTENT_LENGTH: &[u8] = b"CONTENT_LENGTH";

/// Fields that applications see only with `pass-header`: credentials, and those that end with the connection.
const HIDDEN: &[&[u8]] = &[
    b"authorization",
    b"proxy-authorization",
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"te",
    b"transfer-encoding",
    b"upgrade",
];

/// The field that libraries of applications take for the address of a proxy (httpoxy).
const NEVER: &[&[u8]] = &[b"proxy"];
