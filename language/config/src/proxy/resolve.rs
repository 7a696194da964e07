//! Resolution of proxy names, and of references in expressions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_expr::{ArgKind, Reference};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Span};

use super::finish::{OtherSections, noun};
use super::{FinishedProxy, ProxyParser};
use crate::expressions::WrittenReference;
use weir_model::{ProxyIndex, StickTable};

/// The positions of proxies by name. A frontend and a backend may have the same name.
pub(super) struct ProxyPositions {
    frontends: HashMap<Arc<str>, ProxyIndex>,
    backends: HashMap<Arc<str>, ProxyIndex>,
    tables: HashMap<Box<str>, u32>,
}

impl ProxyPositions {
    /// Collects the names of the proxies. Reports duplicates.
    pub(super) fn of(
        finished: &[FinishedProxy],
        tables: &[StickTable],
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut by_name = HashMap::with_capacity(tables.len());
        for (position, table) in tables.iter().enumerate() {
            let name = &table.declaration.name;
            if let Some(other) = by_name.insert(name.clone(), position as u32) {
                let other = &tables[other as usize].at;
                let message = format!(
                    "parsing [{}] : stick-table name '{name}' conflicts with table declared at {other}.",
                    table.at
                );
                diagnostics.push(Diagnostic::alert(None, message));
            }
        }
        let mut names =
            ProxyPositions { frontends: HashMap::new(), backends: HashMap::new(), tables: by_name };
        for (index, this) in finished.iter().enumerate() {
            let proxy = &this.proxy;
            let position = ProxyIndex(index as u32);
            let namesake = names.frontends.get(&proxy.name).or(names.backends.get(&proxy.name)).copied();
            let mut twin = None;
            if proxy.is_frontend() {
                twin = names.frontends.insert(proxy.name.clone(), position);
            }
            if proxy.is_backend() {
                twin = names.backends.insert(proxy.name.clone(), position).or(twin);
            }
            if let Some(twin) = twin {
                let other = &finished[twin.get()].proxy;
                let message = format!(
                    "{} '{}' has the same name as {} '{}' declared at {}.",
                    noun(proxy),
                    proxy.name,
                    noun(other),
                    other.name,
                    other.at
                );
                diagnostics.push(Diagnostic::alert(this.span, message).layout(Layout::ParsingTight));
            } else if let Some(namesake) = namesake {
                // HAProxy 3.2 warns as well. Later versions refuse it.
                let other = &finished[namesake.get()].proxy;
                let message = format!(
                    "{} '{}' has the same name as {} '{}' declared at {}. HAProxy 3.3 and later refuse this.",
                    noun(proxy),
                    proxy.name,
                    noun(other),
                    other.name,
                    other.at
                );
                diagnostics.push(Diagnostic::warning(this.span, message).layout(Layout::ParsingTight));
            }
        }
        names
    }

    /// The proxy with this name that accepts connections.
    pub(super) fn frontend(&self, name: &str) -> Option<ProxyIndex> {
        self.frontends.get(name).copied()
    }

    /// The position of the stick-table with this name.
    pub(super) fn table(&self, name: &str) -> Option<u32> {
        self.tables.get(name).copied()
    }

    /// The proxy with this name that has servers.
    pub(super) fn backend(&self, name: &str) -> Option<ProxyIndex> {
        self.backends.get(name).copied()
    }

    /// The backend that was probably meant.
    pub(super) fn nearest_backend(&self, name: &str) -> Option<String> {
        weir_syntax::did_you_mean(name, self.backends.keys().map(|name| &**name)).map(str::to_owned)
    }
}

