//! Patterns that must stand between delimiters: parts of a path (`dir`), parts of a domain (`dom`).

use super::MatchMethod;

const fn is_delimiter(method: MatchMethod, byte: u8) -> bool {
    match method {
        MatchMethod::Dir => byte == b'/',
        _ => matches!(byte, b'/' | b'?' | b'.' | b':'),
    }
}

/// The pattern without the delimiters around it.
pub(super) fn strip(method: MatchMethod, pattern: &[u8]) -> &[u8] {
    let Some(start) = pattern.iter().position(|byte| !is_delimiter(method, *byte)) else { return &[] };
    let end = pattern.iter().rposition(|byte| !is_delimiter(method, *byte)).map_or(start, |last| last + 1);
    &pattern[start..end]
}

/// Whether `subject[start..end]` has a delimiter or an end of the string on both sides.
pub(super) fn stands_alone(method: MatchMethod, subject: &[u8], start: usize, end: usize) -> bool {
    (start == 0 || is_delimiter(method, subject[start - 1]))
        && (end == subject.len() || is_delimiter(method, subject[end]))
}

/// Whether the stripped pattern occurs between delimiters. A pattern that consists only of delimiters never does.
pub(super) fn contains(method: MatchMethod, subject: &[u8], pattern: &[u8]) -> bool {
    if pattern.is_empty() {
        return false;
    }
    let finder = memchr::memmem::Finder::new(pattern);
    let mut from = 0;
    while let Some(found) = finder.find(&subject[from..]) {
        let start = from + found;
        if stands_alone(method, subject, start, start + pattern.len()) {
            return true;
        }
        // The next occurrence may overlap this one, but it follows a delimiter.
        let delimiter = subject[start..].iter().position(|byte| is_delimiter(method, *byte));
        let Some(delimiter) = delimiter else { return false };
        from = start + delimiter + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimited_matches_may_overlap() {
        for (pattern, subject, expected) in [
            ("b/b", ".b/b/b", true),
            ("b/b", ".b/b.", false),
            ("a", "/ba/a", true),
            ("a/a/a", "ba/a/a/a", true),
            ("a/a/a", "ba/a/ab", false),
        ] {
            let found = contains(MatchMethod::Dir, subject.as_bytes(), pattern.as_bytes());
            assert_eq!(found, expected, "{pattern} in {subject}");
        }
    }

    #[test]
    fn dir_and_dom_match_the_manuals_examples() {
        let path = b"/images/png/logo/32x32.png";
        for (pattern, expected) in [
            ("/images", true),
            ("/images/png", true),
            ("images/png", true),
            ("/png/logo", true),
            ("logo/32x32.png", true),
            ("32x32.png", true),
            ("png", true), // it is between two slashes here, unlike in the manual's text
            ("32x32", false),
        ] {
            let pattern = strip(MatchMethod::Dir, pattern.as_bytes());
            assert_eq!(contains(MatchMethod::Dir, path, pattern), expected);
        }
        let url = b"http://www1.dc-eu.example.com:80/blah";
        for (pattern, expected) in [
            ("http", true),
            ("www1", true),
            (".www1", true),
            ("dc-eu", true),
            ("80", true),
            ("dc-eu.example", true),
            ("blah", true),
            (":www1:", true),
            ("eu", false),
            ("dc", false),
        ] {
            let pattern = strip(MatchMethod::Dom, pattern.as_bytes());
            assert_eq!(contains(MatchMethod::Dom, url, pattern), expected);
        }
    }
}
