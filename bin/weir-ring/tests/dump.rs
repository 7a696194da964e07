//! The program, run on files of HAProxy, of weir, on damaged files, and on a file with a killed writer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use weir_sync::Ring;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../foundation/sync/golden").join(name)
}

fn dump(arguments: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-ring")).args(arguments).arg(path).output().expect("it runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// R109 to R111: files of the packaged HAProxy are printed like the output of its `show events`.
#[test]
fn r110_r111_ring_files_of_haproxy_are_printed_like_its_show_events() {
    for name in ["v1_head0", "v1_wrapped"] {
        let shown = std::fs::read_to_string(golden(&format!("{name}.txt"))).expect("the golden file");
        // The runtime API terminates its output with an empty line.
        assert_eq!(text(&dump(&[], &golden(&format!("{name}.bin")))) + "\n", shown, "{name}");
    }
}

#[test]
fn prints_messages_terminated_by_newline_or_nul() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring");
    let ring = Ring::in_file(&path, 16_384, 6).expect("a file");
    ring.write(0, &[b"one"]);
    ring.write(0, &[b"two\nlines"]);
    assert_eq!(text(&dump(&[], &path)), "one\ntwo\nlines\n");
    assert_eq!(text(&dump(&["-0"], &path)), "one\0two\nlines\0");
    assert_eq!(
        text(&dump(&["-i"], &path)),
        "layout: aligned\nsize: 16192\nhead: 0\ntail: 17\nmessages: 2\nbeing written: 0\n\
         written since it was made: 2\noverwritten since then: 0\ndamaged: no\n"
    );
}

/// For a damaged file, everything readable is printed, the damage is reported, and the exit status is 1.
fn printed_with_damage(arguments: &[&str], path: &Path, said: &str) -> String {
    let output = dump(arguments, path);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(said), "{stderr}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn reports_and_repairs_a_damaged_ring_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring");
    let ring = Ring::in_file(&path, 1029, 6).expect("a file");
    for number in 0..500 {
        ring.write(0, &[format!("message {number}").as_bytes()]);
    }
    let whole = text(&dump(&[], &path));
    let bytes = std::fs::read(&path).expect("the file is there");
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).expect("it can be written");
    // Damage parts of the header, up to the whole header.
    for damaged in [128..136, 64..72, 64..136, 0..8, 0..192] {
        let mut bytes = bytes.clone();
        bytes[damaged.clone()].fill(0xee);
        write(&bytes);
        assert_eq!(printed_with_damage(&[], &path, "-r looks for messages"), "");
        assert_eq!(
            printed_with_damage(&["-r"], &path, "everything that looks like a message"),
            whole,
            "{damaged:?}"
        );
    }
    for excess in [-500, -7, -1, 1, 7, 500] {
        let mut bytes = bytes.clone();
        bytes.resize((bytes.len() as i64 + excess) as usize, b'y');
        write(&bytes);
        let how = if excess < 0 { "shorter" } else { "longer" };
        let lines = printed_with_damage(&[], &path, &format!("{} bytes {how}", excess.abs()));
        let missing = whole.lines().filter(|line| !lines.lines().any(|other| other == *line)).count();
        let most = usize::try_from(-excess).map_or(0, |cut| cut / 13 + 2);
        assert!(missing <= most && missing < 50, "{excess}: {missing} of {}", whole.lines().count());
        assert!(text_of_description(&path).contains("damaged: yes"));
    }
    write(b"no ring");
    for arguments in [&[][..], &["-r"], &["-i"]] {
        assert_eq!(dump(arguments, &path).status.code(), Some(1));
    }
    assert_eq!(dump(&[], Path::new("/nonexistent")).status.code(), Some(1));
    assert_eq!(dump(&["-x"], &path).status.code(), Some(2));
}

fn text_of_description(path: &Path) -> String {
    let output = dump(&["-i"], path);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn follow_mode_continues_in_the_file_that_replaces_the_ring() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring");
    let first = Ring::in_file(&path, 16_384, 6).expect("a file");
    first.write(0, &[b"one"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir-ring"))
        .arg("-f")
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "one");
    first.write(0, &[b"two"]);
    assert_eq!(next(), "two");
    std::fs::rename(&path, folder.path().join("ring.bak")).expect("it can be renamed");
    let second = Ring::in_file(&path, 16_384, 6).expect("a file");
    second.write(0, &[b"of the next process"]);
    assert_eq!(next(), "of the next process");
    // The former process is still running, and its further messages must not be lost.
    first.write(0, &[b"last words"]);
    assert_eq!(next(), "last words");
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
}

/// The writer process of [`a_ring_file_keeps_every_complete_message_of_a_killed_process`]. Runs only if the environment selects it.
#[test]
fn writes_to_a_ring_until_the_parent_test_kills_the_process() {
    let Some(path) = std::env::var_os("WEIR_RING_TEST_FILE") else { return };
    let ring = Ring::in_file(Path::new(&path), 16 << 20, 6).expect("a file");
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let ring = &ring;
            scope.spawn(move || {
                for sequence in 0_u64.. {
                    let text = format!("{thread} {sequence} {}", "x".repeat((sequence % 200) as usize));
                    // Other threads may fill the ring while an unfinished message of one thread blocks it.
                    while !ring.write(thread, &[text.as_bytes()]) {
                        std::thread::yield_now();
                    }
                    // Print the number only after its message was written, so that the parent can compare.
                    if sequence % 64 == 0 {
                        let _ = writeln!(std::io::stderr(), "{thread} {sequence}");
                    }
                }
            });
        }
    });
}

/// `kill -9` during writes, several times. Every message written completely is in the file, intact and in order, whatever the other
/// threads were doing (R105, R108).
#[test]
fn a_ring_file_keeps_every_complete_message_of_a_killed_process() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..5 {
        let path = folder.path().join(format!("ring{round}"));
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "writes_to_a_ring_until_the_parent_test_kills_the_process", "--nocapture"])
            .env("WEIR_RING_TEST_FILE", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = BufReader::new(child.stderr.take().expect("its messages"));
        let mut written = [0_u64; 3];
        let mut seen = 0;
        for line in said.lines() {
            let line = line.expect("text");
            let mut words = line.split(' ');
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let (Some(thread), Some(sequence)) = (number(), number()) else { continue };
            written[thread as usize] = sequence;
            seen += 1;
            if seen == 300 + 37 * round {
                child.kill().expect("it can be killed");
            }
        }
        assert_eq!(child.wait().expect("it ends").signal(), Some(9));
        let output = text(&dump(&[], &path));
        let mut last = [None::<u64>; 3];
        for line in output.lines() {
            let mut words = line.split(' ');
            let mut number =
                || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a whole message");
            let (thread, sequence) = (number() as usize, number());
            assert_eq!(words.next().unwrap_or_default().len() as u64, sequence % 200, "{line}");
            // The messages of each thread are consecutive.
            assert!(last[thread].is_none_or(|before| before + 1 == sequence), "{last:?} {line}");
            last[thread] = Some(sequence);
        }
        for (thread, last) in last.iter().enumerate() {
            // A thread that never ran did not print any message.
            let said = written[thread];
            assert!(last.map_or(said == 0, |last| last >= said), "thread {thread}: {last:?} {said}");
        }
    }
}
