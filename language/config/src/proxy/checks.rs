//! `http-check` and `tcp-check` rules, and the options that select the checks.

mod connect;
mod expect;
mod external;
mod own;
mod send;

use std::sync::Arc;

use weir_expr::{
    EvaluationPoint, EvaluationPoints, Expr, FormatOptions, LogFormat, SetCondition, VariableId,
    VariableScope,
};
use weir_syntax::{Span, Word};

use super::keywords::{DEFAULTS_AND_BACKENDS, keyword};
use super::{LineContext, ProxyReader};
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{CheckAction, CheckMethod, CheckRule, CheckRuleList, CheckScripts};

pub(super) use external::{KEYWORDS as EXTERNAL_KEYWORDS, settle as settle_external};
pub(super) use own::OPTIONS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckRuleKind {
    /// `http-check`.
    Http,
    /// `tcp-check`.
    Tcp,
}

impl CheckRuleKind {
    fn word(self) -> &'static str {
        match self {
            CheckRuleKind::Http => "http-check",
            CheckRuleKind::Tcp => "tcp-check",
        }
    }

    fn rules(self, scripts: &mut CheckScripts) -> &mut CheckRuleList {
        match self {
            CheckRuleKind::Http => &mut scripts.http,
            CheckRuleKind::Tcp => &mut scripts.tcp,
        }
    }
}

macro_rules! rule {
    ($kind:ident, $name:literal, $arguments:literal, $example:literal, $help:literal, $read:expr) => {
        keyword(concat!($name), $arguments, $example, $help, DEFAULTS_AND_BACKENDS, |context, words| {
            let read: fn(&mut LineContext<'_>, &mut Words<'_>, CheckRuleKind) -> Parsed<CheckRule> = $read;
            let rule = read(context, words, CheckRuleKind::$kind)?;
            add(context, words, CheckRuleKind::$kind, rule)
        })
    };
}

/// `http-check send` and `http-check expect` of proxies.
pub(super) const IN_PROXIES: &[Row<ProxyReader>] = &[
    SEND.default(Described("what `option httpchk` says: `OPTIONS /` by HTTP/1.0")),
    EXPECT.default(Described("a status from 200 to 399")),
];

/// The same words in `healthcheck` sections, where `type` selects the check.
pub(super) const IN_SECTIONS: &[Row<ProxyReader>] = &[SEND, EXPECT];

const SEND: Row<ProxyReader> = rule!(
    Http,
    "http-check send",
    "[meth <method>] [{ uri <uri> | uri-lf <fmt> }] [ver <version>] [hdr <name> <fmt>]* [{ body \
     <string> | body-lf <fmt> }] [comment <msg>]",
    "meth GET uri /health",
    "HTTP checks: what to send",
    send::read_http
);

