use proptest::prelude::*;

use super::*;
use crate::testing::{
    ScriptedApplication, write_end, write_record, write_stderr, write_stdout, write_unknown_type,
    write_values,
};

const OPTIONS: ConnectionOptions =
    ConnectionOptions { get_values: false, keeps: true, multiplexes: true, max_requests: 100 };

const QUERYING: ConnectionOptions = ConnectionOptions { get_values: true, ..OPTIONS };

/// A connection with requests 1 and up, and an empty output.
fn with_requests(count: u16) -> FcgiConnection {
    let mut connection = FcgiConnection::new(OPTIONS);
    for id in 1..=count {
        assert_eq!(connection.begin(b"", false), Some(id));
    }
    flush(&mut connection);
    connection
}

fn flush(connection: &mut FcgiConnection) -> Vec<u8> {
    let output = connection.output().to_vec();
    connection.flushed(output.len());
    output
}

fn input(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn end(id: u16) -> Vec<u8> {
    input(|out| write_end(id, 0, ProtocolStatus::RequestComplete, out))
}

/// An event that owns its content, in which parts of a stream are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Ready,
    Stdout(u16, Vec<u8>),
    /// The end of the output.
    StdoutEnd(u16),
    /// Content of one record or of a part of it, and whether the record ends.
    Stderr(u16, Vec<u8>, bool),
    Ended(u16, u32, ProtocolStatus),
    Failed(FcgiFault),
}

fn stdout(id: u16, content: &[u8]) -> Seen {
    Seen::Stdout(id, content.to_vec())
}

fn ended(id: u16) -> Seen {
    Seen::Ended(id, 0, ProtocolStatus::RequestComplete)
}

fn see(seen: &mut Vec<Seen>, event: FcgiEvent<'_>) {
    match (event, seen.last_mut()) {
        (FcgiEvent::Stdout { id, payload: b"" }, _) => seen.push(Seen::StdoutEnd(id)),
        (FcgiEvent::Stdout { id, payload }, Some(Seen::Stdout(last, content))) if *last == id => {
            content.extend_from_slice(payload);
        }
        (FcgiEvent::Stderr { id, payload, ends_record }, Some(Seen::Stderr(last, content, ended)))
            if *last == id && !*ended =>
        {
            content.extend_from_slice(payload);
            *ended = ends_record;
        }
        (FcgiEvent::Stdout { id, payload }, _) => seen.push(Seen::Stdout(id, payload.to_vec())),
        (FcgiEvent::Stderr { id, payload, ends_record }, _) => {
            seen.push(Seen::Stderr(id, payload.to_vec(), ends_record));
        }
        (FcgiEvent::Ready, _) => seen.push(Seen::Ready),
        (FcgiEvent::Ended { id, application_status, status }, _) => {
            seen.push(Seen::Ended(id, application_status, status));
        }
        (FcgiEvent::Failed(fault), _) => seen.push(Seen::Failed(fault)),
    }
}

/// Receives input in pieces that end at the cuts, in ascending order.
fn receive(connection: &mut FcgiConnection, input: &[u8], cuts: &[usize]) -> Vec<Seen> {
    let (mut seen, mut waiting, mut start) = (Vec::new(), Vec::new(), 0);
    for end in cuts.iter().copied().chain([input.len()]) {
        waiting.extend_from_slice(&input[start..end]);
        start = end;
        loop {
            let (consumed, event) = connection.receive(&waiting);
            if let Some(event) = event {
                assert!(consumed > 0);
                if let FcgiEvent::Stderr { payload, .. } = event {
                    assert!(!payload.is_empty());
                }
                see(&mut seen, event);
            }
            let is_done = event.is_none();
            waiting.drain(..consumed);
            connection.check_invariants();
            if is_done {
                break;
            }
        }
        assert!(waiting.len() < MAX_VALUES, "the caller keeps little");
    }
    assert_eq!(waiting, b"", "whole records are read");
    seen
}

/// Checks the events of an input as a whole, byte by byte, and in two pieces for each cut.
#[track_caller]
fn check(connection: impl Fn() -> FcgiConnection, input: &[u8], expected: &[Seen]) -> FcgiConnection {
    let every: Vec<_> = (0..=input.len()).collect();
    for cut in &every {
        assert_eq!(receive(&mut connection(), input, &[*cut]), expected, "cut at {cut}");
    }
    assert_eq!(receive(&mut connection(), input, &every), expected, "byte by byte");
    let mut connection = connection();
    assert_eq!(receive(&mut connection, input, &[]), expected);
    connection
}

