//! `ring` sections: buffers of events (manual, section "Rings").

use std::cell::RefCell;
use std::path::PathBuf;

use weir_expr::AclTable;
use weir_syntax::{Diagnostic, Diagnostics, Layout, Line};

use crate::address::{is_multipath, server_address};
use crate::expressions::{ExpressionParser, Notes};
use crate::numbers::{delay_of, size_of};
use crate::resources::Resources;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::server::{SERVER_EXPECTS, ServerLine, ServerLineKind, read_server_options, too_large};
use crate::words::{Parsed, Words, fault};
use weir_model::{Location, LogHeader, ProxyV2Tls, Ring, RingServer, ServerSettings, TransparentSource};

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct RingSectionReader {
    ring: Ring,
    size_given: Option<u64>,
}

/// Reads one line of the section.
pub(crate) type RingKeyword = fn(&mut RingContext<'_>, &mut Words<'_>) -> Parsed;

/// The resources for reading a line.
pub(crate) struct RingContext<'c> {
    reader: &'c mut RingSectionReader,
    resources: Resources<'c>,
    at: &'c Location,
    diagnostics: &'c mut Diagnostics,
}

/// Every word of the section.
pub(crate) static RING_KEYWORDS: Table<RingKeyword> = Table::new(&[&[
    Row::ready(
        "backing-file",
        "<path>",
        "/dev/shm/ring",
        "keep the messages in a file that outlives the process",
        |context, words| {
            let path = words.expect("'backing-file' expects a path as argument.")?;
            context.reader.ring.file = Some(PathBuf::from(path.text()));
            words.end("backing-file")
        },
    ),
    Row::<RingKeyword>::ready("description", "<text>", "events", "purpose of the ring", |context, words| {
        let text = words.expect("missing ring description text.")?;
        context.reader.ring.description = text.text().into();
        words.end("description")
    })
    .default(Described("none")),
    Row::<RingKeyword>::ready("format", "<format>", "timed", "what precedes messages", |context, words| {
        let word = words.peek_text();
        let header =
            LogHeader::from_name(word).ok_or_else(|| words.fault(format!("unknown format '{word}'.")))?;
        context.reader.ring.header = Some(header);
        words.take();
        words.end("format")
    })
    .default(Described("`raw`")),
    Row::<RingKeyword>::ready("maxlen", "<length>", "1200", "longer messages are cut", |context, words| {
        let word = words.peek_text();
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let length = word.parse::<u64>().ok().or(digits.then_some(u64::MAX)).filter(|length| *length > 0);
        let length =
            length.ok_or_else(|| words.fault(format!("invalid size '{word}' for new sink buffer.")))?;
        if length > LONGEST_MESSAGE.into() {
            let message = format!(
                "ring '{}' event max length '{word}' exceeds max payload size, forced to \
                 '{LONGEST_MESSAGE}'.",
                context.reader.ring.name
            );
            context.diagnostics.warning(words.here(), message);
        }
        context.reader.ring.length_max = length.min(LONGEST_MESSAGE.into()) as u32;
        words.take();
        words.end("maxlen")
    })
    .default(Written("1024")),
    Row::ready(
        "server",
        "<name> <address> [param*]",
        "s 127.0.0.1:514",
        "a log server that gets a copy of every message",
        |context, words| context.server(words),
    ),
    Row::<RingKeyword>::ready("size", "<size>", "1m", "bytes of the ring", |context, words| {
        context.reader.size(words, context.diagnostics)
    })
    .default(Written("16384")),
    Row::<RingKeyword>::ready(
        "timeout connect",
        "<timeout>",
        "5s",
        "how long connecting to a server may take",
        |context, words| {
            let word = words.expect("'timeout connect' expects <time> as argument.")?;
            context.reader.ring.connect_timeout = Some(delay_of(words, word, "timeout connect")?);
            words.end("timeout connect")
        },
    )
    .default(Described("none")),
    Row::<RingKeyword>::ready(
        "timeout server",
        "<timeout>",
        "5s",
        "how long a server may take nothing",
        |context, words| {
            let word = words.expect("'timeout server' expects <time> as argument.")?;
            context.reader.ring.server_timeout = Some(delay_of(words, word, "timeout server")?);
            words.end("timeout server")
        },
    )
    .default(Described("none")),
]]);

