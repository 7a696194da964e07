use proptest::prelude::*;

use super::*;
use crate::frame::{ABORT, PREFIX};
use crate::testing::{write_ack, write_agent_disconnect, write_agent_hello};
use crate::{ActionScope, AgentAction};

const OFFER: AgentLimits<'_> =
    AgentLimits { max_frame_size: 1000, pipelining: true, engine_id: "engine", healthcheck: false };

fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    write_agent_hello(500, true, &mut out);
    out
}

fn frame(kind: SpopFrameKind, flags: u32, stream_id: u64, frame_id: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&SpopFrame { kind, flags, stream_id, frame_id, payload }, &mut out);
    out
}

fn ack(stream_id: u64, frame_id: u64) -> Vec<u8> {
    let action = AgentAction::SetVar { scope: ActionScope::Session, name: b"a", value: TypedData::Uint32(1) };
    let mut out = Vec::new();
    write_ack(stream_id, frame_id, &[action], &mut out);
    out
}

fn agent_disconnect(status: u32, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_agent_disconnect(status, message, &mut out);
    out
}

/// A connection behind its handshake, with an empty output.
fn ready(offer: AgentLimits<'_>) -> AgentConnection {
    let mut connection = AgentConnection::new(offer);
    flush(&mut connection);
    let input = hello();
    let (consumed, event) = connection.receive(&input);
    assert_eq!(consumed, input.len());
    assert!(matches!(event, Some(AgentEvent::Ready { max_frame_size: 500, .. })), "{event:?}");
    connection
}

fn flush(connection: &mut AgentConnection) -> Vec<u8> {
    let output = connection.output().to_vec();
    connection.flushed(output.len());
    output
}

/// The DISCONNECT frame with a code.
fn disconnect_frame(code: StatusCode) -> Vec<u8> {
    let mut payload = Vec::new();
    write_item(b"status-code", TypedData::Uint32(u64::from(code.number())), &mut payload);
    write_item(b"message", TypedData::Text(code.message().as_bytes()), &mut payload);
    frame(SpopFrameKind::HaproxyDisconnect, FIN, 0, 0, &payload)
}

#[track_caller]
fn check_fails(mut connection: AgentConnection, input: &[u8], code: StatusCode) {
    flush(&mut connection);
    let (consumed, event) = connection.receive(input);
    assert_eq!((consumed, event), (input.len(), Some(AgentEvent::Failed(code))), "{input:?}");
    assert_eq!(flush(&mut connection), disconnect_frame(code));
    assert!(!connection.may_notify());
    assert_eq!(connection.notify(1, 1, b""), Err(NotifyError::NotReady));
    assert!(!connection.disconnect(StatusCode::Normal));
    assert_eq!(connection.output(), b"");
}

#[test]
fn a_disconnect_is_written_like_haproxys() {
    let expected =
        b"\0\0\0\x35\x02\0\0\0\x01\0\0\x0bstatus-code\x03\x04\x07message\x08\x16invalid frame received";
    assert_eq!(disconnect_frame(StatusCode::InvalidFrame), expected);
}

#[test]
fn the_handshake_comes_before_the_first_notify_frame() {
    let mut connection = AgentConnection::new(OFFER);
    assert!(connection.output().starts_with(b"\0\0\0") && !connection.may_notify());
    assert_eq!(connection.notify(1, 1, b""), Err(NotifyError::NotReady));
    flush(&mut connection);
    let input = [hello(), ack(1, 1)].concat();
    let (consumed, event) = connection.receive(&input);
    assert_eq!(event, Some(AgentEvent::Ready { max_frame_size: 500, pipelining: true }));
    assert_eq!(connection.notify(1, 1, b"\x01m\0"), Ok(()));
    assert_eq!(flush(&mut connection), frame(SpopFrameKind::Notify, FIN, 1, 1, b"\x01m\0"));
    let (more, event) = connection.receive(&input[consumed..]);
    assert_eq!(consumed + more, input.len());
    let payload = b"\x01\x03\x01\x01a\x03\x01";
    assert_eq!(event, Some(AgentEvent::Ack { stream_id: 1, frame_id: 1, is_aborted: false, payload }));
    assert_eq!(connection.receive(b""), (0, None));
}

#[test]
fn without_pipelining_one_exchange_runs_at_a_time() {
    for (ours, theirs) in [(false, true), (true, false), (false, false)] {
        let mut connection = AgentConnection::new(AgentLimits { pipelining: ours, ..OFFER });
        let mut input = Vec::new();
        write_agent_hello(500, theirs, &mut input);
        let (_, event) = connection.receive(&input);
        assert_eq!(event, Some(AgentEvent::Ready { max_frame_size: 500, pipelining: false }));
        assert_eq!(connection.notify(7, 1, b""), Ok(()));
        assert!(!connection.may_notify());
        assert_eq!(connection.notify(8, 1, b""), Err(NotifyError::Busy));
        connection.receive(&ack(7, 2));
        assert!(!connection.may_notify(), "another exchange was acknowledged");
        connection.receive(&ack(7, 1));
        assert!(connection.may_notify());
    }
}

