//! Actions on addresses and on socket options.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_config::numbers::prefixed_integer;
use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_expr::{Expr, SampleType, Value};
use weir_fingerprint::Canonical;
use weir_model::{Action, ActionFacts, RulesetKind, Visit};
use weir_sys::option;

use super::arguments::{Number, at_digit};
use super::{ActionResult, ActionRow, RuleContext, StreamAction};
use crate::stream::Stream;

pub(super) const ROWS: &[ActionRow] = &[
    action("set-src", "<expr>", "src", "replace the client's address", sets::REQUESTS, |context, words| {
        endpoint(context, words, AddressPart::Source)
    }),
    action(
        "set-src-port",
        "<expr>",
        "int(0)",
        "replace the client's port",
        sets::REQUESTS,
        |context, words| endpoint(context, words, AddressPart::SourcePort),
    ),
    action(
        "set-dst",
        "<expr>",
        "dst",
        "replace the destination address",
        sets::REQUESTS,
        |context, words| endpoint(context, words, AddressPart::Destination),
    ),
    action(
        "set-dst-port",
        "<expr>",
        "int(4000)",
        "replace the destination port",
        sets::REQUESTS,
        |context, words| endpoint(context, words, AddressPart::DestinationPort),
    ),
    action(
        "set-fc-tos",
        "{ <tos> | <expr> }",
        "0x10",
        "type of service towards the client",
        sets::ALL_BUT_AFTER,
        |context, words| {
            let value = number(context, words, MAX_TOS)?;
            Ok(SetTos { side: ConnectionSide::Frontend, value }.into_action())
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
            Ok(SetTos { side: ConnectionSide::Backend, value }.into_action())
        },
    ),
    action("set-tos", "<tos>", "16", "old name of 'set-fc-tos'", sets::ALL_BUT_AFTER, |_, words| {
        let value = fixed(words, MAX_TOS)?;
        Ok(SetTos { side: ConnectionSide::Frontend, value }.into_action())
    }),
    action(
        "set-fc-mark",
        "{ <mark> | <expr> }",
        "0x1",
        "netfilter mark towards the client",
        sets::ALL_BUT_AFTER,
        |context, words| {
            let value = number(context, words, u32::MAX)?;
            Ok(SetMark { side: ConnectionSide::Frontend, value }.into_action())
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
            Ok(SetMark { side: ConnectionSide::Backend, value }.into_action())
        },
    ),
    action("set-mark", "<mark>", "1", "old name of 'set-fc-mark'", sets::ALL_BUT_AFTER, |_, words| {
        let value = fixed(words, u32::MAX)?;
        Ok(SetMark { side: ConnectionSide::Frontend, value }.into_action())
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
            Ok(ExpectProxy.into_action())
        },
    ),
];

/// The largest type of service, which is one byte in the IP header.
const MAX_TOS: u32 = 255;

fn endpoint(context: &ActionContext<'_, '_>, words: &mut Words<'_>, endpoint: AddressPart) -> Parsed<Action> {
    Ok(SetEndpoint { endpoint, value: context.expression(words)? }.into_action())
}

/// Parses a number up to `highest`, or an expression with an integer value.
fn number(context: &ActionContext<'_, '_>, words: &mut Words<'_>, highest: u32) -> Parsed<Number> {
    if at_digit(words) {
        return fixed(words, highest);
    }
    Ok(Number::Expression(context.expression(words)?))
}

fn fixed(words: &mut Words<'_>, highest: u32) -> Parsed<Number> {
    let word = words.expect("expects exactly 1 argument (integer/hex value).")?;
    match prefixed_integer(word.text()).filter(|value| *value <= highest) {
        Some(value) => Ok(Number::Fixed(value.into())),
        None => {
            let message = format!("invalid character starting at '{word}' (integer/hex value expected).");
            Err(fault(word.span(), message))
        }
    }
}

