//! Selection of servers in a backend: `balance`, `hash-type`, `cookie`, `retries`, `server` and similar words.

use std::sync::Arc;

use weir_expr::{EvaluationPoint, EvaluationPoints};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Span, Word};

use super::keywords::{DEFAULTS_AND_BACKENDS, keyword, strict_keyword};
use super::{BACKENDS, LineContext, ProxyReader};
use crate::address::{any_server_address, is_multipath};
use crate::numbers::{integer, integer_in, seconds_of};
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::server::{SERVER_EXPECTS, ServerLine, ServerLineKind, check_server_name, read_server_options};
use crate::source::read_source;
use crate::words::{Fault, Parsed, Words, fault, none_of, tight};
use weir_model::{
    ALGORITHMS, Balance, BalanceArgument, BalanceSyntax, BalanceWord, CookieMode, CookiePersistence, FORMS,
    HashFunction, HashMethod, HashType, PreserveAffinity, Proxy, RetryOn, Reuse, Server, ServerAddress,
    ServerSettings, UriKey, is_service,
};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "balance",
        "<algorithm> [ <arguments> ]",
        "roundrobin",
        "how a server is chosen for a request or a connection",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let balance = read_balance(context, words)?;
            context.settings().balance = balance;
            Ok(())
        },
    )
    .default(Written("random"))
    .values(FORMS),
    keyword(
        "hash-type",
        "<method> [<function> [<modifier>]]",
        "consistent sdbm avalanche",
        "how a hash becomes a server",
        DEFAULTS_AND_BACKENDS,
        read_hash_type,
    )
    .default(Written("map-based sdbm"))
    .values(&[
        ("map-based", "method: a table of the servers; even, and most keys move when a server comes or goes"),
        ("consistent", "method: a ring; few keys move when a server comes or goes"),
        ("consistent sdbm", "function (the default)"),
        ("consistent djb2", "function"),
        ("consistent wt6", "function"),
        ("consistent crc32", "function"),
        ("consistent none", "function: the key is a number, or the bytes are one"),
        ("consistent sdbm avalanche", "modifier: mixes the bits of the hash once more"),
    ]),
    keyword(
        "hash-balance-factor",
        "<factor>",
        "150",
        "highest load of a hashed server in per cent of the average",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let word = words.expect("'hash-balance-factor' expects an integer argument.")?;
            let factor = integer_in(word, "hash-balance-factor", 0..=i32::MAX as u32)?;
            if factor != 0 && factor <= 100 {
                return Err(fault(word.span(), "'hash-balance-factor' must be 0 or greater than 100."));
            }
            context.settings().hash_balance_factor = factor;
            words.end("hash-balance-factor")
        },
    )
    .default(Written("0")),
    keyword(
        "hash-preserve-affinity",
        "{ always | maxconn | maxqueue }",
        "maxconn",
        "when to leave a hashed server that is full",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let expects = "'hash-preserve-affinity' expects 'always', 'maxconn' or 'maxqueue'.";
            let word = words.expect(expects)?;
            context.settings().hash_preserve_affinity = match word.text() {
                "always" => PreserveAffinity::Always,
                "maxconn" => PreserveAffinity::MaxConn,
                "maxqueue" => PreserveAffinity::MaxQueue,
                _ => return Err(fault(word.span(), expects)),
            };
            words.end("hash-preserve-affinity")
        },
    )
    .default(Written("always"))
    .values(&[
        ("always", "never: a request waits for its server"),
        ("maxconn", "when all its connections are in use"),
        ("maxqueue", "when its queue is full"),
    ]),
    keyword(
        "http-reuse",
        "{ never | safe | aggressive | always }",
        "always",
        "when requests share servers' connections",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let expects = "'http-reuse' only supports 'never', 'safe', 'aggressive', 'always'.";
            let word = words.expect(expects)?;
            context.settings().options.reuse = match word.text() {
                "never" => Reuse::Never,
                "safe" => Reuse::Safe,
                "aggressive" => Reuse::Aggressive,
                "always" => Reuse::Always,
                _ => return Err(none_of(word, expects, ["never", "safe", "aggressive", "always"])),
            };
            words.end("http-reuse")
        },
    )
    .default(Written("safe"))
    .values(&[
        ("never", "a connection serves one client"),
        ("safe", "the first request of a client opens a connection, later ones share (the default)"),
        ("aggressive", "first requests share connections that were reused before"),
        (
            "always",
            "all requests share; one that may be repeated is sent again if the server closes meanwhile",
        ),
    ]),
    keyword(
        "http-send-name-header",
        "[<header>]",
        "X-Server",
        "send the server its name in a header",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let word = words.expect("'http-send-name-header' requires a header string.")?;
            if word.text().eq_ignore_ascii_case("host") {
                context.warn(
                    word.span(),
                    "'http-send-name-header' replaces the 'Host' header: servers no longer see the \
                     client's",
                );
            }
            context.settings().send_name_header = Some(word.text().into());
            words.end("http-send-name-header")
        },
    ),
    keyword(
        "max-keep-alive-queue",
        "<value>",
        "10",
        "queue length above which a request leaves its server",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let word =
                words.expect("'max-keep-alive-queue' expects expects an integer value (or -1 to disable)")?;
            let value = integer_in(word, "max-keep-alive-queue", -1..=i32::MAX)?;
            context.settings().max_keep_alive_queue = u32::try_from(value).ok();
            words.end("max-keep-alive-queue")
        },
    )
    .default(Written("-1")),
    keyword(
        "retries",
        "<value>",
        "3",
        "how often a failed request is tried again",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            if words.at_end() {
                return Err(words.fault("'retries' expects an integer argument (dispatch counts for one)."));
            }
            context.settings().retries = integer(words, "retries", 0..=MAX_RETRIES)?;
            words.end("retries")
        },
    )
    .default(Written("3")),
    strict_keyword(
        "retry-on",
        "<failure> [<failure>]*",
        "conn-failure 503",
        "after which failures a request is tried again",
        DEFAULTS_AND_BACKENDS,
        read_retry_on,
    )
    .default(Written("conn-failure"))
    .values(&[
        ("none", "never"),
        ("conn-failure", "no connection to the server was made (the default)"),
        ("empty-response", "the server closed without an answer"),
        ("junk-response", "the answer is not HTTP"),
        ("response-timeout", "no answer within 'timeout server'"),
        ("0rtt-rejected", "the server refused early data"),
        (
            "<status>",
            "the server answered with this status: 401, 403, 404, 408, 421, 425, 429, 500, 501, 502, 503 or \
             504",
        ),
        (
            "all-retryable-errors",
            "all of these, and of the statuses 500, 502, 503 and 504; a request may reach servers twice",
        ),
    ]),
    keyword(
        "cookie",
        "<name> [ rewrite | insert | prefix ] [ indirect ] [ nocache ] [ postonly ] [ preserve ] [ \
         httponly ] [ secure ] [ domain <domain> ]* [ maxidle <idle> ] [ maxlife <life> ] [ dynamic ] [ \
         attr <value> ]*",
        "SRV insert indirect nocache",
        "keep each client at one server by a cookie; each server line needs a cookie value",
        DEFAULTS_AND_BACKENDS,
        read_cookie,
    )
    .values(&[
        ("<name> insert", "weir sets the cookie; each 'server' line needs a 'cookie' value"),
        ("<name> rewrite", "the server sets the cookie, and weir replaces its value"),
        ("<name> prefix", "weir puts its value in front of the application's, in the same cookie"),
        ("<name> insert indirect", "servers never see the cookie, and it is set only when it changes"),
        ("<name> insert nocache", "answers that set the cookie are not kept by caches"),
        ("<name> insert postonly", "the cookie is set in answers to POST only"),
        ("<name> insert preserve", "a server may set or remove the cookie itself"),
        ("<name> insert httponly", "scripts of the page do not see it"),
        ("<name> insert secure", "browsers send it over TLS only"),
        ("<name> insert domain <domain>", "the domain that it is sent to; may be written several times"),
        ("<name> insert maxidle <time>", "not followed after so long without a request"),
        ("<name> insert maxlife <time>", "not followed when it is older"),
        ("<name> insert attr <attribute>", "a further attribute, such as 'SameSite=Lax'"),
        ("<name> insert dynamic", "values are made of the server's address and 'dynamic-cookie-key'"),
    ]),
    keyword(
        "dynamic-cookie-key",
        "<string>",
        "secret",
        "key of generated cookie values",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let word = words.expect("'dynamic-cookie-key' expects <secret_key> as argument.")?;
            context.settings().dynamic_cookie_key = Some(word.text().into());
            words.end("dynamic-cookie-key")
        },
    ),
    keyword(
        "persist",
        "rdp-cookie[(<name>)]",
        "rdp-cookie",
        "persistence by the RDP cookie",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let word = words.expect("missing persist method.")?;
            let Some(arguments) = word.text().strip_prefix("rdp-cookie") else {
                return Err(fault(word.span(), "unknown persist method."));
            };
            context.settings().persist_rdp_cookie =
                Some(rdp_cookie_name(word, arguments, "persist rdp-cookie(name)'")?.into());
            words.end("persist")
        },
    ),
    keyword(
        "source",
        "<addr>[:<port>] [usesrc { <addr2>[:<port2>] | client | clientip | hdr_ip(<hdr>[,<occ>]) }] \
         [interface <name>]",
        "127.0.0.2",
        "where connections to servers come from",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            if words.at_end() {
                let expects = "'source' expects <addr>[:<port>], and optionally 'usesrc' <addr>, \
                               and 'interface' <name>.";
                return Err(words.fault(expects));
            }
            let source = read_source(words)?;
            if !words.at_end() {
                return Err(words.fault("'source' only supports optional keywords 'interface' and 'usesrc'."));
            }
            context.settings().source = Some(Arc::new(source));
            Ok(())
        },
    )
    .default(Described("the system chooses the address")),
    strict_keyword(
        "server",
        "<name> <address>[:[port]] [param*]",
        "s1 127.0.0.1:8000 weight 10",
        "one machine that can answer for this backend: its name, address and port, then words such as \
         check, weight, maxconn",
        BACKENDS,
        |context, words| read_server(context, words).map_err(placed),
    ),
    strict_keyword(
        "server-template",
        "<prefix> <num | range> <fqdn>[:<port>] [params*]",
        "web 1-3 app.example.com:80 init-addr none",
        "several servers of one name, filled with the addresses that it resolves to",
        BACKENDS,
        |context, words| read_template(context, words).map_err(placed),
    ),
    strict_keyword(
        "default-server",
        "[param*]",
        "maxconn 100",
        "defaults of the following servers",
        DEFAULTS_AND_BACKENDS,
        |context, words| read_default_server(context, words).map_err(placed),
    ),
];

