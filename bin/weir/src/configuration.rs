//! Reads the files and builds the configuration, with its diagnostics.

mod check;

use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

use weir_assemble::{LoadedConfiguration, Resolver, SystemResolver};
use weir_config::features::FEATURES;
use weir_config::files::{file_list, load_sources};
use weir_config::{ConfigOutcome, Discovery};
use weir_expr::Loader;
use weir_model::fingerprints::{self, Object};
use weir_model::{Bind, Config, Location, TlsVerify};
use weir_observe::files::SystemFiles;
use weir_observe::messages::Messages;
use weir_process::start::{ProcessConfiguration, worker_count};
use weir_syntax::{
    DiagnosticSeverity, Diagnostics, Environment, FileKind, Files, FolderEntry, Line, LineReader, Pseudo,
    SharedFiles, SourceMap, StaticFeatures, TlsLibrary, Word, evaluate_condition, lex_line,
};
use weir_sys::users;
use weir_tls::library;

use crate::arguments::Arguments;
use crate::reports;

pub(crate) use check::{check, check_as_json};

/// The outcome of reading the configuration.
pub(crate) enum ReadOutcome {
    /// The configuration can be served.
    Serve(Box<ProcessConfiguration>),
    /// The configuration is valid, and only a check was requested (`-c`).
    Valid,
    /// The configuration is valid and only a check was requested, but a start would fail for lack of a listener.
    Idle,
    /// A check was requested without any file. The caller prints the usage.
    Usage,
    /// The configuration is invalid. The errors have been logged.
    Refused,
}

/// Reads the files of the command line, or the built-in configuration without files. `None` on an error, which has been logged.
/// `again`: a former execution has read the files, so do not wait for a pipe, which can be read only once.
pub(crate) fn read(arguments: &Arguments, again: bool, messages: &Messages) -> Option<SourceMap> {
    if arguments.files.is_empty() {
        return Some(built_in_sources());
    }
    let mut diagnostics = Diagnostics::new();
    let sources = load_sources(&arguments.files, &Disk { again }, &mut diagnostics);
    show(&diagnostics, &sources, arguments, messages);
    (!diagnostics.has_alerts()).then_some(sources)
}

/// Reads only the settings that a master needs.
pub(crate) fn discover(sources: &SourceMap, arguments: &Arguments) -> Discovery {
    weir_config::discover(sources, &features(&feature_names()), environment(arguments, sources, None))
}

/// Every line after variable expansion, without the conditional blocks that do not apply.
pub(crate) fn lines(sources: &SourceMap, arguments: &Arguments) -> Vec<Line> {
    let environment = discover(sources, arguments).environment;
    let names = feature_names();
    // Discard these diagnostics: the parser reports them.
    let mut unsaid = Diagnostics::new();
    let mut reader = LineReader::new(sources);
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line(&environment, &features(&names), &mut unsaid) {
        let keyword = line.keyword().text();
        if weir_config::is_section(keyword) {
            reader.set_section(keyword);
        }
        lines.push(line);
    }
    lines
}

/// The `bind` lines of `-S`. `None` if one is invalid. The error has been logged.
pub(crate) fn master_sockets(arguments: &Arguments, messages: &Messages) -> Option<Vec<Bind>> {
    let mut sources = SourceMap::new();
    for text in &arguments.master_sockets {
        if text.trim().is_empty() {
            messages.alert("config : '-S' expects an address.");
            return None;
        }
        // The words of a `-S` value are separated by commas (manual, "-S").
        sources.add("-S", format!("{}\n", text.replace(',', " ")).into_bytes());
    }
    let mut diagnostics = Diagnostics::new();
    let mut reader = LineReader::new(&sources);
    let mut binds = Vec::new();
    let environment = environment(arguments, &sources, None);
    while let Some(line) = reader.next_line(&environment, &features(&[]), &mut diagnostics) {
        match weir_config::bind::read_socket(&line, 0, "-S", "command line", Location::new("-S".into(), 1)) {
            Ok(bind) => binds.push(bind),
            Err(fault) => diagnostics.push(*fault),
        }
    }
    show(&diagnostics, &sources, arguments, messages);
    (!diagnostics.has_alerts()).then_some(binds)
}

