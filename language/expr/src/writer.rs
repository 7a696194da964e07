//! Writes values into a log or a header: quotes, escapes, hexadecimal digits.

pub(crate) mod encode;

use std::io::Write as _;
use std::net::IpAddr;

use weir_fingerprint::Canonical;

use self::encode::Encoding;
use crate::sample::cast::Ipv6Text;
use crate::sample::{SampleType, Value};
use crate::scratch;

/// The flags of an item (`%{+Q}`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Canonical)]
pub struct FormatFlags(u8);

impl FormatFlags {
    /// No flag.
    pub const NONE: FormatFlags = FormatFlags(0);
    /// `Q`: text and addresses in double quotes.
    pub const QUOTE: FormatFlags = FormatFlags(1);
    /// `X`: addresses, ports and some numbers in hexadecimal.
    pub const HEX: FormatFlags = FormatFlags(2);
    /// `E`: a backslash before `"`, `\` and `]`.
    pub const ESCAPE: FormatFlags = FormatFlags(4);
    /// `bin`: binary samples verbatim, and CBOR as bytes rather than as hexadecimal digits.
    pub const BINARY: FormatFlags = FormatFlags(8);
    /// `json`: values as JSON.
    pub const JSON: FormatFlags = FormatFlags(16);
    /// `cbor`: values as CBOR.
    pub const CBOR: FormatFlags = FormatFlags(32);
    /// `utf8`: JSON keeps characters beyond ASCII.
    pub const UTF8: FormatFlags = FormatFlags(64);

    const NAMES: [(&'static [u8], FormatFlags); 7] = [
        (b"Q", Self::QUOTE),
        (b"X", Self::HEX),
        (b"E", Self::ESCAPE),
        (b"bin", Self::BINARY),
        (b"json", Self::JSON),
        (b"cbor", Self::CBOR),
        (b"utf8", Self::UTF8),
    ];

    /// True if every flag of `other` is set here.
    pub const fn has(self, other: FormatFlags) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn named(name: &[u8]) -> Option<FormatFlags> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag)
    }

    /// With a flag added or removed.
    pub(crate) const fn with(self, flag: FormatFlags, add: bool) -> FormatFlags {
        FormatFlags(if add { self.0 | flag.0 } else { self.0 & !flag.0 })
    }
}

/// Writes the values of a format.
#[derive(Debug)]
pub struct LogWriter<'o> {
    out: &'o mut Vec<u8>,
    flags: FormatFlags,
    options: FormatOptions,
    /// The encoding of lists. None for text.
    encoding: Option<Encoding>,
}

impl<'o> LogWriter<'o> {
    /// A writer that appends to `out`.
    pub fn new(out: &'o mut Vec<u8>, flags: FormatFlags, options: FormatOptions) -> Self {
        LogWriter { out, flags, options, encoding: None }
    }

    /// A writer that appends an encoded list to `out`.
    pub(crate) fn encoding(out: &'o mut Vec<u8>, encoding: Encoding) -> Self {
        LogWriter { encoding: Some(encoding), ..LogWriter::new(out, FormatFlags::NONE, FormatOptions::PLAIN) }
    }

    /// The flags of the item.
    pub fn flags(&self) -> FormatFlags {
        self.flags
    }

