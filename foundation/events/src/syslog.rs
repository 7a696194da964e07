//! Syslog levels and facilities, and the header formats of `log` lines.
//!
//! Names are those of the configuration manual (`log`, section 4.2), numbers those of RFC 5424, section 6.2.1.

/// Severity of a message. Smaller is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// The system is unusable.
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    Notice,
    /// Informational. The level of traffic logs.
    Info,
    Debug,
}

impl Level {
    /// All levels, by number.
    pub const ALL: [Level; 8] = [
        Level::Emergency,
        Level::Alert,
        Level::Critical,
        Level::Error,
        Level::Warning,
        Level::Notice,
        Level::Info,
        Level::Debug,
    ];

    /// The names of the configuration language, by number.
    pub const NAMES: [&'static str; 8] =
        ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

    /// The level with this name. `None` if unknown.
    pub fn from_name(name: &str) -> Option<Level> {
        let number = Self::NAMES.iter().position(|&known| known == name)?;
        Some(Self::ALL[number])
    }

    /// Name in the configuration language.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self as u8)]
    }
}

/// One of syslog's 24 facilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facility(u8);

impl Facility {
    /// The names of the configuration language, by number.
    pub const NAMES: [&'static str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp",
        "ntp", "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5",
        "local6", "local7",
    ];

    /// The facility with this name. `None` if unknown.
    pub fn from_name(name: &str) -> Option<Facility> {
        let number = Self::NAMES.iter().position(|&known| known == name)?;
        Some(Facility(number as u8))
    }

    /// Name in the configuration language.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.0)]
    }

    /// The PRI value of RFC 5424: eight times the facility, plus the level.
    pub fn priority(self, level: Level) -> u8 {
        self.0 * 8 + level as u8
    }
}

/// The header before the text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyslogFormat {
    /// RFC 3164 without the host name, for a syslog daemon on the same machine. The default.
    Local,
    /// RFC 3164, host name included. The default when `log-send-hostname` is set.
    Rfc3164,
    /// RFC 5424, with structured data.
    Rfc5424,
    /// `<level>` only, for systemd and containers.
    Short,
    /// `<facility and level>` only.
    Priority,
    /// `<level>` and an ISO date.
    Timed,
    Iso,
    /// The text only, without a header.
    Raw,
}

impl SyslogFormat {
    /// Every format with its name in the configuration language and its description, for help texts.
    pub const ALL: [(SyslogFormat, &'static str, &'static str); 8] = [
        (SyslogFormat::Local, "local", "RFC 3164 without the host name (the default)"),
        (SyslogFormat::Rfc3164, "rfc3164", "RFC 3164 with the host name"),
        (SyslogFormat::Rfc5424, "rfc5424", "RFC 5424 with structured data"),
        (SyslogFormat::Priority, "priority", "facility and level in angle brackets, then the text"),
        (SyslogFormat::Short, "short", "the level in angle brackets, then the text"),
        (SyslogFormat::Timed, "timed", "the level in angle brackets, an ISO date, then the text"),
        (SyslogFormat::Iso, "iso", "an ISO date, then the text"),
        (SyslogFormat::Raw, "raw", "the text alone"),
    ];

    /// The format with this name. `None` if unknown.
    pub fn from_name(name: &str) -> Option<SyslogFormat> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_levels_facilities_and_formats_round_trip() {
        for level in Level::ALL {
            assert_eq!(Level::from_name(level.name()), Some(level));
        }
        for name in Facility::NAMES {
            assert_eq!(Facility::from_name(name).map(Facility::name), Some(name));
        }
        for (format, name, _) in SyslogFormat::ALL {
            assert_eq!(SyslogFormat::from_name(name), Some(format));
        }
        assert_eq!(Level::from_name("error"), None);
    }

    #[test]
    fn syslog_priorities_follow_the_rfc() {
        let local4 = Facility::from_name("local4").unwrap();
        assert_eq!(local4.priority(Level::Notice), 165);
        assert_eq!(Facility::from_name("kern").unwrap().priority(Level::Emergency), 0);
    }
}
