//! Checks at the end: of a section, when its ACLs are complete, and of the configuration, when all names are known.

mod protocols;
mod subrequests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use weir_expr::{Condition, EvaluationPoint};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Span};

use self::protocols::{check_protocols, check_servers_without_http};
use super::application::section::ApplicationSection;
use super::options::{OPTIONS, OptionKind};
use super::resolve::ProxyPositions;
use super::{
    ConditionList, Draft, DraftSection, FinishedProxy, ProxyParser, balancing, checks, compression, errors,
    filters, health_section, log_mode, mail, spoe, stats,
};
use crate::draft::ErrorStep;
use crate::draft::stream_keywords::StreamKeywords;
use crate::rows::Handler;
use weir_model::{
    BackendTarget, Balance, CertificateSource, CheckScripts, ErrorReplies, LogLine, LogLineKind, Mode,
    Protocol, Proxy, ProxyIndex, ProxySection, RetryOn, RulesetKind, ServerTarget, StickTable,
};

/// The objects of other sections to which proxies may refer.
pub struct OtherSections<'s> {
    /// The position of the list of users with this name.
    pub userlist: &'s dyn Fn(&str) -> Option<u32>,
    /// The error messages of the `http-errors` section with this name.
    pub http_errors: &'s dyn Fn(&str) -> Option<Arc<ErrorReplies>>,
    /// The tables of `peers` sections, with their full names.
    pub peer_tables: &'s [StickTable],
    /// Whether there is a `peers` section with this name.
    pub has_peers: &'s dyn Fn(&str) -> bool,
    /// Whether there is a `healthcheck` section with this name.
    pub has_health_check: &'s dyn Fn(&str) -> bool,
    /// The checks of the `healthcheck` section with this name.
    pub health_scripts: &'s dyn Fn(&str) -> Option<Arc<CheckScripts>>,
    /// `fcgi-app` sections.
    pub applications: &'s [ApplicationSection],
    /// Whether a `fcgi-app` section of this name was refused.
    pub is_refused_application: &'s dyn Fn(&str) -> bool,
    /// Whether there is a `mailers` section with this name.
    pub has_mailers: &'s dyn Fn(&str) -> bool,
    /// Whether the global section has a `description`.
    pub has_description: bool,
    /// `external-check` of the global section.
    pub external_checks: bool,
    /// `insecure-fork-wanted`.
    pub may_create_processes: bool,
    /// The first identifier for proxies. The runtime API's sockets use the previous one.
    pub first_proxy_id: u32,
}

/// Completes a section: checks its conditions and resolves names inside it.
pub(super) fn end_of_section(draft: &mut Draft, keywords: &StreamKeywords, diagnostics: &mut Diagnostics) {
    draft.acls.seal();
    warn_about_conditions(draft, diagnostics);
    settle_use_server(draft, diagnostics);
    settle_listeners(&draft.proxy, draft.section, diagnostics);
    assign_certificates(&mut draft.proxy);
    settle_server_ids(draft, diagnostics);
    log_mode::end_of_section(draft, diagnostics);
    compression::settle(draft, keywords.filters, diagnostics);
    filters::settle(draft, diagnostics);
    spoe::settle(draft, diagnostics);
    warn_about_checks(draft, diagnostics);
}

/// The limit of servers in one chain of `track`.
const MAX_CHAIN: usize = 1024;

fn warn_about_checks(draft: &Draft, diagnostics: &mut Diagnostics) {
    if draft.section.is_defaults() {
        return;
    }
    let proxy = &draft.proxy;
    for message in checks::unused(&proxy.settings.checks, &proxy.name, &proxy.at) {
        diagnostics.push(Diagnostic::warning(draft.span, message).layout(Layout::Bare));
    }
}

fn warn_about_conditions(draft: &Draft, diagnostics: &mut Diagnostics) {
    warn_about_bytes(draft, diagnostics);
    for written in &draft.conditions {
        let (list, index) = written.rule;
        let Some(condition) = condition_at(&draft.proxy, list, index) else { continue };
        let Some((name, fetch)) = condition.conflict(written.points) else { continue };
        let ruleset = match list {
            ConditionList::Rules(kind) if !kind.is_http() => format!(" in '{}'", kind.keyword()),
            _ => String::new(),
        };
        let place = EvaluationPoint::ALL.into_iter().find(|place| written.points.contains(*place));
        let place = place.map_or("this place", |place| place.name());
        let message = if name.is_empty() {
            format!(
                "anonymous acl will never match{ruleset} because it uses keyword '{fetch}' which is incompatible with '{place}'"
            )
        } else {
            format!("acl '{name}' involves keywords '{fetch}' which is incompatible with '{place}'")
        };
        diagnostics.warning(written.span, message);
    }
}

