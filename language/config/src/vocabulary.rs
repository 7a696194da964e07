//! Every word of the configuration, derived from the rows: for `-dKcfg`, the README and tests.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::bind::BIND_OPTIONS;
use crate::crt_store::{CRT_STORE_KEYWORDS, LOAD_KEYWORDS};
use crate::draft::stream_keywords::StreamKeywords;
use crate::draft::{BACKEND, BACKENDS, DEFAULTS, FRONTEND, FRONTENDS, LISTEN, Sections};
use crate::global::GLOBAL_KEYWORDS;
use crate::http_errors::HTTP_ERRORS_KEYWORDS;
use crate::log_forward::LOG_FORWARD_KEYWORDS;
use crate::mailers::MAILERS_KEYWORDS;
use crate::peers::PEERS_KEYWORDS;
use crate::proxy::application::section::FCGI_APP_KEYWORDS;
use crate::proxy::health_section::HEALTHCHECK_KEYWORDS;
use crate::proxy::spoe::{SPOE_AGENT_KEYWORDS, SPOE_GROUP_KEYWORDS, SPOE_MESSAGE_KEYWORDS};
use crate::proxy::{OPTIONS, PROXY_KEYWORDS};
use crate::resolvers::RESOLVERS_KEYWORDS;
use crate::ring::RING_KEYWORDS;
use crate::rows::{Handler, Row, Table};
use crate::sections::{SECTIONS, engine_section};
use crate::server::SERVER_OPTIONS;
use crate::traces::TRACES_KEYWORDS;
use crate::userlist::USERLIST_KEYWORDS;
use weir_model::RulesetKind;

pub use weir_model::ValueHelp;

pub use crate::rows::DefaultValue;

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigWord {
    pub place: WordPlace,
    /// The word, or several words.
    pub name: &'static str,
    /// The arguments in the notation of the manual.
    pub arguments: &'static str,
    /// Example arguments, different from the default.
    pub example: &'static str,
    /// The help text, one line.
    pub help: &'static str,
    /// The default without the word, if there is one.
    pub default: Option<DefaultValue>,
    /// The values to choose from, with their meaning.
    pub values: &'static [ValueHelp],
    /// Whether the word is implemented, not yet implemented, or removed.
    pub state: WordState,
}

/// The context of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordPlace {
    /// The word begins a section.
    Section,
    /// In `global`.
    Global,
    /// In `defaults`, `frontend`, `listen`, `backend`.
    Proxy,
    /// After `option`.
    Option,
    /// On a `bind` line.
    Bind,
    /// On a `server` line.
    Server,
    /// The word is the action of a rule.
    Action,
    /// After `filter`.
    Filter,
    /// In `userlist`.
    Userlist,
    /// In `http-errors`.
    HttpErrors,
    /// In `ring`.
    Ring,
    /// In `log-forward`.
    LogForward,
    /// In `mailers`.
    Mailers,
    /// In `peers`.
    Peers,
    /// In `healthcheck`.
    Healthcheck,
    /// In `resolvers`.
    Resolvers,
    /// In `traces`.
    Traces,
    /// In `crt-store`.
    CrtStore,
    /// On a `load` line of a `crt-store`.
    Load,
    /// In `fcgi-app`.
    FcgiApp,
    /// In `spoe-agent`, a section of an engine's file.
    SpoeAgent,
    /// In `spoe-message`, a section of an engine's file.
    SpoeMessage,
    /// In `spoe-group`, a section of an engine's file.
    SpoeGroup,
}

/// Whether a word is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordState {
    Ready,
    /// Not implemented yet: an error.
    NotYet,
    /// Removed from the language: an error that names the replacement.
    Removed,
}

impl WordPlace {
    /// Every context.
    pub const ALL: [WordPlace; 23] = [
        WordPlace::Section,
        WordPlace::Global,
        WordPlace::Proxy,
        WordPlace::Option,
        WordPlace::Bind,
        WordPlace::Server,
        WordPlace::Action,
        WordPlace::Filter,
        WordPlace::Userlist,
        WordPlace::HttpErrors,
        WordPlace::Ring,
        WordPlace::LogForward,
        WordPlace::Mailers,
        WordPlace::Peers,
        WordPlace::Healthcheck,
        WordPlace::Resolvers,
        WordPlace::Traces,
        WordPlace::CrtStore,
        WordPlace::Load,
        WordPlace::FcgiApp,
        WordPlace::SpoeAgent,
        WordPlace::SpoeMessage,
        WordPlace::SpoeGroup,
    ];

