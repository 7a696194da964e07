//! Paths of scripts: how the path of a request becomes SCRIPT_NAME, SCRIPT_FILENAME, PATH_INFO and PATH_TRANSLATED
//! (HAProxy's manual, 10.1.1 and 10.2).

use std::ops::Range;

/// The parts of the decoded path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptPaths<'a> {
    /// SCRIPT_NAME in two parts: the name, and the appended index (empty if none is).
    pub script_name: [&'a [u8]; 2],
    /// PATH_INFO, never empty. Without it PATH_TRANSLATED is not set either (RFC 3875, 4.1.6).
    pub path_info: Option<&'a [u8]>,
}

impl<'a> ScriptPaths<'a> {
    /// Derives the parts. `path` is percent-decoded, `index` is appended to a script name that ends with a slash,
    /// `captures` are those of the `path-info` regex (`None` without a regex or without a match: the path is the script name).
    #[must_use]
    pub fn new(path: &'a [u8], index: Option<&'a [u8]>, captures: Option<PathCaptures>) -> Self {
        let PathCaptures { script_name, path_info } =
            captures.unwrap_or(PathCaptures { script_name: 0..path.len(), path_info: None });
        // Ranges beyond the path can only come from captures of another one.
        let script_name = path.get(script_name).unwrap_or(path);
        let path_info = path_info.and_then(|range| path.get(range)).filter(|info| !info.is_empty());
        let index = index.filter(|_| script_name.ends_with(b"/")).unwrap_or_default();
        ScriptPaths { script_name: [script_name, index], path_info }
    }

    /// SCRIPT_FILENAME in parts: the document root and SCRIPT_NAME.
    #[must_use]
    pub fn script_filename(&self, docroot: &'a [u8]) -> [&'a [u8]; 3] {
        let [name, index] = self.script_name;
        [docroot, name, index]
    }

    /// PATH_TRANSLATED in parts: the document root and PATH_INFO.
    #[must_use]
    pub fn path_translated(&self, docroot: &'a [u8]) -> Option<[&'a [u8]; 2]> {
        self.path_info.map(|info| [docroot, info])
    }
}

/// The captures of the `path-info` regex, as byte ranges of the decoded path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCaptures {
    /// The first capture.
    pub script_name: Range<usize>,
    /// The second capture, if there is one and it took part in the match.
    pub path_info: Option<Range<usize>>,
}

/// Whether a decoded path has a byte that HAProxy refuses if there is a `path-info` regex: a newline, where regexes end a
/// line, or NUL (manual, 10.1.1, "path-info"). Such a request is answered with an error.
#[must_use]
pub fn forbids_path_info(path: &[u8]) -> bool {
    memchr::memchr2(b'\n', 0, path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_and_nul_forbid_a_path_info_regex() {
        for (path, expected) in [("/a\n", true), ("\0", true), ("/a\r\t%00%0a", false), ("", false)] {
            assert_eq!(forbids_path_info(path.as_bytes()), expected, "{path:?}");
        }
    }

    #[test]
    fn the_path_is_the_script_name_without_captures() {
        let paths = ScriptPaths::new(b"/a.php/b", None, None);
        assert_eq!(paths, ScriptPaths { script_name: [b"/a.php/b", b""], path_info: None });
        assert_eq!(paths.script_filename(b"/www").concat(), b"/www/a.php/b");
        assert_eq!(paths.path_translated(b"/www"), None);
    }

    #[test]
    fn the_index_completes_script_names_that_end_with_a_slash() {
        let script_name = |path, index| ScriptPaths::new(path, index, None).script_name.concat();
        assert_eq!(script_name(b"/", Some(b"index.php")), b"/index.php");
        assert_eq!(script_name(b"/a/", Some(b"index.php")), b"/a/index.php");
        assert_eq!(script_name(b"/a/", None), b"/a/");
        assert_eq!(script_name(b"/a", Some(b"index.php")), b"/a");
        assert_eq!(script_name(b"", Some(b"index.php")), b"");
        let captures = PathCaptures { script_name: 0..3, path_info: Some(3..5) };
        let paths = ScriptPaths::new(b"/a/bc", Some(b"i"), Some(captures));
        assert_eq!(paths, ScriptPaths { script_name: [b"/a/", b"i"], path_info: Some(b"bc") });
        assert_eq!(paths.script_filename(b"/www").concat(), b"/www/a/i");
    }

    #[test]
    fn captures_split_the_path() {
        let path = b"/a.php/b/";
        let of = |path_info| {
            ScriptPaths::new(path, Some(b"i"), Some(PathCaptures { script_name: 0..6, path_info }))
        };
        let paths = of(Some(6..9));
        assert_eq!(paths, ScriptPaths { script_name: [b"/a.php", b""], path_info: Some(b"/b/") });
        assert_eq!(paths.path_translated(b"/www").map(|parts| parts.concat()), Some(b"/www/b/".to_vec()));
        assert_eq!(of(None).path_info, None);
        assert_eq!(of(Some(6..6)).path_info, None, "an empty capture");
    }

    #[test]
    fn captures_beyond_the_path_are_ignored() {
        let captures = PathCaptures { script_name: 2..9, path_info: Some(4..5) };
        let paths = ScriptPaths::new(b"/a", None, Some(captures));
        assert_eq!(paths, ScriptPaths { script_name: [b"/a", b""], path_info: None });
    }
}