/// Warns about tests on raw bytes in HTTP mode, and about HTTP format strings made of raw bytes.
fn warn_about_bytes(draft: &Draft, diagnostics: &mut Diagnostics) {
    if draft.section.is_defaults() || draft.proxy.mode() != Mode::Http {
        return;
    }
    for written in &draft.conditions {
        let (list, index) = written.rule;
        if condition_at(&draft.proxy, list, index).is_some_and(Condition::needs_bytes) {
            let message = format!("Proxy '{}': L6 sample fetches ignored on HTTP proxies.", draft.proxy.name);
            diagnostics.push(Diagnostic::warning(written.span, message).layout(Layout::Location));
        }
    }
    for (fetch, span) in &draft.notes.borrow().bytes_in_text {
        diagnostics.warning(*span, format!("L6 sample fetch <{fetch}> ignored in HTTP log-format string."));
    }
}

fn condition_at(proxy: &Proxy, list: ConditionList, index: usize) -> Option<&Condition> {
    match list {
        ConditionList::Rules(kind) => proxy.rules.get(kind).get(index)?.condition.as_ref(),
        ConditionList::Redirect => proxy.redirects.get(index)?.condition.as_ref(),
        ConditionList::UseBackend => proxy.use_backend.get(index)?.condition.as_ref(),
        ConditionList::UseServer => proxy.use_server.get(index)?.condition.as_ref(),
        ConditionList::Stick => proxy.stick_rules.get(index)?.condition.as_ref(),
    }
}

fn settle_use_server(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    for (rule, name, span) in std::mem::take(&mut draft.pending.use_server) {
        match draft.server_names.get(&name) {
            Some((_, index)) => {
                draft.proxy.use_server[rule].target = ServerTarget::Static(*index);
                draft.proxy.servers[*index as usize].is_referenced = true;
            }
            None if draft.refused.servers.contains(&name) => {}
            None => {
                let message = format!(
                    "{} '{}' : unable to find server '{name}' referenced in a 'use-server' rule.",
                    draft.section.noun(),
                    draft.proxy.name
                );
                let nearest = weir_syntax::did_you_mean(&name, draft.server_names.keys().map(|name| &**name));
                let diagnostic = Diagnostic::alert(span, message).layout(Layout::Bare);
                diagnostics.push(diagnostic.suggestion(nearest.map(str::to_owned)));
            }
        }
    }
}

fn settle_listeners(proxy: &Proxy, section: DraftSection, diagnostics: &mut Diagnostics) {
    let mut ids: HashMap<u32, &weir_model::Bind> = HashMap::new();
    for bind in &proxy.binds {
        let Some(id) = bind.id else { continue };
        if let Some(other) = ids.insert(id, bind) {
            let message = format!(
                "'bind {}' in section '{}' : 'id' : custom id {id} already used at {} ('bind {}')",
                bind.spelling,
                section.keyword(),
                other.at,
                other.spelling
            );
            diagnostics.push(Diagnostic::alert(None, format!("parsing [{}] : {message}", bind.at)));
        }
    }
}

/// Assigns the certificates of `ssl-f-use` to all TLS lines.
fn assign_certificates(proxy: &mut Proxy) {
    if proxy.certificates.is_empty() {
        return;
    }
    let list: Box<str> = format!("@{}", proxy.name).into();
    let speaking = proxy.binds.iter_mut().filter_map(|bind| bind.options.tls.as_mut());
    speaking
        .filter(|tls| tls.enabled)
        .for_each(|tls| tls.certificates.push(CertificateSource::List(list.clone())));
}