/// Checks the configuration. `master` contains the address of the master CLI. `None` without a master.
pub(crate) fn load(
    sources: &SourceMap,
    arguments: &Arguments,
    master: Option<&Superior<'_>>,
    messages: &Messages,
) -> ReadOutcome {
    let built_in = arguments.files.is_empty();
    if built_in && arguments.check {
        return ReadOutcome::Usage;
    }
    let environment = environment(arguments, sources, master);
    if let Some(dump) = arguments.dump.filter(|_| !arguments.quiet) {
        let text = reports::configuration(&lines(sources, arguments), dump);
        crate::say(&text);
    }
    if is_shown_to_people(arguments) {
        messages.show_lines_of(sources.clone(), is_colored());
    }
    let LoadedConfiguration { outcome, registry, patterns, token_keys, variable_names, scripts } =
        parse(sources, environment);
    let ConfigOutcome { config, environment, diagnostics } = outcome;
    let config = with_arguments(config, arguments);
    show(&diagnostics, sources, arguments, messages);
    let states = weir_assemble::SavedStates::read(&config, &SystemFiles);
    if diagnostics.has_alerts() {
        if arguments.check {
            // Also resolve the names in the other lines, so that one run reports all errors.
            let _ = say(&looked_up(&config, &states, arguments), messages);
        }
        let at_fault = |id| {
            let mut alerts = diagnostics.iter().filter(|known| known.severity == DiagnosticSeverity::Alert);
            alerts.any(|known| known.span.is_none_or(|span| span.file == id))
        };
        for (_, source) in sources.iter().filter(|(id, _)| at_fault(*id)) {
            messages.alert(format!("config : Error(s) found in configuration file : {}", source.name()));
        }
        messages.alert("config : Fatal errors found in configuration.");
        return ReadOutcome::Refused;
    }
    states.report(|text| messages.announce(text), |text| messages.warning(text));
    let strict = config.global.zero_warning;
    if arguments.check || strict {
        let mut found = looked_up(&config, &states, arguments);
        // At a start, other code reports the notices.
        found.retain(|(severity, _)| arguments.check || *severity > DiagnosticSeverity::Notice);
        if !say(&found, messages) {
            messages.alert("config : Fatal errors found in configuration.");
            return ReadOutcome::Refused;
        }
    }
    if strict && messages.warned() {
        messages.alert("config : Some warnings were found and 'zero-warning' is set. Aborting.");
        return ReadOutcome::Refused;
    }
    if !reports::print(&config, arguments, messages) {
        return ReadOutcome::Refused;
    }
    if let Err(message) = scripts.check_commands(weir_cli::is_command) {
        messages.alert(format!("config : {message}"));
        return ReadOutcome::Refused;
    }
    if arguments.check {
        return conclude(&config, arguments, messages);
    }
    if let Err(message) = scripts.start(&config.global.scripts, worker_count(&config.global)) {
        messages.alert(format!("config : {message}"));
        return ReadOutcome::Refused;
    }
    let pair = |(name, value): (&[u8], &[u8])| {
        format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    ReadOutcome::Serve(Box::new(ProcessConfiguration {
        config,
        states,
        greeting: built_in.then(|| greeting(&environment)),
        environment: environment.iter().map(pair).collect(),
        patterns,
        token_keys,
        variable_names,
        registry,
        scripts: (!scripts.is_empty()).then_some(scripts),
    }))
}

/// The objects of a configuration, for a comparison. `None` if it is unusable. The findings have been logged, as with `-c`.
pub(crate) fn objects(arguments: &Arguments, messages: &Messages) -> Option<Vec<Object>> {
    let sources = read(arguments, false, messages)?;
    let environment = environment(arguments, &sources, None);
    let LoadedConfiguration { outcome, variable_names, .. } = parse(&sources, environment);
    let ConfigOutcome { config, diagnostics, .. } = outcome;
    let config = with_arguments(config, arguments);
    let states = weir_assemble::SavedStates::read(&config, &SystemFiles);
    let found = looked_up(&config, &states, arguments);
    if diagnostics.has_alerts() || found.iter().any(|(severity, _)| *severity == DiagnosticSeverity::Alert) {
        show(&diagnostics, &sources, arguments, messages);
        say(&found, messages);
        messages.alert("config : Fatal errors found in configuration.");
        return None;
    }
    Some(fingerprints::objects(&config, &variable_names))
}

/// The objects of an in-memory configuration. `None` on errors.
#[cfg(test)]
pub(crate) fn objects_of(sources: &SourceMap) -> Option<Vec<Object>> {
    let environment = environment(&Arguments::default(), sources, None);
    let LoadedConfiguration { outcome, variable_names, .. } = parse(sources, environment);
    let valid = !outcome.diagnostics.has_alerts();
    valid.then(|| fingerprints::objects(&outcome.config, &variable_names))
}

/// The configuration in the files. `None` on errors.
#[cfg(test)]
pub(crate) fn understood(sources: &SourceMap) -> Option<Config> {
    let ConfigOutcome { config, diagnostics, .. } =
        parse(sources, environment(&Arguments::default(), sources, None)).outcome;
    (!diagnostics.has_alerts()).then_some(config)
}

fn parse(sources: &SourceMap, environment: Environment) -> LoadedConfiguration {
    let files = Arc::new(Disk { again: false });
    LoadedConfiguration::read(sources, files, &features(&feature_names()), environment)
}

/// Faults outside the parser's scope: files of `ssl` lines, and names of hosts, users and groups.
fn looked_up(
    config: &Config,
    states: &weir_assemble::SavedStates,
    arguments: &Arguments,
) -> Vec<(DiagnosticSeverity, String)> {
    let resolver = SystemResolver { ipv4_only: arguments.ipv4_only };
    let weir_assemble::CheckedNames { faults, notices } =
        weir_assemble::verify(config, states, &resolver, arguments.ignore_unresolved);
    let checked = weir_assemble::TlsBuilder::check(config, SharedFiles::new(SystemFiles));
    let warnings = checked.warnings.into_iter().map(|warning| {
        let is_notice = warning.is_borne && config.global.zero_warning;
        (if is_notice { DiagnosticSeverity::Notice } else { DiagnosticSeverity::Warning }, warning.text)
    });
    let errors = checked.errors.into_iter().map(|text| (DiagnosticSeverity::Alert, text.to_string()));
    let notices = notices.into_iter().map(|text| (DiagnosticSeverity::Notice, text));
    let unknown = faults.into_iter().map(|text| (DiagnosticSeverity::Alert, text));
    warnings.chain(errors).chain(notices).chain(unknown).collect()
}

/// Logs all findings. Returns whether the configuration is usable.
fn say(found: &[(DiagnosticSeverity, String)], messages: &Messages) -> bool {
    for (severity, text) in found {
        let text = format!("config : {text}");
        match severity {
            // Always shown: warnings that `zero-warning` tolerates, and remarks on likely mistakes.
            DiagnosticSeverity::Notice => messages.announce(text),
            severity => messages.say(*severity, &text),
        }
    }
    found.iter().all(|(severity, _)| *severity != DiagnosticSeverity::Alert)
}

fn listens(config: &Config) -> bool {
    let mut proxies = config.proxies.iter().filter(|proxy| !proxy.settings.disabled);
    let relays = config.log_forwards.iter().any(|section| section.all_binds().next().is_some());
    let peers =
        config.peers.iter().any(|section| !section.disabled && section.has_local() && section.bind.is_some());
    !config.global.sockets.is_empty() || relays || peers || proxies.any(|proxy| !proxy.binds.is_empty())
}

/// Logs the result of `-c`. Success is reported only with `-V` (manual, "-c"). Scripts read the exit status.
fn conclude(config: &Config, arguments: &Arguments, messages: &Messages) -> ReadOutcome {
    let listens = listens(config);
    let text = match (listens, arguments.verbose) {
        (true, true) => "Configuration file is valid\n",
        (true, false) => "",
        (false, _) => "Configuration file has no error but will not start (no listener) => exit(2).\n",
    };
    // With `-dC`, standard output contains only the configuration.
    if !arguments.quiet && arguments.dump.is_none() {
        let found = if messages.warned() { "Warnings were found.\n" } else { "" };
        crate::say(&format!("{found}{text}"));
    }
    if listens { ReadOutcome::Valid } else { ReadOutcome::Idle }
}

/// Applies the command line options to the configuration.
fn with_arguments(mut config: Config, arguments: &Arguments) -> Config {
    config.global.zero_warning |= arguments.zero_warning;
    config.global.no_splice |= arguments.no_splice;
    if config.global.no_splice {
        config.proxies.iter_mut().for_each(|proxy| proxy.settings.options.splice = Default::default());
    }
    if arguments.no_server_verify {
        // An explicit setting in the configuration takes precedence.
        config.global.tls.server_verify.get_or_insert(TlsVerify::None);
    }
    if let Some(wanted) = &arguments.traces {
        config.traces.splice(0..0, weir_assemble::traces::of_command_line(wanted));
    }
    config
}

/// Prints the diagnostics, in the long form on a terminal, otherwise in HAProxy's format.
fn show(diagnostics: &Diagnostics, sources: &SourceMap, arguments: &Arguments, messages: &Messages) {
    let pretty = is_shown_to_people(arguments);
    for report in diagnostics.reports() {
        let severity = report.diagnostic.severity;
        if severity == DiagnosticSeverity::Diag && !arguments.diagnose {
            continue;
        }
        let classic = format!("config : {}", report.classic(sources));
        match pretty && report.diagnostic.span.is_some() {
            true => {
                messages.say_as(severity, &classic, &format!("{}\n\n", report.pretty(sources, is_colored())))
            }
            false => messages.say(severity, &classic),
        }
    }
    for line in diagnostics.summary() {
        messages.notice(format!("config : {line}"));
    }
}

/// Whether messages appear on a terminal.
fn is_shown_to_people(arguments: &Arguments) -> bool {
    io::stderr().is_terminal() && !arguments.quiet
}

/// Whether to use colors (no-color.org).
fn is_colored() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// `-cc`: 0 if the condition is true, 1 if it is false, 2 if it is invalid. The syntax is the same as in a file, with quotes
/// and variables.
pub(crate) fn evaluate(condition: &str, messages: &Messages) -> u8 {
    let mut sources = SourceMap::new();
    let place = sources.add("-cc", Vec::new());
    let environment = environment(&Arguments::default(), &sources, None);
    let pseudo = Pseudo { file: "-cc", line: 1, section: "" };
    let words = match lex_line(condition.as_bytes(), place, pseudo, &environment) {
        Ok(words) => words,
        Err(error) => {
            messages.alert(format!("Failed to evaluate condition: {error}"));
            return 2;
        }
    };
    let texts: Vec<&str> = words.iter().map(Word::text).collect();
    match evaluate_condition(&texts.join(" "), &environment, &features(&feature_names())) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            messages.alert(format!("Failed to evaluate condition: {error}"));
            2
        }
    }
}

