//! Endless redirections: rules that redirect to HTTPS even on HTTPS connections.

use weir_model::{Proxy, RulesetKind};
use weir_syntax::{Line, Word};

use super::{LintSubject, finding_at};
use crate::findings::Finding;

/// Rules that redirect to HTTPS even if the connection already uses HTTPS.
pub(super) fn endless(subject: &LintSubject<'_>) -> Vec<Finding> {
    let frontends =
        subject.config.proxies.iter().filter(|proxy| proxy.is_frontend() && !proxy.settings.disabled);
    let any_tls = subject.config.proxies.iter().any(speaks_tls);
    let mut found = Vec::new();
    for proxy in frontends {
        let rules = proxy.rules(RulesetKind::HttpRequest);
        let rules = rules.filter(|rule| rule.action.facts().redirects).map(|rule| &rule.at);
        let lines = rules.chain(proxy.redirects.iter().map(|rule| &rule.at));
        for (at, line) in lines.filter_map(|at| Some((at, subject.line(at)?))) {
            if !leads_to_https(line) || tests_tls(subject, line) {
                continue;
            }
            let why = match (speaks_tls(proxy), any_tls) {
                (true, _) => {
                    "its listeners speak TLS too, and clients of those are redirected to themselves. Add 'unless { ssl_fc }'."
                }
                (false, false) => {
                    "no listener of this configuration speaks TLS. If TLS ends before it, the redirection is endless: ask for \
                                   a header of the other end, such as 'unless { hdr(x-forwarded-proto) https }'."
                }
                // The usual pair: one frontend for port 80, another for port 443.
                (false, true) => continue,
            };
            found.push(finding_at(CODE, at, format!("'{}' redirects to https: {why}", proxy.name)));
        }
    }
    found
}

fn leads_to_https(line: &Line) -> bool {
    line.words().windows(2).any(|pair| {
        let value = pair[1].text().to_ascii_lowercase();
        let own_host =
            ["https://%[hdr(host)", "https://%[req.hdr(host)"].iter().any(|start| value.starts_with(start));
        (pair[0].is("scheme") && value == "https") || (pair[0].is("prefix") && own_host)
    })
}

fn speaks_tls(proxy: &Proxy) -> bool {
    proxy.binds.iter().any(|bind| bind.options.tls.is_some())
}

/// Whether the condition of a rule, directly or through an ACL, distinguishes HTTPS from HTTP.
fn tests_tls(subject: &LintSubject<'_>, line: &Line) -> bool {
    let words = line.words();
    let begins = |word: &Word| !word.is_quoted() && (word.is("if") || word.is("unless"));
    let Some(from) = words.iter().rposition(begins) else { return false };
    words[from + 1..].iter().any(|word| {
        let text = word.text().trim_start_matches('!');
        separates(text) || is_acl(subject, text)
    })
}

/// Whether an ACL with this name distinguishes HTTPS from HTTP.
fn is_acl(subject: &LintSubject<'_>, name: &str) -> bool {
    let acls = subject.lines.iter().filter(|line| line.keyword().is("acl") && line.text(1) == name);
    acls.flat_map(|line| line.words().iter().skip(2)).any(|word| separates(word.text()))
}

/// Whether a word of a condition distinguishes HTTPS from HTTP.
fn separates(text: &str) -> bool {
    SEPARATING.iter().any(|known| text.contains(known))
}

/// Parts of fetches that distinguish HTTPS from HTTP: TLS, port or listener of the connection, headers of a previous proxy, variables.
const SEPARATING: [&str; 9] =
    ["ssl", "dst_port", "proto", "scheme", "so_id", "so_name", "fc_pp_", "https", "var("];

const CODE: &str = "C716";
