//! Servers that are added while their backend runs: the words of a `server` line that come from the runtime API.
//!
//! Such a server has nothing from `default-server`, and of the words only those that make sense for it (management manual,
//! "add server").

use std::cell::RefCell;

use weir_expr::AclTable;
use weir_syntax::{Line, SourceMap, Span, Word};

use crate::address::server_address;
use crate::expressions::{Expressions, Notes};
use crate::model::{Location, Server, ServerSettings};
use crate::proxy::Resources;
use crate::proxy::balancing::{SERVER_EXPECTS, check_server_name};
use crate::rows::Handler;
use crate::server::{SERVER_OPTIONS, ServerLine, ServerLineKind, read_server_options};
use crate::words::{Parsed, Words, fault};

/// Reads the words that follow `add server <backend>/<name>`. Its `id` is 0 unless they say one.
///
/// # Errors
/// A text for the operator, without newline.
pub fn added_server(resources: Resources<'_>, name: &str, words: &[String]) -> Result<Server, String> {
    let file = SourceMap::new().add(PLACE, Vec::new());
    let span = Span::new(file, 0, 0, 0);
    let written = ["server", name].into_iter().chain(words.iter().map(String::as_str));
    let line = Line::new(written.map(|word| Word::synthetic(word, span)).collect(), span)
        .ok_or_else(|| SERVER_EXPECTS.to_owned())?;
    read(resources, &line).map_err(|fault| {
        let text = &fault.message;
        match &fault.suggestion {
            Some(suggestion) => format!("{text}; did you mean '{suggestion}' maybe ?"),
            None => text.clone(),
        }
    })
}

/// Where messages and `last_rule_file` say that such a server was written.
const PLACE: &str = "CLI";

fn read(resources: Resources<'_>, line: &Line) -> Parsed<Server> {
    let mut words = Words::new(line, 1);
    let name = words.expect(SERVER_EXPECTS)?;
    check_server_name(name)?;
    let address = words.expect(SERVER_EXPECTS)?;
    let subject = format!("server {name}");
    let address = server_address(address, &subject).map_err(|mut fault| {
        // The operator knows which server it is about.
        if let Some(rest) = fault.message.strip_prefix(&format!("'{subject}' : ")) {
            fault.message = rest.to_owned();
        }
        fault
    })?;
    let at = Location::new(PLACE.into(), 0);
    let (acls, notes) = (AclTable::new(), RefCell::new(Notes::default()));
    let mut server = ServerLine {
        kind: ServerLineKind::Added,
        settings: ServerSettings::default(),
        id: 0,
        guid: None,
        used: Vec::new(),
        expressions: Expressions { resources, acls: &acls, at: &at, notes: &notes },
    };
    read_server_options(&mut server, &mut words, None)?;
    let ServerLine { settings, id, guid, .. } = server;
    Ok(Server {
        name: name.text().into(),
        at,
        address,
        datagrams: false,
        id,
        id_is_forced: id != 0,
        guid,
        from_template: false,
        is_referenced: false,
        settings,
    })
}

/// Complains about a word that a server that is added cannot have.
pub(crate) fn check_word(word: &Word, name: &str) -> Parsed {
    if WORDS.binary_search(&name).is_ok() {
        return Ok(());
    }
    Err(fault(word.span(), format!("'{name}' option is not accepted for dynamic server")))
}

/// The words that `add server` takes, those that are there.
pub fn added_server_words() -> impl Iterator<Item = &'static str> {
    WORDS
        .iter()
        .copied()
        .filter(|word| SERVER_OPTIONS.find(word).is_some_and(|row| matches!(row.handler, Handler::Ready(_))))
}

/// What the language accepts here, in order.
const WORDS: &[&str] = &[
    "addr",
    "agent-addr",
    "agent-check",
    "agent-inter",
    "agent-port",
    "agent-send",
    "allow-0rtt",
    "alpn",
    "backup",
    "ca-file",
    "check",
    "check-alpn",
    "check-pool-conn-name",
    "check-proto",
    "check-reuse-pool",
    "check-send-proxy",
    "check-sni",
    "check-ssl",
    "check-via-socks4",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "cookie",
    "crl-file",
    "crt",
    "curves",
    "disabled",
    "downinter",
    "error-limit",
    "fall",
    "fastinter",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "guid",
    "hash-key",
    "healthcheck",
    "id",
    "idle-ping",
    "init-state",
    "inter",
    "ktls",
    "maxconn",
    "maxqueue",
    "minconn",
    "no-backup",
    "no-check-sni-auto",
    "no-renegotiate",
    "no-send-proxy",
    "no-send-proxy-v2",
    "no-sni-auto",
    "no-ssl-reuse",
    "no-sslv3",
    "no-tfo",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "npn",
    "observe",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "port",
    "proto",
    "proxy-v2-options",
    "renegotiate",
    "rise",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "set-proxy-v2-tlv-fmt",
    "shard",
    "sigalgs",
    "slowstart",
    "sni",
    "source",
    "ssl",
    "ssl-max-ver",
    "ssl-min-ver",
    "strict-maxconn",
    "tfo",
    "tls-tickets",
    "track",
    "usesrc",
    "verify",
    "verifyhost",
    "weight",
    "ws",
];

#[cfg(test)]
mod tests {
    use weir_expr::{Loader, PatternStore, Registry, VariableNames};

    use super::*;

    struct NoFiles;

    impl Loader for NoFiles {
        fn load(&self, _: &str) -> std::io::Result<Vec<u8>> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    fn added(name: &str, words: &str) -> Result<Server, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let resources = Resources {
            registry: &Registry::new([]),
            patterns: &PatternStore::new(),
            variables: &VariableNames::new(),
            loader: &NoFiles,
        };
        added_server(resources, name, &words)
    }

    #[test]
    fn words_are_in_order_and_known() {
        assert!(WORDS.is_sorted());
        for word in WORDS {
            assert!(SERVER_OPTIONS.find(word).is_some(), "{word}");
        }
        assert!(added_server_words().any(|word| word == "weight"));
        assert!(!added_server_words().any(|word| word == "check"));
    }

    #[test]
    fn a_server_is_what_its_words_say() {
        let server = added("s1", "127.0.0.1:80 weight 3 backup id 7 pool-conn-name str(a)").unwrap();
        let settings = &server.settings;
        assert_eq!((&*server.name, server.id, settings.weight, settings.backup), ("s1", 7, 3, true));
        assert!(settings.pool_connection_name.is_some());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |name: &str, words: &str, expected: &str| {
            assert_eq!(added(name, words).unwrap_err(), expected, "{words}");
        };
        check("a", "", "'server' expects <name> and <addr>[:<port>] as arguments.");
        check("a*", "1.1.1.1", "character '*' is not permitted in server name 'a*'.");
        check("a", "1.1.1.1 wieght", "unknown keyword 'wieght'; did you mean 'weight' maybe ?");
        check("a", "1.1.1.1 redir http://x", "'redir' option is not accepted for dynamic server");
        check("a", "1.1.1.1 check", "'check' is not implemented yet");
        check("a", "1.1.1.1 id 0", "'id' : custom id has to be > 0.");
        check("a", "1.1.1.1 weight 300", "weight of server is not within 0 and 256 (300).");
    }
}
