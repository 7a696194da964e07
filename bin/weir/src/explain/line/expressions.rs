//! Explains a line's expressions: the condition by groups, each fetch and converter, and the lines of named ACLs and tables.

use std::fmt::Write;

use weir_expr::alias::Alias;
use weir_syntax::Line;

use super::super::{Explanation, parts};
use super::{Book, RULES};

/// The kinds of entries that occur in expressions.
const PARTS: [&str; 4] = ["Sample fetch", "Keyword of ACLs", "Converter", "Alias of log"];

impl<'l> Book<'l> {
    /// Appends the meaning of a line's expressions.
    pub(super) fn expressions(&self, text: &mut String, at: usize, line: &'l Line, known: &[Explanation]) {
        let words: Vec<&str> = line.words().iter().map(|word| word.text()).collect();
        let condition = condition_of(&words);
        let mut explained =
            ExpressionExplanation { known, lines: Vec::new(), names: Vec::new(), text: String::new() };
        self.condition(&mut explained, at, &words[condition..]);
        for expression in written(&words[..condition], known) {
            explained.expression(expression);
            self.tables(&mut explained, at, expression);
        }
        for word in words.iter().filter(|word| word.contains('%')) {
            self.format(&mut explained, at, word);
        }
        self.named(&mut explained, &words);
        let is_empty = explained.text.is_empty() && explained.lines.is_empty();
        text.push_str(if is_empty || explained.text.starts_with('\n') { "" } else { "\n" });
        text.push_str(&explained.text);
        for line in explained.lines {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  names {}", self.shown(line));
        }
    }

    /// Appends the tests of a condition, group by group.
    fn condition(&self, explained: &mut ExpressionExplanation<'_, 'l>, at: usize, words: &[&str]) {
        let Some((first, words)) = words.split_first() else { return };
        let groups = groups(words);
        for (index, group) in groups.iter().enumerate() {
            let joined = match (index, *first, group.len()) {
                (0, "unless", 1) => "\n  unless this holds:\n",
                (0, "unless", _) => "\n  unless all of these hold:\n",
                (0, _, 1) => "\n  if this holds:\n",
                (0, ..) => "\n  if all of these hold:\n",
                (_, _, 1) => "  or this:\n",
                _ => "  or all of these:\n",
            };
            explained.text.push_str(joined);
            for test in group {
                let not = if test.is_reversed { "not " } else { "" };
                // Writing to a string does not fail.
                let _ = writeln!(explained.text, "    {not}{}", test.words.join(" "));
                if test.is_name {
                    self.acl(explained, at, test.words[0]);
                    continue;
                }
                for expression in test.words.iter().take(1) {
                    explained.expression(expression);
                    self.tables(explained, at, expression);
                }
            }
        }
    }

    /// Appends the lines that declare an ACL, in the section and in its `defaults` sections.
    fn acl(&self, explained: &mut ExpressionExplanation<'_, 'l>, at: usize, name: &str) {
        let sections = std::iter::once(at).chain(self.ancestors(at));
        let lines: Vec<&Line> = sections
            .flat_map(|section| self.sections[section].body)
            .filter(|line| line.keyword().is("acl") && line.text(1) == name)
            .collect();
        if lines.is_empty() {
            explained.text.push_str("      an ACL that every configuration has, or none\n");
        }
        for line in lines {
            let _ = writeln!(explained.text, "      {}", self.shown(line));
            explained.expression(line.text(2));
            self.tables(explained, at, line.text(2));
        }
    }

    /// Appends the expressions and aliases of a log format.
    fn format(&self, explained: &mut ExpressionExplanation<'_, 'l>, at: usize, word: &str) {
        for (begin, _) in word.match_indices('%') {
            let rest = &word[begin + 1..];
            // Skip flags and the name of a field.
            let rest =
                rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or(rest, |(_, rest)| rest);
            let rest =
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
            if let Some(expression) = rest.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                explained.expression(expression);
                self.tables(explained, at, expression);
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let alias = Alias::ROWS.iter().map(|row| row.name).filter(|name| rest[..end].starts_with(name));
            if let Some(name) = alias.max_by_key(|name| name.len()) {
                explained.part(name, "Alias of log");
            }
        }
    }