    /// The keyword of the section with these lines. None if the context is not a section.
    pub fn section(self) -> Option<&'static str> {
        match self {
            WordPlace::Global => Some("global"),
            WordPlace::Userlist => Some("userlist"),
            WordPlace::HttpErrors => Some("http-errors"),
            WordPlace::Ring => Some("ring"),
            WordPlace::LogForward => Some("log-forward"),
            WordPlace::Mailers => Some("mailers"),
            WordPlace::Peers => Some("peers"),
            WordPlace::Healthcheck => Some("healthcheck"),
            WordPlace::Resolvers => Some("resolvers"),
            WordPlace::Traces => Some("traces"),
            WordPlace::CrtStore => Some("crt-store"),
            WordPlace::FcgiApp => Some("fcgi-app"),
            WordPlace::SpoeAgent => Some("spoe-agent"),
            WordPlace::SpoeMessage => Some("spoe-message"),
            WordPlace::SpoeGroup => Some("spoe-group"),
            _ => None,
        }
    }

    /// The context as a heading.
    pub fn title(self) -> &'static str {
        match self {
            WordPlace::Section => "Sections",
            WordPlace::Global => "Words of global",
            WordPlace::Proxy => "Words of proxies",
            WordPlace::Option => "Options",
            WordPlace::Bind => "Words of bind lines",
            WordPlace::Server => "Words of server lines",
            WordPlace::Action => "Actions",
            WordPlace::Filter => "Filters",
            WordPlace::Userlist => "Words of userlist",
            WordPlace::HttpErrors => "Words of http-errors",
            WordPlace::Ring => "Words of ring",
            WordPlace::LogForward => "Words of log-forward",
            WordPlace::Mailers => "Words of mailers",
            WordPlace::Peers => "Words of peers",
            WordPlace::Healthcheck => "Words of healthcheck",
            WordPlace::Resolvers => "Words of resolvers",
            WordPlace::Traces => "Words of traces",
            WordPlace::CrtStore => "Words of crt-store",
            WordPlace::Load => "Words of load lines",
            WordPlace::FcgiApp => "Words of fcgi-app",
            WordPlace::SpoeAgent => "Words of spoe-agent",
            WordPlace::SpoeMessage => "Words of spoe-message",
            WordPlace::SpoeGroup => "Words of spoe-group",
        }
    }
}

/// Every word of the language, by context and name.
pub fn words(keywords: &'static StreamKeywords) -> BTreeSet<ConfigWord> {
    let mut words = BTreeSet::new();
    add(&mut words, WordPlace::Section, SECTIONS.rows());
    add(&mut words, WordPlace::Global, GLOBAL_KEYWORDS.rows());
    add(&mut words, WordPlace::Proxy, PROXY_KEYWORDS.rows());
    add(&mut words, WordPlace::Option, OPTIONS.rows());
    add(&mut words, WordPlace::Bind, BIND_OPTIONS.rows());
    add(&mut words, WordPlace::Server, SERVER_OPTIONS.rows());
    add(&mut words, WordPlace::Action, keywords.actions.rows());
    add(&mut words, WordPlace::Filter, keywords.filters.rows());
    add(&mut words, WordPlace::Userlist, USERLIST_KEYWORDS.rows());
    add(&mut words, WordPlace::HttpErrors, HTTP_ERRORS_KEYWORDS.rows());
    add(&mut words, WordPlace::Ring, RING_KEYWORDS.rows());
    add(&mut words, WordPlace::LogForward, LOG_FORWARD_KEYWORDS.rows());
    add(&mut words, WordPlace::Mailers, MAILERS_KEYWORDS.rows());
    add(&mut words, WordPlace::Peers, PEERS_KEYWORDS.rows());
    add(&mut words, WordPlace::Healthcheck, HEALTHCHECK_KEYWORDS.rows());
    add(&mut words, WordPlace::Resolvers, RESOLVERS_KEYWORDS.rows());
    add(&mut words, WordPlace::Traces, TRACES_KEYWORDS.rows());
    add(&mut words, WordPlace::CrtStore, CRT_STORE_KEYWORDS.rows());
    add(&mut words, WordPlace::Load, LOAD_KEYWORDS.rows());
    add(&mut words, WordPlace::FcgiApp, FCGI_APP_KEYWORDS.rows());
    add(&mut words, WordPlace::SpoeAgent, SPOE_AGENT_KEYWORDS.rows());
    add(&mut words, WordPlace::SpoeMessage, SPOE_MESSAGE_KEYWORDS.rows());
    add(&mut words, WordPlace::SpoeGroup, SPOE_GROUP_KEYWORDS.rows());
    words.into_iter().map(|word| with_names(word, keywords)).collect()
}

