//! Regular expressions: PCRE2, with the JIT compiler where possible.
//!
//! The limits of one match are PCRE2's, as in HAProxy: 10,000,000 steps, and 32 kB of stack for machine code. A subject that needs more
//! stack is tried again without machine code, with some megabytes of memory. A match that still exceeds a limit is undecided: [`limit`]
//! counts it, and the operator configures its result. The same applies to matches of a request that has spent its [`budget`].

pub mod budget;
pub mod limit;
mod required;

use std::fmt;
use std::ops::Range;

use pcre2::bytes;
use weir_fingerprint::Canonical;

use self::required::RegexTexts;
use crate::bound;
use crate::location::Location;

/// A compiled regular expression.
#[derive(Clone, Canonical)]
pub struct Regex {
    #[canonical(skip = "follows from the text")]
    inner: bytes::Regex,
    #[canonical(skip = "follows from the text")]
    required: RegexTexts,
    text: Box<str>,
    ignore_case: bool,
    /// The location of the rule that uses the pattern, for reports.
    #[canonical(skip = "a place in a file")]
    at: Location,
}

/// The byte ranges of the groups of a match in the subject. Group 0 is the whole match.
#[derive(Clone)]
pub struct Groups {
    places: bytes::CaptureLocations,
    /// Whether the groups belong to a search without machine code.
    patient: bool,
}

impl Regex {
    /// Compiles a pattern of the rule at `at`.
    pub fn new(pattern: &str, ignore_case: bool, at: &Location) -> Result<Regex, RegexError> {
        let built = bytes::RegexBuilder::new().caseless(ignore_case).jit_if_available(true).build(pattern);
        let inner = built.map_err(|error| {
            let text = error.to_string();
            let reason = text.rsplit_once(": ").map_or(&*text, |(_, reason)| reason);
            let offset = error.offset().unwrap_or(0);
            RegexError(format!("regex '{pattern}' is invalid (error={reason}, erroffset={offset})"))
        })?;
        let required = RegexTexts::new(pattern, ignore_case);
        Ok(Regex { inner, required, text: pattern.into(), ignore_case, at: at.clone() })
    }

    /// The pattern as written in the configuration.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The location of the rule that uses the pattern.
    pub fn at(&self) -> &Location {
        &self.at
    }

    /// The same pattern with this case sensitivity.
    ///
    /// # Errors
    /// As [`Regex::new`].
    pub fn with_case(&self, ignore_case: bool) -> Result<Regex, RegexError> {
        Regex::new(&self.text, ignore_case, &self.at)
    }

    /// Whether the pattern matches somewhere. At a limit, the setting of [`limit::on_limit`].
    pub fn is_match(&self, subject: &[u8]) -> bool {
        if !self.admits(subject) {
            return false;
        }
        let search = || self.answer(self.inner.is_match(subject), |patient| patient.is_match(subject));
        self.charged(search).unwrap_or_else(|_| limit::on_limit() == limit::OnLimit::Match)
    }

    /// False if the required strings already exclude a match, without a search.
    pub(super) fn admits(&self, subject: &[u8]) -> bool {
        self.required.admits(subject)
    }

    /// A string that each match contains, in lower case if case is ignored. Empty if none is known.
    pub(super) fn required_text(&self) -> &[u8] {
        self.required.longest()
    }

    /// Memory for the groups of this pattern.
    pub fn groups(&self) -> Groups {
        Groups { places: self.inner.capture_locations(), patient: false }
    }

    /// Finds the first match at or after `from`. Returns its range. None at a limit, since the groups are unknown then.
    pub fn captures(&self, subject: &[u8], from: usize, groups: &mut Groups) -> Option<Range<usize>> {
        if from > subject.len() {
            return None;
        }
        if groups.patient {
            *groups = self.groups();
        }
        let search = || {
            let found = self.inner.captures_read_at(&mut groups.places, subject, from);
            let found = found.map(|found| found.map(|found| found.start()..found.end()));
            let again = |patient: &bytes::Regex| {
                *groups = Groups { places: patient.capture_locations(), patient: true };
                let found = patient.captures_read_at(&mut groups.places, subject, from)?;
                Ok(found.map(|found| found.start()..found.end()))
            };
            self.answer(found, again)
        };
        self.charged(search).unwrap_or(None)
    }

    /// Runs a search if the current request has budget left. Otherwise returns a limit error.
    fn charged<R>(&self, search: impl FnOnce() -> Result<R, LimitMet>) -> Result<R, LimitMet> {
        budget::charged(search).unwrap_or_else(|| {
            limit::note(self);
            Err(LimitMet)
        })
    }