    /// Appends the tables read by an expression, and the `track-sc` rules of its counters.
    fn tables(&self, explained: &mut ExpressionExplanation<'_, 'l>, at: usize, expression: &str) {
        for (name, arguments) in calls(expression) {
            arguments.iter().for_each(|argument| self.table(explained, argument));
            let Some((family, what)) = name.split_once('_') else { continue };
            let number = match family {
                // For arrays, the counter is the second argument, after the index.
                "sc" if arguments.len() > 1
                    && (what.contains("gpc") || what.contains("gpt"))
                    && !what.ends_with('0')
                    && !what.ends_with('1') =>
                {
                    arguments[1]
                }
                "sc" => arguments.first().copied().unwrap_or_default(),
                _ => family.strip_prefix("sc").unwrap_or_default(),
            };
            if number.parse::<u8>().is_err() {
                continue;
            }
            let word = format!("track-sc{number}");
            let sections = std::iter::once(at).chain(self.ancestors(at));
            for section in sections {
                let tracks =
                    |line: &&Line| RULES.contains(&line.text(0)) && (1..3).any(|at| line.text(at) == word);
                for line in self.sections[section].body.iter().filter(tracks) {
                    explained.line(line);
                    let words = line.words();
                    let named = words.windows(2).find(|pair| pair[0].is("table")).map(|pair| pair[1].text());
                    self.table(explained, named.unwrap_or(self.sections[at].header.text(1)));
                }
            }
        }
    }

    /// Appends the line of a stick-table, given the name of its section.
    fn table(&self, explained: &mut ExpressionExplanation<'_, 'l>, name: &str) {
        let sections =
            self.sections.iter().filter(|section| !name.is_empty() && section.header.text(1) == name);
        let lines = sections.flat_map(|section| section.body).filter(|line| line.keyword().is("stick-table"));
        lines.for_each(|line| explained.line(line));
    }

    /// Appends the sections named in the line: backends, tables.
    fn named(&self, explained: &mut ExpressionExplanation<'_, 'l>, words: &[&str]) {
        if let ["use_backend" | "default_backend", name, ..] = words {
            let headers = self.sections.iter().map(|section| section.header);
            let is_it = |header: &&'l Line| {
                ["backend", "listen"].contains(&header.text(0)) && header.text(1) == *name
            };
            headers.filter(is_it).for_each(|header| explained.line(header));
        }
        for pair in words.windows(2).filter(|pair| pair[0] == "table") {
            self.table(explained, pair[1]);
        }
    }
}

/// The explanation of a line's expressions, in progress.
struct ExpressionExplanation<'k, 'l> {
    known: &'k [Explanation],
    /// Other lines referred to by the line.
    lines: Vec<&'l Line>,
    /// The names explained so far.
    names: Vec<String>,
    text: String,
}

impl<'l> ExpressionExplanation<'_, 'l> {
    fn line(&mut self, line: &'l Line) {
        if !self.lines.iter().any(|known| std::ptr::eq(*known, line)) {
            self.lines.push(line);
        }
    }

    /// Appends the fetch and the converters of an expression.
    fn expression(&mut self, expression: &str) {
        for (index, (name, _)) in calls(expression).into_iter().enumerate() {
            match index {
                0 => PARTS[..2].iter().for_each(|sort| self.part(name, sort)),
                _ => self.part(name, PARTS[2]),
            }
        }
    }

    /// Appends a part of an expression, unless it is already explained.
    fn part(&mut self, name: &str, sort: &str) {
        let entry = self.known.iter().find(|entry| entry.name == name && entry.sort.starts_with(sort));
        let Some(entry) = entry.filter(|entry| !self.names.contains(&format!("{sort} {}", entry.name)))
        else {
            return;
        };
        self.names.push(format!("{sort} {name}"));
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "      {name}: {}. {}", entry.help.trim_end_matches('.'), entry.sort);
    }
}

/// Index of the `if` or `unless` that starts the condition. Without a condition, the number of words.
fn condition_of(words: &[&str]) -> usize {
    let found = words.iter().skip(1).position(|word| ["if", "unless"].contains(word));
    found.map_or(words.len(), |at| at + 1)
}

