//! Whether a server's certificate is for a host (manual, "verify" and "verifyhost" of servers).
//!
//! The candidates are the host names among its alternative names, and each common name of its subject, whether or not
//! there are alternative names. A star in the first label matches any characters of that label. At least two labels
//! must follow.

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Whether one of the names of a certificate (DER) matches `host`.
pub(super) fn is_of(certificate: &[u8], host: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let mut alternative = alternative.iter().flat_map(|names| &names.value.general_names);
    alternative.any(|name| matches!(name, GeneralName::DNSName(name) if covers(name, host)))
        || certificate
            .subject()
            .iter_common_name()
            .any(|name| name.as_str().is_ok_and(|name| covers(name, host)))
}

/// Whether a certificate's name matches a host.
fn covers(name: &str, host: &str) -> bool {
    let Some((before, after)) = name.split_once('*') else { return name.eq_ignore_ascii_case(host) };
    let Some((rest_of_label, domain)) = after.split_once('.') else { return false };
    let (label, of) = host.split_once('.').unwrap_or((host, ""));
    let fits = label.len() >= before.len() + rest_of_label.len()
        && label.as_bytes()[..before.len()].eq_ignore_ascii_case(before.as_bytes())
        && label.as_bytes()[label.len() - rest_of_label.len()..]
            .eq_ignore_ascii_case(rest_of_label.as_bytes());
    !before.contains('.') && !after.contains('*') && fits && domain.eq_ignore_ascii_case(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of HAProxy 3.2 for certificates with these names.
    #[test]
    fn certificate_wildcards_match_parts_of_one_label() {
        for (name, host, expected) in [
            ("a.example", "A.Example", true),
            ("a.example", "b.example", false),
            ("*.example", "x.example", true),
            ("*.example", "example", false),
            ("f*.foo.example", "foo.foo.example", true),
            ("f*.foo.example", "f.foo.example", true),
            ("f*.foo.example", "bar.foo.example", false),
            ("f*.foo.example", "f.x.foo.example", false),
            ("*.foo.example", "X.FOO.example", true),
            ("*.foo.example", "x.y.foo.example", false),
            ("*.foo.example", "foo.example", false),
            ("*.foo.example", "x.foo.example.", false),
            ("x.*.example", "x.y.example", false),
            ("*", "host", false),
            ("*", "a.b", false),
            ("f*g.foo.example", "fxg.foo.example", true),
            ("f*g.foo.example", "fg.foo.example", true),
            ("f*g.foo.example", "f.foo.example", false),
            ("f*g.foo.example", "fx.g.foo.example", false),
            ("xn--f*.foo.example", "xn--fa.foo.example", true),
            ("**.example", "x.example", false),
            ("*.*.example", "x.*.example", false),
        ] {
            assert_eq!(covers(name, host), expected, "{name} covers {host}");
        }
    }
}
