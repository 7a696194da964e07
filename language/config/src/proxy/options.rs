//! `option <name>`, `no option <name>`, `default option <name>`.

use std::sync::Arc;

use weir_syntax::{Diagnostic, Layout, Line};

use super::keywords::{DEFAULTS_AND_BACKENDS, DEFAULTS_AND_FRONTENDS, EVERYWHERE};
use super::{BACKENDS, DraftSection, LineContext, Polarity, Sections, checks, logging};
use crate::address::network;
use crate::numbers::integer_in;
use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row, Table};
use crate::words::{Parsed, Words, fault, not_yet, suggesting};
use weir_expr::{EvaluationPoint, EvaluationPoints};
use weir_model::{
    ConnectionMode, ForwardFor, Forwarded, ForwardedValue, IpNetwork, Options, OriginalTo, Redispatch,
    RestrictHeaderNames, Switch,
};

/// Reads one option, in the sections that support it.
#[derive(Clone, Copy, Debug)]
pub struct OptionReader {
    /// The sections that support the option.
    pub sections: Sections,
    /// Whether the option only has an effect in HTTP mode.
    pub http_only: bool,
    /// The values of the option.
    pub kind: OptionKind,
}

/// The values of an option.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// On or off, without arguments. Allows `no` and `default`.
    Flag(fn(&mut Options) -> &mut bool),
    /// On, off or unset.
    Switch(fn(&mut Options) -> &mut Switch),
    /// A connection mode. Setting one replaces another.
    Connection(ConnectionMode),
    /// A reader function, which also gets the prefix.
    Own(#[allow(private_interfaces)] fn(&mut LineContext<'_>, &mut Words<'_>, Polarity) -> Parsed),
    /// A reader function. Refuses `no` and `default`.
    Positive(#[allow(private_interfaces)] fn(&mut LineContext<'_>, &mut Words<'_>) -> Parsed),
}

/// Every option.
pub static OPTIONS: Table<OptionReader> = Table::new(&[READY, checks::OPTIONS, NOT_YET]);

const fn option(
    name: &'static str,
    help: &'static str,
    sections: Sections,
    http_only: bool,
    kind: OptionKind,
) -> Row<OptionReader> {
    with_arguments(name, "", "", help, sections, http_only, kind)
}

/// Options are off by default.
const fn with_arguments(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    sections: Sections,
    http_only: bool,
    kind: OptionKind,
) -> Row<OptionReader> {
    Row::ready(name, arguments, example, help, OptionReader { sections, http_only, kind })
        .default(Described("off"))
}

use OptionKind::{Connection, Flag, Own, Positive};

const READY: &[Row<OptionReader>] = &[
    option(
        "abortonclose",
        "give up requests of clients that closed",
        EVERYWHERE,
        false,
        OptionKind::Switch(|options| &mut options.abort_on_close),
    )
    .default(Described("on in `mode http`, off in `mode tcp`")),
    option(
        "accept-invalid-http-request",
        "old name of accept-unsafe-violations-in-http-request",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.accept_unsafe_request),
    ),
    option(
        "accept-invalid-http-response",
        "old name of accept-unsafe-violations-in-http-response",
        DEFAULTS_AND_BACKENDS,
        true,
        Flag(|options| &mut options.accept_unsafe_response),
    ),
    option(
        "accept-unsafe-violations-in-http-request",
        "take requests that violate the standard in unsafe ways",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.accept_unsafe_request),
    ),
    option(
        "accept-unsafe-violations-in-http-response",
        "take responses that violate the standard in unsafe ways",
        DEFAULTS_AND_BACKENDS,
        true,
        Flag(|options| &mut options.accept_unsafe_response),
    ),
    option(
        "allbackups",
        "balance over all backup servers, not just the first",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.all_backups),
    ),
    option(
        "checkcache",
        "refuse cacheable responses that set cookies",
        DEFAULTS_AND_BACKENDS,
        true,
        Flag(|options| &mut options.check_cache),
    ),
    option(
        "clitcpka",
        "TCP keep-alive towards clients",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.client_keep_alive),
    ),
    option(
        "contstats",
        "count bytes while they flow",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.continuous_statistics),
    ),
    option(
        "dontlog-normal",
        "log only what went wrong",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.dont_log_normal),
    ),
    option(
        "dontlognull",
        "do not log connections that sent nothing",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.dont_log_null),
    ),
    with_arguments(
        "forwardfor",
        "[ except <network> ] [ header <name> ] [ if-none ]",
        "except 127.0.0.0/8 header X-Client if-none",
        "add the client's address to requests",
        EVERYWHERE,
        true,
        Positive(read_forwardfor),
    ),
    with_arguments(
        "forwarded",
        "[ proto ] [ host | host-expr <expr> ] [ by | by-expr <expr> ] [ by_port | by_port-expr <expr> \
         ] [ for | for-expr <expr> ] [ for_port | for_port-expr <expr> ]",
        "proto for",
        "add the standard Forwarded header to requests",
        DEFAULTS_AND_BACKENDS,
        true,
        Own(read_forwarded),
    ),
    option(
        "h1-case-adjust-bogus-client",
        "adjust the case of headers for bogus clients",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.adjust_case_for_client),
    ),
    option(
        "h1-case-adjust-bogus-server",
        "adjust the case of headers for bogus servers",
        DEFAULTS_AND_BACKENDS,
        true,
        Flag(|options| &mut options.adjust_case_for_server),
    ),
    option(
        "http-buffer-request",
        "wait for the body before rules and balancing",
        EVERYWHERE,
        true,
        Flag(|options| &mut options.http_buffer_request),
    ),
    option(
        "http-drop-request-trailers",
        "remove the trailers of requests",
        DEFAULTS_AND_BACKENDS,
        true,
        Flag(|options| &mut options.http_drop_request_trailers),
    ),
    option(
        "http-drop-response-trailers",
        "remove the trailers of responses",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.http_drop_response_trailers),
    ),
    option(
        "http-ignore-probes",
        "be silent about connections without a request",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.http_ignore_probes),
    ),
    option(
        "http-keep-alive",
        "keep connections open between requests (the default)",
        EVERYWHERE,
        true,
        Connection(ConnectionMode::KeepAlive),
    )
    .default(Described("on, unless `option http-server-close` or `option httpclose` is written")),
    option(
        "http-no-delay",
        "never wait to fill segments",
        EVERYWHERE,
        true,
        Flag(|options| &mut options.http_no_delay),
    ),
    option(
        "http-pretend-keepalive",
        "do not announce to servers that the connection closes",
        DEFAULTS_AND_BACKENDS,
        true,
        Flag(|options| &mut options.http_pretend_keep_alive),
    ),
    with_arguments(
        "http-restrict-req-hdr-names",
        "{ preserve | delete | reject }",
        "delete",
        "what to do with unusual header names",
        EVERYWHERE,
        true,
        Positive(read_restrict),
    )
    .default(Described("`preserve`"))
    .values(&[("preserve", "leave them"), ("delete", "remove them"), ("reject", "answer 403")]),
    option(
        "http-server-close",
        "close servers' connections after each response",
        EVERYWHERE,
        true,
        Connection(ConnectionMode::ServerClose),
    ),
    option(
        "http-use-proxy-header",
        "use the Proxy-Connection header",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.http_use_proxy_header),
    ),
    option(
        "httpclose",
        "close connections after each response",
        EVERYWHERE,
        true,
        Connection(ConnectionMode::Close),
    ),
    with_arguments(
        "httplog",
        "[ clf ]",
        "clf",
        "log HTTP requests",
        DEFAULTS_AND_FRONTENDS,
        true,
        Positive(logging::read_httplog),
    ),
    with_arguments(
        "httpslog",
        "",
        "",
        "log HTTP requests over TLS",
        DEFAULTS_AND_FRONTENDS,
        true,
        Positive(logging::read_httpslog),
    ),
    option(
        "disable-h2-upgrade",
        "do not switch to HTTP/2 when a client begins with its preface",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.disable_h2_upgrade),
    ),
    option(
        "idle-close-on-response",
        "on a soft stop, let idle clients have a last response",
        DEFAULTS_AND_FRONTENDS,
        true,
        Flag(|options| &mut options.idle_close_on_response),
    ),
    option(
        "independant-streams",
        "old name of independent-streams",
        EVERYWHERE,
        false,
        Flag(|options| &mut options.independent_streams),
    ),
    option(
        "independent-streams",
        "one way's traffic does not refresh the other's timeout",
        EVERYWHERE,
        false,
        Flag(|options| &mut options.independent_streams),
    ),
    option(
        "log-health-checks",
        "log every change of what health checks find",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.log_health_checks),
    ),
    option(
        "log-separate-errors",
        "log errors at level err",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.log_separate_errors),
    ),
    option(
        "logasap",
        "log when the response begins",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.log_asap),
    ),
    option(
        "nolinger",
        "reset connections on closing",
        EVERYWHERE,
        false,
        Flag(|options| &mut options.no_linger),
    ),
    with_arguments(
        "originalto",
        "[ except <network> ] [ header <name> ]",
        "header X-To",
        "add the address that the client connected to",
        EVERYWHERE,
        true,
        Positive(read_originalto),
    ),
    option(
        "persist",
        "follow cookies to servers that are down",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.persist),
    ),
    option(
        "prefer-last-server",
        "stay on the server of the last request",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.prefer_last_server),
    ),
    with_arguments(
        "redispatch",
        "[<interval>]",
        "1",
        "which retries may choose another server",
        DEFAULTS_AND_BACKENDS,
        false,
        Own(read_redispatch),
    ),
    option(
        "socket-stats",
        "statistics for each listener",
        DEFAULTS_AND_FRONTENDS,
        false,
        Flag(|options| &mut options.socket_statistics),
    ),
    option(
        "splice-auto",
        "let the kernel move bytes when it seems worthwhile",
        EVERYWHERE,
        false,
        Flag(|options| &mut options.splice.auto),
    ),
    option(
        "splice-request",
        "let the kernel move bytes to servers",
        EVERYWHERE,
        false,
        Flag(|options| &mut options.splice.request),
    ),
    option(
        "splice-response",
        "let the kernel move bytes to clients",
        EVERYWHERE,
        false,
        Flag(|options| &mut options.splice.response),
    ),
    option(
        "srvtcpka",
        "TCP keep-alive towards servers",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.server_keep_alive),
    ),
    option(
        "tcp-smart-accept",
        "do not acknowledge data before there is an answer",
        DEFAULTS_AND_FRONTENDS,
        false,
        Own(read_smart_accept),
    ),
    option(
        "tcp-smart-connect",
        "do not send the handshake's last acknowledgement alone",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.tcp_smart_connect),
    ),
    option("tcpka", "TCP keep-alive on both sides", EVERYWHERE, false, Positive(read_tcpka)),
    with_arguments(
        "tcplog",
        "[ clf ]",
        "",
        "log TCP connections",
        DEFAULTS_AND_FRONTENDS,
        false,
        Positive(logging::read_tcplog),
    ),
    option(
        "transparent",
        "connect to where the client wanted to go",
        DEFAULTS_AND_BACKENDS,
        false,
        Flag(|options| &mut options.transparent),
    ),
];

