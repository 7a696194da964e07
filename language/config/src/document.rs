//! The whole configuration: passes each line of all files to the parser of its section.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_expr::{Loader, PatternStore, Registry, TokenKeys, VariableNames};
use weir_syntax::{
    ConditionContext, Diagnostic, Diagnostics, Environment, FileId, Layout, Line, LineReader, SourceMap,
    Span, Word, did_you_mean,
};

use crate::crt_store;
use crate::draft::stream_keywords::StreamKeywords;
use crate::engine_files::EngineFiles;
use crate::global::{self, GlobalContext};
use crate::http_errors::{HttpErrorsReader, HttpErrorsSections};
use crate::log_forward::LogForwardReader;
use crate::mailers;
use crate::peers::PeersReader;
use crate::proxy::application::section::{ApplicationDraft, ApplicationSection, LineScope};
use crate::proxy::health_section::HealthcheckReader;
use crate::proxy::{OtherSections, ProxyParser};
use crate::resolvers::{self, ResolversReader};
use crate::resources::Resources;
use crate::ring::{self, RingSectionReader};
use crate::rows::Handler;
use crate::scripts::ScriptHost;
use crate::sections::{SECTIONS, SectionKind};
use crate::traces;
use crate::userlist::UserlistReader;
use crate::words::{Parsed, Words, fault};
use crate::world::ConfigLoader;
use weir_model::{
    CertificateStore, Config, ErrorMessage, ErrorReplies, ErrorReply, Global, HealthCheck, Location,
    LogForward, Mailers, Mode, Peers, Proxy, Resolvers, Ring, RulesetKind, ServerStates, StickTable,
    TraceLine, Userlist,
};

/// The inputs of parsing.
#[derive(Clone, Copy)]
pub struct Inputs<'i> {
    /// The configuration files, in memory (R149).
    pub sources: &'i SourceMap,
    /// Reads the files that the configuration names.
    pub loader: &'i dyn Loader,
    /// The fetches and ACL keywords that expressions may use.
    pub registry: &'i Registry,
    /// The actions and the filters that lines may use.
    pub keywords: &'i StreamKeywords,
    /// The store of maps and ACL files.
    pub patterns: &'i PatternStore,
    /// The store of public keys.
    pub token_keys: &'i TokenKeys,
    /// The table of variable names.
    pub variables: &'i VariableNames,
    /// Runs the scripts that lines load.
    pub scripts: &'i dyn ScriptHost,
    /// The facts about the program that `.if` tests.
    pub conditions: &'i dyn ConditionContext,
}

/// The result of parsing.
#[derive(Debug)]
pub struct ConfigOutcome {
    /// The configuration. Usable only without alerts.
    pub config: Config,
    /// The environment after `setenv`, `presetenv`, `unsetenv` and `resetenv`.
    pub environment: Environment,
    pub diagnostics: Diagnostics,
}

/// Parses a configuration. Collects all faults and never stops early.
pub fn parse(inputs: Inputs<'_>, environment: Environment) -> ConfigOutcome {
    let mut diagnostics = Diagnostics::new();
    let world = ConfigLoader::new(inputs.loader, inputs.scripts, environment);
    let engine_files = EngineFiles::new(inputs.sources, inputs.conditions, &world);
    let config = Document::new(inputs, &world, &engine_files).read(&mut diagnostics);
    ConfigOutcome { config, environment: world.into_environment(), diagnostics }
}