/// The kind of an unknown object, and its name as written.
type Unknown = (&'static str, Box<str>);

impl ProxyParser<'_> {
    /// Resolves every named reference in an expression.
    ///
    /// A reference is resolved to two numbers: the position of the proxy and 0, or of the server in it, or the position of the list of users
    /// and 0. A reference without a name stays unresolved: it means the current proxy, which must be of this kind. Returns the servers that
    /// are referred to.
    pub(super) fn resolve_references(
        &self,
        names: &ProxyPositions,
        context: &OtherSections<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<(u32, u32)> {
        let mut servers = Vec::new();
        let mut note = |reference: &Reference| {
            if reference.kind == ArgKind::Server {
                servers.extend(reference.target());
            }
        };
        for defaults in &self.defaults {
            let mut unknown = Vec::new();
            let mut visit = |reference: &Reference| {
                self.resolve(reference, None, names, context, &mut unknown);
                note(reference);
            };
            if let Some(rules) = &defaults.rules {
                rules.visit_references(&mut visit);
            }
            defaults.finished.proxy.settings.visit_references(&mut visit);
            if let Some(acls) = &defaults.finished.acls {
                acls.visit_references(&mut visit);
            }
            report(&defaults.finished, unknown, diagnostics);
        }
        for section in &self.health_sections {
            let mut unknown = Vec::new();
            section.proxy.settings.checks.visit_references(&mut |reference| {
                self.resolve(reference, None, names, context, &mut unknown);
                note(reference);
            });
            report(section, unknown, diagnostics);
        }
        for section in context.applications {
            let mut unknown = Vec::new();
            let mut visit = |reference: &Reference| {
                self.resolve(reference, None, names, context, &mut unknown);
                note(reference);
            };
            section.application.visit_references(&mut visit);
            section.acls.visit_references(&mut visit);
            let user = ReferenceUser {
                kind: "fcgi-app",
                name: &section.application.name,
                span: section.span,
                references: &section.references,
            };
            user.report(unknown, diagnostics);
        }
        for (index, finished) in self.finished.iter().enumerate() {
            if finished.references.is_empty() && finished.acls.is_none() {
                continue;
            }
            let own = Some(ProxyIndex(index as u32));
            let mut unknown = Vec::new();
            let mut visit = |reference: &Reference| {
                self.resolve(reference, own, names, context, &mut unknown);
                note(reference);
            };
            finished.proxy.visit_references(&mut visit);
            finished.proxy.settings.visit_references(&mut visit);
            if let Some(acls) = &finished.acls {
                acls.visit_references(&mut visit);
            }
            report(finished, unknown, diagnostics);
        }
        servers
    }

    fn resolve(
        &self,
        reference: &Reference,
        own: Option<ProxyIndex>,
        names: &ProxyPositions,
        context: &OtherSections<'_>,
        unknown: &mut Vec<Unknown>,
    ) {
        let Some(name) = &reference.name else {
            // Expressions of a `defaults` section serve proxies of either kind.
            let Some(own) = own else { return };
            let proxy = self.finished[own.get()].proxy.name.as_ref();
            if let (ArgKind::Table, Some(table)) = (reference.kind, self.finished[own.get()].proxy.table) {
                reference.resolve((table, 0));
            }
            let has_capability = match reference.kind {
                ArgKind::Frontend => names.frontend(proxy) == Some(own),
                ArgKind::Backend => names.backend(proxy) == Some(own),
                ArgKind::Table => reference.target().is_some() || self.finished[own.get()].refused.table,
                _ => true,
            };
            if !has_capability {
                unknown.push((reference.kind.name(), Box::default()));
            }
            return;
        };
        if reference.target().is_some() {
            return;
        }
        let target = match reference.kind {
            ArgKind::Frontend => names.frontend(name).map(|index| (index.0, 0)),
            ArgKind::Backend => names.backend(name).map(|index| (index.0, 0)),
            ArgKind::UserList => (context.userlist)(name).map(|index| (index, 0)),
            ArgKind::Server => self.server_named(name, own, names),
            ArgKind::Table => names.table(name).map(|index| (index, 0)),
            _ => None,
        };
        match target {
            Some(target) => reference.resolve(target),
            None if reference.kind == ArgKind::Server && self.is_refused_server(name, own, names) => {}
            None if reference.kind == ArgKind::Table && self.is_refused_table(name, names) => {}
            None => unknown.push((reference.kind.name(), name.clone())),
        }
    }

    /// Whether the line of the server `[backend/]server` was refused.
    fn is_refused_server(&self, name: &str, own: Option<ProxyIndex>, names: &ProxyPositions) -> bool {
        let (backend, server) = match name.split_once('/') {
            Some((backend, server)) => (names.backend(backend), server),
            None => (own, name),
        };
        let finished = backend.and_then(|backend| self.finished.get(backend.get()));
        finished.is_some_and(|finished| finished.refused.servers.contains(server))
    }

    /// Whether the line of that proxy's stick-table was refused.
    fn is_refused_table(&self, name: &str, names: &ProxyPositions) -> bool {
        let proxies = [names.frontend(name), names.backend(name)];
        proxies.into_iter().flatten().any(|proxy| self.finished[proxy.get()].refused.table)
    }

    /// The server `[backend/]server`.
    fn server_named(
        &self,
        name: &str,
        own: Option<ProxyIndex>,
        names: &ProxyPositions,
    ) -> Option<(u32, u32)> {
        let (backend, server) = match name.split_once('/') {
            Some((backend, server)) => (names.backend(backend)?, server),
            None => (own?, name),
        };
        let servers = &self.finished.get(backend.get())?.proxy.servers;
        let index = servers.iter().position(|candidate| *candidate.name == *server)?;
        Some((backend.0, index as u32))
    }
}

fn report(finished: &FinishedProxy, unknown: Vec<Unknown>, diagnostics: &mut Diagnostics) {
    let FinishedProxy { proxy, span, references, .. } = finished;
    ReferenceUser { kind: "proxy", name: &proxy.name, span: *span, references }.report(unknown, diagnostics);
}

/// A section with expressions that refer to other objects.
struct ReferenceUser<'u> {
    /// The word for the section in messages.
    kind: &'static str,
    name: &'u str,
    span: Span,
    references: &'u [WrittenReference],
}

impl ReferenceUser<'_> {
    fn report(&self, unknown: Vec<Unknown>, diagnostics: &mut Diagnostics) {
        if unknown.is_empty() {
            return;
        }
        let mut places: HashMap<(&str, &str), Span> = HashMap::new();
        for written in self.references {
            places.entry((written.kind.name(), &written.name)).or_insert(written.span);
        }
        let user = format!("{} '{}'", self.kind, self.name);
        let mut reported = HashSet::new();
        for (kind, name) in unknown {
            if !reported.insert((kind, name.clone())) {
                continue;
            }
            let span = places.get(&(kind, &*name)).copied().unwrap_or(self.span);
            let kind = if kind == "user list" { "userlist" } else { kind };
            let message = match &*name {
                "" if kind == "table" => {
                    format!("{user} has no stick-table, and an expression or a rule in it names no other.")
                }
                "" => format!(
                    "{user}, referenced by an expression in it that names no {kind}, has no {kind} capability."
                ),
                name => format!("unable to find {kind} '{name}' referenced by an expression in {user}."),
            };
            diagnostics.push(Diagnostic::alert(span, message).layout(Layout::ParsingTight));
        }
    }
}
