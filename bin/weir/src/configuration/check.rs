//! Checks a configuration without serving it: `-c --format json`, `weir lint`, `weir explain -f`.

use std::sync::Arc;

use weir_assemble::LoadedConfiguration;
use weir_config::ConfigOutcome;
use weir_config::files::load_sources;
use weir_expr::VariableNames;
use weir_model::Config;
use weir_observe::files::SystemFiles;
use weir_syntax::{DiagnosticSeverity, Diagnostics, SourceMap};

use super::{Disk, environment, listens, looked_up, parse, with_arguments};
use crate::arguments::Arguments;
use crate::findings::{self, Finding};

/// A configuration that was checked but is not served.
pub(crate) struct CheckedConfiguration {
    pub sources: SourceMap,
    /// The readable part of the configuration.
    pub config: Config,
    /// The names of the configuration's variables.
    pub variables: Arc<VariableNames>,
    /// Errors, warnings and notices.
    pub findings: Vec<Finding>,
}

/// Reads and checks the configuration of the command line. Prints nothing.
pub(crate) fn check(arguments: &Arguments) -> CheckedConfiguration {
    let mut diagnostics = Diagnostics::new();
    let sources = load_sources(&arguments.files, &Disk { again: false }, &mut diagnostics);
    let mut findings = findings::of_diagnostics(&diagnostics, &sources);
    if diagnostics.has_alerts() {
        return CheckedConfiguration {
            sources,
            config: Config::default(),
            variables: Arc::default(),
            findings,
        };
    }
    let LoadedConfiguration { outcome, variable_names, .. } =
        parse(&sources, environment(arguments, &sources, None));
    let ConfigOutcome { config, diagnostics, .. } = outcome;
    let config = with_arguments(config, arguments);
    findings.extend(findings::of_diagnostics(&diagnostics, &sources));
    let states = weir_assemble::SavedStates::read(&config, &SystemFiles);
    let of_states =
        states.warnings().map(|text| findings::of_text(DiagnosticSeverity::Warning, text, &sources));
    findings.extend(of_states);
    let further = looked_up(&config, &states, arguments);
    findings.extend(further.iter().map(|(severity, text)| findings::of_text(*severity, text, &sources)));
    if !findings.iter().any(|finding| finding.severity == DiagnosticSeverity::Alert) && !listens(&config) {
        findings.push(findings::of_text(
            DiagnosticSeverity::Warning,
            "nothing listens: no listener is configured.",
            &sources,
        ));
    }
    CheckedConfiguration { sources, config, variables: variable_names, findings }
}

impl CheckedConfiguration {
    /// Whether the configuration can be served. With `-dW`, warnings are errors.
    pub(crate) fn is_valid(&self) -> bool {
        let worst = if self.config.global.zero_warning {
            DiagnosticSeverity::Warning
        } else {
            DiagnosticSeverity::Alert
        };
        self.findings.iter().all(|finding| finding.severity < worst)
    }
}

/// `-c --format json`. Returns the same exit status as `-c` alone.
pub(crate) fn check_as_json(arguments: &Arguments) -> u8 {
    let checked = check(arguments);
    let valid = checked.is_valid();
    let listens = listens(&checked.config);
    let shown = |finding: &&Finding| finding.severity != DiagnosticSeverity::Diag || arguments.diagnose;
    let findings: Vec<Finding> = checked.findings.iter().filter(shown).cloned().collect();
    crate::say(&findings::json(valid && listens, &findings));
    match valid {
        true if listens => 0,
        true => 2,
        false => 1,
    }
}
