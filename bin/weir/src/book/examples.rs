//! Examples and differences for the reference pages, from the tables used by the tests.

use std::collections::BTreeMap;

use weir_config::vocabulary::{ConfigWord, WordPlace, WordState};
use weir_stream::KEYWORDS;

use super::EntryKind;
use crate::explain::lines::{self, ConfigLine, ExpressionExamples};
use crate::explain::{Explanation, parts};

/// Examples for the reference: expressions with values, commands with their output, configuration lines.
pub(super) struct Examples {
    fetches: BTreeMap<String, (String, String)>,
    converters: BTreeMap<String, (String, String)>,
    lines: ExpressionExamples,
}

impl Examples {
    /// Reads the first suitable row of the test tables for each entry: a fetch alone, or a converter after one fetch.
    pub(super) fn read() -> Self {
        let mut examples = Examples {
            fetches: BTreeMap::new(),
            converters: BTreeMap::new(),
            lines: ExpressionExamples::all(),
        };
        for row in rows(FETCHES) {
            let [_, place, _, expression, value, ..] = row[..] else { panic!("five columns: {row:?}") };
            if let ([fetch], true) =
                (&parts(expression)[..], place != "condition" && is_fit(expression, value))
            {
                let example = (expression.to_owned(), value.to_owned());
                examples.fetches.entry(name(fetch).to_owned()).or_insert(example);
            }
        }
        // Conversions to an empty value are poor examples.
        let dull =
            |row: &Vec<&str>| ["int(0)", "str()", "bool("].iter().any(|begin| row[0].starts_with(begin));
        let (last, first): (Vec<_>, Vec<_>) = rows(CONVERTERS).partition(dull);
        for row in first.into_iter().chain(last) {
            let [expression, theirs, ..] = row[..] else { continue };
            let value = row.get(2).unwrap_or(&theirs);
            if let ([_, converter], true) = (&parts(expression)[..], is_fit(expression, value)) {
                let example = (expression.to_owned(), (*value).to_owned());
                examples.converters.entry(name(converter).to_owned()).or_insert(example);
            }
        }
        examples
    }

    /// The example of an entry, as Markdown.
    pub(super) fn of(&self, entry: &Explanation) -> Option<String> {
        let values = match EntryKind::of(entry) {
            EntryKind::Fetch => self.fetches.get(entry.name),
            EntryKind::Converter => self.converters.get(entry.name),
            _ => None,
        };
        if let Some((expression, value)) = values {
            return Some(format!("`{expression}` gives `{value}`."));
        }
        if let Some(line) = self.line(entry) {
            return Some(format!("`{}`", line.text));
        }
        match EntryKind::of(entry) {
            EntryKind::Command => command(entry.name),
            EntryKind::Statistic => Some(statistic(entry)),
            _ => None,
        }
    }

    /// The configuration line that shows an entry, for entries without a value in the test tables.
    fn line(&self, entry: &Explanation) -> Option<ConfigLine> {
        match EntryKind::of(entry) {
            EntryKind::Fetch if !self.fetches.contains_key(entry.name) => self.lines.of_fetch(entry.name),
            EntryKind::Converter if !self.converters.contains_key(entry.name) => {
                self.lines.of_converter(entry.name)
            }
            EntryKind::AclKeyword => self.lines.of_acl_keyword(entry.name),
            EntryKind::Alias => return Some(lines::of_alias(entry.name)),
            _ => None,
        }
        .cloned()
    }

    /// The results that differ in HAProxy 3.2, one line per reason.
    pub(super) fn differences(&self, entry: &Explanation) -> Vec<String> {
        let of_expressions = |table, at: usize, calls: fn(&str, &str) -> bool| {
            let rows = rows(table).filter(move |row| calls(row[at], entry.name));
            let known = rows.filter_map(move |row| {
                // In converter rows the value of HAProxy precedes ours.
                let (ours, theirs, why) = match (at, &row[1..]) {
                    (0, [theirs, ours, why, ..]) => (*ours, *theirs, *why),
                    (_, [_, _, _, ours, theirs, why, ..]) => (*ours, *theirs, *why),
                    _ => return None,
                };
                Some((row[at], ours, theirs, why))
            });
            known.collect::<Vec<_>>()
        };
        let found = match EntryKind::of(entry) {
            // A fetch alone, or its form in a condition.
            EntryKind::Fetch | EntryKind::AclKeyword => of_expressions(FETCHES, 3, |row, wanted| {
                matches!(parts(row)[..], [fetch] if name(fetch) == wanted)
                    || row.strip_prefix("{ ").is_some_and(|test| begins_with(test, wanted))
            }),
            EntryKind::Converter => of_expressions(
                CONVERTERS,
                0,
                |row, wanted| matches!(parts(row)[..], [_, converter] if name(converter) == wanted),
            ),
            EntryKind::Command => return differing_answers(entry.name),
            EntryKind::Statistic if NOT_IN_REFERENCE.contains(&entry.name) => {
                return vec!["Differs from HAProxy: 3.2 does not have it.".to_owned()];
            }
            _ => Vec::new(),
        };
        sentences(&found).iter().map(|each| format!("Differs from HAProxy: {each}")).collect()
    }

