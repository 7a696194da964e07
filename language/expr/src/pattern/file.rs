//! The lines of pattern and map files.

/// A line of a file, neither empty nor a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEntry<'f> {
    /// The line number, from 1.
    pub line: usize,
    pub pattern: &'f [u8],
    /// The value, in map files.
    pub value: Option<&'f [u8]>,
}

/// The entries of a file with one pattern per line.
///
/// Lines that begin with `#` are comments, so a pattern that begins with `#` needs a space in front. Leading blanks and the line ending
/// are removed.
pub fn acl_entries(bytes: &[u8]) -> impl Iterator<Item = FileEntry<'_>> {
    lines(bytes).map(|(line, pattern)| FileEntry { line, pattern, value: None })
}

/// The entries of a file with a key and a value per line. The value is the text after the first word, without leading and trailing blanks.
/// A key alone has an empty value.
pub fn map_entries(bytes: &[u8]) -> impl Iterator<Item = FileEntry<'_>> {
    lines(bytes).map(|(line, text)| {
        let (pattern, rest) =
            text.split_at(text.iter().position(|byte| is_blank(*byte)).unwrap_or(text.len()));
        FileEntry { line, pattern, value: Some(trim_end(trim_start(rest))) }
    })
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    bytes.split(|byte| *byte == b'\n').enumerate().filter_map(|(index, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first() == Some(&b'#') {
            return None;
        }
        let text = trim_start(line);
        (!text.is_empty()).then_some((index + 1, text))
    })
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    &text[start..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_files_skip_comments_and_blank_lines() {
        let entries: Vec<_> = acl_entries(b"# comment\n\n  \t\nfoo\r\n  bar baz\n #sharp\nlast")
            .map(|entry| (entry.line, entry.pattern))
            .collect();
        assert_eq!(entries, [(4, b"foo".as_slice()), (5, b"bar baz"), (6, b"#sharp"), (7, b"last")]);
    }

    #[test]
    fn map_file_lines_have_a_key_and_a_value() {
        let entries: Vec<_> = map_entries(b"   2.22.246.0/23    United Kingdom      \nkey\n").collect();
        assert_eq!(entries[0].pattern, b"2.22.246.0/23");
        assert_eq!(entries[0].value, Some(b"United Kingdom".as_slice()));
        assert_eq!(entries[1].value, Some(b"".as_slice()));
    }
}