const EXPECT: Row<ProxyReader> = rule!(
    Http,
    "http-check expect",
    "[min-recv <int>] [comment <msg>] [ok-status <st>] [error-status <st>] [tout-status <st>] \
         [on-success <fmt>] [on-error <fmt>] [status-code <expr>] [!] <match> <pattern>",
    "status 200",
    "HTTP checks: condition for the response",
    expect::read
)
.values(&[
    ("status <codes>", "the status is one of a list: '200,300-399'"),
    ("rstatus <regex>", "the status matches a regular expression"),
    ("string <text>", "the body has this text"),
    ("rstring <regex>", "the body matches a regular expression"),
    ("string-lf <fmt>", "the body has the text that a format gives"),
    ("hdr name <name>", "a header is there; then 'value <value>' for one of its values, separated by commas"),
    ("fhdr name <name>", "the same with the whole value"),
    ("! status <codes>", "any of these reversed"),
]);

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    rule!(
        Http,
        "http-check connect",
        "[default] [port <expr>] [addr <ip>] [send-proxy] [via-socks4] [linger] [comment <msg>]",
        "port 8080",
        "HTTP checks: connect",
        connect::read
    ),
    rule!(
        Http,
        "http-check set-var",
        "(<var-name>[,<cond>...]) <expr>",
        "(check.a) int(1)",
        "HTTP checks: set a variable",
        set_variable
    ),
    rule!(
        Http,
        "http-check set-var-fmt",
        "(<var-name>[,<cond>...]) <fmt>",
        "(check.a) x",
        "HTTP checks: set a variable to a formatted text",
        set_variable_format
    ),
    rule!(
        Http,
        "http-check unset-var",
        "(<var-name>)",
        "(check.a)",
        "HTTP checks: forget a variable",
        unset_variable
    ),
    keyword(
        "http-check comment",
        "<string>",
        "x",
        "HTTP checks: comment that is reported when the next rule fails",
        DEFAULTS_AND_BACKENDS,
        |context, words| comment_line(context, words, CheckRuleKind::Http),
    ),
    keyword(
        "http-check disable-on-404",
        "",
        "",
        "HTTP checks: status 404 means that no new visitors are wanted",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            words.end("http-check")?;
            scripts(context).disable_on_404 = true;
            Ok(())
        },
    ),
    keyword(
        "http-check send-state",
        "",
        "",
        "HTTP checks: send the server its state",
        DEFAULTS_AND_BACKENDS,
        |context, words| {
            words.end("http-check")?;
            scripts(context).send_state = true;
            Ok(())
        },
    ),
    rule!(
        Tcp,
        "tcp-check connect",
        "[default] [port <expr>] [addr <ip>] [send-proxy] [via-socks4] [linger] [comment <msg>]",
        "port 8080",
        "TCP checks: connect",
        connect::read
    ),
    rule!(
        Tcp,
        "tcp-check send",
        "<data> [comment <msg>]",
        "PING",
        "TCP checks: what to send",
        send::read_bytes
    ),
    rule!(
        Tcp,
        "tcp-check send-lf",
        "<fmt> [comment <msg>]",
        "PING",
        "TCP checks: what to send, from a format",
        send::read_format
    ),
    rule!(
        Tcp,
        "tcp-check send-binary",
        "<hexstring> [comment <msg>]",
        "50494e47",
        "TCP checks: what to send, in hexadecimal digits",
        send::read_hex
    ),
    rule!(
        Tcp,
        "tcp-check send-binary-lf",
        "<hexfmt> [comment <msg>]",
        "50494e47",
        "TCP checks: what to send, from a format that gives hexadecimal digits",
        send::read_hex_format
    ),
    rule!(
        Tcp,
        "tcp-check expect",
        "[min-recv <int>] [comment <msg>] [ok-status <st>] [error-status <st>] [tout-status <st>] \
         [on-success <fmt>] [on-error <fmt>] [status-code <expr>] [!] <match> <pattern>",
        "string PONG",
        "TCP checks: condition for the response",
        expect::read
    )
    .values(&[
        ("string <text>", "the answer has this text"),
        ("rstring <regex>", "the answer matches a regular expression"),
        ("string-lf <fmt>", "the answer has the text that a format gives"),
        ("binary <hex>", "the answer has these bytes"),
        ("rbinary <regex>", "its bytes as hexadecimal digits match a regular expression"),
        ("binary-lf <hexfmt>", "the answer has the bytes that a format gives"),
        ("! string <text>", "any of these reversed"),
    ]),
    rule!(
        Tcp,
        "tcp-check set-var",
        "(<var-name>[,<cond>...]) <expr>",
        "(check.a) int(1)",
        "TCP checks: set a variable",
        set_variable
    ),
    rule!(
        Tcp,
        "tcp-check set-var-fmt",
        "(<var-name>[,<cond>...]) <fmt>",
        "(check.a) x",
        "TCP checks: set a variable to a formatted text",
        set_variable_format
    ),
    rule!(
        Tcp,
        "tcp-check unset-var",
        "(<var-name>)",
        "(check.a)",
        "TCP checks: forget a variable",
        unset_variable
    ),
    keyword(
        "tcp-check comment",
        "<string>",
        "x",
        "TCP checks: comment that is reported when the next rule fails",
        DEFAULTS_AND_BACKENDS,
        |context, words| comment_line(context, words, CheckRuleKind::Tcp),
    ),
];

fn scripts<'c>(context: &'c mut LineContext<'_>) -> &'c mut CheckScripts {
    Arc::make_mut(&mut context.settings().checks)
}

/// The section's own list of rules. Its first own rule replaces the rules of a `defaults` section.
fn own_rules<'c>(context: &'c mut LineContext<'_>, kind: CheckRuleKind) -> &'c mut CheckRuleList {
    let section = context.draft.proxy.at.clone();
    let list = kind.rules(scripts(context));
    if list.section.as_ref() != Some(&section) {
        *list = CheckRuleList { section: Some(section), ..CheckRuleList::default() };
    }
    list
}

