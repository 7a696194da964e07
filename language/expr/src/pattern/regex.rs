//! Regular expressions: PCRE2, compiled to machine code where possible, with a limit on the work of one match.

use std::fmt;
use std::ops::Range;

use pcre2::bytes;

/// How many steps one match may take. A pattern that needs more does not match: hostile input must not hold a
/// worker. PCRE2's own default is ten times as much.
const MATCH_LIMIT: u32 = 1_000_000;

/// A compiled regular expression.
#[derive(Clone)]
pub struct Regex {
    inner: bytes::Regex,
    text: Box<str>,
}

/// Where the groups of a match lie in the subject; group 0 is the whole match.
#[derive(Clone)]
pub struct Groups(bytes::CaptureLocations);

impl Regex {
    /// Compiles a pattern.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Regex, RegexError> {
        let limited = format!("(*LIMIT_MATCH={MATCH_LIMIT}){pattern}");
        let build =
            |text: &str| bytes::RegexBuilder::new().caseless(ignore_case).jit_if_available(true).build(text);
        match build(&limited) {
            Ok(inner) => Ok(Regex { inner, text: pattern.into() }),
            // Once more without the limit, so that offsets are those of the pattern as it was written.
            Err(error) => {
                let error = build(pattern).err().unwrap_or(error);
                let text = error.to_string();
                let reason = text.rsplit_once(": ").map_or(&*text, |(_, reason)| reason);
                let offset = error.offset().unwrap_or(0);
                Err(RegexError(format!("regex '{pattern}' is invalid (error={reason}, erroffset={offset})")))
            }
        }
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if the pattern matches somewhere. Running into the limit counts as no match.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.inner.is_match(subject).unwrap_or(false)
    }

    /// Room for the groups of this pattern.
    pub fn groups(&self) -> Groups {
        Groups(self.inner.capture_locations())
    }

    /// Finds the first match at or after `from`; gives the whole match.
    pub fn captures(&self, subject: &[u8], from: usize, groups: &mut Groups) -> Option<Range<usize>> {
        if from > subject.len() {
            return None;
        }
        let found = self.inner.captures_read_at(&mut groups.0, subject, from).ok()??;
        Some(found.start()..found.end())
    }
}

impl Groups {
    /// The bytes of group `index`, if it took part in the match.
    pub fn get<'s>(&self, index: usize, subject: &'s [u8]) -> Option<&'s [u8]> {
        let (start, end) = self.0.get(index)?;
        subject.get(start..end)
    }
}

/// Appends `template` with `\0` to `\9` replaced by groups, and the escapes `\\` and `\xHH` resolved.
pub fn expand(template: &[u8], subject: &[u8], groups: &Groups, out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(backslash) = rest.iter().position(|byte| *byte == b'\\') {
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

/// Why a pattern does not compile.
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
    fn matches_and_groups() {
        let regex = Regex::new("^/(a+)(b)?", false).unwrap();
        let mut groups = regex.groups();
        assert_eq!(regex.captures(b"/aac", 0, &mut groups), Some(0..3));
        let mut out = Vec::new();
        expand(br"<\1|\2|\0|\\|\x41|\.>\", b"/aac", &groups, &mut out);
        assert_eq!(out, br"<aa||/aa|\|A|.>\".as_slice());
        assert!(!regex.is_match(b"/A"));
        assert!(Regex::new("^/(a+)", true).unwrap().is_match(b"/A"));
        assert!(Regex::new("(", false).is_err());
    }

    #[test]
    fn a_hostile_subject_ends_in_no_match() {
        let regex = Regex::new("^(a+)+$", false).unwrap();
        let subject = [b'a'; 200].iter().copied().chain([b'b']).collect::<Vec<_>>();
        assert!(!regex.is_match(&subject));
    }
}