#[track_caller]
fn check_fails(connection: impl Fn() -> FcgiConnection, input: &[u8], fault: FcgiFault) {
    for (mut connection, pieces) in [(connection(), 1), (connection(), input.len())] {
        let mut seen = Vec::new();
        let mut consumed = 0;
        // All at once, then byte by byte.
        let ends = if pieces == 1 { input.len()..=input.len() } else { 1..=input.len() };
        for end in ends {
            loop {
                let (length, event) = connection.receive(&input[consumed..end]);
                consumed += length;
                let Some(event) = event else { break };
                see(&mut seen, event);
            }
        }
        assert_eq!((seen.last(), consumed), (Some(&Seen::Failed(fault)), input.len()));
        assert_eq!(seen.iter().filter(|seen| matches!(seen, Seen::Failed(_))).count(), 1);
        assert!(!connection.is_ready() && connection.is_closing());
        assert_eq!(connection.begin(b"", false), None);
        assert_eq!(connection.receive(&end(1)), (16, None), "later input is ignored");
    }
}

#[test]
fn a_request_is_written_like_the_examples_of_the_specification() {
    let mut connection = FcgiConnection::new(OPTIONS);
    assert_eq!((connection.output(), connection.live()), (&b""[..], 0));
    assert_eq!(connection.begin(b"\x01\x02nvv", true), Some(1));
    connection.stdin(1, b"body", true);
    let expected = b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0\
        \x01\x04\0\x01\0\x05\0\0\x01\x02nvv\x01\x04\0\x01\0\0\0\0\
        \x01\x05\0\x01\0\x04\0\0body\x01\x05\0\x01\0\0\0\0";
    assert_eq!(flush(&mut connection), expected);
    connection.abort(1);
    assert_eq!(flush(&mut connection), b"\x01\x02\0\x01\0\0\0\0");
}

#[test]
fn a_request_without_a_body_ends_stdin_at_once() {
    let mut connection = FcgiConnection::new(OPTIONS);
    let mut application = ScriptedApplication::new();
    assert_eq!(connection.begin(b"\x01\x02nvv", false), Some(1));
    assert_eq!(connection.begin(b"", true), Some(2));
    application.receive(&flush(&mut connection));
    let first = &application.requests[&1];
    assert!(first.keeps && first.has_params && first.has_stdin && first.stdin.is_empty());
    assert_eq!(first.param("n"), Some(&b"vv"[..]));
    let second = &application.requests[&2];
    assert!(second.has_params && second.params.is_empty() && !second.has_stdin);
}

#[test]
fn params_and_bodies_of_any_length_survive_the_records() {
    for length in [0, 1, 127, 128, 65_527, 65_528, 65_535, 65_536, 131_070, 131_071, 1 << 20] {
        let content: Vec<u8> = (0_u8..251).cycle().take(length).collect();
        let mut params = Params::new();
        params.push(b"FIRST", b"1");
        params.push(b"LONG", &content);
        params.push(b"LAST", b"2");
        let mut connection = FcgiConnection::new(OPTIONS);
        let id = connection.begin(params.bytes(), true).expect("room");
        connection.stdin(id, &content, false);
        connection.stdin(id, b"", false);
        connection.stdin(id, &content, true);
        let mut application = ScriptedApplication::new();
        application.receive(&flush(&mut connection));
        let request = &application.requests[&id];
        assert!(request.has_params && request.params == params.bytes(), "{length}");
        assert_eq!((request.param("FIRST"), request.param("LAST")), (Some(&b"1"[..]), Some(&b"2"[..])));
        assert!(request.has_stdin && request.stdin == [&content[..], &content].concat(), "{length}");
    }
}

#[test]
fn params_are_cut_between_pairs() {
    let mut params = Params::new();
    for length in [30_000, 30_000, 30_000, 200_000, 10, 65_000, 600] {
        params.push(b"NAME", &vec![b'v'; length]);
    }
    let mut connection = FcgiConnection::new(OPTIONS);
    connection.begin(params.bytes(), false);
    let mut lengths = Vec::new();
    let output = flush(&mut connection);
    let mut rest = &output[..];
    while let Some((header, _, length)) = crate::testing::read_record(rest) {
        if header.kind == FcgiRecordKind::Params {
            lengths.push(header.content_length);
        }
        rest = &rest[length..];
    }
    let pair = |value: u16| value + 9;
    // The pair of 200,009 bytes fits into no record.
    let rest = 3404;
    let expected =
        [2 * pair(30_000), pair(30_000), 65_535, 65_535, 65_535, rest, 16 + pair(65_000), pair(600), 0];
    assert_eq!(lengths, expected);
}

