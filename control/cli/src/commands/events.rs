//! `show events`: the event sinks, and the contents of rings.

use weir_sync::ring::{ReadEnd, ReaderWait, RingReader, Seek};

use crate::command::{Arguments, Command, Context, WORKER};
use crate::level::Level;
use crate::outcome::{Outcome, Step, Stream};
use crate::target::Target;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show events",
    syntax: "show events [<sink>] [-w] [-n] [-0]",
    level: Level::User,
    flags: WORKER,
    help: "list the event sinks, or read one (-w: wait for more, -n: only new ones, -0: end each with NUL)",
    run: Some(show),
}];

fn show(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return Outcome::Text(list(context.target));
    }
    // Events contain addresses and requests of clients.
    if context.modes.level < Level::Operator {
        return Outcome::denied();
    }
    let Some(sink) = context.target.sinks().find(name) else {
        return Outcome::error("No such event sink\n");
    };
    let Some(ring) = sink.as_ring() else {
        return Outcome::error("Nothing to report for this sink\n");
    };
    let flags = match Flags::parse(arguments.from(1)) {
        Ok(flags) => flags,
        Err(refused) => return refused,
    };
    let wait = if flags.wait { ReaderWait::Woken(context.target.waker()) } else { ReaderWait::No };
    let seek = if flags.new { Seek::End } else { Seek::Oldest };
    match ring.attach(seek, wait) {
        Ok(reader) => Outcome::Stream(Box::new(ShowEvents { reader, flags })),
        Err(error) => Outcome::error(format!("Cannot read the events: {error}.\n")),
    }
}

fn list(target: &dyn Target) -> String {
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
struct Flags {
    /// `-w`.
    wait: bool,
    /// `-n`.
    new: bool,
    /// `-0`.
    zero: bool,
}

impl Flags {
    /// Flags may be separate or combined: `-w -n`, `-wn`.
    fn parse(words: &[String]) -> Result<Self, Outcome> {
        let mut flags = Flags::default();
        for word in words.iter().filter(|word| !word.is_empty()) {
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                return Err(Outcome::error("unknown option\n"));
            };
            for letter in letters.chars() {
                match letter {
                    'w' => flags.wait = true,
                    'n' => flags.new = true,
                    '0' => flags.zero = true,
                    _ => return Err(Outcome::error("unknown option\n")),
                }
            }
        }
        Ok(flags)
    }
}

/// The contents of the ring, and with `-w` new events.
struct ShowEvents {
    reader: RingReader,
    flags: Flags,
}

impl Stream for ShowEvents {
    fn advance(&mut self, _: &mut dyn Target, enough: usize, out: &mut Vec<u8>) -> Step {
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
                ReadEnd::Stopped | ReadEnd::Busy => Step::More,
                ReadEnd::End if !self.flags.wait => Step::Done,
                ReadEnd::End if self.reader.sleep() => Step::Watch,
                ReadEnd::End => continue,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: Option<Flags>) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(Flags::parse(&words).ok(), expected, "{words:?}");
    }

    #[test]
    fn parses_flags_alone_and_combined() {
        check("", Some(Flags::default()));
        check("-w -n -0", Some(Flags { wait: true, new: true, zero: true }));
        check("-wn", Some(Flags { wait: true, new: true, zero: false }));
        check("-nw0", Some(Flags { wait: true, new: true, zero: true }));
        check("-x", None);
        check("w", None);
        check("-", None);
    }
}
