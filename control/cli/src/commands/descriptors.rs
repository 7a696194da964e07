//! `show fd`.

use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::answer;
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CommandTarget, DescriptorRole, DescriptorView, ListPosition, NextDescriptor};

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show fd",
    syntax: "show fd [-!plcfbs]* [num]",
    level: Level::Operator,
    flags: WORKER,
    help: "list the file descriptors in use",
    run: Some(show),
}];

/// The letters in the manual, and the roles selected by each. Workers do not register pipes, so the letter for pipes selects nothing.
const LETTERS: [(char, &[DescriptorRole]); 6] = [
    ('p', &[]),
    ('l', &[DescriptorRole::Listener]),
    ('c', &[DescriptorRole::Client, DescriptorRole::Server]),
    ('f', &[DescriptorRole::Client]),
    ('b', &[DescriptorRole::Server]),
    ('s', &[DescriptorRole::Server]),
];

fn show(_: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        Ok(CommandOutcome::Stream(Box::new(ShowDescriptors::of(
            arguments.from(0).iter().map(String::as_str),
        )?)))
    })
}

/// A listing in progress.
#[derive(Default)]
struct ShowDescriptors {
    /// The selected roles. `None` for all.
    selected: Option<Vec<DescriptorRole>>,
    excluded: Vec<DescriptorRole>,
    number: Option<i32>,
    place: ListPosition,
    shown: u64,
}

impl ShowDescriptors {
    /// The listing selected by these words.
    fn of<'w>(words: impl Iterator<Item = &'w str>) -> Result<Self, CommandOutcome> {
        let mut listing = ShowDescriptors::default();
        for word in words.filter(|word| !word.is_empty()) {
            if let Ok(number) = word.parse::<i32>()
                && number >= 0
            {
                listing.number = Some(number);
                continue;
            }
            let mut excludes = false;
            for letter in word.chars() {
                if matches!(letter, '-' | '!') {
                    excludes = !excludes;
                    continue;
                }
                let Some((_, roles)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
                    let text = format!(
                        "'{letter}' selects no descriptors: expects letters of 'plcfbs', or a number.\n"
                    );
                    return Err(CommandOutcome::error(text));
                };
                match excludes {
                    true => listing.excluded.extend_from_slice(roles),
                    false => listing.selected.get_or_insert_default().extend_from_slice(roles),
                }
            }
        }
        Ok(listing)
    }

    fn wants(&self, view: &DescriptorView) -> bool {
        self.number.is_none_or(|number| number == view.number)
            && self.selected.as_ref().is_none_or(|selected| selected.contains(&view.role))
            && !self.excluded.contains(&view.role)
    }
}

impl AnswerStream for ShowDescriptors {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        for _ in 0..LOOKED_AT {
            if out.len() >= enough {
                break;
            }
            match target.next_descriptor(&mut self.place) {
                NextDescriptor::Descriptor(view) if self.wants(&view) => {
                    self.shown += 1;
                    out.extend_from_slice(line(&view).as_bytes());
                }
                NextDescriptor::Descriptor(_) => {}
                NextDescriptor::Pending => return AnswerStep::Pending,
                NextDescriptor::None => {
                    if let Some(number) = self.number.filter(|_| self.shown == 0) {
                        out.extend_from_slice(format!("Descriptor {number} is not registered.\n").as_bytes());
                    }
                    return AnswerStep::Done;
                }
            }
        }
        AnswerStep::More
    }
}

/// Maximum number of descriptors visited, listed or not, before other tasks run.
const LOOKED_AT: usize = 64;

/// Writes one line. States are letters, in upper case if true: readable, writable, closed by the peer, hung up, error.
fn line(view: &DescriptorView) -> String {
    let states = [
        ('r', view.is_readable),
        ('w', view.is_writable),
        ('f', view.peer_closed),
        ('h', view.is_hung_up),
        ('e', view.has_error),
    ];
    let states: String = states
        .iter()
        .map(|(letter, holds)| if *holds { letter.to_ascii_uppercase() } else { *letter })
        .collect();
    let role = match view.role {
        DescriptorRole::Listener => "listener",
        DescriptorRole::Client => "client",
        DescriptorRole::Server => "server",
        DescriptorRole::Other => "other",
    };
    let mut text = format!("{:>7} : st={states} {role} worker={}", view.number, view.worker);
    match view.kind {
        Some(kind) => _ = write!(text, " owner=0x{:x}({kind})", view.owner),
        None => text.push_str(" owner=none"),
    }
    let streams = view.streams.map(|count| count.to_string());
    let details = [
        ("fe", &view.frontend),
        ("be", &view.backend),
        ("srv", &view.server),
        ("streams", &streams),
        ("local", &view.local),
        ("peer", &view.peer),
    ];
    for (name, value) in details {
        if let Some(value) = value {
            let _ = write!(text, " {name}={value}");
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_fd_prints_the_owner_of_a_descriptor() {
        let mut view = DescriptorView {
            number: 12,
            worker: 1,
            role: DescriptorRole::Server,
            owner: 0x1f,
            kind: Some("connection"),
            is_readable: true,
            is_writable: false,
            peer_closed: true,
            is_hung_up: false,
            has_error: true,
            frontend: Some("f".to_owned()),
            backend: Some("b".to_owned()),
            server: Some("s".to_owned()),
            streams: Some(2),
            local: Some("127.0.0.1:1".to_owned()),
            peer: Some("127.0.0.1:2".to_owned()),
        };
        let whole = "     12 : st=RwFhE server worker=1 owner=0x1f(connection) fe=f be=b srv=s streams=2 local=127.0.0.1:1 peer=127.0.0.1:2\n";
        assert_eq!(line(&view), whole);
        (view.kind, view.frontend, view.backend, view.server) = Default::default();
        (view.streams, view.local, view.peer) = Default::default();
        assert_eq!(line(&view), "     12 : st=RwFhE server worker=1 owner=none\n");
    }

    #[test]
    fn show_fd_letters_select_or_exclude_kinds_of_descriptors() {
        use DescriptorRole::*;
        let shown = |words: &str| {
            let listing = ShowDescriptors::of(words.split(' ')).ok()?;
            let view = |role| DescriptorView { role, number: 1, ..DescriptorView::default() };
            let wanted =
                [Listener, Client, Server, Other].into_iter().filter(|role| listing.wants(&view(*role)));
            Some(wanted.collect::<Vec<_>>())
        };
        for (words, roles) in [
            ("", &[Listener, Client, Server, Other][..]),
            ("!l", &[Client, Server, Other]),
            ("c!s", &[Client]),
            ("-lc f", &[]),
            ("!l-c", &[Client, Server]),
            ("p", &[]),
            ("1", &[Listener, Client, Server, Other]),
            ("b 1", &[Server]),
            ("2", &[]),
        ] {
            assert_eq!(shown(words).as_deref(), Some(roles), "{words}");
        }
        assert_eq!(shown("x"), None);
    }
}
