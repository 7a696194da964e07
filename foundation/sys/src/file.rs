//! Reading whole files with a bound.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a regular file of at most `limit` bytes. `/dev/null` is empty.
///
/// # Errors
///
/// `InvalidInput` for other file types (a device is endless, a pipe may never end), `FileTooLarge`, and errors of the system.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if path == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    // Without NONBLOCK, opening a pipe without a writer never returns.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    read_to_limit(file, limit)
}

/// Reads a regular file, a pipe, a terminal or `/dev/null` up to EOF, at most `limit` bytes.
///
/// # Errors
///
/// `InvalidInput` for block devices and sockets, `FileTooLarge`, and the system's errors.
pub fn read_stream(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_block_device() || kind.is_socket() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    read_to_limit(file, limit)
}

/// Ignores the length in the metadata, which is 0 for files of `/proc`, and outdated if the file grows.
fn read_to_limit(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes"));
    let expected = file.metadata()?.len();
    if expected > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(expected).unwrap_or(usize::MAX))?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = std::env::temp_dir().join(format!("weir-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("ten");
        std::fs::write(&file, b"0123456789").unwrap();
        let pipe = folder.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let kind = |path: &Path, limit| read_regular(path, limit).map_err(|error| error.kind());
        assert_eq!(kind(&file, 10), Ok(b"0123456789".to_vec()));
        assert_eq!(kind(&file, 11), Ok(b"0123456789".to_vec()));
        assert_eq!(kind(&file, 9), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(kind(&file, 0), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(kind(Path::new("/dev/null"), 0), Ok(Vec::new()));
        assert_eq!(kind(Path::new("/dev/zero"), 10), Err(io::ErrorKind::InvalidInput));
        assert_eq!(kind(&pipe, 10), Err(io::ErrorKind::InvalidInput));
        assert_eq!(kind(&folder, 10), Err(io::ErrorKind::IsADirectory));
        assert_eq!(kind(&folder.join("none"), 10), Err(io::ErrorKind::NotFound));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn reading_a_stream_is_limited_in_size() {
        let kind = |path: &str| read_stream(Path::new(path), 100).map_err(|error| error.kind());
        assert_eq!(kind("/dev/zero"), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(kind("/dev/null"), Ok(Vec::new()));
        assert_eq!(kind("/proc/self/statm").map(|text| text.is_empty()), Ok(false));
    }
}