/// Assigns an identifier to every server: its explicit one, or the next free one. An explicit identifier also advances the counter. Keep this
/// order, since consistent hashing uses these numbers.
fn settle_server_ids(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    let servers = &mut draft.proxy.servers;
    let mut used: HashMap<u32, usize> = HashMap::new();
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| server.id != 0) {
        if let Some(other) = used.insert(server.id, index) {
            let message = format!(
                "[{}] : 'server {}/{}' : 'id' : custom id {} already used at {} ('server {}').",
                server.at, draft.proxy.name, server.name, server.id, servers[other].at, servers[other].name
            );
            diagnostics.push(Diagnostic::alert(None, message));
        }
    }
    let mut next = 1;
    for server in servers.iter_mut() {
        if server.id == 0 {
            while used.contains_key(&next) {
                next += 1;
            }
            server.id = next;
        }
        next += 1;
    }
}

impl ProxyParser<'_> {
    /// Completes the configuration and returns the proxies in section order.
    ///
    /// The proxies are usable only if `diagnostics` is free of alerts afterwards. Also returns all stick-tables, those of the proxies first.
    pub fn finish(
        mut self,
        context: &OtherSections<'_>,
        diagnostics: &mut Diagnostics,
    ) -> (Vec<Proxy>, Vec<StickTable>) {
        let tables = self.take_tables(context);
        let names = ProxyPositions::of(&self.finished, &tables, diagnostics);
        settle_proxy_ids(&mut self.finished, context.first_proxy_id, diagnostics);
        self.settle_errors(context, diagnostics);
        self.settle_engines(&names, diagnostics);
        self.settle_applications(context, diagnostics);
        for index in 0..self.finished.len() {
            self.settle_backends(index, &names, diagnostics);
            self.check(index, context, diagnostics);
        }
        check_guids(&self.finished, diagnostics);
        self.settle_subrequests(&names, diagnostics);
        self.settle_tracks(&names, diagnostics);
        for (proxy, server) in self.resolve_references(&names, context, diagnostics) {
            self.finished[proxy as usize].proxy.servers[server as usize].is_referenced = true;
        }
        let tables = self.settle_tables(tables, context, diagnostics);
        (self.finished.into_iter().map(|finished| finished.proxy).collect(), tables)
    }

    /// Resolves the servers that `track` names, and checks that the last server of each chain has checks.
    fn settle_tracks(&mut self, names: &ProxyPositions, diagnostics: &mut Diagnostics) {
        let tracking: Vec<(usize, usize)> = (0..self.finished.len())
            .flat_map(|proxy| {
                (0..self.finished[proxy].proxy.servers.len()).map(move |server| (proxy, server))
            })
            .filter(|(proxy, server)| self.server_at(*proxy, *server).settings.check.track.is_some())
            .collect();
        for (proxy, server) in &tracking {
            match self.leader_of(*proxy, *server, names) {
                Ok(leader) => {
                    self.finished[*proxy].proxy.servers[*server].leader = Some(leader);
                    self.finished[leader.0 as usize].proxy.servers[leader.1 as usize].is_referenced = true;
                }
                Err(message) => self.complain_of_track(*proxy, *server, &message, diagnostics),
            }
        }
        for (proxy, server) in tracking {
            if let Err(message) = self.check_chain(proxy, server) {
                self.complain_of_track(proxy, server, &message, diagnostics);
            }
        }
    }

    fn server_at(&self, proxy: usize, server: usize) -> &weir_model::Server {
        &self.finished[proxy].proxy.servers[server]
    }

    fn complain_of_track(&self, proxy: usize, server: usize, message: &str, diagnostics: &mut Diagnostics) {
        let (backend, server) = (&self.finished[proxy].proxy.name, self.server_at(proxy, server));
        let text = format!("[{}] : 'server {backend}/{}' : {message}", server.at, server.name);
        diagnostics.push(Diagnostic::alert(None, text));
    }

    fn leader_of(&self, proxy: usize, server: usize, names: &ProxyPositions) -> Result<(u32, u32), String> {
        let Some(track) = &self.server_at(proxy, server).settings.check.track else {
            return Err("nothing is tracked.".to_owned());
        };
        let leader = match &track.backend {
            None => proxy,
            Some(name) => names
                .backend(name)
                .map(ProxyIndex::get)
                .ok_or_else(|| format!("unable to find required proxy '{name}' for tracking."))?,
        };
        let servers = &self.finished[leader].proxy.servers;
        match servers.iter().position(|other| other.name == track.server) {
            Some(position) => Ok((leader as u32, position as u32)),
            None => Err(format!("unable to find required server '{}' for tracking.", track.server)),
        }
    }

    fn check_chain(&self, proxy: usize, server: usize) -> Result<(), String> {
        let Some(mut at) = self.server_at(proxy, server).leader else { return Ok(()) };
        let name = |(proxy, server): (u32, u32)| {
            let backend = &self.finished[proxy as usize].proxy.name;
            format!("{backend}/{}", self.server_at(proxy as usize, server as usize).name)
        };
        let first = at;
        let itself = (proxy as u32, server as u32);
        for _ in 0..MAX_CHAIN {
            let leader = self.server_at(at.0 as usize, at.1 as usize);
            if at == itself {
                return Err(format!(
                    "unable to track {} as it belongs to a tracking chain looping back to {}.",
                    name(first),
                    name(itself)
                ));
            }
            match leader.leader {
                Some(next) => at = next,
                None if leader.settings.check.track.is_some() => return Ok(()),
                None if leader.settings.check.enabled => return Ok(()),
                None => {
                    return Err(format!(
                        "unable to use {} for tracking as it does not have any check nor agent enabled.",
                        name(at)
                    ));
                }
            }
        }
        Err(format!("unable to track {} as its chain has more than {MAX_CHAIN} servers.", name(first)))
    }

    /// Applies the steps of `errorfile` and similar words. Proxies with the same steps share the result.
    fn settle_errors(&mut self, context: &OtherSections<'_>, diagnostics: &mut Diagnostics) {
        let mut results: HashMap<*const Vec<ErrorStep>, Arc<ErrorReplies>> = HashMap::new();
        for finished in &mut self.finished {
            let steps = &finished.extras.error_steps;
            if steps.is_empty() {
                continue;
            }
            if let Some(known) = results.get(&Arc::as_ptr(steps)) {
                finished.proxy.settings.errors = known.clone();
                continue;
            }
            let subject = format!("{} '{}'", noun(&finished.proxy), finished.proxy.name);
            let mut warn = |message: String, span| {
                let warning = Diagnostic::warning(span, format!("{subject}: {message}."));
                diagnostics.push(warning.layout(Layout::Bare));
            };
            match errors::run_steps(steps, context.http_errors, &mut warn) {
                Ok(replies) => {
                    let replies = Arc::new(replies);
                    results.insert(Arc::as_ptr(steps), replies.clone());
                    finished.proxy.settings.errors = replies;
                }
                Err((message, span)) => {
                    let alert = Diagnostic::alert(span, format!("{subject}: {message}."));
                    diagnostics.push(alert.layout(Layout::Bare));
                }
            }
        }
        let defaults = self.defaults.iter().map(|defaults| &defaults.finished);
        for finished in defaults.chain(&self.finished) {
            settle_replies(finished, context, diagnostics);
        }
    }

    fn settle_backends(&mut self, index: usize, names: &ProxyPositions, diagnostics: &mut Diagnostics) {
        let use_backend = std::mem::take(&mut self.finished[index].pending.use_backend);
        for (rule, name, span) in use_backend {
            let target = self.backend_named(index, &name, Some(span), "use_backend", names, diagnostics);
            if let Some(target) = target {
                self.finished[index].proxy.use_backend[rule].target = BackendTarget::Static(target);
            }
        }
        let proxy = &self.finished[index].proxy;
        if !proxy.is_frontend() {
            return;
        }
        if let Some(name) = proxy.settings.default_backend.clone() {
            let span = self.finished[index].pending.default_backend;
            let target = self.backend_named(index, &name, span, "default_backend", names, diagnostics);
            self.finished[index].proxy.default_backend = target;
        }
    }

    fn backend_named(
        &self,
        index: usize,
        name: &str,
        span: Option<Span>,
        keyword: &str,
        names: &ProxyPositions,
        diagnostics: &mut Diagnostics,
    ) -> Option<ProxyIndex> {
        let proxy = &self.finished[index].proxy;
        let place = span.unwrap_or(self.finished[index].span);
        let bare = |message: String| Diagnostic::alert(place, message).layout(Layout::Bare);
        let Some(target) = names.backend(name) else {
            let message = match names.frontend(name) {
                Some(_) => format!(
                    "{} '{}' tries to use '{name}' which has no backend capability in a '{keyword}' rule.",
                    noun(proxy),
                    proxy.name
                ),
                None => format!("Proxy '{}': unable to find required {keyword}: '{name}'.", proxy.name),
            };
            diagnostics.push(bare(message).suggestion(names.nearest_backend(name)));
            return None;
        };
        if target.get() == index {
            let message = format!("Proxy '{}': loop detected for {keyword}: '{name}'.", proxy.name);
            diagnostics.push(bare(message));
            return None;
        }
        let other = &self.finished[target.get()].proxy;
        if other.mode() == Mode::Log {
            let message = format!(
                "{} '{}' ({}) tries to send its traffic to log backend '{}' ({}) in a '{keyword}' rule (see 'mode').",
                noun(proxy),
                proxy.name,
                proxy.at,
                other.name,
                other.at
            );
            diagnostics.push(bare(message));
            return None;
        }
        // A TCP frontend may use an HTTP backend, but not the reverse. Only engines use backends of agents.
        if (proxy.mode() == Mode::Http && other.mode() == Mode::Tcp) || other.mode() == Mode::Spop {
            let message = format!(
                "{} {} '{}' ({}) tries to use incompatible {} {} '{}' ({}) in a '{keyword}' rule (see 'mode').",
                proxy.mode().name(),
                noun(proxy),
                proxy.name,
                proxy.at,
                other.mode().name(),
                noun(other),
                other.name,
                other.at
            );
            diagnostics.push(bare(message));
            return None;
        }
        Some(target)
    }

    /// Reports missing settings of a complete proxy, and settings without effect.
    fn check(&mut self, index: usize, context: &OtherSections<'_>, diagnostics: &mut Diagnostics) {
        let fallback = self.tcp_fallback(index, diagnostics);
        let finished = &mut self.finished[index];
        if let Some(line) = fallback {
            finished.proxy.settings.logging.line = line;
        }
        let proxy = &mut finished.proxy;
        normalize_servers(proxy);
        if proxy.settings.disabled {
            return;
        }
        check_captures(finished, diagnostics);
        check_unique_id(finished, diagnostics);
        stats::check_rules(&finished.proxy, finished.span, diagnostics);
        stats::check_description(finished.pending.global_description, context, diagnostics);
        balancing::check_transparent(&finished.proxy, finished.span, diagnostics);
        checks::settle_external(&finished.proxy, finished.span, context, diagnostics);
        mail::settle(&mut finished.proxy, finished.span, context, diagnostics);
        health_section::settle(&finished.proxy, context, diagnostics);
        let proxy = &mut finished.proxy;
        let who = ProxySubject::of(proxy);
        if let Some(what) = wrong_mode_of_frontend(proxy) {
            let message = format!("{who} cannot have {what}.");
            diagnostics.push(Diagnostic::alert(finished.span, message).layout(Layout::Bare));
            return;
        }
        let mut warn = |message: String| {
            diagnostics.push(Diagnostic::warning(finished.span, message).layout(Layout::Bare));
        };
        if proxy.is_frontend() && proxy.binds.is_empty() {
            warn(format!(
                "{who} has no 'bind' directive. Please declare it as a backend if this was intended."
            ));
        }
        if lacks_timeouts(proxy) {
            warn(format!(
                "missing timeouts for {who}.\n   | While not properly invalid, you will certainly encounter various problems\n   \
                 | with such a configuration. To fix this, please ensure that all following\n   \
                 | timeouts are set to a non-zero value: 'client', 'connect', 'server'."
            ));
        }
        let logging = &proxy.settings.logging;
        let logs = !logging.targets.is_empty();
        let formats = matches!(logging.line, LogLine::Format { .. }) || logging.structured_data.is_some();
        if proxy.is_frontend() && formats && !logs {
            warn(format!("log format ignored for {who} since it has no log address."));
        }
        if proxy.default_backend.is_some() && !proxy.servers.is_empty() {
            warn(format!(
                "In {who}, the 'default_backend' rule always has precedence over the servers, which will never be used."
            ));
        }
        if matches!(proxy.mode(), Mode::Tcp | Mode::Spop) && !proxy.switches_to_http() {
            warn_about_http_only(proxy, &who, &mut warn);
        }
        warn_about_fast_open(proxy, diagnostics);
        warn_about_early_data(proxy, diagnostics);
        check_protocols(proxy, finished.span, diagnostics);
        if matches!(proxy.mode(), Mode::Tcp | Mode::Spop) {
            check_servers_without_http(proxy, finished.span, diagnostics);
        }
    }

    /// The log line in TCP mode that replaces one for HTTP.
    fn tcp_fallback(&self, index: usize, diagnostics: &mut Diagnostics) -> Option<LogLine> {
        let finished = &self.finished[index];
        let proxy = &finished.proxy;
        let LogLine::Format { kind, .. } = &proxy.settings.logging.line else { return None };
        let http_only = matches!(kind, LogLineKind::Http | LogLineKind::HttpClf | LogLineKind::Https);
        if proxy.mode() != Mode::Tcp || !proxy.is_frontend() || !http_only {
            return None;
        }
        let (_, span) = finished.extras.log_line_word?;
        let word = if *kind == LogLineKind::Https { "httpslog" } else { "httplog" };
        let message = format!(
            "'option {word}' not usable with {} '{}' (needs 'mode http'). Falling back to 'option tcplog'.",
            noun(proxy),
            proxy.name
        );
        diagnostics.warning(span, message);
        let acls = weir_expr::AclTable::new();
        let expressions = crate::expressions::ExpressionParser {
            resources: self.resources,
            acls: &acls,
            at: &proxy.at,
            notes: &std::cell::RefCell::default(),
        };
        expressions.tcp_line(*kind == LogLineKind::HttpClf)
    }
}