const NOT_YET: &[Row<OptionReader>] = &[
    Row::not_yet("use-small-buffers", "[ queue | l7-retries | check ]*", "use small buffers"),
    Row::removed("http-tunnel", "please just remove it, it shouldn't be needed."),
    Row::removed("forceclose", "please just remove it, or use 'option httpclose' if absolutely needed."),
    Row::removed("http_proxy", "please just remove it."),
    Row::removed("http-use-htx", "please just remove it, it is always used."),
];

/// Reads `[no|default] option <name> ...`, where `option` is word `first`.
pub(super) fn read_option(
    context: &mut LineContext<'_>,
    line: &Line,
    first: usize,
    polarity: Polarity,
) -> Parsed {
    let mut words = Words::new(line, first + 1);
    let word = words.expect("'option' expects an option name.")?;
    let name = word.text();
    let Some(row) = OPTIONS.find(name) else {
        let unknown = fault(word.span(), format!("unknown option '{name}'."));
        return Err(suggesting(unknown, OPTIONS.nearest(name)));
    };
    let reader = match row.handler {
        Handler::Ready(reader) => reader,
        // Switching off an unimplemented option changes nothing.
        Handler::NotYet if polarity != Polarity::Set => return Ok(()),
        Handler::NotYet => {
            return Err(not_yet(line.span_at(first).to(word.span()), &format!("option {name}")));
        }
        Handler::Removed(instead) => {
            let message = format!("option '{name}' is not supported any more, {instead}");
            return Err(Box::new(Diagnostic::alert(word.span(), message).layout(Layout::ParsingTight)));
        }
    };
    if polarity != Polarity::Set && matches!(reader.kind, Positive(_)) {
        let message = format!("negation/default is not supported for option '{name}'.");
        return Err(Box::new(Diagnostic::alert(word.span(), message).layout(Layout::ParsingTight)));
    }
    if !reader.sections.allows(context.draft.section) {
        return misplaced(context, line, word.span(), name, reader.sections);
    }
    if polarity == Polarity::Set {
        context.draft.logs.note_option(row.name, word.span());
        if let Some(message) = name.strip_prefix("accept-invalid-http-") {
            context.warn_tight(
                word.span(),
                format!(
                    "option '{name}' is deprecated. please use 'option accept-unsafe-violations-in-http-{message}' if \
                     absolutely needed."
                ),
            );
        }
    }
    let mode_option = format!("option {name}");
    match reader.kind {
        Flag(field) => {
            *field(&mut context.settings().options) = polarity == Polarity::Set;
            words.end(&mode_option)
        }
        OptionKind::Switch(field) => {
            *field(&mut context.settings().options) = match polarity {
                Polarity::Set => Switch::On,
                Polarity::No => Switch::Off,
                Polarity::Default => Switch::Unset,
            };
            words.end(&mode_option)
        }
        Connection(mode) => {
            let current = &mut context.settings().options.connection_mode;
            match polarity {
                Polarity::Set => *current = Some(mode),
                _ if *current == Some(mode) => *current = None,
                _ => {}
            }
            words.end(&mode_option)
        }
        Own(read) => read(context, &mut words, polarity),
        Positive(read) => read(context, &mut words),
    }
}

