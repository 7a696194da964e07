//! Records and response heads of FastCGI applications.

use weir_fcgi::connection::MAX_VALUES;
use weir_fcgi::{
    CgiHead, CgiProgress, ConnectionOptions, FcgiConnection, FcgiEvent, Params, pairs, write_http,
};

const OPTIONS: ConnectionOptions =
    ConnectionOptions { get_values: true, keeps: true, multiplexes: true, max_requests: 4 };

/// The bytes of an application on a connection that begins with GET_VALUES, begins requests as soon as it may, and aborts the
/// second one. The first byte is the length of a piece. The pieces must give the events of the whole.
pub fn application_records(bytes: &[u8]) {
    let Some((&piece, input)) = bytes.split_first() else { return };
    let whole = events(input, input.len().max(1));
    assert_eq!(whole, events(input, usize::from(piece).max(1)));
}

/// The events of an input in pieces, with their content joined by request, and the output at its end.
fn events(input: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let mut connection = FcgiConnection::new(OPTIONS);
    let (mut events, mut waiting) = (Vec::new(), Vec::new());
    for piece in input.chunks(piece) {
        waiting.extend_from_slice(piece);
        loop {
            let (consumed, event) = connection.receive(&waiting);
            assert!(consumed <= waiting.len() && (event.is_none() || consumed > 0));
            let Some(event) = event else {
                waiting.drain(..consumed);
                break;
            };
            match event {
                // Byte by byte, since a piece may end anywhere in a record.
                FcgiEvent::Stdout { id, payload: b"" } => events.push(format!("stdout {id} ends")),
                FcgiEvent::Stdout { id, payload } => {
                    events.extend(payload.iter().map(|byte| format!("stdout {id} {byte}")));
                }
                FcgiEvent::Stderr { id, payload, ends_record } => {
                    events.extend(payload.iter().map(|byte| format!("stderr {id} {byte}")));
                    if ends_record {
                        events.push(format!("stderr {id} ends"));
                    }
                }
                event => events.push(format!("{event:?}")),
            }
            match event {
                FcgiEvent::Ready => assert!(connection.is_ready()),
                FcgiEvent::Stdout { id, .. } => assert!(connection.is_live(id)),
                FcgiEvent::Stderr { id, payload, .. } => {
                    assert!(connection.is_live(id) && !payload.is_empty());
                }
                FcgiEvent::Ended { id, .. } => assert!(!connection.is_live(id)),
                FcgiEvent::Failed(_) => assert!(connection.is_closing()),
            }
            while connection.live() < 3 && connection.begin(b"\x01\x01nv", false).is_some() {}
            connection.abort(2);
            connection.check_invariants();
            waiting.drain(..consumed);
        }
        assert!(waiting.len() < MAX_VALUES, "the caller keeps little");
    }
    (events, connection.output().to_vec())
}

/// The front of STDOUT, and the same bytes as pairs. The first byte is the length of a piece, in which the end of the head must be found, too.
pub fn cgi_head(bytes: &[u8]) {
    let Some((&piece, input)) = bytes.split_first() else { return };
    if let Ok(found) = pairs(input) {
        let mut params = Params::new();
        let list: Vec<_> = found.collect();
        list.iter().for_each(|(name, value)| params.push(name, value));
        assert_eq!(pairs(params.bytes()).expect("well-formed").collect::<Vec<_>>(), list);
    }
    let whole = CgiHead::new().find(input, LIMIT);
    let mut head = CgiHead::new();
    let ends = (0..=input.len()).step_by(usize::from(piece).max(1)).chain([input.len()]);
    let pieces =
        ends.map(|end| head.find(&input[..end], LIMIT)).find(|found| *found != CgiProgress::Incomplete);
    assert_eq!(pieces.unwrap_or(CgiProgress::Incomplete), whole);
    let CgiProgress::Complete { length } = whole else { return };
    assert!(length <= input.len().min(LIMIT));
    let mut out = Vec::new();
    match write_http(&input[..length], &mut out) {
        Ok(facts) => {
            assert!((100..=999).contains(&facts.status));
            assert!(out.starts_with(format!("HTTP/1.1 {} ", facts.status).as_bytes()));
            // The head has one end: where it was found.
            assert_eq!(CgiHead::new().find(&out, out.len()), CgiProgress::Complete { length: out.len() });
        }
        Err(_) => assert!(out.is_empty()),
    }
}

/// The longest head, in bytes.
const LIMIT: usize = 1000;