#[test]
fn with_pipelining_acks_arrive_in_any_order() {
    let mut connection = ready(OFFER);
    for stream in 1..=100 {
        assert_eq!(connection.notify(stream, 1, b""), Ok(()));
    }
    for stream in (1..=100).rev() {
        let input = ack(stream, 1);
        let (_, event) = connection.receive(&input);
        assert!(matches!(event, Some(AgentEvent::Ack { stream_id, .. }) if stream_id == stream));
    }
}

#[test]
fn items_that_haproxy_does_not_require_may_be_missing() {
    let mut connection = AgentConnection::new(OFFER);
    let input = frame(SpopFrameKind::AgentHello, FIN | ABORT | 4, 0, 0, b"\x07version\x08\x03\x32.0");
    let (_, event) = connection.receive(&input);
    assert_eq!(event, Some(AgentEvent::Ready { max_frame_size: 1000, pipelining: false }));
}

#[test]
fn a_hello_that_is_not_valid_ends_the_connection() {
    let new = || AgentConnection::new(OFFER);
    let sized = |size| {
        let mut out = Vec::new();
        write_agent_hello(size, true, &mut out);
        out
    };
    check_fails(new(), &sized(255), StatusCode::InvalidFrameSize);
    check_fails(new(), &sized(1001), StatusCode::InvalidFrameSize);
    check_fails(new(), &frame(SpopFrameKind::AgentHello, FIN, 0, 0, b""), StatusCode::VersionMissing);
    check_fails(new(), &frame(SpopFrameKind::AgentHello, FIN, 0, 0, b"\xff"), StatusCode::InvalidFrame);
    let version =
        |text: &[u8]| frame(SpopFrameKind::AgentHello, FIN, 0, 0, &[b"\x07version\x08", text].concat());
    check_fails(new(), &version(b"\x031.0"), StatusCode::UnsupportedVersion);
    let payload = &hello()[PREFIX + 7..];
    check_fails(new(), &frame(SpopFrameKind::AgentHello, FIN, 1, 0, payload), StatusCode::InvalidFrame);
    check_fails(new(), &frame(SpopFrameKind::AgentHello, FIN, 0, 1, payload), StatusCode::InvalidFrame);
    check_fails(new(), &frame(SpopFrameKind::AgentHello, 0, 0, 0, payload), StatusCode::Fragmentation);
}

#[test]
fn frames_at_a_wrong_moment_end_the_connection() {
    check_fails(AgentConnection::new(OFFER), &ack(1, 1), StatusCode::InvalidFrame);
    let others = [SpopFrameKind::HaproxyHello, SpopFrameKind::HaproxyDisconnect, SpopFrameKind::Notify];
    for kind in others.into_iter().chain([SpopFrameKind::Unknown(200)]) {
        check_fails(AgentConnection::new(OFFER), &frame(kind, FIN, 0, 0, b""), StatusCode::InvalidFrame);
    }
}

#[test]
fn fragments_end_the_connection() {
    for flags in [0, ABORT, 4] {
        check_fails(ready(OFFER), &frame(SpopFrameKind::Ack, flags, 1, 1, b""), StatusCode::Fragmentation);
        let disconnect = frame(SpopFrameKind::AgentDisconnect, flags, 0, 0, b"");
        check_fails(ready(OFFER), &disconnect, StatusCode::Fragmentation);
    }
}

#[test]
fn an_aborted_exchange_is_reported() {
    let input = frame(SpopFrameKind::Ack, FIN | ABORT, 1, 2, b"");
    let (_, event) = ready(OFFER).receive(&input);
    assert_eq!(event, Some(AgentEvent::Ack { stream_id: 1, frame_id: 2, is_aborted: true, payload: b"" }));
}

#[test]
fn frames_beyond_the_negotiated_size_end_the_connection() {
    let fitting = frame(SpopFrameKind::Ack, FIN, 1, 1, &[0; 500 - 7]);
    assert!(matches!(ready(OFFER).receive(&fitting).1, Some(AgentEvent::Ack { .. })));
    let larger = frame(SpopFrameKind::Ack, FIN, 1, 1, &[0; 501 - 7]);
    check_fails(ready(OFFER), &larger, StatusCode::FrameTooBig);
    // Before the handshake the offered size counts. The length is enough.
    assert_eq!(AgentConnection::new(OFFER).receive(b"\0\0\x03\xe8"), (0, None));
    check_fails(AgentConnection::new(OFFER), b"\0\0\x03\xe9", StatusCode::FrameTooBig);
    let mut connection = ready(OFFER);
    connection.receive(b"\xff\xff\xff\xff");
    assert!(connection.is_closed());
    assert_eq!(connection.receive(&hello()), (hello().len(), None));
}

