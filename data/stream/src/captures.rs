//! Captures for the log: headers and cookies, the request line, the unique identifier.

use weir_expr::context::CaptureSide;
use weir_http::Head;
use weir_model::{CaptureSlot, CookieCapture};

use crate::stream::captures::CapturedValues;
use crate::stream::phases::StreamLog;

impl StreamLog {
    /// Captures the frontend's configured headers of the request, before rules change them.
    pub(crate) fn capture_request(&mut self) {
        self.keep_request_line();
        self.stream.trace().trace_request();
        let config = &self.stream.frontend.config;
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        capture_headers(&config.captures.request, head, raw, &mut self.stream.captures, CaptureSide::Request);
    }

    /// Captures the request's cookie (`capture cookie`). As in HAProxy this runs later than the capture of headers: after the edits of the
    /// rules that pass or deny the request. If a rule answers or redirects the request, its cookie is not captured.
    pub(crate) fn capture_request_cookie(&mut self) {
        let Some(cookie) = &self.stream.frontend.config.captures.cookie else { return };
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let pairs = head.values(raw, b"cookie").flat_map(|value| value.split(|byte| *byte == b';'));
        self.stream.captures.keep_cookie(CaptureSide::Request, capture_cookie(cookie, pairs));
    }

    /// Captures headers and cookies of the response as the frontend configures.
    pub(crate) fn capture_response(&mut self) {
        self.stream.trace().trace_response();
        let config = &self.stream.frontend.config;
        let (head, raw) = (&self.stream.response.message.head, self.stream.response.message.bytes());
        capture_headers(
            &config.captures.response,
            head,
            raw,
            &mut self.stream.captures,
            CaptureSide::Response,
        );
        if let Some(cookie) = &config.captures.cookie {
            let lines = head.lines(raw, b"set-cookie");
            let pairs = lines.filter_map(|value| value.split(|byte| *byte == b';').next());
            self.stream.captures.keep_cookie(CaptureSide::Response, capture_cookie(cookie, pairs));
        }
    }

    /// Keeps a copy of the request line if a log format uses it.
    fn keep_request_line(&self) {
        if self.stream.frontend.log_sinks.is_empty() && !self.stream.frontend.uses_request_line {
            return;
        }
        self.stream.entry.keep_request_line(|line| self.write_request_line(line));
    }

    /// Appends the current request line.
    pub(crate) fn write_request_line(&self, line: &mut Vec<u8>) {
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let (method, uri, version) = (head.method_text(raw), head.uri(raw), head.version().wire());
        // Reserves little: a stream may hold the line for long, and the next line on this entry is rarely much longer.
        let length = method.len() + uri.len() + version.len() + 2;
        line.reserve_exact(length.next_multiple_of(LINE_STEP));
        for part in [method, b" ", uri, b" ", &version] {
            line.extend_from_slice(part);
        }
    }

    /// Stores a value in a capture slot. Returns false if the slot does not exist.
    pub(crate) fn store_capture(&mut self, side: CaptureSide, slot: usize, value: &[u8]) -> bool {
        let declared = &self.stream.frontend.config.captures;
        let declared = match side {
            CaptureSide::Request => &declared.request,
            CaptureSide::Response => &declared.response,
        };
        let Some(declaration) = declared.get(slot) else { return false };
        self.stream.captures.slots_mut(side, declared.len())[slot] =
            Some(value[..value.len().min(declaration.length_max as usize)].into());
        true
    }

    /// The unique ID. The first use generates it, and all later uses see the same value. So only rules that run before the first use affect
    /// it. `None` without `unique-id-format`.
    pub(crate) fn unique_id(&mut self) -> Option<&[u8]> {
        self.stream.frontend.config.settings.unique_id_format.as_ref()?;
        if self.stream.captures.unique_id().is_none() {
            // Prevents recursion: a format that reads `unique-id` sees this empty value.
            self.stream.captures.keep_unique_id(b"");
            let frontend = self.stream.frontend.clone();
            let id = self.stream.format(frontend.config.settings.unique_id_format.as_ref()?);
            self.stream.captures.keep_unique_id(&id);
        }
        self.stream.captures.unique_id()
    }
}

/// Granularity of the memory for a request line, in bytes.
const LINE_STEP: usize = 64;

fn capture_headers(
    slots: &[CaptureSlot],
    head: &Head,
    raw: &[u8],
    captures: &mut CapturedValues,
    side: CaptureSide,
) {
    if slots.is_empty() {
        return;
    }
    for (slot, kept) in slots.iter().zip(captures.slots_mut(side, slots.len())) {
        let Some(name) = &slot.header else { continue };
        // The last field counts (manual, "capture request header").
        if let Some(value) = head.find_line(raw, name.as_bytes(), -1) {
            *kept = Some(value[..value.len().min(slot.length_max as usize)].into());
        }
    }
}

fn capture_cookie<'a>(capture: &CookieCapture, pairs: impl Iterator<Item = &'a [u8]>) -> Option<Box<[u8]>> {
    let name = capture.name.as_bytes();
    let mut pairs = pairs.map(<[u8]>::trim_ascii_start);
    let found = pairs
        .find(|pair| pair.starts_with(name) && (capture.prefix || pair.get(name.len()) == Some(&b'=')))?;
    Some(found[..found.len().min(capture.length_max as usize)].into())
}
