use super::*;
use crate::ring::{BUSY, DEFAULT_QUEUES, HEADER, Ring};
use std::path::PathBuf;

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The messages of a file, and whether their lengths lead to the end.
fn read(bytes: &[u8]) -> (FileHeader, Vec<RingElement>, Vec<u8>, bool) {
    let source = bytes.to_vec();
    let header = FileHeader::read(&source).unwrap();
    let mut area = Vec::new();
    let missing = header.area.read(&source, header.head, header.used() as usize, &mut area).unwrap();
    let part = AreaPart { bytes: &area, missing: &missing, begins: true, ends: true };
    let walked = part.walk();
    let whole = walked.is_some();
    (header, walked.unwrap_or_else(|| part.search()).found, area, whole)
}

fn lines(bytes: &[u8]) -> String {
    let (_, found, area, _) = read(bytes);
    let lines = found.into_iter().map(|found| match found {
        RingElement::Message(range) => String::from_utf8(area[range].to_vec()).expect("text") + "\n",
        RingElement::Busy(_) => "<busy>\n".to_owned(),
        RingElement::Damage(range) => format!("<{range:?}>\n"),
    });
    lines.collect()
}

fn fault(bytes: &[u8]) -> Option<String> {
    FileHeader::read(&bytes.to_vec()).err().map(|error| error.to_string())
}

/// A handmade file of this layout.
fn file(layout: FileLayout, head: usize, messages: &[&str], size: usize) -> Vec<u8> {
    let mut area = vec![0; size];
    let mut at = head;
    let mut put = |byte: u8| {
        area[at % size] = byte;
        at += 1;
    };
    put(0);
    for message in messages {
        put(message.len() as u8);
        message.bytes().for_each(&mut put);
        put(0);
    }
    let (used, tail) = (at - head, at % size);
    let numbers: &[(usize, usize)] = match layout {
        FileLayout::Aligned => &[(0, size), (8, 192), (64, tail), (128, head)],
        FileLayout::Unaligned => &[(0, size), (8, 32), (16, tail), (24, head)],
        FileLayout::Buffer => &[(0, size), (8, 0x7f4b_e11e_a048), (16, used), (24, head)],
    };
    let header = [192, 32, 72][[FileLayout::Aligned, FileLayout::Unaligned, FileLayout::Buffer]
        .iter()
        .position(|other| *other == layout)
        .expect("one of them")];
    let mut file = vec![0; header];
    for &(at, number) in numbers {
        file[at..at + 8].copy_from_slice(&(number as u64).to_ne_bytes());
    }
    file.extend(area);
    file
}

fn check(layout: FileLayout, head: usize) {
    let bytes = file(layout, head, &["one", "", "three"], 300);
    let (header, .., whole) = read(&bytes);
    assert_eq!((header.layout, header.head, header.area.size), (layout, head as u64, 300));
    assert_eq!((header.locked, header.counters, header.excess(), whole), (false, None, 0, true));
    assert_eq!(lines(&bytes), "one\n\nthree\n", "{layout:?} from {head}");
}

/// R108 to R110: each layout is recognised and read, with its head at the beginning or anywhere.
#[test]
fn r108_r109_r110_every_ring_file_layout_is_recognized() {
    for layout in [FileLayout::Aligned, FileLayout::Unaligned, FileLayout::Buffer] {
        for head in [0, 100, 295, 299] {
            check(layout, head);
        }
    }
}

/// R109, R114: files that the packaged HAProxy 2.6 wrote, read as its own `show events` printed them.
#[test]
fn r109_r114_ring_files_of_haproxy_are_read() {
    for name in ["v1_head0", "v1_wrapped"] {
        let bytes = golden(&format!("{name}.bin"));
        assert_eq!(read(&bytes).0.layout, FileLayout::Buffer, "{name}");
        let shown = String::from_utf8(golden(&format!("{name}.txt"))).unwrap();
        assert_eq!(lines(&bytes) + "\n", shown, "{name}");
    }
}

/// R109: while its head is 0, the newer layout reads as the oldest one.
#[test]
fn r109_an_unrecycled_ring_reads_as_the_buffer_layout() {
    let mut bytes = file(FileLayout::Unaligned, 0, &["one", "two"], 300);
    // The view of an old reader: it takes the second number for an address, and the third for the count of bytes in
    // use.
    bytes[8..16].copy_from_slice(&0x7f00_0000_0000_u64.to_ne_bytes());
    assert_eq!((read(&bytes).0.layout, lines(&bytes)), (FileLayout::Buffer, "one\ntwo\n".to_owned()));
}