#[test]
fn notify_frames_keep_to_the_negotiated_size() {
    let mut connection = ready(OFFER);
    assert_eq!(connection.notify(1, 1, &[0; 500 - 7]), Ok(()));
    assert_eq!(flush(&mut connection).len(), PREFIX + 500);
    assert_eq!(connection.notify(1, 1, &[0; 501 - 7]), Err(NotifyError::TooLarge));
    // An ID of 240 has two bytes.
    assert_eq!(connection.notify(240, 240, &[0; 499 - 7]), Err(NotifyError::TooLarge));
    assert_eq!(connection.notify(240, 240, &[0; 498 - 7]), Ok(()));
    assert_eq!(connection.max_payload(u64::MAX, u64::MAX), 500 - 25);
}

#[test]
fn a_few_frames_without_meaning_are_skipped() {
    let unknown = [0, 4, 100, 104, 255].map(SpopFrameKind::Unknown).map(|kind| frame(kind, FIN, 3, 4, b"zz"));
    let own = [SpopFrameKind::HaproxyHello, SpopFrameKind::HaproxyDisconnect, SpopFrameKind::Notify];
    let own = own.map(|kind| frame(kind, FIN, 0, 0, b""));
    for input in unknown.into_iter().chain(own).chain([hello()]) {
        let mut connection = ready(OFFER);
        for _ in 0..MAX_IGNORED {
            assert_eq!(connection.receive(&input), (input.len(), None));
        }
        check_fails(connection, &input, StatusCode::InvalidFrame);
    }
}

#[test]
fn an_agents_disconnect_closes_the_connection() {
    let long = [b'x'; 400];
    for connection in [AgentConnection::new(OFFER), ready(OFFER)] {
        let mut connection = connection;
        flush(&mut connection);
        let input = [agent_disconnect(300_000, &long), ack(1, 1)].concat();
        let (_, event) = connection.receive(&input);
        assert_eq!(event, Some(AgentEvent::Disconnected { status: 300_000, message: &long }));
        assert!(connection.is_closed() && connection.output().is_empty());
        assert_eq!(connection.receive(&ack(1, 1)), (ack(1, 1).len(), None));
    }
}

#[test]
fn an_agents_disconnect_may_lack_its_items() {
    let check = |payload: &[u8], expected: (u32, &[u8])| {
        let input = frame(SpopFrameKind::AgentDisconnect, FIN, 0, 0, payload);
        let expected = AgentEvent::Disconnected { status: expected.0, message: expected.1 };
        assert_eq!(ready(OFFER).receive(&input).1, Some(expected));
    };
    check(b"", (0, b""));
    check(b"\x0bstatus-code\x04\x09", (9, b""));
    check(b"\x07message\x08\x03bye\x01x\x00", (0, b"bye"));
    for payload in [&b"\xff"[..], b"\x0bstatus-code\x08\x014", b"\x07message\x09\x03bye"] {
        let input = frame(SpopFrameKind::AgentDisconnect, FIN, 0, 0, payload);
        check_fails(ready(OFFER), &input, StatusCode::InvalidFrame);
    }
    let mut huge = b"\x0bstatus-code".to_vec();
    TypedData::Uint32(1 << 32).write(&mut huge);
    check_fails(
        ready(OFFER),
        &frame(SpopFrameKind::AgentDisconnect, FIN, 0, 0, &huge),
        StatusCode::InvalidFrame,
    );
    check_fails(
        ready(OFFER),
        &frame(SpopFrameKind::AgentDisconnect, FIN, 9, 0, b""),
        StatusCode::InvalidFrame,
    );
}

#[test]
fn the_message_of_a_disconnect_is_bounded() {
    let mut connection = AgentConnection::new(AgentLimits { max_frame_size: 16380, ..OFFER });
    let input = agent_disconnect(1, &[b'x'; 5000]);
    let (_, event) = connection.receive(&input);
    assert_eq!(event, Some(AgentEvent::Disconnected { status: 1, message: &[b'x'; MAX_MESSAGE] }));
}

