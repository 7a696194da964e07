//! Protocols of lines and servers that conflict with the mode of their proxy.

use weir_syntax::{Diagnostic, Diagnostics, Layout, Span};

use super::ProxySubject;
use weir_model::{Mode, Protocol, Proxy};

/// Refuses protocols that do not fit the proxy's mode.
pub(super) fn check_protocols(proxy: &Proxy, span: Span, diagnostics: &mut Diagnostics) {
    let wrong: &[Protocol] = match proxy.mode() {
        Mode::Http => &[Protocol::None, Protocol::Spop],
        Mode::Tcp => &[Protocol::H1, Protocol::H2, Protocol::Spop, Protocol::Fcgi],
        Mode::Log => &[Protocol::H2, Protocol::Spop, Protocol::Fcgi],
        Mode::Spop => &[Protocol::H1, Protocol::H2, Protocol::None, Protocol::Fcgi],
    };
    wrong.iter().for_each(|wrong| refuse_protocol(proxy, *wrong, span, diagnostics));
}

/// Refuses a protocol that does not fit the proxy's mode.
fn refuse_protocol(proxy: &Proxy, wrong: Protocol, span: Span, diagnostics: &mut Diagnostics) {
    let name = match wrong {
        Protocol::H1 => "h1",
        Protocol::H2 => "h2",
        Protocol::None => "none",
        Protocol::Spop => "spop",
        Protocol::Fcgi => "fcgi",
    };
    let who = ProxySubject::of(proxy);
    let mut complain = |what: String| {
        let message = format!("{who} : MUX protocol '{name}' is not usable for {what}.");
        diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Bare));
    };
    for bind in proxy.binds.iter().filter(|bind| bind.options.protocol == Some(wrong)) {
        complain(format!("'bind {}' at [{}]", bind.spelling, bind.at));
    }
    for server in proxy.servers.iter().filter(|server| server.settings.protocol == Some(wrong)) {
        complain(format!("server '{}' at [{}]", server.name, server.at));
    }
}

/// Reports HTTP settings of servers in a proxy without HTTP.
pub(super) fn check_servers_without_http(proxy: &Proxy, span: Span, diagnostics: &mut Diagnostics) {
    let who = ProxySubject::of(proxy);
    for server in &proxy.servers {
        let (severity, message) = if server.settings.redirect_prefix.is_some() {
            (
                weir_syntax::DiagnosticSeverity::Alert,
                format!("{who} : server cannot have cookie or redirect prefix in non-HTTP mode."),
            )
        } else if server.settings.cookie.is_some() {
            (
                weir_syntax::DiagnosticSeverity::Warning,
                format!("{who} : ignoring cookie for server '{}' as HTTP mode is disabled.", server.name),
            )
        } else {
            continue;
        };
        diagnostics.push(Diagnostic::new(severity, span, message).layout(Layout::Bare));
    }
}