/// The sections parsed so far, and the current one.
struct Document<'d> {
    inputs: Inputs<'d>,
    world: &'d ConfigLoader<'d>,
    resources: Resources<'d>,
    global: Global,
    userlists: Vec<Userlist>,
    /// The positions of userlists by name.
    userlist_positions: HashMap<Arc<str>, u32>,
    http_errors: HttpErrorsSections,
    rings: Vec<Ring>,
    /// The groups of each userlist.
    groups: HashMap<Arc<str>, HashSet<Box<str>>>,
    /// The groups that ACLs test: userlist, group, location.
    group_uses: Vec<(Box<str>, Box<str>, Span)>,
    /// `ring@` targets, with their locations.
    ring_uses: Vec<(Box<str>, Span)>,
    /// `backend@` targets, with their locations.
    backend_uses: Vec<(Box<str>, Span)>,
    log_forwards: Vec<LogForward>,
    mailers: Vec<Mailers>,
    certificate_stores: Vec<CertificateStore>,
    /// The names of all stored certificates.
    stored_certificates: HashSet<String>,
    peers: Vec<Peers>,
    peer_tables: Vec<StickTable>,
    health_checks: Vec<HealthCheck>,
    /// The location of each `log-forward` section.
    log_forward_spans: Vec<Span>,
    resolvers: Vec<Resolvers>,
    applications: Vec<ApplicationSection>,
    traces: Vec<TraceLine>,
    engine_files: &'d EngineFiles<'d>,
    proxies: ProxyParser<'d>,
    current: CurrentSection,
    /// The current file, and its name.
    file: Option<(FileId, Arc<str>)>,
    /// Whether a section other than `global` was read (R155).
    late: bool,
    /// Kinds and names of refused sections. References to them are not reported.
    refused: HashSet<(&'static str, Box<str>)>,
}

enum CurrentSection {
    /// No section: the beginning of a file.
    Outside,
    /// A refused section. Its lines are skipped.
    Skipped,
    Global,
    Proxy,
    Userlist(UserlistReader),
    HttpErrors(HttpErrorsReader),
    Ring(RingSectionReader, Span),
    LogForward(LogForwardReader, Span),
    Mailers(Mailers),
    CrtStore(CertificateStore),
    FcgiApp(Box<ApplicationDraft>),
    Peers(Box<PeersReader>),
    Healthcheck(Box<HealthcheckReader>),
    Resolvers(ResolversReader),
    Traces,
}

impl<'d> Document<'d> {
    fn new(inputs: Inputs<'d>, world: &'d ConfigLoader<'d>, engine_files: &'d EngineFiles<'d>) -> Self {
        let resources = Resources {
            registry: inputs.registry,
            patterns: inputs.patterns,
            token_keys: inputs.token_keys,
            variables: inputs.variables,
            scripts: inputs.scripts,
            loader: world,
        };
        Document {
            inputs,
            world,
            resources,
            global: Global::default(),
            userlists: Vec::new(),
            userlist_positions: HashMap::new(),
            groups: HashMap::new(),
            group_uses: Vec::new(),
            http_errors: HttpErrorsSections::default(),
            rings: Vec::new(),
            ring_uses: Vec::new(),
            backend_uses: Vec::new(),
            log_forwards: Vec::new(),
            mailers: Vec::new(),
            certificate_stores: Vec::new(),
            stored_certificates: HashSet::new(),
            peers: Vec::new(),
            peer_tables: Vec::new(),
            health_checks: Vec::new(),
            log_forward_spans: Vec::new(),
            resolvers: Vec::new(),
            applications: Vec::new(),
            traces: Vec::new(),
            engine_files,
            proxies: ProxyParser::new(resources, inputs.keywords).with_engine_files(engine_files),
            current: CurrentSection::Outside,
            file: None,
            late: false,
            refused: HashSet::new(),
        }
    }

    fn read(mut self, diagnostics: &mut Diagnostics) -> Config {
        let mut reader = LineReader::new(self.inputs.sources);
        self.proxies.reserve(self.inputs.sources);
        loop {
            let line = self.world.with_environment(|environment| {
                let line = reader.next_line(environment, self.inputs.conditions, diagnostics)?;
                Some(crate::address::variables::expanded(line, environment))
            });
            let Some(line) = line else { break };
            self.notice_file(&line, diagnostics);
            match SECTIONS.find(line.keyword().text()) {
                Some(_) if line.is_cut() => {
                    self.end_section(diagnostics);
                    self.current = CurrentSection::Skipped;
                }
                None if line.is_cut() => {}
                Some(row) => {
                    self.end_section(diagnostics);
                    reader.set_section(section_name(&line));
                    self.late |= row.name != "global";
                    self.current = self.begin(&line, &row.handler, diagnostics).unwrap_or_else(|fault| {
                        diagnostics.push(*fault);
                        self.refused.insert((row.name, line.text(1).into()));
                        CurrentSection::Skipped
                    });
                }
                None => self.line(&line, diagnostics),
            }
        }
        self.end_section(diagnostics);
        self.finish(diagnostics)
    }

