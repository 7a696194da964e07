//! Stick-tables after all sections are parsed: their positions, the stored data, and the rules that use them.

use weir_expr::table::{DataType, Stored};
use weir_expr::{Expr, Needs, Reference};
use weir_syntax::{Diagnostic, Diagnostics, Layout};

use super::finish::{OtherSections, noun};
use super::{FinishedProxy, ProxyParser};
use weir_model::{BandwidthFacts, Mode, Proxy, Rule, RulesetKind, SharedRate, StickTable, Track};

impl ProxyParser<'_> {
    /// Removes and returns all tables: those of proxies, then those of `peers` sections.
    pub(super) fn take_tables(&mut self, context: &OtherSections<'_>) -> Vec<StickTable> {
        let mut tables = Vec::new();
        for finished in &mut self.finished {
            if let Some(table) = finished.pending.table.take() {
                finished.proxy.table = Some(tables.len() as u32);
                tables.push(table);
            }
        }
        tables.extend_from_slice(context.peer_tables);
        tables
    }

    /// Adds the server data to tables of rules that store servers. Reports keys that do not fit their table.
    pub(super) fn settle_tables(
        &self,
        mut tables: Vec<StickTable>,
        context: &OtherSections<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<StickTable> {
        for finished in &self.finished {
            let proxy = &finished.proxy;
            for kind in RulesetKind::ALL {
                for rule in proxy.rules(kind) {
                    let Some(track) = rule.action.facts().track else { continue };
                    if kind == RulesetKind::TcpRequestContent && proxy.is_frontend() {
                        warn_of_contents(finished, rule, track, diagnostics);
                    }
                    let name = format!("track-sc{}", track.counter);
                    check_key(finished, &track.key, &track.table, &name, &tables, diagnostics);
                }
            }
            for filter in &proxy.filters {
                let Some(limit) = filter.facts().bandwidth else { continue };
                let Some(rate) = limit.shared else { continue };
                check_key(finished, rate.key, rate.table, filter.keyword, &tables, diagnostics);
                check_rate(finished, limit, rate, &tables, diagnostics);
            }
            for rule in &proxy.stick_rules {
                let name = format!("stick {}", rule.kind.keyword());
                check_key(finished, &rule.key, &rule.table, &name, &tables, diagnostics);
                if let Some(table) = target(&rule.table, proxy).and_then(|at| tables.get_mut(at)) {
                    store_servers(table);
                }
            }
        }
        for table in &tables {
            check_table(table, &tables, context, diagnostics);
        }
        tables
    }
}

/// The position of the table that a rule names, or of the proxy's own.
fn target(reference: &Reference, proxy: &Proxy) -> Option<usize> {
    reference.target().map(|(table, _)| table).or(proxy.table).map(|table| table as usize)
}

/// Adds the data for rules that store servers (manual, 11.1, "server_id").
fn store_servers(table: &mut StickTable) {
    let stored = &mut table.declaration.stored;
    for data in [DataType::ServerId, DataType::ServerKey] {
        if !stored.iter().any(|other| other.data == data) {
            stored.push(Stored { data, elements: 1, period_ms: 0 });
        }
    }
}

fn check_key(
    finished: &FinishedProxy,
    key: &Expr,
    reference: &Reference,
    rule: &str,
    tables: &[StickTable],
    diagnostics: &mut Diagnostics,
) {
    let proxy = &finished.proxy;
    // A missing table is reported where names are resolved.
    let Some(table) = target(reference, proxy).and_then(|at| tables.get(at)) else { return };
    let wanted = table.declaration.key.sample_type();
    if !key.output().casts_to(wanted) {
        let message = format!(
            "Proxy '{}': stick-table '{}' used in '{rule}' rule has keys of type '{}', which '{}' values cannot become.",
            proxy.name,
            table.declaration.name,
            table.declaration.key.name(),
            key.output().name()
        );
        diagnostics.push(Diagnostic::alert(finished.span, message).layout(Layout::Bare));
    }
}

