//! The strings that every match of a regular expression contains.
//!
//! Most expressions of a configuration have a literal part, often at the beginning: `^/api/v[0-9]+/`. A subject without it cannot match,
//! and a search for plain bytes costs a tenth of a call of PCRE2. The analysis of the pattern is conservative: an expression with uncommon
//! syntax requires nothing, and PCRE2 alone decides.

use memchr::memmem::Finder;

/// The required strings of one regular expression, in lower case if it ignores case.
#[derive(Debug, Clone, Default)]
pub(super) struct RegexTexts {
    /// The subject must begin with this string.
    prefix: Box<[u8]>,
    /// The subject must contain this string. None if the prefix is the longest one.
    inner: Option<Finder<'static>>,
    ignore_case: bool,
}

impl RegexTexts {
    pub(super) fn new(pattern: &str, ignore_case: bool) -> RegexTexts {
        let texts = Texts::read(pattern.as_bytes()).unwrap_or_default();
        let cased = |text: Vec<u8>| if ignore_case { text.to_ascii_lowercase() } else { text };
        let inner = (texts.longest.len() > texts.prefix.len())
            .then(|| Finder::new(&cased(texts.longest)).into_owned());
        RegexTexts { prefix: cased(texts.prefix).into(), inner, ignore_case }
    }

    /// The longest required text. Empty if none is known.
    pub(super) fn longest(&self) -> &[u8] {
        self.inner.as_ref().map_or(&self.prefix, Finder::needle)
    }

    /// False if the expression cannot match the subject.
    pub(super) fn admits(&self, subject: &[u8]) -> bool {
        let begins = match subject.get(..self.prefix.len()) {
            Some(start) if self.ignore_case => start.eq_ignore_ascii_case(&self.prefix),
            Some(start) => *start == *self.prefix,
            None => false,
        };
        begins
            && self.inner.as_ref().is_none_or(|inner| match self.ignore_case {
                true => contains_ignoring_case(subject, inner.needle()),
                false => inner.find(subject).is_some(),
            })
    }
}

/// Whether `subject` contains `needle`, which is in lower case and not empty.
fn contains_ignoring_case(subject: &[u8], needle: &[u8]) -> bool {
    let Some(last) = subject.len().checked_sub(needle.len()) else { return false };
    let starts = memchr::memchr2_iter(needle[0], needle[0].to_ascii_uppercase(), &subject[..=last]);
    starts.into_iter().any(|start| subject[start..start + needle.len()].eq_ignore_ascii_case(needle))
}

/// The required strings in the spelling of the pattern.
#[derive(Debug, Default, PartialEq, Eq)]
struct Texts {
    prefix: Vec<u8>,
    longest: Vec<u8>,
}

impl Texts {
    /// None if the pattern has alternatives or unknown syntax.
    fn read(pattern: &[u8]) -> Option<Texts> {
        let anchored = pattern.starts_with(b"^");
        let mut reader = PatternReader {
            texts: Texts::default(),
            run: Vec::new(),
            at_start: anchored,
            quantified: anchored,
        };
        let mut rest = &pattern[usize::from(anchored)..];
        while let [first, after @ ..] = rest {
            rest = reader.item(*first, after)?;
        }
        reader.end_run();
        Some(reader.texts)
    }
}

/// The state of reading a pattern, outside groups.
struct PatternReader {
    texts: Texts,
    /// Consecutive literal bytes.
    run: Vec<u8>,
    /// Whether only the anchor precedes the run.
    at_start: bool,
    /// Whether the last item cannot take a quantifier: it is a quantifier or the anchor.
    quantified: bool,
}

impl PatternReader {
    /// Reads the item that begins with `first`. Returns the bytes after it.
    fn item<'p>(&mut self, first: u8, after: &'p [u8]) -> Option<&'p [u8]> {
        if let b'*' | b'?' | b'+' | b'{' = first {
            return self.quantifier(first, after);
        }
        self.quantified = false;
        let (literal, after) = match first {
            b'|' | b')' => return None,
            b'(' => (None, behind_group(after)?),
            b'[' => (None, behind_class(after)?),
            b'.' | b'$' | b'^' => (None, after),
            b'\\' => escaped(after)?,
            // PCRE2 may fold the case of letters beyond ASCII.
            0x80.. => (None, after),
            _ => (Some(first), after),
        };
        match literal {
            Some(byte) => self.run.push(byte),
            None => self.end_run(),
        }
        Some(after)
    }

    fn quantifier<'p>(&mut self, first: u8, after: &'p [u8]) -> Option<&'p [u8]> {
        if std::mem::replace(&mut self.quantified, true) {
            return None;
        }
        let after = match first {
            b'{' => {
                let end = after.iter().position(|byte| !byte.is_ascii_digit() && *byte != b',')?;
                // Otherwise the brace is a literal.
                after[end..].strip_prefix(b"}").filter(|_| end > 0)?
            }
            _ => after,
        };
        if first != b'+' {
            // The last item may be absent from a match.
            self.run.pop();
        }
        self.end_run();
        match after {
            [b'?' | b'+', after @ ..] => Some(after),
            _ => Some(after),
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.len() > self.texts.longest.len() {
            self.texts.longest = run.clone();
        }
        if std::mem::take(&mut self.at_start) {
            self.texts.prefix = run;
        }
    }
}

