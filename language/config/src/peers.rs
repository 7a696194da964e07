//! `peers` sections: peers and their shared stick-tables (manual, 11.2).

use std::cell::RefCell;
use std::sync::Arc;

use weir_expr::AclTable;
use weir_syntax::{Diagnostic, Diagnostics, Layout, Line, Span, Word};

use crate::address::{is_multipath, listen_addresses, server_address};
use crate::bind::{read_bind_options, read_bind_with};
use crate::expressions::{ExpressionParser, Notes};
use crate::numbers::integer_in;
use crate::proxy::read_log_target_words;
use crate::resources::Resources;
use crate::ring::needs_a_stream;
use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::server::{
    ServerLine, ServerLineKind, check_server_name, is_about_connecting, read_server_options,
};
use crate::table::read_table;
use crate::words::{Parsed, Words, fault, is_name_character, not_yet};
use weir_model::{
    Bind, BindOptions, ListenAddress, Location, Peer, Peers, ServerAddress, ServerPort, ServerSettings,
    StickTable,
};

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct PeersReader {
    section: Peers,
    tables: Vec<StickTable>,
    /// `default-server`.
    default_server: ServerSettings,
    /// `default-bind`.
    default_bind: BindOptions,
    /// The lines of peers with a `shard`, and the positions of the peers.
    sharded: Vec<(Span, usize)>,
    span: Span,
}

/// Reads one line of the section.
pub(crate) type PeersKeyword = fn(&mut PeersReader, &mut PeersContext<'_>, &mut Words<'_>) -> Parsed;

/// The resources for reading a line.
pub(crate) struct PeersContext<'c> {
    at: Location,
    resources: Resources<'c>,
    diagnostics: &'c mut Diagnostics,
}

/// Every word of the section.
pub(crate) static PEERS_KEYWORDS: Table<PeersKeyword> = Table::new(&[&[
    Row::ready(
        "bind",
        "<addr> [param*]",
        "127.0.0.1:10000",
        "where peers connect to this instance",
        |reader, context, words| {
            let options = reader.default_bind.clone();
            let bind = read_bind_with(words, "bind", SECTION, context.at.clone(), options)?;
            reader.listen(words, bind)
        },
    ),
    Row::ready(
        "default-bind",
        "[param*]",
        "ssl crt site.pem",
        "how peers connect to this instance, on any line with its address",
        |reader, context, words| reader.default_bind(context, words),
    ),
    Row::ready(
        "default-server",
        "[param*]",
        "ssl verify none",
        "settings of the 'server' and 'peer' lines that follow",
        |reader, context, words| {
            let settings = reader.default_server.clone();
            reader.default_server = reader.settings(settings, context, words, "default-server")?;
            Ok(())
        },
    ),
    Row::ready("disabled", "", "", "nothing is shared", |reader, _, words| {
        reader.section.disabled = true;
        words.end("disabled")
    }),
    Row::ready("enabled", "", "", "takes 'disabled' back", |reader, _, words| {
        reader.section.disabled = false;
        words.end("enabled")
    }),
    Row::ready(
        "log",
        "{ global | <target> [len <length>] [format <format>] [sample <ranges>:<sample_size>] \
         <facility> [<level> [<minlevel>]] }",
        "127.0.0.1:514 local0",
        "where to log connections of peers, and the reasons of refusals",
        |reader, _, words| reader.log(words),
    ),
    Row::ready(
        "peer",
        "<name> <addr>:<port> [param*]",
        "lb1 127.0.0.1:10000",
        "an instance; of this one, where peers connect",
        |reader, context, words| reader.peer(context, words, "peer"),
    ),
    Row::ready(
        "server",
        "<name> [<addr>:<port>] [param*]",
        "lb1 127.0.0.1:10000",
        "an instance; of this one without an address where there is a 'bind'",
        |reader, context, words| reader.peer(context, words, "server"),
    ),
    Row::<PeersKeyword>::ready(
        "shards",
        "<number>",
        "2",
        "number of shards: a peer with a 'shard' receives the keys of that one",
        |reader, _, words| {
            let word = words.expect("'shards' expects an integer as argument.")?;
            reader.section.shards = integer_in(word, "shards", 1..=u32::MAX)?;
            words.end("shards")
        },
    )
    .default(Described("every peer gets all keys")),
    Row::ready(
        "table",
        "<name> type <type> size <size> [param*]",
        "t type ip size 1k store gpc0",
        "a stick-table that all peers have",
        |reader, context, words| reader.table(&context.at, words),
    ),
]]);

