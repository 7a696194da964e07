//! General settings of a proxy, and its limits.

use std::time::Duration;

use weir_syntax::Diagnostic;

use super::keywords::{DEFAULTS_AND_BACKENDS, DEFAULTS_AND_FRONTENDS, EVERYWHERE, keyword};
use super::{FRONTENDS, LineContext, PROXIES, ProxyReader};
use crate::bind::read_bind;
use crate::bind::tls::parse_crt_list_line;
use crate::draft::DraftSection;
use crate::numbers::{integer, integer_in, seconds_of};
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::server::checked_guid;
use crate::words::{Parsed, Words, fault, not_yet, suggesting, tight};
use weir_model::{CertificateUse, Mode, ProxySection, ServerStates, TlsOptions};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "mode",
        "{ tcp|http|log|spop }",
        "http",
        "protocol of the proxy: HTTP, TCP or log messages",
        EVERYWHERE,
        read_mode,
    )
    .default(Written("tcp"))
    .values(&[
        ("http", "requests and answers are understood"),
        ("tcp", "bytes are forwarded unchanged (the default)"),
        ("log", "a backend of log servers"),
    ]),
    keyword(
        "bind",
        "[<address>]:<port_range> [, ...] [param*]",
        ":8080 name a",
        "address and port where the proxy takes connections, then words such as ssl, crt, accept-proxy",
        FRONTENDS,
        |context, words| {
            let section = context.draft.section.keyword();
            let bind = read_bind(words, "bind", section, context.at.clone())?;
            context.draft.proxy.binds.push(bind);
            Ok(())
        },
    ),
    keyword(
        "ssl-f-use",
        "[<sslbindconf> ...]*",
        "crt site.pem",
        "TLS: a certificate of the frontend",
        FRONTENDS,
        read_certificate_use,
    ),
    keyword("disabled", "", "", "do not start the proxy", EVERYWHERE, |context, words| {
        context.settings().disabled = true;
        words.end("disabled")
    }),
    keyword("enabled", "", "", "start the proxy, whatever 'defaults' says", EVERYWHERE, |context, words| {
        context.settings().disabled = false;
        words.end("enabled")
    }),
    keyword("id", "<value>", "77", "identifier in the statistics", PROXIES, |context, words| {
        let word = words.expect("'id' expects an integer argument.").map_err(tight)?;
        let id = integer_in(word, "id", 0..=i32::MAX as u32)?;
        if id == 0 {
            return Err(tight(fault(word.span(), "custom id has to be > 0.")));
        }
        context.draft.proxy.id = id;
        words.end("id")
    })
    .default(Described("the lowest number that is free")),
    keyword(
        "guid",
        "<string>",
        "proxy:1",
        "identifier that is unique in the process",
        PROXIES,
        |context, words| {
            let word = words.expect("'guid' expects a string argument.")?;
            context.draft.proxy.guid = Some(checked_guid(word)?);
            words.end("guid")
        },
    ),
    keyword(
        "description",
        "<string>",
        "the shop",
        "description of the proxy in the statistics",
        PROXIES,
        |context, words| {
            if words.at_end() {
                return Err(tight(words.fault("'description' expects a string argument.")));
            }
            let text = words.line().join(words.position());
            context.draft.proxy.description = Some(text.into());
            Ok(())
        },
    )
    .default(Described("none")),
    keyword(
        "maxconn",
        "<conns>",
        "1000",
        "connections that the frontend holds at once",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let maxconn = integer(words, "maxconn", 0..=i32::MAX as u32)?;
            context.settings().maxconn = (maxconn > 0).then_some(maxconn);
            words.end("maxconn")
        },
    )
    .default(Described("that of the process")),
    keyword(
        "backlog",
        "<conns>",
        "1000",
        "length of the queue of connections to accept",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let backlog = integer(words, "backlog", 0..=i32::MAX as u32)?;
            context.settings().backlog = (backlog > 0).then_some(backlog);
            words.end("backlog")
        },
    )
    .default(Described("the `maxconn` of the listener, or of the frontend")),
    keyword(
        "fullconn",
        "<conns>",
        "100",
        "load at which servers reach 'maxconn'",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let fullconn = integer(words, "fullconn", 0..=i32::MAX as u32)?;
            context.settings().fullconn = (fullconn > 0).then_some(fullconn);
            words.end("fullconn")
        },
    )
    .default(Described("a tenth of the `maxconn` of all frontends that may use the backend")),
    keyword(
        "rate-limit sessions",
        "<rate>",
        "500",
        "new connections each second",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let rate = integer(words, "rate-limit sessions", 0..=u32::MAX)?;
            let former = std::mem::replace(&mut context.settings().session_rate_limit, rate);
            if context.overwrites("rate-limit sessions", former != rate) {
                let message = "overwriting rate-limit sessions which was already specified";
                context.warn(words.line().keyword().span(), message);
            }
            words.end("rate-limit sessions")
        },
    )
    .default(Written("0")),
    keyword(
        "clitcpka-cnt",
        "<count>",
        "3",
        "TCP keep-alive towards clients: probes",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let count = probe_count(words, "clitcpka-cnt")?;
            context.settings().client_keep_alive.count = count;
            Ok(())
        },
    )
    .default(Described("the system's")),
    keyword(
        "clitcpka-idle",
        "<timeout>",
        "60s",
        "TCP keep-alive towards clients: time to the first probe",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let delay = probe_delay(words, "clitcpka-idle")?;
            context.settings().client_keep_alive.idle = delay;
            Ok(())
        },
    )
    .default(Described("the system's")),
    keyword(
        "clitcpka-intvl",
        "<timeout>",
        "10s",
        "TCP keep-alive towards clients: time between probes",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let delay = probe_delay(words, "clitcpka-intvl")?;
            context.settings().client_keep_alive.interval = delay;
            Ok(())
        },
    )
    .default(Described("the system's")),
    keyword(
        "srvtcpka-cnt",
        "<count>",
        "3",
        "TCP keep-alive towards servers: probes",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let count = probe_count(words, "srvtcpka-cnt")?;
            context.settings().server_keep_alive.count = count;
            Ok(())
        },
    )
    .default(Described("the system's")),
    keyword(
        "srvtcpka-idle",
        "<timeout>",
        "60s",
        "TCP keep-alive towards servers: time to the first probe",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let delay = probe_delay(words, "srvtcpka-idle")?;
            context.settings().server_keep_alive.idle = delay;
            Ok(())
        },
    )
    .default(Described("the system's")),
    keyword(
        "srvtcpka-intvl",
        "<timeout>",
        "10s",
        "TCP keep-alive towards servers: time between probes",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let delay = probe_delay(words, "srvtcpka-intvl")?;
            context.settings().server_keep_alive.interval = delay;
            Ok(())
        },
    )
    .default(Described("the system's")),
    keyword(
        "load-server-state-from-file",
        "{ global | local | none }",
        "none",
        "where the servers' states are read from at the start",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            let expects = "'load-server-state-from-file' expects 'global', 'local' or 'none'.";
            let word = words.expect(&format!("{expects} Got ''"))?;
            context.settings().server_states = match word.text() {
                "none" => ServerStates::None,
                "global" => ServerStates::Global,
                "local" => ServerStates::Local,
                _ => return Err(fault(word.span(), format!("{expects} Got '{word}'"))),
            };
            words.end("load-server-state-from-file")
        },
    )
    .default(Written("none"))
    .values(&[
        ("none", "no file is read"),
        ("global", "the file that 'server-state-file' of 'global' names"),
        ("local", "the file that 'server-state-file-name' of the proxy names"),
    ]),
    keyword(
        "server-state-file-name",
        "[ { use-backend-name | <file> } ]",
        "states",
        "file with the servers' states; the backend's name without one",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            context.draft.proxy.server_state_file = match words.peek_text() {
                "" | "use-backend-name" => None,
                name => Some(name.into()),
            };
            words.take();
            words.end("server-state-file-name")
        },
    )
    .default(Described("the name of the backend")),
];

