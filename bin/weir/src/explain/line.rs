//! `weir explain -f FILE LINE`: the effect of a line together with its `defaults`, and the lines that it inherits or replaces.

mod expressions;

use std::fmt::Write;

use weir_config::vocabulary::{self, ConfigWord, WordPlace};
use weir_stream::KEYWORDS;
use weir_syntax::{Line, SourceMap};

use super::{Explanation, entries};
use crate::arguments::Arguments;
use crate::{configuration, reports};

/// The explanation of line `number` of the last file on the command line.
///
/// # Errors
/// A text for standard error if the line does not exist or the files cannot be used.
pub(super) fn explain(arguments: &Arguments, number: u32) -> Result<String, String> {
    let checked = configuration::check(arguments);
    let lines = configuration::lines(&checked.sources, arguments);
    let file = arguments.files.last().map_or("", String::as_str);
    let sections = sections(&lines);
    let is_it = |line: &&Line| line.span().line == number && checked.sources.name(line.span().file) == file;
    let line = lines.iter().find(is_it).ok_or_else(|| nothing(&checked.sources, file, number))?;
    let section = sections.iter().position(|section| section.lines().any(|known| std::ptr::eq(known, line)));
    let section = section.ok_or_else(|| format!("{file}:{number} is outside of any section."))?;
    let book = Book {
        sources: &checked.sources,
        sections: &sections,
        words: vocabulary::words(&KEYWORDS).into_iter().collect(),
    };
    let mut text = book.about(section, line);
    let wrong = checked.findings.iter().filter(|finding| {
        finding.position.as_ref().is_some_and(|place| place.line == number && place.file == file)
    });
    wrong.for_each(|finding| text.push_str(&finding.line()));
    Ok(text)
}

/// Why a line cannot be explained.
fn nothing(sources: &SourceMap, file: &str, number: u32) -> String {
    let Some((_, source)) = sources.iter().find(|(_, source)| source.name() == file) else {
        return format!("{file} cannot be read.");
    };
    let Some((raw, _)) = source.line(number) else {
        return format!("{file}:{number} does not exist: the file has {} lines.", source.line_count());
    };
    let why = match raw.trim_ascii().first() {
        None => "it is empty",
        Some(b'#') => "it is a comment",
        Some(b'.') => "it begins or ends a conditional block, or is for its own reading",
        Some(_) => "it continues the line before it, or is in a conditional block that does not hold",
    };
    format!("{file}:{number} has nothing to explain: {why}.")
}

/// A section of the configuration.
struct ConfigSection<'l> {
    header: &'l Line,
    body: &'l [Line],
}

impl<'l> ConfigSection<'l> {
    fn lines(&self) -> impl Iterator<Item = &'l Line> {
        std::iter::once(self.header).chain(self.body)
    }

    fn kind(&self) -> &'l str {
        self.header.keyword().text()
    }

    fn is_proxy(&self) -> bool {
        ["defaults", "frontend", "listen", "backend"].contains(&self.kind())
    }

    /// The name of its `defaults` section, after `from`.
    fn from(&self) -> Option<&'l str> {
        let words = self.header.words();
        words.windows(2).find(|pair| pair[0].is("from")).map(|pair| pair[1].text())
    }
}

fn sections(lines: &[Line]) -> Vec<ConfigSection<'_>> {
    let begins = |line: &Line| weir_config::is_section(line.keyword().text());
    let parts = lines.chunk_by(|a, b| !begins(b) && a.span().file == b.span().file);
    let parts = parts.filter_map(|part| part.split_first());
    parts.filter(|(header, _)| begins(header)).map(|(header, body)| ConfigSection { header, body }).collect()
}

/// The lines of the configuration, grouped by section.
struct Book<'l> {
    sources: &'l SourceMap,
    sections: &'l [ConfigSection<'l>],
    words: Vec<ConfigWord>,
}

