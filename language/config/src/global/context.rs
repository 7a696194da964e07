//! A line of the `global` section during parsing, and readers for common forms of arguments.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use weir_syntax::{Diagnostics, Word};

use crate::numbers::{delay_of, integer};
use crate::resources::Resources;
use crate::words::{Parsed, Words, fault};
use crate::world::ConfigLoader;
use weir_model::{Global, Location};

/// Reads the arguments of one word of the `global` section.
pub(crate) type GlobalReader = fn(&mut GlobalContext<'_>, &mut Words<'_>) -> Parsed;

/// The state and the inputs of the reader of a line.
pub(crate) struct GlobalContext<'c> {
    /// The settings to change.
    pub global: &'c mut Global,
    /// The environment, and the base folder of relative paths.
    pub world: &'c ConfigLoader<'c>,
    /// The resources for expressions.
    pub resources: Resources<'c>,
    pub at: Location,
    /// Whether a section other than `global` came earlier.
    pub late: bool,
    /// Whether the line begins with `no`.
    pub negated: bool,
    pub keyword: &'static str,
    /// Receives warnings. Errors are returned.
    pub diagnostics: &'c mut Diagnostics,
}

impl GlobalContext<'_> {
    /// Reads the only argument, an integer in `range`.
    pub(crate) fn number<T>(&self, words: &mut Words<'_>, range: RangeInclusive<T>) -> Parsed<T>
    where
        T: FromStr + PartialOrd + Display + Copy,
    {
        let value = integer(words, self.keyword, range)?;
        words.end(self.keyword)?;
        Ok(value)
    }

    /// Reads the only argument, a size in `range`.
    pub(crate) fn size(&self, words: &mut Words<'_>, range: RangeInclusive<u64>) -> Parsed<u64> {
        let word = words.expect(&format!("'{}' expects a size as argument.", self.keyword))?;
        let size = crate::numbers::size_of(word, self.keyword)?;
        if !range.contains(&size) {
            let (low, high) = (range.start(), range.end());
            let message = format!("'{}' expects a size between {low} and {high}.", self.keyword);
            return Err(fault(word.span(), message));
        }
        words.end(self.keyword)?;
        Ok(size)
    }

    /// Reads the only argument, a delay. Milliseconds without a unit.
    pub(crate) fn delay(&self, words: &mut Words<'_>) -> Parsed<Duration> {
        let word = words.expect(&format!("'{}' expects <time> as argument.", self.keyword))?;
        let delay = delay_of(words, word, self.keyword)?;
        words.end(self.keyword)?;
        Ok(delay)
    }

    /// Refuses a word that the manual marks as experimental, unless an earlier line allows such words.
    pub(crate) fn experimental(&self, words: &Words<'_>) -> Parsed {
        if self.global.expose_experimental {
            return Ok(());
        }
        let message = format!(
            "'{}' directive is experimental, must be allowed via a global 'expose-experimental-directives' on a line before it.",
            self.keyword
        );
        Err(fault(words.line().span(), message))
    }

    /// Reads the only argument, `on` or `off`.
    pub(crate) fn switch(&self, words: &mut Words<'_>) -> Parsed<bool> {
        let word = self.choice(words, &["on", "off"])?;
        Ok(word == "on")
    }

    /// Reads the only argument, one of `choices`.
    pub(crate) fn choice<'l>(&self, words: &mut Words<'l>, choices: &[&'static str]) -> Parsed<&'l str> {
        let text = words.peek_text();
        if !choices.contains(&text) {
            let (last, others) = choices.split_last().expect("a choice has at least one answer");
            let others: Vec<String> = others.iter().map(|choice| format!("'{choice}'")).collect();
            let message = format!(
                "'{}' expects either {} or '{last}' but got '{text}'.",
                self.keyword,
                others.join(", ")
            );
            return Err(words.fault(message));
        }
        words.take();
        words.end(self.keyword)?;
        Ok(text)
    }

    /// Reads the only argument, any word. `expected` is the error if it is missing.
    pub(crate) fn word<'l>(&self, words: &mut Words<'l>, expected: &str) -> Parsed<&'l Word> {
        let word = words.expect(&format!("'{}' expects {expected}.", self.keyword))?;
        words.end(self.keyword)?;
        Ok(word)
    }

    /// Reads the only argument, a path.
    pub(crate) fn path(&self, words: &mut Words<'_>, expected: &str) -> Parsed<PathBuf> {
        Ok(PathBuf::from(self.word(words, expected)?.text()))
    }

    /// Reads no argument. Returns false after `no`.
    pub(crate) fn flag(&self, words: &mut Words<'_>) -> Parsed<bool> {
        words.end(self.keyword)?;
        Ok(!self.negated)
    }

    /// Whether the word takes effect. Of a repeated single-use word, the first one counts, as in HAProxy.
    pub(crate) fn first_time(&mut self, words: &Words<'_>, given: bool) -> bool {
        if given {
            let message = format!("'{}' already specified. Continuing.", self.keyword);
            self.diagnostics.warning(words.line().span(), message);
        }
        !given
    }

    /// Refuses thread words after the first proxy, which may have used them (R155).
    pub(crate) fn before_proxies(&self, words: &Words<'_>) -> Parsed {
        if !self.late {
            return Ok(());
        }
        let message = format!(
            "'{}' not allowed if a non-global section was previously defined. This parameter must be set in the first \
             global section",
            self.keyword
        );
        Err(fault(words.line().keyword().span(), message))
    }
}