/// The maximum of `maxlen`, as on a `log` line.
const LONGEST_MESSAGE: u32 = 65_535;
/// The limit of servers of a ring. Each uses one of a bounded number of readers, and operators need the rest.
const MOST_SERVERS: usize = 64;

impl RingSectionReader {
    /// Starts the section of a section line.
    pub(crate) fn begin(line: &Line, at: Location, known: &[Ring]) -> Parsed<Self> {
        let mut words = Words::new(line, 1);
        let name = words.expect("missing ring name.")?;
        words.end("ring")?;
        let taken = BUILT_IN.contains(&name.text()) || known.iter().any(|ring| *ring.name == *name.text());
        if taken {
            return Err(fault(name.span(), format!("sink named '{name}' already exists.")));
        }
        Ok(RingSectionReader { ring: Ring::new(name.text(), at), size_given: None })
    }

    /// Reads one line.
    pub(crate) fn line(
        &mut self,
        line: &Line,
        at: &Location,
        resources: Resources<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        let keyword = line.keyword();
        let Some((row, count)) = RING_KEYWORDS.find_phrase(line, 0) else {
            let message = format!("unknown statement '{keyword}'.");
            let nearest = nearest_phrase(&RING_KEYWORDS, keyword.text());
            diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
            return;
        };
        let Handler::Ready(read) = row.handler else { return };
        let mut context = RingContext { reader: self, resources, at, diagnostics };
        if let Err(fault) = read(&mut context, &mut Words::new(line, count)) {
            diagnostics.push(*fault);
        }
    }

    /// Ends the section.
    pub(crate) fn end(self, diagnostics: &mut Diagnostics, line: weir_syntax::Span) -> Ring {
        let mut ring = self.ring;
        if u64::from(ring.length_max) > ring.size {
            let message = format!(
                "ring '{}' event max length '{}' exceeds size, forced to size '{}'.",
                ring.name, ring.length_max, ring.size
            );
            diagnostics.push(Diagnostic::warning(line, message));
            ring.length_max = u32::try_from(ring.size).unwrap_or(LONGEST_MESSAGE);
        }
        ring
    }

    fn size(&mut self, words: &mut Words<'_>, diagnostics: &mut Diagnostics) -> Parsed {
        let word = words.expect("'size' expects a size as argument.")?;
        let size = size_of(word, "size")?;
        words.end("size")?;
        if size > Ring::SIZE_MAX {
            return Err(fault(word.span(), too_large(word)));
        }
        if size < self.ring.size {
            let (name, current) = (&self.ring.name, self.ring.size);
            let message = format!(
                "ignoring new size '{size}' that is smaller than current size '{current}' for ring \
                 '{name}'."
            );
            diagnostics.push(Diagnostic::warning(word.span(), message));
            return Ok(());
        }
        self.size_given = Some(size);
        self.ring.size = size;
        Ok(())
    }
}

impl RingContext<'_> {
    /// Reads a server. Accepts the words of any server line except those that need a stream (manual, "server" of rings). Words about load,
    /// queues and idle connections are ignored.
    fn server(&mut self, words: &mut Words<'_>) -> Parsed {
        let name = words.expect(SERVER_EXPECTS)?;
        let address = words.expect(SERVER_EXPECTS)?;
        let multipath = is_multipath(address.text());
        let address = server_address(address, "server")?;
        let ring = &mut self.reader.ring;
        if ring.servers.len() == MOST_SERVERS {
            return Err(words.fault(format!("a ring has at most {MOST_SERVERS} servers.")));
        }
        let subject = format!("server {}/{name}", ring.name);
        let (acls, notes) = (AclTable::new(), RefCell::new(Notes::default()));
        let mut line = ServerLine {
            kind: ServerLineKind::Ring,
            settings: ServerSettings::default(),
            id: 0,
            guid: None,
            used: Vec::new(),
            expressions: ExpressionParser {
                resources: self.resources,
                acls: &acls,
                at: self.at,
                notes: &notes,
            },
        };
        read_server_options(&mut line, words, Some(&subject)).map_err(|mut fault| {
            fault.layout = Layout::default();
            fault
        })?;
        let settings = ServerSettings { multipath: line.settings.multipath || multipath, ..line.settings };
        if let Some(what) = needs_a_stream(&settings) {
            return Err(fault(
                name.span(),
                format!("'{subject}' : {what} has no effect on a server of a ring"),
            ));
        }
        notes.into_inner().warnings.into_iter().for_each(|warning| self.diagnostics.push(warning));
        ring.servers.push(RingServer { name: name.text().into(), address, settings });
        Ok(())
    }
}

