//! ACLs and FastCGI applications that are declared but never used.

use weir_syntax::Line;

use super::{LintSubject, finding_at};
use crate::findings::Finding;

/// ACLs with a name not used on any other line of their section. ACLs with the same name count as one.
pub(super) fn unused_acls(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_section = |line: &Line| weir_config::is_section(line.keyword().text());
    for section in subject.lines.chunk_by(|a, b| !is_section(b) && a.span().file == b.span().file) {
        let mut reported = Vec::new();
        for line in section.iter().filter(|line| line.keyword().is("acl")) {
            let name = line.text(1);
            if !reported.contains(&name) && !section.iter().any(|other| uses(other, name)) {
                reported.push(name);
                let message = format!("nothing uses the ACL '{name}'.");
                found.push(subject.finding("C702", line.span_at(1), message));
            }
        }
    }
    found
}

/// FastCGI applications that no backend uses, not even a disabled one.
pub(super) fn unused_applications(subject: &LintSubject<'_>) -> Vec<Finding> {
    let users = || subject.config.proxies.iter().filter_map(|proxy| proxy.settings.application.as_ref());
    let unused = subject
        .config
        .applications
        .iter()
        .filter(|application| !users().any(|used| used.name == application.name));
    unused
        .map(|application| {
            finding_at(
                "C721",
                &application.at,
                format!("no backend uses the fcgi-app '{}'.", application.name),
            )
        })
        .collect()
}

/// Whether a line tests an ACL, in its condition or in the arguments of the fetch `acl`.
fn uses(line: &Line, name: &str) -> bool {
    let declares = line.keyword().is("acl");
    line.words().iter().skip(if declares { 2 } else { 1 }).any(|word| {
        let text = word.text();
        (!declares && text.trim_start_matches('!') == name)
            || text.split("acl(").skip(1).any(|rest| {
                let arguments = rest.split(')').next().unwrap_or_default();
                arguments.split(',').any(|argument| argument.trim().trim_start_matches('!') == name)
            })
    })
}