const SECTION: &str = "peers";
/// The limit of peers in one section.
const MOST_PEERS: usize = 64;
/// The limit of log targets in one section.
const MAX_LOG_TARGETS: usize = 256;

impl PeersReader {
    /// Starts the section of a section line. `local` is the name of this instance.
    pub(crate) fn begin(line: &Line, at: Location, local: &str, known: &[Peers]) -> Parsed<Self> {
        let mut words = Words::new(line, 1);
        let name = words.expect("missing name for peers section.")?;
        if let Some(stranger) = name.text().chars().find(|character| !is_name_character(*character)) {
            let message = format!("character '{stranger}' is not permitted in '{SECTION}' name '{name}'.");
            return Err(fault(name.span(), message));
        }
        words.end(SECTION)?;
        if let Some(twin) = known.iter().find(|other| *other.name == *name.text()) {
            let message = format!(
                "peers section '{name}' has the same name as another peers section declared at {}.",
                twin.at
            );
            return Err(fault(name.span(), message));
        }
        let section = Peers {
            name: name.text().into(),
            at,
            local: local.into(),
            disabled: false,
            shards: 0,
            peers: Vec::new(),
            bind: None,
            log_targets: weir_model::LogTargets::default(),
        };
        Ok(PeersReader {
            section,
            tables: Vec::new(),
            default_server: ServerSettings::default(),
            default_bind: BindOptions::default(),
            sharded: Vec::new(),
            span: line.span(),
        })
    }

    /// Reads one line.
    pub(crate) fn line(
        &mut self,
        line: &Line,
        at: Location,
        resources: Resources<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        let keyword = line.keyword();
        let Some((row, count)) = PEERS_KEYWORDS.find_phrase(line, 0) else {
            let message = format!("unknown keyword '{keyword}' in '{SECTION}' section");
            let nearest = nearest_phrase(&PEERS_KEYWORDS, keyword.text());
            diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
            return;
        };
        let read = match row.handler {
            Handler::Ready(read) => read,
            _ => return diagnostics.push(*not_yet(keyword.span(), row.name)),
        };
        let mut context = PeersContext { at, resources, diagnostics };
        if let Err(fault) = read(self, &mut context, &mut Words::new(line, count)) {
            diagnostics.push(*fault);
        }
    }

    /// Ends the section.
    pub(crate) fn end(self, diagnostics: &mut Diagnostics) -> (Peers, Vec<StickTable>) {
        let section = &self.section;
        let (name, local) = (&section.name, &section.local);
        if !section.disabled && !section.has_local() {
            let message = format!("Removing incomplete section 'peers {name}' (no peer named '{local}').");
            diagnostics.push(Diagnostic::warning(self.span, message).layout(Layout::Bare));
        } else if !section.disabled && section.bind.is_none() {
            let message = format!("peers section '{name}' has no address for '{local}'.");
            diagnostics.push(Diagnostic::alert(self.span, message));
        }
        for (span, position) in &self.sharded {
            let (peer, shards) = (&section.peers[*position], section.shards);
            let shard = peer.settings.shard;
            // In both cases, the peer gets all keys (manual, 5.2, "shard").
            let message = match peer.name == *local {
                true => format!("'peer {}' : 'shard' is ignored for the local peer.", peer.name),
                false if shard > shards => {
                    format!(
                        "'peer {}' : shard {shard} is more than the section has ({shards}), and ignored.",
                        peer.name
                    )
                }
                false => continue,
            };
            diagnostics.push(Diagnostic::warning(*span, message));
        }
        (self.section, self.tables)
    }

    fn listen(&mut self, words: &Words<'_>, bind: Bind) -> Parsed {
        if self.section.bind.is_some() {
            return Err(
                words.fault("there is another address where peers connect in this section.".to_owned())
            );
        }
        let is_one = match &bind.addresses[..] {
            [ListenAddress::Inet { first_port, last_port, .. }] => first_port == last_port,
            addresses => addresses.len() == 1,
        };
        if !is_one {
            let message = format!("peers connect to one address and one port, not to '{}'.", bind.spelling);
            return Err(words.fault(message));
        }
        self.section.bind = Some(bind);
        Ok(())
    }