    /// The results of log formats that differ in HAProxy 3.2, one line per reason.
    pub(super) fn differences_of_formats() -> Vec<String> {
        let found: Vec<_> = rows(FORMATS)
            .filter_map(|row| match row[..] {
                [_, _, _, format, ours, theirs, why] => Some((format, ours, theirs, why)),
                _ => None,
            })
            .collect();
        sentences(&found)
    }
}

/// Lists the differing rows, one line per reason: expression, our result, the result of HAProxy 3.2, and the reason.
fn sentences(found: &[(&str, &str, &str, &str)]) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut sentences = Vec::new();
    for &(expression, ours, theirs, why) in found {
        if reasons.contains(&why) || NOT_SHOWN.contains(&why) || expression.contains('`') {
            continue;
        }
        reasons.push(why);
        // Omit a long expression, because it is not readable. Its reason is still useful.
        let is_short = [expression, ours, theirs].iter().all(|text| text.len() <= LONGEST);
        let shown = match is_short {
            true => format!(": `{expression}` {}; HAProxy 3.2: {}", result(ours), result(theirs)),
            false => String::new(),
        };
        sentences.push(format!("{why}{shown}."));
    }
    sentences
}

/// The rows of a table, without comment lines.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table
        .lines()
        .filter(|row| !row.starts_with('#') && row.contains('\t'))
        .map(|row| row.split('\t').collect())
}

/// The result of an expression, as a sentence.
fn result(value: &str) -> String {
    match value {
        "error" => "is refused".to_owned(),
        "~" => "gives nothing".to_owned(),
        "(empty)" => "gives an empty value".to_owned(),
        value if value.starts_with("warning") => "is warned of".to_owned(),
        value => format!("gives `{}`", value.replace('`', "'")),
    }
}

/// The test rows of a command with a one-line input.
fn commands(name: &str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    rows(COMMANDS).filter_map(move |row| {
        let [_, _, line, answer, difference, ..] = row[..] else { return None };
        let is_of = line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        (is_of && !line.contains(['`', ';', '\\'])).then_some((line, answer, difference))
    })
}

/// An example line of a command, with its output if that is one short line.
fn command(name: &str) -> Option<String> {
    if let Some((_, line)) = OTHER_COMMANDS.iter().find(|(known, _)| *known == name) {
        return Some(format!("`{line}`"));
    }
    let is_answered = |answer: &str| !REFUSALS.iter().any(|part| answer.contains(part));
    let mut known: Vec<_> = commands(name).collect();
    // Prefer successful commands, and calls with arguments.
    known.sort_by_key(|(line, answer, _)| (!is_answered(answer), *line == name));
    let (line, answer, _) = known.first().copied()?;
    let (line, answer) = (line.replace("@folder@", "/etc/weir"), answer.trim_end_matches("\\n"));
    let is_shown = is_answered(answer)
        && !answer.is_empty()
        && answer.len() < LONGEST
        && !answer.contains(['`', '\\', '@'])
        && !answer.starts_with('~');
    Some(if is_shown { format!("`{line}` answers `{answer}`.") } else { format!("`{line}`") })
}

/// Words in the output of refused commands.
const REFUSALS: [&str; 28] = [
    "Require",
    "require",
    "Unknown",
    "No such",
    "nvalid",
    "xpect",
    "Missing",
    "Can't",
    "can only",
    "cannot",
    "ermission",
    "unable",
    "Unable",
    "Empty",
    "not configured",
    "Usage",
    "Malformed",
    "Please",
    "ot found",
    "didn't",
    "Couldn't",
    "out of range",
    "must be",
    "No ongoing",
    "Already",
    "already",
    "Only",
    "given name",
];

