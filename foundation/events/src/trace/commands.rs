//! The `trace` command of the runtime API and of `traces` sections. Changes settings or returns lists.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{TraceLevel, TraceSource, TraceState, VERBOSITIES};
use crate::sink::Sinks;

/// All trace sources, and the available sinks.
#[derive(Clone, Copy, Debug)]
pub struct Traces<'t> {
    /// The sources, in the order of listings.
    pub sources: &'t [&'static TraceSource],
    pub sinks: &'t Sinks,
}

impl Traces<'_> {
    /// Executes `trace <words>`. Returns a list if the words request one, `None` if they changed a setting.
    ///
    /// # Errors
    /// A text for the operator, without newline. The words before the faulty one have taken effect.
    pub fn command(&self, words: &[&str]) -> Result<Option<String>, String> {
        let mut words = words.iter().copied().filter(|word| !word.is_empty());
        let chosen: Vec<&TraceSource> = match words.next() {
            None => return Ok(Some(self.list_sources())),
            Some("0") => {
                for source in self.sources {
                    source.set_state(TraceState::Stopped);
                    source.follow(None);
                }
                return Ok(Some("All traces now stopped\n".to_owned()));
            }
            Some("all") => self.sources.to_vec(),
            Some(name) => {
                let known = self.sources.iter().find(|source| source.name == name);
                vec![known.ok_or_else(|| format!("No such trace source '{name}'"))?]
            }
        };
        let all = chosen.len() != 1;
        let mut done = false;
        while let Some(keyword) = words.next() {
            let value = words.next();
            if all && !matches!(keyword, "sink" | "level" | "follow") {
                return Err(format!(
                    "'{keyword}' is not for all sources at once, only 'sink', 'level' and 'follow' are"
                ));
            }
            for source in &chosen {
                let listed = self.change(source, keyword, value)?;
                if let Some(listed) = listed {
                    return Ok(Some(listed));
                }
            }
            done = true;
        }
        Ok(if done { None } else { Some(COMMANDS.to_owned()) })
    }

    /// `show trace`: all sources with their states, or the details of one.
    ///
    /// # Errors
    /// When the source does not exist.
    pub fn show(&self, name: Option<&str>) -> Result<String, String> {
        let mut text = String::new();
        let Some(name) = name else {
            text.push_str("Supported trace sources and states (.=stopped, w=waiting, R=running) :\n");
            for source in self.sources {
                let sink = source.sink().load();
                let (sink, dropped) =
                    sink.as_ref().as_ref().map_or(("none", 0), |sink| (&*sink.name, sink.dropped()));
                // Writing to memory does not fail.
                let _ = writeln!(
                    text,
                    " [{}] {:<10} -> {sink} [drp {dropped}]  [{}]",
                    mark(source),
                    source.name,
                    source.help
                );
            }
            return Ok(text);
        };
        let source = self.sources.iter().find(|source| source.name == name);
        let source = source.ok_or_else(|| format!("No such trace source '{name}'"))?;
        let _ = writeln!(
            text,
            "Trace events for source {name} (+=enabled, -=disabled): report, start, pause, stop"
        );
        let masks =
            [&source.report, &source.start, &source.pause, &source.stop].map(|mask| mask.load(Relaxed));
        for (index, event) in source.events.iter().enumerate() {
            let signs: Vec<_> = masks.iter().map(|mask| sign(*mask, index)).collect();
            let _ = writeln!(text, "  {} {:<13}: {}", signs.join(" "), event.name, event.help);
        }
        Ok(text)
    }

    fn list_sources(&self) -> String {
        let mut text = "Supported trace sources and states (.=stopped, w=waiting, R=running) :\n".to_owned();
        text.push_str(" [.] 0          : not a source, will immediately stop all traces\n");
        text.push_str(" [.] all        : all sources below, only for 'sink', 'level' and 'follow'\n");
        for source in self.sources {
            let _ = writeln!(text, " [{}] {:<10} : {}", mark(source), source.name, source.help);
        }
        text
    }

    /// Handles one keyword and its value. Without a value, returns a list.
    fn change(
        &self,
        source: &TraceSource,
        keyword: &str,
        value: Option<&str>,
    ) -> Result<Option<String>, String> {
        let name = source.name;
        match keyword {
            "event" => events(source, &source.report, value, &format!("Supported events for source {name}")),
            "start" | "pause" | "stop" => {
                let (mask, state, what) = match keyword {
                    "start" => (&source.start, TraceState::Running, "starting"),
                    "pause" => (&source.pause, TraceState::Waiting, "pausing"),
                    _ => (&source.stop, TraceState::Stopped, "stopping"),
                };
                if value == Some("now") {
                    source.set_state(state);
                    return Ok(None);
                }
                let listed = events(source, mask, value, &format!("Events {what} source {name}"))?;
                // The source waits if it has start events, and stops waiting without any.
                if keyword == "start" && listed.is_none() {
                    let waits = mask.load(Relaxed) != 0;
                    source.set_state(if waits { TraceState::Waiting } else { TraceState::Stopped });
                }
                Ok(listed)
            }
            "level" => {
                let choices = TraceLevel::ALL.map(|(_, name, help)| (name, help));
                choose(&source.level, &choices, value, &format!("Supported trace levels for source {name}"))
            }
            "verbosity" => {
                let title = format!("Supported trace verbosities for source {name}");
                choose(&source.verbosity, &VERBOSITIES, value, &title)
            }
            "lock" => {
                let title = format!("Supported lock-on criteria for source {name}");
                let listed = choose(&source.criterion, &source.criteria, value, &title)?;
                source.locked.store(0, Relaxed);
                Ok(listed)
            }
            "sink" => self.choose_sink(source, value),
            "follow" => self.follow(source, value),
            _ => Err(format!("Unknown trace keyword '{keyword}'")),
        }
    }

    /// Sets the source that `source` follows. A source cannot follow itself, so `all` skips the followed source.
    fn follow(&self, source: &TraceSource, value: Option<&str>) -> Result<Option<String>, String> {
        let current = source.followed().map_or("none", |followed| followed.name);
        match value {
            None => {
                let mut text = format!("Sources that source {} can follow (*=current):\n", source.name);
                let others = self.sources.iter().filter(|other| other.name != source.name);
                let others = others.map(|other| (other.name, other.help));
                for (name, help) in std::iter::once(("none", "follow nothing")).chain(others) {
                    // Writing to memory does not fail.
                    let _ =
                        writeln!(text, "  {} {name:<10} : {help}", if name == current { '*' } else { ' ' });
                }
                Ok(Some(text))
            }
            Some("none") => {
                source.follow(None);
                Ok(None)
            }
            Some(name) => {
                let known = self.sources.iter().find(|other| other.name == name);
                let other = known.ok_or_else(|| format!("No such trace source '{name}'"))?;
                if other.name != source.name {
                    source.follow(Some(other));
                }
                Ok(None)
            }
        }
    }

    fn choose_sink(&self, source: &TraceSource, value: Option<&str>) -> Result<Option<String>, String> {
        let current = source.sink().load_full();
        let current = (*current).as_ref().map_or("none", |sink| &sink.name);
        match value {
            None => {
                let mut text = format!("Supported sinks for source {} (*=current):\n", source.name);
                let none = ("none", "no sink");
                let known = self.sinks.all().iter().map(|sink| (&*sink.name, &*sink.description));
                for (name, help) in std::iter::once(none).chain(known) {
                    let _ =
                        writeln!(text, "  {} {name:<10} : {help}", if name == current { '*' } else { ' ' });
                }
                Ok(Some(text))
            }
            Some("none") => {
                source.sink().publish(None);
                Ok(None)
            }
            Some(name) => {
                let sink = self.sinks.find(name).ok_or_else(|| format!("No such sink '{name}'"))?;
                source.sink().publish(Some(sink.clone()));
                Ok(None)
            }
        }
    }
}

