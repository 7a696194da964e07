//! Messages received from other programs and relayed to a log target, in the target's format or in their original one.
//!
//! The parts of a message's header (priority, date, host, program) are written if the target's format has them. Parts
//! that the format needs and the message lacks are filled in: the target's facility, today's date, a placeholder for
//! the host. A message that keeps its format is sent verbatim, except for a changed level or host.

use weir_formats::WallTime;
use weir_formats::civil::MONTHS;

use crate::calendar::{DateCache, push_padded};
use crate::logger::LogTarget;
use crate::syslog::{Level, SyslogFormat};

/// A message received from another program, parsed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelayedMessage<'a> {
    /// The received message, unchanged.
    pub whole: &'a [u8],
    /// The PRI value: eight times the facility, plus the level.
    pub priority: Option<u16>,
    /// Offset in `whole` after the priority.
    pub after_priority: usize,
    /// Date of the message.
    pub date: RelayedDate<'a>,
    /// Host name in the message.
    pub host: Option<&'a [u8]>,
    /// The host to write if the message keeps its format; `None` leaves the host unchanged.
    pub new_host: Option<NewHost<'a>>,
    pub tag: Option<&'a [u8]>,
    pub process_id: Option<&'a [u8]>,
    /// RFC 5424's MSGID.
    pub message_id: Option<&'a [u8]>,
    /// RFC 5424's structured data.
    pub structured_data: Option<&'a [u8]>,
    pub text: &'a [u8],
}

/// The date in a message.
#[derive(Clone, Copy, Debug, Default)]
pub enum RelayedDate<'a> {
    /// No date.
    #[default]
    None,
    /// A date marked as unknown (RFC 5424's `-`).
    Unknown,
    /// `Nov  5 13:05:05`.
    Rfc3164(&'a [u8]),
    /// `2026-11-20T13:05:05.007181+00:00`.
    Iso(&'a [u8]),
}

/// A replacement for the host in a message.
#[derive(Clone, Copy, Debug)]
pub struct NewHost<'a> {
    /// Offset of the old host in the message.
    pub at: usize,
    /// Length of the old host in bytes.
    pub length: usize,
    /// The host to write instead.
    pub name: &'a [u8],
}

impl RelayedMessage<'_> {
    /// The message's level. A message without priority counts as an emergency, so that no level filter drops it.
    pub fn level(&self) -> Level {
        Level::ALL[usize::from(self.priority.unwrap_or(0) & 7)]
    }

    /// The priority to write: the message's facility (the target's if missing), and its level, limited to the target's `min_level`.
    fn priority_for(&self, target: &LogTarget) -> u16 {
        let level = self.level().max(target.min_level);
        match self.priority {
            Some(priority) => (priority & !7) | level as u16,
            None => u16::from(target.facility.priority(level)),
        }
    }
}

/// Appends a message and a newline to `line`, truncated to the target's maximum length. Pure: no clock, no system calls.
pub fn write_relayed(
    line: &mut Vec<u8>,
    target: &LogTarget,
    dates: &mut DateCache,
    time: WallTime,
    message: &RelayedMessage<'_>,
) {
    let start = line.len();
    let mut text = message.text;
    if target.keeps_format {
        text = write_kept(line, target, message);
    } else {
        write_header(line, target, dates, time, message);
    }
    target.finish_line(line, start, text);
}

/// Writes the message up to the last changed part. Returns the rest.
fn write_kept<'a>(line: &mut Vec<u8>, target: &LogTarget, message: &RelayedMessage<'a>) -> &'a [u8] {
    let mut written = 0;
    let priority = message.priority_for(target);
    if message.priority.is_some_and(|own| own != priority) {
        push_priority(line, priority);
        written = message.after_priority;
    }
    if let Some(host) = message.new_host {
        line.extend_from_slice(&message.whole[written..host.at]);
        line.extend_from_slice(host.name);
        written = host.at + host.length;
    }
    &message.whole[written..]
}

fn write_header(
    line: &mut Vec<u8>,
    target: &LogTarget,
    dates: &mut DateCache,
    time: WallTime,
    message: &RelayedMessage<'_>,
) {
    let priority = message.priority_for(target);
    match target.format {
        SyslogFormat::Rfc3164 | SyslogFormat::Local => {
            push_priority(line, priority);
            write_rfc3164_date(line, dates, time, message.date);
            line.push(b' ');
            if target.format == SyslogFormat::Rfc3164 {
                line.extend_from_slice(message.host.unwrap_or(b"localhost"));
                line.push(b' ');
            }
            if let Some(tag) = message.tag {
                line.extend_from_slice(tag);
                if let Some(process_id) = message.process_id {
                    line.push(b'[');
                    line.extend_from_slice(process_id);
                    line.push(b']');
                }
                line.extend_from_slice(b": ");
            }
        }
        SyslogFormat::Rfc5424 => {
            push_priority(line, priority);
            line.extend_from_slice(b"1 ");
            match message.date {
                RelayedDate::Unknown => line.push(b'-'),
                date => write_iso_date(line, dates, time, date),
            }
            for field in
                [message.host, message.tag, message.process_id, message.message_id, message.structured_data]
            {
                line.push(b' ');
                line.extend_from_slice(field.unwrap_or(b"-"));
            }
            line.push(b' ');
        }
        SyslogFormat::Priority => push_priority(line, priority),
        SyslogFormat::Short => push_priority(line, priority & 7),
        SyslogFormat::Timed => {
            push_priority(line, priority & 7);
            write_iso_date(line, dates, time, message.date);
            line.push(b' ');
        }
        SyslogFormat::Iso => {
            write_iso_date(line, dates, time, message.date);
            line.push(b' ');
        }
        SyslogFormat::Raw => {}
    }
}