fn read_certificate_use(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let (mut certificate, mut others) = (None, Vec::new());
    while let Some(word) = words.take() {
        let text = word.text();
        if text.contains(|letter: char| letter.is_whitespace() || matches!(letter, '[' | ']')) {
            let message = format!("'ssl-f-use' : white space and brackets are not supported in '{word}'.");
            return Err(fault(word.span(), message));
        }
        if word.is("crt") {
            certificate =
                Some(words.expect("'ssl-f-use' : 'crt' expects a filename as an argument.")?.text());
        } else {
            others.push(text);
        }
    }
    let Some(certificate) = certificate else {
        return Err(words.fault("Trying to load a certificate but no 'crt' keyword specified."));
    };
    let line: Box<str> = match others[..] {
        [] => certificate.into(),
        _ => format!("{certificate} [{}]", others.join(" ")).into(),
    };
    let line_of_words = words.line();
    let warn = |text: String| line_of_words.remark(Diagnostic::warning(line_of_words.span(), text));
    parse_crt_list_line(1, &line, &TlsOptions::default(), warn)
        .map_err(|text| fault(line_of_words.span(), format!("'ssl-f-use' : {text}.")))?;
    context.draft.proxy.certificates.push(CertificateUse { at: context.at.clone(), line });
    Ok(())
}

fn read_mode(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let word = words.peek();
    context.settings().mode = match words.peek_text() {
        "tcp" => Mode::Tcp,
        "http" => Mode::Http,
        "log" if context.draft.section.is_defaults() || !context.draft.section.is_frontend() => Mode::Log,
        "log" => return Err(words.fault("'mode log' is for backends only.")),
        "spop" if context.draft.section != DraftSection::Proxy(ProxySection::Frontend) => Mode::Spop,
        "spop" => return Err(words.fault("'mode spop' is for backends only.")),
        "haterm" => return Err(not_yet(words.here(), "mode haterm")),
        "health" => {
            let message =
                "'mode health' doesn't exist anymore. Please use 'http-request return status 200' instead.";
            return Err(words.fault(message));
        }
        other => {
            let unknown = words.fault(format!("unknown proxy mode '{other}'."));
            return Err(suggesting(
                unknown,
                weir_syntax::did_you_mean(other, ["http", "tcp", "log", "spop"]),
            ));
        }
    };
    words.seek(words.position() + usize::from(word.is_some()));
    words.end("mode")
}

fn probe_count(words: &mut Words<'_>, keyword: &str) -> Parsed<Option<u32>> {
    let count = integer(words, keyword, 0..=i32::MAX as u32)?;
    words.end(keyword)?;
    Ok((count > 0).then_some(count))
}

fn probe_delay(words: &mut Words<'_>, keyword: &str) -> Parsed<Option<Duration>> {
    let word = words.expect(&format!("'{keyword}' expects an integer value (in seconds)"))?;
    let delay = seconds_of(words, word, keyword)?;
    words.end(keyword)?;
    Ok((delay > Duration::ZERO).then_some(delay))
}
