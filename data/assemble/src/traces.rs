//! All trace sources: those of the other layers, and that of applets, defined here.

use std::io::Write;

use weir_events::Sinks;
use weir_events::trace::commands::Traces;
use weir_events::trace::{About, TraceEventKind, TraceLevel, TraceReport, TraceSource};
use weir_model::{Location, TraceLine};

/// Sessions of the runtime API.
static APPLET: TraceSource = TraceSource::new(
    "applet",
    "Applet endpoint",
    &[
        TraceEventKind { name: "app_new", help: "new applet" },
        TraceEventKind { name: "app_end", help: "applet released" },
    ],
);

static SOURCES: &[&TraceSource] = &[
    &weir_stream::trace::SESSION,
    &weir_stream::trace::STREAM,
    &weir_mux::trace::H2,
    &weir_mux::application::FCGI,
    &weir_mux::agent::SPOP,
    &weir_stream::trace::H1,
    &weir_stream::trace::PT,
    &APPLET,
    &weir_peers::PEERS,
    &weir_sched::trace::SCHEDULER,
    &weir_sched::trace::POLLER,
];

/// All sources, and the sinks that they may write to.
pub fn all(sinks: &Sinks) -> Traces<'_> {
    Traces { sources: SOURCES, sinks }
}

/// Parses `-dt`: trace sources for standard error, separated by commas, each with an optional level and verbosity after colons. An
/// empty string or `all` selects every source. The default level is errors.
pub fn of_command_line(wanted: &str) -> Vec<TraceLine> {
    let mut lines = Vec::new();
    for wanted in wanted.split(',') {
        let mut parts = wanted.splitn(3, ':').map(|part| Some(part).filter(|part| !part.is_empty()));
        let mut next = || parts.next().flatten();
        let (name, level, verbosity) = (next(), next().unwrap_or("error"), next());
        let names = match name {
            None | Some("all") => SOURCES.iter().map(|source| source.name).collect(),
            Some(name) => vec![name],
        };
        for name in names {
            let mut words = vec![name, "sink", "stderr", "level", level];
            words.extend(verbosity.into_iter().flat_map(|verbosity| ["verbosity", verbosity]));
            words.extend(["start", "now"]);
            let words = words.into_iter().map(Box::from).collect();
            lines.push(TraceLine { at: Location::new("-dt".into(), 1), words });
        }
    }
    lines
}

/// A session of the runtime API. The trace of its end is written when it is dropped.
pub struct TracedSession<'s> {
    address: &'s str,
}

impl<'s> TracedSession<'s> {
    /// Begins a session with a client of the socket at this address.
    pub fn begin(address: &'s str) -> Self {
        let conversation = TracedSession { address };
        conversation.trace(0);
        conversation
    }

    fn trace(&self, event: usize) {
        if APPLET.is_active() {
            let about = About { thread: weir_sched::worker_index() as u64 + 1, ..About::default() };
            let time = weir_sched::wall_time();
            APPLET.trace(&TraceReport { event, also: 0, level: TraceLevel::User, about, time }, |_, line| {
                // Writing to memory does not fail.
                let _ = write!(line, "<CLI> on {}", self.address);
            });
        }
    }
}

impl Drop for TracedSession<'_> {
    fn drop(&mut self) {
        self.trace(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemResolver;
    use crate::fixture::built;

    /// Names are distinct, and every event has a description.
    #[test]
    fn every_trace_source_and_event_has_a_description() {
        let mut names: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SOURCES.len());
        for source in SOURCES {
            assert!(!source.help.is_empty() && !source.events.is_empty());
            assert!(source.events.iter().all(|event| !event.help.is_empty()), "{}", source.name);
        }
    }

    #[test]
    fn the_trace_option_equals_lines_of_a_traces_section() {
        let check = |wanted: &str, expected: &[&str]| {
            let lines = of_command_line(wanted);
            let lines: Vec<_> = lines.iter().map(|line| line.words.join(" ")).collect();
            assert_eq!(lines, expected, "{wanted}");
        };
        check("h1", &["h1 sink stderr level error start now"]);
        check(
            "h1:data,stream::clean",
            &[
                "h1 sink stderr level data start now",
                "stream sink stderr level error verbosity clean start now",
            ],
        );
        for all in ["", "all", ":error", "all:error"] {
            let lines = of_command_line(all);
            assert!(
                lines.len() == SOURCES.len() && lines.iter().all(|line| &*line.words[4] == "error"),
                "{all}"
            );
        }
        check("h1:::x", &["h1 sink stderr level error verbosity :x start now"]);
    }

    #[test]
    fn a_traces_section_accepts_the_trace_commands() {
        let with = |line: &str| {
            format!(
                "listen l\n bind 127.0.0.1:1\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n server s 127.0.0.1:2\ntraces\n trace {line}\n"
            )
        };
        let live = weir_sched::run(async move {
            let faults = |line: &str| built(&with(line), &SystemResolver::default(), false).err();
            assert_eq!(faults("poller sink buf0 level error event none"), None);
            assert_eq!(faults("nosuch sink buf0"), Some(vec!["No such trace source 'nosuch'".to_owned()]));
            assert_eq!(faults("poller sink nosuch"), Some(vec!["No such sink 'nosuch'".to_owned()]));
            assert!(faults("poller level").is_some_and(|faults| faults[0].contains("expects")));
        });
        assert_eq!(live, Ok(Some(())));
    }
}