/// Adds the names of the filters to the help text of the word `filter`.
fn with_names(word: ConfigWord, keywords: &'static StreamKeywords) -> ConfigWord {
    match (word.place, word.name) {
        (WordPlace::Proxy, "filter") => ConfigWord { help: keywords.filter_help(word.help), ..word },
        _ => word,
    }
}

/// The words of the language that weir does not implement yet.
pub fn not_yet(keywords: &'static StreamKeywords) -> impl Iterator<Item = ConfigWord> + use<> {
    words(keywords).into_iter().filter(|word| word.state == WordState::NotYet)
}

fn add<F: 'static>(
    words: &mut BTreeSet<ConfigWord>,
    place: WordPlace,
    rows: impl Iterator<Item = &'static Row<F>>,
) {
    words.extend(rows.map(|row| ConfigWord {
        place,
        name: row.name,
        arguments: row.arguments,
        example: row.example,
        help: row.help,
        default: row.default,
        values: row.values,
        state: match row.handler {
            Handler::Ready(_) => WordState::Ready,
            Handler::NotYet => WordState::NotYet,
            Handler::Removed(_) => WordState::Removed,
        },
    }));
}

/// The sections, rules or lines that may contain a word.
pub fn written_in(keywords: &StreamKeywords, word: &ConfigWord) -> Vec<&'static str> {
    match word.place {
        WordPlace::Section if engine_section(word.name).is_some() => vec!["in the file of an engine"],
        WordPlace::Section => vec!["at the top of a file"],
        WordPlace::Proxy => {
            ready(&PROXY_KEYWORDS, word.name).map_or(Vec::new(), |reader| section_names(reader.sections))
        }
        WordPlace::Option => {
            ready(&OPTIONS, word.name).map_or(Vec::new(), |reader| section_names(reader.sections))
        }
        WordPlace::Action => {
            let rulesets = ready(keywords.actions, word.name).map(|reader| reader.rulesets);
            let kinds =
                RulesetKind::ALL.into_iter().filter(|kind| rulesets.is_some_and(|set| set.contains(*kind)));
            kinds.map(RulesetKind::keyword).collect()
        }
        WordPlace::Global => vec!["global"],
        WordPlace::Bind => vec!["bind lines"],
        WordPlace::Server => vec!["server lines"],
        WordPlace::Filter => vec!["filter lines"],
        WordPlace::Userlist => vec!["userlist"],
        WordPlace::HttpErrors => vec!["http-errors"],
        WordPlace::Ring => vec!["ring"],
        WordPlace::LogForward => vec!["log-forward"],
        WordPlace::Mailers => vec!["mailers"],
        WordPlace::Peers => vec!["peers"],
        WordPlace::Healthcheck => vec!["healthcheck"],
        WordPlace::Resolvers => vec!["resolvers"],
        WordPlace::Traces => vec!["traces"],
        WordPlace::CrtStore => vec!["crt-store"],
        WordPlace::Load => vec!["load lines"],
        WordPlace::FcgiApp => vec!["fcgi-app"],
        WordPlace::SpoeAgent => vec!["spoe-agent"],
        WordPlace::SpoeMessage => vec!["spoe-message"],
        WordPlace::SpoeGroup => vec!["spoe-group"],
    }
}

fn ready<F: Copy>(table: &Table<F>, name: &str) -> Option<F> {
    match table.find(name)?.handler {
        Handler::Ready(reader) => Some(reader),
        _ => None,
    }
}

