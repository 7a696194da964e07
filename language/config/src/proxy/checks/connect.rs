//! `connect`.

use super::{CheckRuleKind, comment, expression};
use crate::address::{refuse_multipath, source_address};
use crate::proxy::LineContext;
use crate::tls_words::protocols;
use crate::words::{Parsed, Words, fault, not_yet};
use weir_model::{CheckAction, CheckConnect, CheckPort, CheckRule, Protocol};

pub(super) fn read(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    kind: CheckRuleKind,
) -> Parsed<CheckRule> {
    let keyword = format!("{} connect", kind.word());
    let mut connect = CheckConnect { is_written: true, ..CheckConnect::default() };
    let mut said = None;
    while let Some(word) = words.take() {
        match word.text() {
            "default" => connect.by_default = true,
            "port" => connect.port = Some(port(context, words, &keyword)?),
            "addr" => {
                let word = words.expect(&format!("'{keyword}' : 'addr' expects <ipv4|ipv6> as argument."))?;
                refuse_multipath(word, &keyword)?;
                let (host, first, last) = source_address(word, "addr")?;
                if first != last {
                    return Err(fault(
                        word.span(),
                        format!("'{keyword}' : 'addr' : port range not permitted here in '{word}'"),
                    ));
                }
                if host.ip().is_none() {
                    return Err(fault(
                        word.span(),
                        format!("'{keyword}' : 'addr' expects an address, not a name."),
                    ));
                }
                connect.address = Some(host);
                if first > 0 {
                    connect.port = Some(CheckPort::Fixed(first));
                }
            }
            "send-proxy" => connect.send_proxy = true,
            "via-socks4" => connect.via_socks4 = true,
            "linger" => connect.lingers = true,
            "comment" => said = Some(comment(words, &keyword)?),
            "ssl" => connect.tls = true,
            "sni" => {
                let name = words.expect(&format!("'{keyword}' : 'sni' expects a string as argument."))?;
                connect.server_name = Some(name.text().into());
            }
            "alpn" => {
                let protocols = protocols(words, &format!("'{keyword}' : 'alpn'"))?;
                connect.protocols = Some(protocols.into());
            }
            "proto" => connect.protocol = proto(words, &keyword, kind)?,
            other => {
                return Err(fault(
                    word.span(),
                    format!(
                        "'{keyword}' : expects 'comment', 'port', 'addr', 'send-proxy', 'ssl', 'sni', 'alpn' or \
                         'via-socks4', 'linger', 'default' but got '{other}' as argument."
                    ),
                ));
            }
        }
    }
    Ok(CheckRule { comment: said, step: 0, action: CheckAction::Connect(connect) })
}

/// HTTP/1 or HTTP/2 for `http-check` rules. Rules of `tcp-check` send raw bytes with any protocol.
fn proto(words: &mut Words<'_>, keyword: &str, kind: CheckRuleKind) -> Parsed<Option<Protocol>> {
    let word = words.expect(&format!("'{keyword}' : 'proto' expects a MUX protocol as argument."))?;
    match (word.text(), kind) {
        ("h1", CheckRuleKind::Http) => Ok(Some(Protocol::H1)),
        ("h2", CheckRuleKind::Http) => Ok(Some(Protocol::H2)),
        ("fcgi", CheckRuleKind::Http) => Ok(Some(Protocol::Fcgi)),
        ("none", CheckRuleKind::Tcp) => Ok(None),
        ("spop" | "quic" | "qmux", CheckRuleKind::Http) => {
            Err(not_yet(word.span(), &format!("{keyword} proto {word}")))
        }
        ("none" | "h1" | "h2" | "fcgi" | "spop" | "quic" | "qmux", _) => {
            let message =
                format!("'{keyword}' : 'proto' : invalid MUX protocol '{word}' for {}.", kind.word());
            Err(fault(word.span(), message))
        }
        _ => Err(fault(word.span(), format!("'{keyword}' : 'proto' : unknown MUX protocol '{word}'."))),
    }
}

/// A number, or an expression.
fn port(context: &LineContext<'_>, words: &mut Words<'_>, keyword: &str) -> Parsed<CheckPort> {
    let text = words.peek_text();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let span = words.here();
        words.take();
        return text.parse().ok().filter(|port| *port > 0).map(CheckPort::Fixed).ok_or_else(|| {
            fault(
                span,
                format!(
                    "'{keyword}' : expects a valid TCP port (from range 1 to 65535) or a sample expression, got {text}."
                ),
            )
        });
    }
    if text.is_empty() {
        return Err(
            words.fault(format!("'{keyword}' : 'port' expects a port number or expression as argument."))
        );
    }
    Ok(CheckPort::Expression(expression(context, words)?))
}