fn misplaced(
    context: &mut LineContext<'_>,
    line: &Line,
    span: weir_syntax::Span,
    name: &str,
    sections: Sections,
) -> Parsed {
    let section = context.draft.section;
    if matches!(name, "httplog" | "tcplog") {
        let message =
            format!("backend '{}' : 'option {name}' directive is ignored in backends.", context.name());
        context.warn(line.span(), message);
        return Ok(());
    }
    let lacking = if sections.contains(BACKENDS)
        || section == DraftSection::Proxy(weir_model::ProxySection::Frontend)
    {
        "backend"
    } else {
        "frontend"
    };
    let message = format!(
        "'{name}' ignored because {} '{}' has no {lacking} capability.",
        section.noun(),
        context.name()
    );
    context.warn(span, message);
    Ok(())
}

fn read_forwardfor(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let mut forward = ForwardFor { header: "x-forwarded-for".into(), except: None, if_none: false };
    while let Some(word) = words.take() {
        match word.text() {
            "except" => forward.except = Some(read_except(words, "forwardfor")?),
            "header" => forward.header = read_header_name(words, "forwardfor")?,
            "if-none" => forward.if_none = true,
            _ => {
                let message =
                    "'option forwardfor' only supports optional values: 'except', 'header' and 'if-none'.";
                return Err(fault(word.span(), message));
            }
        }
    }
    context.settings().options.forward_for = Some(Arc::new(forward));
    Ok(())
}

