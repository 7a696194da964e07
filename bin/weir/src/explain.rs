//! `weir explain`: the meaning of a word or termination code, from the tables that drive the program, and of a configuration line
//! in its context.

pub(crate) mod codes;
mod line;
pub(crate) mod lines;
pub(crate) mod statuses;
mod topics;

use std::borrow::Cow;
use std::fmt::Write;

use weir_cli::command::{HIDDEN, WORKER};
use weir_config::vocabulary::{self, ConfigWord, DefaultValue, ValueHelp, WordPlace, WordState};
use weir_expr::alias::Alias;
use weir_expr::{Registry, converters};
use weir_stats::{fields, info};
use weir_stream::KEYWORDS;
use weir_syntax::did_you_mean;
use weir_vocabulary::fetch::FETCHES;

use self::lines::{ConfigLine, ExpressionExamples};
use crate::problems;

/// One documented word.
pub(crate) struct Explanation {
    /// The place of a configuration word. `None` for other entries.
    place: Option<WordPlace>,
    /// The words required before it: `http-request`, `option`. Empty for the first word of a line.
    behind: Vec<&'static str>,
    /// The word, or the words.
    pub name: &'static str,
    /// The arguments, in the notation of the manual.
    pub arguments: String,
    /// The kind of word and where to write it. Ends with [`NOT_YET`] if the word is not implemented.
    pub sort: String,
    pub help: Cow<'static, str>,
    /// The default, if the word is omitted.
    default: Option<DefaultValue>,
    /// The possible arguments, with their meaning.
    values: &'static [ValueHelp],
    /// An example line. May be empty.
    example: String,
}

/// `weir explain -f FILE LINE`. `None` if the words have another form.
pub(crate) fn explain_line(words: &[&str]) -> Option<Result<String, String>> {
    if !words.contains(&"-f") {
        return None;
    }
    let usage = || Err("explain expects '-f FILE LINE', the number of a line.".to_owned());
    let Some((number, rest)) = words.split_last() else { return Some(usage()) };
    let Ok(number) = number.parse() else { return Some(usage()) };
    Some(match crate::arguments::parse(rest.iter().copied()) {
        Ok(arguments) if !arguments.files.is_empty() => line::explain(&arguments, number),
        Ok(_) => usage(),
        Err(crate::arguments::ArgumentFault::Usage(text) | crate::arguments::ArgumentFault::Text(text)) => {
            Err(text)
        }
    })
}

/// The entries that match these words. Without words, the usage.
///
/// # Errors
/// A text for standard error if no entry matches.
pub(crate) fn explain(words: &[&str]) -> Result<String, String> {
    let wanted = words.join(" ");
    // In a log format, an alias begins with a percent sign.
    let wanted = wanted.trim().trim_start_matches('%');
    if wanted.is_empty() {
        return Err("explain expects a word of the configuration, a sample fetch, a converter, a log alias (%ST), a command, a \
                    statistic, the termination code of a log line (sH--), a status (503), or the code of a problem (C101)."
            .to_owned());
    }
    among(&entries(), wanted)
}

fn among(entries: &[Explanation], wanted: &str) -> Result<String, String> {
    let mut text = topics::explain(wanted).unwrap_or_default();
    text.extend(entries.iter().filter(|entry| entry.answers(wanted)).map(Explanation::text));
    text.push_str(&codes::explain(wanted).unwrap_or_default());
    text.push_str(&statuses::explain(wanted).unwrap_or_default());
    if let Some(row) = problems::find(wanted) {
        // Writing to a string does not fail.
        let _ = write!(text, "\n{}\n  Kind of problem: {}\n  {}\n", row.code, row.title, row.help);
    }
    if text.is_empty() {
        text.extend(entries.iter().filter(|entry| entry.takes(wanted)).map(Explanation::text));
    }
    if !text.is_empty() {
        return Ok(text.trim_start().to_owned());
    }
    let similar = did_you_mean(wanted, entries.iter().map(|entry| entry.name));
    let similar = similar.map_or(String::new(), |name| format!(" Did you mean '{name}'?"));
    let named: Vec<&str> =
        entries.iter().filter(|entry| entry.mentions(wanted)).map(|entry| entry.name).collect();
    let more = if named.len() > MENTIONED { " and others" } else { "" };
    let named = match named[..] {
        [] => String::new(),
        _ => format!(" These are about it: {}{more}.", named[..named.len().min(MENTIONED)].join(", ")),
    };
    Err(format!("nothing is called '{wanted}'.{similar}{named}"))
}

