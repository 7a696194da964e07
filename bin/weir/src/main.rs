//! weir: reads the command line and becomes a worker.
//!
//! `main` can be read aloud: what does the command line ask for, what does the configuration say, serve it. The
//! options are rows in `arguments`; everything that happens then is in `weir-runtime`.
//!
//! It refuses to know what serving means: no socket, no proxy, no message. Begin with `arguments.rs` (what may be asked),
//! then `configuration.rs` (what the files say, and whether that is valid).

mod arguments;
mod configuration;
mod keywords;
mod version;

use std::process::ExitCode;

use weir_runtime::messages::{Manner, Messages};
use weir_runtime::process::die_of;
use weir_runtime::start::{self, End, Invocation};

use arguments::{Arguments, Fault};
use configuration::Verdict;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the process says, from its first to its last moment.
static MESSAGES: Messages = Messages::new();

fn main() -> ExitCode {
    // A kernel without the choice has no huge pages either, or only costs memory with them.
    let _ = weir_sys::process::use_small_pages();
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().map_or("weir", String::as_str);
    match arguments::parse(words.iter().skip(1).map(String::as_str)) {
        Ok(arguments) => run(program, &arguments),
        Err(Fault::Usage) => {
            eprint!("{}{}", version::short(), arguments::usage(program));
            ExitCode::FAILURE
        }
        Err(Fault::Text(text)) => {
            MESSAGES.alert(text);
            ExitCode::FAILURE
        }
    }
}

fn run(program: &str, arguments: &Arguments) -> ExitCode {
    if let Some(form) = arguments.version {
        print!("{}", version::text(form));
        return ExitCode::SUCCESS;
    }
    if arguments.memory_help {
        print!("{}", version::MEMORY_HELP);
        return ExitCode::SUCCESS;
    }
    if let Some(classes) = &arguments.keywords {
        print!("{}", keywords::dump(classes));
        return ExitCode::SUCCESS;
    }
    MESSAGES.set_manner(manner(arguments));
    if let Some(folder) = &arguments.folder {
        if let Err(error) = std::env::set_current_dir(folder) {
            MESSAGES.alert(format!("Could not change to directory {} : {error}", folder.display()));
            return ExitCode::FAILURE;
        }
    }
    if let Some(condition) = &arguments.condition {
        return configuration::evaluate(condition, &MESSAGES);
    }
    match configuration::load(arguments, &MESSAGES) {
        Verdict::Serve(prepared) => match start::serve(*prepared, &invocation(arguments), &MESSAGES) {
            End::Done => ExitCode::SUCCESS,
            End::Failed => ExitCode::FAILURE,
            End::Signal(signal) => die_of(signal),
        },
        Verdict::Valid => ExitCode::SUCCESS,
        Verdict::Idle => ExitCode::from(2),
        Verdict::Usage => {
            eprint!("{}", arguments::usage(program));
            ExitCode::FAILURE
        }
        Verdict::Refused => ExitCode::FAILURE,
    }
}

fn manner(arguments: &Arguments) -> Manner {
    match (arguments.quiet, arguments.verbose) {
        (true, _) => Manner::Quiet,
        (_, true) => Manner::Verbose,
        _ => Manner::Normal,
    }
}

fn invocation(arguments: &Arguments) -> Invocation {
    Invocation {
        daemon: arguments.daemon,
        foreground: arguments.foreground,
        pid_file: arguments.pid_file.clone(),
        maxconn: arguments.maxconn,
        proxy_maxconn: arguments.proxy_maxconn,
        memory_mb: arguments.memory_mb,
        ignore_unresolved: arguments.ignore_unresolved,
        no_reuse_port: arguments.no_reuse_port,
        former: arguments.former.clone(),
    }
}
