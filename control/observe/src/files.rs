//! Reads the files of a configuration from the file system.

use std::fs::{metadata, read_dir};
use std::io;
use std::path::Path;

use weir_syntax::{FileKind, Files, FolderEntry};
use weir_sys::file;

/// Access to files through the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        file::read_regular(Path::new(path), limit)
    }

    fn read_stream(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        file::read_stream(Path::new(path), limit)
    }

    fn kind(&self, path: &str) -> io::Result<FileKind> {
        let found = metadata(path)?;
        Ok(match (found.is_file(), found.is_dir()) {
            (true, _) => FileKind::Regular,
            (_, true) => FileKind::Folder,
            _ => FileKind::Special,
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<FolderEntry>> {
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(FolderEntry { name, is_file: entry.path().is_file() })
        };
        read_dir(folder)?.map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_folder_or_a_large_file_fails_with_its_own_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
        std::fs::write(path("a"), "text").expect("a file");
        std::fs::create_dir(path("d")).expect("a folder");
        std::os::unix::fs::symlink(path("a"), path("l")).expect("a link");
        let kinds = ["a", "d", "l", "none"].map(|name| SystemFiles.kind(&path(name)).ok());
        let regular = Some(FileKind::Regular);
        assert_eq!(kinds, [regular, Some(FileKind::Folder), regular, None]);
        assert_eq!(SystemFiles.kind("/dev/null").ok(), Some(FileKind::Special));
        let mut entries = SystemFiles.list(&path("")).expect("a folder");
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let listed: Vec<_> = entries.iter().map(|entry| (&*entry.name, entry.is_file)).collect();
        assert_eq!(listed, [("a", true), ("d", false), ("l", true)]);
        assert_eq!(SystemFiles.read_text(&path("l")).expect("a file"), "text");
        let large = SystemFiles.read(&path("a"), 3).map_err(|error| error.kind());
        assert_eq!(large, Err(io::ErrorKind::FileTooLarge));
    }
}
