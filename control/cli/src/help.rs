//! `help`, and the response to an unknown command.

use std::fmt::Write;

use crate::command::{Command, EXPERIMENTAL, EXPERT, HIDDEN, MASTER, SERVING};
use crate::modes::SessionModes;
use crate::target::ScriptCommandView;

/// Maximum number of suggestions if no word of the input resembles a command.
const MOST_SUGGESTIONS: usize = 5;

/// Maximum number of typos in a word.
const MOST_TYPOS: usize = 2;

/// The column of the descriptions.
const SYNTAX_WIDTH: usize = 40;

/// The rows and the commands of scripts, for a session on a side. It may not see all of them.
pub(crate) struct HelpScope<'a> {
    pub all: &'a [&'a Command],
    pub scripts: &'a [ScriptCommandView],
    pub side: u8,
    pub modes: &'a SessionModes,
}

impl HelpScope<'_> {
    /// The response to an unknown command.
    pub(crate) fn unknown(&self, words: &[String]) -> String {
        let title = match words.first() {
            None => "Unknown command. Please enter one of the following commands only:".to_owned(),
            Some(first) => {
                format!("Unknown command: '{first}', but maybe one of the following ones is a better match:")
            }
        };
        self.list(&title, words)
    }

    /// The output of `help`: the commands that begin with these words. If none does, similar commands, or all.
    pub(crate) fn help(&self, words: &[String]) -> String {
        self.list("The following commands are valid at this level:", words)
    }

    fn list(&self, title: &str, words: &[String]) -> String {
        let mut text = format!("{title}\n");
        let rows = self.all.iter().copied().filter(|command| self.offers(command));
        let scripts = self.scripts.iter().map(HelpEntry::of_script);
        let mut offered: Vec<HelpEntry<'_>> = rows.map(HelpEntry::of_command).chain(scripts).collect();
        offered.sort_by_key(|entry| entry.name);
        matching(&offered, words).iter().for_each(|entry| entry.write(&mut text));
        let last = self.all.iter().copied().filter(|command| is_last(command));
        last.map(HelpEntry::of_command).for_each(|entry| entry.write(&mut text));
        text
    }

    fn offers(&self, command: &Command) -> bool {
        let hidden = command.run.is_none()
            || command.flags & self.side == 0
            || command.flags & HIDDEN != 0
            || (command.flags & SERVING != 0 && self.side & MASTER != 0)
            || (command.flags & EXPERT != 0 && !self.modes.expert)
            || (command.flags & EXPERIMENTAL != 0 && !self.modes.experimental);
        !hidden && !is_last(command)
    }
}

/// A command as `help` lists it.
#[derive(Clone, Copy)]
struct HelpEntry<'a> {
    name: &'a str,
    text: HelpText<'a>,
}

#[derive(Clone, Copy)]
enum HelpText<'a> {
    Row(&'a Command),
    /// The whole line, as a script wrote it.
    Usage(&'a str),
}

impl<'a> HelpEntry<'a> {
    fn of_command(command: &'a Command) -> Self {
        HelpEntry { name: command.name, text: HelpText::Row(command) }
    }

    fn of_script(command: &'a ScriptCommandView) -> Self {
        HelpEntry { name: &command.name, text: HelpText::Usage(&command.usage) }
    }

    fn write(&self, text: &mut String) {
        let _ = match self.text {
            HelpText::Row(Command { syntax, help, .. }) => {
                let gap = if syntax.len() > SYNTAX_WIDTH { " " } else { "" };
                writeln!(text, "  {syntax:SYNTAX_WIDTH$}{gap}: {help}")
            }
            HelpText::Usage(usage) => writeln!(text, "  {usage}"),
        };
    }
}

/// Whether a command is one of the three listed last.
fn is_last(command: &Command) -> bool {
    matches!(command.name, "help" | "prompt" | "quit")
}

fn matching<'a>(offered: &[HelpEntry<'a>], words: &[String]) -> Vec<HelpEntry<'a>> {
    let typed = words.join(" ");
    let is_begun = |entry: &&HelpEntry<'_>| {
        entry.name.starts_with(&typed)
            || typed.strip_prefix(entry.name).is_some_and(|rest| rest.starts_with(' '))
    };
    let begun: Vec<HelpEntry<'_>> = offered.iter().filter(is_begun).copied().collect();
    if !begun.is_empty() {
        return begun;
    }
    resembling(offered, words).unwrap_or_else(|| nearest(offered, words))
}

/// The commands similar to the input. Words are compared from left to right, up to the first without a similar command. `None` if
/// that is the first word.
fn resembling<'a>(offered: &[HelpEntry<'a>], words: &[String]) -> Option<Vec<HelpEntry<'a>>> {
    let mut kept: Option<Vec<HelpEntry<'_>>> = None;
    for (index, word) in words.iter().enumerate() {
        let typed: Vec<char> = word.chars().take(LONGEST_TYPED).collect();
        let distance_to_word = |entry: &HelpEntry<'_>| {
            let named: Vec<char> = entry.name.split(' ').nth(index)?.chars().collect();
            Some(distance(&typed, &named))
                .filter(|&distance| distance <= MOST_TYPOS && distance < typed.len())
        };
        let known = kept.as_deref().unwrap_or(offered);
        let Some(least) = known.iter().filter_map(distance_to_word).min() else { break };
        let closest = known.iter().copied().filter(|entry| distance_to_word(entry) == Some(least));
        kept = Some(closest.collect());
    }
    kept
}

/// The commands with the smallest edit distance to the input.
fn nearest<'a>(offered: &[HelpEntry<'a>], words: &[String]) -> Vec<HelpEntry<'a>> {
    let mut near: Vec<(usize, HelpEntry<'_>)> =
        offered.iter().map(|entry| (distance_to_name(words, entry.name), *entry)).collect();
    near.sort_by_key(|&(distance, _)| distance);
    near.truncate(MOST_SUGGESTIONS);
    let mut near: Vec<HelpEntry<'_>> = near.into_iter().map(|(_, entry)| entry).collect();
    near.sort_by_key(|entry| entry.name);
    near
}

/// The edit distance between a command name and as many words of the input.
fn distance_to_name(words: &[String], name: &str) -> usize {
    let count = name.split(' ').count().min(words.len());
    let typed = words[..count].join(" ");
    // Input is cut: the cost must be bounded, and a longer input would only be more distant.
    let typed: Vec<char> = typed.chars().take(LONGEST_TYPED).collect();
    distance(&typed, &name.chars().collect::<Vec<_>>())
}

/// Maximum number of input characters to compare with names.
const LONGEST_TYPED: usize = 60;

/// The Levenshtein distance, computed row by row.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}
