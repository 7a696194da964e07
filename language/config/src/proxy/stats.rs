//! The statistics page: every `stats` line of a proxy.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::EvaluationPoints;
use weir_syntax::{Diagnostic, Diagnostics, Layout, Span};

use super::keywords::{EVERYWHERE, keyword};
use super::{LineContext, OtherSections, PROXIES, ProxyReader};
use crate::numbers::seconds_of;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::rules::points_of;
use crate::words::{Parsed, Words, fault};
use weir_model::{Proxy, RulesetKind, Stats, StatsAdmin, StatsRule, StatsScope, StatsText, StatsVerdict};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword("stats enable", "", "", "show the statistics page", EVERYWHERE, |context, _| {
        stats(context);
        Ok(())
    }),
    keyword("stats uri", "<prefix>", "/stats", "path of the page", EVERYWHERE, |context, words| {
        let uri = words.expect("'uri' needs an URI prefix.")?;
        stats(context).uri = Some(uri.text().into());
        words.end("stats uri")
    })
    .default(Described("`/haproxy?stats`")),
    keyword(
        "stats realm",
        "<realm>",
        "Shop",
        "realm of the requested credentials",
        EVERYWHERE,
        |context, words| {
            let realm = words.expect("'realm' needs an realm name.")?;
            stats(context).realm = Some(realm.text().into());
            if !words.at_end() {
                // HAProxy takes the first word without a warning. The operator probably forgot quotes.
                let message = "'stats realm' takes one word: quote a realm with spaces. The rest is ignored.";
                context.warn(words.here(), message);
                words.seek(words.line().len());
            }
            words.end("stats realm")
        },
    )
    .default(Described("`HAProxy Statistics`")),
    keyword(
        "stats refresh",
        "<delay>",
        "10s",
        "how often the page reloads itself",
        EVERYWHERE,
        |context, words| {
            let word = words.expect("'refresh' needs a positive interval.")?;
            let delay = seconds_of(words, word, "stats refresh")?;
            stats(context).refresh = (delay > Duration::ZERO).then_some(delay);
            words.end("stats refresh")
        },
    )
    .default(Described("none: the page does not reload")),
    keyword(
        "stats auth",
        "<user>:<passwd>",
        "admin:secret",
        "a user who may see the page",
        EVERYWHERE,
        |context, words| {
            let account = words.expect("'auth' needs a user:password account.")?;
            let (user, password) = account.text().split_once(':').unwrap_or((account.text(), ""));
            let users = &mut stats(context).users;
            if users.len() == MAX_STATS_ENTRIES {
                return Err(fault(account.span(), format!("more than {MAX_STATS_ENTRIES} accounts")));
            }
            if !users.iter().any(|(known, _)| **known == *user) {
                users.push((user.into(), password.into()));
            } else {
                let message = format!("'stats auth' : ignoring duplicated user '{user}'.");
                context.diagnostics.warning(account.span(), message);
            }
            words.end("stats auth")
        },
    ),
    keyword(
        "stats scope",
        "{ <name> | \".\" }",
        ".",
        "a proxy that the page shows",
        EVERYWHERE,
        |context, words| {
            let name = words.expect("'scope' needs a proxy name.")?;
            let scope = if name.is(".") { StatsScope::Own } else { StatsScope::Named(name.text().into()) };
            let list = &mut stats(context).scope;
            if list.len() == MAX_STATS_ENTRIES {
                return Err(fault(name.span(), format!("more than {MAX_STATS_ENTRIES} proxies")));
            }
            list.push(scope);
            words.end("stats scope")
        },
    )
    .default(Described("every proxy")),
    keyword("stats hide-version", "", "", "do not show our version", EVERYWHERE, |context, _| {
        stats(context).hide_version = true;
        Ok(())
    }),
    keyword("stats show-version", "", "", "show our version", EVERYWHERE, |context, _| {
        stats(context).hide_version = false;
        Ok(())
    }),
    keyword("stats show-legends", "", "", "addresses and cookies as tool tips", EVERYWHERE, |context, _| {
        stats(context).show_legends = true;
        Ok(())
    }),
    keyword("stats show-modules", "", "", "the counters of modules", EVERYWHERE, |context, _| {
        stats(context).show_modules = true;
        Ok(())
    }),
    keyword(
        "stats show-node",
        "[ <name> ]",
        "edge1",
        "the node's name in the title",
        EVERYWHERE,
        |context, words| {
            let regular = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if !words.peek_text().chars().all(regular) {
                let message = "'stats show-node' invalid node name - should be a string with digits(0-9), \
                               letters(A-Z, a-z), hyphen(-) or underscode(_).";
                return Err(words.fault(message));
            }
            let text = words.take().map_or(StatsText::Global, |word| StatsText::Own(word.text().into()));
            stats(context).show_node = Some(text);
            words.end("stats show-node")
        },
    ),
    keyword(
        "stats show-desc",
        "[ <desc> ]",
        "the shop",
        "a description in the title",
        EVERYWHERE,
        |context, words| {
            let text = if words.at_end() {
                context.draft.pending.global_description.get_or_insert(words.line().keyword().span());
                StatsText::Global
            } else {
                StatsText::Own(words.line().join(words.position()).into())
            };
            stats(context).show_description = Some(text);
            Ok(())
        },
    ),
    keyword(
        "stats admin",
        "{ if | unless } <cond>",
        "if TRUE",
        "when a client may change the servers' states",
        PROXIES,
        |context, words| {
            if !words.at_condition() {
                return Err(
                    words.fault("'stats admin' requires either 'if' or 'unless' followed by a condition.")
                );
            }
            let condition = condition(context, words, "a 'stats admin' rule")?;
            let at = context.at.clone();
            if let Some(condition) = condition {
                stats(context).admin.push(StatsAdmin { condition, at });
            }
            Ok(())
        },
    ),
    keyword(
        "stats http-request",
        "{ allow | deny | auth [realm <realm>] } [ { if | unless } <condition> ]",
        "auth realm shop if TRUE",
        "access rules of the page",
        PROXIES,
        read_http_request,
    ),
];

