//! The choice of backend and server for a stream, and the rules that run before it.

use std::sync::Arc;

use weir_expr::{EvaluationPoint, EvaluationPoints};
use weir_syntax::Word;

use super::keywords::{
    DEFAULTS_AND_FRONTENDS, RULES_EVERYWHERE, RULES_OF_BACKENDS, RULES_OF_FRONTENDS, keyword, strict_keyword,
};
use super::{BACKENDS, ConditionList, FRONTENDS, LineContext, PROXIES, ProxyReader, UNRESOLVED};
use crate::draft::order::RuleStep;
use crate::expressions::{in_word, located};
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::rules::{points_of, read_inspect_delay, read_redirect, read_rule};
use crate::words::{Fault, Parsed, Words, prefixed};
use weir_model::{
    BackendTarget, PersistRule, RedirectRule, RulesetKind, ServerTarget, UseBackend, UseServer,
};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "acl",
        "<aclname> <criterion> [flags] [operator] <value> ...",
        "local src 127.0.0.1",
        "a named test for conditions",
        RULES_EVERYWHERE,
        read_acl,
    ),
    strict_keyword(
        "tcp-request connection",
        "<action> <options...> [ { if | unless } <condition> ]",
        "reject if { src 192.0.2.1 }",
        "rules right after accepting",
        RULES_OF_FRONTENDS,
        |context, words| read_rule(context, words, RulesetKind::TcpRequestConnection),
    ),
    strict_keyword(
        "tcp-request session",
        "<action> [{if | unless} <condition>]",
        "accept",
        "rules after the connection's handshakes",
        RULES_OF_FRONTENDS,
        |context, words| read_rule(context, words, RulesetKind::TcpRequestSession),
    ),
    keyword(
        "tcp-request content",
        "<action> [{if | unless} <condition>]",
        "accept if TRUE",
        "rules on the data of the client",
        RULES_EVERYWHERE,
        |context, words| read_rule(context, words, RulesetKind::TcpRequestContent),
    ),
    keyword(
        "tcp-request inspect-delay",
        "<timeout>",
        "5s",
        "how long 'tcp-request content' waits for data",
        RULES_EVERYWHERE,
        |context, words| {
            let delay = read_inspect_delay(context, words, "tcp-request inspect-delay")?;
            context.draft.proxy.rules.tcp_request_inspect_delay = delay;
            Ok(())
        },
    )
    .default(Described("none: rules see what there is at once")),
    strict_keyword(
        "tcp-response content",
        "<action> [{if | unless} <condition>]",
        "close if TRUE",
        "rules on the data of the server",
        RULES_OF_BACKENDS,
        |context, words| read_rule(context, words, RulesetKind::TcpResponseContent),
    ),
    strict_keyword(
        "tcp-response inspect-delay",
        "<timeout>",
        "5s",
        "how long 'tcp-response content' waits for data",
        RULES_OF_BACKENDS,
        |context, words| {
            let delay = read_inspect_delay(context, words, "tcp-response inspect-delay")?;
            context.draft.proxy.rules.tcp_response_inspect_delay = delay;
            Ok(())
        },
    )
    .default(Described("none: rules see what there is at once")),
    keyword(
        "http-request",
        "<action> [options...] [ { if | unless } <condition> ]",
        "deny if TRUE",
        "rules on requests",
        RULES_EVERYWHERE,
        |context, words| read_rule(context, words, RulesetKind::HttpRequest),
    ),
    keyword(
        "http-response",
        "<action> <options...> [ { if | unless } <condition> ]",
        "set-header a b",
        "rules on servers' responses",
        RULES_EVERYWHERE,
        |context, words| read_rule(context, words, RulesetKind::HttpResponse),
    ),
    keyword(
        "http-after-response",
        "<action> <options...> [ { if | unless } <condition> ]",
        "set-header a b",
        "rules on all responses, our own ones too",
        RULES_EVERYWHERE,
        |context, words| read_rule(context, words, RulesetKind::HttpAfterResponse),
    ),
    keyword(
        "redirect",
        "{ location <loc> | prefix <pfx> | scheme <sch> } [code <code>] <option> [{if | unless} \
         <condition>]",
        "scheme https code 301 if TRUE",
        "redirect after the 'http-request' rules",
        PROXIES,
        |context, words| {
            let name = context.name();
            let points = points_of(RulesetKind::HttpRequest, context.draft.section);
            let error = format!("error detected in proxy '{name}' while parsing redirect rule : ");
            let redirect =
                read_redirect(context, words, points, false).map_err(|fault| prefixed(fault, &error))?;
            let span = words.here();
            let condition = context
                .expressions()
                .condition(words, points)
                .map_err(|fault| prefixed(fault, &format!("{error}error in condition: ")))?;
            let index = context.draft.proxy.redirects.len();
            context.note_condition(condition.is_some(), (ConditionList::Redirect, index), points, span);
            context
                .draft
                .rule_memory
                .order(RuleStep::Redirect)
                .warn(context.diagnostics, words.line().span());
            let at = context.at.clone();
            context.draft.proxy.redirects.push(RedirectRule { redirect: Arc::new(redirect), condition, at });
            Ok(())
        },
    ),
    keyword(
        "use_backend",
        "<backend> [{if | unless} <condition>]",
        "%[path] if TRUE",
        "send what meets the condition to that backend; the first match wins, else default_backend \
         takes it",
        FRONTENDS,
        read_use_backend,
    ),
    keyword(
        "default_backend",
        "<backend>",
        "other",
        "the backend for all other streams",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let name = words.expect("'default_backend' expects a backend name.")?;
            context.settings().default_backend = Some(name.text().into());
            context.draft.pending.default_backend = Some(name.span());
            words.end("default_backend")
        },
    )
    .default(Described("none: in a `frontend`, a request that no `use_backend` takes gets 503")),
    keyword(
        "use-server",
        "<server> { if | unless } <condition>",
        "%[path] if TRUE",
        "a server for some requests",
        BACKENDS,
        read_use_server,
    ),
    keyword(
        "force-persist",
        "{ if | unless } <condition>",
        "if TRUE",
        "follow persistence even to servers that are down",
        BACKENDS,
        |context, words| read_persist(context, words, "force-persist", true),
    ),
    keyword(
        "be-unpublished",
        "",
        "",
        "start with the backend kept away from frontends, until it is published",
        BACKENDS,
        |context, words| {
            context.draft.proxy.unpublished = true;
            words.end("be-unpublished")
        },
    ),
    keyword(
        "force-be-switch",
        "{ if | unless } <condition>",
        "if TRUE",
        "send even to backends that are not published",
        FRONTENDS,
        |context, words| {
            if !words.at_condition() {
                let message = "'force-be-switch' requires either 'if' or 'unless' followed by a condition.";
                return Err(words.fault(message));
            }
            let condition = context
                .expressions()
                .condition(words, EvaluationPoints::only(EvaluationPoint::FrontendRequestHeader))
                .map_err(|fault| {
                    prefixed(fault, "error detected while parsing a 'force-be-switch' rule : ")
                })?;
            context.draft.proxy.force_switch.extend(condition);
            Ok(())
        },
    ),
    keyword(
        "ignore-persist",
        "{ if | unless } <condition>",
        "if TRUE",
        "do not follow persistence",
        BACKENDS,
        |context, words| read_persist(context, words, "ignore-persist", false),
    ),
    keyword(
        "monitor-uri",
        "<uri>",
        "/alive",
        "a path that is answered with 200",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let uri = words.expect("'monitor-uri' expects an URI.")?;
            context.settings().monitor_uri = Some(uri.text().into());
            words.end("monitor-uri")
        },
    ),
    keyword(
        "monitor fail",
        "{ if | unless } <condition>",
        "if FALSE",
        "when monitor requests get 503",
        FRONTENDS,
        |context, words| {
            if !words.at_condition() {
                return Err(
                    words.fault("'monitor fail' requires either 'if' or 'unless' followed by a condition.")
                );
            }
            let points = points_of(RulesetKind::HttpRequest, context.draft.section);
            let condition = context.expressions().condition(words, points).map_err(|fault| {
                prefixed(fault, "error detected while parsing a 'monitor fail' condition : ")
            })?;
            context
                .draft
                .rule_memory
                .order(RuleStep::MonitorFail)
                .warn(context.diagnostics, words.line().span());
            context.draft.proxy.monitor_fail.extend(condition);
            Ok(())
        },
    ),
];