/// The expressions of a line outside its condition and log formats.
fn written<'w>(words: &[&'w str], known: &[Explanation]) -> Vec<&'w str> {
    match words {
        ["acl", _, expression, ..] | ["balance", "hash", expression, ..] | ["stick", _, expression, ..] => {
            vec![*expression]
        }
        [rules, rest @ ..] if RULES.contains(rules) => {
            let is_fetch = |word: &&&str| {
                let name = calls(word).first().map_or("", |(name, _)| *name);
                known.iter().any(|entry| entry.name == name && entry.sort.starts_with(PARTS[0]))
            };
            // Some headers have the name of a fetch.
            let takes_expression = |action: &&&str| {
                let action = action.split('(').next().unwrap_or_default();
                known.iter().any(|entry| {
                    entry.name == action
                        && entry.sort.starts_with("Action")
                        && ["<expr>", "<key>", "<sample>"].iter().any(|part| entry.arguments.contains(part))
                })
            };
            let Some(action) = rest.iter().take(2).position(|word| takes_expression(&word)) else {
                return Vec::new();
            };
            rest[action + 1..].iter().filter(is_fetch).take(1).copied().collect()
        }
        ["server" | "default-server" | "server-template", rest @ ..] => {
            let of_words =
                rest.windows(2).filter(|pair| ["sni", "pool-conn-name", "check-sni"].contains(&pair[0]));
            of_words.map(|pair| pair[1]).collect()
        }
        _ => Vec::new(),
    }
}

struct ConditionTest<'w> {
    is_reversed: bool,
    /// Whether the test is the name of an ACL.
    is_name: bool,
    words: Vec<&'w str>,
}

/// The tests of a condition, in groups separated by `or`.
fn groups<'w>(words: &[&'w str]) -> Vec<Vec<ConditionTest<'w>>> {
    let mut groups = vec![Vec::new()];
    let mut is_reversed = false;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let bare = word.trim_start_matches('!');
        is_reversed ^= (word.len() - bare.len()) % 2 == 1;
        let test = match bare {
            "" => continue,
            "or" | "||" => {
                groups.push(Vec::new());
                continue;
            }
            "{" => ConditionTest {
                is_reversed,
                is_name: false,
                words: rest.by_ref().take_while(|word| **word != "}").copied().collect(),
            },
            name => ConditionTest { is_reversed, is_name: true, words: vec![name] },
        };
        is_reversed = false;
        if let Some(group) = groups.last_mut().filter(|_| !test.words.is_empty()) {
            group.push(test);
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// The calls in an expression, each with its arguments.
fn calls(expression: &str) -> Vec<(&str, Vec<&str>)> {
    parts(expression)
        .into_iter()
        .map(|call| {
            let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
            let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
            (name, arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_conditions_into_groups_of_tests() {
        let explained = |text: &str| -> Vec<String> {
            let words: Vec<&str> = text.split(' ').collect();
            let shown = |test: &ConditionTest<'_>| {
                format!(
                    "{}{}{}",
                    if test.is_reversed { "!" } else { "" },
                    if test.is_name { "name " } else { "" },
                    test.words.join(" ")
                )
            };
            groups(&words)
                .iter()
                .map(|group| group.iter().map(shown).collect::<Vec<_>>().join(" & "))
                .collect()
        };
        assert_eq!(explained("a !b"), ["name a & !name b"]);
        assert_eq!(
            explained("{ src 10.0.0.1 } || !{ path /a } ! c or d"),
            ["src 10.0.0.1", "!path /a & !name c", "name d"]
        );
        assert_eq!(explained("{ path"), ["path"]);
        assert_eq!(explained("or or"), [""; 0]);
    }

    #[test]
    fn parses_expressions_into_calls_with_arguments() {
        assert_eq!(calls("src"), [("src", vec![])]);
        assert_eq!(
            calls("hdr(host,-1),lower,map(a,b)"),
            [("hdr", vec!["host", "-1"]), ("lower", vec![]), ("map", vec!["a", "b"])]
        );
        assert_eq!(calls("x(("), [("x", vec!["("])]);
    }
}
