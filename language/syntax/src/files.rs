//! File access while a configuration is loaded: an argument of each function that reads files.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// Reads the files of a configuration, and those that it names.
pub trait Files {
    /// The bytes of a regular file of at most `limit` bytes. A larger file is an error, detected before the whole file is in memory.
    ///
    /// # Errors
    /// `FileTooLarge`, `InvalidInput` for anything but a regular file, and the system's errors.
    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>>;

    /// Like [`Files::read`], but also reads a pipe until EOF.
    ///
    /// # Errors
    /// As [`Files::read`].
    fn read_stream(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        self.read(path, limit)
    }

    /// The kind of the file at a path. By default, only regular files exist.
    ///
    /// # Errors
    /// The system's error, for example `NotFound`.
    fn kind(&self, path: &str) -> io::Result<FileKind> {
        self.read(path, MAX_NAMED_FILE).map(|_| FileKind::Regular)
    }

    /// The entries of a folder, in any order.
    ///
    /// # Errors
    /// The system's error, for example `NotADirectory`.
    fn list(&self, folder: &str) -> io::Result<Vec<FolderEntry>> {
        self.kind(folder).and(Err(io::ErrorKind::NotADirectory.into()))
    }

    /// The bytes of a file or a pipe, up to [`MAX_NAMED_FILE`].
    ///
    /// # Errors
    /// As [`Files::read`].
    fn read_all(&self, path: &str) -> io::Result<Vec<u8>> {
        self.read_stream(path, MAX_NAMED_FILE)
    }

    /// The text of a file or a pipe, up to [`MAX_NAMED_FILE`].
    ///
    /// # Errors
    /// As [`Files::read`], and `InvalidData` if it is not UTF-8.
    fn read_text(&self, path: &str) -> io::Result<String> {
        let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
        String::from_utf8(self.read_all(path)?).map_err(not_text)
    }
}

/// The largest file that a configuration may name, in bytes: about a map of ten million entries.
pub const MAX_NAMED_FILE: u64 = 1 << 30;

/// The kind of a file. Symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Folder,
    /// A pipe, a socket or a device.
    Special,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The file name. Bytes outside of UTF-8 are replaced, so such a file cannot be opened.
    pub name: String,
    /// Whether it is a regular file. Symbolic links are followed.
    pub is_file: bool,
}

/// An empty file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Files in memory, by path: each prefix of a path is a folder.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(BTreeMap<String, Vec<u8>>);

impl MemoryFiles {
    /// Adds a file, or replaces it.
    pub fn insert(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.to_owned(), bytes.into());
    }

    /// The paths below a folder, relative to the folder.
    fn below(&self, folder: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        self.0.keys().filter_map(move |path| path.strip_prefix(&prefix))
    }
}

impl<P: Into<String>, B: Into<Vec<u8>>> FromIterator<(P, B)> for MemoryFiles {
    fn from_iter<I: IntoIterator<Item = (P, B)>>(files: I) -> Self {
        MemoryFiles(files.into_iter().map(|(path, bytes)| (path.into(), bytes.into())).collect())
    }
}

impl Files for MemoryFiles {
    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        match self.0.get(path) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(bytes) if bytes.len() as u64 > limit => {
                Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes")))
            }
            Some(bytes) => Ok(bytes.clone()),
        }
    }

    fn kind(&self, path: &str) -> io::Result<FileKind> {
        if self.0.contains_key(path) {
            return Ok(FileKind::Regular);
        }
        self.below(path).next().map(|_| FileKind::Folder).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<FolderEntry>> {
        let mut entries: Vec<FolderEntry> = Vec::new();
        for rest in self.below(folder) {
            let (name, is_file) = rest.split_once('/').map_or((rest, true), |(name, _)| (name, false));
            if entries.last().is_none_or(|last| last.name != name) {
                entries.push(FolderEntry { name: name.to_owned(), is_file });
            }
        }
        if entries.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(entries) }
    }
}

/// Files for an object that lives longer than the loading of its configuration. Empty by default.
#[derive(Clone)]
pub struct SharedFiles(Arc<dyn Files + Send + Sync>);

impl SharedFiles {
    /// Shares `files`.
    pub fn new(files: impl Files + Send + Sync + 'static) -> Self {
        SharedFiles(Arc::new(files))
    }
}

impl Default for SharedFiles {
    fn default() -> Self {
        SharedFiles::new(NoFiles)
    }
}

impl Deref for SharedFiles {
    type Target = dyn Files;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for SharedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedFiles")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_files_form_folders() {
        let files: MemoryFiles = [("a/b", "1"), ("a/c/d", "22"), ("a/c/e", "\u{e9}")].into_iter().collect();
        let kinds = ["a", "a/", "a/b", "a/c", "a/x"].map(|path| files.kind(path).ok());
        let (folder, regular) = (Some(FileKind::Folder), Some(FileKind::Regular));
        assert_eq!(kinds, [folder, folder, regular, folder, None]);
        let listed = files.list("a").expect("a folder");
        let entry = |name: &str, is_file| FolderEntry { name: name.to_owned(), is_file };
        assert_eq!(listed, [entry("b", true), entry("c", false)]);
        assert_eq!(files.list("a/b").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        assert_eq!(NoFiles.list("a").map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
        let read = |path: &str, limit| files.read(path, limit).map_err(|error| error.kind());
        assert_eq!(
            (read("a/c/d", 2), read("a/c/d", 1)),
            (Ok(b"22".to_vec()), Err(io::ErrorKind::FileTooLarge))
        );
        assert_eq!(files.read_text("a/c/e").expect("text"), "\u{e9}");
        let broken: MemoryFiles = [("x", [0xff])].into_iter().collect();
        assert_eq!(broken.read_text("x").map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData));
    }
}
