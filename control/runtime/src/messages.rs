//! What a starting and a stopping process says on standard error, in the reference program's form.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_syntax::{Severity, classic_line};

/// Says things to the operator, and remembers them for `show startup-logs`.
#[derive(Debug, Default)]
pub struct Messages {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    manner: Manner,
    introduced: bool,
    warned: bool,
    remembered: String,
    finished: bool,
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
        let state = State {
            manner: Manner::Normal,
            introduced: false,
            warned: false,
            remembered: String::new(),
            finished: false,
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

    /// Something to know.
    pub fn notice(&self, text: impl AsRef<str>) {
        self.say(Severity::Notice, text.as_ref());
    }

    /// Says something.
    pub fn say(&self, severity: Severity, text: &str) {
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
        state.write(severity, &classic_line(severity, process, text));
    }

    /// Whether there was a warning.
    pub fn warned(&self) -> bool {
        self.lock().warned
    }

    /// What was said until the start was over.
    pub fn startup_logs(&self) -> String {
        self.lock().remembered.clone()
    }

    /// The start is over: nothing more is remembered.
    pub fn finish_startup(&self) {
        self.lock().finished = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write(&mut self, severity: Severity, line: &str) {
        if !self.finished && self.remembered.len() < MOST_REMEMBERED {
            self.remembered.push_str(line);
        }
        let shown = match self.manner {
            Manner::Quiet => false,
            Manner::Verbose => true,
            Manner::Normal => severity != Severity::Notice || self.introduced,
        };
        if shown {
            // Nobody is left to be told that standard error is closed.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

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
}