fn feature_names() -> Vec<&'static str> {
    FEATURES.iter().filter(|(_, present)| *present).map(|(name, _)| *name).collect()
}

fn features<'n>(names: &'n [&'n str]) -> StaticFeatures<'n> {
    let tls = TlsLibrary {
        built: library::BUILT,
        running: &library::RUNNING,
        openssl: library::OPENSSL,
        awslc_api: library::API,
    };
    StaticFeatures {
        features: names,
        enabled: &["EPOLL", "SPLICE", "GETADDRINFO", "REUSEPORT"],
        tls: Some(tls),
    }
}

/// The master of a worker that reads the configuration.
pub(crate) struct Superior<'a> {
    /// The address of the master CLI.
    pub reached: &'a str,
    /// The address of the socket pair between this worker and its master.
    pub channel: String,
}

/// The process's environment, plus the variables defined by the configuration language.
fn environment(arguments: &Arguments, sources: &SourceMap, master: Option<&Superior<'_>>) -> Environment {
    let mut environment = Environment::new();
    for (name, value) in std::env::vars_os() {
        environment.set(name.into_vec(), value.into_vec());
    }
    weir_master::carried::VARIABLES.iter().for_each(|name| environment.remove(name));
    // The runtime API sockets of the configuration are added later.
    environment.remove("HAPROXY_CLI");
    if let Some(master) = master {
        of_a_master(master.reached).for_each(|(name, value)| environment.set(name, value));
        environment.set("HAPROXY_CLI", &master.channel);
    }
    let version = format!("3.5.0-weir{}", weir_observe::VERSION);
    environment.set("HAPROXY_STARTUP_VERSION", &version);
    environment.set("HAPROXY_BRANCH", "3.5");
    environment.set("HAPROXY_CFGFILES", file_list(sources));
    let peer = arguments.local_peer.clone().unwrap_or_else(users::host_name);
    environment.set("HAPROXY_LOCALPEER", peer);
    if arguments.files.is_empty() {
        // The socket names of the built-in configuration's origins must not collide with those of another weir process.
        environment.set_if_absent("WEIR_ORIGINS", weir_sys::process::id().to_string());
    }
    environment
}