/// The limit of retries.
const MAX_RETRIES: u32 = i32::MAX as u32;

/// Messages about server lines begin with their location.
fn placed(mut fault: Fault) -> Fault {
    fault.layout = Layout::Location;
    fault
}

/// The message for an unknown algorithm. It omits `first`, as HAProxy's does.
fn supported() -> String {
    let listed = ALGORITHMS.iter().filter(|algorithm| algorithm.name != "first");
    let mut forms: Vec<String> = listed
        .map(|algorithm| match algorithm.syntax {
            BalanceSyntax::Header | BalanceSyntax::RdpCookie => format!("'{}(name)'", algorithm.name),
            _ => format!("'{}'", algorithm.name),
        })
        .collect();
    let last = forms.pop().unwrap_or_default();
    format!("balance only supports {} and {last} options.", forms.join(", "))
}

fn read_balance(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed<Balance> {
    // Without an argument, `balance` means the default, as in HAProxy.
    let Some(word) = words.take() else { return Ok(Balance::default()) };
    let (name, parenthesis) =
        word.text().split_once('(').map_or((word.text(), None), |(name, rest)| (name, Some(rest)));
    let unknown = || none_of(word, supported(), ALGORITHMS.iter().map(|algorithm| algorithm.name));
    let algorithm = BalanceWord::find(name).ok_or_else(unknown)?;
    let argument = match (algorithm.syntax, parenthesis) {
        (BalanceSyntax::Draws, rest) => BalanceArgument::Draws(draws(word, name, rest)?),
        (BalanceSyntax::RdpCookie, _) => {
            let rest = &word.text()[name.len()..];
            let name = rdp_cookie_name(word, rest, "balance : rdp-cookie(name)")?;
            BalanceArgument::RdpCookie { name: name.into() }
        }
        (BalanceSyntax::Header, Some(rest)) => {
            let name = rest.strip_suffix(')').filter(|name| !name.is_empty());
            let name =
                name.ok_or_else(|| fault(word.span(), "hdr(name) requires an http header field name."))?;
            let use_domain_only = words.take_if("use_domain_only");
            BalanceArgument::Header { name: name.into(), use_domain_only }
        }
        (BalanceSyntax::Header, None) => {
            return Err(fault(word.span(), "hdr(name) requires an http header field name."));
        }
        (_, Some(_)) => {
            return Err(fault(word.span(), format!("balance '{name}' takes nothing in parentheses.")));
        }
        (BalanceSyntax::Plain, None) => BalanceArgument::Plain,
        (BalanceSyntax::Source, None) => BalanceArgument::Source,
        (BalanceSyntax::Uri, None) => BalanceArgument::Uri(read_uri_key(words)?),
        (BalanceSyntax::UrlParameter, None) => read_parameter_key(words)?,
        (BalanceSyntax::Expression, None) => {
            let points = EvaluationPoints::only(EvaluationPoint::BackendSetServer);
            BalanceArgument::Expression(context.expressions().expression(words, points)?)
        }
        (BalanceSyntax::LogMessage, None) => {
            BalanceArgument::LogMessage(context.expressions().converters(words)?)
        }
    };
    words.end("balance")?;
    Ok(Balance { word: algorithm, argument })
}

fn draws(word: &Word, name: &str, parenthesis: Option<&str>) -> Parsed<u32> {
    let Some(rest) = parenthesis else { return Ok(2) };
    let digits = rest
        .strip_suffix(')')
        .ok_or_else(|| fault(word.span(), format!("balance {name} : missing closing parenthesis.")))?;
    match digits.parse::<u32>() {
        Ok(0) | Err(_) => {
            Err(fault(word.span(), format!("balance {name} : number of draws must be at least 1.")))
        }
        Ok(draws) => Ok(draws),
    }
}

fn rdp_cookie_name<'w>(word: &Word, arguments: &'w str, subject: &str) -> Parsed<&'w str> {
    if arguments.is_empty() {
        return Ok(DEFAULT_RDP_COOKIE);
    }
    let name = arguments.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| fault(word.span(), format!("{subject} requires an rdp cookie name.")))
}