fn mark(source: &TraceSource) -> char {
    match source.state() {
        TraceState::Stopped => '.',
        TraceState::Waiting => 'w',
        TraceState::Running => 'R',
    }
}

fn sign(mask: u64, index: usize) -> &'static str {
    if mask & (1 << index) != 0 { "+" } else { "-" }
}

/// Turns events of a mask on or off: `[+|-|!]<name>`, `any`, `none`.
fn events(
    source: &TraceSource,
    mask: &AtomicU64,
    value: Option<&str>,
    title: &str,
) -> Result<Option<String>, String> {
    let Some(value) = value else {
        let mut text = format!("{title} (+=enabled, -=disabled):\n");
        text.push_str(
            "  - none         : disable all event types\n  - any          : enable all event types\n",
        );
        for (index, event) in source.events.iter().enumerate() {
            let sign = sign(mask.load(Relaxed), index);
            let _ = writeln!(text, "  {sign} {:<12} : {}", event.name, event.help);
        }
        return Ok(Some(text));
    };
    let (on, name) = match value.split_at_checked(1) {
        Some(("+", name)) => (true, name),
        Some(("-" | "!", name)) => (false, name),
        _ => (true, value),
    };
    let bits = match name {
        "any" => u64::MAX,
        "none" => {
            mask.store(0, Relaxed);
            return Ok(None);
        }
        _ => {
            let known = source.events.iter().position(|event| event.name == name);
            1 << known.ok_or_else(|| format!("No such trace event '{name}'"))?
        }
    };
    if on {
        mask.fetch_or(bits, Relaxed)
    } else {
        mask.fetch_and(!bits, Relaxed)
    };
    Ok(None)
}

