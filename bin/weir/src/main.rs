//! weir: reads the command line and becomes a worker, or a master that starts one.
//!
//! `main` can be read aloud: what does the command line ask for, what does the configuration say, serve it. The
//! options are rows in `arguments`; everything that happens then is in `weir-runtime`.
//!
//! It refuses to know what serving means: no socket, no proxy, no message. Begin with `arguments.rs` (what may be asked),
//! then `configuration.rs` (what the files say, and whether that is valid).

mod arguments;
mod configuration;
mod keywords;
#[cfg(test)]
mod manual;
mod process;
mod reports;
mod version;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use weir_runtime::messages::{Manner, Messages};
use weir_runtime::process::die_of;
use weir_runtime::start::{self, End, Invocation};
use weir_runtime::worker::WorkerLink;

use weir_syntax::SourceMap;

use arguments::{Arguments, Fault};
use configuration::{ReadOutcome, Superior};
use process::Role;

#[global_allocator]
static ALLOCATOR: weir_memory::Measured<mimalloc::MiMalloc> = weir_memory::Measured::new(mimalloc::MiMalloc);

/// What the process says, from its first to its last moment.
static MESSAGES: Messages = Messages::new();

fn main() -> ExitCode {
    // A kernel without the choice has no huge pages either, or only costs memory with them.
    let _ = weir_sys::process::use_small_pages();
    let words: Vec<Vec<u8>> = std::env::args_os().map(OsString::into_vec).collect();
    let texts: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let program = texts.first().map_or("weir", AsRef::as_ref);
    match arguments::parse(texts.iter().skip(1).map(AsRef::as_ref)) {
        Ok(arguments) => run(program, &words, &arguments),
        Err(Fault::Usage(text)) => {
            MESSAGES.alert(text);
            eprint!("{}", arguments::usage(program));
            ExitCode::FAILURE
        }
        Err(Fault::Text(text)) => {
            MESSAGES.alert(text);
            ExitCode::FAILURE
        }
    }
}

fn run(program: &str, words: &[Vec<u8>], arguments: &Arguments) -> ExitCode {
    if let Some(form) = arguments.version {
        print!("{}", version::text(form));
        return ExitCode::SUCCESS;
    }
    if arguments.help {
        print!("{}{}", version::short(), arguments::usage(program));
        return ExitCode::SUCCESS;
    }
    if arguments.memory_help {
        print!("{}", version::MEMORY_HELP);
        return ExitCode::SUCCESS;
    }
    if arguments.traces.as_deref() == Some("help") {
        print!("{}", version::TRACES_HELP);
        return ExitCode::SUCCESS;
    }
    if let Some(classes) = &arguments.keywords {
        print!("{}", keywords::dump(classes));
        return ExitCode::SUCCESS;
    }
    MESSAGES.set_manner(manner(arguments));
    if let Some(megabytes) = arguments.memory_mb.filter(|&megabytes| megabytes > 0) {
        weir_memory::shortage::limit(megabytes.saturating_mul(1 << 20));
    }
    let origin = process::Origin::new(words);
    if let Some(folder) = &arguments.folder
        && let Err(error) = std::env::set_current_dir(folder)
    {
        MESSAGES.alert(format!("Could not change to directory {} : {error}", folder.display()));
        return ExitCode::FAILURE;
    }
    if let Some(condition) = &arguments.condition {
        return configuration::evaluate(condition, &MESSAGES);
    }
    match process::run_role(origin, arguments, &MESSAGES) {
        Role::Serve(sources, invocation, master) => {
            serve(program, sources, arguments, *invocation, master.as_deref())
        }
        Role::End(status) => ExitCode::from(status),
    }
}

fn serve(
    program: &str,
    sources: SourceMap,
    arguments: &Arguments,
    invocation: Invocation,
    master: Option<&str>,
) -> ExitCode {
    let channel = invocation.worker.as_ref().map(WorkerLink::address);
    let master = master.zip(channel).map(|(reached, channel)| Superior { reached, channel });
    let verdict = configuration::load(&sources, arguments, master.as_ref(), &MESSAGES);
    // What was read from the text stands alone.
    drop(sources);
    match verdict {
        ReadOutcome::Serve(prepared) => match start::serve(*prepared, invocation, &MESSAGES) {
            End::Done => ExitCode::SUCCESS,
            End::Failed => ExitCode::FAILURE,
            End::Signal(signal) => die_of(signal),
        },
        ReadOutcome::Valid => ExitCode::SUCCESS,
        ReadOutcome::Idle => ExitCode::from(2),
        ReadOutcome::Usage => {
            eprint!("{}", arguments::usage(program));
            ExitCode::FAILURE
        }
        ReadOutcome::Refused => ExitCode::FAILURE,
    }
}

fn manner(arguments: &Arguments) -> Manner {
    match (arguments.quiet, arguments.verbose) {
        (true, _) => Manner::Quiet,
        (_, true) => Manner::Verbose,
        _ => Manner::Normal,
    }
}
