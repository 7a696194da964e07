//! Normal forms of request targets (`http-request normalize-uri`).

use std::ops::Range;

use crate::{percent, uri};

/// One way to normalize a target. Each does one thing, so that operators can choose the ones that suit their servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Normalizer {
    /// `#` becomes `%23`.
    FragmentEncode,
    /// The fragment is removed.
    FragmentStrip,
    /// Adjacent slashes in the path become one.
    PathMergeSlashes,
    /// Segments `.` are removed from the path.
    PathStripDot,
    /// Segments `..` are removed from the path, each with the preceding segment.
    PathStripDotdot {
        /// Leading `..`, without a preceding segment, are removed too.
        full: bool,
    },
    /// Sequences that encode unreserved characters are decoded.
    PercentDecodeUnreserved {
        /// A broken sequence is an error.
        strict: bool,
    },
    /// The digits of sequences become upper case.
    PercentToUppercase {
        /// A broken sequence is an error.
        strict: bool,
    },
    /// The parameters of the query are sorted by name.
    QuerySortByName,
}

/// A broken percent sequence in a strict normalizer. The request gets a response with status 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrokenSequence;

impl Normalizer {
    /// Writes the normal form of `target` into `out`, which is cleared first. `false` when it is the same.
    pub fn apply(self, target: &[u8], out: &mut Vec<u8>) -> Result<bool, BrokenSequence> {
        out.clear();
        let path = uri::path_place(target);
        match self {
            Normalizer::FragmentEncode => percent::encode(target, |byte| byte != b'#', out),
            Normalizer::FragmentStrip => {
                out.extend_from_slice(&target[..memchr::memchr(b'#', target).unwrap_or(target.len())]);
            }
            Normalizer::PathMergeSlashes => rewrite(target, path, out, merge_slashes),
            Normalizer::PathStripDot => rewrite(target, path, out, strip_dot),
            Normalizer::PathStripDotdot { full } => {
                rewrite(target, path, out, |path, out| strip_dotdot(path, full, out));
            }
            Normalizer::PercentDecodeUnreserved { strict } => decode_unreserved(target, strict, out)?,
            Normalizer::PercentToUppercase { strict } => to_uppercase(target, strict, out)?,
            Normalizer::QuerySortByName => sort_query(target, path.end, out),
        }
        Ok(out != target)
    }
}

fn rewrite(target: &[u8], path: Range<usize>, out: &mut Vec<u8>, change: impl Fn(&[u8], &mut Vec<u8>)) {
    out.extend_from_slice(&target[..path.start]);
    if target[path.clone()].first() == Some(&b'/') {
        change(&target[path.clone()], out);
    } else {
        out.extend_from_slice(&target[path.clone()]);
    }
    out.extend_from_slice(&target[path.end..]);
}

fn merge_slashes(path: &[u8], out: &mut Vec<u8>) {
    let mut after_slash = false;
    for &byte in path {
        if byte != b'/' || !after_slash {
            out.push(byte);
        }
        after_slash = byte == b'/';
    }
}

fn strip_dot(path: &[u8], out: &mut Vec<u8>) {
    out.push(b'/');
    segments(path, |segment, slash| {
        if segment != b"." {
            out.extend_from_slice(segment);
            out.extend_from_slice(slash);
        }
    });
}

fn strip_dotdot(path: &[u8], full: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(b'/');
    // Number of segments at the end of `out` that a `..` may remove. All end with a slash. A kept `..` precedes them.
    let mut depth = 0u32;
    segments(path, |segment, slash| {
        if segment == b".." && depth > 0 {
            depth -= 1;
            out.pop();
            let before = memchr::memrchr(b'/', &out[start..]).map_or(start, |at| start + at);
            out.truncate(before + 1);
        } else if segment != b".." || !full {
            depth += u32::from(segment != b"..");
            out.extend_from_slice(segment);
            out.extend_from_slice(slash);
        }
    });
}

