//! Name servers: `show resolvers`, `show stat domain resolvers`.

use std::fmt::Write as _;
use std::io::Write as _;

use weir_stats::name_server::{COUNTERS, NameServerCounter};
use weir_stats::render::{write_json_tags_and_value, write_type_and_value};
use weir_stats::{FieldValue, Format};

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::CommandOutcome;
use crate::target::NameServerView;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show resolvers",
    syntax: "show resolvers [id]",
    level: Level::User,
    flags: WORKER,
    help: "show the counters of name servers",
    run: Some(show_resolvers),
}];

fn show_resolvers(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let wanted = arguments.word(0);
    let sections = context.target.resolvers();
    if !wanted.is_empty() && !sections.iter().any(|(name, _)| name == wanted) {
        return CommandOutcome::error("Can't find that resolvers section\n");
    }
    let mut text = String::new();
    for (name, servers) in sections.iter().filter(|(name, _)| wanted.is_empty() || name == wanted) {
        let _ = writeln!(text, "Resolvers section {name}");
        for server in servers {
            let _ = writeln!(text, " nameserver {}:", server.name);
            for (NameServerCounter { label, .. }, count) in COUNTERS.iter().zip(server.counters) {
                let _ = writeln!(text, "  {:<12} {count}", format!("{label}:"));
            }
        }
    }
    CommandOutcome::Text(text)
}

/// Writes the statistics of all name servers.
pub(super) fn statistics(
    context: &mut CommandContext<'_>,
    format: Format,
    descriptions: bool,
) -> CommandOutcome {
    let sections = context.target.resolvers();
    let servers =
        sections.iter().flat_map(|(section, servers)| servers.iter().map(move |server| (&**section, server)));
    let mut out = Vec::new();
    match format {
        Format::Csv => {
            out.extend_from_slice(b"# id,pid,");
            COUNTERS.iter().for_each(|counter| _ = write!(out, "{},", counter.name));
            out.push(b'\n');
            for (section, server) in servers {
                let _ = write!(out, "{},{section},", server.name);
                server.counters.iter().for_each(|counter| _ = write!(out, "{counter},"));
                out.push(b'\n');
            }
        }
        Format::Typed => {
            for (at, item) in servers.flat_map(|(section, server)| items(section, server).enumerate()) {
                let _ = write!(out, "N.{at}.{}:{}:", item.name, item.tags);
                write_type_and_value(item.value, &mut out);
                if descriptions {
                    let _ = write!(out, ":\"{}\"", item.description);
                }
                out.push(b'\n');
            }
        }
        Format::Json => {
            let mut separator = "[";
            for (section, server) in servers {
                let _ = write!(out, "{separator}[");
                for (at, item) in items(section, server).enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    let _ = write!(out, "{comma}{{\"field\":{{\"pos\":{at},\"name\":\"{}\"}},", item.name);
                    write_json_tags_and_value(item.tags, item.value, &mut out);
                }
                out.push(b']');
                separator = ",";
            }
            // Without any name server the JSON list is empty.
            out.extend_from_slice(if separator == "[" { b"[]\n" } else { b"]\n" });
        }
    }
    CommandOutcome::Text(String::from_utf8(out).expect("names and values are text"))
}

/// A counter of a name server in the statistics.
struct CounterItem<'s> {
    name: &'static str,
    tags: &'static str,
    description: &'static str,
    value: FieldValue<'s>,
}

/// The statistics of one name server.
fn items<'s>(section: &'s str, server: &'s NameServerView) -> impl Iterator<Item = CounterItem<'s>> {
    let text = |name, description, value| CounterItem {
        name,
        tags: "CGPV",
        description,
        value: FieldValue::Text(value),
    };
    let counters = COUNTERS.iter().zip(server.counters).map(|(counter, count)| CounterItem {
        name: counter.name,
        tags: "MGPV",
        description: counter.description,
        value: FieldValue::U64(count),
    });
    [text("id", "ID", &*server.name), text("pid", "Parent ID", section)].into_iter().chain(counters)
}
