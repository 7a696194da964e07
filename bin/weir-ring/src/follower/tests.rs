use super::*;
use std::cell::RefCell;
use std::sync::Arc;
use weir_sync::Ring;

struct Live {
    ring: Arc<Ring>,
    path: std::path::PathBuf,
    follower: FileFollower,
    /// Whether the file has HAProxy's layout, which lacks counters.
    plain: bool,
    _folder: tempfile::TempDir,
}

impl Live {
    fn new(size: usize, plain: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        let ring = Ring::in_file(&path, size + HEADER, 6).expect("a file");
        Live { ring, path, follower: FileFollower::default(), plain, _folder: folder }
    }

    fn write(&self, message: &str) {
        assert!(self.ring.write(0, &[message.as_bytes()]));
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = std::fs::read(&self.path).expect("the file is there");
        if self.plain {
            bytes[32..40].fill(0);
        }
        bytes
    }

    /// Reads the new messages, with remarks in angle brackets.
    fn look(&mut self) -> Vec<String> {
        let bytes = self.bytes();
        look(&mut self.follower, &bytes, LookMode::Again)
    }
}

fn look(follower: &mut FileFollower, bytes: &Vec<u8>, look: LookMode) -> Vec<String> {
    let mut reports = Vec::new();
    follower
        .look(bytes, look, &mut |what| {
            reports.push(word(what));
            Ok(())
        })
        .expect("it is a ring");
    reports
}

fn word(report: FileReport<'_>) -> String {
    match report {
        FileReport::Message(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        FileReport::Lost { count: Some(count), about } => {
            format!("<lost {}{count}>", if about { "~" } else { "" })
        }
        FileReport::Lost { count: None, about } => if about { "<lost?>" } else { "<lost>" }.to_owned(),
        FileReport::Unfinished => "<unfinished>".to_owned(),
        FileReport::Damaged { place, bytes } => format!("<damaged {place}+{bytes}>"),
        FileReport::Miscounted { counted, found } => format!("<{found} of {counted}>"),
        FileReport::Replaced => "<replaced>".to_owned(),
    }
}

#[test]
fn each_look_reports_only_messages_written_since_the_last_look() {
    for plain in [false, true] {
        let mut live = Live::new(800, plain);
        assert_eq!(live.look(), [""; 0]);
        live.write("one");
        live.write("two");
        assert_eq!(live.look(), ["one", "two"]);
        assert_eq!(live.look(), [""; 0]);
        live.write("three");
        live.write("");
        assert_eq!(live.look(), ["three", ""]);
    }
}

/// Lengths of areas and messages that divide one another, exactly or off by one. After some number of messages the writer is at or
/// next to the follower's position, after any number of laps. Every message is read or counted as lost.
#[test]
fn reports_lost_messages_after_any_number_of_laps_of_the_writer() {
    for (area, length) in
        [(400, 8), (400, 6), (401, 8), (399, 8), (1024, 14), (1000, 98), (1024, 254), (960, 238)]
    {
        for plain in [false, true] {
            let message = length + 2 + usize::from(length >= 240);
            // Two bytes stay free: the last tag, and one that distinguishes a full ring from an empty one.
            let (per_lap, holds) = (area / message, (area - 2) / message);
            let mut live = Live::new(area, plain);
            let mut written = 0_usize;
            for batch in (1..=2 * per_lap + 2).chain([5 * per_lap, 7 * per_lap + 1, 100 * per_lap]) {
                for _ in 0..batch {
                    live.write(&format!("{written:0length$}"));
                    written += 1;
                }
                let reports = live.look();
                let seen: Vec<usize> = reports.iter().filter_map(|text| text.parse().ok()).collect();
                let expected: Vec<usize> = (written - seen.len()..written).collect();
                assert_eq!(seen, expected, "{area} {length} {batch}");
                let lost = batch - seen.len();
                let remark = reports.first().filter(|text| text.starts_with('<')).map(String::as_str);
                match (lost, plain) {
                    (0, false) => assert_eq!(remark, None),
                    // If all bytes of the previous read are overwritten, a loss cannot be detected.
                    (0, true) => assert!(remark.is_none() || seen.len() == holds, "{area} {length} {batch}"),
                    (_, true) => assert!(remark.is_some(), "{area} {length} {batch}"),
                    (_, false) => assert_eq!(remark, Some(&*format!("<lost {lost}>"))),
                }
                assert_eq!(reports.len() - usize::from(remark.is_some()), seen.len(), "{reports:?}");
                assert!(!seen.is_empty() && lost <= batch.saturating_sub(holds - 1), "{lost} of {batch}");
            }
        }
    }
}

/// A file that changes between two reads.
struct Changing<F: Fn()> {
    live: Live,
    reads: RefCell<u32>,
    change: F,
}

impl<F: Fn()> RingSource for Changing<F> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.live.bytes().len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let count = self.live.bytes().read_at(at, into)?;
        if at >= HEADER as u64 {
            *self.reads.borrow_mut() += 1;
            (self.change)();
        }
        Ok(count)
    }
}