    /// The result of a search. Runs `again` if the stack for machine code was too small. Counts a limit error.
    fn answer<R: Default>(
        &self,
        found: Result<R, pcre2::Error>,
        again: impl FnOnce(&bytes::Regex) -> Result<R, pcre2::Error>,
    ) -> Result<R, LimitMet> {
        let error = match found {
            Err(error) if error.code() == limit::JIT_STACK => {
                match self.patient().map(|patient| again(&patient)) {
                    Some(Ok(found)) => return Ok(found),
                    Some(Err(error)) => error,
                    None => error,
                }
            }
            Err(error) => error,
            Ok(found) => return Ok(found),
        };
        if limit::is_limit(error.code()) {
            limit::note(self);
            return Err(LimitMet);
        }
        // If the expression requires UTF-8, an invalid subject does not match.
        Ok(R::default())
    }

    /// The same expression without machine code. Compiled on demand, since it keeps its memory.
    fn patient(&self) -> Option<bytes::Regex> {
        let limited = format!("(*LIMIT_MATCH={PATIENT_STEPS})(*LIMIT_HEAP={PATIENT_HEAP_KB}){}", self.text);
        bytes::RegexBuilder::new().caseless(self.ignore_case).build(&limited).ok()
    }
}

/// A match was aborted at a limit.
struct LimitMet;

/// The step limit without machine code, where a step takes about ten times as long.
const PATIENT_STEPS: u32 = 1_000_000;
/// The memory limit of a search without machine code, in kilobytes.
const PATIENT_HEAP_KB: u32 = 8_192;

impl Groups {
    /// The range of a group in the subject. None if the pattern has fewer groups, or if the group is not part of the match.
    pub fn range(&self, index: usize) -> Option<Range<usize>> {
        self.places.get(index).map(|(start, end)| start..end)
    }

    /// The bytes of group `index`. None if it took no part in the match.
    pub fn get<'s>(&self, index: usize, subject: &'s [u8]) -> Option<&'s [u8]> {
        let (start, end) = self.places.get(index)?;
        subject.get(start..end)
    }
}

/// Appends `template` with `\0` to `\9` replaced by groups, and the escapes `\\` and `\xHH` resolved. Stops early when `out` is too long
/// for a value ([`bound`]).
pub fn expand(template: &[u8], subject: &[u8], groups: &Groups, out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(backslash) = rest.iter().position(|byte| *byte == b'\\') {
        if out.len() > bound::bytes() {
            return;
        }
        out.extend_from_slice(&rest[..backslash]);
        rest = &rest[backslash + 1..];
        match rest {
            [digit @ b'0'..=b'9', after @ ..] => {
                out.extend_from_slice(groups.get(usize::from(digit - b'0'), subject).unwrap_or_default());
                rest = after;
            }
            [b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or_default() as u8;
                out.push(digit(*high) << 4 | digit(*low));
                rest = after;
            }
            [escaped, after @ ..] => {
                out.push(*escaped);
                rest = after;
            }
            [] => out.push(b'\\'),
        }
    }
    out.extend_from_slice(rest);
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

/// The reason why a pattern does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexError(String);

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RegexError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regex_matches_with_capture_groups_and_expansion() {
        let at = Location::new("t.cfg".into(), 1);
        let regex = Regex::new("^/(a+)(b)?", false, &at).unwrap();
        let mut groups = regex.groups();
        assert_eq!(regex.captures(b"/aac", 0, &mut groups), Some(0..3));
        let mut out = Vec::new();
        expand(br"<\1|\2|\0|\\|\x41|\.>\", b"/aac", &groups, &mut out);
        assert_eq!(out, br"<aa||/aa|\|A|.>\".as_slice());
        assert!(!regex.is_match(b"/A"));
        assert!(regex.with_case(true).unwrap().is_match(b"/A"));
        assert!(Regex::new("(", false, &at).is_err());
        let error = Regex::new("a(", true, &at).unwrap_err().to_string();
        assert!(error.contains("'a('") && error.ends_with("erroffset=2)"), "{error}");
    }

    /// Each iteration takes some bytes of the 32 kB stack of machine code, so some thousand letters exceed it.
    #[test]
    fn a_regex_matches_subjects_that_need_more_stack() {
        let regex = Regex::new("^(?:(A)|b|ab)*c$", true, &Location::new("t.cfg".into(), 2)).unwrap();
        let mut groups = regex.groups();
        for turns in [1, 100, 1_000, 4_000, 8_000] {
            let mut subject = b"ab".repeat(turns);
            assert!(!regex.is_match(&subject));
            subject.push(b'c');
            assert!(regex.is_match(&subject), "{turns}");
            assert_eq!(regex.captures(&subject, 0, &mut groups), Some(0..subject.len()), "{turns}");
            assert_eq!(groups.get(1, &subject), Some(b"a".as_slice()));
            assert_eq!(regex.captures(b"ac", 0, &mut groups), Some(0..2), "the groups serve again");
        }
    }
}
