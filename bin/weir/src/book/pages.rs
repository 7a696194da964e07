//! The pages of the reference.

use std::fmt::Write;

use weir_config::vocabulary::{self, ConfigWord, WordPlace, WordState};
use weir_stream::KEYWORDS;

use super::examples::{Examples, differences};
use super::{EntryKind, GeneratedFile, sentence, sorted};
use crate::arguments::FLAGS;
use crate::explain;
use crate::explain::{Explanation, NOT_YET, codes, entries, lines, statuses};
use crate::problems;

pub(super) fn all() -> Vec<GeneratedFile> {
    let entries = entries();
    let mut pages: Vec<GeneratedFile> = PLACES
        .iter()
        .map(|(name, title, about, places)| page(name, place_page(title, about, places)))
        .collect();
    let examples = Examples::read();
    for (name, title, about, sort) in TABLES {
        pages.push(page(name, table_page(title, about, *sort, &sorted(&entries, *sort), &examples)));
    }
    pages.push(page("command-line", command_line()));
    pages.push(page("termination-codes", termination_codes()));
    pages.push(page("problems", problem_codes()));
    pages
}

fn page(name: &str, text: String) -> GeneratedFile {
    GeneratedFile { path: format!("doc/manual/src/reference/{name}.md"), text }
}

fn head(title: &str, about: &str) -> String {
    format!("# {title}\n\n<!-- Generated from the rows of the program: make reference. -->\n\n{about}\n\n")
}

