//! How values are written into a log or a header: quotes, escapes, hexadecimal.

use std::io::Write as _;
use std::net::IpAddr;

use super::FormatOptions;
use crate::error::show;
use crate::sample::Value;
use crate::scratch;

/// The flags of an item (`%{+Q}`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FormatFlags(u8);

impl FormatFlags {
    /// No flag.
    pub const NONE: FormatFlags = FormatFlags(0);
    /// `Q`: between double quotes.
    pub const QUOTE: FormatFlags = FormatFlags(1);
    /// `X`: addresses, ports and some numbers in hexadecimal.
    pub const HEX: FormatFlags = FormatFlags(2);
    /// `E`: a backslash before `"`, `\` and `]`.
    pub const ESCAPE: FormatFlags = FormatFlags(4);
    /// `bin`: binaries as they are.
    pub const BINARY: FormatFlags = FormatFlags(8);
    /// `json`: named items as a JSON object.
    pub const JSON: FormatFlags = FormatFlags(16);

    /// True if every flag of `other` is set here.
    pub const fn has(self, other: FormatFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// With one flag added (`+Q`, `Q`) or removed (`-Q`).
    pub(super) fn changed_by(self, text: &[u8]) -> Result<FormatFlags, String> {
        let (add, name) = match text {
            [b'+', name @ ..] => (true, name),
            [b'-', name @ ..] => (false, name),
            name => (true, name),
        };
        let flag = match name {
            b"Q" => FormatFlags::QUOTE,
            b"X" => FormatFlags::HEX,
            b"E" => FormatFlags::ESCAPE,
            b"bin" => FormatFlags::BINARY,
            b"json" | b"cbor" => {
                return Err(format!("log encoding '{}' is not implemented yet", show(name)));
            }
            _ => {
                return Err(format!(
                    "unknown format flag '{}' (expects Q, X, E, bin, json or cbor)",
                    show(name)
                ));
            }
        };
        Ok(FormatFlags(if add { self.0 | flag.0 } else { self.0 & !flag.0 }))
    }
}

/// Writes one value of a format.
#[derive(Debug)]
pub struct LogWriter<'o> {
    out: &'o mut Vec<u8>,
    flags: FormatFlags,
    options: FormatOptions,
}

impl<'o> LogWriter<'o> {
    /// A writer that appends to `out`.
    pub fn new(out: &'o mut Vec<u8>, flags: FormatFlags, options: FormatOptions) -> Self {
        LogWriter { out, flags, options }
    }

    /// The flags of the item.
    pub fn flags(&self) -> FormatFlags {
        self.flags
    }

    /// Text, quoted and escaped as the flags say.
    pub fn text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return self.missing();
        }
        self.quoted(|writer| writer.escaped(text));
    }

    /// Text that comes from the network: bytes that are not printable, and `"` and `#`, become `#` and two
    /// hexadecimal digits (manual, 8.6).
    pub fn encoded(&mut self, text: &[u8]) {
        if text.is_empty() {
            return self.missing();
        }
        self.quoted(|writer| writer.encode(text, b"\"#"));
    }

    /// Captured headers: between braces, separated by bars; a missing one is empty.
    pub fn headers<'h>(&mut self, headers: impl Iterator<Item = Option<&'h [u8]>>) {
        let mut any = false;
        self.out.extend_from_slice(if self.flags.has(FormatFlags::QUOTE) { b"\"{" } else { b"{" });
        for header in headers {
            if any {
                self.out.push(b'|');
            }
            any = true;
            self.encode(header.unwrap_or_default(), b"\"#{|}");
        }
        self.out.extend_from_slice(if self.flags.has(FormatFlags::QUOTE) { b"}\"" } else { b"}" });
    }

    /// A number.
    pub fn number(&mut self, value: i64) {
        self.quoted(|writer| {
            let _ = write!(writer.out, "{value}");
        });
    }

    /// A number that shows as eight hexadecimal digits under `+X` (timestamp, request counter, pid).
    pub fn counter(&mut self, value: i64) {
        let hex = self.flags.has(FormatFlags::HEX);
        self.quoted(|writer| {
            let _ = match hex {
                true => write!(writer.out, "{:04X}", value),
                false => write!(writer.out, "{value}"),
            };
        });
    }

    /// An address, or nothing known about one.
    pub fn address(&mut self, address: Option<IpAddr>) {
        let Some(address) = address else { return self.missing() };
        let hex = self.flags.has(FormatFlags::HEX);
        self.quoted(|writer| {
            let _ = match (hex, address) {
                (true, IpAddr::V4(address)) => write!(writer.out, "{:08X}", u32::from(address)),
                (true, IpAddr::V6(address)) => write!(writer.out, "{:032X}", u128::from(address)),
                (false, address) => write!(writer.out, "{address}"),
            };
        });
    }

    /// A port, four hexadecimal digits under `+X`.
    pub fn port(&mut self, port: Option<u16>) {
        let Some(port) = port else { return self.missing() };
        self.counter(port.into());
    }

    /// Bytes exactly as they are, without quotes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// There is no value.
    pub fn missing(&mut self) {
        let text: &[u8] = if self.options.show_missing { b"-" } else { b"" };
        self.quoted(|writer| writer.out.extend_from_slice(text));
    }

    /// The value of a sample, as text.
    pub(super) fn value(&mut self, value: Value<'_>) {
        let Some(value) = value.cast(crate::sample::SampleType::Str) else { return self.missing() };
        match value.bytes() {
            Some(bytes) => self.text(bytes),
            None => self.missing(),
        }
        scratch::recycle(value);
    }

    fn quoted(&mut self, write: impl FnOnce(&mut Self)) {
        let quote = self.flags.has(FormatFlags::QUOTE);
        if quote {
            self.out.push(b'"');
        }
        write(self);
        if quote {
            self.out.push(b'"');
        }
    }

    fn escaped(&mut self, text: &[u8]) {
        if !self.flags.has(FormatFlags::ESCAPE) {
            return self.out.extend_from_slice(text);
        }
        for byte in text {
            if b"\"\\]".contains(byte) {
                self.out.push(b'\\');
            }
            self.out.push(*byte);
        }
    }

    fn encode(&mut self, text: &[u8], also: &[u8]) {
        for byte in text {
            if (0x20..0x7f).contains(byte) && !also.contains(byte) {
                self.out.push(*byte);
            } else {
                let _ = write!(self.out, "#{byte:02X}");
            }
        }
    }
}