/// The writer laps the follower during a read. The bytes of that read are discarded, the others are used.
#[test]
fn messages_overwritten_during_a_read_are_reported_as_lost() {
    for batch in [1, 3, 20, 39, 40, 41, 80, 1000] {
        let live = Live::new(400, false);
        (0..100).for_each(|number| live.write(&format!("{number:08}")));
        let ring = Arc::clone(&live.ring);
        let next = RefCell::new(100..100 + batch);
        let change = move || {
            // Write only once, so that the read terminates.
            for number in next.borrow_mut().by_ref() {
                assert!(ring.write(0, &[format!("{number:08}").as_bytes()]));
            }
        };
        let file = Changing { live, reads: RefCell::new(0), change };
        let (mut follower, mut reports) = (FileFollower::default(), Vec::new());
        for _ in 0..2 {
            let report = &mut |what: FileReport<'_>| {
                reports.push(word(what));
                Ok(())
            };
            follower.look(&file, LookMode::Again, report).expect("it is a ring");
        }
        let oldest = 100 - 39;
        let mut next = oldest;
        for text in &reports {
            match text.strip_prefix("<lost ").and_then(|rest| rest.strip_suffix('>')) {
                Some(count) => next += count.parse::<usize>().expect("a count"),
                None => {
                    assert_eq!(text.parse(), Ok(next), "{reports:?}");
                    next += 1;
                }
            }
        }
        assert_eq!(next, 100 + batch, "{batch}: {reports:?}");
        assert!(*file.reads.borrow() > 0);
    }
}

#[test]
fn reports_an_unfinished_message_after_waiting_for_a_limited_time() {
    let mut live = Live::new(400, false);
    live.write("one");
    live.write("two");
    let mut bytes = live.bytes();
    bytes[HEADER + 5] = 255;
    assert_eq!(look(&mut live.follower, &bytes, LookMode::Again), ["one"]);
    assert_eq!(look(&mut live.follower, &bytes, LookMode::Again), [""; 0]);
    bytes[HEADER + 5] = 0;
    assert_eq!(look(&mut live.follower, &bytes, LookMode::Again), ["two"]);
    // A message of a killed writer must not block readers forever, and a single read does not wait for it.
    bytes[HEADER + 5] = 255;
    let mut follower = FileFollower::default();
    let reports: Vec<_> = (0..30).flat_map(|_| look(&mut follower, &bytes, LookMode::Again)).collect();
    assert_eq!(reports, ["one", "<unfinished>"]);
    assert_eq!(look(&mut FileFollower::default(), &bytes, LookMode::Once), ["one", "<unfinished>"]);
}

#[test]
fn reports_a_file_that_was_replaced_by_a_new_ring() {
    for count in [1, 3] {
        let mut live = Live::new(400, false);
        (0..3).for_each(|_| live.write("former"));
        assert_eq!(live.look().len(), 3);
        live.ring = Ring::in_file(&live.path, 400 + HEADER, 6).expect("a file");
        (0..count).for_each(|_| live.write("latter"));
        let mut expected = vec!["<replaced>"];
        expected.resize(1 + count, "latter");
        assert_eq!(live.look(), expected);
    }
}

