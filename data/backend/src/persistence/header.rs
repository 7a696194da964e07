//! Reading and editing `Cookie` and `Set-Cookie` headers.
//!
//! `Cookie` is a list of `name=value` separated by semicolons (formerly also commas), with quoted values.
//! Edits change only the cookie in question and the gap around it. Requests may contain hundreds of cookies, so text is
//! searched with `memchr`, not byte by byte.

use memchr::{memchr, memchr2, memchr3, memmem, memrchr2};

/// The change to a cookie header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieEdit {
    Keep,
    /// The header is removed.
    Remove,
    /// The header gets this value.
    Replace(Vec<u8>),
}

/// The values of the cookies with this name, in order.
pub(super) fn values<'a>(header: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    pieces(from_first(header, name)).filter_map(|piece| value_of(piece.text, name))
}

/// The rest of the header from the first element that may have the name.
fn from_first<'a>(header: &'a [u8], name: &str) -> &'a [u8] {
    let Some(at) = memmem::find(header, name.as_bytes()) else { return &[] };
    let before = &header[..at];
    if memchr(b'"', before).is_some() {
        // A delimiter before the name may be inside quotes.
        return header;
    }
    &header[memrchr2(b';', b',', before).map_or(0, |delimiter| delimiter + 1)..]
}

/// The header without the cookies of this name.
pub(super) fn without(header: &[u8], name: &str) -> CookieEdit {
    if memmem::find(header, name.as_bytes()).is_none() {
        return CookieEdit::Keep;
    }
    // Before the first dropped element, the kept elements are the bytes from `start` to `end`.
    let (mut start, mut end) = (0, None);
    let mut edited = None::<Vec<u8>>;
    let (mut dropping, mut substantial) = (false, false);
    for piece in pieces(header) {
        // Attributes follow the cookie they belong to.
        let attribute = piece.text.starts_with(b"$");
        dropping = value_of(piece.text, name).is_some() || (dropping && attribute);
        if dropping {
            edited.get_or_insert_with(|| copy(header, &header[start..end.unwrap_or(start)]));
            continue;
        }
        if end.is_none() {
            start = piece.start;
        }
        if let Some(kept) = &mut edited {
            match end {
                // The gap stays unchanged, unless something was removed from it.
                Some(end) if end == piece.previous_end => kept.extend(&header[end..piece.start]),
                Some(_) if piece.text.is_empty() => kept.push(b';'),
                Some(_) => kept.extend(b"; "),
                None => {}
            }
            kept.extend(piece.text);
        }
        end = Some(piece.start + piece.text.len());
        substantial |= !attribute && !piece.text.is_empty();
    }
    match edited {
        None => CookieEdit::Keep,
        Some(kept) if substantial => CookieEdit::Replace(kept),
        Some(_) => CookieEdit::Remove,
    }
}

/// Starts an edited header with `kept`, with the capacity of the original.
fn copy(header: &[u8], kept: &[u8]) -> Vec<u8> {
    let mut copy = Vec::with_capacity(header.len());
    copy.extend(kept);
    copy
}

/// The header without the prefix up to `end` in the values of this name.
pub(super) fn without_prefix(header: &[u8], name: &str, end: u8) -> CookieEdit {
    let (mut edited, mut copied) = (Vec::new(), 0);
    for piece in pieces(header) {
        let Some(value) = value_of(piece.text, name) else { continue };
        let Some(prefix) = before(value, end) else { continue };
        let value_start = piece.start + piece.text.len() - value.len();
        edited.extend(&header[copied..value_start]);
        copied = value_start + prefix.len() + 1;
    }
    if copied == 0 {
        return CookieEdit::Keep;
    }
    edited.extend(&header[copied..]);
    CookieEdit::Replace(edited)
}

/// The unquoted value of a `Set-Cookie` header with this name, and the end offset of its raw form.
pub(super) fn set_cookie_value<'a>(header: &'a [u8], name: &str) -> Option<(&'a [u8], usize)> {
    let end = delimiter(header, b';', b';').unwrap_or(header.len());
    let text = header[..end].trim_ascii_end();
    let value = value_of(text.trim_ascii_start(), name)?;
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some((unquoted.unwrap_or(value), text.len()))
}

/// The part before a byte. `None` if the byte does not occur.
pub(super) fn before(text: &[u8], end: u8) -> Option<&[u8]> {
    memchr(end, text).map(|at| &text[..at])
}

/// One element of the list, without surrounding spaces.
struct ListElement<'a> {
    text: &'a [u8],
    start: usize,
    /// End offset of the previous element's text.
    previous_end: usize,
}

fn pieces(header: &[u8]) -> impl Iterator<Item = ListElement<'_>> {
    let (mut at, mut previous_end) = (Some(0), 0);
    std::iter::from_fn(move || {
        let begin = at?;
        let rest = &header[begin..];
        let length = delimiter(rest, b';', b',');
        at = length.map(|length| begin + length + 1);
        let raw = &rest[..length.unwrap_or(rest.len())];
        let text = raw.trim_ascii();
        let start = begin + (raw.len() - raw.trim_ascii_start().len());
        let piece = ListElement { text, start, previous_end };
        previous_end = start + text.len();
        Some(piece)
    })
}

/// The offset of the first of two delimiters outside of quotes.
fn delimiter(text: &[u8], one: u8, other: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr3(one, other, b'"', &text[at..])?;
        if text[at] != b'"' {
            return Some(at);
        }
        at = behind_quoted(text, at + 1)?;
    }
}

