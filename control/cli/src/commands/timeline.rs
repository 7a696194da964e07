//! `show timeline`: recent failed or slow streams, with the time of each phase.

use std::fmt::Write;

use weir_events::WallTime;
use weir_events::timeline::{StreamMoment, StreamRecord, StreamText};
use weir_formats::json::{Beyond, Escaping};
use weir_sync::ring::{ReaderWait, Seek};

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::date;
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::CommandTarget;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show timeline",
    syntax: "show timeline [status <n>[xx][-<n>]|slower <ms>|code <letters>|proxy <name>|last <n>|json]*",
    level: Level::Operator,
    flags: WORKER,
    help: "show the last streams that ended badly or slowly, moment by moment",
    run: Some(show),
}];

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let filter = match TimelineFilter::parse(arguments.from(0)) {
        Ok(filter) => filter,
        Err(why) => return CommandOutcome::error(why),
    };
    let mut entries = Vec::new();
    for ring in context.target.timelines() {
        // A dump detaches immediately, so the number of operators bounds the number of readers.
        let Ok(mut reader) = ring.attach(Seek::Oldest, ReaderWait::No) else { continue };
        reader.read(|message| {
            let mut bytes = Vec::with_capacity(message.len());
            message.append_to(&mut bytes);
            entries.extend(StreamRecord::decode(&bytes).filter(|entry| filter.takes(entry)));
            true
        });
    }
    entries.sort_by_key(|entry| (entry.began_us, entry.number));
    let skipped = filter.last.map_or(0, |last| entries.len().saturating_sub(last));
    let entries = entries.into_iter().skip(skipped);
    CommandOutcome::Stream(Box::new(ShowTimeline {
        entries: entries.collect(),
        next: 0,
        begun: false,
        json: filter.json,
    }))
}

/// The options: a filter for entries, and the format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TimelineFilter {
    /// Lowest and highest response status to list.
    status: Option<(u32, u32)>,
    slower_ms: u32,
    /// Prefix of the termination code. A dot matches any character.
    code: Option<String>,
    /// The name of a frontend or a backend.
    proxy: Option<String>,
    /// Maximum number of entries. The newest ones are kept.
    last: Option<usize>,
    json: bool,
}

impl TimelineFilter {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut filter = TimelineFilter::default();
        let mut words = words.iter().filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if word == "json" {
                filter.json = true;
                continue;
            }
            let mut value = || words.next().ok_or_else(|| format!("'{word}' expects a value.\n"));
            let wrong = |value: &str| format!("'{value}' is not a value for '{word}'.\n");
            match word.as_str() {
                "status" => {
                    let value = value()?;
                    filter.status = Some(statuses(value).ok_or_else(|| wrong(value))?);
                }
                "slower" => {
                    let value = value()?;
                    filter.slower_ms = value.parse().map_err(|_| wrong(value))?;
                }
                "last" => {
                    let value = value()?;
                    filter.last = Some(value.parse().map_err(|_| wrong(value))?);
                }
                "code" => filter.code = Some(value()?.clone()),
                "proxy" => filter.proxy = Some(value()?.clone()),
                _ => {
                    return Err(format!(
                        "'{word}' is not known: expects status, slower, code, proxy, last or json.\n"
                    ));
                }
            }
        }
        Ok(filter)
    }

    fn takes(&self, entry: &StreamRecord) -> bool {
        let code = |wanted: &String| {
            wanted.len() <= entry.code.len()
                && wanted.bytes().zip(entry.code).all(|(wanted, found)| wanted == b'.' || wanted == found)
        };
        let proxy = |name: &String| {
            entry.word(StreamText::Frontend) == name || entry.word(StreamText::Backend) == name
        };
        self.status.is_none_or(|(low, high)| (low..=high).contains(&entry.status))
            && entry.duration_ms() >= self.slower_ms
            && self.code.as_ref().is_none_or(code)
            && self.proxy.as_ref().is_none_or(proxy)
    }
}