fn read_acl(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    words.expect("'acl' expects <aclname> <criterion> [flags] [operator] <value> as arguments.")?;
    context.expressions().acl(words, words.position() - 1).map_err(|error| located(words, error))
}

/// Whether a name is a format that is evaluated for each request: it contains a percent sign.
fn is_dynamic(word: &Word) -> bool {
    word.bytes().contains(&b'%')
}

fn switching_error(fault: Fault) -> Fault {
    prefixed(fault, "error detected while parsing switching rule : ")
}

fn read_use_backend(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let name = words.expect("'use_backend' expects a backend name.")?;
    let points = EvaluationPoints::only(EvaluationPoint::FrontendUseBackend);
    if !words.at_end() && !words.at_condition() {
        let message = format!(
            "unexpected keyword '{}' after backend name: 'use_backend' supports 'if' or 'unless' followed by a condition.",
            words.peek_text()
        );
        return Err(words.fault(message));
    }
    let span = words.here();
    let condition = context.expressions().condition(words, points).map_err(switching_error)?;
    let index = context.draft.proxy.use_backend.len();
    context.note_condition(condition.is_some(), (ConditionList::UseBackend, index), points, span);
    let mut target = BackendTarget::Static(UNRESOLVED);
    if is_dynamic(name) {
        let format = context.expressions().format(name, points).map_err(switching_error)?;
        match format.constant() {
            None => target = BackendTarget::Dynamic(Arc::new(format)),
            Some(_) => {
                let error = weir_expr::ParseError::new(0, "the backend's name has '%' in it but no format");
                return Err(in_word(name, error));
            }
        }
    }
    context.draft.rule_memory.order(RuleStep::UseBackend).warn(context.diagnostics, words.line().span());
    let rules = &mut context.draft.proxy.use_backend;
    if matches!(target, BackendTarget::Static(_)) {
        context.draft.pending.use_backend.push((rules.len(), name.text().into(), name.span()));
    }
    rules.push(UseBackend { target, condition, at: context.at.clone() });
    Ok(())
}