/// The word for the proxy in messages.
pub(super) fn noun(proxy: &Proxy) -> &'static str {
    DraftSection::Proxy(proxy.section).noun()
}

/// A proxy's name in messages. Formatted only for a message, which is rare.
struct ProxySubject {
    noun: &'static str,
    name: Arc<str>,
}

impl ProxySubject {
    fn of(proxy: &Proxy) -> Self {
        ProxySubject { noun: noun(proxy), name: Arc::clone(&proxy.name) }
    }
}

impl fmt::Display for ProxySubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} '{}'", self.noun, self.name)
    }
}

/// Assigns an identifier to every proxy: its explicit one, or the lowest free one.
fn settle_proxy_ids(finished: &mut [FinishedProxy], first: u32, diagnostics: &mut Diagnostics) {
    let mut used: HashMap<u32, usize> = HashMap::new();
    for index in 0..finished.len() {
        let proxy = &finished[index].proxy;
        if proxy.id == 0 {
            continue;
        }
        finished[index].proxy.id_is_forced = true;
        let proxy = &finished[index].proxy;
        if let Some(other) = used.insert(proxy.id, index) {
            let other = &finished[other].proxy;
            let message = format!(
                "{} {} reuses same custom id as {} {} (declared at {}).",
                noun(proxy),
                proxy.name,
                noun(other),
                other.name,
                other.at
            );
            diagnostics.push(Diagnostic::alert(finished[index].span, message).layout(Layout::ParsingTight));
        }
    }
    let mut next = first;
    for finished in finished.iter_mut() {
        if finished.proxy.id == 0 {
            while used.contains_key(&next) {
                next += 1;
            }
            finished.proxy.id = next;
        }
        next += 1;
    }
}

