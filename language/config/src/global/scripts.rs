//! Words that load Lua scripts and bound them.

use std::time::Duration;

use weir_syntax::{Diagnostic, Files, Word, error_text};

use super::context::{GlobalContext, GlobalReader};
use crate::numbers::delay_of;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::scripts::{ModuleKind, ScriptFile};
use crate::words::{Parsed, Words, fault};
use weir_model::{LoadedScript, ScriptPrinting, ScriptSettings};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "lua-load",
        "<file> [ <arg1> [ <arg2> [ ... ] ] ]",
        "/etc/weir/shop.lua strict",
        "run a Lua script in the state that all threads share; it registers actions, fetches, converters and services",
        |line, words| load(line, words, false),
    ),
    Row::<GlobalReader>::ready(
        "lua-load-per-thread",
        "<file> [ <arg1> [ <arg2> [ ... ] ] ]",
        "/etc/weir/shop.lua strict",
        "run a Lua script in a state of each thread: threads do not wait for each other, and do not share variables",
        |line, words| load(line, words, true),
    ),
    Row::<GlobalReader>::ready(
        "lua-prepend-path",
        "<string> [<type>]",
        "/etc/weir/lua/?.lua",
        "where 'require' looks first for modules of Lua ('path') or of C ('cpath'); '?' is the name of the module",
        |line, words| {
            let pattern = words.expect(&format!("'{}' expects to receive a <path> as argument", line.keyword))?;
            let kind = match words.take() {
                None => ModuleKind::Lua,
                Some(word) if word.text() == "path" => ModuleKind::Lua,
                Some(word) if word.text() == "cpath" => ModuleKind::C,
                Some(word) => {
                    let message = format!("'{}' expects <type> to either be 'path' or 'cpath'", line.keyword);
                    return Err(fault(word.span(), message));
                }
            };
            words.end(line.keyword)?;
            line.resources.scripts.prepend_path(pattern.text(), kind);
            let variable = if kind == ModuleKind::Lua { "path" } else { "cpath" };
            line.global.scripts.paths.push((pattern.text().into(), variable));
            Ok(())
        },
    )
    .default(Described("the paths of Lua 5.4")),
    Row::<GlobalReader>::ready(
        "tune.lua.bool-sample-conversion",
        "{ normal | pre-3.1-bug }",
        "normal",
        "whether boolean samples are booleans in scripts ('normal'), or 0 and 1; before the scripts",
        |line, words| {
            line.global.scripts.keeps_booleans =
                Some(line.choice(words, &["normal", "pre-3.1-bug"])? == "normal");
            Ok(())
        },
    )
    .default(Described("pre-3.1-bug, with a warning")),
    Row::<GlobalReader>::ready(
        "tune.lua.burst-timeout",
        "<timeout>",
        "500ms",
        "how long a script may compute without a pause (0: no limit)",
        |line, words| {
            line.global.scripts.burst = time(line, words)?;
            Ok(())
        },
    )
    .default(Written("1000ms")),
    Row::<GlobalReader>::ready(
        "tune.lua.forced-yield",
        "<number>",
        "5000",
        "the instructions of Lua after which other tasks of the thread run",
        |line, words| {
            let word = words.take().map_or("0", Word::text);
            let number = word.parse().map_err(|_| words.fault(format!("{}: invalid number", line.keyword)))?;
            line.global.scripts.slice = (number > 0).then_some(number);
            words.end(line.keyword)
        },
    )
    .default(Described("10000; in the shared state divided by the threads, at least 500")),
    Row::<GlobalReader>::ready(
        "tune.lua.log.loggers",
        "{ on | off }",
        "off",
        "whether messages of scripts go to the loggers of the proxy",
        |line, words| {
            line.global.scripts.logs = line.switch(words)?;
            Ok(())
        },
    )
    .default(Written("on")),
    Row::<GlobalReader>::ready(
        "tune.lua.log.stderr",
        "{ on | auto | off }",
        "off",
        "whether messages of scripts go to the error output, too; 'auto': if no logger takes them",
        |line, words| {
            line.global.scripts.prints = match line.choice(words, &["on", "auto", "off"])? {
                "on" => ScriptPrinting::On,
                "off" => ScriptPrinting::Off,
                _ => ScriptPrinting::Auto,
            };
            Ok(())
        },
    )
    .default(Written("auto")),
    Row::<GlobalReader>::ready(
        "tune.lua.maxmem",
        "<number>",
        "64",
        "the memory of all scripts, in megabytes (0: no limit)",
        |line, words| {
            let expects = format!("'{}' expects an integer argument (Lua memory size in MB).", line.keyword);
            let word = words.expect(&expects)?;
            line.global.scripts.megabytes = word.text().parse().map_err(|_| {
                fault(word.span(), format!("{}: invalid number {}", line.keyword, word.text()))
            })?;
            words.end(line.keyword)
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "tune.lua.openlibs",
        "[all | none | <lib>[,<lib>...]]",
        "string,table,math",
        "the standard libraries that scripts may use: table, io, os, string, math, utf8, package, debug; before the scripts",
        |line, words| {
            let word = words.expect(&format!("'{}' expects 'all', 'none' or libraries.", line.keyword))?;
            line.global.scripts.libraries = libraries(word)?;
            words.end(line.keyword)
        },
    )
    .default(Written("all")),
    Row::<GlobalReader>::ready(
        "tune.lua.service-timeout",
        "<timeout>",
        "2s",
        "how long a service of a script may compute, its pauses apart (0: no limit)",
        |line, words| {
            line.global.scripts.service = time(line, words)?;
            Ok(())
        },
    )
    .default(Written("4s")),
    Row::<GlobalReader>::ready(
        "tune.lua.session-timeout",
        "<timeout>",
        "2s",
        "how long an action of a script may compute, its pauses apart (0: no limit)",
        |line, words| {
            line.global.scripts.session = time(line, words)?;
            Ok(())
        },
    )
    .default(Written("4s")),
    Row::<GlobalReader>::ready(
        "tune.lua.task-timeout",
        "<timeout>",
        "1m",
        "how long a task of a script may compute, its pauses apart (0: no limit)",
        |line, words| {
            line.global.scripts.task = time(line, words)?;
            Ok(())
        },
    )
    .default(Written("0")),
];

