//! Names of certificates: equality, and constraints of authorities (RFC 5280, 4.2.1.10).
//!
//! Two names are equal when their parts are, in any string type and case, and with any number of spaces between words, as in
//! OpenSSL.

use x509_parser::extensions::{GeneralName, NameConstraints};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::parsed::DecodedCertificate;
use super::{EXCLUDED, NOT_PERMITTED, TOO_MANY_NAMES, UNKNOWN_CONSTRAINT, WRONG_CONSTRAINT, WRONG_NAME};

/// The canonical form of a name, for comparison: the form of a name that begins with all parts of another begins with that one's form.
pub(super) fn canonical(name: &X509Name<'_>) -> Vec<u8> {
    let mut form = Vec::with_capacity(name.as_raw().len() * 2);
    for part in name.iter_rdn() {
        form.extend_from_slice(&(part.iter().count() as u32).to_be_bytes());
        for attribute in part.iter() {
            add(&mut form, attribute.attr_type().as_bytes());
            match text(attribute) {
                Some(text) => {
                    form.push(UTF8);
                    add(&mut form, plain(&text).as_bytes());
                }
                None => {
                    form.push(attribute.attr_value().tag().0 as u8);
                    add(&mut form, attribute.attr_value().data);
                }
            }
        }
    }
    form
}

fn add(form: &mut Vec<u8>, bytes: &[u8]) {
    form.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    form.extend_from_slice(bytes);
}