/// The RDP cookie of Microsoft's clients.
const DEFAULT_RDP_COOKIE: &str = "msts";

fn read_uri_key(words: &mut Words<'_>) -> Parsed<UriKey> {
    let mut key = UriKey::default();
    while let Some(word) = words.take() {
        match word.text() {
            option @ ("len" | "depth") => {
                let expects = format!(
                    "balance uri : '{option}' expects a positive integer (got '{}').",
                    words.peek_text()
                );
                let value = words.expect(&expects)?;
                let number = value.text().parse::<u32>().ok().filter(|number| *number > 0);
                let number = number.ok_or_else(|| fault(value.span(), expects))?;
                if option == "len" {
                    key.length = number;
                } else {
                    key.depth = number;
                }
            }
            "whole" => key.whole = true,
            "path-only" => key.path_only = true,
            other => {
                let message = format!(
                    "balance uri only accepts parameters 'len', 'depth', 'path-only', and 'whole' (got '{other}')."
                );
                return Err(fault(word.span(), message));
            }
        }
    }
    Ok(key)
}

fn read_parameter_key(words: &mut Words<'_>) -> Parsed<BalanceArgument> {
    let name = words.expect("balance url_param requires an URL parameter name.")?;
    let check_post = words.take_if("check_post");
    if check_post && words.peek().is_some_and(|word| word.text().bytes().all(|byte| byte.is_ascii_digit())) {
        // An obsolete limit on the body's length, accepted without effect.
        words.take();
    }
    words.end("balance url_param")?;
    Ok(BalanceArgument::UrlParameter { name: name.text().into(), check_post })
}

