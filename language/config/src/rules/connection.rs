//! Actions on addresses and on the connections' options.

use super::{ActionContext, ActionReader, action, sets};
use crate::model::{Action, ConnectionSide, DoResolve, Endpoint, Number};
use crate::numbers::prefixed_integer;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    action(
        "do-resolve",
        "(<var>,<resolvers>[,ipv4|ipv6]) <expr>",
        "(txn.a,dns) str(a.test)",
        "ask name servers for the address of a name",
        sets::CONTENT_REQUESTS,
        do_resolve,
    ),
    action("set-src", "<expr>", "src", "replace the client's address", sets::REQUESTS, |context, words| {
        endpoint(context, words, Endpoint::Source)
    }),
    action(
        "set-src-port",
        "<expr>",
        "int(0)",
        "replace the client's port",
        sets::REQUESTS,
        |context, words| endpoint(context, words, Endpoint::SourcePort),
    ),
    action(
        "set-dst",
        "<expr>",
        "dst",
        "replace the destination address",
        sets::REQUESTS,
        |context, words| endpoint(context, words, Endpoint::Destination),
    ),
    action(
        "set-dst-port",
        "<expr>",
        "int(4000)",
        "replace the destination port",
        sets::REQUESTS,
        |context, words| endpoint(context, words, Endpoint::DestinationPort),
    ),
    action(
        "set-fc-tos",
        "{ <tos> | <expr> }",
        "0x10",
        "type of service towards the client",
        sets::ALL_BUT_AFTER,
        |context, words| {
            let value = number(context, words, MAX_TOS)?;
            Ok(Action::SetTos { side: ConnectionSide::Frontend, value })
        },
    ),
    action(
        "set-bc-tos",
        "{ <tos> | <expr> }",
        "0x10",
        "type of service towards the server",
        sets::CONTENT_REQUESTS,
        |context, words| {
            let value = number(context, words, MAX_TOS)?;
            Ok(Action::SetTos { side: ConnectionSide::Backend, value })
        },
    ),
    action("set-tos", "<tos>", "16", "old name of 'set-fc-tos'", sets::ALL_BUT_AFTER, |_, words| {
        Ok(Action::SetTos { side: ConnectionSide::Frontend, value: fixed(words, MAX_TOS)? })
    }),
    action(
        "set-fc-mark",
        "{ <mark> | <expr> }",
        "0x1",
        "netfilter mark towards the client",
        sets::ALL_BUT_AFTER,
        |context, words| {
            let value = number(context, words, u32::MAX)?;
            Ok(Action::SetMark { side: ConnectionSide::Frontend, value })
        },
    ),
    action(
        "set-bc-mark",
        "{ <mark> | <expr> }",
        "0x1",
        "netfilter mark towards the server",
        sets::CONTENT_REQUESTS,
        |context, words| {
            let value = number(context, words, u32::MAX)?;
            Ok(Action::SetMark { side: ConnectionSide::Backend, value })
        },
    ),
    action("set-mark", "<mark>", "1", "old name of 'set-fc-mark'", sets::ALL_BUT_AFTER, |_, words| {
        Ok(Action::SetMark { side: ConnectionSide::Frontend, value: fixed(words, u32::MAX)? })
    }),
    action(
        "expect-proxy",
        "layer4",
        "layer4",
        "expect a PROXY protocol header",
        sets::CONNECTION,
        |_, words| {
            if !words.take_if("layer4") {
                return Err(words.fault(format!("only supports 'layer4' (got '{}')", words.peek_text())));
            }
            Ok(Action::ExpectProxy)
        },
    ),
];

/// `do-resolve(<var>,<resolvers>[,ipv4|ipv6]) <expr>`.
fn do_resolve(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Action> {
    let span = context.word.span();
    let complain = || {
        let message = format!(
            "Can't parse '{}'. Expects 'do-resolve(<varname>,<resolvers>[,<options>]) <expr>'. Available options are 'ipv4' and 'ipv6'.",
            context.word
        );
        fault(span, message)
    };
    let arguments = context.parenthesized().ok_or_else(complain)?;
    let mut parts = arguments.split(',').map(str::trim);
    let (Some(variable), Some(section)) = (parts.next(), parts.next().filter(|name| !name.is_empty())) else {
        return Err(complain());
    };
    let prefers_ipv4 = match parts.next() {
        Some("ipv4") => true,
        Some("ipv6") | None => false,
        Some(_) => return Err(complain()),
    };
    if parts.next().is_some() {
        return Err(complain());
    }
    let section = section.into();
    let variable = context.line.resources.variables.intern(variable);
    let variable = variable.map_err(|message| fault(span, message))?;
    let name = context.line.expressions().expression(words, context.points)?;
    Ok(Action::DoResolve(Box::new(DoResolve { variable, section, prefers_ipv4, name })))
}

/// The largest type of service: it is one byte of the IP header.
const MAX_TOS: u32 = 255;

fn endpoint(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'_>,
    endpoint: Endpoint,
) -> Parsed<Action> {
    let value = context.line.expressions().expression(words, context.points)?;
    Ok(Action::SetEndpoint { endpoint, value })
}

/// A number, or an expression that gives one.
fn number(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>, highest: u32) -> Parsed<Number> {
    if words.peek_text().starts_with(|first: char| first.is_ascii_digit()) {
        return fixed(words, highest);
    }
    let value = context.line.expressions().expression(words, context.points)?;
    Ok(Number::Expression(value))
}

fn fixed(words: &mut Words<'_>, highest: u32) -> Parsed<Number> {
    let word = words.expect("expects exactly 1 argument (integer/hex value).")?;
    match prefixed_integer(word.text()).filter(|value| *value <= highest) {
        Some(value) => Ok(Number::Fixed(value)),
        None => {
            let message = format!("invalid character starting at '{word}' (integer/hex value expected).");
            Err(fault(word.span(), message))
        }
    }
}
