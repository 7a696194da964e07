//! mimalloc as the program's allocator.
//!
//! mimalloc aligns every block to 16 bytes, enough for nearly every type. Its functions for aligned blocks do not use
//! this. If the free list of the size is empty, or the size exceeds 1 kB, they allocate `alignment - 1` bytes more,
//! unless the size is a power of two. A block of 1,280 bytes then takes 1,536. Therefore they are called only for
//! stricter alignments.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// The allocator of the program.
#[derive(Debug)]
pub struct Mimalloc;

/// Whether mimalloc aligns every block of `size` to `alignment`.
#[inline]
fn is_usual(alignment: usize, size: usize) -> bool {
    // A block that is smaller than 16 bytes is aligned to its size.
    alignment <= ALIGNMENT && alignment <= size
}

/// `MI_MAX_ALIGN_SIZE` of mimalloc/types.h.
const ALIGNMENT: usize = 16;

// SAFETY: the functions behave as in the C library: they return null, or a block of that size and alignment without
// another owner; the content is moved or zeroed as the trait requires, and nothing unwinds.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        let block = match is_usual(alignment, size) {
            // SAFETY: any size is allowed.
            true => unsafe { mi_malloc(size) },
            // SAFETY: the alignment of a layout is a power of two.
            false => unsafe { mi_malloc_aligned(size, alignment) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        let block = match is_usual(alignment, size) {
            // SAFETY: any size is allowed.
            true => unsafe { mi_zalloc(size) },
            // SAFETY: the alignment of a layout is a power of two.
            false => unsafe { mi_zalloc_aligned(size, alignment) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: by the caller's contract, it was allocated here and is not used any more. One function frees blocks
        // of any alignment.
        unsafe { mi_free(block.cast::<c_void>()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (block, alignment) = (block.cast::<c_void>(), layout.align());
        let moved = match is_usual(alignment, size) {
            // SAFETY: by the caller's contract, it was allocated here, and the size is not zero.
            true => unsafe { mi_realloc(block, size) },
            // SAFETY: the same, and the alignment of a layout is a power of two.
            false => unsafe { mi_realloc_aligned(block, size, alignment) },
        };
        moved.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mimalloc_blocks_are_aligned_zeroed_and_keep_their_content() {
        for alignment in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in [1, 7, 8, 15, 16, 24, 40, 129, 1000, 1280, 5000, 100_000] {
                let layout = Layout::from_size_align(size, alignment).expect("a valid layout");
                // SAFETY: the size is not zero.
                let first = unsafe { Mimalloc.alloc(layout) };
                // SAFETY: the size is not zero.
                let zeroed = unsafe { Mimalloc.alloc_zeroed(layout) };
                assert!(
                    [first, zeroed].iter().all(|block| !block.is_null() && block.addr() % alignment == 0)
                );
                // SAFETY: the block has that many bytes, all of them initialised.
                let bytes = unsafe { std::slice::from_raw_parts(zeroed, size) };
                assert!(bytes.iter().all(|byte| *byte == 0));
                // SAFETY: the block has that many bytes, and is referenced only here.
                unsafe { first.write_bytes(7, size) };
                // SAFETY: it was allocated there, and is not used any more.
                let grown = unsafe { Mimalloc.realloc(first, layout, size * 3) };
                assert!(!grown.is_null() && grown.addr() % alignment == 0);
                // SAFETY: as many bytes were moved.
                let bytes = unsafe { std::slice::from_raw_parts(grown, size) };
                assert!(bytes.iter().all(|byte| *byte == 7));
                let layout_grown = Layout::from_size_align(size * 3, alignment).expect("a valid layout");
                // SAFETY: it was allocated there, and is not used any more.
                unsafe { Mimalloc.dealloc(grown, layout_grown) };
                // SAFETY: it was allocated there, and is not used any more.
                unsafe { Mimalloc.dealloc(zeroed, layout) };
            }
        }
    }

    #[test]
    fn mimalloc_has_exact_blocks_for_the_pooled_sizes() {
        for size in [384, 896, 1280, 1536, 1792, 3072] {
            let layout = Layout::from_size_align(size, 8).expect("a valid layout");
            let blocks: Vec<_> = (0..100)
                .map(|_| {
                    // SAFETY: the size is not zero.
                    unsafe { Mimalloc.alloc(layout) }
                })
                .collect();
            for block in blocks {
                assert_eq!(usable(block), size);
                // SAFETY: it was allocated there, and is not used any more.
                unsafe { Mimalloc.dealloc(block, layout) };
            }
        }
    }

    fn usable(block: *mut u8) -> usize {
        // SAFETY: mimalloc.h declares it so: it looks up the size of a live block.
        unsafe extern "C" {
            fn mi_usable_size(block: *const c_void) -> usize;
        }
        // SAFETY: the block is live.
        unsafe { mi_usable_size(block.cast()) }
    }
}