impl<'l> Book<'l> {
    fn about(&self, at: usize, line: &'l Line) -> String {
        let section = &self.sections[at];
        let mut text = format!("{}\n", self.shown(line));
        if std::ptr::eq(line, section.header) {
            self.whole_section(&mut text, at);
            return text;
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "  in {}", self.shown(section.header));
        if section.is_proxy() {
            self.inheritance(&mut text, at, line);
        }
        let known = entries();
        self.vocabulary(&mut text, section.kind(), line, &known);
        self.expressions(&mut text, at, line, &known);
        text
    }

    /// A line with its position: `a.cfg:12: timeout client 5s`.
    fn shown(&self, line: &Line) -> String {
        let span = line.span();
        format!("{}:{}: {}", self.sources.name(span.file), span.line, reports::words(line).trim_end())
    }

    /// The `defaults` sections from which a section inherits, nearest first.
    fn ancestors(&self, at: usize) -> Vec<usize> {
        let mut ancestors = Vec::new();
        let mut current = at;
        while let Some(parent) = self.parent(current).filter(|parent| !ancestors.contains(parent)) {
            ancestors.push(parent);
            current = parent;
        }
        ancestors
    }

    fn parent(&self, at: usize) -> Option<usize> {
        let section = &self.sections[at];
        let earlier = |wanted: Option<&str>| {
            self.sections[..at].iter().rposition(|other| {
                other.kind() == "defaults" && wanted.is_none_or(|name| other.header.text(1) == name)
            })
        };
        match (section.is_proxy(), section.from()) {
            (true, Some(name)) => earlier(Some(name)),
            // Without `from`, a `defaults` section starts empty.
            (true, None) if section.kind() != "defaults" => earlier(None),
            _ => None,
        }
    }

    /// Writes the effective lines of the section, with their origins.
    fn whole_section(&self, text: &mut String, at: usize) {
        let section = &self.sections[at];
        let own: Vec<&Line> = section.body.iter().filter(|line| self.is_in_force(section, line)).collect();
        let mut taken: Vec<String> = own.iter().filter_map(|line| self.setting(line)).collect();
        let mut effective: Vec<&Line> = Vec::new();
        for ancestor in self.ancestors(at) {
            let part = self.inherited_lines(section, ancestor, &taken);
            taken.extend(part.iter().filter_map(|line| self.setting(line)));
            effective.splice(0..0, part);
        }
        if !effective.is_empty() {
            text.push_str("  inherits\n");
        }
        effective.iter().for_each(|line| {
            let _ = writeln!(text, "    {}", self.shown(line));
        });
        text.push_str(if own.is_empty() { "  says nothing itself\n" } else { "  says itself\n" });
        own.iter().for_each(|line| {
            let _ = writeln!(text, "    {}", self.shown(line));
        });
    }