/// The first setting of a server line that needs a client or a request. None without one.
pub(crate) fn needs_a_stream(settings: &ServerSettings) -> Option<&'static str> {
    let header = settings.proxy_v2.as_deref();
    let transparent = settings.source.as_deref().and_then(|source| source.transparent.as_ref());
    match transparent {
        Some(
            TransparentSource::Client | TransparentSource::ClientAddress | TransparentSource::Header { .. },
        ) => {
            return Some("the address of a client ('usesrc')");
        }
        None | Some(TransparentSource::Address { .. }) => {}
    }
    let header = header.filter(|header| {
        let of_client = header.authority || header.tls != ProxyV2Tls::default();
        header.unique_id || of_client || !header.tlvs.is_empty()
    });
    header.map(|_| "request data in the PROXY header")
}

/// Log destinations that exist without a section.
const BUILT_IN: [&str; 3] = ["stdout", "stderr", BUILT_IN_RING];
/// The ring that exists without a section.
pub(crate) const BUILT_IN_RING: &str = "buf0";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::document::tests::{check, parse_text};
    use weir_model::{Framing, LogAddress, LogHeader};

    #[test]
    fn parses_a_ring_section_with_all_keywords() {
        let read = parse_text(
            "global\n log ring@r local0\nring r\n description \"My ring\"\n format rfc5424\n maxlen 1200\n size 32764\n \
             backing-file /dev/shm/r\n timeout connect 5s\n timeout server 10s\n server a 127.0.0.1:6514 log-proto \
             octet-count\n server b 127.0.0.1:514\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let ring = &read.config.rings[0];
        assert_eq!((&*ring.name, &*ring.description), ("r", "My ring"));
        assert_eq!((ring.header, ring.length_max, ring.size), (Some(LogHeader::Rfc5424), 1200, 32_764));
        assert_eq!(ring.file.as_deref(), Some("/dev/shm/r".as_ref()));
        assert_eq!(
            (ring.connect_timeout, ring.server_timeout),
            (Some(Duration::from_secs(5)), Some(Duration::from_secs(10)))
        );
        let framings: Vec<_> = ring.servers.iter().map(|server| server.settings.framing).collect();
        assert_eq!(framings, [Framing::OctetCount, Framing::Legacy]);
        assert_eq!(read.config.global.logs[0].address, LogAddress::Ring("r".into()));
        assert_eq!(read.config.global.logs[0].header, None);
    }

    /// The packaged HAProxy 2.6 reports the same messages for the same lines.
    #[test]
    fn ring_errors_have_haproxys_messages() {
        check("ring\n", &["parsing [test.cfg:1] : missing ring name."]);
        check("ring r\nring r\n", &["parsing [test.cfg:2] : sink named 'r' already exists."]);
        check("ring buf0\n", &["parsing [test.cfg:1] : sink named 'buf0' already exists."]);
        check(
            "ring r\n size 100\n format foo\n format\n maxlen 0\n maxlen abc\n description\n foo bar\n",
            &[
                "parsing [test.cfg:2] : ignoring new size '100' that is smaller than current size '16384' for ring 'r'.",
                "parsing [test.cfg:3] : unknown format 'foo'.",
                "parsing [test.cfg:4] : unknown format ''.",
                "parsing [test.cfg:5] : invalid size '0' for new sink buffer.",
                "parsing [test.cfg:6] : invalid size 'abc' for new sink buffer.",
                "parsing [test.cfg:7] : missing ring description text.",
                "parsing [test.cfg:8] : unknown statement 'foo'.",
            ],
        );
        check(
            "ring r\n server s\n server s 127.0.0.1:1 log-proto foo\n",
            &[
                "parsing [test.cfg:2] : 'server' expects <name> and <addr>[:<port>] as arguments.",
                "parsing [test.cfg:3] : 'server r/s' : 'log-proto' expects one of 'legacy' or 'octet-count' but got 'foo'.",
            ],
        );
    }

    /// R105: an offset in a ring has one bit less than an address. A larger size is refused before any allocation.
    #[test]
    fn r105_ring_sizes_have_an_upper_limit() {
        for size in ["9223372036854775807", "9223372036854775808", "65537g"] {
            let message = format!(
                "parsing [test.cfg:2] : invalid size '{size}' for new sink buffer: a ring has at most 70368744177664 bytes (65536g)."
            );
            check(&format!("ring r\n size {size}\n"), &[&message]);
        }
        check("ring r\n size 65536g\n", &[]);
    }

    #[test]
    fn ring_servers_accept_server_keywords() {
        let read = parse_text(
            "ring r\n server s 127.0.0.1:1 log-proto octet-count source 127.0.0.2:1000-2000 interface lo tcp-ut 5s send-proxy-v2 proxy-v2-options crc32c weight 5 maxconn 10 backup\n server t 127.0.0.1:1 disabled\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let settings: Vec<_> = read.config.rings[0].servers.iter().map(|server| &server.settings).collect();
        assert!(settings[0].source.is_some() && settings[0].send_proxy.is_some() && settings[1].disabled);
    }

    #[test]
    fn ring_servers_reject_keywords_that_need_a_stream() {
        check(
            "ring r\n server s 127.0.0.1:1 weigth 5\n server s 127.0.0.1:1 source 0.0.0.0 usesrc client\n server s 127.0.0.1:1 send-proxy-v2 proxy-v2-options unique-id\n server s 127.0.0.1:1 init-addr never\n server s 127.0.0.1:1 namespace blue\n",
            &[
                "parsing [test.cfg:2] : 'server r/s' : unknown keyword 'weigth'; did you mean 'weight' maybe ?",
                "parsing [test.cfg:3] : 'server r/s' : the address of a client ('usesrc') has no effect on a server of a ring",
                "parsing [test.cfg:4] : 'server r/s' : request data in the PROXY header has no effect on a server of a ring",
                "parsing [test.cfg:5] : 'server r/s' : 'init-addr' : unknown init-addr method 'never', supported methods are 'libc', 'last', 'none'.",
                "parsing [test.cfg:6] : 'server r/s' : 'namespace' is not implemented yet",
            ],
        );
    }

    /// On other servers, it is ignored with a warning.
    #[test]
    fn warns_about_log_proto_on_a_server_without_log_messages() {
        check(
            "backend b\n mode http\n timeout connect 1s\n timeout server 1s\n server s 127.0.0.1:1 log-proto octet-count\n",
            &["parsing [test.cfg:5] : 'log-proto' has no effect on a server that gets no log messages"],
        );
    }

    #[test]
    fn rejects_log_targets_with_unknown_rings() {
        check(
            "global\n log ring@a local0\nfrontend f\n bind :80\n mode http\n timeout client 1s\n log ring@b local0\n log ring@buf0 local0\nring a\n",
            &["parsing [test.cfg:7] : log : unknown ring 'b'"],
        );
        check("global\n log ring@a local0\n", &["parsing [test.cfg:2] : log : unknown ring 'a'"]);
        check(
            "global\n log ring@ local0\n",
            &["parsing [test.cfg:2] : log : a ring's name is expected after 'ring@'"],
        );
    }

    /// R98: the count of write queues.
    #[test]
    fn r98_tune_ring_queues_sets_the_queue_count() {
        assert_eq!(parse_text("global\n").config.global.tuning.ring_queues, None);
        assert_eq!(parse_text("global\n tune.ring.queues 7\n").config.global.tuning.ring_queues, Some(7));
        assert_eq!(parse_text("global\n tune.ring.queues 0\n tune.ring.queues 65\n").messages.len(), 2);
    }
}
