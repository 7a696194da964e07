//! Compressed pages that may reveal secrets by their size (BREACH, RFC 9325 4.4).

use std::collections::BTreeSet;

use weir_model::{Compression, CompressionAlgorithm, Proxy};

use super::{LintSubject, with_sections};
use crate::findings::Finding;

/// Compression of pages over TLS, in configurations without a rule that turns it off for requests from other sites.
pub(super) fn revealing(subject: &LintSubject<'_>) -> Vec<Finding> {
    let is_decided = subject.lines.iter().any(|line| {
        let words: BTreeSet<String> =
            line.words().iter().map(|word| word.text().to_ascii_lowercase()).collect();
        words.contains("accept-encoding") || words.iter().any(|word| word.contains("no-transform"))
    });
    let has_tls = |proxy: &Proxy| proxy.binds.iter().any(|bind| bind.options.tls.is_some());
    if is_decided || !subject.config.proxies.iter().any(has_tls) {
        return Vec::new();
    }
    let compressing = subject.config.proxies.iter().filter(|proxy| {
        (has_tls(proxy) || proxy.is_backend()) && compresses_pages(&proxy.settings.compression)
    });
    let names: BTreeSet<&str> = compressing.map(|proxy| &*proxy.name).collect();
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    for (section, line) in with_sections(subject.lines) {
        // Lines without a section are those of `defaults`.
        let is_concerned = section.map_or(!names.is_empty(), |name| names.contains(name));
        let is_algorithm = line.keyword().is("compression") && ["algo", "algo-res"].contains(&line.text(1));
        if is_concerned && is_algorithm && reported.insert(section) {
            let message =
                "the size of a compressed page may reveal its secrets to other sites (BREACH).".to_owned();
            let mut finding = subject.finding(REVEALING, line.span(), message);
            finding.note = Some(WAY_OUT.to_owned());
            found.push(finding);
        }
    }
    found
}

/// Whether HTML or JSON is compressed.
fn compresses_pages(compression: &Compression) -> bool {
    let algorithms = &compression.response_algorithms;
    let types = &compression.response_types;
    algorithms.iter().any(|algorithm| *algorithm != CompressionAlgorithm::Identity)
        && (types.is_empty()
            || types.iter().any(|prefix| {
                ["text/html", "application/json"]
                    .iter()
                    .any(|page| page.starts_with(&prefix.to_ascii_lowercase()))
            }))
}

const REVEALING: &str = "C719";
const WAY_OUT: &str = "if pages with secrets show text of the request, do not compress for other sites: 'http-request del-header \
                       accept-encoding if { req.hdr(sec-fetch-site) -m str cross-site }'";
