//! The three formats of a row: CSV, typed lines, JSON.

use std::io::Write;

use weir_formats::json::{Beyond, Escaping};

use crate::fields::{FIELD_COUNT, FIELDS, FIRST_EXTRA, StatsField};
use crate::row::{FieldValue, StatsRow};

/// The output format of statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One line per object (`show stat`), or `name: value` lines (`show info`).
    #[default]
    Csv,
    /// One line per field, with its tags and type.
    Typed,
    /// JSON without whitespace, in the schema of `show schema json`.
    Json,
}

/// Whether a field reveals internals. Shown only with `stats show-legends`, or from level operator on in the runtime API.
pub fn is_legend(field: StatsField) -> bool {
    matches!(field, StatsField::Addr | StatsField::Cookie | StatsField::Algo)
}

/// Writes the header line of CSV output.
pub fn write_csv_header(out: &mut Vec<u8>) {
    out.extend_from_slice(b"# ");
    for (position, row) in FIELDS.iter().enumerate() {
        if position == FIRST_EXTRA {
            out.extend_from_slice(b"-,");
        }
        out.extend_from_slice(row.name.as_bytes());
        out.push(b',');
    }
    out.push(b'\n');
}

/// Writes one object as a CSV line.
pub fn write_csv(row: &StatsRow, legends: bool, out: &mut Vec<u8>) {
    for position in 0..FIELD_COUNT {
        if position == FIRST_EXTRA {
            out.extend_from_slice(b"-,");
        }
        if legends || !is_legend(StatsField::ALL[position]) {
            match row.cells.value(position) {
                FieldValue::Text(text) => write_csv_text(text, out),
                other => write_number(other, out),
            }
        }
        out.push(b',');
    }
    out.push(b'\n');
}

/// Writes one object as typed lines, with descriptions if requested.
pub fn write_typed(row: &StatsRow, legends: bool, descriptions: bool, out: &mut Vec<u8>) {
    for (position, value) in shown(row, legends) {
        let decl = &FIELDS[position];
        let _ = write!(
            out,
            "{}.{}.{}.{position}.{}.1:{}:",
            row.kind().letter(),
            row.proxy_id(),
            row.object_id(),
            decl.name,
            decl.tags_on(row.kind())
        );
        write_type_and_value(value, out);
        if descriptions {
            let _ = write!(out, ":\"{}\"", decl.description);
        }
        out.push(b'\n');
    }
}

/// Writes one object as a JSON array of its fields.
pub fn write_json(row: &StatsRow, legends: bool, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, (position, value)) in shown(row, legends).enumerate() {
        let decl = &FIELDS[position];
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(
            out,
            "{separator}{{\"objType\":\"{}\",\"proxyId\":{},\"id\":{},\"field\":{{\"pos\":{position},\"name\":\"{}\"",
            row.kind().word(),
            row.proxy_id(),
            row.object_id(),
            decl.name
        );
        write_json_rest(decl.tags_on(row.kind()), value, out);
    }
    out.push(b']');
}

fn shown(row: &StatsRow, legends: bool) -> impl Iterator<Item = (usize, FieldValue<'_>)> {
    (0..FIELD_COUNT)
        .filter(move |&position| legends || !is_legend(StatsField::ALL[position]))
        .map(|position| (position, row.cells.value(position)))
        .filter(|(_, value)| *value != FieldValue::Empty)
}

/// Writes the rest of a JSON item, after the field object.
pub(crate) fn write_json_rest(tags: &str, value: FieldValue<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"},\"processNum\":1,");
    write_json_tags_and_value(tags, value, out);
}

/// Writes tags and value of a JSON item, and closes the item.
pub fn write_json_tags_and_value(tags: &str, value: FieldValue<'_>, out: &mut Vec<u8>) {
    let mut letters = tags.bytes();
    let origin = origin_word(letters.next());
    let nature = nature_word(letters.next());
    let scope = scope_word(letters.next());
    let _ = write!(
        out,
        "\"tags\":{{\"origin\":\"{origin}\",\"nature\":\"{nature}\",\"scope\":\"{scope}\"}},\
         \"value\":{{\"type\":\"{}\",\"value\":",
        type_word(value)
    );
    match value {
        FieldValue::Text(text) => JSON.write(text, out),
        FieldValue::Float(number) => write_float(number, out),
        other => write_number(other, out),
    }
    out.extend_from_slice(b"}}");
}

fn origin_word(letter: Option<u8>) -> &'static str {
    match letter {
        Some(b'M') => "Metric",
        Some(b'S') => "Status",
        Some(b'K') => "Key",
        Some(b'C') => "Config",
        Some(b'P') => "Product",
        _ => "Unknown",
    }
}

