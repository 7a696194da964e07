//! The configuration files: `-f` and `--` name files and folders, in order.
//!
//! All files are read before any is parsed (R149), so that parsing can be repeated, and so that a file that can be read only once (a
//! pipe) works.

use std::io;

use weir_syntax::{Diagnostic, Diagnostics, FileKind, Files, SourceMap, error_text};

/// The largest configuration file in bytes: twice the size of a configuration with a million backends.
const MAX_CONFIGURATION: u64 = 256 << 20;

/// Reads every file that `paths` name. In a folder, reads the files that end in `.cfg` and do not begin with a dot, by name.
pub fn load_sources(paths: &[String], files: &dyn Files, diagnostics: &mut Diagnostics) -> SourceMap {
    let mut sources = SourceMap::new();
    for path in paths {
        match names(path, files) {
            Ok(names) => {
                for name in names {
                    match files.read_stream(&name, MAX_CONFIGURATION) {
                        Ok(bytes) => drop(sources.add(name, bytes)),
                        Err(error) => diagnostics.push(cannot_open("file", &name, &error)),
                    }
                }
            }
            Err(error) => diagnostics.push(cannot_open("file/directory", path, &error)),
        }
    }
    sources
}

/// The value of `HAPROXY_CFGFILES`: the names of all files.
pub fn file_list(sources: &SourceMap) -> String {
    let names: Vec<&str> = sources.iter().map(|(_, source)| source.name()).collect();
    names.join(";")
}

fn names(path: &str, files: &dyn Files) -> io::Result<Vec<String>> {
    if files.kind(path)? != FileKind::Folder {
        return Ok(vec![path.to_owned()]);
    }
    let entries = files.list(path)?.into_iter().filter(|entry| entry.is_file);
    // A name that is not UTF-8 is skipped.
    let is_wanted = |name: &String| {
        name.ends_with(".cfg") && !name.starts_with('.') && !name.contains(char::REPLACEMENT_CHARACTER)
    };
    let mut names: Vec<String> = entries.map(|entry| entry.name).filter(is_wanted).collect();
    names.sort_unstable();
    let folder = path.strip_suffix('/').unwrap_or(path);
    Ok(names.into_iter().map(|name| format!("{folder}/{name}")).collect())
}

fn cannot_open(what: &str, path: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::alert(None, format!("Cannot open configuration {what} {path} : {}", error_text(error)))
}

#[cfg(test)]
mod tests {
    use weir_syntax::FolderEntry;

    use super::*;

    struct DiskFiles;

    impl Files for DiskFiles {
        fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
            match path {
                "/nosuch" | "conf/c.cfg" => Err(io::Error::from_raw_os_error(2)),
                _ => Ok(path.as_bytes().to_vec()),
            }
        }

        fn kind(&self, path: &str) -> io::Result<FileKind> {
            match path {
                "conf" | "conf/" => Ok(FileKind::Folder),
                "/nosuch" => Err(io::Error::from_raw_os_error(2)),
                _ => Ok(FileKind::Regular),
            }
        }

        fn list(&self, _: &str) -> io::Result<Vec<FolderEntry>> {
            let names =
                ["b.cfg", "a.cfg", "B.cfg", ".hidden.cfg", "x.conf", "cfg", "c.cfg", "d.cfg", "\u{fffd}.cfg"];
            let entry = |name: &str| FolderEntry { name: name.to_owned(), is_file: name != "d.cfg" };
            Ok(names.map(entry).to_vec())
        }
    }

    #[test]
    fn a_configuration_folder_is_read_as_its_cfg_files_by_name() {
        let mut diagnostics = Diagnostics::new();
        let paths = ["z.cfg", "conf/", "any.name", "/nosuch"].map(str::to_owned);
        let sources = load_sources(&paths, &DiskFiles, &mut diagnostics);
        assert_eq!(file_list(&sources), "z.cfg;conf/B.cfg;conf/a.cfg;conf/b.cfg;any.name");
        let messages: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "Cannot open configuration file conf/c.cfg : No such file or directory",
                "Cannot open configuration file/directory /nosuch : No such file or directory",
            ]
        );
    }
}
