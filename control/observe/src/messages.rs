//! Messages of a process during its start and stop, on standard error, in HAProxy's format.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_syntax::{DiagnosticSeverity, SourceMap, classic_line};
use weir_sys::standard_error;

/// Prints messages and keeps the startup messages for `show startup-logs`.
#[derive(Debug, Default)]
pub struct Messages {
    state: Mutex<MessagesState>,
}

#[derive(Debug, Default)]
struct MessagesState {
    verbosity: Verbosity,
    introduced: bool,
    warned: bool,
    remembered: String,
    /// The file to which a master and its starting worker append their messages.
    shared: Option<File>,
    finished: bool,
    /// Number of messages dropped since the last successful write to standard error.
    dropped: u32,
    /// The configuration lines to quote in messages, and whether to use colors. Set only on a terminal during startup.
    sources: Option<(SourceMap, bool)>,
}

/// The classes of messages that the process prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Warnings and errors.
    #[default]
    Normal,
    /// Notices too (`-V`, `-d`).
    Verbose,
    /// Nothing (`-q`).
    Quiet,
}

impl Messages {
    /// No messages.
    pub const fn new() -> Self {
        let state = MessagesState {
            verbosity: Verbosity::Normal,
            introduced: false,
            warned: false,
            remembered: String::new(),
            shared: None,
            finished: false,
            dropped: 0,
            sources: None,
        };
        Messages { state: Mutex::new(state) }
    }

    /// Sets which messages are printed from now on.
    pub fn set_verbosity(&self, verbosity: Verbosity) {
        self.lock().verbosity = verbosity;
    }

    /// Which messages are printed now.
    pub fn verbosity(&self) -> Verbosity {
        self.lock().verbosity
    }

    /// Quotes the configuration line, with a caret, in warnings and errors with a position in these files, until the start is complete.
    pub fn show_lines_of(&self, sources: SourceMap, color: bool) {
        self.lock().sources = Some((sources, color));
    }

    /// Logs an error.
    pub fn alert(&self, text: impl AsRef<str>) {
        self.say(DiagnosticSeverity::Alert, text.as_ref());
    }

    /// Logs a warning.
    pub fn warning(&self, text: impl AsRef<str>) {
        self.say(DiagnosticSeverity::Warning, text.as_ref());
    }

    /// Logs information, even without `-V`. Suppressed by `-q`.
    pub fn announce(&self, text: impl AsRef<str>) {
        let line = classic_line(DiagnosticSeverity::Notice, weir_sys::process::id(), text.as_ref());
        self.lock().write_if(|verbosity| verbosity != Verbosity::Quiet, &line);
    }

    /// Logs information, printed with `-V` or `-d`.
    pub fn notice(&self, text: impl AsRef<str>) {
        self.say(DiagnosticSeverity::Notice, text.as_ref());
    }

    /// Logs a message with this severity.
    pub fn say(&self, severity: DiagnosticSeverity, text: &str) {
        self.say_line(severity, text, None);
    }

    /// Prints `shown`, which includes its newline, and keeps `text` for `show startup-logs`.
    pub fn say_as(&self, severity: DiagnosticSeverity, text: &str, shown: &str) {
        self.say_line(severity, text, Some(shown));
    }

    fn say_line(&self, severity: DiagnosticSeverity, text: &str, shown: Option<&str>) {
        let mut state = self.lock();
        state.warned |= severity == DiagnosticSeverity::Warning;
        let process = weir_sys::process::id();
        let grave = matches!(severity, DiagnosticSeverity::Warning | DiagnosticSeverity::Alert);
        if grave && !state.introduced {
            state.introduced = true;
            let version = format!("weir version is {}", crate::VERSION);
            state.write(
                DiagnosticSeverity::Notice,
                &classic_line(DiagnosticSeverity::Notice, process, &version),
            );
            if let Ok(path) = std::env::current_exe() {
                let path = format!("path to executable is {}", path.display());
                state.write(
                    DiagnosticSeverity::Notice,
                    &classic_line(DiagnosticSeverity::Notice, process, &path),
                );
            }
        }
        let line = classic_line(severity, process, text);
        state.remember(&line);
        if !state.shows(severity) {
            return;
        }
        let sources = state.sources.as_ref().filter(|_| grave && shown.is_none());
        let with_line =
            sources.and_then(|(sources, color)| weir_syntax::pretty(severity, text, sources, *color));
        state.print(with_line.as_deref().or(shown).unwrap_or(&line));
    }

    /// Whether a warning was logged.
    pub fn warned(&self) -> bool {
        self.lock().warned
    }

    /// The messages of startup. With a shared file, the messages of all processes that share it.
    pub fn startup_logs(&self) -> String {
        self.lock().logs()
    }