    /// Ends the current section at the beginning of a file.
    fn notice_file(&mut self, line: &Line, diagnostics: &mut Diagnostics) {
        let id = line.span().file;
        if self.file.as_ref().is_some_and(|(known, _)| *known == id) {
            return;
        }
        self.end_section(diagnostics);
        let name = self.inputs.sources.name(id);
        self.world.enter_file(name);
        let name: Arc<str> = name.into();
        self.global.files.push(Arc::clone(&name));
        self.file = Some((id, name));
    }

    fn begin(
        &mut self,
        line: &Line,
        handler: &Handler<SectionKind>,
        diagnostics: &mut Diagnostics,
    ) -> Parsed<CurrentSection> {
        let keyword = line.keyword();
        let kind = match handler {
            Handler::Ready(kind) => kind,
            Handler::NotYet => {
                let message = format!("section '{keyword}' is not implemented yet");
                return Err(fault(keyword.span(), message));
            }
            Handler::Removed(instead) => {
                return Err(fault(
                    keyword.span(),
                    format!("section '{keyword}' is not supported any more; {instead}"),
                ));
            }
        };
        match kind {
            SectionKind::Global => {
                if let Err(fault) = Words::new(line, 1).end("global") {
                    diagnostics.push(*fault);
                }
                Ok(CurrentSection::Global)
            }
            SectionKind::Proxy => {
                let name = self.file_name();
                self.engine_files.enter_section(&self.global);
                self.proxies.begin(line, &name, diagnostics);
                Ok(CurrentSection::Proxy)
            }
            SectionKind::Userlist => self.begin_userlist(line, diagnostics),
            SectionKind::HttpErrors => {
                let at = self.location(line);
                Ok(CurrentSection::HttpErrors(self.http_errors.begin(line, at)?))
            }
            SectionKind::Ring => {
                let at = self.location(line);
                Ok(CurrentSection::Ring(RingSectionReader::begin(line, at, &self.rings)?, line.span()))
            }
            SectionKind::LogForward => {
                let reader = LogForwardReader::begin(line, self.location(line), &self.log_forwards)?;
                Ok(CurrentSection::LogForward(reader, line.span()))
            }
            SectionKind::Healthcheck => {
                let reader = HealthcheckReader::begin(line, self.location(line), &self.health_checks)?;
                Ok(CurrentSection::Healthcheck(Box::new(reader)))
            }
            SectionKind::CrtStore => {
                Ok(CurrentSection::CrtStore(crt_store::begin(line, self.location(line))?))
            }
            SectionKind::FcgiApp => {
                let draft = ApplicationDraft::begin(line, self.location(line), &self.applications)?;
                Ok(CurrentSection::FcgiApp(Box::new(draft)))
            }
            SectionKind::Mailers => {
                Ok(CurrentSection::Mailers(mailers::begin(line, self.location(line), &self.mailers)?))
            }
            SectionKind::Peers => {
                let local = self.world.with_environment(|environment| {
                    let name = environment.value("HAPROXY_LOCALPEER").unwrap_or_default();
                    String::from_utf8_lossy(name).into_owned()
                });
                let reader = PeersReader::begin(line, self.location(line), &local, &self.peers)?;
                Ok(CurrentSection::Peers(Box::new(reader)))
            }
            SectionKind::Resolvers => {
                let at = self.location(line);
                Ok(CurrentSection::Resolvers(ResolversReader::begin(line, at, &self.resolvers)?))
            }
            SectionKind::Traces => {
                if let Err(fault) = Words::new(line, 1).end("traces") {
                    diagnostics.push(*fault);
                }
                Ok(CurrentSection::Traces)
            }
            SectionKind::Engine(_) => {
                let message = format!(
                    "section '{keyword}' is not allowed in a configuration. It belongs in the file of an engine, named by 'filter spoe \
                     engine <name> config <file>'"
                );
                Err(fault(keyword.span(), message))
            }
        }
    }