/// R108, R111: weir writes the aligned layout, byte for byte: the area, the numbers that any reader of that layout
/// needs, and counters in the place of its padding.
#[test]
fn r108_r111_weir_writes_the_aligned_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let ring = Ring::in_file(&path, 16_384, DEFAULT_QUEUES).unwrap();
    ring.write(0, &[b"first"]);
    ring.write(0, &[&[b'x'; 307]]);
    let mut bytes = std::fs::read(&path).unwrap();
    let tail = 1 + 1 + 5 + 1 + 2 + 307 + 1;
    let mut expected = vec![0; 16_384];
    for (at, number) in [(0, 16_384 - HEADER), (8, HEADER), (64, tail)] {
        expected[at..at + 8].copy_from_slice(&(number as u64).to_ne_bytes());
    }
    expected[HEADER..HEADER + 7].copy_from_slice(b"\0\x05first");
    expected[HEADER + 8..HEADER + 10].copy_from_slice(&[0xf3, 4]);
    expected[HEADER + 10..HEADER + 10 + 307].fill(b'x');
    // From HAProxy and the first version of weir: kept as a file so that readers go on supporting it.
    assert!(expected == golden("v2a_head0.bin"));
    assert_eq!(read(&expected).0.counters, None);
    let counters = read(&bytes).0.counters.expect("weir counts");
    assert_eq!((counters.head, counters.tail, counters.recycled, counters.reserved), (0, tail as u64, 0, 2));
    assert!(counters.made_ns > 1 << 60 && counters.steady);
    for (at, number) in [(32, 1), (40, counters.made_ns), (72, tail as u64), (80, 2)] {
        assert_eq!(bytes[at..at + 8], number.to_ne_bytes(), "at {at}");
        bytes[at..at + 8].fill(0);
    }
    assert!(bytes == expected);
}

/// Counters match head and tail after any number of wraparounds, for any sizes of area and message.
#[test]
fn file_counters_match_head_and_tail_after_wraparounds() {
    for (size, length) in [(300, 8), (300, 13), (301, 5), (384, 98), (1000, 240), (1024, 0), (1000, 989)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        let ring = Ring::in_file(&path, size + HEADER, 1).unwrap();
        let (mut bytes, mut messages) = (1, 0);
        for round in 0..2000 {
            let length = if round % 3 == 0 { length } else { (length + round % 7) % (size - 12) };
            if ring.write(0, &[&vec![b'x'; length]]) {
                bytes += length + 2 + usize::from(length >= 240);
                messages += 1;
            }
            if round % 97 == 0 {
                let (header, found, ..) = read(&std::fs::read(&path).unwrap());
                let counters = header.counters.expect("weir counts");
                assert!(header.counters_fit(), "{size} {length} {header:?}");
                assert_eq!((counters.tail, counters.reserved), (bytes as u64, messages));
                assert_eq!(counters.tail - counters.head, header.used());
                assert_eq!(counters.reserved - counters.recycled, found.len() as u64);
            }
        }
        // The next ring in the same file starts empty.
        drop(ring);
        let former = read(&std::fs::read(&path).unwrap()).0.counters.expect("weir counts");
        let ring = Ring::in_file(&path, size + HEADER, 1).unwrap();
        let counters = read(&std::fs::read(&path).unwrap()).0.counters.expect("weir counts");
        assert_eq!((counters.head, counters.tail, counters.recycled, counters.reserved), (0, 1, 0, 0));
        assert!(counters.made_ns > former.made_ns);
        drop(ring);
    }
}

#[test]
fn an_unfinished_message_is_marked_as_busy() {
    let mut bytes = file(FileLayout::Aligned, 0, &["one", "two", "three"], 300);
    bytes[HEADER + 5] = BUSY;
    // And its writer, or another, held the tail.
    bytes[64 + 7] |= 0x80;
    assert!(read(&bytes).0.locked);
    assert_eq!(lines(&bytes), "one\n<busy>\nthree\n");
}

