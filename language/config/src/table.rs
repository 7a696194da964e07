//! The line of a stick-table: `stick-table` in proxies, `table` in `peers` sections (manual, 11.1).

use weir_expr::table::{DataKind, DataType, Declaration, KeyType, ServerKeyKind, Stored};
use weir_syntax::{Diagnostic, Line, Word};

use crate::numbers::{delay_of, integer_in};
use crate::words::{Parsed, Words, fault};
use weir_model::{Location, StickTable};

/// Reads all words after the table's name. `keyword` is the first word of the line.
pub(crate) fn read_table(
    words: &mut Words<'_>,
    name: &str,
    at: &Location,
    keyword: &str,
    may_name_peers: bool,
) -> Parsed<StickTable> {
    let mut line = TableLine { keyword, key: None, size: None };
    let mut table = StickTable {
        declaration: Declaration {
            name: name.into(),
            key: KeyType::Ipv4,
            size: 0,
            expire_ms: 0,
            no_purge: false,
            bytes_rate_factor: 1,
            server_key: ServerKeyKind::default(),
            stored: Vec::new(),
        },
        at: at.clone(),
        receive_only: false,
        aggregate: false,
        write_to: None,
        peers: None,
    };
    while let Some(word) = words.take() {
        let declaration = &mut table.declaration;
        match word.text() {
            "type" => line.key = Some(line.read_type(words)?),
            "size" => line.size = Some(line.read_size(words)?),
            "expire" => {
                let word = line.argument(words, "expire")?;
                let delay = delay_of(words, word, "expire")?;
                // Delays in the configuration never exceed this limit.
                declaration.expire_ms = u32::try_from(delay.as_millis()).unwrap_or(MAX_EXPIRE_MS);
            }
            "brates-factor" => {
                let word = line.argument(words, "brates-factor")?;
                declaration.bytes_rate_factor = integer_in(word, "brates-factor", 1..=1024)?;
            }
            // An extension of weir: instances of HAProxy overwrite each other's counts.
            "aggregate" => table.aggregate = true,
            "nopurge" => declaration.no_purge = true,
            "recv-only" => table.receive_only = true,
            "write-to" => table.write_to = Some(line.argument(words, "write-to")?.text().into()),
            "peers" if may_name_peers => table.peers = Some(line.argument(words, "peers")?.text().into()),
            "srvkey" => {
                let word = line.argument(words, "srvkey")?;
                declaration.server_key = match word.text() {
                    "name" => ServerKeyKind::Name,
                    "addr" => ServerKeyKind::Address,
                    _ => {
                        let said = format!("{keyword}: 'srvkey' is either 'name' or 'addr', not '{word}'.");
                        return Err(fault(word.span(), said));
                    }
                };
            }
            "store" => {
                // At the end of the line the list is empty.
                if let Some(list) = words.take() {
                    line.read_stored(words.line(), list, &mut declaration.stored)?;
                }
            }
            _ => return Err(fault(word.span(), format!("{keyword}: unknown argument '{word}'."))),
        }
    }
    let missing = |what: &str| words.fault(format!("{keyword}: missing {what}."));
    table.declaration.key = line.key.ok_or_else(|| missing("type"))?;
    table.declaration.size = line.size.ok_or_else(|| missing("size"))?;
    line.check_stored(words, &table.declaration.stored)?;
    if table.aggregate && !table.declaration.stored.iter().any(|stored| stored.data.is_sum()) {
        return Err(words.fault(format!("{keyword}: 'aggregate' needs a count or a rate in 'store'.")));
    }
    if table.aggregate && table.receive_only {
        return Err(words.fault(format!("{keyword}: 'aggregate' and 'recv-only' exclude each other.")));
    }
    Ok(table)
}

/// The longest expiry in milliseconds: timers wrap after it.
const MAX_EXPIRE_MS: u32 = i32::MAX as u32;
/// The longest period in milliseconds.
const MAX_PERIOD_MS: u32 = i32::MAX as u32;
/// The longest declared string key in bytes. Only [`KeyType::MAX_STORED`] bytes are stored.
const MAX_TEXT: u32 = i32::MAX as u32;
/// The default length of strings and binary keys in bytes.
const DEFAULT_KEY: u32 = 32;

struct TableLine<'k> {
    keyword: &'k str,
    key: Option<KeyType>,
    size: Option<u32>,
}