    /// Writes the effective lines that `section` inherits from a `defaults` section. `taken` contains the settings made closer to it.
    fn inherited_lines(
        &self,
        section: &ConfigSection<'l>,
        ancestor: usize,
        taken: &[String],
    ) -> Vec<&'l Line> {
        let source = &self.sections[ancestor];
        let no_log = section.body.iter().any(|line| line.keyword().is("no") && line.text(1) == "log");
        let holds = |line: &&Line| {
            self.is_in_force(source, line)
                && self.is_valid_in(line, section.kind())
                && !(no_log && line.keyword().is("log"))
                && self.setting(line).is_none_or(|setting| !taken.contains(&setting))
        };
        source.body.iter().filter(holds).collect()
    }

    /// Whether the line is effective: no later line of the section replaces it.
    fn is_in_force(&self, section: &ConfigSection<'l>, line: &Line) -> bool {
        let Some(setting) = self.setting(line) else { return true };
        let last = section.body.iter().rev().find(|other| self.setting(other).as_ref() == Some(&setting));
        last.is_some_and(|last| std::ptr::eq(last, line))
    }

    fn inheritance(&self, text: &mut String, at: usize, line: &'l Line) {
        let section = &self.sections[at];
        let Some(setting) = self.setting(line) else {
            if SERVERS.contains(&line.text(0)) {
                self.write_default_servers(text, at, line);
            }
            if section.kind() != "defaults" && self.is_inherited(line) {
                self.write_added(text, at, line);
            }
            return;
        };
        let same = |other: &&Line| self.setting(other).as_ref() == Some(&setting);
        if !self.is_in_force(section, line) {
            let last = section.body.iter().rev().find(same);
            last.iter().for_each(|last| {
                let _ = writeln!(text, "  is replaced by {}", self.shown(last));
            });
            return;
        }
        let inherited = self
            .ancestors(at)
            .into_iter()
            .find_map(|ancestor| self.sections[ancestor].body.iter().rev().find(same));
        if let Some(other) = inherited {
            let _ = writeln!(text, "  replaces {}", self.shown(other));
        }
        if section.kind() == "defaults" {
            self.heirs(text, at, line, &setting);
        }
    }

    /// Writes the `default-server` lines that apply to a server.
    fn write_default_servers(&self, text: &mut String, at: usize, line: &Line) {
        let inherited =
            self.ancestors(at).into_iter().rev().flat_map(|ancestor| self.sections[ancestor].body);
        let earlier = self.sections[at].body.iter().take_while(|other| !std::ptr::eq(*other, line));
        for other in inherited.chain(earlier).filter(|other| other.keyword().is("default-server")) {
            let _ = writeln!(text, "  begins with {}", self.shown(other));
        }
    }

    /// Writes the inherited lines to which this line adds.
    fn write_added(&self, text: &mut String, at: usize, line: &Line) {
        for ancestor in self.ancestors(at) {
            let alike =
                self.sections[ancestor].body.iter().filter(|other| other.keyword().is(line.keyword().text()));
            for other in alike {
                let _ = writeln!(text, "  comes after {}", self.shown(other));
            }
        }
    }

    /// Writes the sections that inherit a line of a `defaults` section, and the lines that replace it.
    fn heirs(&self, text: &mut String, at: usize, line: &Line, setting: &String) {
        for (index, section) in self.sections.iter().enumerate() {
            if !self.ancestors(index).contains(&at) || !self.is_valid_in(line, section.kind()) {
                continue;
            }
            let says = |section: &ConfigSection<'l>| {
                section.body.iter().rev().find(|other| self.setting(other).as_ref() == Some(setting))
            };
            // The nearest section with the setting wins.
            let nearest = std::iter::once(index)
                .chain(self.ancestors(index))
                .find_map(|known| Some((known, says(&self.sections[known])?)));
            match nearest {
                Some((known, _)) if known == at => {
                    let _ = writeln!(text, "  holds in {}", self.shown(section.header));
                }
                Some((_, other)) => {
                    let _ = writeln!(
                        text,
                        "  is replaced in {}, by {}",
                        self.shown(section.header),
                        self.shown(other)
                    );
                }
                None => {}
            }
        }
    }

    /// The setting of a line that a later line for the same setting would replace. `None` for a line that adds to others.
    fn setting(&self, line: &Line) -> Option<String> {
        let negated = ["no", "default"].contains(&line.text(0));
        let from = usize::from(negated);
        if ERROR_PAGES.contains(&line.text(from)) {
            let status = if line.text(1) == "status" { 2 } else { 1 };
            return Some(format!("error {}", line.text(status)));
        }
        if line.text(from) == "option" {
            let name = line.text(from + 1);
            let name = if LOG_LINES.contains(&name) { "log-format" } else { name };
            return Some(format!("option {name}"));
        }
        if line.text(from) == "log-format" {
            return Some("option log-format".to_owned());
        }
        let word = self.word(WordPlace::Proxy, line, from)?;
        let first = word.name.split(' ').next().unwrap_or_default();
        (!ADDED.contains(&first)).then(|| word.name.to_owned())
    }

    /// Whether a line like this is allowed in a `defaults` section.
    fn is_inherited(&self, line: &Line) -> bool {
        self.is_valid_in(line, "defaults") || RULES.contains(&line.text(0))
    }

    fn is_valid_in(&self, line: &Line, section: &str) -> bool {
        let from = usize::from(["no", "default"].contains(&line.text(0)));
        let word = match line.text(from) {
            "option" => self.word(WordPlace::Option, line, from + 1),
            _ => self.word(WordPlace::Proxy, line, from),
        };
        word.is_some_and(|word| vocabulary::written_in(&KEYWORDS, word).contains(&section))
    }

    /// The vocabulary row that matches the most words of the line, starting at word `from`.
    fn word(&self, place: WordPlace, line: &Line, from: usize) -> Option<&ConfigWord> {
        let matches = |word: &&ConfigWord| {
            word.place == place
                && word
                    .name
                    .split(' ')
                    .enumerate()
                    .all(|(index, part)| line.text(from + index).split('(').next() == Some(part))
        };
        self.words.iter().filter(matches).max_by_key(|word| word.name.len())
    }

    /// Writes the meaning of the line's words.
    fn vocabulary(&self, text: &mut String, section: &str, line: &Line, known: &[Explanation]) {
        let from = usize::from(["no", "default"].contains(&line.text(0)));
        let place = if ["defaults", "frontend", "listen", "backend"].contains(&section) {
            WordPlace::Proxy
        } else {
            WordPlace::ALL
                .into_iter()
                .find(|place| place.section() == Some(section))
                .unwrap_or(WordPlace::Proxy)
        };
        let mut found: Vec<&ConfigWord> = Vec::new();
        found.extend(self.word(place, line, from));
        match line.text(from) {
            "option" if place == WordPlace::Proxy => {
                found.extend(self.word(WordPlace::Option, line, from + 1))
            }
            "bind" => found.extend((2..line.len()).filter_map(|at| self.word(WordPlace::Bind, line, at))),
            "server" => found.extend((3..line.len()).filter_map(|at| self.word(WordPlace::Server, line, at))),
            "default-server" => {
                found.extend((1..line.len()).filter_map(|at| self.word(WordPlace::Server, line, at)))
            }
            "filter" => found.extend(self.word(WordPlace::Filter, line, 1)),
            "tcp-request" | "tcp-response" => found.extend(self.word(WordPlace::Action, line, 2)),
            rule if RULES.contains(&rule) => found.extend(self.word(WordPlace::Action, line, 1)),
            _ => {}
        }
        for word in found {
            let is_it = |entry: &&Explanation| entry.place == Some(word.place) && entry.name == word.name;
            known.iter().find(is_it).iter().for_each(|entry| text.push_str(&entry.text()));
        }
    }
}

/// Keywords that define error pages. The last line for a status wins.
const ERROR_PAGES: [&str; 5] = ["errorfile", "errorloc", "errorloc302", "errorloc303", "http-error"];

/// Options that set the format of log lines. The last one wins.
const LOG_LINES: [&str; 3] = ["httplog", "tcplog", "httpslog"];

/// Rules. Rules of a `defaults` section run before the proxy's own rules.
const RULES: [&str; 5] =
    ["http-request", "http-response", "http-after-response", "tcp-request", "tcp-response"];

/// Lines that declare servers.
const SERVERS: [&str; 2] = ["server", "server-template"];

/// First words of lines that add to earlier lines instead of replacing them.
const ADDED: [&str; 29] = [
    "acl",
    "bind",
    "server",
    "server-template",
    "default-server",
    "http-request",
    "http-response",
    "http-after-response",
    "tcp-request",
    "tcp-response",
    "use_backend",
    "use-server",
    "redirect",
    "filter",
    "log",
    "no",
    "stats",
    "stick",
    "capture",
    "declare",
    "http-check",
    "tcp-check",
    "compression",
    "errorfiles",
    "force-persist",
    "ignore-persist",
    "monitor",
    "email-alert",
    "ssl-f-use",
];