fn write_rfc3164_date(line: &mut Vec<u8>, dates: &mut DateCache, time: WallTime, date: RelayedDate<'_>) {
    match date {
        RelayedDate::Rfc3164(date) => line.extend_from_slice(date),
        RelayedDate::Iso(date) => match rfc3164_of(date) {
            Some((month, day, time_of_day)) => {
                line.extend_from_slice(month.as_bytes());
                line.push(b' ');
                line.push(if day[0] == b'0' { b' ' } else { day[0] });
                line.push(day[1]);
                line.push(b' ');
                line.extend_from_slice(time_of_day);
            }
            None => dates.write_rfc3164(time, line),
        },
        RelayedDate::None | RelayedDate::Unknown => dates.write_rfc3164(time, line),
    }
}

/// Month, day and time of day of `2026-11-20T13:05:05...`, in the sender's time zone.
fn rfc3164_of(iso: &[u8]) -> Option<(&'static str, &[u8], &[u8])> {
    let month = std::str::from_utf8(iso.get(5..7)?).ok()?.parse::<usize>().ok()?;
    Some((MONTHS.get(month.checked_sub(1)?)?, iso.get(8..10)?, iso.get(11..19)?))
}

fn write_iso_date(line: &mut Vec<u8>, dates: &mut DateCache, time: WallTime, date: RelayedDate<'_>) {
    match date {
        RelayedDate::Iso(date) => line.extend_from_slice(date),
        RelayedDate::Rfc3164(date) => match iso_of(date) {
            Some((month, day, time_of_day)) => {
                push_padded(line, dates.year_of(time, month), 4);
                line.push(b'-');
                push_padded(line, u64::from(month), 2);
                line.push(b'-');
                line.push(if day[0] == b' ' { b'0' } else { day[0] });
                line.push(day[1]);
                line.push(b'T');
                line.extend_from_slice(time_of_day);
                // Unknown local offset (RFC 3339, section 4.3).
                line.extend_from_slice(b"-00:00");
            }
            None => dates.write_iso(time, line),
        },
        RelayedDate::None | RelayedDate::Unknown => dates.write_iso(time, line),
    }
}

/// Month, day and time of day of `Nov  5 13:05:05`.
fn iso_of(date: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let month = MONTHS.iter().position(|month| date.starts_with(month.as_bytes()))?;
    Some((month as u8 + 1, date.get(4..6)?, date.get(7..15)?))
}