/// Warns about a frontend rule that waits for contents but does not use them, or the reverse.
fn warn_of_contents(finished: &FinishedProxy, rule: &Rule, track: &Track, diagnostics: &mut Diagnostics) {
    let proxy = &finished.proxy;
    let is_tested = rule.condition.as_ref().is_some_and(|condition| condition.needs(CONTENTS));
    let what = if track.key.decl().needs.intersects(CONTENTS) {
        if proxy.tcp_request_inspect_delay().is_some() {
            return;
        }
        "explicitly depending on request contents without any 'tcp-request inspect-delay' setting. This means that this rule will \
         randomly find its contents. This can be fixed by setting the tcp-request inspect-delay."
    } else if proxy.mode() == Mode::Http && !is_tested {
        "not depending on request contents for an HTTP frontend should be executed at the session level, using a \
         'tcp-request session' rule (mandatory to track invalid HTTP requests)."
    } else {
        return;
    };
    let message = format!("{} '{}' : a 'tcp-request content track-sc*' rule {what}", noun(proxy), proxy.name);
    diagnostics.push(Diagnostic::warning(finished.span, message).layout(Layout::Bare));
}

/// Data that a client sends after the connection is established.
const CONTENTS: Needs =
    Needs::L6_REQUEST.or(Needs::HTTP_REQUEST_META).or(Needs::HTTP_REQUEST).or(Needs::HTTP_REQUEST_BODY);

/// Reports a table that does not store the rate of a bandwidth limit.
fn check_rate(
    finished: &FinishedProxy,
    limit: BandwidthFacts<'_>,
    rate: SharedRate<'_>,
    tables: &[StickTable],
    diagnostics: &mut Diagnostics,
) {
    let (proxy, data) = (&finished.proxy, rate.data);
    // A missing table is reported where names are resolved.
    let Some(table) = target(rate.table, proxy).and_then(|at| tables.get(at)) else { return };
    if table.declaration.stored.iter().any(|stored| stored.data == data) {
        return;
    }
    let message = format!(
        "Proxy '{}': bwlim filter '{}' needs '{}' in stick-table '{}'.",
        proxy.name,
        limit.name,
        data.name(),
        table.declaration.name
    );
    diagnostics.push(Diagnostic::alert(finished.span, message).layout(Layout::Bare));
}

fn check_table(
    table: &StickTable,
    tables: &[StickTable],
    context: &OtherSections<'_>,
    diagnostics: &mut Diagnostics,
) {
    let mut complain = |message: String| {
        let text = format!("[{}] : stick-table '{}': {message}", table.at, table.declaration.name);
        diagnostics.push(Diagnostic::alert(None, text));
    };
    if let Some(peers) = &table.peers
        && !(context.has_peers)(peers)
    {
        complain(format!("unable to find peers section '{peers}'."));
    }
    if table.aggregate && table.peers.is_none() {
        complain("'aggregate' needs 'peers': only this instance counts without them.".to_owned());
    }
    let Some(name) = &table.write_to else { return };
    match tables.iter().find(|other| other.declaration.name == *name) {
        None => complain(format!("'write-to' names the table '{name}', which does not exist.")),
        Some(other) if std::ptr::eq(other, table) => {
            complain("'write-to' names the table itself.".to_owned());
        }
        Some(other) if other.declaration.key != table.declaration.key => {
            complain(format!(
                "'write-to' names the table '{name}', but their keys differ in type or length."
            ));
        }
        Some(other) if other.write_to.is_some() => {
            complain(format!("'write-to' names the table '{name}', which has a 'write-to' itself."));
        }
        Some(_) => {}
    }
}

/// Reports rules that use more stick counters than `tune.stick-counters` allows.
pub(crate) fn check_counters(proxies: &[Proxy], counters: u8, diagnostics: &mut Diagnostics) {
    for proxy in proxies {
        for rule in RulesetKind::ALL.iter().flat_map(|kind| proxy.rules(*kind)) {
            let Some(counter) = rule.action.facts().counter else { continue };
            if counter >= counters {
                let message = format!(
                    "parsing [{}] : {} '{}' : counter {counter} is beyond 'tune.stick-counters' ({counters}).",
                    rule.at,
                    noun(proxy),
                    proxy.name
                );
                diagnostics.push(Diagnostic::alert(None, message));
            }
        }
    }
}
