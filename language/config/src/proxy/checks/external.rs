//! Checks by external programs: the program, and the global settings that it needs.

use weir_syntax::{Diagnostic, Diagnostics, Layout, Span};

use super::super::keywords::{DEFAULTS_AND_BACKENDS, keyword};
use super::super::{LineContext, ProxyReader};
use super::scripts;
use crate::proxy::OtherSections;
use crate::proxy::finish::noun;
use crate::rows::Row;
use crate::words::{Parsed, Words};
use weir_model::{CheckMethod, Proxy};

pub(in crate::proxy) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "external-check command",
        "<command>",
        "/bin/true",
        "external checks: program to run",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            scripts(context).program = Some(argument(words, "command")?);
            Ok(())
        },
    ),
    keyword(
        "external-check path",
        "<path>",
        "/usr/bin:/bin",
        "external checks: search path",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            scripts(context).program_path = Some(argument(words, "path")?);
            Ok(())
        },
    ),
];

fn argument(words: &mut Words<'_>, after: &str) -> Parsed<std::sync::Arc<str>> {
    let word = words.expect(&format!("missing argument after '{after}'."))?;
    words.end("external-check")?;
    Ok(word.text().into())
}

pub(super) fn read_option(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    words.end("option external-check")?;
    scripts(context).method = CheckMethod::Program;
    Ok(())
}

/// Reports missing settings of a proxy with `option external-check` (manual, "external-check").
pub(in crate::proxy) fn settle(
    proxy: &Proxy,
    at: Span,
    context: &OtherSections<'_>,
    diagnostics: &mut Diagnostics,
) {
    let scripts = &proxy.settings.checks;
    let is_used = matches!(scripts.method, CheckMethod::Program);
    let mut say = |diagnostic: Diagnostic| diagnostics.push(diagnostic.layout(Layout::Bare));
    for (keyword, said) in [
        ("external-check command", scripts.program.is_some()),
        ("external-check path", scripts.program_path.is_some()),
    ] {
        if said && !is_used {
            let message = format!(
                "'{keyword}' will be ignored for {} '{}' (requires 'option external-check').",
                noun(proxy),
                proxy.name
            );
            say(Diagnostic::warning(at, message));
        }
    }
    let option = format!("Proxy '{}' : 'option external-check'", proxy.name);
    if is_used && !context.external_checks {
        say(Diagnostic::alert(at, format!("{option} unable to find required 'global.external-check'.")));
    }
    match &scripts.program {
        None if is_used => {
            say(Diagnostic::alert(at, format!("{option} unable to find required 'external-check command'.")));
        }
        Some(program) if !program.starts_with('/') && scripts.program_path.is_none() => {
            let message = format!(
                "Proxy '{}': 'external-check command' does not have a leading '/' and 'external-check path' is not set.",
                proxy.name
            );
            say(Diagnostic::alert(at, message));
        }
        _ => {}
    }
    if is_used && !context.may_create_processes {
        let message = format!(
            "Proxy '{}' : 'insecure-fork-wanted' not enabled in the global section, 'option external-check' will likely fail.",
            proxy.name
        );
        say(Diagnostic::warning(at, message));
    }
}