    fn begin_userlist(&mut self, line: &Line, diagnostics: &mut Diagnostics) -> Parsed<CurrentSection> {
        let mut words = Words::new(line, 1);
        let tight = |message: String| {
            Box::new(Diagnostic::alert(line.span_at(1), message).layout(Layout::ParsingTight))
        };
        if words.peek_text().is_empty() {
            return Err(tight("'userlist' expects <name> as arguments.".into()));
        }
        let name = words.peek_text();
        let regular = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        if let Some(stranger) = name.chars().find(|c| !regular(*c)) {
            return Err(tight(format!(
                "character '{stranger}' is not permitted in 'userlist' name '{name}'."
            )));
        }
        words.take();
        words.end("userlist")?;
        if self.userlist_positions.contains_key(name) {
            let message = format!("ignoring duplicated userlist '{name}'.");
            diagnostics.push(Diagnostic::warning(line.span(), message).layout(Layout::ParsingTight));
            return Ok(CurrentSection::Skipped);
        }
        Ok(CurrentSection::Userlist(UserlistReader::new(name, self.location(line))))
    }

    fn line(&mut self, line: &Line, diagnostics: &mut Diagnostics) {
        if matches!(line.text(0), "log" | "log-stderr") {
            self.note_log_target(line.text(1), line.span_at(1));
        }
        let at = self.location(line);
        match &mut self.current {
            CurrentSection::Outside => {
                let keyword = line.keyword();
                let nearest = did_you_mean(keyword.text(), SECTIONS.rows().map(|row| row.name));
                let message = format!("unknown keyword '{keyword}' out of section.");
                let note = match keyword.text().starts_with(BYTE_ORDER_MARK) {
                    true => {
                        "the file begins with a byte order mark, which editors hide: save it as UTF-8 without one"
                    }
                    false => "a file begins with a section, such as 'global', 'defaults' or 'frontend'",
                };
                diagnostics.push(
                    Diagnostic::alert(keyword.span(), message)
                        .layout(Layout::ParsingTight)
                        .note(note)
                        .suggestion(nearest),
                );
            }
            CurrentSection::Skipped => {}
            CurrentSection::Global => {
                let mut context = GlobalContext {
                    global: &mut self.global,
                    world: self.world,
                    resources: self.resources,
                    at,
                    late: self.late,
                    negated: false,
                    keyword: "",
                    diagnostics,
                };
                if let Err(fault) = global::read_line(&mut context, line) {
                    diagnostics.push(*fault);
                }
            }
            CurrentSection::Proxy => {
                self.group_uses.extend(groups_of(line));
                self.proxies.line(line, &at.file, diagnostics);
            }
            CurrentSection::Userlist(reader) => reader.line(line, diagnostics),
            CurrentSection::HttpErrors(reader) => reader.line(line, self.resources, diagnostics),
            CurrentSection::Ring(reader, _) => reader.line(line, &at, self.resources, diagnostics),
            CurrentSection::LogForward(reader, _) => reader.line(line, at, diagnostics),
            CurrentSection::Mailers(section) => mailers::read_line(section, line, diagnostics),
            CurrentSection::CrtStore(store) => {
                crt_store::read_line(store, &mut self.stored_certificates, line, at, diagnostics);
            }
            CurrentSection::FcgiApp(draft) => {
                self.group_uses.extend(groups_of(line));
                draft.line(line, &LineScope { resources: self.resources, at: &at }, diagnostics);
            }
            CurrentSection::Peers(reader) => reader.line(line, at, self.resources, diagnostics),
            CurrentSection::Healthcheck(reader) => {
                reader.line(line, &at, self.resources, self.inputs.keywords, diagnostics);
            }
            CurrentSection::Resolvers(reader) => reader.line(line, at, self.resources, diagnostics),
            CurrentSection::Traces => traces::read_line(&mut self.traces, line, at, diagnostics),
        }
        line.take_remarks().into_iter().for_each(|remark| diagnostics.push(remark));
    }

    /// Notes the ring or the backend of a log target, which later sections may declare.
    fn note_log_target(&mut self, target: &str, span: Span) {
        if let Some(ring) = target.strip_prefix("ring@") {
            self.ring_uses.push((ring.into(), span));
        }
        if let Some(backend) = target.strip_prefix("backend@") {
            self.backend_uses.push((backend.into(), span));
        }
    }

