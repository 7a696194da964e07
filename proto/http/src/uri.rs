//! Request targets: their four forms and their parts (RFC 9112, 3.2).

use std::ops::Range;

/// The form of a request target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetForm {
    /// `/path?query`, the usual form.
    Origin,
    /// `http://host/path?query`: to a proxy.
    Absolute,
    /// `host:port`: with `CONNECT`.
    Authority,
    /// `*`: with `OPTIONS`.
    Asterisk,
    /// None of these: an empty target.
    Other,
}

/// The form of a target. Authority form is anything that matches no other form.
#[inline]
pub fn form(target: &[u8]) -> TargetForm {
    match target.first() {
        Some(b'/') => TargetForm::Origin,
        Some(b'*') if target.len() == 1 => TargetForm::Asterisk,
        None => TargetForm::Other,
        Some(_) if scheme_end(target).is_some() => TargetForm::Absolute,
        Some(_) => TargetForm::Authority,
    }
}

/// The scheme of a target in absolute form.
pub fn scheme(target: &[u8]) -> Option<&[u8]> {
    scheme_end(target).map(|end| &target[..end])
}

/// The authority of a target in absolute or authority form, with user information if it has one.
pub fn authority(target: &[u8]) -> Option<&[u8]> {
    match form(target) {
        TargetForm::Absolute => {
            let start = scheme_end(target)? + 3;
            Some(&target[start..path_place(target).start])
        }
        TargetForm::Authority => Some(target),
        _ => None,
    }
}

/// The default port of a scheme.
pub fn default_port(scheme: &[u8]) -> Option<&'static [u8]> {
    if scheme.eq_ignore_ascii_case(b"http") {
        Some(b"80")
    } else if scheme.eq_ignore_ascii_case(b"https") {
        Some(b"443")
    } else {
        None
    }
}

/// Removes `:port` from the end of an authority, if present.
pub fn without_port<'a>(authority: &'a [u8], port: &[u8]) -> &'a [u8] {
    authority.strip_suffix(port).and_then(|rest| rest.strip_suffix(b":")).unwrap_or(authority)
}

/// The host and the port of an authority. Brackets around an IPv6 address are removed. A port that is not a number is ignored.
pub fn host_and_port(authority: &[u8]) -> (&[u8], Option<u16>) {
    let authority = without_userinfo(authority);
    let (host, rest) = match authority.strip_prefix(b"[") {
        Some(inside) => match memchr::memchr(b']', inside) {
            Some(end) => (&inside[..end], &inside[end + 1..]),
            None => return (authority, None),
        },
        None => authority.split_at(memchr::memchr(b':', authority).unwrap_or(authority.len())),
    };
    let digits = rest.strip_prefix(b":").filter(|digits| digits.iter().all(u8::is_ascii_digit));
    (host, digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()))
}

/// An authority without the user information before `@`.
pub fn without_userinfo(authority: &[u8]) -> &[u8] {
    memchr::memrchr(b'@', authority).map_or(authority, |at| &authority[at + 1..])
}

/// The range of the path in a target. Without a path, an empty range at its position. A fragment, which clients must
/// not send and which is accepted only by option, counts as part of the text before it.
#[inline]
pub fn path_place(target: &[u8]) -> Range<usize> {
    let start = match target.first() {
        Some(b'/') => 0,
        Some(_) => match scheme_end(target) {
            Some(end) => {
                let from = end + 3;
                let rest = &target[from..];
                from + rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len())
            }
            None => memchr::memchr(b'?', target).unwrap_or(target.len()),
        },
        None => 0,
    };
    let rest = &target[start..];
    start..start + memchr::memchr(b'?', rest).unwrap_or(rest.len())
}

/// Whether a target can have a path, even an empty one: relative references, `*` and `host:port` cannot.
pub fn has_path(target: &[u8]) -> bool {
    matches!(form(target), TargetForm::Origin | TargetForm::Absolute)
}