/// Calls `each` with every segment of a path and the slash after it, if there is one.
fn segments(path: &[u8], mut each: impl FnMut(&[u8], &[u8])) {
    let mut rest = path.strip_prefix(b"/").unwrap_or(path);
    while let Some(end) = memchr::memchr(b'/', rest) {
        each(&rest[..end], b"/");
        rest = &rest[end + 1..];
    }
    each(rest, b"");
}

fn decode_unreserved(target: &[u8], strict: bool, out: &mut Vec<u8>) -> Result<(), BrokenSequence> {
    sequences(target, strict, out, |sequence, byte, out| {
        if percent::is_unreserved(byte) { out.push(byte) } else { out.extend_from_slice(sequence) }
    })
}

fn to_uppercase(target: &[u8], strict: bool, out: &mut Vec<u8>) -> Result<(), BrokenSequence> {
    sequences(target, strict, out, |sequence, _, out| out.extend(sequence.iter().map(u8::to_ascii_uppercase)))
}

fn sequences(
    target: &[u8],
    strict: bool,
    out: &mut Vec<u8>,
    write: impl Fn(&[u8], u8, &mut Vec<u8>),
) -> Result<(), BrokenSequence> {
    let mut at = 0;
    while let Some(&byte) = target.get(at) {
        if byte != b'%' {
            out.push(byte);
            at += 1;
            continue;
        }
        match percent::sequence(&target[at..]) {
            Some(decoded) => {
                write(&target[at..at + 3], decoded, out);
                at += 3;
            }
            None if strict => return Err(BrokenSequence),
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Ok(())
}

fn sort_query(target: &[u8], query_at: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&target[..query_at]);
    let Some(query) = target[query_at..].strip_prefix(b"?") else { return };
    out.push(b'?');
    let query = query.strip_suffix(b"&").unwrap_or(query);
    let mut parameters: Vec<&[u8]> = query.split(|byte| *byte == b'&').collect();
    parameters.sort_by_key(|parameter| name(parameter));
    out.extend_from_slice(&parameters.join(&b'&'));
}

fn name(parameter: &[u8]) -> &[u8] {
    &parameter[..memchr::memchr(b'=', parameter).unwrap_or(parameter.len())]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(normalizer: Normalizer, target: &str, want: Option<&str>) {
        let mut out = b"old".to_vec();
        let changed = normalizer.apply(target.as_bytes(), &mut out);
        assert_eq!(changed, want.map(|want| want != target).ok_or(BrokenSequence), "{target}");
        if let Some(want) = want {
            assert_eq!(std::str::from_utf8(&out).unwrap(), want, "{target}");
        }
    }

    fn all(normalizer: Normalizer, rows: &[(&str, &str)]) {
        for (target, want) in rows {
            check(normalizer, target, Some(want));
        }
    }

    #[test]
    fn encodes_or_strips_uri_fragments() {
        all(Normalizer::FragmentEncode, &[("/#foo", "/%23foo"), ("/a?b#c#d", "/a?b%23c%23d"), ("/a", "/a")]);
        all(Normalizer::FragmentStrip, &[("/#foo", "/"), ("/a?b#c#d", "/a?b"), ("/#", "/"), ("/a", "/a")]);
    }

    #[test]
    fn merges_slashes_of_a_path() {
        all(
            Normalizer::PathMergeSlashes,
            &[
                ("//", "/"),
                ("/a//b?c//d", "/a/b?c//d"),
                ("//a///b//", "/a/b/"),
                ("http://ho//a//b", "http://ho/a/b"),
                ("http:///p", "http:///p"),
                ("*", "*"),
            ],
        );
    }

    #[test]
    fn removes_single_dot_segments_of_a_path() {
        all(
            Normalizer::PathStripDot,
            &[
                ("/.", "/"),
                ("/./bar/", "/bar/"),
                ("/a/./a", "/a/a"),
                ("/.well-known/", "/.well-known/"),
                ("/a/.", "/a/"),
                ("/./.", "/"),
                ("/a./b?/./", "/a./b?/./"),
                ("//./a", "//a"),
                ("*", "*"),
            ],
        );
    }

    #[test]
    fn removes_double_dot_segments_of_a_path() {
        let both = [
            ("/foo/../", "/"),
            ("/foo/../bar/", "/bar/"),
            ("/foo/bar/../", "/foo/"),
            ("/foo//../", "/foo/"),
            ("/foo/%2E%2E/", "/foo/%2E%2E/"),
            ("/foo/..", "/"),
            ("/foo/bar/..", "/foo/"),
            ("/a/b/../../c", "/c"),
            ("/..a/b../...", "/..a/b../..."),
            ("/a/..?x/../y", "/?x/../y"),
            ("/a/./../b", "/a/b"),
            ("//..", "/"),
        ];
        all(Normalizer::PathStripDotdot { full: false }, &both);
        all(Normalizer::PathStripDotdot { full: true }, &both);
        for (target, kept, full) in [
            ("/../bar/", "/../bar/", "/bar/"),
            ("/bar/../../", "/../", "/"),
            ("/..", "/..", "/"),
            ("/../..", "/../..", "/"),
            ("/a/../../b/../c", "/../c", "/c"),
        ] {
            check(Normalizer::PathStripDotdot { full: false }, target, Some(kept));
            check(Normalizer::PathStripDotdot { full: true }, target, Some(full));
        }
    }

    #[test]
    fn normalizes_percent_sequences() {
        for strict in [false, true] {
            let decode = Normalizer::PercentDecodeUnreserved { strict };
            let upper = Normalizer::PercentToUppercase { strict };
            all(decode, &[("/%61dmin", "/admin"), ("/foo%3Fbar", "/foo%3Fbar"), ("/%7E%2D%5f%2e", "/~-_.")]);
            all(upper, &[("/%6f%2f", "/%6F%2F"), ("/a?b=%c3", "/a?b=%C3")]);
            for (broken, want) in [("/%%36%36", "/%66"), ("/%ZZ", "/%ZZ"), ("/%", "/%"), ("/%4", "/%4")] {
                check(decode, broken, (!strict).then_some(want));
            }
            check(upper, "/%zz", (!strict).then_some("/%zz"));
        }
    }

    #[test]
    fn sorts_query_parameters_by_name() {
        all(
            Normalizer::QuerySortByName,
            &[
                ("/?c=3&a=1&b=2", "/?a=1&b=2&c=3"),
                ("/?aaa=3&a=1&aa=2", "/?a=1&aa=2&aaa=3"),
                ("/?a=3&b=4&a=1&b=5&a=2", "/?a=3&a=1&a=2&b=4&b=5"),
                ("/?a-=1&a=1", "/?a=1&a-=1"),
                ("/?b&&a", "/?&a&b"),
                ("/?a=2&", "/?a=2"),
                ("/?", "/?"),
                ("/", "/"),
            ],
        );
    }

    proptest! {
        /// Normalizing twice changes nothing more.
        #[test]
        fn normalizing_a_uri_twice_changes_nothing_more(target in "[/a.%2Ee?&=#]{0,20}") {
            for normalizer in [
                Normalizer::FragmentEncode,
                Normalizer::FragmentStrip,
                Normalizer::PathMergeSlashes,
                Normalizer::PathStripDot,
                Normalizer::PathStripDotdot { full: false },
                Normalizer::PathStripDotdot { full: true },
                Normalizer::PercentToUppercase { strict: false },
            ] {
                let (mut once, mut twice) = (Vec::new(), Vec::new());
                let _ = normalizer.apply(target.as_bytes(), &mut once);
                prop_assert_eq!(normalizer.apply(&once, &mut twice), Ok(false), "{:?}", normalizer);
            }
        }
    }
}