fn section_names(sections: Sections) -> Vec<&'static str> {
    let names = [(DEFAULTS, "defaults"), (FRONTEND, "frontend"), (LISTEN, "listen"), (BACKEND, "backend")];
    names.into_iter().filter(|(section, _)| sections.contains(*section)).map(|(_, name)| name).collect()
}

/// The implemented filters by name, each with its family.
pub fn filters(keywords: &StreamKeywords) -> impl Iterator<Item = (&'static str, &'static str)> {
    keywords.filters.rows().filter_map(|row| match row.handler {
        Handler::Ready(reader) => Some((row.name, reader.family)),
        _ => None,
    })
}

/// The output of `-dKflt`.
pub fn filter_dump(keywords: &StreamKeywords) -> String {
    let rows = filters(keywords).map(|(name, family)| format!("{name} [{family}]\n"));
    format!("# List of registered filter names:\n{}", rows.collect::<String>())
}

/// The output of `-dKcfg`: the implemented words, in HAProxy's layout.
pub fn dump(keywords: &StreamKeywords) -> String {
    let mut text = String::from("# List of registered configuration keywords:\n");
    section(&mut text, "global", first_words(GLOBAL_KEYWORDS.rows()));
    section(&mut text, "listen", first_words(PROXY_KEYWORDS.rows()));
    for row in sorted(BIND_OPTIONS.rows()) {
        let _ = writeln!(text, "\tbind <addr> {}{}", row.name, count(row));
    }
    for row in sorted(SERVER_OPTIONS.rows()) {
        let _ = writeln!(text, "\tserver <name> <addr> {}{}", row.name, count(row));
    }
    for row in sorted(OPTIONS.rows()) {
        let Handler::Ready(reader) = &row.handler else { continue };
        let _ = writeln!(text, "\toption {} [{} ]", row.name, sides(reader.sections, reader.http_only));
    }
    for kind in RulesetKind::ALL {
        for row in sorted(keywords.actions.rows()) {
            let Handler::Ready(reader) = &row.handler else { continue };
            if reader.rulesets.contains(kind) {
                let star = if row.arguments.starts_with('(') { "*" } else { "" };
                let _ = writeln!(text, "\t{} {}{star}", kind.keyword(), row.name);
            }
        }
    }
    section(&mut text, "userlist", first_words(USERLIST_KEYWORDS.rows()));
    section(&mut text, "http-errors", first_words(HTTP_ERRORS_KEYWORDS.rows()));
    section(&mut text, "ring", first_words(RING_KEYWORDS.rows()));
    section(&mut text, "log-forward", first_words(LOG_FORWARD_KEYWORDS.rows()));
    section(&mut text, "mailers", first_words(MAILERS_KEYWORDS.rows()));
    section(&mut text, "peers", first_words(PEERS_KEYWORDS.rows()));
    section(&mut text, "healthcheck", first_words(HEALTHCHECK_KEYWORDS.rows()));
    section(&mut text, "resolvers", first_words(RESOLVERS_KEYWORDS.rows()));
    section(&mut text, "crt-store", first_words(CRT_STORE_KEYWORDS.rows()));
    section(&mut text, "traces", first_words(TRACES_KEYWORDS.rows()));
    section(&mut text, "fcgi-app", first_words(FCGI_APP_KEYWORDS.rows()));
    section(&mut text, "spoe-agent", first_words(SPOE_AGENT_KEYWORDS.rows()));
    section(&mut text, "spoe-message", first_words(SPOE_MESSAGE_KEYWORDS.rows()));
    section(&mut text, "spoe-group", first_words(SPOE_GROUP_KEYWORDS.rows()));
    text
}

fn section(text: &mut String, name: &str, words: BTreeSet<&str>) {
    let _ = writeln!(text, "{name}");
    for word in words {
        let _ = writeln!(text, "\t{word}");
    }
}

/// The first words of the implemented rows.
fn first_words<F: 'static>(rows: impl Iterator<Item = &'static Row<F>>) -> BTreeSet<&'static str> {
    rows.filter(|row| row.is_ready()).filter_map(|row| row.name.split(' ').next()).collect()
}

/// The implemented rows, by name.
fn sorted<F: 'static>(rows: impl Iterator<Item = &'static Row<F>>) -> Vec<&'static Row<F>> {
    let mut rows: Vec<_> = rows.filter(|row| row.is_ready()).collect();
    rows.sort_by_key(|row| row.name);
    rows
}