/// The host that a target names, if any: its authority, or the part before the first slash of a target that has neither
/// a scheme nor a slash at its beginning. User information is excluded.
pub fn named_host(target: &[u8]) -> Option<&[u8]> {
    let authority = authority(target)?;
    let end = authority.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(authority.len());
    Some(without_userinfo(&authority[..end])).filter(|host| !host.is_empty())
}

/// The path of a target.
#[inline]
pub fn path(target: &[u8]) -> &[u8] {
    &target[path_place(target)]
}

/// The path and everything after it.
#[inline]
pub fn path_and_query(target: &[u8]) -> &[u8] {
    &target[path_place(target).start..]
}

/// The part after the first `?`.
#[inline]
pub fn query(target: &[u8]) -> Option<&[u8]> {
    target[path_place(target).end..].strip_prefix(b"?")
}

/// Offset of the scheme's end in `scheme://...`.
fn scheme_end(target: &[u8]) -> Option<usize> {
    let end = target
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    (end > 0 && target[end..].starts_with(b"://")).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a target's form, scheme, authority, path and query.
    #[track_caller]
    fn check(target: &str, want: (TargetForm, Option<&str>, Option<&str>, &str, Option<&str>)) {
        let bytes = target.as_bytes();
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        let seen = (
            form(bytes),
            scheme(bytes).map(text),
            authority(bytes).map(text),
            text(path(bytes)),
            query(bytes).map(text),
        );
        assert_eq!(seen, want, "{target}");
    }

    #[test]
    fn splits_request_targets_into_parts() {
        check("/", (TargetForm::Origin, None, None, "/", None));
        check("/a?b", (TargetForm::Origin, None, None, "/a", Some("b")));
        check("/a?", (TargetForm::Origin, None, None, "/a", Some("")));
        check("/a?b?c", (TargetForm::Origin, None, None, "/a", Some("b?c")));
        check("/a#b?c", (TargetForm::Origin, None, None, "/a#b", Some("c")));
        check("//a://b", (TargetForm::Origin, None, None, "//a://b", None));
        check("http://ho", (TargetForm::Absolute, Some("http"), Some("ho"), "", None));
        check("http://ho?x", (TargetForm::Absolute, Some("http"), Some("ho"), "", Some("x")));
        check("http://u:p@ho:1/p?x", (TargetForm::Absolute, Some("http"), Some("u:p@ho:1"), "/p", Some("x")));
        check("http:///p", (TargetForm::Absolute, Some("http"), Some(""), "/p", None));
        check("a:443", (TargetForm::Authority, None, Some("a:443"), "", None));
        check("*", (TargetForm::Asterisk, None, None, "", None));
        // Rules can write such targets; later rules still find the query.
        check("p?x/y?z", (TargetForm::Authority, None, Some("p?x/y?z"), "", Some("x/y?z")));
        check("*?x", (TargetForm::Authority, None, Some("*?x"), "", Some("x")));
        check("", (TargetForm::Other, None, None, "", None));
    }

    #[test]
    fn splits_authorities_into_host_and_port() {
        assert_eq!(without_userinfo(b"u:p@ho:1"), b"ho:1");
        assert_eq!(named_host(b"http://u@ho:80/x"), Some(&b"ho:80"[..]));
        assert_eq!(named_host(b"ho/x?y"), Some(&b"ho"[..]));
        assert_eq!([b"/ho/x".as_slice(), b"*", b"?x", b"http:///x"].map(named_host), [None; 4]);
        assert_eq!(without_port(b"ho:80", b"80"), b"ho");
        assert_eq!(without_port(b"ho:180", b"80"), b"ho:180");
        assert_eq!(default_port(b"HTTPS"), Some(&b"443"[..]));
        assert_eq!(default_port(b"ftp"), None);
        for (authority, host, port) in [
            ("ho", "ho", None),
            ("u:p@ho:8080", "ho", Some(8080)),
            ("[::1]:443", "::1", Some(443)),
            ("[::1]", "::1", None),
            ("[::1", "[::1", None),
            ("ho:", "ho", None),
            ("ho:x", "ho", None),
            ("ho:65536", "ho", None),
        ] {
            assert_eq!(host_and_port(authority.as_bytes()), (host.as_bytes(), port), "{authority}");
        }
    }
}