#[test]
fn a_header_precedes_content_that_is_sent_without_a_copy() {
    let mut connection = FcgiConnection::new(OPTIONS);
    let id = connection.begin(b"", true).expect("room");
    let mut application = ScriptedApplication::new();
    application.receive(&flush(&mut connection));
    let content = vec![b'c'; 65_535];
    application.receive(&FcgiConnection::stdin_header(id, 65_535));
    application.receive(&content[..1000]);
    connection.queue(&content[1000..]);
    connection.stdin(id, b"", true);
    application.receive(&flush(&mut connection));
    assert!(application.requests[&id].stdin == content && application.requests[&id].has_stdin);
    assert_eq!(FcgiConnection::stdin_header(0x0102, 0x0304), [1, 5, 1, 2, 3, 4, 0, 0]);
}

#[test]
fn the_limit_bounds_requests_in_progress() {
    for (multiplexes, max_requests, limit) in
        [(false, 5, 1), (false, 0, 1), (true, 0, 1), (true, 1, 1), (true, 3, 3), (true, u16::MAX, u16::MAX)]
    {
        let mut connection = FcgiConnection::new(ConnectionOptions { multiplexes, max_requests, ..OPTIONS });
        assert_eq!(connection.request_limit(), limit);
        for id in 1..=limit {
            assert_eq!(connection.begin(b"", false), Some(id));
            flush(&mut connection);
        }
        assert_eq!((connection.begin(b"", false), connection.output()), (None, &b""[..]));
        assert_eq!(connection.live(), usize::from(limit));
        assert!(!connection.is_closing());
    }
}

/// A connection with this limit, before its first request.
fn limited(max_requests: u16) -> FcgiConnection {
    FcgiConnection::new(ConnectionOptions { max_requests, ..OPTIONS })
}

/// Begins a request, and ends it. Returns its id.
fn serve(connection: &mut FcgiConnection) -> u16 {
    let id = connection.begin(b"", false).expect("room");
    flush(connection);
    assert_eq!(receive(connection, &end(id), &[]), [ended(id)]);
    id
}

#[test]
fn ids_rotate_through_63_more_than_the_limit() {
    for (max_requests, window) in [(1, 64), (2, 65), (100, 163)] {
        let mut connection = limited(max_requests);
        for id in (1..=window).cycle().take(3 * usize::from(window)) {
            assert_eq!(serve(&mut connection), id, "{max_requests}");
        }
    }
}

#[test]
fn ids_of_requests_in_progress_are_passed_over() {
    let mut connection = limited(3);
    for id in 1..=2 {
        assert_eq!(connection.begin(b"", false), Some(id));
    }
    connection.abort(1);
    for id in (3..=66).chain(3..=10) {
        assert_eq!(serve(&mut connection), id);
    }
    receive(&mut connection, &end(2), &[]);
    for id in (11..=66).chain(2..=66).chain(2..=2) {
        assert_eq!(serve(&mut connection), id);
    }
    assert_eq!(connection.live(), 1, "the aborted one");

    let mut connection = limited(2);
    assert!((1..=64).all(|id| serve(&mut connection) == id));
    assert_eq!(connection.begin(b"", false), Some(65), "the largest id");
    for id in (1..=64).chain(1..=64) {
        assert_eq!(serve(&mut connection), id);
    }
}

#[test]
fn ids_end_at_65535() {
    for max_requests in [u16::MAX - 63, u16::MAX - 62, u16::MAX] {
        let mut connection = limited(max_requests);
        for id in 1..=u16::MAX {
            // Not `serve`: its checks of invariants take time for each id.
            assert_eq!(connection.begin(b"", false), Some(id), "{max_requests}");
            connection.flushed(usize::MAX);
            assert_eq!(connection.receive(&end(id)).0, 16);
        }
        assert_eq!([serve(&mut connection), serve(&mut connection)], [1, 2], "{max_requests}");
    }
    let mut connection = limited(u16::MAX);
    for id in 1..=u16::MAX {
        assert_eq!(connection.begin(b"", false), Some(id));
    }
    assert_eq!(connection.begin(b"", false), None);
    receive(&mut connection, &end(7), &[]);
    assert_eq!(connection.begin(b"", false), Some(7), "one id is left");
}