fn read_hash_type(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let expects = "'hash-type' only supports 'consistent' and 'map-based'.";
    let word = words.expect(expects)?;
    let (method, mut avalanche) = match word.text() {
        "map-based" => (HashMethod::MapBased, false),
        "consistent" => (HashMethod::Consistent, false),
        "avalanche" => {
            let message = "experimental feature 'hash-type avalanche' is not supported anymore, please use 'hash-type map-based sdbm avalanche' instead.";
            return Err(fault(word.span(), message));
        }
        _ => return Err(none_of(word, expects, ["consistent", "map-based"])),
    };
    let mut function = HashFunction::Sdbm;
    match words.take() {
        // The ring needs well spread hashes, so it applies the avalanche unless the line names a function.
        None => avalanche |= method == HashMethod::Consistent,
        Some(word) => {
            function = match word.text() {
                "sdbm" => HashFunction::Sdbm,
                "djb2" => HashFunction::Djb2,
                "wt6" => HashFunction::Wt6,
                "crc32" => HashFunction::Crc32,
                "none" => HashFunction::None,
                _ => {
                    let message =
                        "'hash-type' only supports 'sdbm', 'djb2', 'crc32', 'wt6', or 'none' hash functions.";
                    return Err(none_of(word, message, ["sdbm", "djb2", "crc32", "wt6", "none"]));
                }
            };
        }
    }
    if let Some(word) = words.take() {
        if !word.is("avalanche") {
            let message = "'hash-type' only supports 'avalanche' as a modifier for hash functions.";
            return Err(none_of(word, message, ["avalanche"]));
        }
        avalanche = true;
    }
    context.settings().hash_type = HashType { method, function, avalanche };
    words.end("hash-type")
}