/// Reports duplicate global identifiers.
fn check_guids(finished: &[FinishedProxy], diagnostics: &mut Diagnostics) {
    let of_proxies = finished.iter().flat_map(|FinishedProxy { proxy, .. }| {
        let own = proxy.guid.as_deref().map(|guid| (guid, &proxy.at, ProxySubject::of(proxy).to_string()));
        let servers = proxy.servers.iter().filter_map(move |server| {
            let guid = server.guid.as_deref()?;
            Some((guid, &server.at, format!("server '{}/{}'", proxy.name, server.name)))
        });
        own.into_iter().chain(servers)
    });
    let mut owners: HashMap<&str, String> = HashMap::new();
    for (guid, at, owner) in of_proxies {
        match owners.get(guid) {
            Some(other) => {
                let message = format!("[{at}] : {owner} : 'guid' : '{guid}' is already that of {other}.");
                diagnostics.push(Diagnostic::alert(None, message));
            }
            None => {
                owners.insert(guid, owner);
            }
        }
    }
}

fn settle_replies(finished: &FinishedProxy, context: &OtherSections<'_>, diagnostics: &mut Diagnostics) {
    for (section, status, span) in &finished.pending.replies {
        let (name, proxy) = (&section.name, &finished.proxy.name);
        let Some(replies) = (context.http_errors)(name) else {
            let message =
                format!("Proxy '{proxy}': unknown http-errors section '{name}' referenced by an http reply.");
            diagnostics.push(Diagnostic::alert(*span, message).layout(Layout::Bare));
            continue;
        };
        let Some(message) = errors::section_message(&replies, *status) else {
            let message = format!(
                "Proxy '{proxy}': status '{status}' referenced by an http reply not declared in http-errors section '{name}', so the proxy's own error message is sent."
            );
            diagnostics.push(Diagnostic::warning(*span, message).layout(Layout::Bare));
            continue;
        };
        // A reply is resolved only once, so the message is not set yet.
        let _ = section.message.set(message);
    }
}

