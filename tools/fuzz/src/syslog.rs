//! Syslog: streams, messages, and their forms for log targets.

use std::net::IpAddr;

use weir_events::calendar::{DateCache, utc};
use weir_events::logger::{LogAddress, LogTarget};
use weir_events::relayed_message::write_relayed;
use weir_events::{Facility, Level, RelayedMessage, SyslogFormat, WallTime};
use weir_model::HostStrategy;
use weir_syslog::{FrameScan, Framer, FramingFault, HeaderShape, SyslogMessage};

/// Maximum message length. Long enough for headers, short enough to be exceeded by inputs.
const LONGEST: usize = 300;

/// A stream. In pieces it must give the same messages, within the buffer limit, and each message must parse. The first
/// byte selects the length of pieces, and whether messages are only lines.
pub fn syslog_stream(bytes: &[u8]) {
    let Some((&first, stream)) = bytes.split_first() else { return };
    let lines_only = first & 0x80 != 0;
    let whole = cut(stream, lines_only, stream.len().max(1));
    let pieces = cut(stream, lines_only, usize::from(first & 0x7f) + 1);
    assert_eq!(whole, pieces);
    whole.0.iter().for_each(|message| syslog_message(message));
}

fn cut(stream: &[u8], lines_only: bool, step: usize) -> (Vec<Vec<u8>>, Option<FramingFault>) {
    let mut framer = Framer::new(LONGEST, lines_only);
    let (mut held, mut messages): (Vec<u8>, Vec<Vec<u8>>) = Default::default();
    for piece in stream.chunks(step) {
        held.extend_from_slice(piece);
        loop {
            match framer.next(&held) {
                FrameScan::Message { body, used } => {
                    assert!(body.end <= used && used <= held.len() && body.len() <= LONGEST);
                    messages.push(held[body].to_vec());
                    held.drain(..used);
                }
                FrameScan::Nothing(used) => {
                    assert!(used > 0);
                    held.drain(..used);
                }
                FrameScan::Incomplete => break,
                FrameScan::Refused(why) => return (messages, Some(why)),
            }
        }
        assert!(held.len() <= Framer::most_held(LONGEST));
    }
    (messages, None)
}

/// A message. Parsing must not lose any of its bytes.
pub fn syslog_message(bytes: &[u8]) {
    let message = SyslogMessage::parse(bytes);
    assert!(bytes.starts_with(message.whole) && message.whole.ends_with(message.text));
    assert!(message.priority.is_none_or(|priority| priority <= 999));
    match message.shape {
        HeaderShape::Plain => assert_eq!(message.whole.len(), message.after_priority + message.text.len()),
        HeaderShape::Rfc3164 => assert!(message.host.is_some()),
        HeaderShape::Rfc5424 => {}
    }
    if let Some(host) = message.host {
        assert!(message.whole[message.host_at..].starts_with(host));
    }
}

/// A message in the form for each kind of target: one line within the size limit, with the message's contents. The first
/// byte selects the sender, the host strategy, the length limit, and the highest severity.
pub fn syslog_relayed(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let message = SyslogMessage::parse(bytes);
    let sender: Option<IpAddr> = match first & 3 {
        0 => None,
        1 => Some([192, 0, 2, 1].into()),
        _ => Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
    };
    let strategies = [HostStrategy::Replace, HostStrategy::Fill, HostStrategy::Keep, HostStrategy::Append];
    let mut space = Vec::new();
    let relayed =
        weir_logs::relay::relayed(&message, strategies[usize::from(first >> 2 & 3)], sender, &mut space);
    let mut target =
        LogTarget::new(LogAddress::STDOUT, Facility::from_name("local0").expect("a name of the language"));
    target.max_length = if first & 0x10 != 0 { 40 } else { 65_536 };
    // The newline counts.
    let longest = target.max_length - 1;
    target.min_level = if first & 0x20 != 0 { Level::Warning } else { Level::Emergency };
    for (format, ..) in SyslogFormat::ALL {
        target.format = format;
        let line = written(&target, &relayed);
        if line.len() < longest {
            assert!(line.ends_with(message.text), "{format:?}");
        }
    }
    target.keeps_format = true;
    let line = written(&target, &relayed);
    let level_stays = relayed.priority.is_none() || relayed.level() >= target.min_level;
    if relayed.new_host.is_none() && level_stays {
        assert_eq!(line, message.whole[..message.whole.len().min(longest)]);
    } else if line.len() < longest {
        // Only the intended parts have changed.
        let again = SyslogMessage::parse(&line);
        assert_eq!((again.shape, again.text), (message.shape, message.text));
        assert_eq!(again.host, relayed.new_host.map_or(message.host, |host| Some(host.name)));
        assert_eq!((again.tag, again.process_id), (message.tag, message.process_id));
    }
}

fn written(target: &LogTarget, message: &RelayedMessage<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    let time = WallTime { seconds: 1_795_179_905, micros: 7_181 };
    write_relayed(&mut line, target, &mut DateCache::new(utc()), time, message);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(line.len() < target.max_length);
    line
}