/// Parses `503`, `5xx` or `400-499`.
fn statuses(text: &str) -> Option<(u32, u32)> {
    if let Some(class) = text.strip_suffix("xx") {
        let class: u32 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    Some((low.parse().ok()?, high.parse().ok()?))
}

struct ShowTimeline {
    entries: Vec<StreamRecord>,
    next: usize,
    begun: bool,
    json: bool,
}

impl AnswerStream for ShowTimeline {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        if self.json && !self.begun {
            self.begun = true;
            out.push(b'[');
        }
        while let Some(entry) = self.entries.get(self.next) {
            if out.len() >= enough {
                return AnswerStep::More;
            }
            let mut text = String::new();
            if self.json {
                text.push_str(if self.next > 0 { ",\n" } else { "" });
                write_json(entry, &mut text);
            } else {
                let began = WallTime::from_micros(i64::try_from(entry.began_us).unwrap_or(i64::MAX));
                write_text(entry, &date(target, began), &mut text);
            }
            out.extend_from_slice(text.as_bytes());
            self.next += 1;
        }
        if self.json {
            out.extend_from_slice(b"]\n");
        }
        AnswerStep::Done
    }
}

/// The text for each moment, and its name in JSON.
const MOMENTS: [(StreamMoment, &str, &str); StreamMoment::COUNT] = [
    (StreamMoment::FirstByte, "first byte of the request", "first_byte"),
    (StreamMoment::BodyAwaited, "request head complete, its body is awaited", "body_awaited"),
    (StreamMoment::Request, "request complete", "request"),
    (StreamMoment::Assigned, "assigned to server", "place"),
    (StreamMoment::Connected, "connected to the server", "connected"),
    (StreamMoment::Response, "response head complete", "response"),
    (StreamMoment::End, "end", "end"),
];

const WORDS: [(StreamText, &str); StreamText::COUNT] = [
    (StreamText::Source, "source"),
    (StreamText::Frontend, "frontend"),
    (StreamText::Backend, "backend"),
    (StreamText::Server, "server"),
    (StreamText::Chosen, "chosen_by"),
    (StreamText::Request, "request_line"),
    (StreamText::Rule, "rule"),
    (StreamText::Ending, "ending"),
    (StreamText::Engine, "engine"),
    (StreamText::Fault, "fault"),
];

fn code(entry: &StreamRecord) -> String {
    entry.code.iter().map(|letter| char::from(*letter)).collect()
}

fn write_text(entry: &StreamRecord, date: &str, text: &mut String) {
    let named = |word| match entry.word(word) {
        "" => "-",
        name => name,
    };
    // Writing to memory does not fail.
    let _ = writeln!(
        text,
        "[{date}] #{} {} -> {}/{} status {} code {} {} ms",
        entry.number,
        named(StreamText::Frontend),
        named(StreamText::Backend),
        named(StreamText::Server),
        entry.status,
        code(entry),
        entry.duration_ms()
    );
    let _ = writeln!(
        text,
        "  {:>8} accepted from {} by worker {}",
        "+0",
        named(StreamText::Source),
        entry.worker
    );
    let has_server = !entry.word(StreamText::Server).is_empty();
    for (moment, what, _) in MOMENTS {
        let Some(at) = entry.moment(moment) else { continue };
        let mut what = what.to_owned();
        let detail = match moment {
            StreamMoment::Request if !entry.word(StreamText::Request).is_empty() => {
                format!(": {}", entry.word(StreamText::Request))
            }
            StreamMoment::Assigned if has_server => {
                format!(
                    " {} by {}{}",
                    named(StreamText::Server),
                    named(StreamText::Chosen),
                    queued(entry.queued)
                )
            }
            // The end of the wait in a queue or tarpit.
            StreamMoment::Assigned => {
                what.clear();
                format!("no server assigned{}", queued(entry.queued))
            }
            // A local response does not involve a server connection.
            StreamMoment::Connected | StreamMoment::Response if !has_server => continue,
            StreamMoment::Connected if entry.retries > 0 => format!(" after {}", retries(entry)),
            StreamMoment::End => {
                // All attempts to connect may have failed.
                let failed = entry.retries > 0 && entry.moment(StreamMoment::Connected).is_none();
                let tried = if failed { format!(" after {}", retries(entry)) } else { String::new() };
                let [received, sent] = entry.bytes;
                format!(
                    ": {}{tried}; {received} bytes from the client, {sent} to it",
                    named(StreamText::Ending)
                )
            }
            _ => String::new(),
        };
        if moment == StreamMoment::End && !entry.word(StreamText::Fault).is_empty() {
            let _ = writeln!(text, "  {:>8} {}", "", entry.word(StreamText::Fault));
        }
        let _ = writeln!(text, "  {:>8} {what}{detail}", format!("+{at}"));
        if moment == StreamMoment::FirstByte && !entry.word(StreamText::Engine).is_empty() {
            let _ = writeln!(text, "  {:>8} {}", "", entry.word(StreamText::Engine));
        }
        if moment == StreamMoment::Request && !entry.word(StreamText::Rule).is_empty() {
            let _ = writeln!(text, "  {:>8} last deciding rule: {}", "", entry.word(StreamText::Rule));
        }
    }
}