/// Refuses accounts next to rules: rules alone decide, so the accounts protect nothing.
pub(super) fn check_rules(proxy: &Proxy, span: Span, diagnostics: &mut Diagnostics) {
    let Some(stats) = &proxy.settings.stats else { return };
    if !stats.http_request.is_empty() && (!stats.users.is_empty() || stats.realm.is_some()) {
        let message = format!(
            "proxy '{}': stats 'auth'/'realm' and 'http-request' can't be used at the same time.",
            proxy.name
        );
        diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Bare));
    }
}

/// Warns about a page that shows a missing description.
pub(super) fn check_description(
    at: Option<Span>,
    context: &OtherSections<'_>,
    diagnostics: &mut Diagnostics,
) {
    if let Some(at) = at.filter(|_| !context.has_description) {
        let message = "'show-desc' requires a parameter or 'desc' to be set in the global section.";
        diagnostics.push(Diagnostic::warning(at, message).layout(Layout::ParsingTight));
    }
}

/// The limit of entries in lists of the page's settings.
const MAX_STATS_ENTRIES: usize = 4096;

/// The page's settings, mutable. Any `stats` line enables the page.
fn stats<'s>(context: &'s mut LineContext<'_>) -> &'s mut Stats {
    Arc::make_mut(context.settings().stats.get_or_insert_with(Arc::default))
}

fn points(context: &LineContext<'_>) -> EvaluationPoints {
    points_of(RulesetKind::HttpRequest, context.draft.section)
}

fn condition(
    context: &LineContext<'_>,
    words: &mut Words<'_>,
    what: &str,
) -> Parsed<Option<weir_expr::Condition>> {
    context
        .expressions()
        .condition(words, points(context))
        .map_err(|fault| crate::words::prefixed(fault, &format!("error detected while parsing {what} : ")))
}

fn read_http_request(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let expects = "'stats http-request' expects 'allow', 'deny' or 'auth'";
    let word = words.expect(expects)?;
    let verdict = match word.text() {
        "allow" => StatsVerdict::Allow,
        "deny" => StatsVerdict::Deny,
        "auth" => {
            let realm = if words.take_if("realm") {
                Some(words.expect("missing realm value.")?.text().into())
            } else {
                None
            };
            StatsVerdict::Auth { realm }
        }
        other => return Err(fault(word.span(), format!("{expects}, but got '{other}'."))),
    };
    if !words.at_end() && !words.at_condition() {
        let message = format!(
            "'stats http-request {word}' expects either 'if' or 'unless' followed by a condition but found '{}'.",
            words.peek_text()
        );
        let mut fault = words.fault(message);
        fault.layout = Layout::ParsingTight;
        return Err(fault);
    }
    let condition = condition(context, words, "a 'stats http-request' rule")?;
    let at = context.at.clone();
    let rules = &mut stats(context).http_request;
    let unreachable = rules.last().is_some_and(|last| last.condition.is_none());
    rules.push(StatsRule { verdict, condition, at });
    if unreachable {
        let message = "previous 'stats' action has no condition attached, further entries are NOOP.";
        context.warn_tight(words.line().span(), message);
    }
    Ok(())
}