#[test]
fn late_records_do_not_reach_the_next_request() {
    let late = input(|out| {
        write_stdout(1, b"late", out);
        write_stderr(1, b"late", out);
        out.extend(end(1));
        write_stdout(2, b"a", out);
    });
    let second = || {
        let mut connection = limited(1);
        assert_eq!(serve(&mut connection), 1);
        assert_eq!(connection.begin(b"", false), Some(2));
        connection
    };
    check(second, &late, &[stdout(2, b"a")]);
}

#[test]
fn without_keeping_the_connection_one_request_begins() {
    let mut connection = FcgiConnection::new(ConnectionOptions { keeps: false, ..OPTIONS });
    assert!(!connection.is_closing());
    assert_eq!(connection.begin(b"", false), Some(1));
    assert!(connection.is_closing() && connection.is_ready());
    let mut application = ScriptedApplication::new();
    application.receive(&flush(&mut connection));
    assert!(!application.requests[&1].keeps);
    assert_eq!((connection.begin(b"", false), connection.output()), (None, &b""[..]));
    let response = [input(|out| write_stdout(1, b"x", out)), end(1)].concat();
    assert_eq!(receive(&mut connection, &response, &[]), [stdout(1, b"x"), ended(1)]);
    assert_eq!(connection.begin(b"", false), None);
}

#[test]
fn a_response_is_reported_in_any_pieces() {
    let response = input(|out| {
        write_stdout(1, b"Status: 200\r\n\r\nbo", out);
        write_stderr(1, b"warning\n", out);
        write_stderr(1, b"other", out);
        write_stdout(1, b"dy", out);
        write_stdout(1, b"", out);
        write_stderr(1, b"", out);
        write_end(1, 0x0102_0304, ProtocolStatus::RequestComplete, out);
    });
    let expected = [
        stdout(1, b"Status: 200\r\n\r\nbo"),
        Seen::Stderr(1, b"warning\n".to_vec(), true),
        Seen::Stderr(1, b"other".to_vec(), true),
        stdout(1, b"dy"),
        Seen::StdoutEnd(1),
        Seen::Ended(1, 0x0102_0304, ProtocolStatus::RequestComplete),
    ];
    let connection = check(|| with_requests(1), &response, &expected);
    assert_eq!(connection.live(), 0);
}

#[test]
fn an_empty_stdout_is_the_end_of_the_output_and_an_empty_stderr_is_skipped() {
    let response = input(|out| {
        write_stdout(2, b"", out);
        write_stderr(1, b"", out);
        write_stdout(1, b"a", out);
        write_stderr(2, b"", out);
        write_stdout(1, b"", out);
        write_stderr(1, b"b", out);
    });
    let expected =
        [Seen::StdoutEnd(2), stdout(1, b"a"), Seen::StdoutEnd(1), Seen::Stderr(1, b"b".to_vec(), true)];
    assert_eq!(check(|| with_requests(2), &response, &expected).live(), 2, "the requests have not ended");

    let empty = input(|out| write_record(FcgiRecordKind::Stdout, 1, b"", 3, out));
    let mut connection = with_requests(1);
    assert_eq!(connection.receive(&empty), (8, Some(FcgiEvent::Stdout { id: 1, payload: b"" })));
    assert_eq!(connection.receive(&empty[8..]), (3, None));
}

#[test]
fn content_is_passed_on_before_its_record_is_complete() {
    let mut connection = with_requests(1);
    let response = input(|out| write_stderr(1, b"abc", out));
    let event = |payload, ends_record| Some(FcgiEvent::Stderr { id: 1, payload, ends_record });
    assert_eq!(connection.receive(&response[..7]), (0, None));
    assert_eq!(connection.receive(&response[..8]), (8, None));
    assert_eq!(connection.receive(&response[8..10]), (2, event(b"ab", false)));
    assert_eq!(connection.receive(b""), (0, None));
    assert_eq!(connection.receive(&response[10..]), (1, event(b"c", true)));
    let response = input(|out| write_stdout(1, b"abc", out));
    assert_eq!(connection.receive(&response[..9]), (9, Some(FcgiEvent::Stdout { id: 1, payload: b"a" })));
}

