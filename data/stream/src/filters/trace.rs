//! `filter trace`: writes stream events and data to standard error (manual, 9.1).
//!
//! The output matches HAProxy's as far as possible. Weir lacks analysers and channel flags, so their lines are missing and their
//! columns are zero. A blocked standard error does not delay streams: lines that do not fit are dropped.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_config::numbers::size_of;
use weir_config::proxy::{FilterContext, filter};
use weir_config::words::{Parsed, Words, fault};
use weir_fingerprint::Canonical;
use weir_model::{FilterArguments, FilterDirection};
use weir_mux::{Failed, Filter, FilterOutput, HeadContext, LengthChange, Message, More, Passed, Trailers};
use weir_sched::Tick;

use super::{FilterParts, Row, StreamFilter};
use crate::instance::Proxy;
use crate::stream::Stream;
use crate::stream::attached::Attachment;

pub(super) const ROWS: &[Row] = &[filter(
    "TRACE",
    "trace",
    "[name <n>] [quiet] [random-forwarding] [max-fwd <max>] [hexdump]",
    "name a hexdump",
    "write what passes to standard error",
    |context, words| read(context, words),
)];

/// Writes the filtered traffic to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub(super) struct TraceFilter {
    /// The filter's name in the output.
    pub name: Box<str>,
    /// `quiet`: no output.
    pub quiet: bool,
    /// `random-forwarding`: forwards a random part of the bytes at a time.
    pub random_forwarding: bool,
    /// `max-fwd`: forwards at most this many bytes at a time.
    pub max_forward: Option<u64>,
    /// `hexdump`: dumps the forwarded bytes.
    pub hexdump: bool,
}

fn read(context: &FilterContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Arc<dyn FilterArguments>> {
    let mut trace = TraceFilter {
        name: "TRACE".into(),
        quiet: false,
        random_forwarding: false,
        max_forward: None,
        hexdump: false,
    };
    while let Some(option) = words.take() {
        match option.text() {
            "name" => {
                let name = words.expect("'filter' : 'trace' : 'name' option without value")?;
                trace.name = name.text().into();
            }
            "quiet" => trace.quiet = true,
            "random-forwarding" => trace.random_forwarding = true,
            "hexdump" => trace.hexdump = true,
            "max-fwd" => {
                let word = words.expect("'filter' : 'trace' : 'max-fwd' option without value")?;
                let most = size_of(word, "max-fwd")?;
                if most == 0 {
                    return Err(fault(word.span(), "'filter' : 'trace' : 'max-fwd' has to be > 0"));
                }
                trace.max_forward = Some(most);
            }
            "random-parsing" => {
                let said = "'filter' : 'trace' : 'random-parsing' has no effect any more: there is only 'random-forwarding'";
                context.warn(words, option.span(), said);
            }
            other => {
                return Err(fault(option.span(), format!("'filter trace' : unknown keyword '{other}'.")));
            }
        }
    }
    Ok(trace.into_arguments())
}

impl StreamFilter for TraceFilter {
    fn attach(&self, stream: &Stream, proxy: &Proxy) -> FilterParts {
        let label = Label::new(self, proxy, stream.serial, stream.backend.has_begun());
        label.attached();
        let half = |direction| -> Option<Box<dyn Filter>> {
            Some(Box::new(Trace::new(label.clone(), direction, stream.speaks_http())))
        };
        FilterParts {
            request: half(FilterDirection::Request),
            response: half(FilterDirection::Response),
            attachment: Some(Box::new(label)),
        }
    }
}

/// The data for the prefix of all lines of one filter on one stream.
#[derive(Clone, Debug)]
struct Label {
    configured: TraceFilter,
    proxy: Box<str>,
    stream: u64,
    is_backend: bool,
}

impl Label {
    fn new(configured: &TraceFilter, proxy: &Proxy, stream: u64, is_backend: bool) -> Self {
        Label { configured: configured.clone(), proxy: proxy.name().into(), stream, is_backend }
    }

    fn kind(&self) -> &'static str {
        if self.is_backend { "backend" } else { "frontend" }
    }

    /// Reports that the filter was attached to the stream.
    fn attached(&self) {
        self.say(&format!("{:<25}: filter-type={}", "trace_attach", self.kind()));
        if !self.is_backend {
            self.say(&format!("{:<25}", "trace_stream_start"));
        }
    }

    /// Writes a line of this filter, unless `quiet`.
    fn say(&self, what: &str) {
        if !self.configured.quiet {
            let mut text = String::new();
            self.line(&mut text, what);
            write(&text);
        }
    }

    fn line(&self, text: &mut String, what: &str) {
        let wall = weir_sched::wall_us();
        let label = format!("{}/{}", self.configured.name, self.proxy);
        // Writing to memory does not fail.
        let _ = writeln!(
            text,
            "{}.{:06} [{label:<20}] [strm {:#x}({:x}) 0x00000000 0x00000000] {what}",
            wall / 1_000_000,
            wall % 1_000_000,
            self.stream,
            self.stream,
        );
    }
}

