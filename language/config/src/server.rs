//! The words of a `server` line, and of `server-template` and `default-server`.

pub(crate) mod checks;
mod proxy_header;
mod resolution;
mod tls;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_expr::{EvaluationPoint, EvaluationPoints};
use weir_syntax::{Diagnostic, Layout, Span, Word};

use crate::address::{is_multipath, proxy_address};
use crate::bind::protocol;
use crate::expressions::ExpressionParser;
use crate::numbers::{delay_of, integer_in, size_of};
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::{Handler, Row, Table};
use crate::source::read_source;
use crate::tls_words::{ReadTls, protocols, tls_rows};
use crate::words::{Fault, LineFaults, Parsed, Words, fault, is_name_character, not_yet, suggesting};
use weir_model::{
    Framing, HashKey, InitialAddress, Protocol, Ring, ServerSettings, SocksProxy, ValueHelp, WebSocket,
};

/// The values of `proto` on a server line.
const SERVER_PROTOCOLS: &[ValueHelp] = &[
    ("h1", "HTTP/1"),
    ("h2", "HTTP/2"),
    ("none", "bytes, in 'mode tcp'"),
    ("spop", "messages to agents, in 'mode spop'"),
    ("fcgi", "FastCGI, in 'mode http' with 'use-fcgi-app'"),
];

/// A server line during parsing.
#[derive(Debug)]
pub(crate) struct ServerLine<'l> {
    /// The keyword of the line.
    pub(crate) kind: ServerLineKind,
    /// The settings so far.
    pub(crate) settings: ServerSettings,
    /// `id`. 0 until set.
    pub(crate) id: u32,
    /// `guid`.
    pub(crate) guid: Option<Box<str>>,
    /// The words of the line, for checks that depend on the proxy's mode.
    pub(crate) used: Vec<(&'static str, Span)>,
    pub(crate) expressions: ExpressionParser<'l>,
}

/// The keywords of lines with server words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerLineKind {
    /// `server`.
    Server,
    /// `server-template`.
    Template,
    /// `default-server`.
    Default,
    /// No keyword: `add server` of the runtime API.
    Added,
    /// `server` of a `ring` section.
    Ring,
    /// `peer`, `server` and `default-server` of a `peers` section.
    Peer,
    /// `nameserver` of a `resolvers` section.
    NameServer,
}

/// Reads the arguments of one word of a server line.
#[derive(Clone, Copy, Debug)]
pub struct ServerReader(ServerWordReader);

#[derive(Clone, Copy, Debug)]
enum ServerWordReader {
    /// A word of `server` lines alone.
    Server(fn(&mut ServerLine<'_>, &mut Words<'_>) -> Parsed),
    /// A word that `bind` lines have too.
    Tls(ReadTls),
}

impl ServerReader {
    fn read(self, server: &mut ServerLine<'_>, words: &mut Words<'_>) -> Parsed {
        match self.0 {
            ServerWordReader::Server(read) => read(server, words),
            ServerWordReader::Tls(read) => read(tls::options(server), words),
        }
    }

    const fn tls(read: ReadTls) -> ServerReader {
        ServerReader(ServerWordReader::Tls(read))
    }
}

const fn option(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: fn(&mut ServerLine<'_>, &mut Words<'_>) -> Parsed,
) -> Row<ServerReader> {
    Row::ready(name, arguments, example, help, ServerReader(ServerWordReader::Server(read)))
}

/// The error of a `server` line without a name or an address.
pub(crate) const SERVER_EXPECTS: &str = "'server' expects <name> and <addr>[:<port>] as arguments.";

pub(crate) fn check_server_name(name: &Word) -> Parsed {
    match name.text().chars().find(|character| !is_name_character(*character)) {
        None => Ok(()),
        Some(stranger) => {
            let message = format!("character '{stranger}' is not permitted in server name '{name}'.");
            Err(fault(name.span(), message))
        }
    }
}

/// The error for a size that exceeds the limit of rings.
pub(crate) fn too_large(word: &Word) -> String {
    format!(
        "invalid size '{word}' for new sink buffer: a ring has at most {} bytes (65536g).",
        Ring::SIZE_MAX
    )
}

/// A bit of [`Row::uses`]: `add server` does not accept the word.
const NOT_ADDED: u8 = 1;
/// A bit of [`Row::uses`]: the word is valid for log servers (manual, the contexts of each keyword).
const LOGS: u8 = 1 << 1;
/// As [`LOGS`], but only for log servers over connections.
const LOG_STREAMS: u8 = LOGS | 1 << 2;