impl TableLine<'_> {
    fn argument<'l>(&self, words: &mut Words<'l>, of: &str) -> Parsed<&'l Word> {
        words.expect(&format!("{}: missing argument after '{of}'.", self.keyword))
    }

    fn read_type(&self, words: &mut Words<'_>) -> Parsed<KeyType> {
        let word = self.argument(words, "type")?;
        Ok(match word.text() {
            // `ip` means IPv4 in 3.5 (manual, 11.1).
            "ip" | "ipv4" => KeyType::Ipv4,
            "ipv6" => KeyType::Ipv6,
            "integer" => KeyType::Integer,
            "string" => KeyType::Text(self.read_length(words, MAX_TEXT)?),
            // Shorter keys are padded to this length, so each entry stores all of it.
            "binary" => KeyType::Binary(self.read_length(words, KeyType::MAX_STORED)?),
            _ => {
                let said = format!(
                    "{}: unknown type '{word}': it is one of 'ip', 'ipv4', 'ipv6', 'integer', 'string', 'binary'.",
                    self.keyword
                );
                return Err(fault(word.span(), said));
            }
        })
    }

    fn read_length(&self, words: &mut Words<'_>, longest: u32) -> Parsed<u32> {
        if !words.take_if("len") {
            return Ok(DEFAULT_KEY);
        }
        integer_in(self.argument(words, "len")?, "len", 1..=longest)
    }

    /// A number with a suffix for 2^10, 2^20 or 2^30.
    fn read_size(&self, words: &mut Words<'_>) -> Parsed<u32> {
        let word = self.argument(words, "size")?;
        let size = weir_syntax::units::parse_size(word.text())
            .map_err(|error| fault(word.span(), error.describe("size", word.text())))?;
        u32::try_from(size).ok().filter(|size| *size > 0).ok_or_else(|| {
            let said = format!("{}: 'size' is between 1 and {}, not '{word}'.", self.keyword, u32::MAX);
            fault(word.span(), said)
        })
    }

    /// A comma-separated list of types. Some have arguments in parentheses.
    fn read_stored(&self, line: &Line, list: &Word, stored: &mut Vec<Stored>) -> Parsed {
        let text = list.text();
        let mut start = 0;
        while start < text.len() {
            let rest = &text[start..];
            let name_end = rest.find([',', '(']).unwrap_or(rest.len());
            let (arguments, length) = match rest[name_end..].starts_with('(') {
                false => (None, name_end),
                true => {
                    let close = rest[name_end..].find(')').map(|at| name_end + at);
                    let close = close.ok_or_else(|| {
                        fault(list.span_of(start..text.len()), format!("{}: missing ')'.", self.keyword))
                    })?;
                    (Some(&rest[name_end + 1..close]), close + 1)
                }
            };
            let here = list.span_of(start..start + length);
            let name = match &rest[..name_end] {
                // Not in the manual, but releases accept it.
                "server_name" => DataType::ServerKey.name(),
                name => name,
            };
            let data = DataType::from_name(name).ok_or_else(|| {
                let nearest = weir_syntax::did_you_mean(name, DataType::ALL.iter().map(|data| data.name()));
                let said = format!("{}: unknown data type '{name}'.", self.keyword);
                crate::words::suggesting(fault(here, said), nearest)
            })?;
            let entry = self.stored(data, arguments).map_err(|message| fault(here, message))?;
            // The first one takes effect.
            if stored.iter().any(|other| other.data == data) {
                let message = format!("{}: store option '{name}' already enabled, ignored.", self.keyword);
                line.remark(Diagnostic::warning(here, message));
            } else {
                stored.push(entry);
            }
            start += length;
            match text.as_bytes().get(start) {
                None => break,
                Some(b',') => start += 1,
                Some(_) => {
                    let message = format!("{}: expected ',' after '{name}'.", self.keyword);
                    return Err(fault(list.span_of(start..text.len()), message));
                }
            }
        }
        Ok(())
    }

    fn stored(&self, data: DataType, arguments: Option<&str>) -> Result<Stored, String> {
        let (keyword, name) = (self.keyword, data.name());
        let parts: Vec<&str> =
            arguments.map(|all| all.split(',').map(str::trim).collect()).unwrap_or_default();
        let expected = usize::from(data.is_array()) + usize::from(data.kind() == DataKind::Rate);
        if parts.len() != expected {
            return Err(match expected {
                0 => format!("{keyword}: data type '{name}' takes no argument."),
                _ => format!("{keyword}: data type '{name}' takes {expected} argument(s) in parentheses."),
            });
        }
        let mut parts = parts.into_iter();
        let mut elements = 1;
        if data.is_array() {
            let text = parts.next().unwrap_or_default();
            elements = text
                .parse()
                .ok()
                .filter(|count| (1..=DataType::MAX_ELEMENTS).contains(count))
                .ok_or_else(|| {
                    format!("{keyword}: '{name}' has 1 to {} elements, not '{text}'.", DataType::MAX_ELEMENTS)
                })?;
        }
        let mut period_ms = 0;
        if let Some(text) = parts.next() {
            let unit = weir_syntax::units::TimeUnit::Milliseconds;
            let period = weir_syntax::units::parse_time(text, unit)
                .map_err(|error| error.describe(name, text, unit))?;
            period_ms = u32::try_from(period).ok().filter(|period| (1..=MAX_PERIOD_MS).contains(period)).ok_or_else(
                || format!("{keyword}: the period of '{name}' is at least 1 ms and at most 24 days, not '{text}'."),
            )?;
        }
        Ok(Stored { data, elements, period_ms })
    }

    /// An array excludes the older single counters (manual, 11.1, "gpc", "gpc_rate", "gpt").
    fn check_stored(&self, words: &Words<'_>, stored: &[Stored]) -> Parsed {
        let has = |data: DataType| stored.iter().any(|other| other.data == data);
        for Stored { data, .. } in stored {
            if let Some((array, _)) = data.in_array().filter(|(array, _)| has(*array)) {
                let message =
                    format!("{}: '{}' and '{}' exclude each other.", self.keyword, array.name(), data.name());
                return Err(fault(words.line().keyword().span(), message));
            }
        }
        Ok(())
    }
}