/// Sets a setting to the index of a name.
fn choose(
    setting: &std::sync::atomic::AtomicU8,
    choices: &[(&str, &str)],
    value: Option<&str>,
    title: &str,
) -> Result<Option<String>, String> {
    let current = usize::from(setting.load(Relaxed));
    match value {
        None => {
            let mut text = format!("{title}:\n");
            for (index, (name, help)) in choices.iter().enumerate() {
                let star = if index == current { '*' } else { ' ' };
                let _ = writeln!(text, "  {star} {name:<10} : {help}");
            }
            Ok(Some(text))
        }
        Some(name) => {
            let known = choices.iter().position(|(known, _)| *known == name);
            let index = known.ok_or_else(|| format!("'{name}' is none of those: {}", names(choices)))?;
            setting.store(index as u8, Relaxed);
            Ok(None)
        }
    }
}

fn names(choices: &[(&str, &str)]) -> String {
    choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The keywords allowed after a source's name.
const COMMANDS: &str = "\
Supported commands:
  event     : list/enable/disable source-specific event reporting
  level     : list/set trace reporting level
  lock      : automatic lock on thread/connection/stream/...
  follow    : passively follow another source's locked pointer (e.g. session)
  pause     : pause and automatically restart after a specific event
  sink      : list/set event sinks
  start     : start immediately or after a specific event
  stop      : stop immediately or after a specific event
  verbosity : list/set trace output verbosity
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceEventKind;

    const EVENTS: &[TraceEventKind] = &[
        TraceEventKind { name: "s_new", help: "new thing" },
        TraceEventKind { name: "s_end", help: "end of thing" },
    ];

    fn with(check: impl FnOnce(&Traces<'_>, &'static TraceSource)) {
        let source: &'static TraceSource =
            Box::leak(Box::new(TraceSource::new("h1", "HTTP/1 multiplexer", EVENTS)));
        let other: &'static TraceSource =
            Box::leak(Box::new(TraceSource::new("stream", "Applicative stream", EVENTS)));
        let sinks = Sinks::default();
        check(&Traces { sources: &[source, other], sinks: &sinks }, source);
    }

    fn said(traces: &Traces<'_>, line: &str) -> Result<Option<String>, String> {
        traces.command(&line.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn trace_command_lists_equal_haproxys() {
        with(|traces, _| {
            let list = |line: &str| said(traces, line).expect("it is right").expect("a list");
            assert_eq!(
                list(""),
                "Supported trace sources and states (.=stopped, w=waiting, R=running) :\n \
                 [.] 0          : not a source, will immediately stop all traces\n \
                 [.] all        : all sources below, only for 'sink', 'level' and 'follow'\n \
                 [.] h1         : HTTP/1 multiplexer\n \
                 [.] stream     : Applicative stream\n"
            );
            assert_eq!(list("h1"), COMMANDS);
            assert_eq!(
                list("h1 event"),
                "Supported events for source h1 (+=enabled, -=disabled):\n  - none         : disable all event types\n  \
                 - any          : enable all event types\n  + s_new        : new thing\n  + s_end        : end of thing\n"
            );
            assert_eq!(
                list("h1 level").lines().nth(2),
                Some("  * user       : also information useful to the end user")
            );
            assert!(list("h1 verbosity").contains("  * clean      : "));
            assert!(list("h1 lock").contains("  * nothing    : "));
            assert!(
                list("h1 sink").contains("  * none       : ")
                    && list("h1 sink").contains("    buf0       : ")
            );
            assert!(list("h1 start").contains("  - s_new        : new thing"));
            assert_eq!(
                traces.show(None).expect("it is right").lines().nth(1),
                Some(" [.] h1         -> none [drp 0]  [HTTP/1 multiplexer]")
            );
            assert!(
                traces.show(Some("h1")).expect("it is right").contains("  + - - - s_new        : new thing")
            );
        });
    }

    #[test]
    fn one_trace_line_may_contain_several_settings() {
        with(|traces, source| {
            assert_eq!(said(traces, "h1 sink buf0 level developer verbosity complete start now"), Ok(None));
            assert_eq!(source.state(), TraceState::Running);
            assert!(traces.show(None).expect("it is right").contains(" [R] h1         -> buf0 [drp 0]"));
            assert_eq!(said(traces, "h1 start +s_new"), Ok(None));
            assert_eq!(source.state(), TraceState::Waiting);
            assert_eq!(said(traces, "h1 start -s_new"), Ok(None));
            assert_eq!(source.state(), TraceState::Stopped);
            assert_eq!(said(traces, "h1 event none event !s_new event +s_end"), Ok(None));
            assert!(traces.show(Some("h1")).expect("it is right").contains("  - - - - s_new"));
            assert_eq!(said(traces, "all sink stderr level error"), Ok(None));
            said(traces, "h1 start now").expect("it is right");
            assert_eq!(said(traces, "0"), Ok(Some("All traces now stopped\n".to_owned())));
            assert_eq!(source.state(), TraceState::Stopped);
        });
    }

    #[test]
    fn a_source_names_the_criterion_of_its_streams() {
        let own: &'static TraceSource = Box::leak(Box::new(
            TraceSource::new("fcgi", "FastCGI multiplexer", EVENTS).with_streams("fstrm", "FCGI stream"),
        ));
        let sinks = Sinks::default();
        let traces = Traces { sources: &[own], sinks: &sinks };
        assert_eq!(said(&traces, "fcgi lock fstrm"), Ok(None));
        let list = said(&traces, "fcgi lock").expect("it is right").expect("a list");
        assert!(list.ends_with("  * fstrm      : FCGI stream\n") && !list.contains("  stream "), "{list}");
        assert!(said(&traces, "fcgi lock stream").is_err_and(|error| error.contains("fstrm")));
    }

    #[test]
    fn the_follow_setting_selects_a_trace_source_to_follow() {
        with(|traces, source| {
            let list = |line: &str| said(traces, line).expect("it is right").expect("a list");
            assert_eq!(
                list("h1 follow"),
                "Sources that source h1 can follow (*=current):\n  * none       : follow nothing\n    \
                 stream     : Applicative stream\n"
            );
            assert_eq!(said(traces, "h1 follow stream level proto"), Ok(None));
            assert!(list("h1 follow").contains("  * stream     : ") && source.is_active());
            assert_eq!(source.state(), TraceState::Stopped);
            assert_eq!(said(traces, "h1 follow none"), Ok(None));
            assert!(!source.is_active());
            // All sources except the followed one.
            assert_eq!(said(traces, "all follow stream"), Ok(None));
            assert!(source.is_active() && list("stream follow").contains("  * none "));
            assert_eq!(said(traces, "0"), Ok(Some("All traces now stopped\n".to_owned())));
            assert!(!source.is_active());
        });
    }

    #[test]
    fn unknown_words_in_trace_commands_are_rejected() {
        with(|traces, _| {
            for line in [
                "nosuch",
                "h1 foo",
                "h1 level foo",
                "h1 verbosity foo",
                "h1 lock foo",
                "h1 sink foo",
                "h1 event foo",
                "h1 start foo",
                "all start now",
                "h1 follow nosuch",
            ] {
                assert!(said(traces, line).is_err(), "{line}");
            }
        });
    }
}