#[test]
fn padding_of_any_length_is_skipped() {
    for padding in 0..=u8::MAX {
        let mut response = Vec::new();
        write_record(FcgiRecordKind::Stdout, 1, b"ab", padding, &mut response);
        write_record(FcgiRecordKind::Stdout, 1, b"", padding, &mut response);
        write_record(FcgiRecordKind::Stderr, 1, b"c", padding, &mut response);
        write_record(FcgiRecordKind::Data, 1, b"stray", padding, &mut response);
        write_record(FcgiRecordKind::EndRequest, 1, &[0; 8], padding, &mut response);
        write_record(FcgiRecordKind::Stdout, 2, b"d", padding, &mut response);
        let expected = [
            stdout(1, b"ab"),
            Seen::StdoutEnd(1),
            Seen::Stderr(1, b"c".to_vec(), true),
            ended(1),
            stdout(2, b"d"),
        ];
        check(|| with_requests(2), &response, &expected);
    }
}

#[test]
fn requests_may_be_interleaved() {
    let response = input(|out| {
        write_stdout(2, b"a", out);
        write_stdout(1, b"b", out);
        write_stdout(3, b"c", out);
        out.extend(end(1));
        write_stdout(2, b"d", out);
        out.extend(end(3));
        out.extend(end(2));
    });
    let expected =
        [stdout(2, b"a"), stdout(1, b"b"), stdout(3, b"c"), ended(1), stdout(2, b"d"), ended(3), ended(2)];
    assert_eq!(check(|| with_requests(3), &response, &expected).live(), 0);
}

#[test]
fn every_protocol_status_is_reported() {
    for (byte, status) in [
        (0, ProtocolStatus::RequestComplete),
        (1, ProtocolStatus::CannotMultiplex),
        (2, ProtocolStatus::Overloaded),
        (3, ProtocolStatus::UnknownRole),
        (4, ProtocolStatus::Unassigned(4)),
        (255, ProtocolStatus::Unassigned(255)),
    ] {
        let response =
            input(|out| write_record(FcgiRecordKind::EndRequest, 1, &[0, 0, 0, 7, byte, 1, 2, 3], 0, out));
        check(|| with_requests(1), &response, &[Seen::Ended(1, 7, status)]);
    }
}

#[test]
fn an_end_may_be_longer_but_not_shorter_than_8_bytes() {
    let long = input(|out| {
        write_record(FcgiRecordKind::EndRequest, 1, &[0; 2000], 5, out);
        write_stdout(2, b"a", out);
    });
    check(|| with_requests(2), &long, &[ended(1), stdout(2, b"a")]);
    for length in 0..8 {
        let short = input(|out| write_record(FcgiRecordKind::EndRequest, 1, &[0; 8][..length], 9, out));
        check_fails(|| with_requests(1), &short, FcgiFault::MalformedEnd);
    }
}

#[test]
fn an_aborted_request_keeps_its_id_and_loses_its_content() {
    let aborted = || {
        let mut connection = with_requests(2);
        connection.abort(1);
        assert!(!connection.output().is_empty());
        flush(&mut connection);
        connection
    };
    let response = input(|out| {
        write_stdout(1, b"skipped", out);
        write_stdout(2, b"a", out);
        write_stderr(1, b"skipped", out);
        write_stdout(1, b"", out);
        write_end(1, 9, ProtocolStatus::RequestComplete, out);
        out.extend(end(2));
    });
    let expected = [stdout(2, b"a"), Seen::Ended(1, 9, ProtocolStatus::RequestComplete), ended(2)];
    check(aborted, &response, &expected);

    let mut connection = aborted();
    assert!(!connection.is_live(1) && connection.is_live(2));
    assert_eq!(connection.live(), 2);
    connection.abort(1);
    connection.stdin(1, b"a", true);
    assert_eq!(connection.output(), b"", "the application hears nothing more");
    assert_eq!(connection.begin(b"", false), Some(3));
    receive(&mut connection, &response, &[]);
    assert_eq!((connection.live(), connection.begin(b"", false)), (1, Some(4)));
    assert!(connection.is_live(4) && !connection.is_live(1));
}

#[test]
fn content_of_a_record_is_skipped_from_the_abort_on() {
    let mut connection = with_requests(1);
    let response = input(|out| write_stdout(1, b"abcd", out));
    assert_eq!(connection.receive(&response[..10]).1, Some(FcgiEvent::Stdout { id: 1, payload: b"ab" }));
    connection.abort(1);
    assert_eq!(connection.receive(&response[10..]), (2, None));
    assert_eq!(receive(&mut connection, &end(1), &[]), [ended(1)]);
}