fn push_priority(line: &mut Vec<u8>, number: u16) {
    line.push(b'<');
    push_padded(line, u64::from(number), 1);
    line.push(b'>');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::utc;
    use crate::logger::LogAddress;
    use crate::syslog::Facility;

    /// 2026-11-20T13:05:05.007181Z.
    const TIME: WallTime = WallTime { seconds: 1_795_179_905, micros: 7_181 };

    fn full<'a>() -> RelayedMessage<'a> {
        RelayedMessage {
            whole: b"<134>Nov  5 01:02:03 host prog[42]: text",
            priority: Some(134),
            after_priority: 5,
            date: RelayedDate::Rfc3164(b"Nov  5 01:02:03"),
            host: Some(b"host"),
            tag: Some(b"prog"),
            process_id: Some(b"42"),
            text: b"text",
            ..RelayedMessage::default()
        }
    }

    fn bare<'a>() -> RelayedMessage<'a> {
        RelayedMessage { whole: b"text", text: b"text", ..RelayedMessage::default() }
    }

    #[track_caller]
    fn check(message: RelayedMessage<'_>, change: impl FnOnce(&mut LogTarget), expected: &str) {
        let mut target = LogTarget::new(LogAddress::STDOUT, Facility::from_name("local3").unwrap());
        change(&mut target);
        let mut line = Vec::new();
        write_relayed(&mut line, &target, &mut DateCache::new(utc()), TIME, &message);
        assert_eq!(String::from_utf8(line).unwrap(), format!("{expected}\n"));
    }

    #[track_caller]
    fn check_all(message: RelayedMessage<'_>, expected: [&str; 8]) {
        for ((format, ..), expected) in SyslogFormat::ALL.into_iter().zip(expected) {
            check(message, |target| target.format = format, expected);
        }
    }

    #[test]
    fn each_log_format_keeps_the_parts_of_a_relayed_message_it_supports() {
        check_all(
            full(),
            [
                "<134>Nov  5 01:02:03 prog[42]: text",
                "<134>Nov  5 01:02:03 host prog[42]: text",
                "<134>1 2026-11-05T01:02:03-00:00 host prog 42 - - text",
                "<134>text",
                "<6>text",
                "<6>2026-11-05T01:02:03-00:00 text",
                "2026-11-05T01:02:03-00:00 text",
                "text",
            ],
        );
        let iso = RelayedDate::Iso(b"2025-01-02T03:04:05.6+07:00");
        let (message_id, structured_data) = (Some(&b"ID"[..]), Some(&b"[a]"[..]));
        check_all(
            RelayedMessage { date: iso, message_id, structured_data, ..full() },
            [
                "<134>Jan  2 03:04:05 prog[42]: text",
                "<134>Jan  2 03:04:05 host prog[42]: text",
                "<134>1 2025-01-02T03:04:05.6+07:00 host prog 42 ID [a] text",
                "<134>text",
                "<6>text",
                "<6>2025-01-02T03:04:05.6+07:00 text",
                "2025-01-02T03:04:05.6+07:00 text",
                "text",
            ],
        );
    }

    #[test]
    fn missing_parts_of_a_relayed_message_are_filled_in() {
        check_all(
            bare(),
            [
                "<152>Nov 20 13:05:05 text",
                "<152>Nov 20 13:05:05 localhost text",
                "<152>1 2026-11-20T13:05:05.007181+00:00 - - - - - text",
                "<152>text",
                "<0>text",
                "<0>2026-11-20T13:05:05.007181+00:00 text",
                "2026-11-20T13:05:05.007181+00:00 text",
                "text",
            ],
        );
        let unknown = RelayedMessage { date: RelayedDate::Unknown, ..bare() };
        check(unknown, |target| target.format = SyslogFormat::Rfc5424, "<152>1 - - - - - - text");
        check(unknown, |target| target.format = SyslogFormat::Local, "<152>Nov 20 13:05:05 text");
    }

    #[test]
    fn an_rfc3164_date_in_december_has_last_years_year_in_january() {
        let dated = |date| RelayedMessage { date: RelayedDate::Rfc3164(date), ..bare() };
        check(dated(b"Dec 31 23:59:59"), |t| t.format = SyslogFormat::Iso, "2026-12-31T23:59:59-00:00 text");
        let january = WallTime { seconds: 1_798_761_700, micros: 0 };
        let mut line = Vec::new();
        let target = LogTarget {
            format: SyslogFormat::Iso,
            ..LogTarget::new(LogAddress::STDOUT, Facility::from_name("kern").unwrap())
        };
        write_relayed(&mut line, &target, &mut DateCache::new(utc()), january, &dated(b"Dec 31 23:59:59"));
        assert_eq!(String::from_utf8(line).unwrap(), "2026-12-31T23:59:59-00:00 text\n");
    }

    #[test]
    fn a_kept_format_relays_the_message_unchanged_except_for_host_and_priority() {
        let keep = |target: &mut LogTarget| target.keeps_format = true;
        check(full(), keep, "<134>Nov  5 01:02:03 host prog[42]: text");
        check(bare(), keep, "text");
        let new_host = Some(NewHost { at: 21, length: 4, name: b"192.0.2.1" });
        check(RelayedMessage { new_host, ..full() }, keep, "<134>Nov  5 01:02:03 192.0.2.1 prog[42]: text");
        let lowered = |target: &mut LogTarget| (target.keeps_format, target.min_level) = (true, Level::Debug);
        check(full(), lowered, "<135>Nov  5 01:02:03 host prog[42]: text");
        check(
            RelayedMessage { new_host, ..full() },
            lowered,
            "<135>Nov  5 01:02:03 192.0.2.1 prog[42]: text",
        );
        check(bare(), lowered, "text");
        check(full(), |t| (t.keeps_format, t.max_length) = (true, 11), "<134>Nov  ");
    }

    #[test]
    fn the_minimum_level_lowers_levels_and_keeps_facilities() {
        let lower = |target: &mut LogTarget| {
            (target.format, target.min_level) = (SyslogFormat::Priority, Level::Error)
        };
        check(RelayedMessage { priority: Some(128), ..full() }, lower, "<131>text");
        check(RelayedMessage { priority: Some(999), ..full() }, lower, "<999>text");
        check(bare(), lower, "<155>text");
        assert_eq!(bare().level(), Level::Emergency);
    }

    #[test]
    fn relayed_lines_are_truncated_to_the_maximum_length() {
        check(full(), |t| (t.format, t.max_length) = (SyslogFormat::Short, 7), "<6>tex");
        check(full(), |t| t.max_length = 5, "<134");
    }
}
