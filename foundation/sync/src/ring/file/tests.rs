use super::*;
use crate::ring::{DEFAULT_QUEUES, HEADER, Ring};
use std::path::PathBuf;

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn lines(messages: impl Iterator<Item = Entry>) -> String {
    messages
        .map(|entry| {
            let bytes = entry.bytes.unwrap_or_else(|| b"<busy>".to_vec());
            String::from_utf8(bytes).expect("text") + "\n"
        })
        .collect()
}

/// A file as the layout says, made by hand.
fn file(layout: Layout, head: usize, messages: &[&str], size: usize) -> Vec<u8> {
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
        Layout::Aligned => &[(0, size), (8, 192), (64, tail), (128, head)],
        Layout::Unaligned => &[(0, size), (8, 32), (16, tail), (24, head)],
        Layout::Buffer => &[(0, size), (8, 0x7f4b_e11e_a048), (16, used), (24, head)],
    };
    let header = [192, 32, 72][[Layout::Aligned, Layout::Unaligned, Layout::Buffer]
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

fn check(layout: Layout, head: usize) {
    let bytes = file(layout, head, &["one", "", "three"], 300);
    let image = Image::open(&bytes).unwrap();
    assert_eq!((image.layout, image.head, image.size(), image.locked), (layout, head, 300, false));
    let mut messages = image.messages();
    assert_eq!(lines(messages.by_ref()), "one\n\nthree\n", "{layout:?} from {head}");
    assert!(!messages.is_damaged());
    assert_eq!(Image::repair(&bytes).map(|image| lines(image.messages())), Ok("one\n\nthree\n".to_owned()));
}

/// R108 to R110: each layout is told from the others and read, its head at the beginning or anywhere.
#[test]
fn r108_r109_r110_every_layout_is_recognized() {
    for layout in [Layout::Aligned, Layout::Unaligned, Layout::Buffer] {
        for head in [0, 100, 295, 299] {
            check(layout, head);
        }
    }
}

/// R109, R114: files that the packaged HAProxy 2.6 wrote, read as its own `show events` printed them.
#[test]
fn r109_r114_files_of_the_reference_are_read() {
    for name in ["v1_head0", "v1_wrapped"] {
        let bytes = golden(&format!("{name}.bin"));
        let image = Image::open(&bytes).unwrap();
        assert_eq!(image.layout, Layout::Buffer, "{name}");
        let shown = String::from_utf8(golden(&format!("{name}.txt"))).unwrap();
        assert_eq!(lines(image.messages()) + "\n", shown, "{name}");
    }
}

/// R109: while its head is 0, the newer layout reads as the oldest one.
#[test]
fn r109_a_ring_that_never_recycled_reads_as_a_buffer() {
    let mut bytes = file(Layout::Unaligned, 0, &["one", "two"], 300);
    // What an old reader sees: it takes the second number for an address, and the third for how much is in use.
    bytes[8..16].copy_from_slice(&0x7f00_0000_0000_u64.to_ne_bytes());
    let image = Image::open(&bytes).unwrap();
    assert_eq!((image.layout, lines(image.messages())), (Layout::Buffer, "one\ntwo\n".to_owned()));
}

/// R108, R111: what weir writes is the aligned layout, byte for byte, and nothing but numbers and the area.
#[test]
fn r108_r111_the_layout_of_weirs_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let ring = Ring::in_file(&path, 16_384, DEFAULT_QUEUES).unwrap();
    ring.write(0, &[b"first"]);
    ring.write(0, &[&[b'x'; 307]]);
    let bytes = std::fs::read(&path).unwrap();
    let mut expected = vec![0; 16_384];
    for (at, number) in [(0, 16_384 - HEADER), (8, HEADER), (64, 1 + 1 + 5 + 1 + 2 + 307 + 1)] {
        expected[at..at + 8].copy_from_slice(&(number as u64).to_ne_bytes());
    }
    expected[HEADER..HEADER + 7].copy_from_slice(b"\0\x05first");
    expected[HEADER + 8..HEADER + 10].copy_from_slice(&[0xf3, 4]);
    expected[HEADER + 10..HEADER + 10 + 307].fill(b'x');
    assert!(bytes == expected);
    assert_eq!(Image::open(&bytes).unwrap().layout, Layout::Aligned);
    // The same bytes as a file of the project, so that the layout cannot change unnoticed.
    assert!(bytes == golden("v2a_head0.bin"));
}

#[test]
fn a_message_that_was_being_written_is_told_from_others() {
    let mut bytes = file(Layout::Aligned, 0, &["one", "two", "three"], 300);
    bytes[HEADER + 5] = BUSY;
    // And its writer, or another, held the tail.
    bytes[64 + 7] |= 0x80;
    let image = Image::open(&bytes).unwrap();
    assert!(image.locked);
    assert_eq!(lines(image.messages()), "one\n<busy>\nthree\n");
}

#[test]
fn damaged_headers_are_refused_and_repaired() {
    let messages: Vec<String> = (0..20).map(|number| format!("message {number}")).collect();
    let texts: Vec<&str> = messages.iter().map(String::as_str).collect();
    let mut bytes = file(Layout::Aligned, 150, &texts, 400);
    for at in [64, 128] {
        bytes[at..at + 8].copy_from_slice(&7777_u64.to_ne_bytes());
    }
    assert_eq!(Image::open(&bytes).err(), Some(Fault::Places));
    let repaired = Image::repair(&bytes).unwrap();
    assert_eq!(lines(repaired.messages()).lines().collect::<Vec<_>>(), texts);
    assert_eq!(Image::open(b"short").err(), Some(Fault::TooShort));
    assert_eq!(Image::open(&[255; 100]).err(), Some(Fault::Size));
    assert_eq!(Image::open(&[0; 100]).err(), Some(Fault::Size));
}

#[test]
fn a_length_that_leads_out_of_the_messages_ends_the_reading() {
    let mut bytes = file(Layout::Aligned, 0, &["one", "two"], 300);
    bytes[HEADER + 6] = 200;
    let mut messages = Image::open(&bytes).unwrap().messages();
    assert_eq!(lines(messages.by_ref()), "one\n");
    assert!(messages.is_damaged());
}

proptest::proptest! {
    /// Nothing in a file makes reading fail otherwise than with an error.
    #[test]
    fn any_file_is_read_or_refused(
        mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600),
        size in 0usize..700, second in 0usize..300, tail in 0usize..700, head in 0usize..700,
    ) {
        for (at, number) in [(0, size), (8, second), (16, tail), (24, head), (64, tail), (128, head)] {
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&(number as u64).to_ne_bytes());
            }
        }
        for image in [Image::open(&bytes), Image::repair(&bytes)].into_iter().flatten() {
            let count = image.messages().count();
            proptest::prop_assert!(count <= image.size());
        }
    }
}
