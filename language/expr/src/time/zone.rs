//! Time zones, from the bytes of a TZif file (RFC 8536).

use std::sync::LazyLock;

/// The local time of a zone over time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeZone {
    /// The time of each change, and the local time after it, sorted.
    transitions: Vec<(i64, LocalTimeType)>,
    /// The local time before the first transition.
    first: LocalTimeType,
}

/// A local time type (RFC 8536): an offset and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTimeType {
    /// Offset from UTC, in seconds.
    pub offset: i32,
    /// The abbreviation of the zone (`CET`).
    pub name: Box<str>,
}

impl Default for LocalTimeType {
    fn default() -> Self {
        LocalTimeType { offset: 0, name: "UTC".into() }
    }
}

/// The limit of transitions that are kept.
const MAX_TRANSITIONS: usize = 10_000;

impl TimeZone {
    /// Coordinated universal time, with the name that HTTP and the C library use (GMT).
    pub fn utc() -> &'static TimeZone {
        static UTC: LazyLock<TimeZone> = LazyLock::new(|| TimeZone::fixed(0, "GMT"));
        &UTC
    }

    /// A zone with a fixed offset.
    pub fn fixed(offset: i32, name: &str) -> TimeZone {
        TimeZone { transitions: Vec::new(), first: LocalTimeType { offset, name: name.into() } }
    }

    /// From the bytes of a TZif file, such as `/etc/localtime`.
    ///
    /// The rule at the end of the file, for years after its table, is not used: the tables of usual files reach 2037.
    pub fn parse(bytes: &[u8]) -> Option<TimeZone> {
        let header = ZoneHeader::parse(bytes)?;
        if header.version == 0 {
            return header.body(bytes.get(44..)?, 4);
        }
        // The second block has the same content with 64-bit times.
        let second = bytes.get(44 + header.length(4)?..)?;
        ZoneHeader::parse(second)?.body(second.get(44..)?, 8)
    }

    /// The local time type at a time.
    pub fn at(&self, seconds: i64) -> &LocalTimeType {
        match self.transitions.partition_point(|(from, _)| *from <= seconds) {
            0 => &self.first,
            index => &self.transitions[index - 1].1,
        }
    }
}

struct ZoneHeader {
    version: u8,
    utc_indicators: usize,
    standard_indicators: usize,
    leaps: usize,
    times: usize,
    types: usize,
    characters: usize,
}

impl ZoneHeader {
    fn parse(bytes: &[u8]) -> Option<ZoneHeader> {
        let bytes = bytes.get(..44)?;
        if &bytes[..4] != b"TZif" {
            return None;
        }
        let count = |index: usize| be32(&bytes[20 + index * 4..]).map(|count| count as usize);
        Some(ZoneHeader {
            version: bytes[4],
            utc_indicators: count(0)?,
            standard_indicators: count(1)?,
            leaps: count(2)?,
            times: count(3)?,
            types: count(4)?,
            characters: count(5)?,
        })
    }

    fn length(&self, width: usize) -> Option<usize> {
        let times = self.times.checked_mul(width + 1)?;
        let leaps = self.leaps.checked_mul(width + 4)?;
        times
            .checked_add(self.types.checked_mul(6)?)?
            .checked_add(self.characters)?
            .checked_add(leaps)?
            .checked_add(self.standard_indicators)?
            .checked_add(self.utc_indicators)
    }

    fn body(&self, bytes: &[u8], width: usize) -> Option<TimeZone> {
        if self.length(width)? > bytes.len() || self.times > MAX_TRANSITIONS {
            return None;
        }
        let (times, rest) = bytes.split_at(self.times * width);
        let (kinds, rest) = rest.split_at(self.times);
        let (types, rest) = rest.split_at(self.types * 6);
        let names = rest.get(..self.characters)?;
        let local = |kind: usize| -> Option<LocalTimeType> {
            let entry = types.get(kind * 6..kind * 6 + 6)?;
            let offset = be32(entry)? as i32;
            let name = names.get(entry[5] as usize..)?.split(|byte| *byte == 0).next()?;
            let plausible = (-86_400..=86_400).contains(&offset);
            plausible.then(|| LocalTimeType { offset, name: String::from_utf8_lossy(name).into() })
        };
        let transitions = times
            .chunks_exact(width)
            .zip(kinds)
            .map(|(time, kind)| {
                let time = match width {
                    4 => i64::from(be32(time)? as i32),
                    _ => i64::from_be_bytes(time.try_into().ok()?),
                };
                Some((time, local(*kind as usize)?))
            })
            .collect::<Option<Vec<_>>>()?;
        transitions.is_sorted_by_key(|(from, _)| *from).then_some(())?;
        Some(TimeZone { first: local(0)?, transitions })
    }
}

fn be32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one block for each width: summer time (+7200) from 100 to 200, else +3600.
    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        for width in [4usize, 8] {
            file.extend(b"TZif2");
            file.extend([0; 15]);
            for count in [0u32, 0, 0, 2, 2, 9] {
                file.extend(count.to_be_bytes());
            }
            for time in [100i64, 200] {
                file.extend(&time.to_be_bytes()[8 - width..]);
            }
            file.extend([1, 0]);
            for (offset, summer, name) in [(3600i32, 0u8, 0u8), (7200, 1, 4)] {
                file.extend(offset.to_be_bytes());
                file.extend([summer, name]);
            }
            file.extend(b"CET\0CEST\0");
        }
        file.extend(b"\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        file
    }

    #[test]
    fn time_zone_transitions_are_found() {
        let zone = TimeZone::parse(&file()).unwrap();
        for (at, offset, name) in
            [(0, 3600, "CET"), (99, 3600, "CET"), (100, 7200, "CEST"), (200, 3600, "CET")]
        {
            assert_eq!((zone.at(at).offset, &*zone.at(at).name), (offset, name), "{at}");
        }
    }

    #[test]
    fn damaged_time_zone_files_are_refused() {
        let file = file();
        for length in 0..file.len() - 30 {
            assert_eq!(TimeZone::parse(&file[..length]), None, "{length}");
        }
    }
}
