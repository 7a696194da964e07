//! HTTP/2: header blocks, and a client's frames after its preface. The first byte selects where the bytes are cut.

use weir_h1::{HeadParser, HeadProgress, ParseOptions};
use weir_h2::frame::PREFACE;
use weir_h2::{Connection, ConnectionEvent, ConnectionLimits, ReceivedHead};
use weir_hpack::{Decoder, Encoder, Indexing};
use weir_http::{BodySize, Head};

/// A header block, whole and in two pieces. Encoded again, it must have the same fields.
pub fn header_block(bytes: &[u8]) {
    let Some((cut, bytes)) = cut(bytes) else { return };
    let (whole, fields) = decode(&[bytes]);
    let (pieces, in_pieces) = decode(&[&bytes[..cut], &bytes[cut..]]);
    assert_eq!((whole, &fields), (pieces, &in_pieces), "cut at {cut}");
    let (mut encoder, mut block) = (Encoder::new(4096), Vec::new());
    encoder.begin_block(&mut block);
    for (token, name, value) in &fields {
        encoder.field(&mut block, *token, name, value, Indexing::Kept);
    }
    let (complete, again) = decode(&[&block]);
    assert!(complete && again == fields, "encoded again it is another list");
}

type FieldList = Vec<(weir_hpack::Token, Vec<u8>, Vec<u8>)>;

/// Whether the complete block was decoded, and the fields.
fn decode(pieces: &[&[u8]]) -> (bool, FieldList) {
    let (mut decoder, mut fields, mut rest) = (Decoder::new(4096, MOST_TEXT), FieldList::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        let show = |field: weir_hpack::DecodedField<'_>| {
            fields.push((field.token, field.name.to_vec(), field.value.to_vec()));
        };
        match decoder.decode(&rest, show) {
            Ok(used) => drop(rest.drain(..used)),
            Err(_) => return (false, fields),
        }
    }
    (rest.is_empty(), fields)
}

/// A client's frames after its preface and settings, whole and in two pieces: events and output must be equal. The head of each
/// request, written for an HTTP/1 server, must be exactly one request there, with the same fields and the same body.
pub fn client_frames(bytes: &[u8]) {
    let Some((cut, bytes)) = cut(bytes) else { return };
    let whole = converse(&[bytes]);
    let pieces = converse(&[&bytes[..cut], &bytes[cut..]]);
    assert_eq!(whole, pieces, "cut at {cut}");
}

/// Runs a connection. Returns the events and the output.
fn converse(pieces: &[&[u8]]) -> (Vec<String>, Vec<u8>) {
    let limits = ConnectionLimits { max_head: 4096, ..ConnectionLimits::default() };
    let mut connection = Connection::server(limits);
    let mut wire = [&PREFACE[..], SETTINGS].concat();
    let (mut happened, mut payload) = (Vec::new(), Vec::new());
    for piece in pieces {
        wire.extend_from_slice(piece);
        loop {
            let (used, event) = connection.advance(&wire, 0);
            assert!(used <= wire.len());
            match event {
                ConnectionEvent::More => {}
                ConnectionEvent::Request { stream, end } => {
                    let mut request = ReceivedHead::default();
                    connection.take_head(&mut request);
                    if request.fault.is_none() {
                        check_translation(&request, end);
                    }
                    happened.push(format!("{stream} {end} {}", request.bytes.escape_ascii()));
                }
                // Payload arrives in as many pieces as the bytes.
                ConnectionEvent::Data { stream, ref bytes, end } => {
                    payload.extend_from_slice(&wire[bytes.clone()]);
                    if end {
                        happened.push(format!("{stream} ends"));
                    }
                }
                ref other => happened.push(format!("{other:?}")),
            }
            wire.drain(..used);
            if matches!(event, ConnectionEvent::More | ConnectionEvent::Failed(_)) {
                break;
            }
        }
        assert!(connection.live() <= limits.concurrent_streams as usize);
        if connection.is_over() {
            break;
        }
    }
    happened.push(payload.escape_ascii().to_string());
    (happened, connection.output().to_vec())
}

/// Checks that an HTTP/1 parser reads the translated request as one and the same request.
fn check_translation(request: &ReceivedHead, end: bool) {
    let mut written = Vec::new();
    request.head.write(&request.bytes, &mut written);
    // The key of an upgrade request is added later.
    let options = ParseOptions { accept_unsafe_violations: true, ..ParseOptions::default() };
    let mut head = Head::new();
    let progress = HeadParser::default().request(&written, &options, &mut head);
    let text = written.escape_ascii();
    assert_eq!(progress, HeadProgress::Complete { head_len: written.len() }, "{text}");
    assert_eq!(head.method_text(&written), request.head.method_text(&request.bytes), "{text}");
    // `OPTIONS *` has an empty path in one form, and a star in the other (RFC 9112, 3.2.4).
    if head.uri(&written) != b"*" {
        assert_eq!(head.path_and_query(&written), request.head.path_and_query(&request.bytes), "{text}");
    }
    assert_eq!(BodySize::of_request(&head), BodySize::of_request(&request.head), "{text}");
    assert!(!end || BodySize::of_request(&head) == BodySize::None, "{text}");
    // The server decides which port is the default of a host.
    let fields = |head: &Head, raw: &[u8]| {
        let values = head
            .fields(raw)
            .map(|(name, value)| (name.to_vec(), if name == b"host" { Vec::new() } else { value.to_vec() }));
        values.collect::<Vec<_>>()
    };
    assert_eq!(fields(&head, &written), fields(&request.head, &request.bytes), "{text}");
}

/// The first byte selects a position in the rest.
fn cut(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&place, rest) = bytes.split_first()?;
    Some((usize::from(place) % (rest.len() + 1), rest))
}

const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The size limit of a name or a value.
const MOST_TEXT: usize = 4096;
