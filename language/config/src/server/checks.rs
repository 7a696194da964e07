//! The words of a server line about its checks.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use weir_syntax::{Diagnostic, Span, Word};

use crate::address::{is_multipath, refuse_multipath, source_address};
use crate::numbers::{delay_of, integer_in};
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::tls_words::protocols;
use crate::words::{Parsed, Words, fault, not_yet};
use weir_model::{
    AgentSettings, Host, InitialState, Observe, OnError, Protocol, ServerSettings, TrackedServer,
};

use super::{NOT_ADDED, ServerLine, ServerReader, option};

pub(super) const READY: &[Row<ServerReader>] = &[
    option("addr", "<ipv4|ipv6>", "127.0.0.2", "health checks: address to check", |server, words| {
        let word = words.expect("'addr' expects <ipv4|ipv6> as argument.")?;
        let (host, first, last) = source_address(word, "addr")?;
        if first != last {
            return Err(fault(word.span(), format!("'addr' : port range not permitted here in '{word}'")));
        }
        let check = &mut server.settings.check;
        check.address = Some(host);
        check.multipath = is_multipath(word.text());
        // `port` takes precedence, before or after this word.
        if first > 0 {
            check.port.get_or_insert(first);
        }
        Ok(())
    })
    .default(Described("the address of the server")),
    option("agent-addr", "<addr>", "127.0.0.2", "agent checks: address", |server, words| {
        let word = words.expect("'agent-addr' expects an address as argument.")?;
        // The argument is an address without a port, so IPv6 addresses need no brackets.
        let host = match word.text().parse::<Ipv6Addr>() {
            Ok(address) => Host::Ip(IpAddr::V6(address)),
            Err(_) => {
                refuse_multipath(word, "agent-addr")?;
                let (host, first, last) = source_address(word, "agent-addr")?;
                if (first, last) != (0, 0) {
                    return Err(fault(word.span(), "'agent-addr' takes no port: use 'agent-port'."));
                }
                host
            }
        };
        agent(server).address = Some(host);
        Ok(())
    })
    .default(Described("the address that is checked")),
    option("agent-check", "", "agent-port 8081", "agent checks: on", |server, _| {
        agent(server).enabled = true;
        Ok(())
    }),
    option("agent-inter", "<delay>", "5s", "agent checks: interval", |server, words| {
        agent(server).inter = Some(interval(words, "agent-inter")?);
        Ok(())
    })
    .default(Described("`2s`")),
    option("agent-port", "<port>", "8081", "agent checks: port", |server, words| {
        let word = words.expect("'agent-port' expects a port number as argument.")?;
        let port: u16 = integer_in(word, "agent-port", 0..=u16::MAX)?;
        agent(server).port = (port > 0).then_some(port);
        Ok(())
    }),
    option("agent-send", "<string>", "state", "agent checks: what to send", |server, words| {
        let word = words.take().ok_or_else(|| words.fault("'agent-send' expects a string as argument."))?;
        agent(server).send = Some(word.bytes().into());
        Ok(())
    }),
    option("check", "", "", "health checks: on", |server, _| {
        server.settings.check.enabled = true;
        Ok(())
    }),
    option(
        "check-pool-conn-name",
        "<name>",
        "web",
        "health checks: idle connections to use",
        |server, words| {
            let word = words.expect("'check-pool-conn-name' expects a connection name as argument.")?;
            server.settings.check.connection_name = Some(word.bytes().into());
            Ok(())
        },
    ),
    option("check-reuse-pool", "", "", "health checks: use idle connections", |server, _| {
        server.settings.check.reuses_connections = true;
        Ok(())
    }),
    option(
        "check-alpn",
        "<protocols>",
        "http/1.1",
        "health checks: protocols to negotiate",
        |server, words| {
            server.settings.check.tls.protocols = Some(protocols(words, "'check-alpn'")?.into());
            Ok(())
        },
    ),
    option("check-proto", "<name>", "h1", "health checks: protocol to speak", |server, words| {
        let word = words.expect("'check-proto' : missing value")?;
        server.settings.check.protocol = Some(match word.text() {
            "h1" => Protocol::H1,
            "none" => Protocol::None,
            "h2" => Protocol::H2,
            "fcgi" => Protocol::Fcgi,
            "spop" | "quic" | "qmux" => {
                return Err(not_yet(word.span(), &format!("check-proto {word}")));
            }
            _ => {
                let message = format!("'check-proto' :  unknown MUX protocol '{word}'");
                return Err(fault(word.span(), message));
            }
        });
        Ok(())
    })
    .default(Described("that of `proto`")),
    option("check-send-proxy", "", "", "health checks: send a PROXY header", |server, _| {
        server.settings.check.send_proxy = true;
        Ok(())
    }),
    option(
        "check-sni",
        "<sni>",
        "a.example",
        "health checks: server name (SNI) of the TLS handshake",
        |server, words| {
            server.settings.check.tls.server_name =
                Some(words.expect("'check-sni' : missing SNI")?.text().into());
            Ok(())
        },
    ),
    option(
        "check-sni-auto",
        "",
        "",
        "health checks: TLS server name (SNI) from their 'Host' (the default)",
        |server, _| {
            server.settings.check.tls.no_automatic_name = false;
            Ok(())
        },
    )
    .with(NOT_ADDED),
    option("check-ssl", "", "", "health checks: TLS, whatever the traffic does", |server, _| {
        server.settings.check.tls.enabled = Some(true);
        // The runtime API may switch on TLS for the traffic later ("set server ssl").
        server.settings.tls.get_or_insert_default();
        Ok(())
    }),
    option("check-via-socks4", "", "", "health checks: through the server's SOCKS4 proxy", |server, _| {
        server.settings.check.via_socks4 = true;
        Ok(())
    }),
    option("downinter", "<delay>", "10s", "health checks: interval while down", |server, words| {
        server.settings.check.down_inter = Some(interval(words, "downinter")?);
        Ok(())
    })
    .default(Described("that of `inter`")),
    option("error-limit", "<count>", "10", "health checks: errors until 'on-error'", |server, words| {
        let word = words.expect("'error-limit' expects an integer argument.")?;
        let limit = integer_in(word, "error-limit", i64::MIN..=i64::from(i32::MAX))?;
        server.settings.check.error_limit = u32::try_from(limit).unwrap_or(0);
        if server.settings.check.error_limit == 0 {
            return Err(fault(word.span(), "error-limit has to be > 0."));
        }
        Ok(())
    })
    .default(Written("10")),
    option("fall", "<count>", "3", "health checks: failures until down", |server, words| {
        server.settings.check.fall = times(words, "fall")?;
        Ok(())
    })
    .default(Written("3")),
    option("fastinter", "<delay>", "500ms", "health checks: interval while changing", |server, words| {
        server.settings.check.fast_inter = Some(interval(words, "fastinter")?);
        Ok(())
    })
    .default(Described("that of `inter`")),
    option("healthcheck", "<name>", "web", "health checks: section to use", |server, words| {
        let word = words.expect("'healthcheck' expects the name of a healthcheck section as argument.")?;
        server.settings.check.section = Some(word.text().into());
        Ok(())
    }),
    option(
        "init-state",
        "{ fully-up | up | down | fully-down | none }",
        "down",
        "health checks: state at the start",
        |server, words| {
            let text = words.take().map_or("", |word| word.text());
            server.settings.check.initial_state = match text {
                "none" => InitialState::Unsaid,
                "fully-up" => InitialState::FullyUp,
                "up" => InitialState::Up,
                "down" => InitialState::Down,
                "fully-down" => InitialState::FullyDown,
                _ => {
                    return Err(words.fault(format!(
                        "'init-state' expects one of 'none', 'fully-up', 'up', 'down', or 'fully-down' \
                         but got '{text}'"
                    )));
                }
            };
            Ok(())
        },
    )
    .default(Described("`up`")),
    option("inter", "<delay>", "5s", "health checks: interval", |server, words| {
        server.settings.check.inter = interval(words, "inter")?;
        Ok(())
    })
    .default(Written("2s")),
    option("no-agent-check", "", "", "undo 'agent-check' of default-server", |server, _| {
        if server.settings.check.agent.is_some() {
            agent(server).enabled = false;
        }
        Ok(())
    })
    .with(NOT_ADDED),
    option("no-check", "", "", "undo 'check' of default-server", |server, _| {
        server.settings.check.enabled = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("no-check-reuse-pool", "", "", "undo 'check-reuse-pool' of default-server", |server, _| {
        server.settings.check.reuses_connections = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("no-check-sni-auto", "", "", "health checks: choose no name for TLS", |server, _| {
        server.settings.check.tls.no_automatic_name = true;
        Ok(())
    }),
    option("no-check-ssl", "", "", "health checks: no TLS, whatever the traffic does", |server, _| {
        server.settings.check.tls.enabled = Some(false);
        Ok(())
    })
    .with(NOT_ADDED),
    option("no-check-send-proxy", "", "", "undo 'check-send-proxy' of default-server", |server, _| {
        server.settings.check.send_proxy = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("observe", "<mode>", "layer4", "health checks: watch the traffic", |server, words| {
        let text = words.expect("'observe' expects <mode> as argument.")?;
        server.settings.check.observe = match text.text() {
            "none" => Observe::Nothing,
            "layer4" => Observe::Layer4,
            "layer7" => Observe::Layer7,
            other => {
                let message =
                    format!("'observe' expects one of 'none', 'layer4', 'layer7' but got '{other}'");
                return Err(fault(text.span(), message));
            }
        };
        Ok(())
    })
    .default(Described("nothing is observed"))
    .values(&[
        ("none", "no traffic counts (the default)"),
        ("layer4", "connections that fail are errors"),
        ("layer7", "answers with errors of the server count, too"),
    ]),
    option("on-error", "<mode>", "fail-check", "health checks: what to do after errors", |server, words| {
        let word = words.expect("'on-error' expects <mode> as argument.")?;
        server.settings.check.on_error = match word.text() {
            "fastinter" => OnError::FastInterval,
            "fail-check" => OnError::FailCheck,
            "sudden-death" => OnError::SuddenDeath,
            "mark-down" => OnError::MarkDown,
            other => {
                return Err(fault(
                    word.span(),
                    format!(
                        "'on-error' expects one of 'fastinter', 'fail-check', 'sudden-death' or \
                         'mark-down' but got '{other}'"
                    ),
                ));
            }
        };
        Ok(())
    })
    .default(Written("fail-check"))
    .values(&[
        ("fastinter", "check at the interval of 'fastinter'"),
        ("fail-check", "count as one failed check, and check at that interval (the default)"),
        ("sudden-death", "the next failed check takes the server down"),
        ("mark-down", "take the server down at once"),
    ]),
    option(
        "on-marked-down",
        "<action>",
        "shutdown-sessions",
        "health checks: what to do when down",
        |server, words| {
            only(words, "on-marked-down", "shutdown-sessions")?;
            server.settings.check.shuts_down_sessions = true;
            Ok(())
        },
    )
    .default(Described("sessions go on"))
    .values(&[("shutdown-sessions", "ends the sessions of the server at once")]),
    option(
        "on-marked-up",
        "<action>",
        "shutdown-backup-sessions",
        "health checks: what to do when up",
        |server, words| {
            only(words, "on-marked-up", "shutdown-backup-sessions")?;
            server.settings.check.shuts_down_backups = true;
            Ok(())
        },
    )
    .default(Described("sessions of backup servers go on"))
    .values(&[(
        "shutdown-backup-sessions",
        "ends the sessions of backup servers, so that clients come back",
    )]),
    option("port", "<port>", "8080", "health checks: port to check", |server, words| {
        let word = words.expect("'port' expects a port number as argument.")?;
        let port: u16 = integer_in(word, "port", 0..=u16::MAX)?;
        server.settings.check.port = (port > 0).then_some(port);
        Ok(())
    })
    .default(Described("the port of the server")),
    option("rise", "<count>", "2", "health checks: successes until up", |server, words| {
        server.settings.check.rise = times(words, "rise")?;
        Ok(())
    })
    .default(Written("2")),
    option(
        "track",
        "[<backend>/]<server>",
        "tracked",
        "health checks: follow another server's state",
        |server, words| {
            let word = words.expect("'track' expects [<proxy>/]<server> as argument.")?;
            let (backend, name) = match word.text().rsplit_once('/') {
                Some((backend, name)) => (Some(backend.into()), name),
                None => (None, word.text()),
            };
            let tracked = TrackedServer { backend, server: name.into() };
            server.settings.check.track = Some(Arc::new(tracked));
            Ok(())
        },
    ),
];

/// Checks that need the whole line.
pub(crate) fn settle(settings: &ServerSettings, subject: &str, at: Span) -> Parsed {
    let said = &settings.check;
    if said.enabled && said.track.is_some() {
        return Err(fault(
            at,
            format!("'{subject}' : unable to enable checks and tracking at the same time!"),
        ));
    }
    if said.track.is_some() && said.initial_state != InitialState::Unsaid {
        return Err(fault(
            at,
            format!("'{subject}' : unable to set init-state and tracking at the same time!"),
        ));
    }
    let lacks_port = |agent: &Arc<AgentSettings>| agent.enabled && agent.port.is_none();
    if said.agent.as_ref().is_some_and(lacks_port) {
        let message =
            format!("'{subject}' : {subject} does not have agent port. Agent check has been disabled.");
        return Err(fault(at, message));
    }
    Ok(())
}

fn agent<'s>(server: &'s mut ServerLine<'_>) -> &'s mut AgentSettings {
    Arc::make_mut(server.settings.check.agent.get_or_insert_default())
}

/// Reads the only valid argument of an option.
fn only(words: &mut Words<'_>, keyword: &str, known: &str) -> Parsed {
    let word = words.expect(&format!("'{keyword}' expects <action> as argument."))?;
    if word.is(known) {
        return Ok(());
    }
    Err(fault(word.span(), format!("'{keyword}' expects '{known}' but got '{word}'")))
}

/// A delay between checks.
fn interval(words: &mut Words<'_>, keyword: &str) -> Parsed<Duration> {
    let word = words.expect(&format!("'{keyword}' expects a delay as argument."))?;
    let delay = delay_of(words, word, keyword)?;
    if delay < SHORTEST_INTERVAL {
        return Err(fault(word.span(), format!("'{keyword}' : invalid value {word}.")));
    }
    warn_if_probably_seconds(words, word, keyword, delay);
    Ok(delay)
}

/// Warns about a number below 100 without a unit: it was probably not meant in milliseconds.
fn warn_if_probably_seconds(words: &Words<'_>, word: &Word, keyword: &str, delay: Duration) {
    let text = word.text();
    if text.bytes().all(|byte| byte.is_ascii_digit()) && delay < Duration::from_millis(100) {
        let message = format!(
            "'{keyword} {text}' is suspiciously small for a value in milliseconds. Please use an explicit unit ('{text}ms') if \
             that was the intent."
        );
        words.line().remark(Diagnostic::warning(word.span(), message));
    }
}

/// Timers have a resolution of one millisecond.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Reads a number of checks in a row.
fn times(words: &mut Words<'_>, keyword: &str) -> Parsed<u32> {
    let word = words.expect(&format!("'{keyword}' expects an integer argument."))?;
    let count = integer_in(word, keyword, i64::MIN..=i64::MAX)?;
    match u32::try_from(count) {
        Ok(count @ 1..=MOST_TIMES) => Ok(count),
        Ok(_) if count > 0 => Err(fault(word.span(), format!("'{keyword}' has to be at most {MOST_TIMES}."))),
        _ => Err(fault(word.span(), format!("'{keyword}' has to be > 0."))),
    }
}

/// The limit of checks in a row: successes and failures together are counted in 31 bits.
const MOST_TIMES: u32 = 1 << 30;