fn read_retry_on(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let first = words.expect("'retry-on' needs at least one keyword to specify when to retry")?;
    let mut retry_on = RetryOn::NONE;
    if first.is("none") {
        if !words.at_end() {
            return Err(words.fault("'retry-on' 'none' keyworld only usable alone"));
        }
        context.settings().retry_on = retry_on;
        return Ok(());
    }
    let mut next = Some(first);
    while let Some(word) = next {
        let one = match word.text() {
            "conn-failure" => RetryOn::CONNECTION_FAILURE,
            "empty-response" => RetryOn::EMPTY_RESPONSE,
            "junk-response" => RetryOn::JUNK_RESPONSE,
            "response-timeout" => RetryOn::RESPONSE_TIMEOUT,
            "0rtt-rejected" => RetryOn::EARLY_DATA_REJECTED,
            "all-retryable-errors" => RetryOn::ALL_RETRYABLE,
            text => text.parse().map_or(RetryOn::NONE, RetryOn::status),
        };
        if one.is_empty() {
            return Err(none_of(word, format!("'retry-on': unknown keyword '{word}'"), RETRY_REASONS));
        }
        retry_on = retry_on.union(one);
        next = words.take();
    }
    context.settings().retry_on = retry_on;
    Ok(())
}

/// The words of `retry-on` besides `none` and statuses.
const RETRY_REASONS: [&str; 6] = [
    "conn-failure",
    "empty-response",
    "junk-response",
    "response-timeout",
    "0rtt-rejected",
    "all-retryable-errors",
];

/// The options of a `cookie` line, after the name.
const COOKIE_OPTIONS: [&str; 14] = [
    "rewrite", "insert", "prefix", "indirect", "nocache", "postonly", "preserve", "httponly", "secure",
    "domain", "maxidle", "dynamic", "maxlife", "attr",
];

fn read_cookie(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let name = words.expect("'cookie' expects <cookie_name> as argument.")?;
    let mut cookie = CookiePersistence {
        name: name.text().into(),
        mode: CookieMode::Passive,
        indirect: false,
        no_cache: false,
        post_only: false,
        preserve: false,
        http_only: false,
        secure: false,
        dynamic: false,
        domains: Vec::new(),
        max_idle: std::time::Duration::ZERO,
        max_life: std::time::Duration::ZERO,
        attributes: Vec::new(),
    };
    let mut modes = 0;
    while let Some(word) = words.take() {
        match word.text() {
            "rewrite" => (cookie.mode, modes) = (CookieMode::Rewrite, modes + 1),
            "insert" => (cookie.mode, modes) = (CookieMode::Insert, modes + 1),
            "prefix" => (cookie.mode, modes) = (CookieMode::Prefix, modes + 1),
            "indirect" => cookie.indirect = true,
            "nocache" => cookie.no_cache = true,
            "postonly" => cookie.post_only = true,
            "preserve" => cookie.preserve = true,
            "httponly" => cookie.http_only = true,
            "secure" => cookie.secure = true,
            "dynamic" => cookie.dynamic = true,
            "domain" => cookie.domains.push(read_cookie_domain(context, words)?),
            "attr" => {
                let value = words.expect("'attr' expects <value> as argument.").map_err(tight)?;
                check_characters(value, "attribute value", |byte| !byte.is_ascii_control() && byte != b';')?;
                cookie.attributes.push(value.text().into());
            }
            "maxidle" => {
                let value =
                    words.expect("'maxidle' expects <idletime> in seconds as argument.").map_err(tight)?;
                cookie.max_idle = seconds_of(words, value, "maxidle").map_err(tight)?;
            }
            "maxlife" => {
                let value =
                    words.expect("'maxlife' expects <lifetime> in seconds as argument.").map_err(tight)?;
                cookie.max_life = seconds_of(words, value, "maxlife").map_err(tight)?;
            }
            _ => {
                let message =
                    format!("'cookie' supports '{}' options (got '{word}').", COOKIE_OPTIONS.join("', '"));
                return Err(none_of(word, message, COOKIE_OPTIONS));
            }
        }
    }
    let span = name.span();
    if modes > 1 {
        return Err(fault(span, "cookie 'rewrite', 'insert' and 'prefix' modes are incompatible."));
    }
    if cookie.mode == CookieMode::Rewrite && cookie.indirect {
        return Err(fault(span, "cookie 'rewrite' and 'indirect' modes are incompatible."));
    }
    if cookie.preserve && cookie.mode != CookieMode::Insert && !cookie.indirect {
        return Err(fault(span, "cookie 'preserve' requires at least 'insert' or 'indirect'."));
    }
    context.settings().cookie = Some(Arc::new(cookie));
    Ok(())
}