/// Whether a word of a server line is valid in a log backend.
pub(crate) fn is_for_logs(name: &str) -> bool {
    SERVER_OPTIONS.find(name).is_some_and(|row| row.uses & LOGS != 0) || is_about_tls(name)
}

/// Whether such a word is valid only for log servers over connections.
pub(crate) fn is_for_log_streams(name: &str) -> bool {
    SERVER_OPTIONS.find(name).is_some_and(|row| row.uses & LOG_STREAMS == LOG_STREAMS) || is_about_tls(name)
}

/// Whether a word is a TLS word that `bind` lines and log servers accept too.
fn is_about_tls(name: &str) -> bool {
    crate::tls_words::TLS_ROWS.iter().any(|row| row.name == name)
}

/// Whether a word is about TLS.
pub(crate) fn is_of_tls(name: &str) -> bool {
    is_about_tls(name) || tls::ROWS.iter().any(|row| row.name == name)
}

/// Whether a word controls how a connection is opened, independent of its purpose and its protocol.
pub(crate) fn is_about_connecting(name: &str) -> bool {
    const WORDS: [&str; 10] = [
        "source",
        "socks4",
        "tcp-ut",
        "tfo",
        "no-tfo",
        "send-proxy",
        "send-proxy-v2",
        "no-send-proxy",
        "no-send-proxy-v2",
        "proxy-v2-options",
    ];
    WORDS.contains(&name) || is_of_tls(name)
}

/// The implemented words that `add server` accepts.
pub fn added_server_words() -> impl Iterator<Item = &'static str> {
    let mut words: Vec<_> = SERVER_OPTIONS
        .rows()
        .filter(|row| row.is_ready() && row.uses & NOT_ADDED == 0)
        .map(|row| row.name)
        .collect();
    words.sort_unstable();
    words.into_iter()
}

/// Refuses a word that `add server` does not accept.
fn check_added(word: &Word, row: &Row<ServerReader>) -> Parsed {
    if row.uses & NOT_ADDED == 0 {
        return Ok(());
    }
    Err(fault(word.span(), format!("'{}' option is not accepted for dynamic server", row.name)))
}

/// Every word of a server line.
pub static SERVER_OPTIONS: Table<ServerReader> = Table::new(&[
    READY,
    proxy_header::READY,
    tls::ROWS,
    tls_rows!(ServerReader, ServerReader::tls),
    checks::READY,
    resolution::READY,
    NEGATIONS,
    proxy_header::NEGATIONS,
    NOT_YET,
]);

/// Reads all words of a server line. `subject` is the name of the server in messages.
pub(crate) fn read_server_options(
    server: &mut ServerLine<'_>,
    words: &mut Words<'_>,
    subject: Option<&str>,
) -> Parsed {
    let located = |mut fault: Fault| {
        if let Some(subject) = subject {
            fault.message = format!("'{subject}' : {}", fault.message);
        }
        fault.layout = Layout::Location;
        fault
    };
    let mut faults = LineFaults::default();
    while let Some(word) = words.take() {
        let name = word.text().split('(').next().unwrap_or_default();
        let row = SERVER_OPTIONS.find(name);
        let Err(fault) = read_word(server, word, words) else {
            faults.known();
            continue;
        };
        match row.map(|row| (row.handler, row.arguments)) {
            None => faults.unknown(word, located(fault)),
            Some((Handler::NotYet, arguments)) => {
                faults.push(located(fault));
                faults.skip_arguments(words, arguments, |word| SERVER_OPTIONS.find(word).is_some());
            }
            Some((Handler::Removed(_), _)) => faults.push(located(fault)),
            Some((Handler::Ready(_), _)) => {
                // The number of arguments is unknown, so the rest of the line is skipped.
                faults.push(located(fault));
                break;
            }
        }
    }
    if server.settings.resolution.section.is_some() && server.kind == ServerLineKind::Ring {
        faults.push(located(not_yet(words.here(), "resolvers")));
    }
    faults.into_result()
}