    fn end_section(&mut self, diagnostics: &mut Diagnostics) {
        match std::mem::replace(&mut self.current, CurrentSection::Outside) {
            CurrentSection::Outside
            | CurrentSection::Skipped
            | CurrentSection::Global
            | CurrentSection::Traces => {}
            CurrentSection::Proxy => self.proxies.end_section(&self.global.logs, diagnostics),
            CurrentSection::Userlist(reader) => {
                let groups: HashSet<Box<str>> = reader.group_names().map(Into::into).collect();
                let list = reader.end(diagnostics);
                self.groups.insert(list.name.clone(), groups);
                self.userlist_positions.insert(list.name.clone(), self.userlists.len() as u32);
                self.userlists.push(list);
            }
            CurrentSection::HttpErrors(reader) => self.http_errors.end(reader),
            CurrentSection::Ring(reader, span) => self.rings.push(reader.end(diagnostics, span)),
            CurrentSection::LogForward(reader, span) => {
                let mut section = reader.end(diagnostics);
                section.targets.settle(&self.global.logs);
                self.log_forwards.push(section);
                self.log_forward_spans.push(span);
            }
            CurrentSection::Mailers(section) => self.mailers.push(section),
            CurrentSection::CrtStore(store) => self.certificate_stores.push(store),
            CurrentSection::FcgiApp(draft) => {
                self.applications.push(draft.end(&self.global.logs, diagnostics));
            }
            CurrentSection::Peers(reader) => {
                let (mut section, tables) = reader.end(diagnostics);
                section.log_targets.settle(&self.global.logs);
                self.peers.push(section);
                self.peer_tables.extend(tables);
            }
            CurrentSection::Healthcheck(reader) => {
                self.health_checks.push(reader.end(&mut self.proxies, diagnostics));
            }
            CurrentSection::Resolvers(reader) => self.resolvers.push(reader.end(diagnostics)),
        }
    }

    fn finish(mut self, diagnostics: &mut Diagnostics) -> Config {
        let has_default = self.resolvers.iter().any(|section| *section.name == *Resolvers::DEFAULT);
        if !has_default {
            self.resolvers.extend(resolvers::default_section(self.resources.loader));
        }
        for (target, span) in self.engine_files.take_log_uses() {
            self.note_log_target(&target, span);
        }
        for (name, span) in &self.ring_uses {
            let known = self.rings.iter().map(|ring| &*ring.name).chain([ring::BUILT_IN_RING]);
            let refused = self.refused.contains(&("ring", name.clone()));
            if !name.is_empty() && !refused && !known.clone().any(|known| *known == **name) {
                let nearest = did_you_mean(name, known);
                let message = format!("log : unknown ring '{name}'");
                diagnostics.push(Diagnostic::alert(*span, message).suggestion(nearest));
            }
        }
        let context = OtherSections {
            userlist: &|name| {
                let refused = self.refused.contains(&("userlist", name.into())).then_some(0);
                self.userlist_positions.get(name).copied().or(refused)
            },
            http_errors: &|name| {
                let refused = self.refused.contains(&("http-errors", name.into()));
                self.http_errors.get(name).or_else(|| refused.then(any_error))
            },
            peer_tables: &self.peer_tables,
            has_peers: &|name| {
                let refused = self.refused.contains(&("peers", name.into()));
                refused || self.peers.iter().any(|section| *section.name == *name)
            },
            has_mailers: &|name| {
                let refused = self.refused.contains(&("mailers", name.into()));
                refused || self.mailers.iter().any(|section| *section.name == *name)
            },
            has_health_check: &|name| {
                let refused = self.refused.contains(&("healthcheck", name.into()));
                refused || self.health_checks.iter().any(|section| *section.name == *name)
            },
            health_scripts: &|name| {
                let section = self.health_checks.iter().find(|section| *section.name == *name)?;
                Some(Arc::clone(&section.scripts))
            },
            applications: &self.applications,
            is_refused_application: &|name| self.refused.contains(&("fcgi-app", name.into())),
            has_description: self.global.description.is_some(),
            external_checks: self.global.external_check.is_some(),
            may_create_processes: self.global.insecure_fork_wanted,
            first_proxy_id: if self.global.sockets.is_empty() { 1 } else { 2 },
        };
        for (list, group, span) in &self.group_uses {
            // A missing userlist is reported where it is looked up.
            if self.groups.get(&**list).is_some_and(|groups| !groups.contains(group)) {
                diagnostics.alert(*span, format!("acl http_auth_group(): invalid group '{group}'."));
            }
        }
        let (proxies, tables) = self.proxies.finish(&context, diagnostics);
        crate::proxy::check_counters(&proxies, self.global.tuning.stick_counters, diagnostics);
        if self.global.server_state_file.is_none() {
            warn_about_states(&proxies, diagnostics);
        }
        warn_about_mailers(&self.mailers, &proxies, diagnostics);
        if let Some(threads) = self.global.threads {
            check_threads(&proxies, threads, diagnostics);
        }
        for (name, span) in self.backend_uses.iter().filter(|(name, _)| !name.is_empty()) {
            if let Some(diagnostic) = log_backend_fault(name, *span, &proxies) {
                diagnostics.push(diagnostic);
            }
        }
        for (at, backend, server, section) in named_resolvers(&proxies) {
            let refused = self.refused.contains(&("resolvers", section.into()));
            if !refused && !self.resolvers.iter().any(|known| *known.name == *section) {
                let nearest = did_you_mean(section, self.resolvers.iter().map(|known| &*known.name));
                let message = format!(
                    "[{at}] : 'server {backend}/{server}' : unable to find required resolvers '{section}'."
                );
                diagnostics.push(Diagnostic::alert(None, message).suggestion(nearest.map(str::to_owned)));
            }
        }
        for (proxy, at, section) in sections_of_rules(&proxies) {
            let refused = self.refused.contains(&("resolvers", section.into()));
            if !refused && !self.resolvers.iter().any(|known| *known.name == *section) {
                let nearest = did_you_mean(section, self.resolvers.iter().map(|known| &*known.name));
                let message = format!(
                    "[{at}] : Proxy '{proxy}': Can't find resolvers section '{section}' for do-resolve action."
                );
                diagnostics.push(Diagnostic::alert(None, message).suggestion(nearest.map(str::to_owned)));
            }
        }
        for (section, span) in self.log_forwards.iter().zip(&self.log_forward_spans) {
            if let Some(fault) = same_name(section, *span, &proxies) {
                diagnostics.push(*fault);
            }
        }
        Config {
            global: self.global,
            userlists: self.userlists,
            proxies,
            tables,
            rings: self.rings,
            resolvers: self.resolvers,
            log_forwards: self.log_forwards,
            mailers: self.mailers,
            certificate_stores: self.certificate_stores,
            http_errors: self.http_errors.into_sections(),
            peers: self.peers,
            health_checks: self.health_checks,
            applications: self.applications.into_iter().map(|section| section.application).collect(),
            traces: self.traces,
        }
    }

