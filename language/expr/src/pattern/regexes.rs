//! Selects the regular expressions of a list that may match a subject, by the strings that they require.
//!
//! One pass over the subject finds every required string in it. Only the expressions of these strings, and expressions without a required
//! string, are tried.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use aho_corasick::AhoCorasick;

use super::regex::Regex;

#[derive(Debug)]
pub(super) struct RequiredTexts {
    automaton: AhoCorasick,
    /// The entry that each string of the automaton belongs to.
    owners: Box<[u32]>,
    /// The entries that require no string, in entry order.
    others: Box<[u32]>,
}

impl RequiredTexts {
    /// From the regular expressions of a list. None if a pass would exclude too few of them.
    pub(super) fn new<'r>(
        ignore_case: bool,
        regexes: impl Iterator<Item = (u32, &'r Regex)>,
    ) -> Option<RequiredTexts> {
        let (mut texts, mut owners, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (index, regex) in regexes {
            match regex.required_text() {
                [] => others.push(index),
                text => {
                    texts.push(text);
                    owners.push(index);
                }
            }
        }
        if texts.len() < WORTH_A_PASS {
            return None;
        }
        let built = AhoCorasick::builder().ascii_case_insensitive(ignore_case).build(texts);
        Some(RequiredTexts { automaton: built.ok()?, owners: owners.into(), others: others.into() })
    }

    /// The first entry in list order for which `matches` is true.
    pub(super) fn find(&self, subject: &[u8], matches: impl Fn(u32) -> bool) -> Option<u32> {
        let mut candidates = CANDIDATES.take();
        candidates.clear();
        let found = match self.collect(subject, &mut candidates) {
            true => candidates.iter().copied().find(|entry| matches(*entry)),
            false => (0..(self.owners.len() + self.others.len()) as u32).find(|entry| matches(*entry)),
        };
        CANDIDATES.set(candidates);
        found
    }

    /// Collects the entries to try, in entry order. False if so many required strings occur that trying every entry is cheaper.
    fn collect(&self, subject: &[u8], candidates: &mut Vec<u32>) -> bool {
        for found in self.automaton.find_overlapping_iter(subject) {
            if candidates.len() == self.owners.len() {
                return false;
            }
            candidates.push(self.owners[found.pattern().as_usize()]);
        }
        candidates.extend_from_slice(&self.others);
        candidates.sort_unstable();
        candidates.dedup();
        true
    }
}

/// With fewer required strings, a separate search for each is as fast.
const WORTH_A_PASS: usize = 8;

thread_local! {
    /// A buffer for the candidates of one lookup.
    static CANDIDATES: Cell<ManuallyDrop<Vec<u32>>> = const { Cell::new(ManuallyDrop::new(Vec::new())) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Location;

    fn regexes(patterns: &[String], ignore_case: bool) -> Vec<Regex> {
        let at = Location::new("t.cfg".into(), 1);
        patterns.iter().map(|pattern| Regex::new(pattern, ignore_case, &at).unwrap()).collect()
    }

    fn of(regexes: &[Regex], ignore_case: bool) -> Option<RequiredTexts> {
        RequiredTexts::new(ignore_case, (0..).zip(regexes))
    }

    #[test]
    fn regexes_with_present_literals_are_tried_in_order() {
        let mut patterns = (0..20).map(|number| format!("^/(x|y)/site{number}/")).collect::<Vec<_>>();
        patterns.insert(3, "[0-9]z|q".into());
        let regexes = regexes(&patterns, true);
        let texts = of(&regexes, true).unwrap();
        let tried = Cell::new(Vec::new());
        let subject = b"/y/SITE7/SITE1/";
        let found = texts.find(subject, |entry| {
            tried.set([tried.take(), vec![entry]].concat());
            regexes[entry as usize].is_match(subject)
        });
        assert_eq!((found, tried.take()), (Some(8), vec![1, 3, 8]));
        assert_eq!(texts.find(b"9z", |entry| regexes[entry as usize].is_match(b"9z")), Some(3));
    }

    /// Many required strings end at each byte of the subject: the pass stops early, and the result is the same.
    #[test]
    fn the_literal_pass_over_a_subject_is_limited() {
        let patterns = (1..60).map(|length| "a".repeat(length) + "[b]").collect::<Vec<_>>();
        let regexes = regexes(&patterns, false);
        let texts = of(&regexes, false).unwrap();
        let subject = b"a".repeat(1000);
        assert!(!texts.collect(&subject, &mut Vec::new()));
        let tried = Cell::new(0);
        let count = |_| {
            tried.set(tried.get() + 1);
            false
        };
        assert_eq!((texts.find(&subject, count), tried.get()), (None, 59));
    }

    #[test]
    fn few_literals_are_not_searched_in_a_pass() {
        assert!(of(&regexes(&vec!["abc".into(); WORTH_A_PASS - 1], false), false).is_none());
        assert!(of(&regexes(&vec!["[0-9]".into(); 100], false), false).is_none());
    }
}