/// The offset after the end of a quoted text that continues at `at`.
fn behind_quoted(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        // A backslash, and the byte that it escapes.
        at += 2;
    }
}

/// The value of an element, if it has this name.
fn value_of<'a>(piece: &'a [u8], name: &str) -> Option<&'a [u8]> {
    if !piece.starts_with(name.as_bytes()) {
        return None;
    }
    let own = before(piece, b'=')?;
    (own.trim_ascii_end() == name.as_bytes()).then(|| piece[own.len() + 1..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(edit: CookieEdit) -> String {
        match edit {
            CookieEdit::Keep => "(keep)".to_owned(),
            CookieEdit::Remove => "(remove)".to_owned(),
            CookieEdit::Replace(value) => String::from_utf8_lossy(&value).into_owned(),
        }
    }

    #[test]
    fn removes_a_cookie_with_its_delimiters_and_attributes() {
        #[track_caller]
        fn check(header: &str, expected: &str) {
            assert_eq!(shown(without(header.as_bytes(), "S")), expected);
        }
        check("S=A", "(remove)");
        check("S = A", "(remove)");
        check(";S=A", "(remove)");
        check("S=Z; u=1", "u=1");
        check("x=1; S=B; y=2", "x=1; y=2");
        check("S=A;y=2", "y=2");
        check("y=2;S=A", "y=2");
        check("a=1;b=2; S=A; c=3;d=4", "a=1;b=2; c=3;d=4");
        check("x=1 ;  S=A ;  y=2", "x=1; y=2");
        check("x=1; S=A; S=Z; y=2", "x=1; y=2");
        check("x=\"a; S=B\"; S=A", "x=\"a; S=B\"");
        check("S=A,T=2", "T=2");
        check("x=1; S=A;", "x=1;");
        check(" x=1; y=2; S=A", "x=1; y=2");
        check("$Version=1; S=A; $Path=/", "(remove)");
        check("S=A; $Path=/; x=1; $Path=/x", "x=1; $Path=/x");
        check("S", "(keep)");
        check("s=A; SS=1", "(keep)");
        check("x=\"S=A", "(keep)");
        check("", "(keep)");
    }

    #[test]
    fn removes_the_server_prefix_of_a_cookie_value() {
        #[track_caller]
        fn check(header: &str, expected: &str) {
            assert_eq!(shown(without_prefix(header.as_bytes(), "S", b'~')), expected);
        }
        check("S=A~val", "S=val");
        check("x=1; S=Z~val; y=~", "x=1; S=val; y=~");
        check("S=A~; S=B~c~d", "S=; S=c~d");
        check("S=A", "(keep)");
    }

    #[test]
    fn finds_the_value_of_a_set_cookie_header() {
        #[track_caller]
        fn check(header: &str, expected: Option<(&str, usize)>) {
            let found = set_cookie_value(header.as_bytes(), "S");
            let expected = expected.map(|(value, end)| (value.as_bytes(), end));
            assert_eq!(found, expected);
        }
        check("S=foo; path=/", Some(("foo", 5)));
        check("S = \"bar\" ;secure", Some(("bar", 9)));
        check("S=", Some(("", 2)));
        check("S=\"a;b\"; path=/", Some(("a;b", 7)));
        check("T=1; S=2", None);
        check("x=1, S=foo; path=/", None);
        check("S", None);
    }

    /// The first of these delimiters outside of quotes, byte by byte.
    fn scanned_delimiter(text: &[u8], delimiters: &[u8]) -> Option<usize> {
        let (mut quoted, mut escaped) = (false, false);
        text.iter().position(|byte| {
            if escaped {
                escaped = false;
            } else if quoted && *byte == b'\\' {
                escaped = true;
            } else if *byte == b'"' {
                quoted = !quoted;
            }
            !quoted && delimiters.contains(byte)
        })
    }

    proptest! {
        #[test]
        fn delimiter_search_skips_quoted_delimiters(text in "[a;, \"\\\\]{0,20}") {
            let text = text.as_bytes();
            prop_assert_eq!(delimiter(text, b';', b','), scanned_delimiter(text, b";,"));
            prop_assert_eq!(delimiter(text, b';', b';'), scanned_delimiter(text, b";"));
        }

        /// Starting at the first occurrence of the name finds the same values.
        #[test]
        fn values_equal_those_of_a_full_scan_of_the_header(header in "[S=A~;, \"\\\\$x1]{0,40}") {
            let header = header.as_bytes();
            let all = pieces(header).filter_map(|piece| value_of(piece.text, "S")).collect::<Vec<_>>();
            prop_assert_eq!(values(header, "S").collect::<Vec<_>>(), all);
        }

        /// For any client input: no panic, weir's own cookie is removed completely, other cookies stay.
        #[test]
        fn arbitrary_cookie_headers_are_edited_without_losing_other_cookies(header in "[S=A~;, \"\\\\$x1]{0,40}") {
            let header = header.as_bytes();
            let others = |header: &[u8]| -> Vec<Vec<u8>> {
                pieces(header).filter(|piece| piece.text.starts_with(b"x")).map(|piece| piece.text.to_vec()).collect()
            };
            match without(header, "S") {
                CookieEdit::Replace(edited) => {
                    prop_assert!(values(&edited, "S").next().is_none());
                    prop_assert_eq!(others(&edited), others(header));
                }
                CookieEdit::Remove => prop_assert!(others(header).is_empty()),
                CookieEdit::Keep => {}
            }
            without_prefix(header, "S", b'~');
            set_cookie_value(header, "S");
        }
    }
}
