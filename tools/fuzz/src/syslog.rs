//! Syslog: streams and messages.

use weir_syslog::{Framed, Framer, Message, Refusal, Shape};

/// The longest message of a stream here: long enough for headers, short enough to be exceeded.
const LONGEST: usize = 300;

/// A stream: in pieces it is the same messages as whole, never more is held than promised, and each message can be taken
/// apart. The first byte says how long pieces are, and whether everything is a line.
pub fn syslog_stream(bytes: &[u8]) {
    let Some((&first, stream)) = bytes.split_first() else { return };
    let lines_only = first & 0x80 != 0;
    let whole = cut(stream, lines_only, stream.len().max(1));
    let pieces = cut(stream, lines_only, usize::from(first & 0x7f) + 1);
    assert_eq!(whole, pieces);
    whole.0.iter().for_each(|message| syslog_message(message));
}

fn cut(stream: &[u8], lines_only: bool, step: usize) -> (Vec<Vec<u8>>, Option<Refusal>) {
    let mut framer = Framer::new(LONGEST, lines_only);
    let (mut held, mut messages): (Vec<u8>, Vec<Vec<u8>>) = Default::default();
    for piece in stream.chunks(step) {
        held.extend_from_slice(piece);
        loop {
            match framer.next(&held) {
                Framed::Message { body, used } => {
                    assert!(body.end <= used && used <= held.len() && body.len() <= LONGEST);
                    messages.push(held[body].to_vec());
                    held.drain(..used);
                }
                Framed::Nothing(used) => {
                    assert!(used > 0);
                    held.drain(..used);
                }
                Framed::Incomplete => break,
                Framed::Refused(why) => return (messages, Some(why)),
            }
        }
        assert!(held.len() <= Framer::most_held(LONGEST));
    }
    (messages, None)
}

/// A message: no byte of it is lost, whatever it is.
pub fn syslog_message(bytes: &[u8]) {
    let message = Message::parse(bytes);
    assert!(bytes.starts_with(message.whole) && message.whole.ends_with(message.text));
    assert!(message.priority.is_none_or(|priority| priority <= 999));
    match message.shape {
        Shape::Plain => assert_eq!(message.whole.len(), message.after_priority + message.text.len()),
        Shape::Rfc3164 => assert!(message.host.is_some()),
        Shape::Rfc5424 => {}
    }
    if let Some(host) = message.host {
        assert!(message.whole[message.host_at..].starts_with(host));
    }
}