fn nature_word(letter: Option<u8>) -> &'static str {
    match letter {
        Some(b'A') => "Age",
        Some(b'a') => "Avg",
        Some(b'C') => "Counter",
        Some(b'D') => "Duration",
        Some(b'G') => "Gauge",
        Some(b'L') => "Limit",
        Some(b'M') => "Max",
        Some(b'm') => "Min",
        Some(b'N') => "Name",
        Some(b'O') => "Output",
        Some(b'R') => "Rate",
        Some(b'T') => "Time",
        _ => "Unknown",
    }
}

fn scope_word(letter: Option<u8>) -> &'static str {
    match letter {
        Some(b'C') => "Cluster",
        Some(b'P') => "Process",
        Some(b'S') => "Service",
        Some(b's') => "System",
        _ => "Unknown",
    }
}

fn type_word(value: FieldValue<'_>) -> &'static str {
    match value {
        FieldValue::U32(_) => "u32",
        FieldValue::S32(_) => "s32",
        FieldValue::U64(_) => "u64",
        FieldValue::Float(_) => "flt",
        FieldValue::Text(_) => "str",
        FieldValue::Empty => "",
    }
}

/// Writes a type and its value: `<type>:<value>`.
pub fn write_type_and_value(value: FieldValue<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(type_word(value).as_bytes());
    out.push(b':');
    match value {
        // A value must stay on one line, so line breaks are replaced by spaces.
        FieldValue::Text(text) => {
            out.extend(text.bytes().map(|byte| if byte == b'\n' || byte == b'\r' { b' ' } else { byte }));
        }
        other => write_number(other, out),
    }
}

/// Writes a number in decimal. Nothing for other values.
pub(crate) fn write_number(value: FieldValue<'_>, out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    let text = match value {
        FieldValue::U32(number) => digits.format(number),
        FieldValue::S32(number) => digits.format(number),
        FieldValue::U64(number) => digits.format(number),
        FieldValue::Float(number) => return write_float(number, out),
        FieldValue::Empty | FieldValue::Text(_) => return,
    };
    out.extend_from_slice(text.as_bytes());
}

/// Writes at most six decimals, without trailing zeros.
pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    let text = format!("{number:.6}");
    out.extend_from_slice(text.trim_end_matches('0').trim_end_matches('.').as_bytes());
}

/// Writes a string as in RFC 4180: quoted only if needed, with quotes doubled.
pub(crate) fn write_csv_text(text: &str, out: &mut Vec<u8>) {
    if !text.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// The JSON string escaping for statistics.
pub(crate) const JSON: Escaping = Escaping { short: "\n\r\t", is_uppercase: false, beyond: Beyond::Stay };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::StatsObject;
    use crate::row::ProxyHead;

    fn head() -> ProxyHead<'static> {
        ProxyHead {
            id: 3,
            name: "be",
            mode: "http",
            frontend: false,
            backend: true,
            has_servers: true,
            description: None,
        }
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_only_fields_with_special_characters() {
        for (text, expected) in
            [("a b", "a b"), ("x\"y", "\"x\"\"y\""), ("a,b", "\"a,b\""), ("a\nb", "\"a\nb\""), ("", "")]
        {
            assert_eq!(written(|out| write_csv_text(text, out)), expected);
        }
    }

    #[test]
    fn addresses_and_cookies_are_hidden_unless_legends_are_shown() {
        let mut row = StatsRow::default();
        row.begin(StatsObject::Server, &head(), 1, "s1");
        row.set(StatsField::Addr, "127.0.0.1:80");
        row.set(StatsField::Cookie, "secret");
        for (legends, seen) in [(true, true), (false, false)] {
            for text in [
                written(|out| write_csv(&row, legends, out)),
                written(|out| write_typed(&row, legends, false, out)),
                written(|out| write_json(&row, legends, out)),
            ] {
                assert_eq!(text.contains("127.0.0.1:80"), seen);
                assert_eq!(text.contains("secret"), seen);
            }
        }
    }

    #[test]
    fn json_escapes_control_characters_and_quotes() {
        assert_eq!(
            written(|out| JSON.write("a\"\\\n\r\t\u{1}\u{7f}é/", out)),
            "\"a\\\"\\\\\\n\\r\\t\\u0001\u{7f}é/\""
        );
    }

    #[test]
    fn floats_have_their_shortest_decimal_form() {
        for (number, expected) in [(0.0, "0"), (1.5, "1.5"), (1.520067, "1.520067"), (100.0, "100")] {
            assert_eq!(written(|out| write_float(number, out)), expected);
        }
    }
}