    /// Writes trusted text, quoted and escaped as the flags require. Empty text is a missing value.
    pub fn text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return self.missing();
        }
        self.quoted(|writer| writer.escaped(text));
    }

    /// Writes text from the network: unprintable bytes, `"` and `#` become `#` and two hexadecimal digits (manual, 8.6).
    pub fn encoded(&mut self, text: &[u8]) {
        if text.is_empty() {
            return self.missing();
        }
        self.quoted(|writer| writer.encode(text, b"\"#"));
    }

    /// Writes captured headers between braces, separated by bars (`%hr`, `%hs`). `None` is a missing header. Writes nothing without declared
    /// captures.
    pub fn headers<'h>(&mut self, headers: impl Iterator<Item = Option<&'h [u8]>>) {
        let mut headers = headers.peekable();
        if headers.peek().is_none() {
            return;
        }
        self.quoted(|writer| {
            for (index, header) in headers.enumerate() {
                writer.out.push(if index == 0 { b'{' } else { b'|' });
                writer.encode(header.unwrap_or_default(), HEADER_MARKS);
            }
            writer.out.push(b'}');
        });
    }

    /// Writes captured headers one by one, separated by spaces (`%hrl`, `%hsl`).
    pub fn header_list<'h>(&mut self, headers: impl Iterator<Item = Option<&'h [u8]>>) {
        if let Some(encoding) = self.encoding {
            return encoding.list(headers.map(Option::unwrap_or_default), self.out);
        }
        for (index, header) in headers.enumerate() {
            if index > 0 {
                self.out.push(b' ');
            }
            match header.unwrap_or_default() {
                b"" => self.missing(),
                header => self.quoted(|writer| writer.encode(header, HEADER_MARKS)),
            }
        }
    }

    /// Writes a number or a missing value. Numbers are never quoted.
    pub fn number(&mut self, value: impl Into<Option<i64>>) {
        match value.into() {
            Some(value) => self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            None => self.missing(),
        }
    }

    /// Writes a number that `+X` shows as at least four hexadecimal digits (timestamp, counter, pid, port).
    pub fn counter(&mut self, value: impl Into<Option<i64>>) {
        match value.into() {
            Some(value) if self.flags.has(FormatFlags::HEX) => {
                let _ = write!(self.out, "{value:04X}");
            }
            value => self.number(value),
        }
    }

    /// Writes an address or a missing value.
    pub fn address(&mut self, address: Option<IpAddr>) {
        let Some(address) = address else { return self.missing() };
        if self.flags.has(FormatFlags::HEX) {
            let _ = match address {
                IpAddr::V4(address) => write!(self.out, "{:08X}", u32::from(address)),
                IpAddr::V6(address) => write!(self.out, "{:032X}", u128::from(address)),
            };
            return;
        }
        self.quoted(|writer| match address {
            IpAddr::V4(address) => {
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        writer.out.push(b'.');
                    }
                    writer.out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
                }
            }
            IpAddr::V6(address) => {
                let _ = write!(writer.out, "{}", Ipv6Text(address));
            }
        });
    }

    /// Writes a port or a missing value.
    pub fn port(&mut self, port: Option<u16>) {
        self.counter(port.map(i64::from));
    }

    /// Writes the milliseconds of a second: three decimal digits, or at least two hexadecimal digits.
    pub fn milliseconds(&mut self, millis: u32) {
        let _ = match self.flags.has(FormatFlags::HEX) {
            true => write!(self.out, "{millis:02X}"),
            false => write!(self.out, "{millis:03}"),
        };
    }

    /// Writes bytes verbatim, without quotes: dates, states, formatted text.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes bytes verbatim, quoted if the flags require it, even if empty.
    pub fn quoted_raw(&mut self, bytes: &[u8]) {
        self.quoted(|writer| writer.out.extend_from_slice(bytes));
    }

    /// Writes a missing value: a dash in logs, or two quotes with [`FormatFlags::QUOTE`].
    pub fn missing(&mut self) {
        if self.flags.has(FormatFlags::QUOTE) {
            self.out.extend_from_slice(b"\"\"");
        } else if self.options.show_missing {
            self.out.push(b'-');
        }
    }

    /// Writes the value of a sample as text.
    pub(crate) fn value(&mut self, value: Value<'_>) {
        if let (Value::Bin(bytes), true) = (&value, self.flags.has(FormatFlags::BINARY)) {
            self.out.extend_from_slice(bytes);
            return scratch::recycle(value);
        }
        let Some(value) = value.cast(SampleType::Str) else { return self.no_value() };
        match value.bytes() {
            Some(bytes) if self.options.body => self.quoted(|writer| writer.escaped(bytes)),
            // Values in headers are never quoted.
            Some(bytes) if self.options.http => self.percent_encoded(bytes),
            Some(bytes) if !bytes.is_empty() => self.quoted(|writer| writer.printable(bytes)),
            _ => self.missing(),
        }
        scratch::recycle(value);
    }

    /// Writes a missing sample.
    pub(crate) fn no_value(&mut self) {
        if self.options.body || !self.options.http {
            self.missing();
        }
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
            self.escaped_byte(*byte);
        }
    }

    fn escaped_byte(&mut self, byte: u8) {
        if self.flags.has(FormatFlags::ESCAPE) && b"\"\\]".contains(&byte) {
            self.out.push(b'\\');
        }
        self.out.push(byte);
    }

    /// Replaces control characters in logs, so that none can begin a new line. Other formats are not changed.
    fn printable(&mut self, text: &[u8]) {
        if !self.options.show_missing || !text.iter().any(u8::is_ascii_control) {
            return self.escaped(text);
        }
        for byte in text {
            match byte.is_ascii_control() {
                true => {
                    let _ = write!(self.out, "#{byte:02X}");
                }
                false => self.escaped_byte(*byte),
            }
        }
    }

    /// Replaces control characters except the tab by `%` and two hexadecimal digits: they would break a header.
    fn percent_encoded(&mut self, text: &[u8]) {
        for byte in text {
            match byte.is_ascii_control() && *byte != b'\t' {
                true => {
                    let _ = write!(self.out, "%{byte:02X}");
                }
                false => self.escaped_byte(*byte),
            }
        }
    }

    fn encode(&mut self, text: &[u8], also: &[u8]) {
        for byte in text {
            if (0x20..0x7f).contains(byte) && !also.contains(byte) {
                self.escaped_byte(*byte);
            } else {
                let _ = write!(self.out, "#{byte:02X}");
            }
        }
    }
}