/// `option forwarded`, and `no option forwarded`.
fn read_forwarded(context: &mut LineContext<'_>, words: &mut Words<'_>, polarity: Polarity) -> Parsed {
    if polarity != Polarity::Set {
        context.settings().options.forwarded = None;
        return words.end("option forwarded");
    }
    let mut forwarded = Forwarded::default();
    if words.at_end() {
        forwarded.proto = true;
        forwarded.source = Some(ForwardedValue::Own);
    }
    while let Some(word) = words.take() {
        let (name, value) = match word.text().strip_suffix("-expr") {
            Some(name) if name != "proto" => {
                let points = EvaluationPoints::only(EvaluationPoint::BackendRequestHeader);
                if words.at_end() {
                    return Err(words.fault(format!("'option forwarded' : '{word}' expects an expression.")));
                }
                let expression = context.expressions().expression(words, points)?;
                (name, ForwardedValue::Expression(expression))
            }
            _ => (word.text(), ForwardedValue::Own),
        };
        match name {
            "proto" => forwarded.proto = true,
            "host" => forwarded.host = Some(value),
            "by" => forwarded.by = Some(value),
            "by_port" => forwarded.by_port = Some(value),
            "for" => forwarded.source = Some(value),
            "for_port" => forwarded.source_port = Some(value),
            _ => {
                let message = format!(
                    "'option forwarded' : unknown parameter '{word}'; it takes 'proto', 'host', 'host-expr', 'by', \
                     'by-expr', 'by_port', 'by_port-expr', 'for', 'for-expr', 'for_port' and 'for_port-expr'."
                );
                return Err(fault(word.span(), message));
            }
        }
    }
    for (port, node, name) in
        [(&forwarded.by_port, &forwarded.by, "by"), (&forwarded.source_port, &forwarded.source, "for")]
    {
        if port.is_some() && node.is_none() {
            let message = format!("'option forwarded' : '{name}_port' is ignored without '{name}'.");
            context.warn(words.line().span(), message);
        }
    }
    context.settings().options.forwarded = Some(Arc::new(forwarded));
    Ok(())
}

