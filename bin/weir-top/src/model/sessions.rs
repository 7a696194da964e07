//! The streams in the output of `show sess`.

use crate::text::clean;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamRow {
    pub id: String,
    pub protocol: String,
    pub source: String,
    pub frontend: String,
    pub backend: String,
    pub server: String,
    pub age: String,
    pub calls: u64,
    pub rate: u64,
}

/// The listed streams, and their total number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamRows {
    pub listed: Vec<StreamRow>,
    pub total: usize,
}

impl StreamRows {
    /// Parses `show sess` and keeps at most `most` streams. `None` if the text is not a list of streams.
    pub(crate) fn read(text: &str, most: usize) -> Option<StreamRows> {
        let mut found = StreamRows::default();
        for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            match StreamRow::read(line) {
                Some(stream) => {
                    found.total += 1;
                    if found.listed.len() < most {
                        found.listed.push(stream);
                    }
                }
                None if found.total == 0 => return None,
                // The following lines belong to the same stream.
                None => {}
            }
        }
        Some(found)
    }
}

impl StreamRow {
    fn read(line: &str) -> Option<StreamRow> {
        let (id, rest) = line.split_once(": ").filter(|(id, _)| id.starts_with("0x"))?;
        let mut stream = StreamRow { id: clean(id, 20), ..StreamRow::default() };
        for (name, value) in rest.split(' ').filter_map(|word| word.split_once('=')) {
            let text = || match value {
                "<none>" | "<NONE>" | "" => "-".to_owned(),
                value => clean(value, 100),
            };
            match name {
                "proto" => stream.protocol = text(),
                "src" => stream.source = text(),
                "fe" => stream.frontend = text(),
                "be" => stream.backend = text(),
                "srv" => stream.server = text(),
                "age" => stream.age = text(),
                "calls" => stream.calls = value.parse().unwrap_or(0),
                "rate" => stream.rate = value.parse().unwrap_or(0),
                // From here on, the fields describe buffers and may repeat earlier names.
                name if name.starts_with("rq[") => break,
                _ => {}
            }
        }
        Some(stream)
    }
}

/// Parses `1h2m`, `3m4s` or `5s` as seconds, for sorting. 0 for other strings.
pub(crate) fn seconds(age: &str) -> u64 {
    let (mut sum, mut number) = (0_u64, 0_u64);
    for c in age.chars() {
        let unit = match c {
            'd' => 86_400,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            digit => {
                number = number.saturating_mul(10).saturating_add(u64::from(digit.to_digit(10).unwrap_or(0)));
                continue;
            }
        };
        sum = sum.saturating_add(number.saturating_mul(unit));
        number = 0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "0x1b: proto=tcpv4 src=10.0.0.1:55 fe=web be=<NONE> srv=<none> ts=00 epoch=0 age=1m5s calls=3 rate=2 cpu=0 lat=0 rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0] scf=[8,0h,fd=1/29] exp=";

    #[test]
    fn parses_show_sess_up_to_a_limit_and_counts_all_streams() {
        let found = StreamRows::read(&format!("{LINE}\n{LINE}\n\n{LINE}\n"), 2).expect("streams");
        assert_eq!((found.listed.len(), found.total), (2, 3));
        let stream = &found.listed[0];
        assert_eq!(
            (stream.source.as_str(), stream.frontend.as_str(), stream.backend.as_str()),
            ("10.0.0.1:55", "web", "-")
        );
        assert_eq!((stream.age.as_str(), stream.calls, seconds(&stream.age)), ("1m5s", 3, 65));
        assert_eq!(StreamRows::read("\n", 2), Some(StreamRows::default()));
        assert_eq!(StreamRows::read("Permission denied\n", 2), None);
    }

    #[test]
    fn replaces_control_characters_in_client_addresses() {
        let found = StreamRows::read("0x1: src=\u{1b}]0;x\u{7} fe=a\n", 2).expect("streams");
        assert_eq!(found.listed[0].source, "?]0;x?");
        assert_eq!(seconds("99999999999999999999999999d"), u64::MAX);
    }
}