    fn file_name(&self) -> Arc<str> {
        self.file.as_ref().map_or_else(|| "".into(), |(_, name)| name.clone())
    }

    fn location(&self, line: &Line) -> Location {
        Location::new(self.file_name(), line.span().line)
    }
}

/// The `resolvers` sections that rules use: the proxy's name, the rule's location, and the section's name.
fn sections_of_rules(proxies: &[Proxy]) -> impl Iterator<Item = (&str, &Location, &str)> {
    proxies.iter().flat_map(|proxy| {
        let kinds = [RulesetKind::TcpRequestContent, RulesetKind::HttpRequest];
        kinds
            .into_iter()
            .flat_map(|kind| proxy.rules(kind))
            .filter_map(|rule| Some((&*proxy.name, &rule.at, rule.action.facts().resolvers?)))
    })
}

/// The `resolvers` sections of servers: the server's location, then the names of the backend, the server and the section.
fn named_resolvers(proxies: &[Proxy]) -> impl Iterator<Item = (&Location, &str, &str, &str)> {
    proxies.iter().flat_map(|proxy| {
        proxy.servers.iter().filter_map(move |server| {
            let section = server.settings.resolution.section.as_deref()?;
            Some((&server.at, &*proxy.name, &*server.name, section))
        })
    })
}

/// The messages of a refused `http-errors` section: one for every status.
fn any_error() -> Arc<ErrorReplies> {
    let mut replies = ErrorReplies::default();
    for status in ErrorReplies::STATUSES {
        let message = ErrorMessage { path: "".into(), response: None };
        replies.set(status, ErrorReply::Message(Arc::new(message)));
    }
    Arc::new(replies)
}