/// The byte of an escape sequence after its backslash (none for a class or an assertion), and the bytes after it.
fn escaped(after: &[u8]) -> Option<(Option<u8>, &[u8])> {
    let (first, after) = after.split_first()?;
    match first {
        b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'h' | b'H' | b'v' | b'V' | b'b' | b'B' | b'A' | b'Z'
        | b'z' | b'R' => Some((None, after)),
        byte if byte.is_ascii() && !byte.is_ascii_alphanumeric() => Some((Some(*byte), after)),
        _ => None,
    }
}

/// The bytes after a group that begins after its parenthesis. Its content is not required: it may have alternatives.
fn behind_group(mut rest: &[u8]) -> Option<&[u8]> {
    rest = behind_opening(rest)?;
    let mut depth = 1;
    while depth > 0 {
        let (first, after) = rest.split_first()?;
        rest = match first {
            b'(' => {
                depth += 1;
                behind_opening(after)?
            }
            b')' => {
                depth -= 1;
                after
            }
            b'[' => behind_class(after)?,
            b'\\' => escaped(after)?.1,
            _ => after,
        };
    }
    Some(rest)
}

/// The bytes after the kind of a group. Groups that change the meaning of the rest, or the extent of a match, count as unknown syntax.
fn behind_opening(after: &[u8]) -> Option<&[u8]> {
    match after {
        [b'*', ..] => None,
        [b'?', b':' | b'=' | b'!' | b'>' | b'<', after @ ..] => Some(after),
        [b'?', ..] => None,
        _ => Some(after),
    }
}

/// The bytes after a character class that begins after its bracket.
fn behind_class(after: &[u8]) -> Option<&[u8]> {
    let after = after.strip_prefix(b"^").unwrap_or(after);
    // A bracket in first position is a member.
    let mut rest = after.strip_prefix(b"]").unwrap_or(after);
    loop {
        rest = match rest {
            [b']', after @ ..] => return Some(after),
            // Named classes such as `[:alpha:]` have brackets of their own.
            [b'[', b':' | b'.' | b'=', ..] | [b'\\', b'Q' | b'E', ..] | [] | [b'\\'] => return None,
            [b'\\', _, after @ ..] | [_, after @ ..] => after,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_required_literals_of_a_regex() {
        let check = |pattern: &str, prefix: &str, longest: &str| {
            let texts = Texts::read(pattern.as_bytes()).unwrap_or_default();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            assert_eq!(
                (text(texts.prefix), text(texts.longest)),
                (prefix.into(), longest.into()),
                "{pattern}"
            );
        };
        check(r"^/api/v[0-9]+/accounts$", "/api/v", "/accounts");
        check(r"^/a\.php", "/a.php", "/a.php");
        check(r"\.(jpg|png)$", "", ".");
        check(r"admin/(?:a|b)/index", "", "admin/");
        check(r"^ab*c", "a", "a");
        check(r"^ab+c", "ab", "ab");
        check(r"^ab{0,2}?cd", "a", "cd");
        check(r"^x[]a]y\d{2,}longer", "x", "longer");
        for unknown in [
            "a|b",
            "(?i)abc",
            "(*UTF)abc",
            r"\Qa\E",
            r"\x41b",
            "^*abc",
            "ab+{0}",
            "a{b",
            "(?#x)abc",
            "a[[:alpha:]]",
            "^é",
        ] {
            check(unknown, "", "");
        }
    }

    #[test]
    fn subjects_with_the_required_literals_are_admitted() {
        let required = RegexTexts::new("^/a.*Foo", true);
        assert!(required.admits(b"/A/fOO") && required.admits(b"/a/ff/foo"));
        assert!(!required.admits(b"/a/fo") && !required.admits(b"b/a/foo") && !required.admits(b""));
        let required = RegexTexts::new("^/a.*Foo", false);
        assert!(required.admits(b"/a/Foo") && !required.admits(b"/a/foo") && !required.admits(b"/A/Foo"));
        assert!(RegexTexts::new("a|b", false).admits(b""));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// Every subject that PCRE2 matches is admitted.
        #[test]
        fn required_literals_never_exclude_a_match(
            items in proptest::collection::vec(proptest::sample::select(vec![
                "a", "b", "ab", "/", r"\.", r"\d", r"\b", ".", "^", "$", "*", "+", "?", "{0}", "{2}", "{,1}", "{1,}", "|", "(", ")",
                "(?:", "(?i)", "(?=", "(?!", "(?<!", "[ab]", "[^]a]", "[a(|]", "[", "]", r"\", "}", ",", "1", "B",
            ]), 1..9),
            subjects in proptest::collection::vec("[ab/.1AB]{0,7}", 8),
            ignore_case: bool,
        ) {
            let pattern = items.concat();
            let built = pcre2::bytes::RegexBuilder::new().caseless(ignore_case).build(&pattern);
            if let Ok(regex) = built {
                let required = RegexTexts::new(&pattern, ignore_case);
                for subject in subjects {
                    let subject = subject.as_bytes();
                    prop_assert!(required.admits(subject) || !regex.is_match(subject).unwrap(), "{pattern} {subject:?}");
                }
            }
        }
    }
}