/// The smallest number of arguments, in HAProxy's notation.
fn count<F>(row: &Row<F>) -> &'static str {
    if row.arguments.is_empty() || row.arguments.starts_with('[') { "" } else { " +1" }
}

fn sides(sections: Sections, http_only: bool) -> String {
    let mut text = String::new();
    for (present, name) in
        [(sections.contains(FRONTENDS), " FE"), (sections.contains(BACKENDS), " BE"), (http_only, " HTTP")]
    {
        text.push_str(if present { name } else { "" });
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_expr::table::DataType;

    use super::*;
    use crate::testing::KEYWORDS;
    use weir_model::RetryOn;

    #[test]
    fn every_keyword_has_a_help_text() {
        for word in words(&KEYWORDS) {
            assert!(!word.help.trim().is_empty(), "{word:?}");
        }
        assert!(not_yet(&KEYWORDS).any(|word| word.name == "log-profile"));
    }

    #[test]
    fn the_help_text_of_filter_lists_all_filters() {
        let words = words(&KEYWORDS);
        let word = words.iter().find(|word| (word.place, word.name) == (WordPlace::Proxy, "filter"));
        let help = word.map(|word| word.help);
        assert_eq!(help, Some("add a filter to the streams: bwlim-in, trace, spoe, fcgi-app, compression"));
    }

    /// The values contain all arguments from the parser's own lists.
    #[test]
    fn documented_values_include_all_values_the_parser_accepts() {
        let values = |place, name| {
            let words = words(&KEYWORDS);
            let word = words.iter().find(|word| (word.place, word.name) == (place, name));
            word.map_or(&[][..], |word| word.values)
        };
        let stored = values(WordPlace::Proxy, "stick-table");
        for data in DataType::ALL {
            assert!(
                stored.iter().any(|(value, help)| value.contains(data.name()) || help.contains(data.name())),
                "{}",
                data.name()
            );
        }
        let failures = values(WordPlace::Proxy, "retry-on");
        for status in RetryOn::STATUSES {
            assert!(failures.iter().any(|(_, help)| help.contains(&status.to_string())), "{status}");
        }
    }

    #[test]
    fn every_implemented_keyword_has_a_section() {
        for word in words(&KEYWORDS).iter().filter(|word| word.state == WordState::Ready) {
            assert!(!written_in(&KEYWORDS, word).is_empty(), "{word:?}");
        }
        let of = |place, name| {
            words(&KEYWORDS)
                .iter()
                .find(|word| (word.place, word.name) == (place, name))
                .map(|word| written_in(&KEYWORDS, word))
        };
        assert_eq!(of(WordPlace::Proxy, "use_backend"), Some(vec!["frontend", "listen"]));
        assert_eq!(of(WordPlace::Action, "deny"), Some(vec!["http-request", "http-response"]));
        assert_eq!(of(WordPlace::Option, "redispatch"), Some(vec!["defaults", "listen", "backend"]));
        assert_eq!(of(WordPlace::Section, "backend"), Some(vec!["at the top of a file"]));
        assert_eq!(of(WordPlace::Section, "spoe-agent"), Some(vec!["in the file of an engine"]));
        assert_eq!(of(WordPlace::SpoeAgent, "timeout processing"), Some(vec!["spoe-agent"]));
    }

    #[test]
    fn the_keyword_dump_has_haproxys_layout() {
        let text = dump(&KEYWORDS);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["# List of registered configuration keywords:", "global"]);
        for line in [
            "\tchroot",
            "\tstats",
            "listen",
            "\tbind <addr> accept-proxy",
            "\tbind <addr> name +1",
            "\tserver <name> <addr> weight +1",
            "\toption tcp-smart-accept [ FE ]",
            "\toption http-buffer-request [ FE BE HTTP ]",
            "\ttcp-request content set-var-fmt*",
            "\thttp-request deny",
            "userlist",
            "\tuser",
            "fcgi-app",
            "\tdocroot",
            "spoe-agent",
            "\tmax-frame-size",
            "spoe-message",
            "\targs",
        ] {
            assert!(lines.contains(&line), "{line}");
        }
        assert!(!text.contains("log-profile"));
    }
}
