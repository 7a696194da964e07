//! ALPN names that HTTP clients and servers do not use. The connection then uses HTTP/1, or negotiates no protocol.

use weir_model::Mode;

use super::{LintSubject, with_sections};
use crate::findings::Finding;

/// Unknown names in `alpn` and `check-alpn` of HTTP proxies.
pub(super) fn unknown(subject: &LintSubject<'_>) -> Vec<Finding> {
    let is_http = |name: &str| {
        subject.config.proxies.iter().any(|proxy| *proxy.name == *name && proxy.mode() == Mode::Http)
    };
    let mut found = Vec::new();
    for (section, line) in with_sections(subject.lines) {
        if !["bind", "server", "default-server"].contains(&line.text(0)) || !section.is_some_and(is_http) {
            continue;
        }
        for (index, pair) in line.words().windows(2).enumerate() {
            if !["alpn", "check-alpn"].contains(&pair[0].text()) {
                continue;
            }
            for name in pair[1].text().split(',').filter(|name| !name.is_empty() && !KNOWN.contains(name)) {
                let nearest = weir_syntax::did_you_mean(name, KNOWN.iter().copied());
                let advice = match nearest {
                    Some(known) => format!(" Was '{known}' meant?"),
                    None if name.contains([';', ' ', '|']) => {
                        " Commas separate protocols: 'h2,http/1.1'.".to_owned()
                    }
                    None => String::new(),
                };
                let message =
                    format!("'{name}' is not a protocol of HTTP, so it is never negotiated.{advice}");
                found.push(subject.finding(UNKNOWN, line.span_at(index + 1), message));
            }
        }
    }
    found
}

/// ALPN protocol identifiers (RFC 7301, 6) that an HTTP proxy may encounter.
const KNOWN: [&str; 5] = ["h2", "http/1.1", "http/1.0", "h3", "acme-tls/1"];

const UNKNOWN: &str = "C718";