/// Maximum number of names listed for entries that only mention the word.
const MENTIONED: usize = 12;

impl Explanation {
    /// Whether the entry matches: by its full name, by the first word of its name, or as a prefix of a configuration line.
    fn answers(&self, wanted: &str) -> bool {
        let begins = |text: &str, with: &str| {
            text.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let rest = |words: &&str| wanted.strip_prefix(*words)?.strip_prefix(' ');
        begins(self.name, wanted) || self.behind.iter().filter_map(rest).any(|line| begins(line, self.name))
    }

    /// Whether one of its values has this name, alone or after the word: `roundrobin`, `balance roundrobin`.
    fn takes(&self, wanted: &str) -> bool {
        let wanted = wanted.strip_prefix(self.name).and_then(|rest| rest.strip_prefix(' ')).unwrap_or(wanted);
        self.values.iter().any(|(value, _)| value.split([' ', '(']).any(|word| word == wanted))
    }

    /// Whether name, arguments or help contain a word that begins with `wanted`. False if `wanted` is too short.
    fn mentions(&self, wanted: &str) -> bool {
        let wanted = wanted.to_ascii_lowercase();
        let begins = |text: &str| {
            let text = text.to_ascii_lowercase();
            text.match_indices(&wanted)
                .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
        };
        wanted.len() > 2 && [self.name, &self.arguments, &self.help].into_iter().any(begins)
    }

    fn text(&self) -> String {
        let separator = if self.arguments.is_empty() || self.arguments.starts_with('(') { "" } else { " " };
        let mut text =
            format!("\n{}{separator}{}\n  {}\n  {}\n", self.name, self.arguments, self.sort, self.help);
        // Writing to a string does not fail.
        if let Some(value) = self.default {
            let _ = writeln!(text, "  Default: {}", default(value, ""));
        }
        let width = self.values.iter().map(|(value, _)| value.len()).max().unwrap_or_default();
        for (index, (value, help)) in self.values.iter().enumerate() {
            text.push_str(if index == 0 { "  Values:\n" } else { "" });
            let _ = writeln!(text, "    {value:width$}  {help}");
        }
        if !self.example.is_empty() {
            let _ = writeln!(text, "  Example: {}", self.example);
        }
        text
    }
}

/// A default as text. Literal arguments are enclosed in `quote`.
pub(crate) fn default(default: DefaultValue, quote: &str) -> String {
    match default {
        DefaultValue::Written(arguments) => format!("{quote}{arguments}{quote}"),
        DefaultValue::Described(text) => text.replace('`', quote),
    }
}

/// The last sentence of entries that are not implemented.
#[cfg(test)]
pub(crate) const NOT_YET: &str = "Not implemented yet.";

/// All entries, one per word.
pub(crate) fn entries() -> Vec<Explanation> {
    let mut entries: Vec<Explanation> = vocabulary::words(&KEYWORDS).iter().map(configured).collect();
    let registry = Registry::new(FETCHES.iter().map(|row| &row.decl));
    let lines = ExpressionExamples::all();
    let example = |line: Option<&ConfigLine>| line.map_or_else(String::new, |line| line.text.clone());
    entries.extend(registry.fetches().into_iter().map(|row| Explanation {
        place: None,
        behind: Vec::new(),
        name: row.name,
        arguments: row.args.to_string(),
        sort: format!("Sample fetch, gives {}.", row.output.name()),
        help: row.help.into(),
        default: None,
        values: &[],
        example: example(lines.of_fetch(row.name)),
    }));
    entries.extend(registry.acl_keywords().into_iter().filter(|row| row.name != row.fetch).map(|row| {
        Explanation {
            place: None,
            behind: Vec::new(),
            name: row.name,
            arguments: String::new(),
            sort: "Keyword of ACLs.".to_owned(),
            help: format!("the sample fetch '{}', matched with '-m {}'", row.fetch, row.method.name()).into(),
            default: None,
            values: &[],
            example: example(lines.of_acl_keyword(row.name)),
        }
    }));
    entries.extend(converters::all().iter().map(|row| Explanation {
        place: None,
        behind: Vec::new(),
        name: row.name,
        arguments: row.args.to_string(),
        sort: format!("Converter, takes {} and gives {}.", row.input.name(), row.output.name()),
        help: row.help.into(),
        default: None,
        values: &[],
        example: example(lines.of_converter(row.name)),
    }));
    entries.extend(Alias::ROWS.iter().map(|row| Explanation {
        place: None,
        behind: Vec::new(),
        name: row.name,
        arguments: String::new(),
        sort: format!("Alias of log formats, written %{} or %[{}].", row.name, row.name),
        help: row.help.into(),
        default: None,
        values: &[],
        example: lines::of_alias(row.name).text,
    }));
    let commands = weir_cli::commands().filter(|row| row.flags & HIDDEN == 0);
    entries.extend(commands.map(|row| Explanation {
        place: None,
        behind: Vec::new(),
        name: row.name,
        arguments: row.syntax.strip_prefix(row.name).unwrap_or_default().trim_start().to_owned(),
        sort: match row.flags & WORKER != 0 && row.run.is_none() {
            true => "Command of the runtime API. Not implemented yet.".to_owned(),
            false => "Command of the runtime API.".to_owned(),
        },
        help: row.help.into(),
        default: None,
        values: &[],
        example: String::new(),
    }));
    let statistics = fields::FIELDS.iter().map(|row| (row.name, "show stat", row.description));
    let statistics =
        statistics.chain(info::INFO_FIELDS.iter().map(|row| (row.name, "show info", row.description)));
    entries.extend(statistics.map(|(name, shown_by, help)| Explanation {
        place: None,
        behind: Vec::new(),
        name,
        arguments: String::new(),
        sort: format!("Statistic of '{shown_by}'."),
        help: help.into(),
        default: None,
        values: &[],
        example: String::new(),
    }));
    entries
}

fn configured(word: &ConfigWord) -> Explanation {
    let place = vocabulary::written_in(&KEYWORDS, word).join(", ");
    let sort = match word.state {
        // The title may already contain the place.
        WordState::Ready if word.place.title().ends_with(&place) => format!("{}.", word.place.title()),
        WordState::Ready => format!("{}: {place}.", word.place.title()),
        WordState::NotYet => format!("{}. Not implemented yet: using it is an error.", word.place.title()),
        WordState::Removed => format!("{}. The language has it no more.", word.place.title()),
    };
    let example = match word.state {
        WordState::Ready => lines::of_word(word).text,
        _ => String::new(),
    };
    let behind = match word.place {
        WordPlace::Action => vocabulary::written_in(&KEYWORDS, word),
        WordPlace::Option => vec!["option", "no option"],
        WordPlace::Filter => vec!["filter"],
        _ => Vec::new(),
    };
    Explanation {
        place: Some(word.place),
        behind,
        name: word.name,
        arguments: word.arguments.to_owned(),
        sort,
        help: word.help.into(),
        default: word.default.filter(|_| word.state == WordState::Ready),
        values: word.values,
        example,
    }
}

/// Splits an expression into its fetch and converters. Commas inside parentheses separate arguments.
pub(crate) fn parts(expression: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let separates = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    expression.split(separates).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_names_of_every_kind_and_refuses_unknown_ones() {
        let text = explain(&["retries"]).expect("a word");
        assert!(text.starts_with("retries <"), "{text}");
        assert!(text.contains("Words of proxies: defaults, listen, backend."), "{text}");
        assert!(text.contains("Example: retries "), "{text}");
        for (word, part) in [
            ("hdr", "Sample fetch"),
            ("hdr_dom", "the sample fetch 'req.hdr', matched with '-m dom'"),
            ("base64", "Converter, takes"),
            ("%ST", "Alias of log formats, written %ST"),
            ("ST", "Status code"),
            ("show stat", "Command of the runtime API"),
            ("qcur", "Statistic of 'show stat'"),
            ("Uptime_sec", "Statistic of 'show info'"),
            ("set-header", "Actions: http-request"),
            ("sHNN", "Termination code"),
            ("c101", "Kind of problem: an unknown word"),
            ("inter", "\n  Words of server lines.\n"),
            ("inter", "\n  Default: 2s\n  Example: server app1 192.0.2.10:8080 inter "),
            ("tune.ring.queues", "\n  Default: 6\n"),
            ("path_beg", "\n  Example: acl example path_beg /static"),
            ("ssl_fc", "\n  Example: acl example ssl_fc\n"),
            ("req.hdr", "\n  Example: http-request set-var(txn.value) req.hdr(host)\n"),
            ("hdr_beg", "\n  Example: acl example hdr_beg(host) www.\n"),
            ("use_backend", "\n  Example: use_backend app if { path_beg /api/ }\n"),
            ("show quic", "Command of the runtime API. Not implemented yet."),
            ("log-profile", "Not implemented yet"),
            ("http-request deny", "\n  Actions: http-request, http-response.\n"),
            ("http-request redirect scheme https", "answer with a redirection"),
            ("tcp-request content reject", "Actions: "),
            ("option httplog", "log HTTP requests"),
            ("no option httplog", "log HTTP requests"),
            ("503", "weir itself answers with it when no server"),
            ("random", "balance <algorithm>"),
            ("random", "of two servers drawn at random"),
            ("balance", "\n    leastconn "),
            ("balance roundrobin", "balance <algorithm>"),
            ("shutdown-backup-sessions", "on-marked-up <action>"),
            ("sticky", "cookie SRV insert"),
            ("Rate Limit", "sc_http_req_rate"),
            ("gzip", "compression algo zstd br gzip"),
            ("X-Forwarded-For", "option forwardfor"),
            ("429", "or a rule like 'http-request return status 429'"),
        ] {
            let text = explain(&[word]).expect(word);
            assert!(text.contains(part), "{word}: {text}");
        }
        for nothing in
            ["balance robin", "http-after-response deny", "http-requestdeny", "option deny", "600", "99"]
        {
            assert!(explain(&[nothing]).is_err(), "{nothing}");
        }
        // A first word shared by several names selects all of them.
        let shows = explain(&["show"]).expect("commands");
        assert!(shows.contains("\nshow info") && shows.contains("\nshow table"), "{shows}");
        assert_eq!(explain(&["show", "info"]), explain(&["show info"]));
    }

    #[test]
    fn suggests_similar_names_for_an_unknown_keyword() {
        let error = explain(&["retrys"]).expect_err("no word");
        assert_eq!(error, "nothing is called 'retrys'. Did you mean 'retries'?");
        assert_eq!(explain(&["xqzw"]).expect_err("no word"), "nothing is called 'xqzw'.");
        let error = explain(&["certificate"]).expect_err("no word");
        assert!(error.contains("These are about it: ") && error.contains("crt"), "{error}");
        assert!(error.ends_with(" and others."), "not all of them: {error}");
        assert!(explain(&["503"]).is_ok_and(|text| text.contains("no server takes the request")));
        assert!(explain(&[]).is_err_and(|text| text.contains("explain expects")));
    }

    #[test]
    fn every_entry_is_explained_by_its_help_text() {
        let entries = entries();
        for entry in &entries {
            let text = among(&entries, entry.name).unwrap_or_default();
            assert!(text.contains(&*entry.help), "{}", entry.name);
        }
    }
}