#[test]
fn after_our_disconnect_only_the_agents_counts() {
    for mut connection in [AgentConnection::new(OFFER), ready(OFFER)] {
        flush(&mut connection);
        assert!(connection.disconnect(StatusCode::Normal));
        assert_eq!(flush(&mut connection), disconnect_frame(StatusCode::Normal));
        let ignored = [ack(1, 1), hello(), frame(SpopFrameKind::Ack, 0, 1, 1, b"")].concat();
        assert_eq!(connection.receive(&ignored), (ignored.len(), None));
        assert!(!connection.is_closed());
        let input = agent_disconnect(0, b"bye");
        let expected = AgentEvent::Disconnected { status: 0, message: b"bye" };
        assert_eq!(connection.receive(&input), (input.len(), Some(expected)));
        assert!(connection.is_closed());
    }
    let mut connection = ready(OFFER);
    connection.disconnect(StatusCode::Normal);
    flush(&mut connection);
    assert_eq!(connection.receive(b"\0\0\0\0rest"), (8, None));
    assert!(connection.is_closed() && connection.output().is_empty());
}

#[test]
fn output_is_bounded_and_flushed_in_parts() {
    let mut connection = ready(OFFER);
    let mut queued = 0;
    while connection.may_notify() {
        connection.notify(1, 1, &[7; 400]).expect("it may notify");
        queued += 1;
    }
    assert_eq!(connection.notify(1, 1, b""), Err(NotifyError::Busy));
    let output = connection.output().to_vec();
    assert_eq!(output.len(), queued * (PREFIX + 407));
    assert!(output.len() <= MAX_OUTPUT + PREFIX + 500);
    let mut sent = Vec::new();
    while !connection.output().is_empty() {
        let part = connection.output().len().min(1000);
        sent.extend_from_slice(&connection.output()[..part]);
        connection.flushed(part);
    }
    assert_eq!(sent, output);
    assert!(connection.may_notify());
    assert!(connection.output.capacity() <= KEPT_OUTPUT);
}

#[test]
fn half_flushed_output_does_not_grow() {
    let mut connection = ready(OFFER);
    for _ in 0..10_000 {
        connection.notify(1, 1, &[7; 400]).expect("the output is short");
        connection.notify(1, 1, &[7; 10]).expect("the output is short");
        connection.flushed(connection.output().len() - 10);
    }
    assert!(connection.output.capacity() <= 4 * MAX_OUTPUT);
}

/// The events of frames that arrive in pieces of these lengths. The last piece is the rest.
fn events(mut connection: AgentConnection, input: &[u8], pieces: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut events = Vec::new();
    let (mut waiting, mut rest) = (Vec::new(), input);
    for length in pieces.iter().copied().chain([usize::MAX]) {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        waiting.extend_from_slice(piece);
        loop {
            let (consumed, event) = connection.receive(&waiting);
            events.extend(event.map(|event| format!("{event:?}")));
            let is_done = event.is_none();
            waiting.drain(..consumed);
            if is_done {
                break;
            }
        }
        let longest = PREFIX + usize::try_from(connection.max_frame_size()).expect("a small size");
        assert!(waiting.len() < longest, "a complete frame was left");
    }
    (events, connection.output().to_vec())
}

#[test]
fn frames_cut_at_each_byte_give_the_same_events() {
    let input = [
        hello(),
        frame(SpopFrameKind::Unknown(9), 0, 1, 1, b"x"),
        ack(1, 1),
        frame(SpopFrameKind::Ack, FIN | ABORT, u64::MAX, 300_000, b""),
        ack(2, 1),
        agent_disconnect(7, b"bye"),
        b"rubbish".to_vec(),
    ]
    .concat();
    let whole = events(AgentConnection::new(OFFER), &input, &[]);
    assert_eq!(whole.0.len(), 5);
    for cut in 0..input.len() {
        assert_eq!(events(AgentConnection::new(OFFER), &input, &[cut]), whole, "{cut}");
    }
    assert_eq!(events(AgentConnection::new(OFFER), &input, &vec![1; input.len()]), whole);
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        Just(SpopFrameKind::AgentHello),
        Just(SpopFrameKind::Ack),
        Just(SpopFrameKind::AgentDisconnect),
        Just(SpopFrameKind::Unknown(7)),
    ];
    let made = (kind, 0..4_u32, 0..3_u64, 0..300_u64, prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(kind, flags, stream, id, payload)| frame(kind, flags, stream, id, &payload));
    prop_oneof![
        4 => Just(ack(1, 1)),
        1 => Just(agent_disconnect(3, b"m")),
        1 => made,
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #[test]
    fn any_frames_in_any_pieces_give_the_same_events(
        begins_well: bool,
        frames in prop::collection::vec(any_frame(), 0..6),
        pieces in prop::collection::vec(0..40_usize, 0..8),
    ) {
        let start = if begins_well { hello() } else { Vec::new() };
        let input = [start, frames.concat()].concat();
        let whole = events(AgentConnection::new(OFFER), &input, &[]);
        prop_assert_eq!(&events(AgentConnection::new(OFFER), &input, &pieces), &whole);
        // The HELLO frame and at most one DISCONNECT frame.
        prop_assert!(whole.1.len() < 256);
    }
}