    /// Appends all further messages to the new `file`, which later forked processes share. So a master has the messages of its
    /// worker. Writes the earlier messages to the file first.
    pub fn share(&self, mut file: File) {
        let mut state = self.lock();
        // A failure (out of memory) cannot be reported anywhere. Fewer messages are then kept.
        let _ = file.write_all(state.remembered.as_bytes());
        state.remembered.clear();
        state.shared = Some(file);
        state.finished = false;
    }

    /// Ends the start: keeps no more messages. With a shared file, keeps a private copy of it (R163).
    pub fn finish_startup(&self) {
        let mut state = self.lock();
        state.remembered = state.logs();
        state.shared = None;
        state.sources = None;
        state.finished = true;
    }

    fn lock(&self) -> MutexGuard<'_, MessagesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MessagesState {
    fn write(&mut self, severity: DiagnosticSeverity, line: &str) {
        let shows = self.shows(severity);
        self.write_if(|_| shows, line);
    }

    fn shows(&self, severity: DiagnosticSeverity) -> bool {
        match self.verbosity {
            Verbosity::Quiet => false,
            Verbosity::Verbose => true,
            Verbosity::Normal => severity != DiagnosticSeverity::Notice || self.introduced,
        }
    }

    fn write_if(&mut self, shown: impl FnOnce(Verbosity) -> bool, line: &str) {
        self.remember(line);
        if shown(self.verbosity) {
            self.print(line);
        }
    }

    /// Writes to standard error. During the start, waits once for a blocked reader. Later, never waits. Messages that cannot be
    /// written are dropped and counted. The count is printed later.
    fn print(&mut self, text: &str) {
        let patience_ms = if self.finished || self.dropped > 0 { 0 } else { PATIENCE_MS };
        if self.dropped > 0 {
            let count = self.dropped;
            let lost = format!("{count} messages were dropped: standard error was not read.");
            let line = classic_line(DiagnosticSeverity::Warning, weir_sys::process::id(), &lost);
            if !standard_error::write(line.as_bytes(), 0) {
                self.dropped = count.saturating_add(1);
                return;
            }
            self.dropped = 0;
        }
        self.dropped += u32::from(!standard_error::write(text.as_bytes(), patience_ms));
    }

    fn remember(&mut self, line: &str) {
        if self.finished {
            return;
        }
        match &mut self.shared {
            Some(file) if file.metadata().is_ok_and(|known| known.len() < MOST_REMEMBERED as u64) => {
                // A failure (out of memory) cannot be reported anywhere.
                let _ = file.write_all(line.as_bytes());
            }
            None if self.remembered.len() < MOST_REMEMBERED => self.remembered.push_str(line),
            _ => {}
        }
    }

    fn logs(&self) -> String {
        let Some(file) = &self.shared else { return self.remembered.clone() };
        let length = file.metadata().map_or(0, |known| known.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0).min(2 * MOST_REMEMBERED)];
        let read = file.read_at(&mut bytes, 0).unwrap_or(0);
        bytes.truncate(read);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// How long a starting process waits for a reader of standard error, in milliseconds.
const PATIENCE_MS: u32 = 1000;

/// Maximum size of the kept messages, in bytes. More than enough to find a fault.
const MOST_REMEMBERED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_and_the_program_path_precede_the_first_warning() {
        let messages = Messages::new();
        messages.set_verbosity(Verbosity::Quiet);
        messages.notice("a");
        assert!(!messages.warned());
        messages.warning("b");
        messages.alert("c");
        messages.finish_startup();
        messages.alert("d");
        let logs = messages.startup_logs();
        let texts: Vec<_> = logs.lines().map(|line| line.split(" : ").nth(1).unwrap_or_default()).collect();
        assert_eq!(texts.len(), 5, "{logs}");
        assert!(texts[1].starts_with("weir version is") && texts[2].starts_with("path to executable is"));
        assert_eq!((texts[0], texts[3], texts[4]), ("a", "b", "c"));
        assert!(messages.warned());
    }

    #[test]
    fn r163_master_and_worker_share_startup_messages_and_keep_a_copy() {
        let file = || File::from(weir_sys::child::memory_file("logs").expect("memory"));
        let (master, worker) = (Messages::new(), Messages::new());
        for messages in [&master, &worker] {
            messages.set_verbosity(Verbosity::Quiet);
        }
        master.announce("before");
        let shared = file();
        worker.share(shared.try_clone().expect("a descriptor"));
        master.share(shared);
        worker.notice("of the worker");
        let both = master.startup_logs();
        assert!(both.contains("before") && both.contains("of the worker"), "{both}");
        worker.finish_startup();
        master.announce("of the master");
        assert_eq!(worker.startup_logs(), both);
        assert!(master.startup_logs().ends_with("of the master\n"));
    }
}
