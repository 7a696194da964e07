//! What options print about the configuration and the process before it starts: `-dC`, `-dL`, `-dA`, `-dc`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use weir_config::Discovery;
use weir_config::model::{Config, Global};
use weir_runtime::messages::Messages;
use weir_runtime::{core_dump, start};
use weir_syntax::{ConditionContext, Diagnostics, Line, Reader, SourceMap};

use crate::arguments::{Arguments, Dump};

/// Every line of the configuration as it was understood: without comments, with variables replaced, one blank between words
/// (`-dC`). A word is quoted where it would be read as something else without.
pub fn configuration(
    sources: &SourceMap,
    found: &Discovery,
    conditions: &dyn ConditionContext,
    dump: Dump,
) -> String {
    // Who parses says what is wrong.
    let mut unsaid = Diagnostics::new();
    let mut reader = Reader::new(sources);
    let (mut text, mut number) = (String::new(), 0);
    while let Some(line) = reader.next_line(&found.environment, conditions, &mut unsaid) {
        let keyword = line.keyword().text();
        let section = weir_config::is_section(keyword);
        if section {
            reader.set_section(keyword);
        }
        number += 1;
        if dump == Dump::Numbered {
            // Writing to a string does not fail.
            let _ = write!(text, "{number}\t");
        }
        text.push_str(if section { "" } else { "\t" });
        text.push_str(&words(&line));
        text.push('\n');
    }
    text
}

fn words(line: &Line) -> String {
    let words = line.words().iter().map(|word| quoted(word.text()));
    words.map(|word| word + " ").collect()
}

fn quoted(word: &str) -> String {
    let special = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#' | '$');
    if !word.is_empty() && !word.contains(special) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Prints what was asked for about a process with this configuration. `false` when it could not be had; that was said.
pub fn print(config: &Config, arguments: &Arguments, messages: &Messages) -> bool {
    let mut text = String::new();
    if arguments.processors {
        text += &processors(&config.global);
    }
    if arguments.objects {
        match core_dump::running_files() {
            Ok(files) => {
                text +=
                    if arguments.verbose && !arguments.quiet { "List of loaded object files:\n" } else { "" };
                files.iter().for_each(|file| text += &format!("{}\n", file.display()));
            }
            Err(error) => messages.warning(format!("'-dL': cannot see what the process runs: {error}.")),
        }
    }
    // Nobody is left to be told that standard output is closed.
    let _ = io::stdout().write_all(text.as_bytes());
    let Some(path) = &arguments.archive else { return true };
    let written = write_archive(path, messages);
    if let Err(error) = &written {
        messages.alert(format!("'-dA': cannot write {}: {error}", path.display()));
    }
    written.is_ok()
}

fn write_archive(path: &Path, messages: &Messages) -> io::Result<()> {
    let archive = core_dump::archive(&core_dump::running_files()?, messages)?;
    File::create(path)?.write_all(&archive)
}

/// Which processors are used, and which of them each thread may run on (`-dc`).
fn processors(global: &Global) -> String {
    let allowed = weir_sys::process::processors().unwrap_or_default();
    let threads = start::worker_count(global);
    let of_thread = |thread: usize| -> Vec<usize> {
        let mapped = u16::try_from(thread).ok().and_then(|thread| global.cpu_map.cpus(thread));
        let mapped = mapped.map(|cpus| cpus.iter().map(|cpu| usize::from(*cpu)).collect());
        mapped.unwrap_or_else(|| allowed.clone())
    };
    let used: Vec<Vec<usize>> = (1..=threads).map(of_thread).collect();
    let mut known = weir_sys::process::online_processors();
    known.extend(used.iter().flatten().chain(&allowed));
    let mut text = String::new();
    // Writing to a string does not fail.
    for cpu in known {
        let keep = used.iter().any(|cpus| cpus.contains(&cpu));
        let _ = writeln!(text, "[{}] cpu={cpu:>3}", if keep { "keep" } else { "drop" });
    }
    text.push_str("Thread CPU Bindings:\n  Tgrp/Thr  Tid        CPU set\n");
    for (thread, cpus) in (1..).zip(used) {
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let _ =
            writeln!(text, "  {:<9} {thread:<10} {}: {}", format!("1/{thread}"), list.len(), list.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_they_have_to_be() {
        for (word, expected) in [
            ("a", "a"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("a\\", "'a\\'"),
            ("#", "'#'"),
            ("$HOME", "'$HOME'"),
            ("%[path]", "%[path]"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
