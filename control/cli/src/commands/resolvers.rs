//! Name servers: `show resolvers`, `show stat domain resolvers`.

use std::fmt::Write;

use weir_stats::Format;

use crate::command::{Arguments, Command, Context, WORKER};
use crate::level::Level;
use crate::outcome::Outcome;
use crate::target::NameServerView;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show resolvers",
    syntax: "show resolvers [id]",
    level: Level::User,
    flags: WORKER,
    help: "show the counters of name servers",
    run: Some(show_resolvers),
}];

/// What is counted of a name server: its name in `show resolvers`, and the one in the statistics (management manual).
const FIGURES: [(&str, &str); NameServerView::FIGURES] = [
    ("sent", "sent"),
    ("snd_error", "send_error"),
    ("valid", "valid"),
    ("update", "update"),
    ("cname", "cname"),
    ("cname_error", "cname_error"),
    ("any_err", "any_err"),
    ("nx", "nx"),
    ("timeout", "timeout"),
    ("refused", "refused"),
    ("other", "other"),
    ("invalid", "invalid"),
    ("too_big", "too_big"),
    ("truncated", "truncated"),
    ("outdated", "outdated"),
];

fn show_resolvers(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let wanted = arguments.word(0);
    let sections = context.target.resolvers();
    if !wanted.is_empty() && !sections.iter().any(|(name, _)| name == wanted) {
        return Outcome::error("Can't find that resolvers section\n");
    }
    let mut text = String::new();
    for (name, servers) in sections.iter().filter(|(name, _)| wanted.is_empty() || name == wanted) {
        let _ = writeln!(text, "Resolvers section {name}");
        for server in servers {
            let _ = writeln!(text, " nameserver {}:", server.name);
            for ((label, _), figure) in FIGURES.iter().zip(server.figures) {
                let _ = writeln!(text, "  {:<12} {figure}", format!("{label}:"));
            }
        }
    }
    Outcome::Text(text)
}

/// The statistics of all name servers.
pub(super) fn statistics(context: &mut Context<'_>, format: Format) -> Outcome {
    let sections = context.target.resolvers();
    let servers =
        sections.iter().flat_map(|(section, servers)| servers.iter().map(move |server| (section, server)));
    let mut text = String::new();
    match format {
        Format::Csv => {
            text.push_str("# id,pid,");
            FIGURES.iter().for_each(|(_, name)| _ = write!(text, "{name},"));
            text.push('\n');
            for (section, server) in servers {
                let _ = write!(text, "{},{section},", server.name);
                server.figures.iter().for_each(|figure| _ = write!(text, "{figure},"));
                text.push('\n');
            }
        }
        Format::Typed => {
            for (section, server) in servers {
                let _ = writeln!(text, "N.0.id:CGPV:str:{}", server.name);
                let _ = writeln!(text, "N.1.pid:CGPV:str:{section}");
                for (at, ((_, name), figure)) in FIGURES.iter().zip(server.figures).enumerate() {
                    let _ = writeln!(text, "N.{}.{name}:MGPV:u64:{figure}", at + 2);
                }
            }
        }
        _ => return Outcome::error("'show stat domain resolvers json' is not implemented yet.\n"),
    }
    Outcome::Text(text)
}