#[test]
fn rejects_files_that_are_not_rings() {
    let mut bytes = file(FileLayout::Aligned, 150, &["one"], 400);
    for at in [64, 128] {
        bytes[at..at + 8].copy_from_slice(&7777_u64.to_ne_bytes());
    }
    assert_eq!(fault(&bytes), Some(RingFileError::Places.to_string()));
    assert_eq!(fault(b"short"), Some(RingFileError::TooShort.to_string()));
    assert_eq!(fault(&bytes[..100]), Some(RingFileError::TooShort.to_string()));
    assert_eq!(fault(&[255; 100]), Some(RingFileError::Size.to_string()));
    assert_eq!(fault(&[0; 100]), Some(RingFileError::Size.to_string()));
    assert_eq!(
        fault("[2026] a line of a log\n".repeat(50).as_bytes()),
        Some(RingFileError::Size.to_string())
    );
}

/// A truncated or extended file is still read, and its length does not affect the detection of its layout.
#[test]
fn truncated_and_extended_ring_files_are_read() {
    let texts: Vec<String> = (0..30).map(|number| format!("message {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for layout in [FileLayout::Aligned, FileLayout::Unaligned, FileLayout::Buffer] {
        for head in [0, 150, 399] {
            let whole = file(layout, head, &texts, 400);
            for excess in [-200, -81, -80, -3, -1, 1, 2, 80, 192] {
                let mut bytes = whole.clone();
                bytes.resize((bytes.len() as i64 + excess) as usize, b'y');
                let (header, ..) = read(&bytes);
                assert_eq!((header.layout, header.excess()), (layout, i128::from(excess)));
                let lines = lines(&bytes);
                let cut = lines.contains('<');
                assert!(excess < 0 || !cut, "{lines}");
                let begin = whole.len() - 400;
                let present = |at: usize| (head + at) % 400 < bytes.len() - begin;
                let mut at = 0;
                for text in &texts {
                    // Its tag, its length, its bytes and the next tag are present.
                    let there = (at..=at + 2 + text.len()).all(present);
                    assert_eq!(
                        lines.lines().any(|line| line == *text),
                        there,
                        "{layout:?} {head} {excess}: {text}"
                    );
                    at += 2 + text.len();
                }
            }
        }
    }
}

#[test]
fn messages_after_a_damaged_length_are_found() {
    for (length, expected) in [
        // Out of the messages, into the next one, onto the tag of a later one, into itself, onto its own bytes.
        (200, "one\n<5..10>\nthree\nfour\n"),
        (5, "one\n<5..10>\nthree\nfour\n"),
        (10, "one\n<5..10>\nthree\nfour\n"),
        (1, "one\n<5..10>\nthree\nfour\n"),
        (0, "one\n<5..10>\nthree\nfour\n"),
        (255, "one\n<5..10>\nthree\nfour\n"),
    ] {
        let mut bytes = file(FileLayout::Aligned, 0, &["one", "two", "three", "four"], 300);
        bytes[HEADER + 6] = length;
        let (.., area, _) = read(&bytes);
        let part = AreaPart { bytes: &area, missing: &[], begins: true, ends: true };
        let found = part.search().found.into_iter().map(|found| match found {
            RingElement::Message(range) => String::from_utf8(area[range].to_vec()).expect("text") + "\n",
            other => format!("<{:?}>\n", if let RingElement::Damage(range) = other { range } else { 0..0 }),
        });
        assert_eq!(found.collect::<String>(), expected, "length {length}");
    }
}

proptest::proptest! {
    /// Reading any content ends with a result or an error, never with a panic.
    #[test]
    fn reading_any_file_content_never_panics(
        mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600),
        size in 0usize..700, second in 0usize..300, tail in 0usize..700, head in 0usize..700,
    ) {
        for (at, number) in [(0, size), (8, second), (16, tail), (24, head), (64, tail), (128, head)] {
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&(number as u64).to_ne_bytes());
            }
        }
        if let Ok(header) = FileHeader::read(&bytes) {
            let mut area = Vec::new();
            let missing = header.area.read(&bytes, header.head, header.area.size as usize, &mut area).unwrap();
            for (begins, ends) in [(true, false), (true, true), (false, false), (false, true)] {
                let part = AreaPart { bytes: &area, missing: &missing, begins, ends };
                let searched = part.search();
                proptest::prop_assert!(searched.next > 0 && searched.next <= area.len());
                for walked in part.walk().into_iter().chain([searched]) {
                    let mut at = 0;
                    for found in walked.found {
                        let range = match found {
                            RingElement::Message(range) | RingElement::Damage(range) => range,
                            RingElement::Busy(tag) => tag..tag + 1,
                        };
                        proptest::prop_assert!(at <= range.start && range.start <= range.end);
                        at = range.end;
                    }
                    proptest::prop_assert!(at <= area.len());
                }
            }
        }
    }
}