fn differing_answers(name: &str) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for (line, _, difference) in commands(name) {
        let Some((version, why)) = difference.split_once(": ") else { continue };
        let line = line.replace("@folder@", "/etc/weir");
        let text = format!("Differs from HAProxy {version}: {}: `{line}`.", why.trim_end_matches(" there"));
        if !sentences.iter().any(|known| known.contains(why.trim_end_matches(" there"))) {
            sentences.push(text);
        }
    }
    sentences
}

/// Where to find a statistic.
fn statistic(entry: &Explanation) -> String {
    let column = weir_stats::fields::FIELDS.iter().position(|row| row.name == entry.name);
    let place = match column.filter(|_| entry.sort.contains("show stat")) {
        Some(column) => format!("`show stat`, column {} of the CSV", column + 1),
        None => format!("`show info`, the line `{}`", entry.name),
    };
    let names = weir_stats::prometheus::names_of(entry.name);
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        format!("{place}.")
    } else {
        format!("{place}; for Prometheus {}.", names.join(", "))
    }
}

/// Whether an example is suitable for a page. Backquotes and pipes have a meaning in Markdown. Ports differ in each run. Variables and
/// maps exist only in the tests.
fn is_fit(expression: &str, value: &str) -> bool {
    let none = ["error", "(empty)", "-", "~", "PORT", "SERVERPORT", ""].contains(&value);
    let foreign = ["var(", "txn.", ".map", ".lst"].iter().any(|part| expression.contains(part));
    !none
        && !foreign
        && expression.len() <= LONGEST
        && ![expression, value].iter().any(|text| text.contains(['`', '|']))
}

/// The name before the arguments.
fn name(call: &str) -> &str {
    call.split('(').next().unwrap_or_default()
}

/// The results of lines with a word that differ in HAProxy 3.2, one line per reason.
pub(super) fn differences(word: &ConfigWord) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut found = Vec::new();
    for row in LINES.lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, place, line, verdict, difference, _] = columns[..] else { continue };
        let Some((theirs, why)) = difference.split_once(": ") else { continue };
        let is_left_out = NOT_SHOWN.contains(&why) || reasons.contains(&why);
        if is_left_out || !is_place(word, place) || line.contains('`') || !is_of(word, line) {
            continue;
        }
        reasons.push(why);
        let plain = PLAIN.iter().find(|(known, _)| *known == why).map_or(why, |(_, plain)| plain);
        found.push(format!("{plain}: `{line}` is {}; HAProxy 3.2 {}.", of(verdict), of_theirs(theirs)));
    }
    found
}

/// Whether a line belongs to a word. Options and actions follow other words.
fn is_of(word: &ConfigWord, line: &str) -> bool {
    let before: &[&str] = match word.place {
        WordPlace::Option => &["option ", "no option "],
        WordPlace::Action => &ACTIONS_FOLLOW,
        _ => &[""],
    };
    before.iter().any(|before| line.strip_prefix(before).is_some_and(|rest| begins_with(rest, word.name)))
}

/// The words before actions.
const ACTIONS_FOLLOW: [&str; 8] = [
    "http-request ",
    "http-response ",
    "http-after-response ",
    "tcp-request connection ",
    "tcp-request session ",
    "tcp-request content ",
    "tcp-response content ",
    "use-service ",
];

fn begins_with(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '(']))
}

fn is_place(word: &ConfigWord, place: &str) -> bool {
    if word.state != WordState::Ready {
        return false;
    }
    match word.place {
        WordPlace::Proxy | WordPlace::Option | WordPlace::Action => {
            ["defaults", "frontend", "backend", "listen", "tcp"].contains(&place)
        }
        WordPlace::Bind => place == "bind",
        WordPlace::Server => ["server", "default-server"].contains(&place),
        other => other.section() == Some(place),
    }
}

fn of(verdict: &str) -> &str {
    match verdict {
        "ok" => "accepted",
        "warning" => "accepted with a warning",
        _ => "refused",
    }
}

fn of_theirs(verdict: &str) -> &str {
    match verdict {
        "ok" => "accepts it",
        "warning" => "warns of it",
        _ => "refuses it",
    }
}

/// Reasons that concern the test setup or a version, but not the word.
const NOT_SHOWN: [&str; 6] = [
    "the reference names no line in this warning",
    "no experiment here",
    "depends on the machine",
    "a word that this reference does not have",
    "not there yet",
    "what has no effect here is warned of, not read",
];