#[test]
fn requests_that_do_not_exist_cannot_be_written_to() {
    let mut connection = with_requests(2);
    receive(&mut connection, &end(1), &[]);
    for id in [0, 1, 3, u16::MAX] {
        connection.stdin(id, b"a", true);
        connection.abort(id);
        assert!(!connection.is_live(id));
    }
    assert_eq!((connection.output(), connection.live()), (&b""[..], 1));
}

#[test]
fn records_of_other_requests_and_unknown_types_are_skipped() {
    let response = input(|out| {
        for id in [1, 3, u16::MAX] {
            write_stdout(id, b"a", out);
            write_stderr(id, b"", out);
            out.extend(end(id));
            write_record(FcgiRecordKind::EndRequest, id, b"", 3, out);
        }
        for kind in (0..=u8::MAX).filter(|kind| ![3, 6, 7].contains(kind)).step_by(5) {
            write_record(FcgiRecordKind::Unassigned(kind), 2, b"abcd", 0, out);
        }
        write_record(FcgiRecordKind::UnknownType, 2, &[9, 0, 0, 0, 0, 0, 0, 0], 0, out);
        write_stdout(2, b"a", out);
    });
    let connection = || {
        let mut connection = with_requests(2);
        receive(&mut connection, &end(1), &[]);
        connection
    };
    let connection = check(connection, &response, &[stdout(2, b"a")]);
    assert_eq!(connection.live(), 1);
}

#[test]
fn late_answers_to_management_records_are_skipped() {
    let response = input(|out| {
        write_values(&[("FCGI_MAX_REQS", "1")], out);
        write_unknown_type(9, out);
        write_stdout(1, b"a", out);
    });
    assert_eq!(check(|| with_requests(1), &response, &[stdout(1, b"a")]).request_limit(), 100);
}

#[test]
fn other_management_records_end_the_connection() {
    for kind in (0..=u8::MAX).filter(|kind| ![10, 11].contains(kind)) {
        for content in [&b""[..], &[0; 8]] {
            let response = input(|out| {
                write_stdout(1, b"a", out);
                write_record(FcgiRecordKind::Unassigned(kind), 0, content, 3, out);
                out.extend(end(1));
            });
            check_fails(|| with_requests(1), &response, FcgiFault::ManagementRecord);
        }
    }
}

#[test]
fn stray_records_are_bounded_in_a_row() {
    let stray = input(|out| write_stdout(9, b"a", out)).repeat(MAX_STRAY as usize);
    for record in [
        input(|out| write_stdout(1, b"", out)),
        input(|out| write_stderr(2, b"skipped", out)),
        input(|out| write_stdout(1, b"a", out)),
    ] {
        let mut connection = with_requests(2);
        connection.abort(2);
        let response = [&stray[..], &record, &stray].concat();
        let seen = receive(&mut connection, &response, &[]);
        assert!(!seen.iter().any(|seen| matches!(seen, Seen::Failed(_))), "{seen:?}");
        assert!(connection.is_ready());
    }
    let many = [stray, input(|out| write_unknown_type(1, out))].concat();
    check_fails(|| with_requests(1), &many, FcgiFault::StrayRecords);
}

#[test]
fn other_versions_are_refused() {
    for bytes in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"\x02\x06\0\x01\0\0\0\0", b"\0\x06\0\x01\0\0\0\0"] {
        check_fails(|| with_requests(1), bytes, FcgiFault::Version);
        check_fails(|| FcgiConnection::new(QUERYING), bytes, FcgiFault::Version);
    }
}

#[test]
fn limits_are_queried_before_the_first_request() {
    let mut connection = FcgiConnection::new(QUERYING);
    assert!(!connection.is_ready() && !connection.is_closing());
    let expected =
        [&b"\x01\x09\0\0\0\x20\0\0"[..], b"\x0d\0FCGI_MAX_REQS", b"\x0f\0FCGI_MPXS_CONNS"].concat();
    assert_eq!((connection.begin(b"", false), flush(&mut connection)), (None, expected.clone()));
    let mut application = ScriptedApplication::new();
    application.receive(&expected);
    assert_eq!(application.value_queries, 1);
    assert_eq!(receive(&mut connection, &input(|out| write_values(&[], out)), &[]), [Seen::Ready]);
    assert_eq!(connection.begin(b"", false), Some(1));
    assert!(FcgiConnection::new(OPTIONS).is_ready());
}