/// Makes `minconn` and `maxconn` equal if only `minconn` is set, or if it exceeds `maxconn`.
fn normalize_servers(proxy: &mut Proxy) {
    for server in &mut proxy.servers {
        let settings = &mut server.settings;
        settings.maxconn = settings.maxconn.max(settings.minconn);
    }
}

fn check_captures(finished: &FinishedProxy, diagnostics: &mut Diagnostics) {
    if !finished.proxy.is_frontend() || finished.refused.captures {
        return;
    }
    let captures = &finished.proxy.captures;
    for (is_request, slot, span) in &finished.pending.capture_ids {
        let slots = if *is_request { &captures.request } else { &captures.response };
        if *slot as usize >= slots.len() {
            let message = format!(
                "Proxy '{}': unable to find capture id '{slot}' referenced by a capture rule.",
                finished.proxy.name
            );
            diagnostics.push(Diagnostic::alert(*span, message).layout(Layout::Bare));
        }
    }
}

/// Checks the log formats of the unique identifier: a frontend may create it before it selects a backend.
fn check_unique_id(finished: &FinishedProxy, diagnostics: &mut Diagnostics) {
    let proxy = &finished.proxy;
    let format = proxy.settings.unique_id_format.as_ref().filter(|_| !proxy.is_backend());
    let mut fetches = format.iter().flat_map(|format| format.expressions());
    if let Some(late) = fetches.find(|fetch| !fetch.points().contains(EvaluationPoint::FrontendRequestHeader))
    {
        let message = format!(
            "failed to parse unique-id of {} : sample fetch <{}> may not be reliably used here because it needs a backend which is not available here.",
            ProxySubject::of(proxy),
            late.decl().name
        );
        diagnostics.push(Diagnostic::alert(finished.span, message).layout(Layout::Bare));
    }
}