impl Attachment for Label {
    fn backend_chosen(&self, stream: &Stream) {
        self.say(&format!("{:<25}: backend={}", "trace_stream_set_backend", stream.backend.name()));
    }

    fn detached(&mut self) {
        if !self.is_backend {
            self.say(&format!("{:<25}", "trace_stream_stop"));
        }
        self.say(&format!("{:<25}: filter-type={}", "trace_detach", self.kind()));
    }
}

/// Writes to standard error without blocking.
fn write(text: &str) {
    weir_sys::standard_error::write(text.as_bytes(), 0);
}

/// The filter on one direction.
struct Trace {
    label: Label,
    direction: FilterDirection,
    http: bool,
    /// The state of `random-forwarding`.
    random: u64,
    out: fn(&str),
}

impl Trace {
    fn new(label: Label, direction: FilterDirection, http: bool) -> Self {
        let random = label.stream.wrapping_add(direction as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Trace { label, direction, http, random, out: write }
    }

    /// The start of an event's line.
    fn event(&self, name: &str) -> String {
        let channel = match self.direction {
            FilterDirection::Request => "REQUEST",
            FilterDirection::Response => "RESPONSE",
        };
        let mode = if self.http { "HTTP" } else { "TCP" };
        format!("{name:<25}: channel={channel:<10} - mode={mode:<5} (backend)")
    }

    /// A random number from 1 to `most`.
    fn up_to(&mut self, most: usize) -> usize {
        // Marsaglia's xorshift: the quality of the randomness does not matter.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random % most.max(1) as u64) as usize
    }

    fn is_quiet(&self) -> bool {
        self.label.configured.quiet
    }
}

impl Filter for Trace {
    fn head(&mut self, head: &mut Message, _: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        if self.is_quiet() {
            return Ok(LengthChange::None);
        }
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        let written = String::from_utf8_lossy(&bytes);
        let mut lines = written.lines();
        let mut text = String::new();
        let first = lines.next().unwrap_or_default();
        self.label.line(&mut text, &format!("{}\t{first}", self.event("trace_http_headers")));
        for field in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = field.split_once(':').unwrap_or((field, ""));
            self.label.line(&mut text, &format!("\t{}:{value}", name.to_ascii_lowercase()));
        }
        (self.out)(&text);
        Ok(LengthChange::None)
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        _: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        let most = self.label.configured.max_forward.unwrap_or(u64::MAX);
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
        let count = if self.label.configured.random_forwarding { self.up_to(most) } else { most };
        let name = if self.http { "trace_http_payload" } else { "trace_tcp_payload" };
        if !self.is_quiet() {
            let mut text = String::new();
            let what = format!("{} - offset=0 - len={} - forward={count}", self.event(name), bytes.len());
            self.label.line(&mut text, &what);
            if self.label.configured.hexdump {
                hexdump(&bytes[..count], &mut text);
            }
            (self.out)(&text);
        }
        let until = if count == bytes.len() { Tick::NEVER } else { now };
        Ok(Passed { count, replaced: false, until })
    }

    fn trailers(&mut self, trailers: &mut Trailers, _: Tick) {
        let mut text = String::new();
        for (name, value) in trailers.fields().filter(|_| !self.is_quiet()) {
            let [name, value] = [name, value].map(String::from_utf8_lossy);
            self.label.line(&mut text, &format!("\t{}: {value}", name.to_ascii_lowercase()));
        }
        if !text.is_empty() {
            (self.out)(&text);
        }
    }

    fn end(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        if self.http && !self.is_quiet() {
            let mut text = String::new();
            self.label.line(&mut text, &self.event("trace_http_end"));
            (self.out)(&text);
        }
        Ok(true)
    }
}