#[test]
fn answers_override_the_configured_limits() {
    let (requests, multiplexes) = ("FCGI_MAX_REQS", "FCGI_MPXS_CONNS");
    for (configured, values, limit) in [
        (true, &[(requests, "7"), (multiplexes, "1")][..], 7),
        (false, &[(multiplexes, "1"), (requests, "7")], 7),
        (true, &[(requests, "7"), (multiplexes, "0")], 1),
        (true, &[(requests, "7")], 7),
        (false, &[(requests, "7")], 1),
        (false, &[(multiplexes, "1")], 100),
        (true, &[(multiplexes, "0")], 1),
        (true, &[], 100),
        (true, &[(requests, "0")], 1),
        (true, &[(requests, "65535")], 65_535),
        (true, &[(requests, "65536")], 65_535),
        (true, &[(requests, "655360")], 65_535),
        (true, &[(requests, "99999999999999999999")], 65_535),
        (true, &[(requests, ""), (multiplexes, "no")], 100),
        (true, &[(requests, "-1"), (multiplexes, "+0")], 100),
        (true, &[("FCGI_MAX_CONNS", "7"), ("fcgi_max_reqs", "7"), ("", "")], 100),
    ] {
        let answer = input(|out| write_values(values, out));
        let connection = || FcgiConnection::new(ConnectionOptions { multiplexes: configured, ..QUERYING });
        assert_eq!(check(connection, &answer, &[Seen::Ready]).request_limit(), limit, "{values:?}");
    }
}

#[test]
fn other_answers_leave_the_configured_limits() {
    for answer in [
        input(|out| write_unknown_type(9, out)),
        input(|out| write_record(FcgiRecordKind::GetValuesResult, 0, b"", 7, out)),
        input(|out| write_record(FcgiRecordKind::GetValuesResult, 1, b"\x0d\x01FCGI_MAX_REQS1", 7, out)),
        input(|out| write_record(FcgiRecordKind::Unassigned(99), 0, b"abc", 7, out)),
        input(|out| write_stdout(1, b"a", out)),
        end(0),
    ] {
        let connection = check(|| FcgiConnection::new(QUERYING), &answer, &[Seen::Ready]);
        assert_eq!(connection.request_limit(), 100);
    }
}

#[test]
fn malformed_answers_are_refused() {
    let querying = || FcgiConnection::new(QUERYING);
    for content in [&b"\x0d"[..], b"\x0d\x01FCGI_MAX_REQS", b"\xff\xff\xff\xff\0", &[0; MAX_VALUES + 2]] {
        let answer = input(|out| write_record(FcgiRecordKind::GetValuesResult, 0, content, 0, out));
        check_fails(querying, &answer, FcgiFault::MalformedValues);
    }
    let largest = input(|out| write_record(FcgiRecordKind::GetValuesResult, 0, &[0; MAX_VALUES], 255, out));
    check(querying, &largest, &[Seen::Ready]);
}

#[test]
fn output_is_flushed_in_any_pieces() {
    let mut connection = FcgiConnection::new(OPTIONS);
    let mut expected = Vec::new();
    let mut found = Vec::new();
    for piece in [1, 7, 1000, 70_000, 100_000, 3] {
        connection.queue(&vec![b'q'; 90_000]);
        expected.extend(vec![b'q'; 90_000]);
        connection.queue(b"end");
        expected.extend(b"end");
        found.extend_from_slice(&connection.output()[..piece]);
        connection.flushed(piece);
        assert!(connection.flushed <= MAX_FLUSHED);
    }
    found.extend(flush(&mut connection));
    assert!(found == expected);
    connection.flushed(1);
    assert_eq!(connection.output(), b"");
    assert!(connection.output.capacity() <= 2 * KEPT_OUTPUT, "an idle connection keeps little");
}

/// The buffers of a connection after each of many requests, one after the other. The rotation uses each id twice.
fn buffers_of_requests(connection: &mut FcgiConnection, window: usize) -> Vec<[(*const u8, usize); 2]> {
    let mut buffers = Vec::new();
    for _ in 0..2 * window {
        let id = connection.begin(&[0; 2000], true).expect("room");
        connection.stdin(id, &[0; 1000], true);
        let FcgiConnection { output, requests, .. } = &*connection;
        buffers.push([(output.as_ptr(), output.capacity()), (requests.as_ptr().cast(), requests.capacity())]);
        flush(connection);
        receive(connection, &end(id), &[]);
    }
    assert_eq!(connection.requests.len(), window);
    buffers
}

