//! weir: reads the command line and becomes a worker, or a master that starts one.
//!
//! `main` parses the command line, reads the configuration and serves it. The options are table rows in `arguments`. Serving is in
//! `weir-process`.
//!
//! This crate does not handle sockets, proxies or messages. Begin with `arguments.rs` (the options), then `configuration.rs`
//! (reading and checking the files).

mod arguments;
#[cfg(test)]
mod book;
mod configuration;
mod diff;
mod explain;
mod findings;
mod keywords;
mod lint;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod memory_files;
mod problems;
mod process;
mod reports;
mod version;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;

use weir_observe::messages::{Messages, Verbosity};
use weir_process::process::die_of;
use weir_process::start::{self, ProcessEnd, ProcessOptions};
use weir_process::worker::WorkerLink;

use weir_syntax::SourceMap;

use arguments::{ArgumentFault, Arguments};
use configuration::{ReadOutcome, Superior};
use process::ProcessRole;

#[global_allocator]
static ALLOCATOR: weir_memory::MeasuringAllocator<weir_memory::Mimalloc> =
    weir_memory::MeasuringAllocator::new(weir_memory::Mimalloc);

/// The message output for the whole life of the process.
static MESSAGES: Messages = Messages::new();

/// The exit status of success.
const SUCCESS: u8 = 0;
/// The exit status for a rejected command line or configuration, or a failed start.
const FAILURE: u8 = 1;

fn main() {
    let status = run_program();
    // Skips the exit handlers of libraries. The allocator's handler needs memory, which may have run out, and log writer threads may
    // still be running.
    weir_sys::process::end(status);
}

/// Writes to standard output. Ignores errors: on a full disk or a closed pipe, the exit status is unchanged.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Writes to standard error. Ignores errors.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs the command line and returns the exit status.
fn run_program() -> u8 {
    // Errors are ignored: either the kernel lacks huge pages, or they only cost memory.
    let _ = weir_sys::process::use_small_pages();
    let words: Vec<Vec<u8>> = std::env::args_os().map(OsString::into_vec).collect();
    let texts: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let program = texts.first().map_or("weir", AsRef::as_ref);
    if let Some(("explain", words)) = texts.get(1).map(AsRef::as_ref).zip(texts.get(2..)) {
        return explain(words);
    }
    if let Some(("diff", words)) = texts.get(1).map(AsRef::as_ref).zip(texts.get(2..)) {
        return diff(program, words);
    }
    let linting = texts.get(1).is_some_and(|word| word == "lint");
    let first = if linting { 2 } else { 1 };
    match arguments::parse(texts.iter().skip(first).map(AsRef::as_ref)) {
        Ok(arguments) if linting => lint(program, &arguments),
        Ok(arguments) => run(program, &words, &arguments),
        Err(ArgumentFault::Usage(text)) => {
            MESSAGES.alert(text);
            complain(&arguments::usage(program));
            FAILURE
        }
        Err(ArgumentFault::Text(text)) => {
            MESSAGES.alert(text);
            FAILURE
        }
    }
}

/// `weir explain`.
fn explain(words: &[std::borrow::Cow<'_, str>]) -> u8 {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match explain::explain_line(&words).unwrap_or_else(|| explain::explain(&words)) {
        Ok(text) => {
            say(&text);
            SUCCESS
        }
        Err(text) => {
            complain(&(text + "\n"));
            FAILURE
        }
    }
}

/// `weir diff OLD NEW`.
fn diff(program: &str, words: &[std::borrow::Cow<'_, str>]) -> u8 {
    let [old, new] = words else {
        MESSAGES.alert("'diff' expects two configurations: files or folders.");
        complain(&arguments::usage(program));
        return 2;
    };
    diff::diff(old, new, &MESSAGES)
}

/// `weir lint -f FILE`.
fn lint(program: &str, arguments: &Arguments) -> u8 {
    if arguments.files.is_empty() {
        MESSAGES.alert("'lint' expects '-f' and a configuration file.");
        complain(&arguments::usage(program));
        return 2;
    }
    lint::lint(arguments)
}

fn run(program: &str, words: &[Vec<u8>], arguments: &Arguments) -> u8 {
    if let Some(form) = arguments.version {
        say(&version::text(form));
        return SUCCESS;
    }
    if arguments.help {
        say(&format!("{}{}", version::short(), arguments::usage(program)));
        return SUCCESS;
    }
    if arguments.memory_help {
        say(version::MEMORY_HELP);
        return SUCCESS;
    }
    if arguments.traces.as_deref() == Some("help") {
        say(version::TRACES_HELP);
        return SUCCESS;
    }
    if let Some(classes) = &arguments.keywords {
        say(&keywords::dump(classes));
        return SUCCESS;
    }
    MESSAGES.set_verbosity(verbosity(arguments));
    arguments.without_effect.iter().for_each(|text| MESSAGES.announce(text));
    if let Some(megabytes) = arguments.memory_mb.filter(|&megabytes| megabytes > 0) {
        weir_memory::shortage::limit(megabytes.saturating_mul(1 << 20));
    }
    let origin = process::StartOrigin::new(words);
    if let Some(folder) = &arguments.folder
        && let Err(error) = std::env::set_current_dir(folder)
    {
        MESSAGES.alert(format!("Could not change to directory {} : {error}", folder.display()));
        return FAILURE;
    }
    if let Some(condition) = &arguments.condition {
        return configuration::evaluate(condition, &MESSAGES);
    }
    if arguments.json {
        return checked_for_programs(program, arguments);
    }
    match process::run_role(origin, arguments, &MESSAGES) {
        ProcessRole::Serve(sources, invocation, master) => {
            serve(program, sources, arguments, *invocation, master.as_deref())
        }
        ProcessRole::End(status) => status,
    }
}

/// `-c --format json`.
fn checked_for_programs(program: &str, arguments: &Arguments) -> u8 {
    if !arguments.check || arguments.files.is_empty() {
        MESSAGES.alert("'--format json' is for '-c' and 'lint', with '-f'.");
        complain(&arguments::usage(program));
        return FAILURE;
    }
    configuration::check_as_json(arguments)
}

fn serve(
    program: &str,
    sources: SourceMap,
    arguments: &Arguments,
    invocation: ProcessOptions,
    master: Option<&str>,
) -> u8 {
    let channel = invocation.worker.as_ref().map(WorkerLink::address);
    let master = master.zip(channel).map(|(reached, channel)| Superior { reached, channel });
    let verdict = configuration::load(&sources, arguments, master.as_ref(), &MESSAGES);
    // The parsed configuration no longer refers to the source text.
    drop(sources);
    match verdict {
        ReadOutcome::Serve(prepared) => match start::serve(*prepared, invocation, &MESSAGES) {
            ProcessEnd::Done => SUCCESS,
            ProcessEnd::Failed => FAILURE,
            ProcessEnd::Signal(signal) => die_of(signal),
        },
        ReadOutcome::Valid => SUCCESS,
        ReadOutcome::Idle => 2,
        ReadOutcome::Usage => {
            complain(&arguments::usage(program));
            FAILURE
        }
        ReadOutcome::Refused => FAILURE,
    }
}

fn verbosity(arguments: &Arguments) -> Verbosity {
    match (arguments.quiet, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}
