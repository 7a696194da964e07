//! Environment variables in addresses, which are expanded even without quotes (manual, "bind", "server", "log").

use weir_syntax::{Environment, Line, Word};

/// The line with the variables in its address expanded.
pub(crate) fn expanded(line: Line, environment: &Environment) -> Line {
    match position(&line).and_then(|index| Some((index, line.get(index)?))) {
        Some((index, word)) if word.text().contains('$') => {
            let bytes = replaced(word.bytes(), environment);
            let word = Word::new(bytes, word.span(), None).with_quotes(word.is_quoted());
            line.with_word(index, word)
        }
        _ => line,
    }
}

/// The index of the address word of a line.
fn position(line: &Line) -> Option<usize> {
    match line.text(0) {
        "bind" | "log" | "source" => Some(1),
        "server" | "peer" | "nameserver" => Some(2),
        "server-template" => Some(3),
        "stats" if line.text(1) == "socket" => Some(2),
        _ => None,
    }
}

/// Replaces `$NAME` and `${NAME}` by their values. An unset variable is empty.
fn replaced(bytes: &[u8], environment: &Environment) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(dollar) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        let (name, length) = match after.strip_prefix(b"{") {
            Some(braced) => {
                let end = braced.iter().position(|byte| *byte == b'}');
                end.map_or((&b""[..], 0), |end| (&braced[..end], end + 2))
            }
            None => {
                let named = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = after.iter().position(|byte| !named(byte)).unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        if name.is_empty() {
            out.push(b'$');
            rest = after;
            continue;
        }
        out.extend_from_slice(environment.value(name).unwrap_or_default());
        rest = &after[length..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut environment = Environment::new();
        environment.set("HOST", "192.0.2.1");
        environment.set("PORT", "80");
        assert_eq!(String::from_utf8(replaced(text.as_bytes(), &environment)).unwrap(), expected);
    }

    #[test]
    fn environment_variables_in_addresses_are_replaced() {
        check("${HOST}:${PORT}", "192.0.2.1:80");
        check("$HOST:$PORT", "192.0.2.1:80");
        check("${HOST}:8${PORT}0", "192.0.2.1:8800");
        check("${NONE}:$NONE", ":");
        check("a$", "a$");
        check("a$.b", "a$.b");
        check("${HOST", "${HOST");
        check("plain:80", "plain:80");
    }
}