/// A part of a proxy that accepts connections which does not fit a mode for backends.
fn wrong_mode_of_frontend(proxy: &Proxy) -> Option<&'static str> {
    match (proxy.section, proxy.mode()) {
        (ProxySection::Backend, _) => None,
        (_, Mode::Log) => Some("the 'mode log' that it inherits: it is for backends only"),
        (ProxySection::Frontend, Mode::Spop) => {
            Some("the 'mode spop' that it inherits: it is for backends only")
        }
        (ProxySection::Listen, Mode::Spop) if !proxy.binds.is_empty() => {
            Some("'bind' lines: its servers are agents, which speak to engines only ('mode spop')")
        }
        _ => None,
    }
}

fn lacks_timeouts(proxy: &Proxy) -> bool {
    if matches!(proxy.mode(), Mode::Log | Mode::Spop) {
        // Log messages are queued in rings, which have limits of their own. 'timeout processing' limits an exchange with an agent.
        return false;
    }
    let timeouts = &proxy.settings.timeouts;
    let client = proxy.is_frontend() && !proxy.binds.is_empty() && timeouts.client.is_none();
    let without_server =
        timeouts.server.is_none() && (proxy.mode() == Mode::Http || timeouts.tunnel.is_none());
    let server =
        proxy.is_backend() && !proxy.servers.is_empty() && (timeouts.connect.is_none() || without_server);
    client || server
}