/// `lua-load` and `lua-load-per-thread`: runs the script now.
fn load(line: &mut GlobalContext<'_>, words: &mut Words<'_>, per_thread: bool) -> Parsed {
    let file = words.expect(&format!("'{}' expects a file name as parameter.", line.keyword))?;
    let mut arguments = Vec::new();
    while let Some(word) = words.take() {
        arguments.push(word.text());
    }
    let path = file.text();
    let text = line.world.read(path, MAX_SIZE).map_err(|error| {
        let reason = error_text(&error);
        fault(file.span(), format!("error in Lua file '{path}': cannot open {path}: {reason}"))
    })?;
    let script = ScriptFile { path, text: &text, arguments: &arguments, per_thread };
    line.global.scripts.files.push(LoadedScript {
        path: path.into(),
        arguments: arguments.iter().map(|word| (*word).into()).collect(),
        per_thread,
        text: text.as_slice().into(),
    });
    let warnings = line
        .resources
        .scripts
        .load(script, &line.global.scripts)
        .map_err(|message| fault(file.span(), message))?;
    for warning in warnings {
        line.diagnostics.push(Diagnostic::warning(file.span(), warning));
    }
    Ok(())
}

/// A time. `None` for 0.
fn time(line: &GlobalContext<'_>, words: &mut Words<'_>) -> Parsed<Option<Duration>> {
    let invalid = format!("{}: invalid timeout", line.keyword);
    let word = words.expect(&invalid)?;
    let time = delay_of(words, word, line.keyword).map_err(|_| fault(word.span(), invalid))?;
    words.end(line.keyword)?;
    Ok(Some(time).filter(|time| !time.is_zero()))
}

fn libraries(word: &Word) -> Parsed<Vec<&'static str>> {
    match word.text() {
        "all" => return Ok(ScriptSettings::LIBRARIES.to_vec()),
        "none" => return Ok(Vec::new()),
        _ => {}
    }
    let known = |name: &str| ScriptSettings::LIBRARIES.into_iter().find(|known| *known == name);
    let find = |name: &str| {
        let expects = ScriptSettings::LIBRARIES.join(", ");
        known(name).ok_or_else(|| {
            fault(word.span(), format!("'tune.lua.openlibs' does not know '{name}': it knows {expects}."))
        })
    };
    word.text().split(',').map(find).collect()
}

/// The largest script, in bytes.
const MAX_SIZE: u64 = 16 << 20;