#[test]
fn a_request_allocates_nothing_after_the_first_one_without_multiplexing() {
    let mut connection = FcgiConnection::new(ConnectionOptions { multiplexes: false, ..OPTIONS });
    assert_eq!(connection.requests.capacity(), 0, "the first request allocates the ids");
    let buffers = buffers_of_requests(&mut connection, 64);
    assert_eq!(buffers[0][1], buffers[1][1]);
    // The buffer of output is cut to its kept size once.
    assert!(buffers[2..].iter().all(|later| *later == buffers[1]));
}

#[test]
fn a_request_allocates_nothing_after_all_ids_were_used() {
    let buffers = buffers_of_requests(&mut limited(100), 163);
    assert!(buffers[163..].iter().all(|later| *later == buffers[162]));
    assert!(buffers[162][1].1 <= 2 * 163, "the memory for ids is bounded");
}

#[derive(Debug, Clone)]
struct Record {
    kind: u8,
    id: u16,
    content: Vec<u8>,
    padding: u8,
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let kind = prop_oneof![8 => 6_u8..=7, 2 => Just(3_u8), 1 => 10_u8..=11, 1 => any::<u8>()];
    // A management record ends most connections.
    let id = prop_oneof![30 => 1_u16..6, 1 => Just(MANAGEMENT)];
    let content = prop_oneof![1 => Just(Vec::new()), 5 => prop::collection::vec(any::<u8>(), 0..20)];
    let record = (kind, id, content, any::<u8>()).prop_map(|(kind, id, content, padding)| Record {
        kind,
        id,
        content,
        padding,
    });
    prop::collection::vec(record, 0..30)
}

/// The expected events of [`records`] on a connection with requests 1 to 4. Request 4 is aborted.
fn model(records: &[Record]) -> Vec<Seen> {
    let (mut seen, mut live) = (Vec::new(), vec![1, 2, 3, 4]);
    for Record { kind, id, content, .. } in records {
        let (id, payload) = (*id, &content[..]);
        if id == MANAGEMENT && ![10, 11].contains(kind) {
            seen.push(Seen::Failed(FcgiFault::ManagementRecord));
            break;
        }
        if !live.contains(&id) {
            continue;
        }
        match kind {
            6 if id != 4 => see(&mut seen, FcgiEvent::Stdout { id, payload }),
            7 if id != 4 && !content.is_empty() => {
                see(&mut seen, FcgiEvent::Stderr { id, payload, ends_record: true });
            }
            3 if content.len() < 8 => {
                seen.push(Seen::Failed(FcgiFault::MalformedEnd));
                break;
            }
            3 => {
                live.retain(|live| *live != id);
                let status = u32::from_be_bytes([content[0], content[1], content[2], content[3]]);
                seen.push(Seen::Ended(id, status, ProtocolStatus::from_byte(content[4])));
            }
            _ => {}
        }
    }
    seen
}

proptest! {
    #[test]
    fn records_in_any_pieces_give_the_events_of_a_model(records in records(), cuts: Vec<prop::sample::Index>) {
        let mut bytes = Vec::new();
        for Record { kind, id, content, padding } in &records {
            let start = bytes.len();
            write_record(FcgiRecordKind::Unassigned(*kind), *id, content, *padding, &mut bytes);
            prop_assert_eq!(bytes[start + 1], *kind);
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut connection = with_requests(4);
        connection.abort(4);
        prop_assert_eq!(receive(&mut connection, &bytes, &cuts), model(&records));
    }

    #[test]
    fn at_least_63_other_requests_begin_between_two_uses_of_an_id(
        max_requests in 1_u16..6,
        // Begin a request, or end one of those in progress.
        steps in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 200..400),
    ) {
        let mut connection = limited(max_requests);
        let (mut begun, mut live) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Some(at) if !live.is_empty() => {
                    let id = live.swap_remove(at.index(live.len()));
                    receive(&mut connection, &end(id), &[]);
                }
                _ => match connection.begin(b"", false) {
                    Some(id) => {
                        prop_assert!((1..=max_requests + 63).contains(&id));
                        prop_assert!(!begun.iter().rev().take(63).any(|recent| *recent == id));
                        begun.push(id);
                        live.push(id);
                    }
                    None => prop_assert_eq!(live.len(), usize::from(max_requests)),
                },
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, get_values: bool) {
        let mut connection = FcgiConnection::new(ConnectionOptions { get_values, ..OPTIONS });
        connection.begin(b"", false);
        let mut consumed = 0;
        loop {
            let (length, event) = connection.receive(&bytes[consumed..]);
            consumed += length;
            if event.is_none() {
                break;
            }
        }
        prop_assert!(consumed <= bytes.len());
    }
}
