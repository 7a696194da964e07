//! `show stat`, `show info`, `show latency`, `show schema json`.

use weir_stats::{
    DumpProgress, Format, InfoRow, LatencyDump, RowSelection, StatsDump, StatsRow, schema::SCHEMA,
};

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::CommandTarget;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show stat",
        syntax: "show stat [desc|json|no-maint|typed|up]*",
        level: Level::User,
        flags: WORKER,
        help: "print the counters of proxies, servers and listeners",
        run: Some(show_stat),
    },
    Command {
        name: "show info",
        syntax: "show info [desc|json|typed|float]*",
        level: Level::User,
        flags: WORKER,
        help: "print the state and the counters of the process",
        run: Some(show_info),
    },
    Command {
        name: "show latency",
        syntax: "show latency [<proxy>[/<name>]] [json]",
        level: Level::User,
        flags: WORKER,
        help: "print percentiles of queue, connect, response and total times, in microseconds",
        run: Some(show_latency),
    },
    Command {
        name: "show schema json",
        syntax: "show schema json",
        level: Level::User,
        flags: WORKER,
        help: "print the schema of JSON answers",
        run: Some(|_, _| CommandOutcome::Text(SCHEMA.to_owned())),
    },
];

fn show_info(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let options = DumpOptions::parse(arguments.from(0));
    let mut info = InfoRow::new();
    context.target.stats().info(options.float, &mut info);
    let mut out = Vec::new();
    info.write(options.format, options.descriptions, &mut out);
    CommandOutcome::Text(String::from_utf8(out).expect("names and values are text"))
}

fn show_stat(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let mut words = arguments.from(0);
    if words.first().is_some_and(|word| word == "domain") {
        match words.get(1).map(String::as_str) {
            Some("proxy") => words = &words[2..],
            Some("resolvers") => {
                let options = DumpOptions::parse(&words[2..]);
                return super::resolvers::statistics(context, options.format, options.descriptions);
            }
            _ => return CommandOutcome::error("Invalid statistics domain.\n"),
        }
    }
    let mut selection = RowSelection::default();
    if let Some((kinds, object)) = kinds_and_object(words) {
        let proxy = &words[0];
        let proxy_id = proxy.parse::<i64>().ok().or_else(|| context.target.proxy_id(proxy).map(i64::from));
        let Some(proxy_id) = proxy_id else { return CommandOutcome::error("No such proxy.\n") };
        // -1, like any negative number, means all.
        selection.proxy_id = u32::try_from(proxy_id).ok();
        selection.kinds = kinds as u32;
        selection.object_id = u32::try_from(object).ok();
        words = &words[3..];
    }
    let options = DumpOptions::parse(words);
    selection.only_up = options.only_up;
    selection.no_maintenance = options.no_maintenance;
    // Level user must not see details of the internal network.
    let legends = context.modes.level >= Level::Operator;
    let dump = StatsDump::new(options.format, options.descriptions, legends, selection);
    CommandOutcome::Stream(Box::new(ShowStat { dump, row: StatsRow::default() }))
}

fn show_latency(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let mut words = arguments.from(0);
    let json = words.last().is_some_and(|word| word == "json");
    words = &words[..words.len() - usize::from(json)];
    let mut selection = RowSelection::default();
    let mut object = None;
    if let Some(word) = words.first() {
        let (proxy, name) =
            word.split_once('/').map_or((word.as_str(), None), |(proxy, name)| (proxy, Some(name)));
        selection.proxy_id = context.target.proxy_id(proxy);
        if selection.proxy_id.is_none() {
            return CommandOutcome::error("No such proxy.\n");
        }
        object = name.map(str::to_owned);
    }
    let dump = LatencyDump::new(json, selection, object);
    CommandOutcome::Stream(Box::new(ShowLatency { dump, row: StatsRow::default() }))
}

/// Parses the numbers in `<proxy> <type> <sid>`. `None` if the words begin differently.
fn kinds_and_object(words: &[String]) -> Option<(i32, i32)> {
    Some((words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?))
}

/// Options in any order. Unknown words are ignored, as in HAProxy.
#[derive(Default)]
struct DumpOptions {
    format: Format,
    descriptions: bool,
    float: bool,
    only_up: bool,
    no_maintenance: bool,
}

impl DumpOptions {
    fn parse(words: &[String]) -> Self {
        let mut options = Self::default();
        for word in words {
            match word.as_str() {
                "typed" => options.format = Format::Typed,
                "json" => options.format = Format::Json,
                "desc" => options.descriptions = true,
                "float" => options.float = true,
                "up" => options.only_up = true,
                "no-maint" => options.no_maintenance = true,
                _ => {}
            }
        }
        options
    }
}

struct ShowStat {
    dump: StatsDump,
    row: StatsRow,
}

struct ShowLatency {
    dump: LatencyDump,
    row: StatsRow,
}

impl AnswerStream for ShowLatency {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        match self.dump.advance(target.stats(), &mut self.row, enough, out) {
            DumpProgress::More => AnswerStep::More,
            DumpProgress::Done => AnswerStep::Done,
        }
    }
}

impl AnswerStream for ShowStat {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        match self.dump.advance(target.stats(), &mut self.row, enough, out) {
            DumpProgress::More => AnswerStep::More,
            DumpProgress::Done => AnswerStep::Done,
        }
    }
}