/// The environment variables of a master and its worker. `reached` is the address of the master CLI, or empty.
pub(crate) fn of_a_master(reached: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let command_line = Some(("HAPROXY_MASTER_CLI", reached)).filter(|_| !reached.is_empty());
    std::iter::once(("HAPROXY_MWORKER", "1")).chain(command_line)
}

/// A message with the URLs of the built-in configuration.
fn greeting(environment: &Environment) -> String {
    let port = environment.value("WEIR_PORT").map_or("8080".into(), String::from_utf8_lossy);
    format!(
        "Serving the built-in configuration: see http://127.0.0.1:{port}/ and http://127.0.0.1:{port}/stats"
    )
}

fn built_in_sources() -> SourceMap {
    let mut sources = SourceMap::new();
    sources.add("built-in", include_bytes!("default.cfg").to_vec());
    sources
}

/// The file system.
struct Disk {
    /// Whether a former execution has read the files. A pipe is then empty.
    again: bool,
}

impl Files for Disk {
    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        #[cfg(test)]
        if let Some(bytes) = crate::memory_files::memory_file(path) {
            return Ok(bytes);
        }
        SystemFiles.read(path, limit)
    }

    fn read_stream(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        if self.again && std::fs::metadata(path)?.file_type().is_fifo() {
            return Err(io::Error::other("a pipe can be read once only, not again for a reload"));
        }
        SystemFiles.read_stream(path, limit)
    }

    fn kind(&self, path: &str) -> io::Result<FileKind> {
        SystemFiles.kind(path)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<FolderEntry>> {
        SystemFiles.list(folder)
    }
}

impl Loader for Disk {
    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn address_of(&self, host: &str) -> Option<Ipv4Addr> {
        SystemResolver { ipv4_only: true }.addresses(host).into_iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_configuration_is_valid_without_messages() {
        static SAID: Messages = Messages::new();
        match load(&built_in_sources(), &Arguments::default(), None, &SAID) {
            ReadOutcome::Serve(prepared) => {
                let config = &prepared.config;
                let bound = |proxy: &str| {
                    let proxy =
                        config.proxies.iter().find(|known| *known.name == *proxy).expect("it is there");
                    proxy.binds[0].spelling.to_string()
                };
                assert_eq!(bound("front"), "127.0.0.1:8080");
                assert_eq!(bound("origin2"), format!("abns@weir-origin-{}-2", std::process::id()));
                assert!(prepared.greeting.is_some_and(|text| text.contains("http://127.0.0.1:8080/stats")));
            }
            _ => panic!("{}", SAID.startup_logs()),
        }
        assert_eq!(SAID.startup_logs(), "");
    }
}