/// Clearer wordings of reasons, for readers without the test table.
const PLAIN: [(&str, &str); 4] = [
    (
        "what is no number, or too much, is refused",
        "a value that is not a number, or is out of range, is refused",
    ),
    ("what has no meaning is refused, not passed over", "a word that has no meaning is refused, not ignored"),
    ("an argument that is missing is missed", "a missing argument is an error"),
    ("an empty condition is warned of", "a condition that can never hold is warned of"),
];

/// Columns of `show stat` and lines of `show info` that are missing in the output of HAProxy 3.2.
const NOT_IN_REFERENCE: [&str; 19] = [
    "PatternsAdded",
    "PatternsFreed",
    "NbThreadGroups",
    "RegexLimitsReached",
    "RegexBudgetsSpent",
    "AuthRequests",
    "AuthRequestsFailed",
    "Mirrors",
    "MirrorsDropped",
    "AgentConnections",
    "LateAgentAnswers",
    "priv_idle_cur",
    "reqbin",
    "reqbout",
    "resbin",
    "resbout",
    "cache_hint_hits",
    "quic_ncbuf_gap_limit",
    "ejections",
];

/// Maximum length of an expression on a page, for readability.
const LONGEST: usize = 70;

const FETCHES: &str = include_str!("../../../../tests/fetches/fetches.tsv");
const FORMATS: &str = include_str!("../../../../tests/fetches/formats.tsv");
const COMMANDS: &str = include_str!("../../../../tests/cli/commands.tsv");
const CONVERTERS: &str = include_str!("../../../../language/expr/tests/data/manual.tsv");
const LINES: &str = include_str!("../../tests/manual.tsv");

/// Examples for commands that the test only refuses, for lack of certificates, keys, entries and masters, or shows only with
/// mistakes.
const OTHER_COMMANDS: &[(&str, &str)] = &[
    ("@!<pid>", "@!1234 show info"),
    ("@<relative pid>", "@1 show info"),
    ("@master", "@master show proc"),
    ("hard-reload", "hard-reload"),
    ("reload", "reload"),
    ("show proc", "show proc"),
    ("user", "user"),
    ("abort ssl ca-file", "abort ssl ca-file /etc/weir/ca.pem"),
    ("abort ssl cert", "abort ssl cert /etc/weir/site.pem"),
    ("abort ssl crl-file", "abort ssl crl-file /etc/weir/crl.pem"),
    ("add server", "add server app/app3 192.0.2.13:8080 check inter 2s"),
    ("add ssl ca-file", "add ssl ca-file /etc/weir/ca.pem <<\\n$(cat more.pem)\\n"),
    ("add ssl crt-list", "add ssl crt-list /etc/weir/sites.list /etc/weir/new.pem"),
    ("clear table", "clear table app data.gpc0 gt 0"),
    ("commit ssl ca-file", "commit ssl ca-file /etc/weir/ca.pem"),
    ("commit ssl cert", "commit ssl cert /etc/weir/site.pem"),
    ("commit ssl crl-file", "commit ssl crl-file /etc/weir/crl.pem"),
    ("del ssl ca-file", "del ssl ca-file /etc/weir/ca.pem"),
    ("del ssl cert", "del ssl cert /etc/weir/old.pem"),
    ("del ssl crl-file", "del ssl crl-file /etc/weir/crl.pem"),
    ("del ssl crt-list", "del ssl crt-list /etc/weir/sites.list /etc/weir/old.pem"),
    ("dump ssl cert", "dump ssl cert /etc/weir/site.pem"),
    ("enable frontend", "enable frontend web"),
    ("set maxconn server", "set maxconn server app/app1 100"),
    ("set rate-limit", "set rate-limit connections global 500"),
    ("set server", "set server app/app1 state drain"),
    ("set severity-output", "set severity-output number"),
    ("set ssl ca-file", "set ssl ca-file /etc/weir/ca.pem <<\\n$(cat ca.pem)\\n"),
    ("set ssl cert", "set ssl cert /etc/weir/site.pem <<\\n$(cat site.pem)\\n"),
    ("set ssl crl-file", "set ssl crl-file /etc/weir/crl.pem <<\\n$(cat crl.pem)\\n"),
    ("set ssl ocsp-response", "set ssl ocsp-response <<\\n$(base64 site.ocsp)\\n"),
    ("set ssl tls-key", "set ssl tls-key /etc/weir/tickets.keys <base64>"),
    ("set table", "set table app key 192.0.2.1 data.gpc0 1"),
    ("set timeout", "set timeout cli 1h"),
    ("set weight", "set weight app/app1 50%"),
    ("show resolvers", "show resolvers dns"),
    ("show table", "show table app data.http_req_rate gt 100"),
    ("show sess", "show sess all"),
    ("shutdown session", "shutdown session 0x55d2a4"),
    ("update ssl ocsp-response", "update ssl ocsp-response /etc/weir/site.pem"),
    ("wait", "wait 30s srv-removable app/app1"),
    ("httpclient", "expert-mode on; httpclient GET http://192.0.2.1/"),
    ("set var", "experimental-mode on; set var proc.five int(6)"),
    ("debug dev loop", "expert-mode on; debug dev loop 5"),
    ("show ssl ca-file", "show ssl ca-file /etc/weir/ca.pem"),
    ("show ssl cert", "show ssl cert /etc/weir/site.pem"),
    ("show ssl crl-file", "show ssl crl-file /etc/weir/crl.pem"),
    ("show ssl crt-list", "show ssl crt-list -n /etc/weir/sites.list"),
    ("show tls-keys", "show tls-keys"),
    ("show ssl sni", "show ssl sni -f web"),
];

