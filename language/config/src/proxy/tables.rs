//! Stick-tables once all sections are read: which there are, what their entries have to store, and who may use them.

use weir_expr::Expr;
use weir_expr::Reference;
use weir_expr::table::{DataType, Stored};
use weir_syntax::{Diagnostic, Diagnostics, Layout};

use super::finish::{BindContext, noun};
use super::{Finished, ProxyParser};
use crate::model::{Action, Proxy, RulesetKind, StickTable};

impl ProxyParser<'_> {
    /// All tables: the proxies' own, then those of `peers` sections.
    pub(super) fn take_tables(&mut self, context: &BindContext<'_>) -> Vec<StickTable> {
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

    /// Gives tables that servers are remembered in the room for that, and complains of keys that can be none.
    pub(super) fn settle_tables(
        &self,
        mut tables: Vec<StickTable>,
        context: &BindContext<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<StickTable> {
        for finished in &self.finished {
            let proxy = &finished.proxy;
            for kind in RulesetKind::ALL {
                for rule in proxy.rules(kind) {
                    let Action::Track(track) = &rule.action else { continue };
                    let name = format!("track-sc{}", track.counter);
                    check_key(finished, &track.key, &track.table, &name, &tables, diagnostics);
                }
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

/// The table that a rule names, or the proxy's own.
fn target(reference: &Reference, proxy: &Proxy) -> Option<usize> {
    reference.target().map(|(table, _)| table).or(proxy.table).map(|table| table as usize)
}

/// What rules that remember servers need is stored without being asked for (manual, 11.1, "server_id").
fn store_servers(table: &mut StickTable) {
    let stored = &mut table.declaration.stored;
    for data in [DataType::ServerId, DataType::ServerKey] {
        if !stored.iter().any(|other| other.data == data) {
            stored.push(Stored { data, elements: 1, period_ms: 0 });
        }
    }
}

fn check_key(
    finished: &Finished,
    key: &Expr,
    reference: &Reference,
    rule: &str,
    tables: &[StickTable],
    diagnostics: &mut Diagnostics,
) {
    let proxy = &finished.proxy;
    // A table that is not there is told by whoever resolves names.
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

fn check_table(
    table: &StickTable,
    tables: &[StickTable],
    context: &BindContext<'_>,
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
    let Some(name) = &table.write_to else { return };
    match tables.iter().find(|other| other.declaration.name == *name) {
        None => complain(format!("'write-to' names the table '{name}', which does not exist.")),
        Some(other) if std::ptr::eq(other, table) => {
            complain("'write-to' names the table itself.".to_owned());
        }
        Some(other) if other.declaration.key != table.declaration.key => {
            complain(format!(
                "'write-to' names the table '{name}', whose keys are of another type or length."
            ));
        }
        Some(_) => {}
    }
}

/// Complains of rules that use more counters than there are (`tune.stick-counters`).
pub(crate) fn check_counters(proxies: &[Proxy], counters: u8, diagnostics: &mut Diagnostics) {
    for proxy in proxies {
        for rule in RulesetKind::ALL.iter().flat_map(|kind| proxy.rules(*kind)) {
            let counter = match &rule.action {
                Action::Track(track) => track.counter,
                Action::ChangeCounter(change) => change.counter,
                _ => continue,
            };
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
