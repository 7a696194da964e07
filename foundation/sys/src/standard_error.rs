//! Writes to standard error, with a time limit for a stalled reader.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::poll::wait_writable;

/// Writes `text` to standard error. False if it was not written completely. If a pipe stays full or a terminal is stopped for
/// `patience_ms` per [`PIECE`], the rest is dropped.
pub fn write(text: &[u8], patience_ms: u32) -> bool {
    write_to(&std::io::stderr(), text, patience_ms)
}

fn write_to(descriptor: &impl AsFd, text: &[u8], patience_ms: u32) -> bool {
    text.chunks(PIECE).all(|piece| write_piece(descriptor, piece, patience_ms))
}

fn write_piece(descriptor: &impl AsFd, mut piece: &[u8], patience_ms: u32) -> bool {
    while !piece.is_empty() {
        if !wait_writable(descriptor, patience_ms).unwrap_or(false) {
            return false;
        }
        match rustix::io::write(descriptor, piece) {
            Ok(count) => piece = &piece[count..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Bytes per write. A writable pipe has space for a page, so a write of this size never blocks (pipe(7)).
const PIECE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_stalled_stderr_reader_does_not_block_the_writer() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let text = vec![b'x'; 3 * PIECE + 1];
        let mut whole = 0;
        while write_to(&writer, &text, 0) {
            whole += 1;
            assert!(whole < 10_000, "a pipe has an end");
        }
        assert!(whole > 0);
        // After a read, more bytes fit.
        let mut room = vec![0; 2 * text.len()];
        reader.read_exact(&mut room).expect("it is full");
        assert!(write_to(&writer, b"again\n", 0));
    }

    #[test]
    fn writing_to_stderr_without_a_reader_fails() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert!(!write_to(&writer, b"lost\n", 10));
    }
}