/// The number of streams served before this one in queues, as text.
fn queued(count: u32) -> String {
    match count {
        0 => String::new(),
        1 => ", behind 1 stream in the queue".to_owned(),
        count => format!(", behind {count} streams in the queue"),
    }
}

fn retries(entry: &StreamRecord) -> String {
    let count = if entry.retries == 1 { "1 retry".to_owned() } else { format!("{} retries", entry.retries) };
    if entry.redispatched { count + " and a redispatch" } else { count }
}

fn write_json(entry: &StreamRecord, text: &mut String) {
    // Writing to memory does not fail.
    let _ = write!(
        text,
        "{{\"began_us\":{},\"number\":{},\"worker\":{},\"status\":{},\"code\":\"{}\",\"duration_ms\":{},\"retries\":{},\
         \"redispatched\":{},\"queued\":{},\"bytes_in\":{},\"bytes_out\":{}",
        entry.began_us,
        entry.number,
        entry.worker,
        entry.status,
        code(entry),
        entry.duration_ms(),
        entry.retries,
        entry.redispatched,
        entry.queued,
        entry.bytes[0],
        entry.bytes[1]
    );
    for (word, name) in WORDS {
        let _ = write!(text, ",\"{name}\":{}", JSON.quoted(entry.word(word)));
    }
    text.push_str(",\"moments_ms\":{");
    let reached = MOMENTS.iter().filter_map(|(moment, _, name)| Some((name, entry.moment(*moment)?)));
    for (index, (name, at)) in reached.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}\"{name}\":{at}");
    }
    text.push_str("}}");
}

