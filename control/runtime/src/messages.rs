//! What a starting and a stopping process says on standard error, in the reference program's form.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_syntax::{Severity, classic_line};
use weir_sys::standard_error;

/// Says things to the operator, and remembers them for `show startup-logs`.
#[derive(Debug, Default)]
pub struct Messages {
    state: Mutex<MessagesState>,
}

#[derive(Debug, Default)]
struct MessagesState {
    manner: Manner,
    introduced: bool,
    warned: bool,
    remembered: String,
    /// What a master and its worker say while that one starts; both append to it.
    shared: Option<File>,
    finished: bool,
    /// Messages that standard error did not take since it took one.
    dropped: u32,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Warnings and errors.
    #[default]
    Normal,
    /// Notices too (`-V`, `-d`).
    Verbose,
    /// Nothing (`-q`).
    Quiet,
}

impl Messages {
    /// Nothing said yet.
    pub const fn new() -> Self {
        let state = MessagesState {
            manner: Manner::Normal,
            introduced: false,
            warned: false,
            remembered: String::new(),
            shared: None,
            finished: false,
            dropped: 0,
        };
        Messages { state: Mutex::new(state) }
    }

    /// Chooses how much is said from now on.
    pub fn set_manner(&self, manner: Manner) {
        self.lock().manner = manner;
    }

    /// How much is said.
    pub fn manner(&self) -> Manner {
        self.lock().manner
    }

    /// An error.
    pub fn alert(&self, text: impl AsRef<str>) {
        self.say(Severity::Alert, text.as_ref());
    }

    /// A warning.
    pub fn warning(&self, text: impl AsRef<str>) {
        self.say(Severity::Warning, text.as_ref());
    }

    /// Something to know, said unless nothing may be said.
    pub fn announce(&self, text: impl AsRef<str>) {
        let line = classic_line(Severity::Notice, weir_sys::process::id(), text.as_ref());
        self.lock().write_if(|manner| manner != Manner::Quiet, &line);
    }

    /// Something to know.
    pub fn notice(&self, text: impl AsRef<str>) {
        self.say(Severity::Notice, text.as_ref());
    }

    /// Says something.
    pub fn say(&self, severity: Severity, text: &str) {
        self.say_line(severity, text, None);
    }

    /// Says something in the words of `shown`, which end their line, and remembers `text`.
    pub fn say_as(&self, severity: Severity, text: &str, shown: &str) {
        self.say_line(severity, text, Some(shown));
    }

    fn say_line(&self, severity: Severity, text: &str, shown: Option<&str>) {
        let mut state = self.lock();
        state.warned |= severity == Severity::Warning;
        let process = weir_sys::process::id();
        let grave = matches!(severity, Severity::Warning | Severity::Alert);
        if grave && !state.introduced {
            state.introduced = true;
            let version = format!("weir version is {}", crate::VERSION);
            state.write(Severity::Notice, &classic_line(Severity::Notice, process, &version));
            if let Ok(path) = std::env::current_exe() {
                let path = format!("path to executable is {}", path.display());
                state.write(Severity::Notice, &classic_line(Severity::Notice, process, &path));
            }
        }
        let line = classic_line(severity, process, text);
        state.remember(&line);
        if state.shows(severity) {
            state.print(shown.unwrap_or(&line));
        }
    }

    /// Whether there was a warning.
    pub fn warned(&self) -> bool {
        self.lock().warned
    }

    /// What was said until the start was over. With a shared file, by all who share it.
    pub fn startup_logs(&self) -> String {
        self.lock().logs()
    }

    /// From now on what is remembered is appended to `file`, a new one, which a process that is forked later shares: so a
    /// master knows what its worker said. What was remembered is put there first.
    pub fn share(&self, mut file: File) {
        let mut state = self.lock();
        // Nobody is left to be told that memory is short: then less is remembered.
        let _ = file.write_all(state.remembered.as_bytes());
        state.remembered.clear();
        state.shared = Some(file);
        state.finished = false;
    }

    /// The start is over: nothing more is remembered. Who shared a file keeps a copy of its own (R163).
    pub fn finish_startup(&self) {
        let mut state = self.lock();
        state.remembered = state.logs();
        state.shared = None;
        state.finished = true;
    }

    fn lock(&self) -> MutexGuard<'_, MessagesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MessagesState {
    fn write(&mut self, severity: Severity, line: &str) {
        let shows = self.shows(severity);
        self.write_if(|_| shows, line);
    }

    fn shows(&self, severity: Severity) -> bool {
        match self.manner {
            Manner::Quiet => false,
            Manner::Verbose => true,
            Manner::Normal => severity != Severity::Notice || self.introduced,
        }
    }

    fn write_if(&mut self, shown: impl FnOnce(Manner) -> bool, line: &str) {
        self.remember(line);
        if shown(self.manner) {
            self.print(line);
        }
    }

    /// Writes to standard error. A process that serves waits for nobody to read it, and one that starts does so once: what is not
    /// taken is dropped, and counted for whoever reads again.
    fn print(&mut self, text: &str) {
        let patience_ms = if self.finished || self.dropped > 0 { 0 } else { PATIENCE_MS };
        if self.dropped > 0 {
            let count = self.dropped;
            let lost = format!("{count} messages were dropped: nobody read standard error.");
            let line = classic_line(Severity::Warning, weir_sys::process::id(), &lost);
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
                // Nobody is left to be told that memory is short.
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

/// How long a start waits for somebody to read what it says.
const PATIENCE_MS: u32 = 1000;

/// What is remembered of a start: more than enough to see what went wrong.
const MOST_REMEMBERED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_warning_is_preceded_by_who_speaks() {
        let messages = Messages::new();
        messages.set_manner(Manner::Quiet);
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
    fn r163_who_shares_a_file_hears_the_others_and_keeps_a_copy_of_its_own() {
        let file = || File::from(weir_sys::child::memory_file("logs").expect("memory"));
        let (master, worker) = (Messages::new(), Messages::new());
        for messages in [&master, &worker] {
            messages.set_manner(Manner::Quiet);
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
