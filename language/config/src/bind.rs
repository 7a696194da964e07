//! The words of a `bind` line.

pub(crate) mod tls;

use std::time::Duration;

use weir_syntax::{Line, Word};

use crate::address::{datagram_addresses, listen_addresses};
use crate::numbers::{delay_of, integer, integer_in};
use crate::rows::DefaultValue::{Described, Written};
use weir_model::ValueHelp;
use weir_model::{
    Account, Bind, BindOptions, Level, ListenAddress, Location, Protocol, SeverityOutput, Shards,
    ThreadRange, ThreadSet,
};

use crate::rows::{Handler, Row, Table};
use crate::tls_words::{ReadTls, tls_rows};
use crate::words::{Fault, LineFaults, Parsed, Words, fault, not_yet, suggesting};

/// Reads the arguments of one word of a `bind` line.
#[derive(Clone, Copy, Debug)]
pub struct BindReader(BindWordReader);

#[derive(Clone, Copy, Debug)]
enum BindWordReader {
    /// A word of `bind` lines alone.
    Bind(fn(&mut Bind, &mut Words<'_>) -> Parsed),
    /// A word that `server` lines have too.
    Tls(ReadTls),
}

pub(crate) const fn option(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: fn(&mut Bind, &mut Words<'_>) -> Parsed,
) -> Row<BindReader> {
    Row::ready(name, arguments, example, help, BindReader(BindWordReader::Bind(read)))
}

impl BindReader {
    /// Reads the arguments from `words` on.
    pub(crate) fn read(self, bind: &mut Bind, words: &mut Words<'_>) -> Parsed {
        match self.0 {
            BindWordReader::Bind(read) => read(bind, words),
            BindWordReader::Tls(read) => read(tls::options(bind), words),
        }
    }

    const fn tls(read: ReadTls) -> BindReader {
        BindReader(BindWordReader::Tls(read))
    }
}

/// Every word of a `bind` line.
pub static BIND_OPTIONS: Table<BindReader> =
    Table::new(&[READY, tls::BIND_ROWS, tls_rows!(BindReader, BindReader::tls), NOT_YET]);

/// Reads a line from its address word on. `keyword` is the name of the line in messages (`bind`), `section` the kind of its section,
/// `at` its location.
pub(crate) fn read_bind(words: &mut Words<'_>, keyword: &str, section: &str, at: Location) -> Parsed<Bind> {
    read_line(words, keyword, section, at, listen_addresses)
}

/// Like [`read_bind`], with options of earlier lines (`default-bind`).
pub(crate) fn read_bind_with(
    words: &mut Words<'_>,
    keyword: &str,
    section: &str,
    at: Location,
    options: BindOptions,
) -> Parsed<Bind> {
    let mut bind = read_addresses(words, keyword, at, listen_addresses)?;
    bind.options = options;
    read_bind_options(&mut bind, words, keyword, section)?;
    Ok(bind)
}

/// Like [`read_bind`], for datagram sockets, which connection settings do not affect (manual, "dgram-bind").
pub(crate) fn read_datagram_bind(
    words: &mut Words<'_>,
    keyword: &str,
    section: &str,
    at: Location,
) -> Parsed<Bind> {
    read_line(words, keyword, section, at, datagram_addresses)
}

fn read_line(
    words: &mut Words<'_>,
    keyword: &str,
    section: &str,
    at: Location,
    read: ReadAddresses,
) -> Parsed<Bind> {
    let mut bind = read_addresses(words, keyword, at, read)?;
    read_bind_options(&mut bind, words, keyword, section)?;
    Ok(bind)
}

/// Reads the addresses of a line. Messages use the keyword.
type ReadAddresses = fn(&Word, &str) -> Parsed<Vec<ListenAddress>>;

fn read_addresses(words: &mut Words<'_>, keyword: &str, at: Location, read: ReadAddresses) -> Parsed<Bind> {
    let address = words.expect(&format!(
        "'{keyword}' expects {{<path>|[addr1]:port1[-end1]}}{{,[addr]:port[-end]}}... as arguments."
    ))?;
    Ok(Bind {
        at,
        spelling: address.text().into(),
        addresses: read(address, keyword)?,
        name: None,
        id: None,
        options: BindOptions::default(),
    })
}

/// Reads all words after the address of a `bind` line.
pub(crate) fn read_bind_options(
    bind: &mut Bind,
    words: &mut Words<'_>,
    keyword: &str,
    section: &str,
) -> Parsed {
    let subject = format!("'{keyword} {}' in section '{section}'", bind.spelling);
    let prefix = |mut fault: Fault| {
        fault.message = format!("{subject} : {}", fault.message);
        fault
    };
    let mut faults = LineFaults::default();
    while let Some(word) = words.take() {
        let Some(row) = BIND_OPTIONS.find(word.text()) else {
            let message = format!("{subject}: unknown keyword '{word}'");
            let nearest = BIND_OPTIONS.nearest(word.text());
            faults.unknown(word, suggesting(fault(word.span(), message), nearest));
            continue;
        };
        match row.handler {
            Handler::Ready(reader) => {
                faults.known();
                if let Err(fault) = reader.read(bind, words) {
                    // The number of arguments is unknown, so the rest of the line is skipped.
                    faults.push(prefix(fault));
                    break;
                }
            }
            Handler::NotYet => {
                faults.push(prefix(not_yet(word.span(), row.name)));
                faults.skip_arguments(words, row.arguments, |word| BIND_OPTIONS.find(word).is_some());
            }
            Handler::Removed(instead) => {
                faults.push(prefix(fault(word.span(), format!("'{}' : {instead}", row.name))));
                faults.skip_arguments(words, "<argument>", |word| BIND_OPTIONS.find(word).is_some());
            }
        }
    }
    // The master loads no certificates, so its sockets cannot use TLS.
    if section == "command line" && bind.options.tls.as_ref().is_some_and(|tls| tls.enabled) {
        faults.push(prefix(not_yet(words.here(), "ssl")));
    }
    faults.into_result()
}

/// Reads a `stats socket` line (or another listener of the runtime API). Word `index` is the address.
pub fn read_socket(line: &Line, index: usize, keyword: &str, section: &str, at: Location) -> Parsed<Bind> {
    read_bind(&mut Words::new(line, index), keyword, section, at)
}

const READY: &[Row<BindReader>] = &[
    option("accept-proxy", "", "", "expect a PROXY protocol header on every connection", |bind, _| {
        bind.options.accept_proxy = true;
        Ok(())
    }),
    option("backlog", "<backlog>", "1000", "length of the queue of connections to accept", |bind, words| {
        let backlog = value(words, "backlog", 0..=i32::MAX as u32)?;
        bind.options.backlog = (backlog > 0).then_some(backlog);
        Ok(())
    })
    .default(Described("that of the frontend")),
    option("defer-accept", "", "", "accept a connection only once it sent data", |bind, _| {
        bind.options.defer_accept = true;
        Ok(())
    }),
    option(
        "expose-fd",
        "listeners",
        "listeners",
        "hand listening sockets to a new process",
        |bind, words| {
            let word = words.expect("'expose-fd' : missing fd type")?;
            if !word.is("listeners") {
                return Err(fault(
                    word.span(),
                    format!("'expose-fd' only supports 'listeners' (got '{word}')"),
                ));
            }
            bind.options.expose_listeners = true;
            Ok(())
        },
    ),
    option("gid", "<gid>", "33", "group of the unix socket, by number", |bind, words| {
        let id = value(words, "gid", 0..=u32::MAX)?;
        bind.options.ownership.group = Some(Account::Id(id));
        Ok(())
    }),
    option("group", "<group>", "www-data", "group of the unix socket, by name", |bind, words| {
        let name = words.expect("'group' : missing group name")?;
        bind.options.ownership.group = Some(Account::Name(name.text().into()));
        Ok(())
    }),
    option("id", "<id>", "7", "identifier of the listener in the statistics", |bind, words| {
        let word = words.expect("'id' : expected an integer argument")?;
        let id = integer_in(word, "id", 0..=i32::MAX as u32)?;
        if id == 0 {
            return Err(fault(word.span(), "'id' : custom id has to be > 0"));
        }
        bind.id = Some(id);
        Ok(())
    })
    .default(Described("the lowest number that is free")),
    option(
        "interface",
        "<interface>",
        "eth0",
        "accept connections of one network interface only",
        |bind, words| {
            let name = words.expect("'interface' : missing interface name")?;
            bind.options.interface = Some(name.text().into());
            Ok(())
        },
    )
    .default(Described("all")),
    option("level", "<level>", "admin", "runtime API: rights of its clients", |bind, words| {
        let word = words.expect("'level' : missing level")?;
        bind.options.level = Some(match word.text() {
            "user" => Level::User,
            "operator" => Level::Operator,
            "admin" => Level::Admin,
            _ => {
                let message = format!("'level' only supports 'user', 'operator', and 'admin' (got '{word}')");
                return Err(fault(word.span(), message));
            }
        });
        Ok(())
    })
    .default(Described("`operator`"))
    .values(&[
        ("user", "reads statistics without secrets"),
        (
            "operator",
            "reads all statistics and makes changes that are not sensitive, such as clearing counters (the \
             default)",
        ),
        ("admin", "may do everything"),
    ]),
    option("maxconn", "<maxconn>", "1000", "connections that the listener holds at once", |bind, words| {
        let maxconn = value(words, "maxconn", 0..=i32::MAX as u32)?;
        bind.options.maxconn = (maxconn > 0).then_some(maxconn);
        Ok(())
    })
    .default(Described("no limit of its own")),
    option("mode", "<mode>", "660", "permissions of the unix socket, in octal", |bind, words| {
        let word = words.expect("'mode' : missing or invalid mode '' (octal integer expected)")?;
        let octal = word.text().bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let mode = u32::from_str_radix(word.text(), 8).ok().filter(|mode| octal && *mode <= 0o7777);
        let Some(mode) = mode else {
            let message = format!("'mode' : missing or invalid mode '{word}' (octal integer expected)");
            return Err(fault(word.span(), message));
        };
        bind.options.ownership.mode = Some(mode);
        Ok(())
    })
    .default(Described("set by the umask of the process")),
    option(
        "mss",
        "<maxseg>",
        "1400",
        "maximum segment size; negative to subtract from the natural one",
        |bind, words| {
            let word = words.expect("'mss' : missing MSS value")?;
            let mss = integer_in(word, "mss", i32::MIN..=i32::MAX)?;
            if mss == 0 || mss.unsigned_abs() > 65535 {
                let message = "'mss' : expects an MSS with and absolute value between 1 and 65535";
                return Err(fault(word.span(), message));
            }
            bind.options.mss = Some(mss);
            Ok(())
        },
    )
    .default(Described("the system's")),
    option("name", "<name>", "public", "name of the listener in logs and statistics", |bind, words| {
        let name = words.expect("'name' : missing name")?;
        bind.name = Some(name.text().into());
        Ok(())
    })
    .default(Described("the address as written")),
    option(
        "nice",
        "<nice>",
        "-5",
        "priority of the connections, from -1024 (first) to 1024",
        |bind, words| {
            let word = words.expect("'nice' : missing value")?;
            let nice = integer_in(word, "nice", i32::MIN..=i32::MAX)?;
            bind.options.nice =
                i16::try_from(nice).ok().filter(|nice| (-1024..=1024).contains(nice)).ok_or_else(|| {
                    fault(word.span(), format!("'nice' : invalid value {nice}, allowed range is -1024..1024"))
                })?;
            Ok(())
        },
    )
    .default(Written("0")),
    option("proto", "<name>", "h1", "protocol to speak, whatever would be negotiated", |bind, words| {
        let word = words.expect("'proto' : missing value")?;
        bind.options.protocol = Some(protocol(word)?);
        Ok(())
    })
    .default(Described("chosen by ALPN, else detected from the first bytes"))
    .values(PROTOCOLS),
    option("severity-output", "<format>", "number", "how the runtime API marks severities", |bind, words| {
        let word = words.expect("'severity-output' : missing severity format")?;
        bind.options.severity_output = match word.text() {
            "none" => SeverityOutput::None,
            "number" => SeverityOutput::Number,
            "string" => SeverityOutput::String,
            _ => {
                let message =
                    format!("'severity-output' only supports 'none', 'number', and 'string' (got '{word}')");
                return Err(fault(word.span(), message));
            }
        };
        Ok(())
    })
    .default(Written("none"))
    .values(&[
        ("none", "not at all (the default)"),
        ("number", "answers begin with the severity in brackets: '[3]: '"),
        ("string", "answers begin with its name: '[err]: '"),
    ]),
    option(
        "shards",
        "{ <number> | by-thread | by-group }",
        "by-thread",
        "sockets that the listener splits into",
        |bind, words| {
            let word = words.expect("'shards' : missing value")?;
            bind.options.shards = Some(match word.text() {
                "by-thread" => Shards::ByThread,
                "by-group" => Shards::ByGroup,
                text => match text.parse() {
                    Ok(count @ 1..=MAX_SHARDS) => Shards::Count(count),
                    _ => {
                        let message = format!(
                            "'shards' : invalid value {word}, allowed range is 1..{MAX_SHARDS} or \
                             'by-thread' or 'by-group'"
                        );
                        return Err(fault(word.span(), message));
                    }
                },
            });
            Ok(())
        },
    )
    .default(Described("that of `tune.listener.default-shards`")),
    option("idle-ping", "<delay>", "10s", "HTTP/2: how often idle clients are tested", |bind, words| {
        let word = words.expect("'idle-ping' : missing delay")?;
        let delay = delay_of(words, word, "idle-ping")?;
        bind.options.idle_ping = Some(delay).filter(|delay| !delay.is_zero());
        Ok(())
    })
    .default(Described("none: idle clients are not pinged")),
    option("tcp-ut", "<delay>", "10s", "how long sent data may stay unacknowledged", |bind, words| {
        let word = words.expect("'tcp-ut' : missing TCP User Timeout value")?;
        let delay = delay_of(words, word, "tcp-ut")?;
        bind.options.tcp_user_timeout = (delay > Duration::ZERO).then_some(delay);
        Ok(())
    })
    .default(Described("the system's")),
    option("tfo", "", "", "TCP Fast Open", |bind, _| {
        bind.options.tcp_fast_open = true;
        Ok(())
    }),
    option("thread", "[<group>/]<thread-set>[,...]", "1-2", "worker threads that accept", |bind, words| {
        let word = words.expect("'thread' : missing thread set")?;
        let set = thread_set(word.text()).map_err(|part| {
            fault(word.span(), format!("'thread' : '{part}' is not a valid number/range."))
        })?;
        bind.options.threads = Some(set);
        Ok(())
    })
    .default(Described("all threads")),
    option("transparent", "", "", "bind to addresses that are not local", |bind, _| {
        bind.options.transparent = true;
        Ok(())
    }),
    option("uid", "<uid>", "33", "owner of the unix socket, by number", |bind, words| {
        let id = value(words, "uid", 0..=u32::MAX)?;
        bind.options.ownership.user = Some(Account::Id(id));
        Ok(())
    }),
    option("user", "<user>", "www-data", "owner of the unix socket, by name", |bind, words| {
        let name = words.expect("'user' : missing user name")?;
        bind.options.ownership.user = Some(Account::Name(name.text().into()));
        Ok(())
    }),
    option("v4v6", "", "", "an IPv6 listener takes IPv4 connections too", |bind, _| {
        bind.options.v4v6 = Some(true);
        Ok(())
    }),
    option("v6only", "", "", "an IPv6 listener takes IPv6 connections only", |bind, _| {
        bind.options.v4v6 = Some(false);
        Ok(())
    }),
];

const NOT_YET: &[Row<BindReader>] = &[
    Row::not_yet("accept-netscaler-cip", "<magic number>", "expect a NetScaler client address header"),
    Row::not_yet("cc", "<algo>", "TCP congestion control algorithm"),
    Row::not_yet("ech", "<dir>", "TLS: encrypted client hello"),
    Row::not_yet("guid-prefix", "<string>", "prefix of the listeners' global identifiers"),
    Row::not_yet("label", "<label>", "label of the listener"),
    Row::not_yet("namespace", "<name>", "network namespace to listen in"),
    Row::not_yet("nbconn", "<nbconn>", "reverse HTTP: connections to keep open"),
    Row::removed("process", "use 'thread' instead."),
    Row::not_yet("quic-cc-algo", "{ cubic | newreno | bbr | nocc }[(<args,...>)]", "QUIC congestion control"),
    Row::not_yet("quic-force-retry", "", "QUIC: validate addresses by a Retry"),
    Row::not_yet("quic-socket", "[ connection | listener ]", "QUIC: which sockets to use"),
    Row::not_yet("tcp-md5sig", "<password>", "TCP MD5 signatures"),
    Row::not_yet("tcp-ss", "<mode>", "TCP save-syn mode"),
];

/// The limit of sockets per listener: the largest number of threads.
const MAX_SHARDS: u32 = 1024;

/// Reads the number after `keyword`.
fn value(words: &mut Words<'_>, keyword: &str, range: std::ops::RangeInclusive<u32>) -> Parsed<u32> {
    if words.peek().is_none_or(|word| word.bytes().is_empty()) {
        return Err(words.fault(format!("'{keyword}' : missing value")));
    }
    integer(words, keyword, range)
}

/// The values of `proto`.
const PROTOCOLS: &[ValueHelp] = &[("h1", "HTTP/1"), ("h2", "HTTP/2"), ("none", "bytes, in 'mode tcp'")];

/// The protocol of a `proto` word, if both clients and servers can speak it.
pub(crate) fn protocol(word: &Word) -> Parsed<Protocol> {
    match word.text() {
        "h1" => Ok(Protocol::H1),
        "h2" => Ok(Protocol::H2),
        "none" => Ok(Protocol::None),
        "spop" => Err(fault(word.span(), "'proto' : 'spop' is for servers in 'mode spop' only.")),
        "fcgi" => Err(fault(word.span(), "'proto' : 'fcgi' is for servers in 'mode http' only.")),
        "quic" | "qmux" => Err(not_yet(word.span(), &format!("proto {word}"))),
        _ => Err(fault(word.span(), format!("'proto' :  unknown MUX protocol '{word}'"))),
    }
}

/// Parses a thread set. The error is the part at fault.
fn thread_set(text: &str) -> Result<ThreadSet, String> {
    match text {
        "all" => return Ok(ThreadSet::All),
        "odd" => return Ok(ThreadSet::Odd),
        "even" => return Ok(ThreadSet::Even),
        _ => {}
    }
    let mut ranges = Vec::new();
    for part in text.split(',') {
        let (group, threads) = match part.split_once('/') {
            Some((group, threads)) => (Some(thread_number(group, part)?), threads),
            None => (None, part),
        };
        let (first, last) = match threads.split_once('-') {
            _ if threads == "all" => (1, MAX_THREAD),
            None => {
                let number = thread_number(threads, part)?;
                (number, number)
            }
            Some((first, "")) => (thread_number(first, part)?, MAX_THREAD),
            Some((first, last)) => {
                let (first, last) = (thread_number(first, part)?, thread_number(last, part)?);
                (first.min(last), first.max(last))
            }
        };
        ranges.push(ThreadRange { group, first, last });
    }
    Ok(ThreadSet::Ranges(ranges))
}

/// The highest thread number in a set. It stands for the last thread.
const MAX_THREAD: u16 = 4096;

fn thread_number(digits: &str, part: &str) -> Result<u16, String> {
    let number = digits.parse().ok().filter(|number| (1..=MAX_THREAD).contains(number));
    number.ok_or_else(|| part.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_thread_sets() {
        let range = |group, first, last| ThreadRange { group, first, last };
        assert_eq!(thread_set("odd"), Ok(ThreadSet::Odd));
        assert_eq!(thread_set("1-2,4"), Ok(ThreadSet::Ranges(vec![range(None, 1, 2), range(None, 4, 4)])));
        assert_eq!(thread_set("2/all"), Ok(ThreadSet::Ranges(vec![range(Some(2), 1, MAX_THREAD)])));
        assert_eq!(thread_set("3-1"), Ok(ThreadSet::Ranges(vec![range(None, 1, 3)])));
        assert_eq!(thread_set("foo"), Err("foo".to_owned()));
        assert_eq!(thread_set("0"), Err("0".to_owned()));
    }
}
