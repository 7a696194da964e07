//! Checks the resolved tree against `deny.toml`'s rules on licences, bans and sources.
//!
//! cargo-deny reads the same file, but takes longer to build than everything else in `make test`. Its additional data
//! (advisories) is not on a package registry. Only the syntax that our `deny.toml` uses is supported: `allow = [ "..." ]`
//! under `[licenses]` and `{ crate = "..." }` rows under `[bans]`.

use std::fs;

use crate::{BrokenRule, Workspace};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages without an allowed licence, banned packages, and packages from outside the registry.
pub fn denied(workspace: &Workspace) -> Vec<BrokenRule> {
    let text = fs::read_to_string(workspace.root.join("deny.toml")).expect("deny.toml can be read");
    let rules = LicenceRules::read(&text);
    assert!(!rules.allowed.is_empty() && !rules.banned.is_empty(), "deny.toml has no rules");
    let mut faults = Vec::new();
    for package in &workspace.packages {
        let place = format!("{} {}", package.name, package.version);
        if !rules.allows(&package.licence) {
            faults.push(BrokenRule::new(
                &place,
                format!("licence \"{}\" is not in deny.toml", package.licence),
            ));
        }
        if rules.banned.contains(&package.name) {
            faults.push(BrokenRule::new(&place, "is banned in deny.toml"));
        }
        if !package.source.is_empty() && package.source != REGISTRY {
            faults.push(BrokenRule::new(
                &place,
                format!("comes from {}, not from the registry", package.source),
            ));
        }
    }
    faults
}

#[derive(Debug, Default)]
struct LicenceRules {
    allowed: Vec<String>,
    banned: Vec<String>,
}

impl LicenceRules {
    fn read(text: &str) -> Self {
        let mut rules = Self::default();
        let mut section = "";
        let mut key = "";
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if line.starts_with('[') && line.ends_with(']') && !line.contains('"') {
                section = line;
            } else if let Some((left, _)) = line.split_once(" = [") {
                key = left;
            }
            let Some(quoted) = line.split('"').nth(1) else { continue };
            match (section, key) {
                ("[licenses]", "allow") => rules.allowed.push(quoted.to_owned()),
                ("[bans]", "deny") if line.contains("crate =") => rules.banned.push(quoted.to_owned()),
                _ => {}
            }
        }
        rules
    }

    /// Whether an SPDX expression can be satisfied with allowed licences: `OR` takes any, `AND` needs all.
    fn allows(&self, expression: &str) -> bool {
        let tokens = tokens(expression);
        let mut at = 0;
        !tokens.is_empty() && self.any_of(&tokens, &mut at) && at == tokens.len()
    }

    fn any_of(&self, tokens: &[String], at: &mut usize) -> bool {
        let mut allowed = self.all_of(tokens, at);
        while tokens.get(*at).is_some_and(|token| token == "OR") {
            *at += 1;
            allowed |= self.all_of(tokens, at);
        }
        allowed
    }

    fn all_of(&self, tokens: &[String], at: &mut usize) -> bool {
        let mut allowed = self.one(tokens, at);
        while tokens.get(*at).is_some_and(|token| token == "AND") {
            *at += 1;
            allowed &= self.one(tokens, at);
        }
        allowed
    }

    fn one(&self, tokens: &[String], at: &mut usize) -> bool {
        let Some(token) = tokens.get(*at) else { return false };
        *at += 1;
        if token == "(" {
            let allowed = self.any_of(tokens, at);
            *at += 1;
            return allowed;
        }
        let mut name = token.clone();
        if tokens.get(*at).is_some_and(|token| token == "WITH") {
            name = format!("{name} WITH {}", tokens.get(*at + 1).map_or("", String::as_str));
            *at += 2;
        }
        self.allowed.contains(&name)
    }
}

/// The words and brackets of an expression; a slash is the `OR` of old manifests.
fn tokens(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[licenses]\nallow = [\n    \"MIT\",\n    \"Apache-2.0 WITH LLVM-exception\",\n]\n[bans]\nwildcards = \"deny\"\ndeny = [\n    { crate = \"ring\" },\n]\n";

    #[test]
    fn parses_allowed_licences_and_banned_crates() {
        let rules = LicenceRules::read(TEXT);
        assert_eq!(rules.allowed, ["MIT", "Apache-2.0 WITH LLVM-exception"]);
        assert_eq!(rules.banned, ["ring"]);
    }

    #[test]
    fn evaluates_licence_expressions() {
        let rules = LicenceRules::read(TEXT);
        let check =
            |expression: &str, expected: bool| assert_eq!(rules.allows(expression), expected, "{expression}");
        check("MIT", true);
        check("GPL-3.0", false);
        check("MIT OR GPL-3.0", true);
        check("MIT/GPL-3.0", true);
        check("MIT AND GPL-3.0", false);
        check("(MIT OR GPL-3.0) AND MIT", true);
        check("(GPL-2.0 OR GPL-3.0) AND MIT", false);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("Apache-2.0", false);
        check("", false);
    }
}