fn read_use_server(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let name = words.expect("'use-server' expects a server name.")?;
    if !words.at_condition() {
        return Err(words.fault("'use-server' requires either 'if' or 'unless' followed by a condition."));
    }
    let points = EvaluationPoints::only(EvaluationPoint::BackendSetServer);
    let span = words.here();
    let condition = context.expressions().condition(words, points).map_err(switching_error)?;
    let index = context.draft.proxy.use_server.len();
    context.note_condition(condition.is_some(), (ConditionList::UseServer, index), points, span);
    let target = if is_dynamic(name) {
        let format = context.expressions().format(name, points).map_err(switching_error)?;
        ServerTarget::Dynamic(Arc::new(format))
    } else {
        ServerTarget::Static(u32::MAX)
    };
    context.draft.rule_memory.order(RuleStep::UseServer).warn(context.diagnostics, words.line().span());
    let rules = &mut context.draft.proxy.use_server;
    if matches!(target, ServerTarget::Static(_)) {
        context.draft.pending.use_server.push((rules.len(), name.text().into(), name.span()));
    }
    rules.push(UseServer { target, condition, at: context.at.clone() });
    Ok(())
}

fn read_persist(context: &mut LineContext<'_>, words: &mut Words<'_>, keyword: &str, force: bool) -> Parsed {
    if !words.at_condition() {
        let message = format!("'{keyword}' requires either 'if' or 'unless' followed by a condition.");
        return Err(words.fault(message));
    }
    let condition = context
        .expressions()
        .condition(
            words,
            EvaluationPoints::only(EvaluationPoint::FrontendRequestHeader)
                .or(EvaluationPoints::only(EvaluationPoint::BackendRequestHeader)),
        )
        .map_err(|fault| prefixed(fault, &format!("error detected while parsing a '{keyword}' rule : ")))?;
    let at = context.at.clone();
    context.draft.proxy.persist_rules.extend(condition.map(|condition| PersistRule { force, condition, at }));
    Ok(())
}