    /// Reads `default-bind`, which applies to the section's `bind` line, whichever comes first.
    fn default_bind(&mut self, context: &PeersContext<'_>, words: &mut Words<'_>) -> Parsed {
        let mut said = Bind {
            at: context.at.clone(),
            spelling: "default-bind".into(),
            addresses: Vec::new(),
            name: None,
            id: None,
            options: self.default_bind.clone(),
        };
        let target = self.section.bind.as_mut().unwrap_or(&mut said);
        read_bind_options(target, words, "default-bind", SECTION)?;
        self.default_bind = target.options.clone();
        Ok(())
    }

    fn log(&mut self, words: &mut Words<'_>) -> Parsed {
        if words.take_if("global") {
            self.section.log_targets.add_global();
            return words.end("log global");
        }
        let target = read_log_target_words(words)?;
        if self.section.log_targets.len() == MAX_LOG_TARGETS {
            return Err(fault(words.line().span(), format!("log : more than {MAX_LOG_TARGETS} targets")));
        }
        self.section.log_targets.push(target);
        Ok(())
    }

    /// Reads the connection settings of a peer's line, on top of the defaults.
    fn settings(
        &self,
        settings: ServerSettings,
        context: &mut PeersContext<'_>,
        words: &mut Words<'_>,
        subject: &str,
    ) -> Parsed<ServerSettings> {
        let (acls, notes) = (AclTable::new(), RefCell::new(Notes::default()));
        let expressions =
            ExpressionParser { resources: context.resources, acls: &acls, at: &context.at, notes: &notes };
        let (id, guid, used) = (0, None, Vec::new());
        let mut line = ServerLine { kind: ServerLineKind::Peer, settings, id, guid, used, expressions };
        read_server_options(&mut line, words, Some(subject)).map_err(|mut fault| {
            fault.layout = Layout::default();
            fault
        })?;
        let ServerLine { settings, used, .. } = line;
        for (word, span) in used {
            if word != "shard" && !is_about_connecting(word) {
                let message = format!("'{subject}' : '{word}' has no effect on a peer.");
                context.diagnostics.warning(span, message);
            }
        }
        if let Some(what) = needs_a_stream(&settings) {
            return Err(words.fault(format!("'{subject}' : {what} does not apply to a peer")));
        }
        notes.into_inner().warnings.into_iter().for_each(|warning| context.diagnostics.push(warning));
        Ok(settings)
    }

    fn peer(&mut self, context: &mut PeersContext<'_>, words: &mut Words<'_>, keyword: &str) -> Parsed {
        let name = words.expect(&format!("'{keyword}' expects <name> and <addr>[:<port>] as arguments."))?;
        check_server_name(name)?;
        if self.section.peers.iter().any(|peer| *peer.name == *name.text()) {
            return Err(fault(name.span(), format!("there is a peer '{name}' already in this section.")));
        }
        if self.section.peers.len() == MOST_PEERS {
            return Err(fault(name.span(), format!("more than {MOST_PEERS} peers in one section.")));
        }
        let is_local = *name.text() == *self.section.local;
        // A 'bind' line has the address of the local peer (manual, 11.2, "server").
        let has_address = !is_local || keyword == "peer";
        let address = match has_address.then(|| words.take()).flatten() {
            Some(word) => Some((word, peer_address(word, name)?)),
            None if !has_address => None,
            None => {
                return Err(
                    words.fault(format!("'{keyword}' expects <name> and <addr>[:<port>] as arguments."))
                );
            }
        };
        let (at, subject) = (context.at.clone(), format!("{keyword} {name}"));
        let mut settings = self.settings(self.default_server.clone(), context, words, &subject)?;
        settings.multipath |= address.as_ref().is_some_and(|(word, _)| is_multipath(word.text()));
        let settings = Arc::new(settings);
        if let (true, Some((word, _))) = (is_local, &address) {
            let bind = Bind {
                at: at.clone(),
                spelling: word.text().into(),
                addresses: listen_addresses(word, keyword)?,
                name: None,
                id: None,
                options: self.default_bind.clone(),
            };
            self.listen(words, bind)?;
        }
        let address = address.map(|(_, address)| address);
        if settings.shard > 0 {
            self.sharded.push((words.line().span(), self.section.peers.len()));
        }
        self.section.peers.push(Peer { name: name.text().into(), at, address, settings });
        Ok(())
    }