fn read_cookie_domain(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed<Box<str>> {
    let word = words.expect("'domain' expects <domain> as argument.").map_err(tight)?;
    check_characters(word, "domain name", |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
    })?;
    if !word.text().get(1..).is_some_and(|rest| rest.contains('.')) {
        let message = format!(
            "domain '{word}' contains no embedded dot, this configuration may not work properly (see RFC6265#5.2.3)."
        );
        context.warn_tight(word.span(), message);
    }
    Ok(word.text().into())
}

fn check_characters(word: &Word, what: &str, allowed: fn(u8) -> bool) -> Parsed {
    match word.bytes().iter().position(|byte| !allowed(*byte)) {
        None => Ok(()),
        Some(position) => {
            let character = char::from(word.bytes()[position]).escape_default().to_string();
            let span = word.span_of(position..position + 1);
            let message = match what {
                "domain name" => format!("character '{character}' is not permitted in {what} '{word}'."),
                _ => format!("character '{character}' is not permitted in {what}."),
            };
            Err(tight(fault(span, message)))
        }
    }
}

fn server_line<'l>(context: &'l LineContext<'_>, kind: ServerLineKind) -> ServerLine<'l> {
    ServerLine {
        kind,
        settings: ServerSettings::clone(&context.draft.proxy.settings.default_server),
        id: 0,
        guid: None,
        used: Vec::new(),
        expressions: context.expressions(),
    }
}

fn read_server(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let name = words.expect(SERVER_EXPECTS)?;
    let address = words.expect(SERVER_EXPECTS)?;
    check_server_name(name)?;
    let subject = format!("server {}/{name}", context.draft.proxy.name);
    let (parsed, datagrams) = any_server_address(address, &subject)?;
    let mut line = server_line(context, ServerLineKind::Server);
    read_server_options(&mut line, words, Some(&subject))?;
    check_service(&parsed, &line.settings, &subject, address)?;
    let ServerLine { mut settings, id, guid, used, .. } = line;
    settings.multipath |= is_multipath(address.text());
    crate::server::checks::settle(&settings, &subject, name.span()).map_err(in_place)?;
    context.draft.logs.note_server(&subject, datagrams.then(|| address.span()), used);
    let server = Server {
        name: name.text().into(),
        at: context.at.clone(),
        address: parsed,
        datagrams,
        id,
        id_is_forced: id != 0,
        guid,
        from_template: false,
        is_referenced: false,
        leader: None,
        settings,
    };
    add_server(context, server, name)
}

/// Prefixes the message with the location of the server line.
fn in_place(mut fault: Fault) -> Fault {
    fault.layout = Layout::Location;
    fault
}