/// The client's or the destination's address or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum AddressPart {
    Source,
    SourcePort,
    Destination,
    DestinationPort,
}

/// `set-src`, `set-src-port`, `set-dst`, `set-dst-port`: for the connection, the session or the stream, depending on the ruleset.
#[derive(Debug, Canonical)]
struct SetEndpoint {
    endpoint: AddressPart,
    value: Arc<Expr>,
}

impl StreamAction for SetEndpoint {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        let is_port = matches!(self.endpoint, AddressPart::SourcePort | AddressPart::DestinationPort);
        let wanted = if is_port { SampleType::Int } else { SampleType::Addr };
        // If the expression fails, nothing changes.
        let Some(sample) = self.value.evaluate_as(stream, wanted).into_owned().sample() else {
            return ActionResult::NEXT;
        };
        let is_source = matches!(self.endpoint, AddressPart::Source | AddressPart::SourcePort);
        let old = if is_source { stream.source().inet() } else { stream.destination().inet() };
        let new = match sample.value {
            Value::Ipv4(ip) => SocketAddr::new(IpAddr::V4(ip), old.map_or(0, |old| old.port())),
            Value::Ipv6(ip) => SocketAddr::new(IpAddr::V6(ip), old.map_or(0, |old| old.port())),
            Value::Int(port) => {
                let mut new = old.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
                new.set_port(u16::try_from(port).unwrap_or_default());
                new
            }
            _ => return ActionResult::NEXT,
        };
        match rule.kind {
            RulesetKind::TcpRequestConnection => stream.session.set_connection_address(is_source, new.into()),
            RulesetKind::TcpRequestSession => stream.session.set_address(is_source, new.into()),
            _ => stream.entry.set_address(&stream.session, is_source, new.into()),
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// The connection that an action changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum ConnectionSide {
    Frontend,
    Backend,
}

/// `set-fc-tos`, `set-bc-tos` (and `set-tos`).
#[derive(Debug, Canonical)]
struct SetTos {
    side: ConnectionSide,
    value: Number,
}

impl StreamAction for SetTos {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let Some(tos) = self.value.value(stream) else { return ActionResult::NEXT };
        let tos = tos as u8;
        match self.side {
            ConnectionSide::Frontend => set_client_tos(stream, tos),
            ConnectionSide::Backend => stream.server.marks_mut().tos = Some(tos),
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// Sets the TOS field towards the client.
pub(super) fn set_client_tos(stream: &Stream, tos: u8) {
    let family = stream.source().family();
    stream.client.with_descriptor(|descriptor| option::set_tos(descriptor, family, tos));
}

/// Sets the netfilter mark towards the client.
pub(super) fn set_client_mark(stream: &Stream, mark: u32) {
    stream.client.with_descriptor(|descriptor| option::set_mark(descriptor, mark));
}

/// `set-fc-mark`, `set-bc-mark` (and `set-mark`).
#[derive(Debug, Canonical)]
struct SetMark {
    side: ConnectionSide,
    value: Number,
}

impl StreamAction for SetMark {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let Some(mark) = self.value.value(stream) else { return ActionResult::NEXT };
        let mark = mark as u32;
        match self.side {
            ConnectionSide::Frontend => set_client_mark(stream, mark),
            ConnectionSide::Backend => stream.server.marks_mut().mark = Some(mark),
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        let setting = match self.side {
            ConnectionSide::Frontend => "set-fc-mark",
            ConnectionSide::Backend => "set-bc-mark",
        };
        ActionFacts { privileged: Some(setting), ..ActionFacts::NONE }
    }
}

/// `expect-proxy layer4`: the connection begins with a PROXY protocol header. Evaluated before the other connection rules: see
/// `accept.rs`.
#[derive(Debug, Canonical)]
pub(crate) struct ExpectProxy;

impl StreamAction for ExpectProxy {
    fn run<'s>(&'s self, _: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        ActionResult::NEXT
    }
}