/// Areas of one part, of one byte more, and of several parts. Some messages are as long as a part, or longer.
#[test]
fn reads_ring_files_larger_than_one_part() {
    let part = PART as usize;
    for (area, length, count) in [
        (part, 1021, 5000),
        (part + 1, 1021, 3000),
        (3 * part, 1019, 9000),
        (8 * part, part - 1, 20),
        (8 * part, part, 20),
        (8 * part, 3 * part, 5),
    ] {
        let mut live = Live::new(area, false);
        for number in 0..count {
            live.write(&("0".repeat(length - 5) + &format!("{number:05}")));
        }
        let reports = live.look();
        let numbers = reports.iter().map(|text| text.parse::<usize>().expect("no remark"));
        assert!(reports.len() > 1 && numbers.eq(count - reports.len()..count), "{area} {length}");
        live.write("next");
        assert_eq!(live.look(), ["next"]);
    }
}

proptest::proptest! {
    /// A file of any layout, damaged anywhere. Nothing panics. Every message with intact bytes and tags is reported, and so is the damage.
    #[test]
    fn reports_every_intact_message_of_a_damaged_file(
        lengths in proptest::collection::vec(0usize..60, 1..60),
        area in 40usize..900,
        changes in proptest::collection::vec((0usize..900, proptest::num::u8::ANY), 0..5),
        cut in proptest::option::weighted(0.3, 0usize..900),
        plain: bool,
    ) {
        let live = Live::new(area, plain);
        for (number, length) in lengths.iter().enumerate() {
            // Give each message a unique text.
            let text: String = format!("{number}:").chars().chain(('a'..='z').cycle().take(*length)).collect();
            live.ring.write(0, &[text.as_bytes()]);
        }
        let whole = live.bytes();
        let area = whole.len() - HEADER;
        let header = FileHeader::read(&whole).expect("it is a ring");
        // The messages, and the range of each from its tag to the next.
        let (mut messages, mut at) = (Vec::new(), 0);
        for text in look(&mut FileFollower::default(), &whole, LookMode::Once) {
            let behind = at + 2 + text.len();
            let places: Vec<usize> = (at..=behind).map(|at| (header.head as usize + at) % area).collect();
            messages.push((text, places));
            at = behind;
        }
        let mut bytes = whole.clone();
        for (at, value) in &changes {
            bytes[HEADER + at % area] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(HEADER + cut.min(area));
        }
        let touched = |place: usize| bytes.get(HEADER + place) != whole.get(HEADER + place);
        let reports = look(&mut FileFollower::default(), &bytes, LookMode::Once);
        for (text, places) in &messages {
            if !places.iter().copied().any(touched) {
                proptest::prop_assert!(reports.contains(text), "{text} is missing in {reports:?}");
            }
        }
        // A changed length leads to a wrong offset or to a wrong number of messages.
        let changed = messages.iter().filter(|(_, places)| touched(places[1])).count();
        if changed == 1 && !plain && changes.len() == 1 {
            proptest::prop_assert!(reports.iter().any(|text| text.starts_with("<")), "{reports:?}");
        }
        // Without a header, all messages in consecutive text are still found.
        let mut headless = whole.clone();
        headless[64..72].fill(0xee);
        headless[128..136].fill(0xee);
        let mut reports = Vec::new();
        let repaired = repair(&headless, &mut |what| {
            reports.push(word(what));
            Ok(())
        });
        if repaired.is_ok() {
            for (text, _) in messages.iter().filter(|(text, _)| !text.is_empty()) {
                proptest::prop_assert!(reports.contains(text), "{text} is missing in {reports:?}");
            }
        } else {
            proptest::prop_assert!(messages.iter().all(|(text, _)| text.is_empty()));
        }
    }

    /// For any bytes, a repair terminates and reports only messages of the file.
    #[test]
    fn a_repair_of_arbitrary_bytes_terminates_and_invents_no_messages(
        mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600),
        size in 0usize..700, second in 0usize..300, tail in 0usize..700, head in 0usize..700,
    ) {
        for (at, number) in [(0, size), (8, second), (16, tail), (24, head), (64, tail), (128, head)] {
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&(number as u64).to_ne_bytes());
            }
        }
        let mut reported = 0;
        let mut report = |what: FileReport<'_>| {
            if let FileReport::Message(message) = what {
                reported += message.len();
            }
            Ok(())
        };
        let _ = repair(&bytes, &mut report);
        let mut follower = FileFollower::default();
        for look in [LookMode::Again, LookMode::Once, LookMode::Again] {
            let _ = follower.look(&bytes, look, &mut report);
        }
        proptest::prop_assert!(reported <= 4 * bytes.len());
    }
}