/// One section for each implemented word, and a list of the others.
fn place_page(title: &str, about: &str, places: &[WordPlace]) -> String {
    let mut text = head(title, about);
    let words = vocabulary::words(&KEYWORDS);
    for place in places {
        let of_place = || words.iter().filter(|word| word.place == *place);
        if places.len() > 1 {
            let _ = writeln!(text, "## {}\n", place.title());
        }
        let level = if places.len() > 1 { "###" } else { "##" };
        of_place()
            .filter(|word| word.state == WordState::Ready)
            .for_each(|word| section(&mut text, level, word));
        let of_state = |state| of_place().filter(move |word| word.state == state);
        let missing: Vec<String> =
            of_state(WordState::NotYet).map(|word| format!("`{}`", word.name)).collect();
        if !missing.is_empty() {
            let _ =
                writeln!(text, "{level} Not there yet\n\nRefused with an error: {}.\n", missing.join(", "));
        }
        let removed: Vec<String> =
            of_state(WordState::Removed).map(|word| format!("`{}` ({})", word.name, word.help)).collect();
        if !removed.is_empty() {
            let _ = writeln!(
                text,
                "{level} No longer in the language\n\nAn error that says what to use instead: {}.\n",
                removed.join("; ")
            );
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn section(text: &mut String, level: &str, word: &ConfigWord) {
    let _ = writeln!(text, "{level} {}\n\n```text\n{}\n```\n", word.name, written(word, word.arguments));
    let _ = writeln!(text, "{}\n", sentence(word.help));
    let _ = writeln!(text, "- Valid in: {}", vocabulary::written_in(&KEYWORDS, word).join(", "));
    if let Some(default) = word.default {
        let _ = writeln!(text, "- Default: {}", explain::default(default, "`"));
    }
    for (index, (value, help)) in word.values.iter().enumerate() {
        text.push_str(if index == 0 { "- Values:\n" } else { "" });
        let _ = writeln!(text, "  - `{value}`: {help}");
    }
    let _ = writeln!(text, "- Example: `{}`", lines::of_word(word).text);
    for difference in differences(word) {
        let _ = writeln!(text, "- Differs from HAProxy: {difference}");
    }
    text.push('\n');
}

/// A word as written in a configuration line.
fn written(word: &ConfigWord, arguments: &str) -> String {
    let option = if word.place == WordPlace::Option { "option " } else { "" };
    format!("{option}{}", syntax(word.name, arguments))
}

/// A word with its arguments. Arguments in parentheses follow without a space.
fn syntax(name: &str, arguments: &str) -> String {
    let separator = if arguments.is_empty() || arguments.starts_with('(') { "" } else { " " };
    format!("{name}{separator}{arguments}")
}

fn table_page(
    title: &str,
    about: &str,
    sort: EntryKind,
    entries: &[&Explanation],
    examples: &Examples,
) -> String {
    let mut text = head(title, about);
    let (missing, there): (Vec<&&Explanation>, Vec<&&Explanation>) =
        entries.iter().partition(|entry| entry.sort.ends_with(NOT_YET));
    for entry in there {
        // On a page, angle brackets would be HTML tags.
        let quote = if entry.name.contains('<') { "`" } else { "" };
        let syntax = syntax(entry.name, &entry.arguments);
        let _ = writeln!(text, "## {quote}{}{quote}\n\n```text\n{syntax}\n```\n", entry.name);
        let _ = writeln!(text, "{}\n", sentence(&entry.help));
        let types = entry.sort.split_once(", ").map(|(_, types)| types);
        let facts = [
            types
                .filter(|_| [EntryKind::Fetch, EntryKind::Converter].contains(&EntryKind::of(entry)))
                .map(sentence),
            Some(entry.sort.clone()).filter(|_| EntryKind::of(entry) == EntryKind::Statistic),
            examples.of(entry).map(|example| format!("Example: {example}")),
        ];
        let facts = facts.into_iter().flatten().chain(examples.differences(entry));
        let facts: String = facts.map(|fact| format!("- {fact}\n")).collect();
        text.push_str(&facts);
        text.push_str(if facts.is_empty() { "" } else { "\n" });
    }
    if sort == EntryKind::Alias {
        let _ = writeln!(text, "## Formats that differ from HAProxy\n");
        Examples::differences_of_formats().iter().for_each(|difference| {
            let _ = writeln!(text, "- {}", sentence(difference));
        });
        text.push('\n');
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|entry| format!("`{}`", entry.name)).collect();
        let _ = writeln!(text, "## Not there yet\n\nRefused with an error: {}.\n", names.join(", "));
    }
    text.trim_end().to_owned() + "\n"
}

fn command_line() -> String {
    let about = "```text\nweir [-f <file|folder>]... [options] [-- <file>...]\nweir explain <word|code>\nweir explain -f <file> <line>\n\
                 weir lint -f <file> [--format json]\nweir diff <file|folder> <file|folder>\n```\n\nThe options are those of HAProxy, and a few more. Exit statuses: 0 when all \
                 went well, 1 when the configuration cannot be used or the start failed, 2 when `-c` finds a configuration that \
                 listens nowhere. `weir lint` ends with 0 when it finds nothing, 1 when it finds something, 2 when the configuration \
                 cannot be used. `weir diff` prints a line for each object (a proxy, a server, a table) that was added, removed or changed in \
                 meaning; it ends with 0 when both configurations mean the same, 1 when they differ, 2 when one cannot be used.";
    let mut text = head("The command line", about);
    for flag in FLAGS {
        let attached = if flag.value.is_empty() || flag.value.starts_with('[') { "" } else { " " };
        let _ = writeln!(
            text,
            "## {}\n\n```text\n{}{attached}{}\n```\n\n{}\n",
            flag.name,
            flag.name,
            flag.value,
            sentence(flag.help)
        );
    }
    text.trim_end().to_owned() + "\n"
}

fn termination_codes() -> String {
    let about = "The field `%tsc` of a log line (`%ts` without cookies) says how a session ended: who ended it, in which phase, and \
                 what happened to the persistence cookie of the request and of the response. `weir explain sHNN` prints the same in the \
                 terminal. `show timeline` of the runtime API has the moments of each of the last streams that ended badly.";
    let mut text = head("Termination codes", about);
    for (title, letters) in codes::letters() {
        let _ = writeln!(text, "## {title}\n\n| letter | meaning |\n|---|---|");
        letters.iter().for_each(|(letter, meaning)| {
            let _ = writeln!(text, "| `{letter}` | {meaning} |");
        });
        text.push('\n');
    }
    text.push_str("## What to look at\n\n");
    for (pair, advice) in codes::ADVICE {
        let _ = writeln!(text, "### {pair}\n\n{advice}\n");
    }
    text.push_str("## Statuses of weir's own responses\n\n`weir explain 503` prints the same text. Where the code is `--`, the server sent the status.\n\n");
    text.push_str("| status | when | what to look at |\n|---|---|---|\n");
    for (status, when, look) in statuses::STATUSES {
        let _ = writeln!(text, "| {status} | {when} | {look} |");
    }
    text.trim_end().to_owned() + "\n"
}

fn problem_codes() -> String {
    let about = "`weir -c --format json` and `weir lint` give each finding a code. A code keeps its meaning; `weir explain C101` prints \
                 the same in the terminal.";
    let mut text = head("Codes of problems", about);
    let mut rows: Vec<_> = problems::all().collect();
    rows.sort_by_key(|row| row.code);
    for row in rows {
        let _ = writeln!(text, "## {}\n\n{} {}\n", row.code, sentence(row.title), row.help);
    }
    text.trim_end().to_owned() + "\n"
}

/// File name, title and introduction of each page, and the places of its words.
static PLACES: &[(&str, &str, &str, &[WordPlace])] = &[
    (
        "sections",
        "Sections",
        "A configuration is a list of sections. A section begins with one of these words and ends where the next one begins.",
        &[WordPlace::Section],
    ),
    ("global", "Words of global", "Settings of the process as a whole.", &[WordPlace::Global]),
    (
        "proxies",
        "Words of proxies",
        "Lines of `defaults`, `frontend`, `listen` and `backend` sections. What follows `option`, `bind`, `server` and `filter`, and \
         the actions of rules, have pages of their own: [options](options.md), [bind lines](bind.md), [server lines](server.md), \
         [actions](actions.md), [filters](filters.md).",
        &[WordPlace::Proxy],
    ),
    (
        "options",
        "Options",
        "Written `option NAME`, and `no option NAME` to take one back.",
        &[WordPlace::Option],
    ),
    ("bind", "Words of bind lines", "They follow the addresses of a `bind` line.", &[WordPlace::Bind]),
    (
        "server",
        "Words of server lines",
        "They follow the address of a `server` line, or `default-server`.",
        &[WordPlace::Server],
    ),
    (
        "actions",
        "Actions",
        "What a rule does. 'Valid in' says which rules have the action: `http-request deny`, `tcp-request content accept`. Every rule \
         may end with a condition, `if ...` or `unless ...`.",
        &[WordPlace::Action],
    ),
    (
        "filters",
        "Filters",
        "They follow `filter` and see the bytes of both directions.",
        &[WordPlace::Filter],
    ),
    (
        "other-sections",
        "Words of other sections",
        "The lines of the sections that are neither `global` nor a proxy.",
        &[
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
        ],
    ),
    (
        "engines",
        "Words of engine files",
        "An engine of `filter spoe` has a file of its own: `filter spoe engine NAME config FILE`. The lines of the engine follow a line \
         with its name in brackets, `[NAME]`, up to the next such line. Its sections are one `spoe-agent` and any number of \
         `spoe-message` and `spoe-group` sections.",
        &[WordPlace::SpoeAgent, WordPlace::SpoeMessage, WordPlace::SpoeGroup],
    ),
];

/// File name, title and introduction of each page, and the kind of its entries.
static TABLES: &[(&str, &str, &str, EntryKind)] = &[
    (
        "fetches",
        "Sample fetches",
        "A sample fetch takes a value out of a connection, a request or a response. It is used in conditions, log formats (`%[...]`) \
         and rules, and may be followed by converters. The values of the examples are those that the tests get.",
        EntryKind::Fetch,
    ),
    (
        "acl-keywords",
        "Keywords of ACLs",
        "Short names of a sample fetch with a way to match it.",
        EntryKind::AclKeyword,
    ),
    (
        "converters",
        "Converters",
        "A converter changes a value: `path,lower,map(file)`. The values of the examples are those that the tests get.",
        EntryKind::Converter,
    ),
    (
        "log-aliases",
        "Log aliases",
        "Short names in log formats: `%ST` and `%[ST]` are the same.",
        EntryKind::Alias,
    ),
    (
        "commands",
        "Commands of the runtime API",
        "Written to a `stats socket`, one a line.",
        EntryKind::Command,
    ),
    (
        "statistics",
        "Statistics",
        "The columns of `show stat` and the lines of `show info`.",
        EntryKind::Statistic,
    ),
];
