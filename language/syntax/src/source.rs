//! Source files in memory, and spans that point into them.
//!
//! Loading is separate from parsing: every file is read once, put into a [`SourceMap`], and may then be
//! parsed any number of times (R149).

use std::sync::OnceLock;

use memchr::memchr_iter;

/// All files of one configuration, in the order they were given, and the files that lines include.
#[derive(Debug, Default, Clone)]
pub struct SourceMap {
    sources: Vec<SourceText>,
    /// The files that lines include. They are found during parsing, when the map is shared, so this list only grows.
    included: IncludedSources,
}

/// A list of included files that grows behind a shared reference.
#[derive(Debug, Default, Clone)]
struct IncludedSources(OnceLock<Box<IncludedSource>>);

#[derive(Debug, Clone)]
struct IncludedSource {
    text: SourceText,
    next: IncludedSources,
}

/// The identifier of one file of a [`SourceMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// One file: the name the operator gave, and its bytes as read.
#[derive(Debug, Clone)]
pub struct SourceText {
    name: String,
    bytes: Vec<u8>,
    line_starts: Vec<u32>,
}

/// A range of one raw line: `line` counts from one, `start..end` are byte columns counted from zero.
///
/// An empty range (`start == end`) points between two bytes, for example where a missing argument should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub file: FileId,
    /// Line number, from one.
    pub line: u32,
    /// First byte column, from zero.
    pub start: u32,
    /// One past the last byte column.
    pub end: u32,
}

impl SourceMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. The limits are `u32::MAX` files and 4 GiB per file. Further bytes are cut off.
    pub fn add(&mut self, name: impl Into<String>, bytes: Vec<u8>) -> FileId {
        let id = FileId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.push(SourceText::new(name.into(), bytes));
        id
    }

    /// Adds a file that a line includes. The same name with the same bytes gives the same id. [`SourceMap::iter`] leaves included files
    /// out. None if there are 1024 different ones already.
    pub fn include(&self, name: &str, bytes: Vec<u8>) -> Option<FileId> {
        let text = SourceText::new(name.into(), bytes);
        let mut list = &self.included;
        for number in 0..MAX_INCLUDED_SOURCES {
            let known = list.0.get_or_init(|| {
                Box::new(IncludedSource { text: text.clone(), next: IncludedSources::default() })
            });
            if known.text.name == text.name && known.text.bytes == text.bytes {
                return Some(FileId(FIRST_INCLUDED + number));
            }
            list = &known.next;
        }
        None
    }

    /// The file behind an id.
    pub fn get(&self, id: FileId) -> Option<&SourceText> {
        let Some(number) = id.0.checked_sub(FIRST_INCLUDED) else {
            return self.sources.get(id.0 as usize);
        };
        let mut included = self.included.0.get()?;
        for _ in 0..number {
            included = included.next.0.get()?;
        }
        Some(&included.text)
    }

    /// The name of a file. Empty for an id of another map.
    pub fn name(&self, id: FileId) -> &str {
        self.get(id).map_or("", |source| source.name())
    }

    /// Every file with its id, in the order added, except included files.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &SourceText)> {
        self.sources.iter().enumerate().map(|(index, source)| (FileId(index as u32), source))
    }
}

impl SourceText {
    fn new(name: String, mut bytes: Vec<u8>) -> Self {
        bytes.truncate(MAX_SOURCE_BYTES);
        let mut line_starts = vec![0];
        line_starts.extend(memchr_iter(b'\n', &bytes).map(|position| position as u32 + 1));
        if line_starts.last() == Some(&(bytes.len() as u32)) {
            line_starts.pop(); // what follows the last newline is not a line
        }
        SourceText { name, bytes, line_starts }
    }

    /// The name as the operator gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes as read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of lines. A last line without a newline counts.
    pub fn line_count(&self) -> u32 {
        self.line_starts.len() as u32
    }

    /// Line `number` (from one) without its newline, and whether a newline ended it.
    pub fn line(&self, number: u32) -> Option<(&[u8], bool)> {
        let index = (number as usize).checked_sub(1)?;
        let start = *self.line_starts.get(index)? as usize;
        match self.line_starts.get(index + 1) {
            Some(&next) => Some((&self.bytes[start..next as usize - 1], true)),
            None => {
                let rest = &self.bytes[start..];
                Some(match rest.strip_suffix(b"\n") {
                    Some(line) => (line, true),
                    None => (rest, false),
                })
            }
        }
    }
}

impl Span {
    /// A span of one line.
    pub fn new(file: FileId, line: u32, start: u32, end: u32) -> Self {
        Self { file, line, start, end: end.max(start) }
    }

    /// From the start of `self` to the end of `other`, which must be on the same line.
    pub fn to(self, other: Span) -> Span {
        if (self.file, self.line) != (other.file, other.line) {
            return self;
        }
        Span { start: self.start.min(other.start), end: self.end.max(other.end), ..self }
    }

    /// The empty span just after this one.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// Columns and offsets are 32 bits wide.
const MAX_SOURCE_BYTES: usize = u32::MAX as usize - 1;
/// The limit of included files. The list is walked, and freed recursively.
const MAX_INCLUDED_SOURCES: u32 = 1024;
/// The identifier of the first included file.
const FIRST_INCLUDED: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut map = SourceMap::new();
        let id = map.add("f", bytes.to_vec());
        let source = map.get(id).unwrap();
        (1..=source.line_count()).map(|n| source.line(n).unwrap()).map(|(l, e)| (l.to_vec(), e)).collect()
    }

    #[test]
    fn source_lines_are_split_only_at_newlines() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [(b"".to_vec(), true)]);
        assert_eq!(lines(b"a\nb"), [(b"a".to_vec(), true), (b"b".to_vec(), false)]);
        assert_eq!(
            lines(b"a\r\n\nb\n"),
            [(b"a\r".to_vec(), true), (b"".to_vec(), true), (b"b".to_vec(), true)]
        );
    }

    #[test]
    fn included_files_are_found_by_id_and_left_out_of_the_list() {
        let mut map = SourceMap::new();
        let main = map.add("main", b"a\n".to_vec());
        let first = map.include("e", b"b\n".to_vec()).unwrap();
        let changed = map.include("e", b"c\n".to_vec()).unwrap();
        assert_eq!(map.include("e", b"b\n".to_vec()), Some(first));
        assert_eq!([main, first, changed].map(|id| map.get(id).unwrap().bytes()[0]), *b"abc");
        assert_eq!(map.name(changed), "e");
        assert_eq!(map.iter().map(|(id, _)| id).collect::<Vec<_>>(), [main]);
        assert!(map.clone().get(changed).is_some());
        let more = (0..MAX_INCLUDED_SOURCES).map_while(|number| map.include(&number.to_string(), Vec::new()));
        assert_eq!(more.count(), MAX_INCLUDED_SOURCES as usize - 2);
        assert!(map.get(FileId(u32::MAX)).is_none());
    }

    #[test]
    fn spans_are_joined_only_on_one_line() {
        let mut map = SourceMap::new();
        let file = map.add("f", Vec::new());
        let first = Span::new(file, 1, 2, 4);
        assert_eq!(first.to(Span::new(file, 1, 6, 9)), Span::new(file, 1, 2, 9));
        assert_eq!(first.to(Span::new(file, 2, 6, 9)), first);
        assert_eq!(first.after(), Span::new(file, 1, 4, 4));
    }
}