fn read_word(server: &mut ServerLine<'_>, word: &Word, words: &mut Words<'_>) -> Parsed {
    let name = word.text().split('(').next().unwrap_or_default();
    let Some(row) = SERVER_OPTIONS.find(name) else {
        let hint = match server.kind {
            ServerLineKind::Default => ". Hint: no address was expected for this server.",
            _ => "",
        };
        let message = format!("unknown keyword '{word}'{hint}");
        return Err(suggesting(fault(word.span(), message), SERVER_OPTIONS.nearest(name)));
    };
    if server.kind == ServerLineKind::Added {
        check_added(word, row)?;
    }
    match row.handler {
        Handler::Ready(reader) => {
            server.used.push((row.name, word.span()));
            reader.read(server, words)
        }
        Handler::NotYet => Err(not_yet(word.span(), row.name)),
        Handler::Removed(instead) => Err(fault(word.span(), format!("'{}' : {instead}", row.name))),
    }
}

const READY: &[Row<ServerReader>] = &[
    option("alpn", "<protocols>", "http/1.1", "TLS: protocols to negotiate", |server, words| {
        tls::options(server).protocols = Some(protocols(words, "'alpn'")?);
        Ok(())
    }),
    option("non-stick", "", "", "no stick-table remembers the server", |server, _| {
        server.settings.non_stick = true;
        Ok(())
    })
    .with(NOT_ADDED),
    option("stick", "", "", "stick-tables remember the server", |server, _| {
        server.settings.non_stick = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("backup", "", "", "use the server only when no other is left", |server, _| {
        server.settings.backup = true;
        Ok(())
    })
    .with(LOGS),
    option("cookie", "<value>", "s1", "value of the server in the persistence cookie", |server, words| {
        let value = words.expect("'cookie' expects <value> as argument.")?;
        server.settings.cookie = Some(value.text().into());
        Ok(())
    }),
    option("disabled", "", "", "start the server in maintenance", |server, _| {
        server.settings.disabled = true;
        Ok(())
    })
    .with(LOGS),
    option("enabled", "", "", "undo 'disabled' of default-server", |server, _| {
        server.settings.disabled = false;
        Ok(())
    })
    .with(NOT_ADDED | LOGS),
    option("guid", "<string>", "g1", "identifier that is unique in the process", |server, words| {
        let word = words.expect("'guid' : expects an argument")?;
        if matches!(server.kind, ServerLineKind::Template | ServerLineKind::Default) {
            let message = "'guid' option is not accepted in default-server and server-template sections";
            return Err(fault(word.span(), message));
        }
        server.guid = Some(checked_guid(word)?);
        Ok(())
    })
    .with(LOGS),
    option("hash-key", "<key>", "addr-port", "what places the server on the hash ring", |server, words| {
        let word = words.expect("'hash-key' expects 'id', 'addr', or 'addr-port' value.")?;
        server.settings.hash_key = match word.text() {
            "id" => HashKey::Id,
            "addr" => HashKey::Address,
            "addr-port" => HashKey::AddressAndPort,
            _ => return Err(fault(word.span(), "'hash-key' has to be 'id', 'addr', or 'addr-port'.")),
        };
        Ok(())
    })
    .default(Written("id"))
    .values(&[
        ("id", "its number (the default)"),
        ("addr", "its address"),
        ("addr-port", "its address and port"),
    ]),
    option("id", "<value>", "7", "identifier in statistics and persistence", |server, words| {
        let word = words.expect("'id' : expects an integer argument")?;
        if server.kind == ServerLineKind::Default {
            return Err(fault(word.span(), "'id' option is not accepted in default-server sections"));
        }
        server.id = integer_in(word, "id", 0..=i32::MAX as u32)?;
        if server.id == 0 {
            return Err(fault(word.span(), "'id' : custom id has to be > 0."));
        }
        Ok(())
    })
    .with(LOGS)
    .default(Described("the lowest number that is free")),
    option(
        "init-addr",
        "{last | libc | none | <ip>},[...]*",
        "libc,none",
        "how a name gets its first address",
        |server, words| {
            let word = words.expect("'init-addr' : expects a method or an address")?;
            server.settings.initial_address = initial_addresses(word)?;
            Ok(())
        },
    )
    .with(NOT_ADDED | LOGS)
    .default(Described("`last,libc`"))
    .values(&[
        ("last", "that of the state file"),
        ("libc", "that of the system's resolver"),
        ("none", "none: the server is down until 'resolvers' find one"),
        ("<ip>", "this one"),
    ]),
    option(
        "log-bufsize",
        "<bufsize>",
        "64k",
        "bytes of the ring that messages for a log server wait in",
        |server, words| {
            let word = words.expect("'log-bufsize' expects a size as argument.")?;
            let size = size_of(word, "log-bufsize")?;
            if size > Ring::SIZE_MAX {
                return Err(fault(word.span(), format!("'log-bufsize' : {}", too_large(word))));
            }
            if size == 0 {
                return Err(fault(word.span(), format!("'log-bufsize' : invalid size '{word}'.")));
            }
            if server.kind == ServerLineKind::Ring {
                return Err(fault(
                    word.span(),
                    "'log-bufsize' has no effect on a server of a ring: the section's 'size' is used",
                ));
            }
            server.settings.log_buffer = Some(size);
            Ok(())
        },
    )
    .with(NOT_ADDED | LOG_STREAMS)
    .default(Described("that of `tune.bufsize`")),
    option(
        "log-proto",
        "<logproto>",
        "legacy",
        "framing of log messages on a connection",
        |server, words| {
            let word = words.expect("'log-proto' expects one of 'legacy' or 'octet-count' but got ''.")?;
            server.settings.framing = match word.text() {
                "legacy" => Framing::Legacy,
                "octet-count" => Framing::OctetCount,
                other => {
                    let message =
                        format!("'log-proto' expects one of 'legacy' or 'octet-count' but got '{other}'.");
                    return Err(fault(word.span(), message));
                }
            };
            if server.kind == ServerLineKind::Added && server.settings.framing != Framing::Legacy {
                let message = "'log-proto' has no effect on a server that gets no log messages";
                let warning = Diagnostic::warning(word.span(), message);
                server.expressions.notes.borrow_mut().warnings.push(warning);
            }
            Ok(())
        },
    )
    .with(NOT_ADDED | LOG_STREAMS)
    .default(Written("legacy"))
    .values(&[
        ("legacy", "messages end with a newline (the default)"),
        ("octet-count", "a length precedes each message"),
    ]),
    option(
        "max-reuse",
        "<count>",
        "10",
        "how often a connection is reused; -1 for no limit",
        |server, words| {
            server.settings.max_reuse = limit_or_none(words, "max-reuse")?;
            Ok(())
        },
    )
    .with(NOT_ADDED)
    .default(Described("no bound")),
    option(
        "maxconn",
        "<maxconn>",
        "100",
        "connections at once; the rest waits in the queue",
        |server, words| {
            server.settings.maxconn = count(words, "maxconn")?;
            Ok(())
        },
    )
    .default(Written("0")),
    option("maxqueue", "<maxqueue>", "50", "requests that may wait for this server", |server, words| {
        server.settings.maxqueue = count(words, "maxqueue")?;
        Ok(())
    })
    .default(Written("0")),
    option("minconn", "<minconn>", "10", "connections at once while the load is low", |server, words| {
        server.settings.minconn = count(words, "minconn")?;
        Ok(())
    })
    .default(Written("0")),
    option(
        "pool-conn-name",
        "<expr>",
        "str(a)",
        "value that must be equal to reuse a connection",
        |server, words| {
            let expression = server
                .expressions
                .expression(words, EvaluationPoints::only(EvaluationPoint::ServerSource))?;
            server.settings.pool_connection_name = Some(expression);
            Ok(())
        },
    ),
    option(
        "pool-low-conn",
        "<max>",
        "2",
        "idle connections below which workers keep to their own",
        |server, words| {
            server.settings.pool_low_connections = limit_or_none(words, "pool-low-conn")?.unwrap_or(0);
            Ok(())
        },
    )
    .default(Written("0")),
    option("pool-max-conn", "<max>", "100", "idle connections to keep; -1 for no limit", |server, words| {
        server.settings.pool_max_connections = limit_or_none(words, "pool-max-conn")?;
        Ok(())
    })
    .default(Described("no bound")),
    option(
        "idle-ping",
        "<delay>",
        "10s",
        "HTTP/2: how often idle connections are tested",
        |server, words| {
            let word = words.expect("'idle-ping' : missing delay")?;
            let delay = delay_of(words, word, "idle-ping")?;
            server.settings.idle_ping = Some(delay).filter(|delay| !delay.is_zero());
            Ok(())
        },
    )
    .default(Described("none: idle connections are not pinged")),
    option(
        "pool-purge-delay",
        "<delay>",
        "5s",
        "how often idle connections are thinned out",
        |server, words| {
            let word = words.expect("'pool-purge-delay' expects <value> as argument.")?;
            server.settings.pool_purge_delay = delay_of(words, word, "pool-purge-delay")?;
            Ok(())
        },
    )
    .default(Written("5s")),
    option("strict-maxconn", "", "", "idle connections count against 'maxconn', too", |server, _| {
        server.settings.strict_maxconn = true;
        Ok(())
    }),
    option("proto", "<name>", "h1", "protocol to speak, whatever would be negotiated", |server, words| {
        let word = words.expect("'proto' : missing value")?;
        server.settings.protocol = Some(match word.text() {
            "spop" => Protocol::Spop,
            "fcgi" => Protocol::Fcgi,
            _ => protocol(word)?,
        });
        Ok(())
    })
    .default(Described("what ALPN chose, else HTTP/1.1"))
    .values(SERVER_PROTOCOLS),
    option(
        "redir",
        "<prefix>",
        "http://b.example.com",
        "redirect GET and HEAD instead of forwarding",
        |server, words| {
            let prefix = words.expect("'redir' expects <prefix> as argument.")?;
            server.settings.redirect_prefix = Some(prefix.text().into());
            Ok(())
        },
    )
    .with(NOT_ADDED),
    option("slowstart", "<start_time_in_ms>", "30s", "how long the weight takes to grow", |server, words| {
        let word = words.expect("'slowstart' expects a delay in milliseconds.")?;
        server.settings.slowstart = delay_of(words, word, "slowstart")?;
        Ok(())
    })
    .default(Written("0")),
    option(
        "socks4",
        "<addr>:<port>",
        "127.0.0.1:1080",
        "SOCKS4 proxy that connections are made through",
        |server, words| {
            let word = words.expect("'socks4' expects <addr>:<port> as argument.")?;
            let (host, port) = proxy_address(word, &format!("socks4 {word}"))?;
            server.settings.multipath |= is_multipath(word.text());
            server.settings.socks4 = Some(Arc::new(SocksProxy { host, port }));
            Ok(())
        },
    )
    .with(NOT_ADDED | LOG_STREAMS),
    option(
        "source",
        "<addr>[:<pl>[-<ph>]] [usesrc { <addr2>[:<port2>] | client | clientip | hdr_ip(<hdr>[,<occ>]) \
         }] [interface <name>]",
        "127.0.0.2",
        "where connections come from",
        |server, words| {
            server.settings.source = Some(Arc::new(read_source(words)?));
            Ok(())
        },
    )
    .with(LOGS),
    option("shard", "<shard>", "1", "of a peer: the shard of keys that it receives", |server, words| {
        let word = words.expect("'shard' expects an integer as argument.")?;
        if server.kind != ServerLineKind::Peer {
            let message = "'shard' has no effect: it is for the lines of a 'peers' section.";
            let warning = Diagnostic::warning(word.span(), message);
            server.expressions.notes.borrow_mut().warnings.push(warning);
        }
        server.settings.shard = integer_in(word, "shard", 0..=u32::MAX)?;
        Ok(())
    })
    .with(NOT_ADDED)
    .default(Described("all keys")),
    option("tcp-ut", "<delay>", "10s", "how long sent data may stay unacknowledged", |server, words| {
        let word = words.expect("'tcp-ut' : missing TCP User Timeout value")?;
        let delay = delay_of(words, word, "tcp-ut")?;
        server.settings.tcp_user_timeout = (delay > Duration::ZERO).then_some(delay);
        Ok(())
    })
    .with(NOT_ADDED | LOG_STREAMS)
    .default(Described("the system's")),
    option("tfo", "", "", "TCP Fast Open", |server, _| {
        server.settings.tcp_fast_open = true;
        Ok(())
    })
    .with(LOG_STREAMS),
    option("usesrc", "(after 'source')", "", "a foreign source address", |_, words| {
        Err(words.fault("'usesrc' only allowed after a 'source' statement."))
    }),
    option("weight", "<weight>", "10", "share of the load, 0 to 256", |server, words| {
        let word = words.expect("'weight' expects an integer argument.")?;
        let weight = integer_in(word, "weight", i64::MIN..=i64::MAX)?;
        server.settings.weight =
            u16::try_from(weight).ok().filter(|weight| *weight <= MAX_WEIGHT).ok_or_else(|| {
                fault(word.span(), format!("weight of server is not within 0 and {MAX_WEIGHT} ({weight})."))
            })?;
        Ok(())
    })
    .default(Written("1")),
    option("ws", "{ auto | h1 | h2 }", "auto", "protocol of WebSocket streams", |server, words| {
        let word = words.expect("'ws' has to be 'auto', 'h1' or 'h2'.")?;
        server.settings.web_socket = match word.text() {
            "auto" => WebSocket::Auto,
            "h1" => WebSocket::H1,
            "h2" => WebSocket::H2,
            _ => return Err(fault(word.span(), "'ws' has to be 'auto', 'h1' or 'h2'.")),
        };
        Ok(())
    })
    .default(Written("auto")),
];

/// Words that switch off a setting, for example one of `default-server`.
const NEGATIONS: &[Row<ServerReader>] = &[
    option("no-backup", "", "", "undo 'backup' of default-server", |server, _| {
        server.settings.backup = false;
        Ok(())
    }),
    option("no-tfo", "", "", "undo 'tfo' of default-server", |server, _| {
        server.settings.tcp_fast_open = false;
        Ok(())
    }),
];

const NOT_YET: &[Row<ServerReader>] = &[
    Row::not_yet("cc", "<algo>", "TCP congestion control algorithm").with(NOT_ADDED),
    Row::not_yet("from", "<origin>", "which default-server to start from").with(NOT_ADDED),
    Row::not_yet("namespace", "<name>", "network namespace to connect from").with(NOT_ADDED),
    Row::not_yet("quic-cc-algo", "{ cubic | newreno | bbr | nocc }[(<args,...>)]", "QUIC congestion control")
        .with(NOT_ADDED),
    Row::not_yet("tcp-md5sig", "<password>", "TCP MD5 signatures").with(NOT_ADDED),
];

/// The highest weight.
const MAX_WEIGHT: u16 = 256;

fn count(words: &mut Words<'_>, keyword: &str) -> Parsed<u32> {
    let word = words.expect(&format!("'{keyword}' expects an integer argument."))?;
    integer_in(word, keyword, 0..=i32::MAX as u32)
}

/// A count, or -1 for no limit.
fn limit_or_none(words: &mut Words<'_>, keyword: &str) -> Parsed<Option<u32>> {
    let word = words.expect(&format!("'{keyword}' expects <value> as argument."))?;
    let value = integer_in(word, keyword, i32::MIN..=i32::MAX)?;
    match value {
        -1 => Ok(None),
        _ => match u32::try_from(value) {
            Ok(limit) => Ok(Some(limit)),
            Err(_) => Err(fault(word.span(), format!("'{keyword}' must be >= -1."))),
        },
    }
}

fn initial_addresses(word: &Word) -> Parsed<Arc<[InitialAddress]>> {
    let mut methods = Vec::new();
    let mut start = 0;
    for method in word.text().split(',') {
        let span = word.span_of(start..start + method.len());
        start += method.len() + 1;
        methods.push(match method {
            "last" => InitialAddress::Last,
            "libc" => InitialAddress::Libc,
            "none" => InitialAddress::None,
            _ => match method.parse::<IpAddr>() {
                Ok(ip) => InitialAddress::Ip(ip),
                Err(_) => {
                    let message = format!(
                        "'init-addr' : unknown init-addr method '{method}', supported methods are 'libc', 'last', 'none'."
                    );
                    return Err(fault(span, message));
                }
            },
        });
        if methods.len() > MAX_INITIAL_ADDRESSES {
            return Err(fault(span, "'init-addr' : too many init-addr methods when trying to add one more"));
        }
    }
    Ok(methods.into())
}

/// The limit of methods in an `init-addr`.
const MAX_INITIAL_ADDRESSES: usize = 10;

/// Checks a global identifier: letters, digits and some signs, at most 127 characters.
pub(crate) fn checked_guid(word: &Word) -> Parsed<Box<str>> {
    const MAX_GUID: usize = 127;
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.');
    if word.text().len() > MAX_GUID {
        return Err(fault(word.span(), format!("'guid' : '{word}' is longer than {MAX_GUID} characters")));
    }
    if !word.bytes().iter().all(|byte| valid(*byte)) {
        return Err(fault(word.span(), format!("'guid' : invalid character in '{word}'")));
    }
    Ok(word.text().into())
}
