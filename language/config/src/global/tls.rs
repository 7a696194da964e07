//! TLS words about OpenSSL and the kernel. Some request the built-in behaviour, some a feature of OpenSSL only.
//!
//! Settings that match the built-in behaviour are accepted. Settings that permit an unavailable feature cause a warning that names the
//! feature. Settings that require one are errors that suggest a replacement.

use weir_syntax::Diagnostic;

use super::context::{GlobalContext, GlobalReader};
use super::tls_defaults::MAX;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready("noktls", "", "", "TLS: no encryption in the kernel (always so)", |line, words| {
        line.flag(words).map(drop)
    }),
    Row::removed(
        "ssl-engine",
        "engines are of OpenSSL, which is not used here: remove the line, and give keys as files",
    ),
    Row::ready(
        "ssl-mode-async",
        "",
        "",
        "accepted for compatibility, no effect: without engines, all work is synchronous",
        |line, words| {
            line.flag(words)?;
            warn(
                words,
                "'ssl-mode-async' has no effect: engines are not supported. Remove the line.".to_owned(),
            );
            Ok(())
        },
    ),
    Row::ready(
        "ssl-propquery",
        "<query>",
        "?provider=default",
        "accepted for compatibility, no effect: there is one implementation of each algorithm",
        propquery,
    ),
    Row::ready(
        "ssl-provider",
        "<name>",
        "default",
        "accepted for compatibility, no effect: the algorithms of OpenSSL's providers 'default' and 'base' are built in",
        provider,
    ),
    Row::ready(
        "ssl-provider-path",
        "<path>",
        "/usr/lib/ossl-modules",
        "accepted for compatibility, no effect: providers are not loaded",
        |line, words| {
            line.word(words, "a directory path as an argument")?;
            warn(
                words,
                "'ssl-provider-path' has no effect: providers are not loaded. Remove the line.".to_owned(),
            );
            Ok(())
        },
    ),
    Row::ready(
        "ssl-security-level",
        "<number>",
        "2",
        "TLS: least strength of keys and ciphers, 0 to 2: that of level 2 is always required",
        security_level,
    ),
    Row::ready(
        "tune.ssl.capture-cipherlist-size",
        "<number>",
        "96",
        "TLS: old name of 'tune.ssl.capture-buffer-size'",
        |line, words| {
            line.global.tls.captured_hello = line.number(words, 0..=MAX)?;
            let message = format!(
                "'{}' is deprecated. Please use 'tune.ssl.capture-buffer-size' instead.",
                line.keyword
            );
            warn(words, message);
            Ok(())
        },
    ),
    Row::ready(
        "tune.ssl.certificate-compression",
        "{ auto | off }",
        "off",
        "TLS: compress certificates (never: the library does not support it)",
        |line, words| line.choice(words, &["auto", "off"]).map(drop),
    ),
];

fn warn(words: &Words<'_>, message: String) {
    words.line().remark(Diagnostic::warning(words.line().span(), message));
}

fn propquery(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    let query = line.word(words, "a property string as an argument")?;
    // Optional clauses begin with a question mark.
    if let Some(clause) = query.text().split(',').find(|clause| !clause.trim_start().starts_with(['?', '-']))
    {
        let message = format!(
            "'{}' : nothing here has properties, so nothing has '{clause}'. Write '?{clause}' if it need not, or remove the line.",
            line.keyword
        );
        return Err(fault(query.span(), message));
    }
    warn(words, format!("'{}' has no effect: nothing here has properties. Remove the line.", line.keyword));
    Ok(())
}

fn provider(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    let name = line.word(words, "a valid engine provider name as an argument")?;
    if !["default", "base"].contains(&name.text()) {
        let message = format!(
            "'{}' : unknown provider '{name}': providers are of OpenSSL, which is not used here. Remove the line.",
            line.keyword
        );
        return Err(fault(name.span(), message));
    }
    warn(
        words,
        format!("'{} {name}' has no effect: its algorithms are always there. Remove the line.", line.keyword),
    );
    Ok(())
}

fn security_level(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    let word = words.expect(&format!("'{}' : missing value", line.keyword))?;
    words.end(line.keyword)?;
    let refuse = |why: &str| Err(fault(word.span(), format!("'{}' : {why}", line.keyword)));
    match word.text() {
        "2" => Ok(()),
        "0" | "1" => {
            let message = format!(
                "'{} {word}' allows keys and ciphers of less than 112 bits, which are never used here: level 2 is.",
                line.keyword
            );
            warn(words, message);
            Ok(())
        }
        "3" | "4" | "5" => refuse(
            "levels above 2 are not implemented yet. Restrict 'ssl-default-bind-ciphers', '-ciphersuites' and '-curves' (and those of '-server-'), write 'no-tls-tickets', and use certificates with keys of that strength",
        ),
        _ => refuse("expects a value between 0 and 5"),
    }
}
