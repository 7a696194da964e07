//! Core dumps (`set-dumpable`), as far as the process can influence them. With `libs`, a tar archive of the program and its libraries
//! stays in the process's memory. So a core contains the exact files that ran, even after an update. To extract them, run `tar` from
//! the offset of `ustar` minus 257 bytes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use weir_model::CoreDump;
use weir_sys::process;

use weir_observe::messages::Messages;

/// Prepares core dumps before the process changes identity and root directory. Dumps are enabled after it has its final identity.
pub fn prepare(wanted: CoreDump, messages: &Messages) {
    if wanted == CoreDump::AsAllowed {
        return;
    }
    process::lift_file_limits();
    if wanted == CoreDump::WithLibraries {
        match running_files().and_then(|files| archive(&files, messages)) {
            // Leaked on purpose: it must stay in memory until the process ends.
            Ok(archive) => drop(Box::leak(archive)),
            Err(error) => messages.warning(format!(
                "'set-dumpable libs': cannot list the object files of the process: {error}."
            )),
        }
    }
}

/// The files that the process has mapped as code: the program first, then its libraries.
pub fn running_files() -> io::Result<Vec<PathBuf>> {
    let mut files = vec![std::env::current_exe()?];
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        // Fields: addresses, permissions, offset, device, inode, and a path that may contain spaces.
        let rights = line.split_ascii_whitespace().nth(1).unwrap_or_default();
        let path = line.find('/').map(|at| Path::new(&line[at..]));
        if let Some(path) = path.filter(|_| rights.contains('x'))
            && files.iter().all(|known| known != path)
        {
            files.push(path.to_path_buf());
        }
    }
    Ok(files)
}

/// A tar archive of these files. The first must be the program itself. Unreadable files are reported and skipped.
pub fn archive(files: &[PathBuf], messages: &Messages) -> io::Result<Box<[u8]>> {
    let sources: Vec<_> = files
        .iter()
        .enumerate()
        // Use the program's own file, even if another file has its name by now.
        .map(|(position, path)| (path, if position == 0 { Path::new("/proc/self/exe") } else { path }))
        .collect();
    let sizes = sources.iter().filter_map(|(_, source)| std::fs::metadata(source).ok());
    // Allocate once: a core would also contain the copies that a growing buffer leaves behind.
    let room = sizes.map(|file| file.len() as usize + ROOM_OF_ENTRY).sum::<usize>() + ROOM_OF_END;
    let mut archive = tar::Builder::new(Vec::with_capacity(room));
    for (path, source) in sources {
        let kept = File::open(source)
            .and_then(|mut file| archive.append_file(path.strip_prefix("/").unwrap_or(path), &mut file));
        if let Err(error) = kept {
            let path = path.display();
            messages.warning(format!("'set-dumpable libs': cannot keep a copy of {path}: {error}."));
        }
    }
    Ok(archive.into_inner()?.into_boxed_slice())
}

/// Space for a header, a second header for a long name, and the padding of the last block.
const ROOM_OF_ENTRY: usize = 4 * 512;
/// The two blocks of zeros that end an archive.
const ROOM_OF_END: usize = 2 * 512;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    static MESSAGES: Messages = Messages::new();

    #[test]
    fn the_core_dump_archive_contains_the_program_and_its_libraries() {
        let files = running_files().expect("a process sees itself");
        assert!(files.iter().any(|path| path.to_string_lossy().contains("libc.so")), "{files:?}");
        let bytes = archive(&files, &MESSAGES).expect("memory takes it");
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut found = 0;
        for (entry, path) in archive.entries().expect("an archive").zip(&files) {
            let mut entry = entry.expect("whole");
            assert_eq!(Path::new("/").join(entry.path().expect("a name")), *path);
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("whole");
            assert!(content == std::fs::read(path).expect("it is there"), "{path:?}");
            found += 1;
        }
        assert_eq!(found, files.len());
        assert_eq!(MESSAGES.startup_logs(), "");
    }

    #[test]
    fn a_missing_library_is_reported_and_omitted_from_the_archive() {
        static SAID: Messages = Messages::new();
        let files = [std::env::current_exe().expect("known"), PathBuf::from("/nonexistent/lib.so")];
        let bytes = archive(&files, &SAID).expect("memory takes it");
        assert_eq!(tar::Archive::new(&bytes[..]).entries().expect("an archive").count(), 1);
        assert!(SAID.startup_logs().contains("cannot keep a copy of /nonexistent/lib.so"));
    }
}