fn add_server(context: &mut LineContext<'_>, server: Server, name: &Word) -> Parsed {
    let draft = &mut *context.draft;
    if let Some((line, _)) = draft.server_names.get(&server.name) {
        let message = format!(
            "{} '{}', another server named '{}' was already defined at line {line}, please use distinct names.",
            draft.section.noun(),
            draft.proxy.name,
            server.name
        );
        let mut fault = fault(name.span(), message);
        fault.layout = Layout::Parsing;
        context.diagnostics.push(*fault);
        return Ok(());
    }
    if draft.proxy.servers.len() >= MAX_SERVERS {
        return Err(fault(name.span(), format!("more than {MAX_SERVERS} servers in one backend")));
    }
    let index = draft.proxy.servers.len() as u32;
    draft.server_names.insert(server.name.clone(), (context.at.line, index));
    draft.proxy.servers.push(server);
    Ok(())
}

/// The limit of servers in a backend.
const MAX_SERVERS: usize = 1 << 20;

/// The limit of servers of one template.
const MAX_TEMPLATE: u32 = 65_536;

fn read_template(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let expects = "'server-template' expects <prefix> <nb | range> <addr>[:<port>] as arguments.";
    let prefix = words.expect(expects)?;
    let range = words.expect(expects)?;
    let address = words.expect(expects)?;
    check_server_name(prefix)?;
    let wrong = || fault(range.span(), format!("Wrong server-template number or range arg '{range}'."));
    let (first, last) = template_range(range.text()).ok_or_else(wrong)?;
    let subject = format!("server {}/{prefix}{first}", context.draft.proxy.name);
    let (parsed, datagrams) = any_server_address(address, &subject)?;
    let mut line = server_line(context, ServerLineKind::Template);
    read_server_options(&mut line, words, Some(&subject))?;
    check_service(&parsed, &line.settings, &subject, address)?;
    let ServerLine { mut settings, id, used, .. } = line;
    settings.multipath |= is_multipath(address.text());
    crate::server::checks::settle(&settings, &subject, prefix.span()).map_err(in_place)?;
    context.draft.logs.note_server(&subject, datagrams.then(|| address.span()), used);
    for number in first..=last {
        let server = Server {
            name: format!("{prefix}{number}").into(),
            at: context.at.clone(),
            address: parsed.clone(),
            datagrams,
            id: if id == 0 { 0 } else { id + (number - first) },
            id_is_forced: id != 0,
            guid: None,
            from_template: true,
            is_referenced: false,
            leader: None,
            settings: settings.clone(),
        };
        add_server(context, server, prefix)?;
    }
    Ok(())
}

/// Checks that a server with a service name has `resolvers`: only DNS has SRV records.
fn check_service(
    address: &ServerAddress,
    settings: &ServerSettings,
    subject: &str,
    written: &Word,
) -> Parsed {
    let ServerAddress::Inet { host, .. } = address else { return Ok(()) };
    if is_service(host) && settings.resolution.section.is_none() {
        let message = format!("'{subject}' : '{written}' is a service, which needs 'resolvers' to be found.");
        return Err(fault(written.span(), message));
    }
    Ok(())
}

/// The first and the last number of a template's servers. A range may begin with 0.
fn template_range(text: &str) -> Option<(u32, u32)> {
    let (first, last): (u32, u32) = match text.split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (1, text.parse().ok()?),
    };
    (last >= first && last - first < MAX_TEMPLATE).then_some((first, last))
}

fn read_default_server(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let mut line = server_line(context, ServerLineKind::Default);
    read_server_options(&mut line, words, None)?;
    let ServerLine { settings, used, .. } = line;
    context.draft.logs.note_server("default-server", None, used);
    context.settings().default_server = Arc::new(settings);
    Ok(())
}

/// Reports a backend that both connects to its clients' destinations and balances among servers. The default `balance` counts as unset.
pub(super) fn check_transparent(proxy: &Proxy, span: Span, diagnostics: &mut Diagnostics) {
    let settings = &proxy.settings;
    let chooses = !matches!(settings.balance, Balance { argument: BalanceArgument::Draws(2), .. });
    if proxy.is_backend() && settings.options.transparent && chooses {
        let noun = super::finish::noun(proxy);
        let message = format!("{noun} '{}' cannot use both transparent and balance mode.", proxy.name);
        diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Bare));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balance_error_lists_every_algorithm_except_first() {
        assert_eq!(
            supported(),
            "balance only supports 'roundrobin', 'static-rr', 'leastconn', 'source', 'uri', 'url_param', 'hdr(name)', 'hash', \
             'random', 'rdp-cookie(name)', 'log-hash', 'sticky' and 'latency' options."
        );
    }
}
