//! The terminal: set up at startup, and restored however the program ends.

use std::env;
use std::io::{self, IsTerminal, Stdout, Write};
use std::panic;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_sys::signal::SignalReader;

pub(crate) type Screen = Terminal<CrosstermBackend<Stdout>>;

/// Restores the terminal when dropped.
pub(crate) struct TerminalGuard(());

/// Why the program cannot draw on this terminal. `None` if it can.
pub(crate) fn refusal() -> Option<String> {
    unusable(env::var("TERM").ok().as_deref(), io::stdin().is_terminal() && io::stdout().is_terminal())
}

fn unusable(term: Option<&str>, is_terminal: bool) -> Option<String> {
    let why = match term {
        _ if !is_terminal => "standard input or output is not a terminal".to_owned(),
        None | Some("") => "the variable TERM is not set: the kind of the terminal is not known".to_owned(),
        Some("dumb") => "the terminal cannot place its cursor (TERM=dumb)".to_owned(),
        Some(_) => return None,
    };
    Some(format!("{why}; --once prints a snapshot as plain text"))
}

/// Whether the terminal shows characters beyond ASCII, according to the first of these variables that is set.
pub(crate) fn has_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| names_utf8(&locale))
}

fn names_utf8(locale: &str) -> bool {
    let lower = locale.to_ascii_lowercase();
    lower.contains("utf-8") || lower.contains("utf8")
}

/// Sets up the terminal. A panic restores it before printing its message.
pub(crate) fn take() -> io::Result<(Screen, TerminalGuard)> {
    let former = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        restore();
        former(panic);
    }));
    enable_raw_mode()?;
    // From here on the guard restores the terminal, even if the next step fails.
    let taken = TerminalGuard(());
    execute!(io::stdout(), EnterAlternateScreen)?;
    let mut screen = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    screen.clear()?;
    Ok((screen, taken))
}

/// Sets the returned flag on a termination signal or when the terminal is closed. Exits the process soon after, even if the main loop
/// does not: a read from a closed terminal never returns.
pub(crate) fn watch(signals: SignalReader) -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let over_flag = Arc::clone(&over);
    thread::spawn(move || {
        while !is_gone() && matches!(signals.next(), Ok(None)) {
            thread::sleep(LOOK);
        }
        over_flag.store(true, Ordering::Relaxed);
        thread::sleep(GRACE);
        restore();
        process::exit(0);
    });
    over
}

/// Whether the terminal behind standard input is closed.
fn is_gone() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// How often the signals and the terminal are checked.
const LOOK: Duration = Duration::from_millis(100);
/// How long the main loop may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. Harmless if done twice, or if the terminal is closed.
fn restore() {
    let _ = disable_raw_mode();
    let _ = leave(&mut io::stdout());
}

fn leave(out: &mut impl Write) -> io::Result<()> {
    execute!(out, LeaveAlternateScreen, Show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_reason_why_a_terminal_is_unusable() {
        assert_eq!(unusable(Some("xterm"), true), None);
        for (term, is_terminal, word) in [
            (Some("dumb"), true, "TERM=dumb"),
            (None, true, "TERM is not set"),
            (Some("xterm"), false, "not a terminal"),
        ] {
            let why = unusable(term, is_terminal).expect("a reason");
            assert!(why.contains(word) && why.contains("--once"), "{why}");
        }
    }

    #[test]
    fn detects_utf8_from_the_locale() {
        for (locale, expected) in
            [("C.UTF-8", true), ("de_DE.utf8", true), ("C", false), ("de_DE.ISO-8859-1", false)]
        {
            assert_eq!(names_utf8(locale), expected, "{locale}");
        }
    }

    #[test]
    fn leaving_restores_the_main_screen_and_the_cursor() {
        let mut out = Vec::new();
        leave(&mut out).expect("room");
        assert_eq!(String::from_utf8_lossy(&out), "\x1b[?1049l\x1b[?25h");
    }
}
