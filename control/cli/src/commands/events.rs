//! `show events`: the event sinks, and the contents of rings.

use weir_sync::ring::{ReadEnd, ReaderWait, RingReader, Seek};

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::CommandTarget;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show events",
    syntax: "show events [<sink>] [-w] [-n] [-0]",
    level: Level::User,
    flags: WORKER,
    help: "list the event sinks, or read one (-w: wait for more, -n: only new ones, -0: end each with NUL)",
    run: Some(show),
}];

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return CommandOutcome::Text(list(context.target));
    }
    // Events contain client addresses and requests.
    if context.modes.level < Level::Operator {
        return CommandOutcome::denied();
    }
    let Some(sink) = context.target.sinks().find(name) else {
        return CommandOutcome::error("No such event sink\n");
    };
    let Some(ring) = sink.as_ring() else {
        return CommandOutcome::error("Nothing to report for this sink\n");
    };
    let flags = match EventsFlags::parse(arguments.from(1)) {
        Ok(flags) => flags,
        Err(refused) => return refused,
    };
    let wait = if flags.wait { ReaderWait::Woken(context.target.waker()) } else { ReaderWait::No };
    let seek = if flags.new { Seek::End } else { Seek::Oldest };
    match ring.attach(seek, wait) {
        Ok(reader) => CommandOutcome::Stream(Box::new(ShowEvents { reader, flags })),
        Err(error) => CommandOutcome::error(format!("Cannot read the events: {error}.\n")),
    }
}

fn list(target: &dyn CommandTarget) -> String {
    let mut text =
        "Supported events sinks are listed below. Add -0(zero), -w(wait), -n(new). Any key to stop.\n"
            .to_owned();
    for sink in target.sinks().all() {
        let (name, kind, dropped) = (&sink.name, sink.kind(), sink.dropped());
        text.push_str(&format!("    {name:<10} : type={kind}, {dropped} dropped, {}\n", sink.description));
    }
    text
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EventsFlags {
    /// `-w`.
    wait: bool,
    /// `-n`.
    new: bool,
    /// `-0`.
    zero: bool,
}

impl EventsFlags {
    /// Flags may be separate or combined: `-w -n`, `-wn`.
    fn parse(words: &[String]) -> Result<Self, CommandOutcome> {
        let mut flags = EventsFlags::default();
        for word in words.iter().filter(|word| !word.is_empty()) {
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                return Err(CommandOutcome::error("unknown option\n"));
            };
            for letter in letters.chars() {
                match letter {
                    'w' => flags.wait = true,
                    'n' => flags.new = true,
                    '0' => flags.zero = true,
                    _ => return Err(CommandOutcome::error("unknown option\n")),
                }
            }
        }
        Ok(flags)
    }
}

/// Writes the contents of the ring. With `-w`, then waits for new events.
struct ShowEvents {
    reader: RingReader,
    flags: EventsFlags,
}

impl AnswerStream for ShowEvents {
    fn advance(&mut self, _: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        loop {
            let end = if self.flags.zero { 0 } else { b'\n' };
            let progress = self.reader.read(|message| {
                let room = out.len() < enough;
                if room {
                    message.append_to(out);
                    out.push(end);
                }
                room
            });
            return match progress {
                ReadEnd::Stopped | ReadEnd::Busy => AnswerStep::More,
                ReadEnd::End if !self.flags.wait => AnswerStep::Done,
                ReadEnd::End if self.reader.sleep() => AnswerStep::Watch,
                ReadEnd::End => continue,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: Option<EventsFlags>) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(EventsFlags::parse(&words).ok(), expected, "{words:?}");
    }

    #[test]
    fn parses_show_events_flags_alone_and_combined() {
        check("", Some(EventsFlags::default()));
        check("-w -n -0", Some(EventsFlags { wait: true, new: true, zero: true }));
        check("-wn", Some(EventsFlags { wait: true, new: true, zero: false }));
        check("-nw0", Some(EventsFlags { wait: true, new: true, zero: true }));
        check("-x", None);
        check("w", None);
        check("-", None);
    }
}
