//! The process, as reported by `show info`.

use std::collections::HashMap;

use crate::text::clean;

/// The lines of `show info`: names and values, unchanged. A line missing in a version is absent, not an error.
#[derive(Debug, Default, Clone)]
pub(crate) struct Info {
    values: HashMap<String, String>,
}

impl Info {
    /// Parses `show info`. `None` if the text contains neither a process number nor an uptime.
    pub(crate) fn read(text: &str) -> Option<Info> {
        let pairs = text.lines().take(MOST_LINES).filter_map(|line| line.split_once(':'));
        let values: HashMap<String, String> =
            pairs.map(|(name, value)| (clean(name.trim(), 64), clean(value.trim(), 200))).collect();
        (values.contains_key("Pid") && values.contains_key("Uptime_sec")).then_some(Info { values })
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    /// The name and version of the program. weir reports the HAProxy version that it implements, followed by its own.
    pub(crate) fn program(&self) -> String {
        match self.text("Version").split_once("-weir") {
            Some((_, own)) => format!("weir {own}"),
            None => format!("HAProxy {}", self.text("Version")),
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.count("Stopping") != 0
    }

    /// Bytes in use in the pools, and bytes allocated for them from the system.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let bytes =
            |exact, rough| self.number(exact).unwrap_or_else(|| self.count(rough).saturating_mul(1 << 20));
        (bytes("PoolUsed_bytes", "PoolUsed_MB"), bytes("PoolAlloc_bytes", "PoolAlloc_MB"))
    }

    /// Whether `later` is a later report of the same process.
    pub(crate) fn is_continued_by(&self, later: &Info) -> bool {
        self.text("Pid") == later.text("Pid") && self.count("Uptime_sec") <= later.count("Uptime_sec")
    }
}

const MOST_LINES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name: HAProxy\nVersion: 3.5.0-weir0.1.0\nPid: 7\nUptime: 0d 0h01m01s\nUptime_sec: 61\nPoolUsed_MB: 2\nPoolAlloc_bytes: 5\nnode: a:b\n";

    #[test]
    fn missing_lines_of_show_info_give_empty_values() {
        let info = Info::read(TEXT).expect("an answer");
        assert_eq!(
            (info.program().as_str(), info.text("node"), info.count("Uptime_sec")),
            ("weir 0.1.0", "a:b", 61)
        );
        assert_eq!(
            (info.number("CurrConns"), info.is_stopping(), info.memory()),
            (None, false, (2 << 20, 5))
        );
        assert!(Info::read("Permission denied\n").is_none());
        assert_eq!(
            Info::read(&TEXT.replace("3.5.0-weir0.1.0", "2.6.12-1")).expect("an answer").program(),
            "HAProxy 2.6.12-1"
        );
    }

    #[test]
    fn a_new_pid_or_a_lower_uptime_reveals_a_new_process() {
        let info = |pid: u32, uptime: u32| {
            Info::read(&format!("Pid: {pid}\nUptime_sec: {uptime}\n")).expect("an answer")
        };
        assert!(info(7, 5).is_continued_by(&info(7, 6)) && info(7, 5).is_continued_by(&info(7, 5)));
        assert!(!info(7, 5).is_continued_by(&info(8, 6)) && !info(7, 5).is_continued_by(&info(7, 4)));
    }
}
