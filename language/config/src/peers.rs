//! `peers` sections: who shares stick-tables, and which (manual, 11.2).

use weir_syntax::{Diagnostic, Diagnostics, Line, Span, Word};

use crate::address::{listen_addresses, server_address};
use crate::bind::read_bind;
use crate::model::{Bind, BindOptions, Location, Peer, Peers, ServerAddress, ServerPort, StickTable};
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::server::{SERVER_OPTIONS, check_server_name};
use crate::table::read_table;
use crate::words::{Parsed, Words, fault, is_name_character, not_yet};

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct PeersReader {
    section: Peers,
    tables: Vec<StickTable>,
    span: Span,
}

/// Reads one line of the section.
pub(crate) type PeersKeyword = fn(&mut PeersReader, Location, &mut Words<'_>) -> Parsed;

/// Every word of the section.
pub(crate) static PEERS_KEYWORDS: Table<PeersKeyword> = Table::new(&[&[
    Row::ready(
        "bind",
        "<addr> [param*]",
        "127.0.0.1:10000",
        "where peers connect to this instance",
        |reader, at, words| {
            let bind = read_bind(words, "bind", SECTION, at)?;
            reader.listen(words, bind)
        },
    ),
    Row::not_yet("default-bind", "[param*]", "what bind lines of the section have in common"),
    Row::not_yet("default-server", "[param*]", "what peers of the section have in common"),
    Row::ready("disabled", "", "", "nothing is shared", |reader, _, words| {
        reader.section.disabled = true;
        words.end("disabled")
    }),
    Row::ready("enabled", "", "", "takes 'disabled' back", |reader, _, words| {
        reader.section.disabled = false;
        words.end("enabled")
    }),
    Row::not_yet("log", "<target> <facility>", "where the listener's events are logged"),
    Row::ready(
        "peer",
        "<name> <addr>:<port>",
        "lb1 127.0.0.1:10000",
        "an instance; of this one, where peers connect",
        |reader, at, words| reader.peer(at, words, "peer"),
    ),
    Row::ready(
        "server",
        "<name> [<addr>:<port>]",
        "lb1 127.0.0.1:10000",
        "an instance; of this one without an address where there is a 'bind'",
        |reader, at, words| reader.peer(at, words, "server"),
    ),
    Row::not_yet("shards", "<number>", "how many parts the peers share the keys in"),
    Row::ready(
        "table",
        "<name> type <type> size <size> [param*]",
        "t type ip size 1k store gpc0",
        "a stick-table that all peers have",
        |reader, at, words| reader.table(&at, words),
    ),
]]);

const SECTION: &str = "peers";
/// So many peers in one section at most.
const MOST_PEERS: usize = 64;

impl PeersReader {
    /// Begins the section of a line. `local` is this instance's name.
    pub fn begin(line: &Line, at: Location, local: &str, known: &[Peers]) -> Parsed<Self> {
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
            peers: Vec::new(),
            bind: None,
        };
        Ok(PeersReader { section, tables: Vec::new(), span: line.span() })
    }

    /// Reads one line.
    pub fn line(&mut self, line: &Line, at: Location, diagnostics: &mut Diagnostics) {
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
        if let Err(fault) = read(self, at, &mut Words::new(line, count)) {
            diagnostics.push(*fault);
        }
    }

    /// The section is over.
    pub fn end(self, diagnostics: &mut Diagnostics) -> (Peers, Vec<StickTable>) {
        let section = &self.section;
        let (name, local) = (&section.name, &section.local);
        if !section.disabled && !section.has_local() {
            let message = format!(
                "peers section '{name}' has no line for the local peer '{local}': nothing is shared."
            );
            diagnostics.push(Diagnostic::warning(self.span, message));
        } else if !section.disabled && section.bind.is_none() {
            let message = format!("peers section '{name}' says nowhere where peers connect to '{local}'.");
            diagnostics.push(Diagnostic::alert(self.span, message));
        }
        (self.section, self.tables)
    }

    fn listen(&mut self, words: &Words<'_>, bind: Bind) -> Parsed {
        if self.section.bind.is_some() {
            return Err(
                words.fault("there is another address where peers connect in this section.".to_owned())
            );
        }
        if bind.options.tls.as_ref().is_some_and(|tls| tls.enabled) {
            return Err(not_yet(words.here(), "ssl"));
        }
        self.section.bind = Some(bind);
        Ok(())
    }

    fn peer(&mut self, at: Location, words: &mut Words<'_>, keyword: &str) -> Parsed {
        let name = words.expect(&format!("'{keyword}' expects <name> and <addr>[:<port>] as arguments."))?;
        check_server_name(name)?;
        if self.section.peers.iter().any(|peer| *peer.name == *name.text()) {
            return Err(fault(name.span(), format!("there is a peer '{name}' already in this section.")));
        }
        if self.section.peers.len() == MOST_PEERS {
            return Err(fault(name.span(), format!("more than {MOST_PEERS} peers in one section.")));
        }
        let is_local = *name.text() == *self.section.local;
        let address = match words.take() {
            Some(word) => Some((word, peer_address(word, name)?)),
            None if is_local && keyword == "server" => None,
            None => {
                return Err(
                    words.fault(format!("'{keyword}' expects <name> and <addr>[:<port>] as arguments."))
                );
            }
        };
        if let Some(word) = words.take() {
            let is_known = SERVER_OPTIONS.find(word.text()).is_some();
            return Err(match is_known {
                true => not_yet(word.span(), word.text()),
                false => fault(word.span(), format!("'{keyword} {name}' : unknown keyword '{word}'")),
            });
        }
        if let (true, Some((word, _))) = (is_local, &address) {
            let bind = Bind {
                at: at.clone(),
                spelling: word.text().into(),
                addresses: listen_addresses(word, keyword)?,
                name: None,
                id: None,
                options: BindOptions::default(),
            };
            self.listen(words, bind)?;
        }
        let address = address.map(|(_, address)| address);
        self.section.peers.push(Peer { name: name.text().into(), at, address });
        Ok(())
    }

    fn table(&mut self, at: &Location, words: &mut Words<'_>) -> Parsed {
        let name = words.expect("'table' expects <name> and parameters as arguments.")?;
        // Others name it with the section's name before it (manual, 11.2, "table").
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

/// Where a peer is: an address with a port of its own, or a path.
fn peer_address(word: &Word, name: &Word) -> Parsed<ServerAddress> {
    let subject = format!("peer {name}");
    let address = server_address(word, &subject)?;
    match address {
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
    use crate::document::tests::{check, parse_text};

    #[test]
    fn a_section_with_everything() {
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
    fn the_local_peer_may_have_a_bind_line() {
        let read = parse_text(
            "global\n localpeer A\npeers p\n bind 127.0.0.1:1024\n server A\n server B 127.0.0.1:1025\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.peers[0];
        assert_eq!(section.bind.as_ref().map(|bind| &*bind.spelling), Some("127.0.0.1:1024"));
        assert_eq!(section.peers[0].address, None);
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
    fn what_is_wrong_is_told() {
        check_lines(" peer B 127.0.0.1:1\n", "has no line for the local peer 'A'");
        check_lines(" server A\n", "says nowhere where peers connect to 'A'");
        check_lines(" peer A 127.0.0.1:1\n bind 127.0.0.1:2\n", "another address where peers connect");
        check_lines(" peer A 127.0.0.1:1\n peer A 127.0.0.1:2\n", "there is a peer 'A' already");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1\n", "missing port specification");
        check_lines(" peer A 127.0.0.1:1\n peer B\n", "'peer' expects");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1:2 ssl\n", "not implemented");
        check_lines(" peer A 127.0.0.1:1\n peer B 127.0.0.1:2 nonsense\n", "unknown keyword 'nonsense'");
        check_lines(" bind 127.0.0.1:1 ssl crt x\n server A\n", "ssl");
        check_lines(" peer A 127.0.0.1:1\n shards 3\n", "not implemented");
        check_lines(" peer A 127.0.0.1:1\n tabel t\n", "unknown keyword 'tabel'");
        check_lines(
            " peer A 127.0.0.1:1\n table t type ip size 1\n table t type ip size 1\n",
            "table 't' already",
        );
        check("peers\n", &["parsing [test.cfg:1] : missing name for peers section."]);
    }
}