/// The JSON string escaping for streams.
const JSON: Escaping = Escaping { short: "\n", is_uppercase: false, beyond: Beyond::Stay };

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> StreamRecord {
        let mut entry = StreamRecord {
            began_us: 1_795_179_905_007_181,
            number: 7,
            worker: 2,
            status: 504,
            retries: 3,
            queued: 1,
            bytes: [70, 198],
            code: *b"sHNN",
            moments: [Some(1), None, Some(2), Some(2), Some(5), None, Some(5001)],
            ..StreamRecord::default()
        };
        let words = [
            (StreamText::Source, "127.0.0.1:5000"),
            (StreamText::Frontend, "web"),
            (StreamText::Backend, "app"),
            (StreamText::Server, "s1"),
            (StreamText::Chosen, "roundrobin"),
            (StreamText::Request, "GET /\"x\" HTTP/1.1"),
            (StreamText::Rule, "a.cfg:12"),
            (StreamText::Ending, "the server sent no response in time"),
        ];
        words.iter().for_each(|(word, text)| entry.set_word(*word, text));
        entry
    }

    #[test]
    fn show_timeline_lists_the_phases_of_a_stream_in_order() {
        let mut text = String::new();
        write_text(&entry(), "20/Nov/2026:13:05:05.007", &mut text);
        assert_eq!(
            text,
            "[20/Nov/2026:13:05:05.007] #7 web -> app/s1 status 504 code sHNN 5000 ms\n\
             \x20       +0 accepted from 127.0.0.1:5000 by worker 2\n\
             \x20       +1 first byte of the request\n\
             \x20       +2 request complete: GET /\"x\" HTTP/1.1\n\
             \x20          last deciding rule: a.cfg:12\n\
             \x20       +2 assigned to server s1 by roundrobin, behind 1 stream in the queue\n\
             \x20       +5 connected to the server after 3 retries\n\
             \x20    +5001 end: the server sent no response in time; 70 bytes from the client, 198 to it\n"
        );
    }

    #[test]
    fn show_timeline_omits_unreached_phases_and_prints_retries() {
        let text_of = |entry: &StreamRecord| {
            let mut text = String::new();
            write_text(entry, "", &mut text);
            text
        };
        let mut queued = entry();
        queued.set_word(StreamText::Server, "");
        let text = text_of(&queued);
        assert!(text.contains("+2 no server assigned, behind 1 stream in the queue\n"), "{text}");
        assert!(!text.contains("connected") && !text.contains("assigned to"), "{text}");
        let mut failed = entry();
        failed.moments[StreamMoment::Connected as usize] = None;
        assert!(text_of(&failed).contains("in time after 3 retries; 70 bytes"), "{}", text_of(&failed));
        (failed.retries, failed.redispatched) = (1, true);
        assert!(text_of(&failed).contains(" after 1 retry and a redispatch; "), "{}", text_of(&failed));
        failed.retries = 0;
        assert!(!text_of(&failed).contains(" after "), "{}", text_of(&failed));
    }

    #[test]
    fn show_timeline_prints_the_wait_for_a_body_and_the_fault_of_the_server_connection() {
        let mut failed = entry();
        failed.moments[StreamMoment::BodyAwaited as usize] = Some(1);
        failed.set_word(StreamText::Fault, "the TLS session with the server failed: no cipher in common");
        let mut text = String::new();
        write_text(&failed, "", &mut text);
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        assert_eq!(lines[3], "+1 request head complete, its body is awaited");
        assert!(lines[4].starts_with("+2 request complete: "), "{text}");
        let end = lines.len() - 1;
        assert_eq!(lines[end - 1], "the TLS session with the server failed: no cipher in common");
        assert!(lines[end].starts_with("+5001 end: "), "{text}");
    }

    #[test]
    fn show_timeline_json_prints_one_object_for_each_stream() {
        let mut text = String::new();
        write_json(&entry(), &mut text);
        assert_eq!(
            text,
            "{\"began_us\":1795179905007181,\"number\":7,\"worker\":2,\"status\":504,\"code\":\"sHNN\",\
             \"duration_ms\":5000,\"retries\":3,\"redispatched\":false,\"queued\":1,\"bytes_in\":70,\"bytes_out\":198,\
             \"source\":\"127.0.0.1:5000\",\"frontend\":\"web\",\"backend\":\"app\",\"server\":\"s1\",\
             \"chosen_by\":\"roundrobin\",\"request_line\":\"GET /\\\"x\\\" HTTP/1.1\",\"rule\":\"a.cfg:12\",\
             \"ending\":\"the server sent no response in time\",\"engine\":\"\",\"fault\":\"\",\
             \"moments_ms\":{\"first_byte\":1,\"request\":2,\"place\":2,\"connected\":5,\"end\":5001}}"
        );
    }

    #[test]
    fn json_escapes_control_characters() {
        assert_eq!(JSON.quoted("a\"\\\n\r\t\u{1}é/").to_string(), "\"a\\\"\\\\\\n\\u000d\\u0009\\u0001é/\"");
    }

    fn check(words: &str, takes: bool) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(
            TimelineFilter::parse(&words).map(|filter| filter.takes(&entry())),
            Ok(takes),
            "{words:?}"
        );
    }

    #[test]
    fn show_timeline_filters_by_status_duration_code_and_proxy() {
        check("", true);
        check("status 504", true);
        check("status 5xx json", true);
        check("status 500-503", false);
        check("status 4xx", false);
        check("slower 5000", true);
        check("slower 5001", false);
        check("code sH", true);
        check("code .H", true);
        check("code sC", false);
        check("proxy web", true);
        check("proxy app status 504 slower 1000 code sHNN", true);
        check("proxy other", false);
        for wrong in ["status", "status x", "slower x", "statsu 5", "last x"] {
            let words: Vec<String> = wrong.split(' ').map(str::to_owned).collect();
            assert!(TimelineFilter::parse(&words).is_err(), "{wrong}");
        }
    }
}