/// The text of a part, if it is a string.
fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let bytes = attribute.attr_value().data;
    match attribute.attr_value().tag().0 as u8 {
        UTF8 | PRINTABLE | IA5 | VISIBLE => String::from_utf8(bytes.to_vec()).ok(),
        TELETEX => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        BMP => {
            let units = bytes.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

/// The text in lower case, with one space between words and none around them.
fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.join(" ").to_ascii_lowercase()
}

#[derive(Clone, Copy)]
enum CertificateName<'n> {
    Directory(&'n [u8]),
    Dns(&'n str),
    Mail(&'n str),
    Uri(&'n str),
    Address(&'n [u8]),
    /// A name of this kind, for which no constraint is supported.
    Other(u8),
}

/// The fault of a certificate under the name constraints of one above it; `is_own`: it is the peer's own certificate.
pub(super) fn fault(
    certificate: &DecodedCertificate<'_>,
    constraints: &NameConstraints<'_>,
    is_own: bool,
) -> Option<u16> {
    let subject = &certificate.x509.tbs_certificate.subject;
    let mut names: Vec<CertificateName<'_>> = Vec::new();
    if !certificate.subject.is_empty() {
        names.push(CertificateName::Directory(&certificate.subject));
    }
    for mail in subject.iter_email() {
        let is_ia5 = mail.attr_value().tag().0 as u8 == IA5;
        let Some(mail) = mail.as_str().ok().filter(|_| is_ia5) else { return Some(WRONG_NAME) };
        names.push(CertificateName::Mail(mail));
    }
    let alternative = certificate.x509.subject_alternative_name().ok().flatten();
    let alternative = alternative.map_or(&[][..], |names| &names.value.general_names[..]);
    let directories: Vec<Vec<u8>> = alternative.iter().filter_map(directory).collect();
    let mut next_directory = directories.iter();
    for name in alternative {
        names.push(match name {
            GeneralName::DirectoryName(_) => CertificateName::Directory(next_directory.next()?),
            GeneralName::DNSName(name) => CertificateName::Dns(name),
            GeneralName::RFC822Name(name) => CertificateName::Mail(name),
            GeneralName::URI(name) => CertificateName::Uri(name),
            GeneralName::IPAddress(bytes) => CertificateName::Address(bytes),
            other => CertificateName::Other(kind(other)),
        });
    }
    let has_host = alternative.iter().any(|name| matches!(name, GeneralName::DNSName(_)));
    if is_own && !has_host {
        let common = subject.iter_common_name().filter_map(|name| name.as_str().ok());
        names.extend(common.filter(|name| is_host(name)).map(CertificateName::Dns));
    }
    let trees = |trees: &Option<Vec<_>>| trees.as_ref().map_or(0, Vec::len);
    let compared = names
        .len()
        .saturating_mul(trees(&constraints.permitted_subtrees) + trees(&constraints.excluded_subtrees));
    if compared > MAX_COMPARED {
        return Some(TOO_MANY_NAMES);
    }
    names.into_iter().find_map(|name| fault_of(name, constraints))
}

/// A number that only distinguishes the kinds of unsupported names.
fn kind(name: &GeneralName<'_>) -> u8 {
    match name {
        GeneralName::OtherName(..) => 0,
        GeneralName::X400Address(_) => 3,
        GeneralName::EDIPartyName(_) => 5,
        GeneralName::RegisteredID(_) => 8,
        _ => u8::MAX,
    }
}

fn directory(name: &GeneralName<'_>) -> Option<Vec<u8>> {
    match name {
        GeneralName::DirectoryName(name) => Some(canonical(name)),
        _ => None,
    }
}

/// Whether a common name is a host name: labels of letters, digits, hyphens and underscores, separated by dots.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.contains('.') && name.split('.').all(is_label)
}

fn fault_of(name: CertificateName<'_>, constraints: &NameConstraints<'_>) -> Option<u16> {
    // One matching permitted subtree of its kind is enough, and required if there is any.
    let mut permitted = None;
    for tree in constraints.permitted_subtrees.iter().flatten() {
        match (permitted, lies_in(name, &tree.base)) {
            (Some(true), _) | (_, Lies::OtherKind) => {}
            (_, Lies::Inside) => permitted = Some(true),
            (_, Lies::Outside) => permitted = Some(false),
            (_, Lies::Unclear(fault)) => return Some(fault),
        }
    }
    if permitted == Some(false) {
        return Some(NOT_PERMITTED);
    }
    constraints.excluded_subtrees.iter().flatten().find_map(|tree| match lies_in(name, &tree.base) {
        Lies::Inside => Some(EXCLUDED),
        Lies::Unclear(fault) => Some(fault),
        Lies::Outside | Lies::OtherKind => None,
    })
}

enum Lies {
    Inside,
    Outside,
    /// The constraint is for another kind of names.
    OtherKind,
    /// It cannot be evaluated, with this fault.
    Unclear(u16),
}

impl From<bool> for Lies {
    fn from(inside: bool) -> Self {
        if inside { Lies::Inside } else { Lies::Outside }
    }
}

fn lies_in(name: CertificateName<'_>, tree: &GeneralName<'_>) -> Lies {
    match (name, tree) {
        (CertificateName::Directory(form), GeneralName::DirectoryName(base)) => {
            form.starts_with(&canonical(base)).into()
        }
        (CertificateName::Dns(name), GeneralName::DNSName(base)) => host_lies_in(name, base).into(),
        (CertificateName::Mail(name), GeneralName::RFC822Name(base)) => mail_lies_in(name, base),
        (CertificateName::Uri(name), GeneralName::URI(base)) => uri_lies_in(name, base),
        (CertificateName::Address(address), GeneralName::IPAddress(base)) => address_lies_in(address, base),
        (CertificateName::Other(kind), tree) if kind == self::kind(tree) => Lies::Unclear(UNKNOWN_CONSTRAINT),
        _ => Lies::OtherKind,
    }
}

fn host_lies_in(name: &str, base: &str) -> bool {
    let Some(start) = name.len().checked_sub(base.len()) else { return false };
    let (before, end) = name.as_bytes().split_at(start);
    let at_label = start == 0 || base.starts_with('.') || base.is_empty() || before.ends_with(b".");
    at_label && end.eq_ignore_ascii_case(base.as_bytes())
}

/// Whether `name` ends with `end`, which begins with a dot, and is longer.
fn ends_with(name: &str, end: &str) -> bool {
    name.len() > end.len() && name.as_bytes()[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
}

fn mail_lies_in(name: &str, base: &str) -> Lies {
    let Some((user, host)) = name.rsplit_once('@') else { return Lies::Unclear(WRONG_NAME) };
    match base.rsplit_once('@') {
        None if base.starts_with('.') => ends_with(host, base).into(),
        None => host.eq_ignore_ascii_case(base).into(),
        Some((wanted, wanted_host)) => {
            ((wanted.is_empty() || wanted == user) && host.eq_ignore_ascii_case(wanted_host)).into()
        }
    }
}

fn uri_lies_in(name: &str, base: &str) -> Lies {
    let host = name.split_once(':').and_then(|(_, rest)| rest.strip_prefix("//"));
    let host = host.map(|rest| rest.split([':', '/']).next().unwrap_or_default());
    match host.filter(|host| !host.is_empty()) {
        None => Lies::Unclear(WRONG_NAME),
        Some(host) if base.starts_with('.') => ends_with(host, base).into(),
        Some(host) => host.eq_ignore_ascii_case(base).into(),
    }
}

/// `base` is an address followed by a mask.
fn address_lies_in(address: &[u8], base: &[u8]) -> Lies {
    if !matches!(address.len(), 4 | 16) {
        return Lies::Unclear(WRONG_NAME);
    }
    if !matches!(base.len(), 8 | 32) {
        return Lies::Unclear(WRONG_CONSTRAINT);
    }
    let (network, mask) = base.split_at(base.len() / 2);
    if network.len() != address.len() {
        return Lies::Outside;
    }
    address.iter().zip(network).zip(mask).all(|((byte, network), mask)| (byte ^ network) & mask == 0).into()
}

/// The limit of comparisons between names and constraints: OpenSSL's.
const MAX_COMPARED: usize = 1 << 20;

// Tags of string types (X.680, 8.4).
const UTF8: u8 = 12;
const PRINTABLE: u8 = 19;
const TELETEX: u8 = 20;
const IA5: u8 = 22;
const VISIBLE: u8 = 26;
const BMP: u8 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lies: Lies, expected: Option<bool>) {
        let found = match lies {
            Lies::Inside => Some(true),
            Lies::Outside => Some(false),
            Lies::OtherKind | Lies::Unclear(_) => None,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn host_name_constraints_match_at_label_boundaries() {
        for (name, base, expected) in [
            ("a.example", "example", true),
            ("EXAMPLE", "example", true),
            ("badexample", "example", false),
            ("a.example", ".example", true),
            ("example", ".example", false),
            ("example", "a.example", false),
            ("example", "", true),
        ] {
            assert_eq!(host_lies_in(name, base), expected, "{name} in {base}");
        }
    }

    #[test]
    fn mail_and_ip_constraints_match_mailboxes_and_networks() {
        check(mail_lies_in("a@b.example", "B.example"), Some(true));
        check(mail_lies_in("a@c.b.example", "b.example"), Some(false));
        check(mail_lies_in("a@c.b.example", ".b.example"), Some(true));
        check(mail_lies_in("a@b.example", "a@b.example"), Some(true));
        check(mail_lies_in("A@b.example", "a@b.example"), Some(false));
        check(mail_lies_in("nobody", "b.example"), None);
        check(uri_lies_in("http://b.example:80/x", "b.example"), Some(true));
        check(uri_lies_in("http://a.b.example/", ".b.example"), Some(true));
        check(uri_lies_in("mailto:a@b.example", "b.example"), None);
        check(address_lies_in(&[10, 1, 2, 3], &[10, 1, 0, 0, 255, 255, 0, 0]), Some(true));
        check(address_lies_in(&[10, 2, 2, 3], &[10, 1, 0, 0, 255, 255, 0, 0]), Some(false));
        check(address_lies_in(&[0; 16], &[10, 1, 0, 0, 255, 255, 0, 0]), Some(false));
        check(address_lies_in(&[0; 4], &[10, 1]), None);
    }

    #[test]
    fn only_names_with_dots_are_treated_as_hosts() {
        assert!(is_host("a-b.example") && is_host("1.2.3.4"));
        assert!(!is_host("localhost") && !is_host("a b.c") && !is_host("-a.b") && !is_host("a..b"));
    }
}
