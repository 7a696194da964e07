//! Servers added at run time: the words of a `server` line from the runtime API.
//!
//! Such a server inherits nothing from `default-server`, and accepts only suitable words (management manual, "add server").

use std::cell::RefCell;

use weir_expr::AclTable;
use weir_syntax::{Line, SourceMap, Span, Word};

use crate::address::{is_multipath, server_address};
use crate::expressions::{ExpressionParser, Notes};
use crate::resources::Resources;
use crate::server::{SERVER_EXPECTS, ServerLine, ServerLineKind, check_server_name, read_server_options};
use crate::words::{Fault, Parsed, Words};
use weir_model::{Location, Server, ServerSettings};

/// Reads the words after `add server <backend>/<name>`. The server's `id` is 0 unless the words set it.
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

/// The file name of the server in messages and in `last_rule_file`.
const PLACE: &str = "CLI";

fn read(resources: Resources<'_>, line: &Line) -> Parsed<Server> {
    let mut words = Words::new(line, 1);
    let name = words.expect(SERVER_EXPECTS)?;
    check_server_name(name)?;
    let address = words.expect(SERVER_EXPECTS)?;
    let subject = format!("server {name}");
    // The message does not repeat the server's name: the operator knows it from the command.
    let without_subject = |mut fault: Fault| {
        if let Some(rest) = fault.message.strip_prefix(&format!("'{subject}' : ")) {
            fault.message = rest.to_owned();
        }
        fault
    };
    let multipath = is_multipath(address.text());
    let address = server_address(address, &subject).map_err(without_subject)?;
    let at = Location::new(PLACE.into(), 0);
    let (acls, notes) = (AclTable::new(), RefCell::new(Notes::default()));
    let mut server = ServerLine {
        kind: ServerLineKind::Added,
        settings: ServerSettings::default(),
        id: 0,
        guid: None,
        used: Vec::new(),
        expressions: ExpressionParser { resources, acls: &acls, at: &at, notes: &notes },
    };
    read_server_options(&mut server, &mut words, None)?;
    let ServerLine { mut settings, id, guid, .. } = server;
    settings.multipath |= multipath;
    crate::server::checks::settle(&settings, &subject, name.span()).map_err(without_subject)?;
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
        leader: None,
        settings,
    })
}

#[cfg(test)]
mod tests {
    use crate::server::added_server_words;
    use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
    use weir_syntax::NoFiles;

    use super::*;

    fn added(name: &str, words: &str) -> Result<Server, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let resources = Resources {
            registry: &Registry::new([]),
            patterns: &PatternStore::new(),
            token_keys: &TokenKeys::new(),
            variables: &VariableNames::new(),
            scripts: &crate::scripts::NoScripts,
            loader: &NoFiles,
        };
        added_server(resources, name, &words)
    }

    #[test]
    fn lists_the_server_keywords_allowed_by_add_server() {
        assert!(added_server_words().is_sorted());
        assert!(added_server_words().any(|word| word == "weight"));
        assert!(!added_server_words().any(|word| word == "init-addr"));
        assert!(added_server_words().any(|word| word == "check-ssl"));
    }

    #[test]
    fn applies_the_keywords_of_an_added_server() {
        let server = added("s1", "127.0.0.1:80 weight 3 backup id 7 pool-conn-name str(a)").unwrap();
        let settings = &server.settings;
        assert_eq!((&*server.name, server.id, settings.weight, settings.backup), ("s1", 7, 3, true));
        assert!(settings.pool_connection_name.is_some());
    }

    #[test]
    fn reports_invalid_keywords_of_an_added_server() {
        let check = |name: &str, words: &str, expected: &str| {
            assert_eq!(added(name, words).unwrap_err(), expected, "{words}");
        };
        check("a", "", "'server' expects <name> and <addr>[:<port>] as arguments.");
        check("a*", "1.1.1.1", "character '*' is not permitted in server name 'a*'.");
        check("a", "1.1.1.1 wieght", "unknown keyword 'wieght'; did you mean 'weight' maybe ?");
        check("a", "1.1.1.1 redir http://x", "'redir' option is not accepted for dynamic server");
        check("a", "1.1.1.1 check rise 0", "'rise' has to be > 0.");
        check("a", "1.1.1.1 id 0", "'id' : custom id has to be > 0.");
        check("a", "1.1.1.1 weight 300", "weight of server is not within 0 and 256 (300).");
    }
}