fn read_originalto(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let mut original = OriginalTo { header: "x-original-to".into(), except: None };
    while let Some(word) = words.take() {
        match word.text() {
            "except" => original.except = Some(read_except(words, "originalto")?),
            "header" => original.header = read_header_name(words, "originalto")?,
            _ => {
                let message = "'option originalto' only supports optional values: 'except' and 'header'.";
                return Err(fault(word.span(), message));
            }
        }
    }
    context.settings().options.original_to = Some(Arc::new(original));
    Ok(())
}

fn read_except(words: &mut Words<'_>, option: &str) -> Parsed<IpNetwork> {
    let missing = format!("'option {option} except' expects <address>[/mask] as argument.");
    let word = words.expect(&missing)?;
    network(word.text()).ok_or_else(|| fault(word.span(), missing))
}

fn read_header_name(words: &mut Words<'_>, option: &str) -> Parsed<Box<str>> {
    let word = words.expect(&format!("'option {option} header' expects <header_name> as argument."))?;
    Ok(word.text().into())
}

fn read_restrict(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let expects = "option 'http-restrict-req-hdr-names' expects 'preserve', 'reject' or 'delete' option.";
    let word = words.expect(&format!("missing parameter. {expects}"))?;
    let policy = match word.text() {
        "preserve" => RestrictHeaderNames::Preserve,
        "delete" => RestrictHeaderNames::Delete,
        "reject" => RestrictHeaderNames::Reject,
        _ => return Err(fault(word.span(), format!("invalid parameter '{word}'. {expects}"))),
    };
    context.settings().options.restrict_header_names = Some(policy);
    words.end("option http-restrict-req-hdr-names")
}

fn read_redispatch(context: &mut LineContext<'_>, words: &mut Words<'_>, polarity: Polarity) -> Parsed {
    if polarity != Polarity::Set {
        context.settings().options.redispatch = Redispatch::Off;
        return words.end("option redispatch");
    }
    let redispatch = match words.take() {
        None => Redispatch::FromLast(1),
        Some(word) => match integer_in(word, "option redispatch", i32::MIN + 1..=i32::MAX)? {
            0 => Redispatch::Off,
            interval @ 1.. => Redispatch::Every(interval.unsigned_abs()),
            interval => Redispatch::FromLast(interval.unsigned_abs()),
        },
    };
    context.settings().options.redispatch = redispatch;
    words.end("option redispatch")
}

fn read_smart_accept(context: &mut LineContext<'_>, words: &mut Words<'_>, polarity: Polarity) -> Parsed {
    context.settings().options.tcp_smart_accept = match polarity {
        Polarity::Set => Some(true),
        Polarity::No => Some(false),
        Polarity::Default => None,
    };
    words.end("option tcp-smart-accept")
}

fn read_tcpka(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let section = context.draft.section;
    let options = &mut context.settings().options;
    options.client_keep_alive |= section.is_frontend() || section.is_defaults();
    options.server_keep_alive |= section.is_backend() || section.is_defaults();
    words.end("option tcpka")
}