/// Adds a rule if the order allows it.
fn add(context: &mut LineContext<'_>, words: &Words<'_>, kind: CheckRuleKind, mut rule: CheckRule) -> Parsed {
    let at = words.line().keyword().span();
    let pending = context.draft.pending_comment.take();
    if rule.comment.is_none() && !is_silent(&rule) {
        rule.comment = pending.filter(|(of, _)| *of == kind.word()).map(|(_, comment)| comment);
    }
    if let CheckAction::SendHttp(_) = &rule.action {
        drop_inherited_request(context);
    }
    let list = own_rules(context, kind);
    list.steps += 1;
    rule.step = list.steps;
    check_order(&list.rules, &rule, kind, at)?;
    Arc::make_mut(&mut list.rules).push(rule);
    Ok(())
}

/// Drops the request of an inherited `option httpchk` if the section has its own request, as in HAProxy. Method, target, version and host
/// belong together: servers would refuse one request's HTTP/1.1 without the other's host.
fn drop_inherited_request(context: &mut LineContext<'_>) {
    let section = context.draft.proxy.at.clone();
    let scripts = scripts(context);
    if let CheckMethod::Http(request) = &mut scripts.method
        && scripts.http_option.as_ref() != Some(&section)
    {
        *request = Arc::default();
    }
}

/// Whether a rule only changes variables.
fn is_silent(rule: &CheckRule) -> bool {
    matches!(
        rule.action,
        CheckAction::SetVariable { .. }
            | CheckAction::SetVariableFormat { .. }
            | CheckAction::UnsetVariable(_)
    )
}

fn check_order(rules: &[CheckRule], rule: &CheckRule, kind: CheckRuleKind, at: Span) -> Parsed {
    let mut loud = rules.iter().filter(|rule| !is_silent(rule));
    let is_connect = |rule: &CheckRule| matches!(rule.action, CheckAction::Connect(_));
    let (first, last) = (loud.clone().next(), loud.next_back());
    let step = rule.step;
    match &rule.action {
        CheckAction::Connect(_) if first.is_some_and(|first| !is_connect(first)) => Err(fault(
            at,
            format!(
                "'{} connect' : first step MUST also be a 'connect', optionally preceded by a 'set-var', an 'unset-var' \
                 or a 'comment', when there is a 'connect' step in the tcp-check ruleset.",
                kind.word()
            ),
        )),
        CheckAction::SendHttp(_) if last.is_some_and(|last| !is_connect(last)) => Err(fault(
            at,
            format!(
                "'http-check send' : unable to add http-check send rule at step {step} (missing connect rule)."
            ),
        )),
        CheckAction::Expect(_) if kind == CheckRuleKind::Http && last.is_some_and(is_connect) => Err(fault(
            at,
            format!(
                "'http-check expect' : unable to add http-check expect rule at step {step} (missing send rule)."
            ),
        )),
        _ => Ok(()),
    }
}

/// `comment` as a separate line.
fn comment_line(context: &mut LineContext<'_>, words: &mut Words<'_>, kind: CheckRuleKind) -> Parsed {
    let comment = words.expect(&format!("'{} comment' : expects a string as argument.", kind.word()))?;
    words.end(&format!("{} comment", kind.word()))?;
    own_rules(context, kind).steps += 1;
    context.draft.pending_comment = Some((kind.word(), comment.text().into()));
    Ok(())
}

/// The string after a `comment` inside a line.
fn comment(words: &mut Words<'_>, keyword: &str) -> Parsed<Arc<str>> {
    let word = words.expect(&format!("'{keyword}' : 'comment' expects a string as argument."))?;
    Ok(word.text().into())
}

/// The optional comment at the end of a `send` line.
fn trailing_comment(words: &mut Words<'_>, keyword: &str) -> Parsed<Option<Arc<str>>> {
    let found = if words.take_if("comment") { Some(comment(words, keyword)?) } else { None };
    words.end(keyword)?;
    Ok(found)
}

/// The point where expressions of checks are evaluated.
const PLACES: EvaluationPoints = EvaluationPoints::only(EvaluationPoint::Check);