/// Characters to encode in captured headers besides unprintable ones, including the separators.
const HEADER_MARKS: &[u8] = b"\"#{|}";

/// Options of a format by its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Canonical)]
pub struct FormatOptions {
    /// Show a missing value as `-`.
    pub show_missing: bool,
    /// Merge several spaces of the format into one.
    pub merge_spaces: bool,
    /// Percent-encode characters that would break an HTTP header or URI.
    pub http: bool,
    /// The text is a body: values of expressions may be quoted, and keep their control characters.
    pub body: bool,
}

impl FormatOptions {
    /// For any other use: variables, names.
    pub const PLAIN: FormatOptions =
        FormatOptions { show_missing: false, merge_spaces: false, http: false, body: false };
    /// `log-format` and similar.
    pub const LOG: FormatOptions =
        FormatOptions { show_missing: true, merge_spaces: true, ..FormatOptions::PLAIN };
    /// Values of headers, paths and locations.
    pub const HTTP: FormatOptions = FormatOptions { http: true, ..FormatOptions::PLAIN };
    /// Bodies.
    pub const BODY: FormatOptions = FormatOptions { body: true, ..FormatOptions::HTTP };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_written_like_the_standard_library() {
        let mut out = Vec::new();
        let mut writer = LogWriter::new(&mut out, FormatFlags::NONE, FormatOptions::default());
        let numbers = [0, 7, 10, -1, 65_535, i64::MAX, i64::MIN];
        let addresses = ["0.0.0.0", "192.0.2.10", "255.255.255.255", "2001:db8::1"];
        let mut expected = String::new();
        for number in numbers {
            writer.number(number);
            writer.raw(b" ");
            expected += &format!("{number} ");
        }
        for address in addresses {
            writer.address(address.parse().ok());
            writer.raw(b" ");
            expected += &format!("{address} ");
        }
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
