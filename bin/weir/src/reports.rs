//! Output of the options that report on configuration and process before startup: `-dC`, `-dL`, `-dA`, `-dc`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use weir_model::{Config, Global};
use weir_observe::messages::Messages;
use weir_process::{core_dump, start};
use weir_syntax::Line;

use crate::arguments::{Arguments, Dump};

/// The effective configuration lines (`-dC`): without comments, with variables expanded and one space between words. A word is quoted
/// if it would otherwise be misread.
pub(crate) fn configuration(lines: &[Line], dump: Dump) -> String {
    let mut text = String::new();
    for (number, line) in (1..).zip(lines) {
        if dump == Dump::Numbered {
            // Writing to a string does not fail.
            let _ = write!(text, "{number}\t");
        }
        text.push_str(if weir_config::is_section(line.keyword().text()) { "" } else { "\t" });
        text.push_str(&words(line));
        text.push('\n');
    }
    text
}

/// The words of a line, quoted where needed.
pub(crate) fn words(line: &Line) -> String {
    let words = line.words().iter().map(|word| quoted(word.bytes()));
    words.map(|word| word + " ").collect()
}

/// A word, in single quotes if it would otherwise be misread. Quotes, control characters and invalid UTF-8 are outside the quotes,
/// escaped with a backslash.
fn quoted(word: &[u8]) -> String {
    let special = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '\\' | '#' | '$');
    let text = std::str::from_utf8(word).ok();
    if let Some(plain) = text.filter(|text| !text.is_empty() && !text.contains(special)) {
        return plain.to_owned();
    }
    let mut quoted = String::from("'");
    for chunk in word.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\'' => quoted.push_str("'\\''"),
                '\n' => quoted.push_str("'\\n'"),
                '\r' => quoted.push_str("'\\r'"),
                '\t' => quoted.push_str("'\\t'"),
                control if control.is_ascii_control() => outside(&mut quoted, control as u8),
                other => quoted.push(other),
            }
        }
        chunk.invalid().iter().for_each(|byte| outside(&mut quoted, *byte));
    }
    quoted.push('\'');
    quoted
}

fn outside(quoted: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(quoted, "'\\x{byte:02x}'");
}

/// Prints the selected reports. `false` on an error, which has been logged.
pub(crate) fn print(config: &Config, arguments: &Arguments, messages: &Messages) -> bool {
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
            Err(error) => {
                messages.warning(format!("'-dL': cannot list the object files of the process: {error}."))
            }
        }
    }
    crate::say(&text);
    let Some(path) = &arguments.archive else { return true };
    let written = write_archive(path, messages);
    if let Err(error) = &written {
        let place =
            if path.as_os_str().is_empty() { "to standard output".into() } else { path.to_string_lossy() };
        messages.alert(format!("'-dA': cannot write {place}: {error}"));
    }
    written.is_ok()
}

fn write_archive(path: &Path, messages: &Messages) -> io::Result<()> {
    let archive = core_dump::archive(&core_dump::running_files()?, messages)?;
    if !path.as_os_str().is_empty() {
        return File::create(path)?.write_all(&archive);
    }
    let mut out = io::stdout();
    if out.is_terminal() {
        return Err(io::Error::other("it is a terminal"));
    }
    out.write_all(&archive)?;
    out.flush()
}

/// The processors in use, and the threads that may run on each (`-dc`).
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
    fn quotes_only_words_with_special_characters() {
        for (word, expected) in [
            ("a", "a"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("a\\", "'a\\'"),
            ("#", "'#'"),
            ("$HOME", "'$HOME'"),
            ("%[path]", "%[path]"),
            ("PING\r\n", "'PING'\\r''\\n''"),
            ("\u{1}", "''\\x01''"),
        ] {
            assert_eq!(quoted(word.as_bytes()), expected);
        }
    }

    /// Any bytes of a word survive quoting and parsing.
    #[test]
    fn quoted_words_are_read_back_unchanged() {
        let mut sources = weir_syntax::SourceMap::new();
        let file = sources.add("f", Vec::new());
        let read = |word: &[u8]| {
            let line = format!("a {} b", quoted(word)).into_bytes();
            let pseudo = weir_syntax::Pseudo { file: "f", line: 1, section: "" };
            let words =
                weir_syntax::lex_line(&line, file, pseudo, &weir_syntax::Environment::new()).expect("a line");
            words.iter().map(|word| word.bytes().to_vec()).collect::<Vec<_>>()
        };
        // Words cannot contain NUL.
        for first in 1..=u8::MAX {
            for second in 1..=u8::MAX {
                let word = [b'x', first, second, b'y'];
                assert_eq!(read(&word), [b"a".to_vec(), word.to_vec(), b"b".to_vec()], "{word:?}");
            }
        }
    }
}