fn expression(context: &LineContext<'_>, words: &mut Words<'_>) -> Parsed<Arc<Expr>> {
    context.expressions().expression(words, PLACES)
}

fn format(context: &LineContext<'_>, word: &Word) -> Parsed<LogFormat> {
    context.expressions().format_with(word, PLACES, FormatOptions::PLAIN)
}

/// The name and the condition in the parentheses of the previous word.
fn variable(
    context: &LineContext<'_>,
    words: &Words<'_>,
    kind: CheckRuleKind,
) -> Parsed<(VariableId, SetCondition)> {
    let word = words.line().get(words.position() - 1).expect("the rule's own word");
    let name = word.text().split('(').next().unwrap_or_default();
    let complain = |message: &str| fault(word.span(), format!("'{} {name}' : {message}", kind.word()));
    let inside = word.text().split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    let Some(inside) = inside else {
        return Err(complain("expects the name of a variable in parentheses."));
    };
    let mut parts = inside.split(',');
    let id = context.resources.variables.intern(parts.next().unwrap_or_default().trim());
    let id = id.map_err(|message| complain(&message.to_string()))?;
    if !matches!(id.scope, VariableScope::Process | VariableScope::Session | VariableScope::Check) {
        return Err(complain("only variables of the scopes 'proc', 'sess' and 'check' can be used."));
    }
    let mut condition = SetCondition::ALWAYS;
    for part in parts {
        condition = condition.with_word(part.trim()).map_err(|message| complain(&message.to_string()))?;
    }
    Ok((id, condition))
}

fn set_variable(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    kind: CheckRuleKind,
) -> Parsed<CheckRule> {
    let (name, condition) = variable(context, words, kind)?;
    if words.at_end() {
        return Err(words.fault(format!("'{} set-var' : missing fetch method.", kind.word())));
    }
    let value = expression(context, words)?;
    words.end(&format!("{} set-var", kind.word()))?;
    Ok(CheckRule { comment: None, step: 0, action: CheckAction::SetVariable { name, condition, value } })
}

fn set_variable_format(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    kind: CheckRuleKind,
) -> Parsed<CheckRule> {
    let (name, condition) = variable(context, words, kind)?;
    let word = words
        .take()
        .ok_or_else(|| words.fault(format!("'{} set-var-fmt' : missing format.", kind.word())))?;
    let value = Arc::new(format(context, word)?);
    words.end(&format!("{} set-var-fmt", kind.word()))?;
    Ok(CheckRule {
        comment: None,
        step: 0,
        action: CheckAction::SetVariableFormat { name, condition, value },
    })
}

fn unset_variable(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    kind: CheckRuleKind,
) -> Parsed<CheckRule> {
    let (name, condition) = variable(context, words, kind)?;
    if condition != SetCondition::ALWAYS {
        return Err(words.fault(format!("'{} unset-var' : takes no conditions.", kind.word())));
    }
    words.end(&format!("{} unset-var", kind.word()))?;
    Ok(CheckRule { comment: None, step: 0, action: CheckAction::UnsetVariable(name) })
}

/// Warnings about unused rules.
pub(super) fn unused(scripts: &CheckScripts, name: &str, own: &weir_model::Location) -> Vec<String> {
    let is_own = |list: &CheckRuleList| list.section.as_ref() == Some(own) && !list.rules.is_empty();
    let by = match scripts.method {
        CheckMethod::Connect => None,
        CheckMethod::Tcp => Some("'option tcp-check'"),
        CheckMethod::Http(_) => Some("'option httpchk'"),
        CheckMethod::Program => Some("'option external-check'"),
        CheckMethod::Own(_) => Some("an option for one protocol, such as 'option ssl-hello-chk',"),
    };
    let say = |kind: &str, option: &str| match by {
        None => format!("backend '{name}' uses {kind} rules without '{option}', so the rules are ignored."),
        Some(by) => format!(
            "backend '{name}': its {kind} rules are ignored, because {by} selects another health check."
        ),
    };
    let mut warnings = Vec::new();
    if is_own(&scripts.http) && !matches!(scripts.method, CheckMethod::Http(_)) {
        warnings.push(say("http-check", "option httpchk"));
    }
    if is_own(&scripts.tcp) && !matches!(scripts.method, CheckMethod::Tcp) {
        warnings.push(say("tcp-check", "option tcp-check"));
    }
    warnings
}