fn warn_about_http_only(proxy: &mut Proxy, who: &ProxySubject, warn: &mut dyn FnMut(String)) {
    for kind in RulesetKind::ALL.into_iter().filter(|kind| kind.is_http()) {
        if proxy.rules(kind).next().is_some() {
            warn(format!("'{}' rules ignored for {who} as they require HTTP mode.", kind.keyword()));
        }
    }
    if !proxy.redirects.is_empty() {
        warn(format!("'redirect' rules ignored for {who} as they require HTTP mode."));
    }
    let settings = &mut proxy.settings;
    if settings.cookie.is_some() {
        warn(format!("cookie will be ignored for {who} (needs 'mode http')."));
    }
    if proxy.section.is_frontend() && settings.monitor_uri.is_some() {
        warn(format!("monitor-uri will be ignored for {who} (needs 'mode http')."));
    }
    if proxy.section.is_backend() && settings.balance.word.needs_http() {
        warn(format!(
            "Layer 7 hash not possible for {who} (needs 'mode http'). Falling back to round robin."
        ));
        settings.balance = Balance::round_robin();
    }
    if settings.stats.is_some() {
        warn(format!("'stats' statement ignored for {who} as it requires HTTP mode."));
    }
    if proxy.captures.cookie.is_some() {
        warn(format!("'capture' statement ignored for {who} as it requires HTTP mode."));
    }
    let mut ignored = HashSet::new();
    if settings.options.forward_for.is_some() {
        ignored.insert("forwardfor");
    }
    if settings.options.forwarded.is_some() {
        ignored.insert("forwarded");
    }
    if settings.options.original_to.is_some() {
        ignored.insert("originalto");
    }
    for row in OPTIONS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        if let OptionKind::Flag(field) = reader.kind {
            let alias = row.name.starts_with("accept-invalid-");
            if reader.http_only && !alias && *field(&mut settings.options) {
                ignored.insert(row.name);
            }
        }
    }
    let mut ignored: Vec<_> = ignored.into_iter().collect();
    ignored.sort_unstable();
    for name in ignored {
        warn(format!("'option {name}' ignored for {who} as it requires HTTP mode."));
    }
}

/// Warns if retries are missing: data sent with a SYN can be lost in ways that only they repair.
fn warn_about_fast_open(proxy: &Proxy, diagnostics: &mut Diagnostics) {
    let wanted = [RetryOn::CONNECTION_FAILURE, RetryOn::EMPTY_RESPONSE, RetryOn::RESPONSE_TIMEOUT];
    if wanted.into_iter().all(|retry| proxy.settings.retry_on.contains(retry)) {
        return;
    }
    for server in proxy.servers.iter().filter(|server| server.settings.tcp_fast_open) {
        let message = format!(
            "[{}] : 'server {}/{}' : server has tfo activated, the backend should be configured with at least \
             'conn-failure', 'empty-response' and 'response-timeout' or we wouldn't be able to retry the connection on \
             failure.",
            server.at, proxy.name, server.name
        );
        diagnostics.push(
            Diagnostic::warning(None, message).group("server with 'tfo' in a backend that does not retry"),
        );
    }
}

/// Warns about `allow-0rtt` without effect: only whole HTTP/1 requests are sent early.
fn warn_about_early_data(proxy: &Proxy, diagnostics: &mut Diagnostics) {
    for server in &proxy.servers {
        let Some(tls) = server.settings.tls.as_deref().filter(|tls| tls.options.allow_early_data) else {
            continue;
        };
        let offers_http2 = tls.options.protocols.iter().flatten().any(|name| &**name == "h2");
        let why = if proxy.mode() != Mode::Http {
            "only HTTP requests are sent early"
        } else if offers_http2 || server.settings.protocol == Some(Protocol::H2) {
            "nothing is sent early where HTTP/2 may be spoken"
        } else {
            continue;
        };
        let message = format!(
            "[{}] : 'server {}/{}' : 'allow-0rtt' has no effect here: {why}.",
            server.at, proxy.name, server.name
        );
        diagnostics.push(
            Diagnostic::warning(None, message).group("server with 'allow-0rtt' that is without effect"),
        );
    }
}
