//! The names and addresses of a certificate.

use serde_json::Value;

/// A name or an address of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identifier {
    /// A host name in lower case, of ASCII. `*.` at its beginning is a wildcard.
    Dns(String),
    /// An IPv4 or IPv6 address (RFC 8738), in the form of RFC 5952.
    Ip(std::net::IpAddr),
}

impl Identifier {
    /// Reads a name or an address of the configuration. `None` if it is neither.
    pub fn parse(text: &str) -> Option<Identifier> {
        if let Ok(address) = text.parse() {
            return Some(Identifier::Ip(address));
        }
        let labels = text.strip_prefix("*.").unwrap_or(text);
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let is_name = text.len() <= 253 && labels.split('.').all(is_label);
        // A number at the end would be read as an IPv4 address by others.
        let ends_in_digits =
            labels.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        (is_name && !ends_in_digits).then(|| Identifier::Dns(text.to_ascii_lowercase()))
    }

    /// The text in orders.
    pub fn text(&self) -> String {
        match self {
            Identifier::Dns(name) => name.clone(),
            Identifier::Ip(address) => address.to_string(),
        }
    }

    /// The name without `*.`.
    pub fn base(&self) -> String {
        let text = self.text();
        text.strip_prefix("*.").map_or(text.clone(), str::to_owned)
    }

    /// Whether it is a name that begins with `*.`.
    pub fn is_wildcard(&self) -> bool {
        matches!(self, Identifier::Dns(name) if name.starts_with("*."))
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Identifier::Dns(_) => "dns",
            Identifier::Ip(_) => "ip",
        }
    }

    pub(crate) fn document(&self) -> Value {
        serde_json::json!({"type": self.kind(), "value": self.text()})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Orders and files have the text.
        #[test]
        fn the_text_of_an_identifier_is_that_identifier(text in "[a-zA-Z0-9.*_:-]{0,70}") {
            if let Some(identifier) = Identifier::parse(&text) {
                prop_assert_eq!(Identifier::parse(&identifier.text()), Some(identifier.clone()));
                prop_assert!(!identifier.base().starts_with('*') && !identifier.text().contains("/"));
            }
        }
    }

    #[test]
    fn names_and_addresses_are_checked() {
        let text = |name: &str| Identifier::parse(name).map(|identifier| identifier.text());
        for (name, expected) in [
            ("Example.ORG", "example.org"),
            ("*.example.org", "*.example.org"),
            ("_dmarc.a-b.example", "_dmarc.a-b.example"),
            ("2001:DB8::0:1", "2001:db8::1"),
            ("192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(text(name).as_deref(), Some(expected));
        }
        let (long, longer) = ("a".repeat(64), ["abcdefgh"; 30].join("."));
        for name in [
            "",
            ".",
            "a..b",
            "a.",
            "-a.b",
            "a-.b",
            "*",
            "*.",
            "a.*.b",
            "**.a",
            "1.2.3",
            "a.5",
            "a b.c",
            "m\u{fc}nchen.de",
            "a/b",
            &long,
            &longer,
        ] {
            assert_eq!(text(name), None, "{name}");
        }
        let wildcard = Identifier::parse("*.a.test").expect("a name");
        assert_eq!((wildcard.base().as_str(), wildcard.is_wildcard()), ("a.test", true));
    }
}