    fn table(&mut self, at: &Location, words: &mut Words<'_>) -> Parsed {
        let name = words.expect("'table' expects <name> and parameters as arguments.")?;
        // Other sections refer to the table as `<section>/<name>` (manual, 11.2, "table").
        let whole = format!("{}/{name}", self.section.name);
        if self.tables.iter().any(|table| *table.declaration.name == *whole) {
            return Err(fault(name.span(), format!("there is a table '{name}' already in this section.")));
        }
        let mut table = read_table(words, &whole, at, "table", false)?;
        table.peers = Some((*self.section.name).into());
        self.tables.push(table);
        Ok(())
    }
}

/// The address of a peer, which needs a port or a path.
fn peer_address(word: &Word, name: &Word) -> Parsed<ServerAddress> {
    let subject = format!("peer {name}");
    let address = server_address(word, &subject)?;
    match address {
        ServerAddress::Inet { port: ServerPort::Fixed(0), .. } => {
            Err(fault(word.span(), format!("'{subject}' : invalid port '0'")))
        }
        ServerAddress::Inet { port: ServerPort::Fixed(_), .. }
        | ServerAddress::Unix(_)
        | ServerAddress::Abstract { .. } => Ok(address),
        ServerAddress::Inet { .. } => {
            Err(fault(word.span(), format!("'{subject}' : missing port specification in '{word}'")))
        }
        ServerAddress::SocketPair(_) => {
            Err(fault(word.span(), format!("'{subject}' : a peer has an address of its own, not '{word}'")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::{check, parse_text};

    #[test]
    fn parses_a_peers_section_with_all_keywords() {
        let read = parse_text(
            "global\n localpeer A\npeers p\n peer A 127.0.0.1:1024\n peer B 127.0.0.1:1025\n server C /run/c\n table t type ip size 10 \
             store gpc0\n disabled\n enabled\nbackend b\n stick-table type string size 10 peers p\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.peers[0];
        assert_eq!((&*section.name, &*section.local, section.disabled), ("p", "A", false));
        assert_eq!(section.remotes().map(|peer| &*peer.name).collect::<Vec<_>>(), ["B", "C"]);
        assert_eq!(section.bind.as_ref().map(|bind| &*bind.spelling), Some("127.0.0.1:1024"));
        let tables: Vec<_> = read
            .config
            .tables
            .iter()
            .map(|table| (&*table.declaration.name, table.peers.as_deref()))
            .collect();
        assert_eq!(tables, [("b", Some("p")), ("p/t", Some("p"))]);
    }

    #[test]
    fn stick_tables_of_peers_may_aggregate_counts() {
        let read = parse_text(
            "global\n localpeer A\npeers p\n peer A 127.0.0.1:1\n table t type ip size 1 aggregate store conn_rate(1s)\n\
             backend b\n stick-table type ip size 1 store gpc0 aggregate peers p\n",
        );
        assert_eq!(read.messages, [""; 0]);
        assert!(read.config.tables.iter().all(|table| table.aggregate));
    }

    #[test]
    fn the_local_peer_may_get_its_address_from_a_bind_line() {
        let read = parse_text(
            "global\n localpeer A\npeers p\n bind 127.0.0.1:1024\n server A\n server B 127.0.0.1:1025\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.peers[0];
        assert_eq!(section.bind.as_ref().map(|bind| &*bind.spelling), Some("127.0.0.1:1024"));
        assert_eq!(section.peers[0].address, None);
    }

    #[test]
    fn peers_sections_apply_default_bind_and_default_server() {
        let read = parse_text(
            "global\n localpeer A\npeers p\n default-bind ssl crt x.pem\n default-server ssl verify none source 127.0.0.3\n shards 2\n \
             bind 127.0.0.1:1024\n server A\n server B 127.0.0.1:1025 shard 2\n server C 127.0.0.1:1026 no-ssl\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.peers[0];
        let bind = section.bind.as_ref().expect("an address");
        assert!(bind.options.tls.as_ref().is_some_and(|tls| tls.enabled && tls.certificates.len() == 1));
        let of = |peer: &Peer| {
            let settings = &peer.settings;
            (settings.tls.as_ref().is_some_and(|tls| tls.enabled), settings.source.is_some(), settings.shard)
        };
        assert_eq!(section.shards, 2);
        let peers: Vec<_> = section.peers.iter().map(of).collect();
        assert_eq!(peers, [(true, true, 0), (true, true, 2), (false, true, 0)]);
    }

    #[test]
    fn a_peers_listener_may_have_log_targets_and_accept_proxy() {
        let read = parse_text(
            "global\n localpeer A\n log 127.0.0.1:514 local0\npeers p\n log global\n log 127.0.0.1:514 len 500 local3 err\n default-bind accept-proxy\n \
             bind 127.0.0.1:1024\n server A\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.peers[0];
        assert!(section.bind.as_ref().is_some_and(|bind| bind.options.accept_proxy));
        let lengths: Vec<_> = section.log_targets.iter().map(|target| target.length_max).collect();
        assert_eq!(lengths, [1024, 500]);
    }

    #[test]
    fn default_bind_may_follow_the_lines_of_a_peers_section() {
        for lines in [" peer A 127.0.0.1:1\n", " bind 127.0.0.1:1\n server A\n"] {
            let text = format!("global\n localpeer A\npeers p\n{lines} default-bind ssl crt x.pem\n");
            let read = parse_text(&text);
            assert_eq!(read.messages, [""; 0]);
            let bind = read.config.peers[0].bind.as_ref().expect("an address");
            assert!(bind.options.tls.as_ref().is_some_and(|tls| tls.enabled), "{lines}");
        }
    }

    #[track_caller]
    fn check_lines(lines: &str, expected: &str) {
        let messages = parse_text(&format!("global\n localpeer A\npeers p\n{lines}")).messages;
        assert!(
            messages.iter().any(|message| message.contains(expected)),
            "{expected:?} is not in {messages:?}"
        );
    }

    #[test]
    fn reports_errors_in_a_peers_section() {
        check_lines(" peer B 127.0.0.1:1\n", "Removing incomplete section 'peers p' (no peer named 'A').");
        check_lines(" server A\n", "has no address for 'A'");
        check_lines(" server A 127.0.0.1:1\n", "unknown keyword '127.0.0.1:1'");
        check_lines(" bind 127.0.0.1:1-2\n server A\n", "one address and one port, not to '127.0.0.1:1-2'");
        check_lines(" bind 127.0.0.1:1,127.0.0.1:2\n server A\n", "one address and one port");
        check_lines(" peer A 127.0.0.1:1 shard 1\n", "'peer A' : 'shard' is ignored for the local peer");
        check_lines(
            " peer A 127.0.0.1:1\n peer B 127.0.0.1:2 shard 3\n shards 2\n",
            "'peer B' : shard 3 is more than the section has (2), and ignored",
        );
        check_lines(" peer A 127.0.0.1:1\n bind 127.0.0.1:2\n", "another address where peers connect");
        check_lines(" peer A 127.0.0.1:1\n peer A 127.0.0.1:2\n", "there is a peer 'A' already");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1\n", "missing port specification");
        check_lines(" peer A 127.0.0.1:1\n peer B\n", "'peer' expects");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1:2 nonsense\n", "unknown keyword 'nonsense'");
        check_lines(" peer A 127.0.0.1:1\n shards 0\n", "shards");
        check_lines(" peer A 127.0.0.1:1\n log global local0\n", "log");
        check_lines(" peer A 127.0.0.1:1\n log 127.0.0.1:514\n", "log : expects");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1:2 check\n", "'check' has no effect on a peer");
        check_lines(" default-server init-addr none\n", "'init-addr' has no effect on a peer");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1:0\n", "invalid port '0'");
        check_lines(" default-server weight 3\n peer A 127.0.0.1:1\n", "'weight' has no effect on a peer");
        check_lines(" default-server source 0.0.0.0 usesrc clientip\n", "the address of a client");
        check_lines(" peer A 127.0.0.1:1\n tabel t\n", "unknown keyword 'tabel'");
        check_lines(
            " peer A 127.0.0.1:1\n table t type ip size 1\n table t type ip size 1\n",
            "table 't' already",
        );
        check("peers\n", &["parsing [test.cfg:1] : missing name for peers section."]);
    }
}
