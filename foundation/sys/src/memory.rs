//! Files mapped into memory: what a process writes there reaches the file even when the process is killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::Result;

/// A file of a fixed size, mapped for reading and writing until this is dropped. Another process can change it at any
/// time, so nothing that is read from it may be trusted.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory that belongs to no thread; it is unmapped once, when it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared reference only gives out the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file of `length` bytes that only its owner can read: a new one, of zeroes, or what is there.
    ///
    /// Its blocks are allocated at once, because a file system that fills up later would kill the process at a write.
    pub fn create(path: &Path, length: usize) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length as u64) {
            // A file system that cannot allocate in advance is accepted.
            Ok(()) | Err(crate::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self::of(&file, length)?)
    }

    fn of(file: &File, length: usize) -> Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address that nothing else uses; the length is the file's.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        Ok(Self { start: NonNull::new(start.cast()).ok_or(crate::Errno::NOMEM)?, length })
    }

    /// Where it begins: at the beginning of a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `of` mapped exactly this range, and every user borrowed it from this value.
        // An unmapping that fails leaves the memory mapped, which breaks nothing.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_written_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("weir-mapping-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mapping = Mapping::create(&path, 8192).unwrap();
        // SAFETY: the mapping is longer than this, and nobody else knows it.
        unsafe { mapping.start().as_ptr().write(b'x') };
        let content = std::fs::read(&path).unwrap();
        assert_eq!((content.len(), content[0]), (8192, b'x'));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(mapping);
        let again = Mapping::create(&path, 4096).unwrap();
        // SAFETY: the mapping is longer than this, and nobody else knows it.
        assert_eq!((unsafe { again.start().as_ptr().read() }, again.length()), (b'x', 4096));
        std::fs::remove_file(&path).unwrap();
    }
}