/// Writes 16 bytes per line, in hexadecimal and as text.
fn hexdump(bytes: &[u8], text: &mut String) {
    for (row, bytes) in bytes.chunks(16).enumerate() {
        let halves = bytes.chunks(8).map(|half| half.iter().map(|byte| format!("{byte:02x} ")).collect());
        let numbers = halves.collect::<Vec<String>>().join("  ");
        let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte as char } else { '.' };
        let characters: String = bytes.iter().map(shown).collect();
        // Writing to memory does not fail.
        let _ = writeln!(text, "\t{:#08x}: {numbers:<50}  |{characters}|", row * 16);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static SAID: RefCell<String> = const { RefCell::new(String::new()) };
    }

    fn filter(change: impl FnOnce(&mut TraceFilter), http: bool) -> Trace {
        let mut configured = TraceFilter {
            name: "A".into(),
            quiet: false,
            random_forwarding: false,
            max_forward: None,
            hexdump: false,
        };
        change(&mut configured);
        let label = Label { configured, proxy: "f".into(), stream: 0x2a, is_backend: false };
        let mut trace = Trace::new(label, FilterDirection::Response, http);
        trace.out = |text| SAID.with_borrow_mut(|said| said.push_str(text));
        trace
    }

    /// The lines written since the last call, without timestamps.
    fn said() -> Vec<String> {
        let text = SAID.take();
        let untimed = |line: &str| match line.split_once(" [A/f                 ] ") {
            Some((time, rest)) if !line.starts_with('\t') => {
                assert!(time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{line}");
                rest.to_owned()
            }
            _ => line.to_owned(),
        };
        text.lines().map(untimed).collect()
    }

    fn pass(trace: &mut Trace, bytes: &[u8]) -> Passed {
        let out = &mut Vec::new();
        let passed = trace.payload(bytes, More::Comes, Tick::from_ms(7), &mut FilterOutput::new(out, 0));
        passed.expect("it never fails")
    }

    fn end(trace: &mut Trace) {
        assert_eq!(trace.end(Tick::from_ms(7), &mut FilterOutput::new(&mut Vec::new(), 0)), Ok(true));
    }

    #[test]
    fn the_trace_filter_prints_haproxys_lines() {
        let mut trace = filter(|trace| trace.hexdump = true, true);
        assert_eq!(pass(&mut trace, b"abcdefghijklmnopqrstu"), Passed::all(&[0; 21]));
        end(&mut trace);
        let prefix = "[strm 0x2a(2a) 0x00000000 0x00000000]";
        let want = [
            format!(
                "{prefix} trace_http_payload       : channel=RESPONSE   - mode=HTTP  (backend) - offset=0 - len=21 - forward=21"
            ),
            "\t0x000000: 61 62 63 64 65 66 67 68   69 6a 6b 6c 6d 6e 6f 70   |abcdefghijklmnop|".into(),
            "\t0x000010: 71 72 73 74 75                                      |qrstu|".into(),
            format!("{prefix} trace_http_end           : channel=RESPONSE   - mode=HTTP  (backend)"),
        ];
        assert_eq!(said(), want);
        let mut trace = filter(|_| {}, false);
        pass(&mut trace, b"abc");
        end(&mut trace);
        let want = "trace_tcp_payload        : channel=RESPONSE   - mode=TCP   (backend) - offset=0 - len=3 - forward=3";
        assert_eq!(said(), [format!("{prefix} {want}")]);
    }

    #[test]
    fn the_trace_filter_prints_field_names_in_lower_case() {
        let mut trace = filter(|_| {}, true);
        let mut message = Message::new(100);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: B:c\r\n\r\n";
        assert!(message.read_kept(weir_http::Kind::Response, head).is_some());
        let context =
            HeadContext { request: None, length: Some(3), is_delimited: true, now: Tick::from_ms(7) };
        assert_eq!(trace.head(&mut message, &context), Ok(LengthChange::None));
        let prefix = "[strm 0x2a(2a) 0x00000000 0x00000000] ";
        let lines = said();
        let traced: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(prefix)).collect();
        let want = "trace_http_headers       : channel=RESPONSE   - mode=HTTP  (backend)\tHTTP/1.1 200 OK";
        assert_eq!(traced, [want, "\tcontent-length: 3", "\tx-a: B:c"]);
    }

    #[test]
    fn a_quiet_trace_filter_prints_nothing() {
        let mut trace = filter(|trace| (trace.quiet, trace.hexdump) = (true, true), true);
        pass(&mut trace, b"abc");
        end(&mut trace);
        trace.label.attached();
        assert!(said().is_empty());
    }

    #[test]
    fn max_fwd_limits_the_bytes_passed_by_one_call() {
        let mut trace = filter(|trace| (trace.quiet, trace.max_forward) = (true, Some(3)), true);
        let part = Passed { count: 3, replaced: false, until: Tick::from_ms(7) };
        assert_eq!(pass(&mut trace, b"abcdef"), part);
        assert_eq!(pass(&mut trace, b"ab"), Passed::all(b"ab"));
        let mut trace = filter(|trace| (trace.quiet, trace.random_forwarding) = (true, true), true);
        let counts: Vec<_> = (0..1000).map(|_| pass(&mut trace, &[0; 10]).count).collect();
        for count in 1..=10 {
            assert!(counts.contains(&count), "{count}");
        }
        assert!(counts.iter().all(|count| (1..=10).contains(count)));
    }
}