/// `-c` accepts the example of every row, in the section named on the page.
#[test]
fn the_example_of_each_keyword_is_a_valid_configuration() {
    let mut refused = Vec::new();
    let mut tried = 0;
    for word in weir_config::vocabulary::words(&KEYWORDS).iter().filter(|word| word.state == WordState::Ready)
    {
        // The action of a script needs its script.
        if word.name == "lua.<name>" {
            continue;
        }
        let line = lines::of_word(word);
        let before = lines::BEFORE
            .iter()
            .find(|(place, name, _)| (*place, *name) == (word.place, word.name))
            .map_or("", |(.., before)| before);
        let (verdict, said) = crate::manual::read(&lines::configuration(&line, before));
        tried += 1;
        // The files in the example do not exist on any machine. Everything else must be valid.
        let complaints = said.lines().filter(|line| {
            line.starts_with("[ALERT]") && !line.contains("Fatal errors") && !line.contains("Error(s) found")
        });
        let complaints: Vec<&str> = complaints
            .filter(|line| {
                !(FILES_NEEDED.contains(&word.name)
                    && (line.contains("No such file") || line.contains("failed to open file")))
            })
            .collect();
        if verdict == "error" && !complaints.is_empty() {
            refused.push(format!("{:?} {}: {}\n{}", word.place, word.name, line.text, complaints.join("\n")));
        }
    }
    assert!(tried > 700, "{tried} examples");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Each command in the list exists and has a level. The line shown for a command begins with the command, or has it after the commands
/// that enable it.
#[test]
fn documented_commands_exist_with_a_level() {
    let entries = crate::explain::entries();
    for (name, line) in OTHER_COMMANDS {
        let known =
            entries.iter().any(|entry| EntryKind::of(entry) == EntryKind::Command && entry.name == *name);
        assert!(known, "{name}");
        assert!(
            name.starts_with('@') || line.split("; ").any(|part| part.starts_with(name)),
            "{name}: {line}"
        );
    }
}

/// Every fetch, converter, ACL keyword, alias, command and statistic has an example. `-c` accepts those that are lines.
#[test]
fn every_fetch_converter_acl_and_command_has_a_valid_example() {
    let examples = Examples::read();
    let entries = crate::explain::entries();
    let mut faults = Vec::new();
    let mut tried = 0;
    for entry in entries.iter().filter(|entry| {
        EntryKind::of(entry) != EntryKind::Configured && !entry.sort.ends_with(crate::explain::NOT_YET)
    }) {
        if examples.of(entry).is_none() {
            faults.push(format!("{}: {} lacks an example", entry.sort, entry.name));
        }
        let line = match EntryKind::of(entry) {
            EntryKind::Fetch => examples.lines.of_fetch(entry.name).cloned(),
            EntryKind::Converter => examples.lines.of_converter(entry.name).cloned(),
            _ => examples.line(entry),
        };
        let Some(line) = line else { continue };
        tried += 1;
        let (verdict, said) = crate::manual::read(&lines::configuration(&line, ""));
        if verdict == "error" {
            faults.push(format!("{}: {}\n{said}", entry.name, line.text));
        }
    }
    assert!(tried > 800, "{tried} examples");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `-c` accepts every value named in a list.
#[test]
fn every_listed_keyword_value_is_a_valid_configuration() {
    let mut refused = Vec::new();
    let mut tried = 0;
    for word in weir_config::vocabulary::words(&KEYWORDS) {
        for (value, _) in word.values {
            let mut written = (*value).to_owned();
            for (name, example) in PLACEHOLDERS {
                written = written.replace(name, example);
            }
            let word = ConfigWord { example: Box::leak(written.into_boxed_str()), ..word };
            let mut line = lines::of_word(&word);
            line.place = match (word.name, *value) {
                ("log-proto", _) | ("mode", "log") | ("balance", "log-hash <converters>" | "sticky") => "log",
                ("proto", "none") => "tcp",
                ("proto", "spop") => "spop",
                ("proto", "fcgi") => "fcgi",
                _ => line.place,
            };
            let (verdict, said) = crate::manual::read(&lines::configuration(&line, ""));
            tried += 1;
            if verdict == "error" && !said.contains("No such file") {
                refused.push(format!("{:?} {}: {}\n{said}", word.place, word.name, line.text));
            }
        }
    }
    assert!(tried > 120, "{tried} values");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Placeholders of values, with an example of each.
const PLACEHOLDERS: [(&str, &str); 16] = [
    ("<draws>", "3"),
    ("<name>", "name"),
    ("<expr>", "var(txn.user)"),
    ("<converters>", "lower"),
    ("<status>", "503"),
    ("<domain>", "a.example"),
    ("<time>", "1h"),
    ("<attribute>", "SameSite=Lax"),
    ("<codes>", "200,300-399"),
    ("<regex>", "^2"),
    ("<text>", "fine"),
    ("<fmt>", "%[be_name]"),
    ("<hexfmt>", "%[be_name,hex]"),
    ("<hex>", "0a0b"),
    ("<ip>", "192.0.2.1"),
    ("<key>", "src"),
];

/// A default written as arguments equals an omitted word, in one of the sections where the word is valid.
#[test]
fn writing_a_documented_default_equals_omitting_the_keyword() {
    use weir_config::vocabulary::DefaultValue;
    let mut faults = Vec::new();
    let mut tried = 0;
    for word in weir_config::vocabulary::words(&KEYWORDS).iter().filter(|word| word.state == WordState::Ready)
    {
        let line = match word.default {
            Some(DefaultValue::Written(arguments)) => format!("{} {arguments}", word.name),
            Some(DefaultValue::Described("off")) if !CANNOT_BE_TAKEN_BACK.contains(&word.name) => {
                format!("no option {}", word.name.trim_start_matches("option "))
            }
            _ => continue,
        };
        let (place, line, without) = match word.place {
            WordPlace::Bind => ("frontend", format!("bind :8443 {line}"), "bind :8443"),
            WordPlace::Server => {
                ("backend", format!("server app1 192.0.2.10:8080 {line}"), "server app1 192.0.2.10:8080")
            }
            _ => (lines::of_word(word).place, line, "#"),
        };
        tried += 1;
        let comes_of = |place: &'static str, text: &str| {
            let line = ConfigLine { place, text: text.to_owned() };
            crate::manual::understood(&lines::configuration(&line, ""))
        };
        // If the word is rejected, it does not change the result either.
        let is_same = |place: &&'static str| {
            let with = comes_of(place, &line);
            with.is_some() && with == comes_of(place, without)
        };
        let places = if place == "frontend" || place == "listen" {
            vec![place, "tcp", "backend"]
        } else {
            vec![place]
        };
        if !places.iter().any(is_same) {
            faults.push(format!("{:?}: '{line}' is something else than nothing", word.place));
        }
    }
    assert!(tried > 100, "{tried} defaults");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Options that cannot follow `no`.
const CANNOT_BE_TAKEN_BACK: [&str; 17] = [
    "external-check",
    "forwardfor",
    "httpchk",
    "httplog",
    "httpslog",
    "ldap-check",
    "mysql-check",
    "option force-set-var",
    "originalto",
    "pgsql-check",
    "redis-check",
    "smtpchk",
    "spop-check",
    "ssl-hello-chk",
    "tcp-check",
    "tcpka",
    "tcplog",
];

/// Words with a file name in their example.
const FILES_NEEDED: [&str; 22] = [
    "alias",
    "ca-file",
    "ca-verify-file",
    "crl-file",
    "crt",
    "crt-list",
    "default-crt",
    "errorfile",
    "h1-case-adjust-file",
    "issuer",
    "issuers-chain-path",
    "key",
    "load",
    "lua-load",
    "lua-load-per-thread",
    "ocsp",
    "ocsp-update",
    "sctl",
    "ssl",
    "tls-ticket-keys",
    "server-state-file",
    "ssl-dh-param-file",
];