/// The groups that `http_auth_group` tests on a line: userlist, group, location.
fn groups_of(line: &Line) -> Vec<(Box<str>, Box<str>, Span)> {
    let list =
        |word: &Word| Some(word.text().strip_prefix("http_auth_group(")?.strip_suffix(')')?.to_owned());
    let mut found = Vec::new();
    let mut current = None;
    for word in line.arguments() {
        match (&current, word.text()) {
            (None, _) => current = list(word),
            (Some(_), "}") => current = None,
            (Some(_), "-i" | "--") => {}
            // A file or another match method: the following words are not group names.
            (Some(_), flag) if flag.starts_with('-') => return found,
            (Some(list), group) => found.push((list.as_str().into(), group.into(), word.span())),
        }
    }
    found
}

/// Warns about backends that load server states from a file but do not name one.
fn warn_about_states(proxies: &[Proxy], diagnostics: &mut Diagnostics) {
    let wants = |proxy: &&Proxy| proxy.is_backend() && proxy.settings.server_states == ServerStates::Global;
    for proxy in proxies.iter().filter(wants) {
        let message = format!(
            "[{}] : backend '{}' configured to load server state file from global section 'server-state-file' directive. \
             Unfortunately, 'server-state-file' is not set!",
            proxy.at, proxy.name
        );
        let group = "backend without a global 'server-state-file' to load server states from";
        diagnostics.push(Diagnostic::warning(None, message).group(group));
    }
}

/// Warns about `mailers` sections that no proxy uses.
fn warn_about_mailers(sections: &[Mailers], proxies: &[Proxy], diagnostics: &mut Diagnostics) {
    let used: HashSet<&str> =
        proxies.iter().filter_map(|proxy| proxy.settings.mail_alert.as_ref()?.mailers.as_deref()).collect();
    for section in sections.iter().filter(|section| !used.contains(&*section.name)) {
        let message = format!("Removing incomplete section 'mailers {}'.", section.name);
        diagnostics.push(Diagnostic::warning(None, message));
    }
}

/// Reports listeners that no existing thread serves.
fn check_threads(proxies: &[Proxy], threads: u16, diagnostics: &mut Diagnostics) {
    for proxy in proxies {
        for bind in &proxy.binds {
            if bind.options.threads.as_ref().is_some_and(|set| !set.reaches(threads)) {
                let message = format!(
                    "{} '{}': 'thread' directive only references non-existing threads in 'bind {}' at [{}].",
                    proxy.section.name(),
                    proxy.name,
                    bind.spelling,
                    bind.at
                );
                diagnostics.push(Diagnostic::alert(None, message));
            }
        }
    }
}

/// The error of a `log backend@<name>` line, if there is one.
fn log_backend_fault(name: &str, span: Span, proxies: &[Proxy]) -> Option<Diagnostic> {
    let backends = || proxies.iter().filter(|proxy| proxy.is_backend());
    let Some(found) = backends().find(|proxy| *proxy.name == *name) else {
        let of_logs = backends().filter(|proxy| proxy.mode() == Mode::Log).map(|proxy| &*proxy.name);
        let nearest = did_you_mean(name, of_logs).map(str::to_owned);
        return Some(Diagnostic::alert(span, format!("log : unknown backend '{name}'")).suggestion(nearest));
    };
    if found.mode() != Mode::Log {
        let (kind, at) = (found.section.name(), &found.at);
        let message = format!("log : {kind} '{name}' (declared at {at}) is not in 'mode log'");
        return Some(Diagnostic::alert(span, message));
    }
    found.settings.disabled.then(|| {
        let message = format!("log : backend '{name}' is disabled: messages for it are lost");
        Diagnostic::warning(span, message)
    })
}

/// The error of a section that has the name of a frontend.
fn same_name(section: &LogForward, span: Span, proxies: &[Proxy]) -> Option<Box<Diagnostic>> {
    let twin = proxies.iter().find(|proxy| proxy.is_frontend() && proxy.name == section.name)?;
    let (name, kind, at) = (&section.name, twin.section.name(), &twin.at);
    let message =
        format!("log-forward section '{name}' has the same name as {kind} '{name}' declared at {at}.");
    Some(fault(span, message))
}

/// The value of `.SECTION`: the section's name, or its kind for a section without a name.
fn section_name(line: &Line) -> &str {
    match line.text(1) {
        "" => line.text(0),
        name => name,
    }
}

/// Some editors put it at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

#[cfg(test)]
pub(crate) mod tests;
