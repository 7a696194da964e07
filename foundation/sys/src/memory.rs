//! Memory mappings: files with writes that survive a kill of the process, and pages that return to the kernel on drop.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use rustix::fs::FallocateFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::Result;

/// A file of fixed size, mapped for reading and writing until the value is dropped. Other processes can change the
/// contents at any time, so do not trust them.
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
    /// Maps a file of `length` bytes, readable only by its owner. Creates it with zeroes, or keeps the content of an existing one.
    ///
    /// Allocates all blocks now, because a write to an unallocated block on a full file system would kill the process (SIGBUS).
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

    /// Start of the mapping, page-aligned.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
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

/// Zeroed words in separate pages. The kernel supplies each page on its first write. Dropping the value returns them to
/// the kernel, while an allocator would keep them.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u32>,
    words: usize,
}

// SAFETY: the words belong to this value alone, as a box's do, and to no thread.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared reference only reads them.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `words` words. `None` if a limit of the process or the machine is reached.
    pub fn new(words: usize) -> Option<Self> {
        if words == 0 {
            return Some(Self::default());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address that nothing else uses.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), words.checked_mul(WORD)?, access, MapFlags::PRIVATE)
        };
        let start = NonNull::new(mapped.ok()?.cast())?;
        Some(Self { start, words })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.words * WORD
    }
}

const WORD: usize = size_of::<u32>();

impl Default for Pages {
    /// Zero words, without a mapping.
    fn default() -> Self {
        Self { start: NonNull::dangling(), words: 0 }
    }
}

impl Deref for Pages {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        // SAFETY: `start` is aligned and has `words` initialized words, which do not change while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.words == 0 {
            return;
        }
        let start = self.start.as_ptr();
        let length = self.bytes();
        // SAFETY: `new` mapped exactly this range, and all borrows of it have ended.
        let unmapped = unsafe { rustix::mm::munmap(start.cast(), length) };
        if unmapped.is_err() {
            // The number of mappings is limited, and a hole splits one into two: the addresses are lost, their pages
            // are not.
            // SAFETY: as above.
            let _ = unsafe { rustix::mm::madvise(start.cast(), length, Advice::LinuxDontNeed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn new_pages_are_zero_and_dropped_pages_return_to_the_kernel() {
        const WORDS: usize = 16 << 20;
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let before = resident();
        let mut pages = Pages::new(WORDS).expect("address space");
        assert!(pages.len() == WORDS && resident() < before + WORDS, "nothing was written yet");
        assert_eq!(pages[WORDS - 1], 0);
        pages.fill(7);
        assert!(resident() > before + WORDS * 3);
        drop(pages);
        assert!(resident() < before + WORDS);
        assert!(Pages::default().is_empty() && Pages::new(0).is_some_and(|none| none.is_empty()));
    }

    #[test]
    fn pages_new_returns_none_if_the_kernel_refuses_memory() {
        // More than any address space has.
        assert!(Pages::new(1 << 60).is_none());
    }

    #[test]
    fn writes_to_a_mapping_reach_its_file() {
        let path = std::env::temp_dir().join(format!("weir-mapping-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mapping = Mapping::create(&path, 8192).unwrap();
        // SAFETY: the mapping is longer than this, and only this test uses it.
        unsafe { mapping.start().as_ptr().write(b'x') };
        let content = std::fs::read(&path).unwrap();
        assert_eq!((content.len(), content[0]), (8192, b'x'));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(mapping);
        let again = Mapping::create(&path, 4096).unwrap();
        // SAFETY: the mapping is longer than this, and only this test uses it.
        assert_eq!((unsafe { again.start().as_ptr().read() }, again.length()), (b'x', 4096));
        std::fs::remove_file(&path).unwrap();
    }
}
