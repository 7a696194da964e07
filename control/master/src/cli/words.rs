//! Splits a line into commands and their targets, before the commands are parsed.

use std::borrow::Cow;

/// Splits a line at each `;` without a preceding `\`. The commands are otherwise unchanged.
pub(super) fn commands(line: &[u8]) -> Vec<&[u8]> {
    let mut commands = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (position, &byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b';' => {
                commands.push(&line[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    commands.push(&line[start..]);
    commands.iter().map(|command| command.trim_ascii()).collect()
}

/// A command for a line of its own. Only the last command of the original line can have a payload. In others, a payload mark is escaped.
pub(super) fn alone(command: &[u8], last: bool) -> Cow<'_, [u8]> {
    let start = command.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    if last || !command[start..].starts_with(b"<<") {
        return command.into();
    }
    [&command[..start], b"\\", &command[start..]].concat().into()
}

/// Splits a command into the text after its leading `@`, if any, and the rest.
pub(super) fn prefix(command: &[u8]) -> (Option<&str>, &[u8]) {
    let Some(named) = command.strip_prefix(b"@") else { return (None, command) };
    let end = named.iter().position(u8::is_ascii_whitespace).unwrap_or(named.len());
    match std::str::from_utf8(&named[..end]) {
        Ok(name) => (Some(name), named[end..].trim_ascii()),
        Err(_) => (None, command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_a_master_command_line_at_semicolons() {
        let split = |line: &'static str| -> Vec<&str> {
            let commands = commands(line.as_bytes());
            commands.into_iter().map(|command| std::str::from_utf8(command).expect("text")).collect()
        };
        assert_eq!(split("@1 show info; @!7 show stat"), ["@1 show info", "@!7 show stat"]);
        assert_eq!(split(r"add acl x a\;b; show info"), [r"add acl x a\;b", "show info"]);
        assert_eq!(split(""), [""]);
        assert_eq!(split("@1;"), ["@1", ""]);
    }

    #[test]
    fn only_the_last_command_announces_a_payload() {
        let of = |text: &str, last| {
            weir_cli::line::CommandLine::parse(&alone(text.as_bytes(), last)).expect("words")
        };
        for (text, word) in [("add map x <<", "<<"), ("add map x <<END", "<<END"), ("add map x\t<<", "<<")] {
            assert!(of(text, true).payload.is_some(), "{text}");
            let line = of(text, false);
            assert_eq!(
                (line.payload, line.commands),
                (None, vec![vec!["add".to_owned(), "map".to_owned(), "x".to_owned(), word.to_owned(),]])
            );
        }
        assert_eq!(of("show info", false), of("show info", true));
    }

    #[test]
    fn parses_the_at_sign_prefix_that_selects_a_worker() {
        let of = |text: &'static str| {
            let (name, rest) = prefix(text.as_bytes());
            (name, std::str::from_utf8(rest).expect("text"))
        };
        assert_eq!(of("@1 show info"), (Some("1"), "show info"));
        assert_eq!(of("@!12"), (Some("!12"), ""));
        assert_eq!(of("@"), (Some(""), ""));
        assert_eq!(of("@@1  x y"), (Some("@1"), "x y"));
        assert_eq!(of("show @1"), (None, "show @1"));
    }

    proptest! {
        #[test]
        fn splitting_arbitrary_command_lines_never_panics(line in prop::collection::vec(any::<u8>(), 0..64)) {
            let kept: usize = commands(&line).iter().map(|command| command.len()).sum();
            prop_assert!(kept <= line.len());
            let _ = prefix(&line);
        }
    }
}
