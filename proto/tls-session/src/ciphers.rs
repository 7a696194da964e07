//! Cipher lists, groups and signature schemes in OpenSSL's configuration syntax.
//!
//! The list of ciphers up to TLS 1.2 is a small language (openssl-ciphers(1)): each element adds to the list, removes
//! from it (`-`), removes for good (`!`) or moves to the end (`+`) the ciphers that have all of its properties. It is
//! evaluated over the supported ciphers. Words that match none of them are ignored and reported.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::{CipherSuite, NamedGroup, SignatureScheme, SupportedCipherSuite};

use crate::secp521r1::SECP521R1;

/// A selection, and the words without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<T> {
    /// The selected values, in order of preference.
    pub chosen: Vec<T>,
    /// Words that match no supported value.
    pub without_effect: Vec<Box<str>>,
}

/// A TLS 1.2 cipher, and the words that select it.
struct Cipher {
    suite: &'static SupportedCipherSuite,
    name: &'static str,
    bits: u16,
    /// Words specific to this cipher, in addition to [`ALL`].
    ///
    /// They exclude `RSA`, which means the key exchange (`kRSA`), and `SHA256` and `SHA384`, which name the MAC of
    /// records: all ciphers here are AEADs. So `!SHA256:!SHA384`, which excludes old ciphers, excludes none of these.
    words: &'static [&'static str],
}

/// In OpenSSL's order.
static CIPHERS: [Cipher; 6] = [
    Cipher {
        suite: &cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        bits: 256,
        words: &["aECDSA", "ECDSA", "AES256", "AES", "AESGCM", "FIPS", "SUITEB192", "SUITEB128"],
    },
    Cipher {
        suite: &cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        bits: 256,
        words: &["aRSA", "AES256", "AES", "AESGCM", "FIPS"],
    },
    Cipher {
        suite: &cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        bits: 256,
        words: &["aECDSA", "ECDSA", "CHACHA20"],
    },
    Cipher {
        suite: &cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        bits: 256,
        words: &["aRSA", "CHACHA20"],
    },
    Cipher {
        suite: &cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        bits: 128,
        words: &["aECDSA", "ECDSA", "AES128", "AES", "AESGCM", "FIPS", "SUITEB128", "SUITEB128ONLY"],
    },
    Cipher {
        suite: &cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        bits: 128,
        words: &["aRSA", "AES128", "AES", "AESGCM", "FIPS"],
    },
];

/// Words that select all of [`CIPHERS`].
const ALL: [&str; 9] = ["ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH"];

/// Words that are accepted but select no cipher.
const REMARKS: [&str; 3] = ["COMPLEMENTOFDEFAULT", "COMPLEMENTOFALL", "NULL"];

static SUITES: [(&str, &str, &SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", "AES256", &cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", "CHACHA20", &cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", "AES128", &cipher_suite::TLS13_AES_128_GCM_SHA256),
];

/// A group, and its OpenSSL names.
type KeyGroup = (&'static [&'static str], &'static dyn SupportedKxGroup);

/// In OpenSSL's order of preference. The key exchange of the last one costs four times as much, so a server uses it
/// only if the client offers nothing else or the configuration names it.
static GROUPS: [KeyGroup; 5] = [
    (&["X25519"], kx_group::X25519),
    (&["P-256", "prime256v1", "secp256r1"], kx_group::SECP256R1),
    (&["P-384", "secp384r1"], kx_group::SECP384R1),
    (&["P-521", "secp521r1"], SECP521R1),
    (&["X25519MLKEM768"], kx_group::X25519MLKEM768),
];

/// All TLS 1.2 ciphers, in OpenSSL's order.
pub fn all_ciphers() -> Vec<SupportedCipherSuite> {
    CIPHERS.iter().map(|cipher| *cipher.suite).collect()
}

/// All TLS 1.3 ciphers, in OpenSSL's order.
pub fn all_suites() -> Vec<SupportedCipherSuite> {
    SUITES.iter().map(|suite| *suite.2).collect()
}

/// All groups.
pub fn all_groups() -> Vec<&'static dyn SupportedKxGroup> {
    GROUPS.iter().map(|group| group.1).collect()
}

/// OpenSSL's name of a cipher (`ssl_fc_cipher`).
pub fn name_of(suite: CipherSuite) -> Option<&'static str> {
    let of_old = CIPHERS.iter().map(|cipher| (cipher.name, cipher.suite));
    let of_new = SUITES.iter().map(|suite| (suite.0, suite.2));
    of_old.chain(of_new).find(|(_, known)| known.suite() == suite).map(|(name, _)| name)
}

/// The name of a group, as in HAProxy 3.2 with OpenSSL 3 (`ssl_fc_curve`).
pub fn name_of_group(group: NamedGroup) -> Option<&'static str> {
    Some(match group {
        NamedGroup::X25519 => "X25519",
        NamedGroup::secp256r1 => "SECP256R1",
        NamedGroup::secp384r1 => "SECP384R1",
        NamedGroup::secp521r1 => "SECP521R1",
        NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
        _ => return None,
    })
}

/// The key size of a cipher in bits (`ssl_fc_use_keysize`).
pub fn bits_of(suite: CipherSuite) -> Option<u16> {
    name_of(suite).map(|name| if name.contains("128_GCM") || name.contains("128-GCM") { 128 } else { 256 })
}

/// The TLS 1.2 ciphers that a list selects (`ciphers`).
pub fn select_ciphers(list: &str) -> Selection<SupportedCipherSuite> {
    let mut active: Vec<&'static Cipher> = Vec::new();
    let mut banned: Vec<&'static str> = Vec::new();
    let mut without_effect = Vec::new();
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        if let Some(command) = word.strip_prefix('@') {
            if command == "STRENGTH" {
                active.sort_by_key(|cipher| std::cmp::Reverse(cipher.bits));
            }
            continue;
        }
        let (operation, name) = match word.split_at_checked(1) {
            Some(("!", name)) => ('!', name),
            Some(("-", name)) => ('-', name),
            Some(("+", name)) => ('+', name),
            _ => (' ', word),
        };
        let meant: Vec<&Cipher> = CIPHERS.iter().filter(|cipher| cipher.is_meant_by(name)).collect();
        let is_meant = |cipher: &&Cipher| meant.iter().any(|other| other.name == cipher.name);
        match operation {
            '!' => {
                active.retain(|cipher| !is_meant(cipher));
                banned.extend(meant.iter().map(|cipher| cipher.name));
            }
            '-' => active.retain(|cipher| !is_meant(cipher)),
            '+' => active.sort_by_key(is_meant),
            _ if meant.is_empty() && !REMARKS.contains(&name) => without_effect.push(word.into()),
            _ => {
                for cipher in meant {
                    let known = active.iter().any(|other| other.name == cipher.name);
                    if !known && !banned.contains(&cipher.name) {
                        active.push(cipher);
                    }
                }
            }
        }
    }
    Selection { chosen: active.iter().map(|cipher| *cipher.suite).collect(), without_effect }
}

impl Cipher {
    /// Whether the cipher has all properties in `word`, which are joined by `+`.
    fn is_meant_by(&self, word: &str) -> bool {
        let iana = format!("{:?}", self.suite.suite());
        word.split('+').all(|part| {
            part == self.name || part == iana || ALL.contains(&part) || self.words.contains(&part)
        })
    }
}

/// The TLS 1.3 ciphers that a list names (`ciphersuites`).
pub fn select_suites(list: &str) -> Selection<SupportedCipherSuite> {
    select(list, |word| SUITES.iter().find(|suite| suite.0 == word).map(|suite| *suite.2))
}

/// The groups that a list names (`curves`).
pub fn select_groups(list: &str) -> Selection<&'static dyn SupportedKxGroup> {
    select(list, |word| {
        // OpenSSL 3.5: `?` marks an optional group, `*` one for which a key share is sent, and `/` separates tuples.
        let word = word.trim_start_matches(['?', '*']);
        let known = GROUPS.iter().find(|group| group.0.iter().any(|name| name.eq_ignore_ascii_case(word)));
        known.map(|group| group.1)
    })
}

/// The signature schemes that a list names (`sigalgs`), by TLS 1.3 names or as `ECDSA+SHA256`, which may select several.
pub fn select_signatures(list: &str) -> Selection<SignatureScheme> {
    let mut selection = Selection { chosen: Vec::new(), without_effect: Vec::new() };
    for word in list.split(':').filter(|word| !word.is_empty()) {
        // OpenSSL 3.5: `?` marks an optional scheme.
        let word = word.trim_start_matches('?');
        let mut known = SIGNATURES
            .iter()
            .filter(|row| row.1.iter().any(|name| name.eq_ignore_ascii_case(word)))
            .map(|row| row.0)
            .peekable();
        if known.peek().is_none() {
            selection.without_effect.push(word.into());
        }
        selection.chosen.extend(known);
    }
    selection
}

/// Signature schemes, and their names in lists.
const SIGNATURES: [(SignatureScheme, &[&str]); 10] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, &["ecdsa_secp256r1_sha256", "ECDSA+SHA256"]),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &["ecdsa_secp384r1_sha384", "ECDSA+SHA384"]),
    (SignatureScheme::ECDSA_NISTP521_SHA512, &["ecdsa_secp521r1_sha512", "ECDSA+SHA512"]),
    (SignatureScheme::ED25519, &["ed25519"]),
    (SignatureScheme::RSA_PSS_SHA256, &["rsa_pss_rsae_sha256", "RSA-PSS+SHA256", "PSS+SHA256"]),
    (SignatureScheme::RSA_PSS_SHA384, &["rsa_pss_rsae_sha384", "RSA-PSS+SHA384", "PSS+SHA384"]),
    (SignatureScheme::RSA_PSS_SHA512, &["rsa_pss_rsae_sha512", "RSA-PSS+SHA512", "PSS+SHA512"]),
    (SignatureScheme::RSA_PKCS1_SHA256, &["rsa_pkcs1_sha256", "RSA+SHA256"]),
    (SignatureScheme::RSA_PKCS1_SHA384, &["rsa_pkcs1_sha384", "RSA+SHA384"]),
    (SignatureScheme::RSA_PKCS1_SHA512, &["rsa_pkcs1_sha512", "RSA+SHA512"]),
];

fn select<T>(list: &str, find: impl Fn(&str) -> Option<T>) -> Selection<T> {
    let mut selection = Selection { chosen: Vec::new(), without_effect: Vec::new() };
    for word in list.split([':', ',', '/']).filter(|word| !word.is_empty()) {
        match find(word) {
            Some(found) => selection.chosen.push(found),
            None => selection.without_effect.push(word.into()),
        }
    }
    selection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, chosen: &[&str], without_effect: &[&str]) {
        let selection = select_ciphers(list);
        let names: Vec<_> =
            selection.chosen.iter().map(|suite| name_of(suite.suite()).expect("a known one")).collect();
        assert_eq!(names, chosen, "{list}");
        let words: Vec<&str> = selection.without_effect.iter().map(|word| &**word).collect();
        assert_eq!(words, without_effect, "{list}");
    }

    #[test]
    fn signature_schemes_are_selected_by_tls_and_openssl_names() {
        let selection = select_signatures("RSA-PSS+SHA256:?ecdsa_secp384r1_sha384:RSA+SHA1:ed25519");
        let expected = [
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ED25519,
        ];
        assert_eq!(selection.chosen, expected);
        assert_eq!(selection.without_effect, [Box::from("RSA+SHA1")]);
    }

    #[test]
    fn cipher_lists_are_evaluated_like_in_openssl() {
        let all: Vec<_> = CIPHERS.iter().map(|cipher| cipher.name).collect();
        check("HIGH:!aNULL:!MD5", &all, &[]);
        check("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA", &["ECDHE-RSA-AES128-GCM-SHA256"], &["AES128-SHA"]);
        check("AES128-SHA:DES-CBC3-SHA", &[], &["AES128-SHA", "DES-CBC3-SHA"]);
        check("EECDH+AESGCM:!ECDSA", &["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"], &[]);
        check("ALL:-aRSA:+AES256", &[all[2], all[4], all[0]], &[]);
        check("AES128:AES256:@STRENGTH:!aECDSA", &[all[1], all[5]], &[]);
        // Ciphers that were removed for good cannot be added again.
        check("!CHACHA20:ECDHE+CHACHA20", &[], &[]);
        check("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", &[all[5]], &[]);
    }

    /// The selection of `openssl ciphers WORD` of OpenSSL 3.0 among the ciphers here, by their places.
    #[test]
    fn cipher_list_words_select_the_same_ciphers_as_openssl() {
        let selected = |list: &str| -> String {
            let place =
                |suite: &SupportedCipherSuite| CIPHERS.iter().position(|cipher| cipher.suite == suite);
            select_ciphers(list)
                .chosen
                .iter()
                .map(|suite| (place(suite).expect("one of them") + 1).to_string())
                .collect()
        };
        for (places, words) in [
            ("123456", "ALL HIGH DEFAULT TLSv1.2 ECDH ECDHE EECDH kECDHE kEECDH"),
            ("246", "aRSA"),
            ("135", "aECDSA ECDSA"),
            ("1256", "AES AESGCM FIPS"),
            ("12", "AES256"),
            ("56", "AES128"),
            ("34", "CHACHA20"),
            ("15", "SUITEB128"),
            ("5", "SUITEB128ONLY"),
            ("1", "SUITEB192"),
            (
                "",
                "kRSA RSA DH DHE EDH kDHE kEDH kECDH aECDH AECDH aNULL eNULL MEDIUM LOW SHA SHA1 SHA256 SHA384 MD5 AEAD CBC PSK DSS",
            ),
            ("", "RSA+AESGCM ECDHE+SHA256 SSLv3 TLSv1 AESCCM CAMELLIA ARIA SEED 3DES RC4"),
        ] {
            for word in words.split(' ') {
                assert_eq!(selected(word), places, "{word}");
                let rest: String = "123456".chars().filter(|place| !places.contains(*place)).collect();
                assert_eq!(selected(&format!("ALL:!{word}")), rest, "ALL:!{word}");
            }
        }
        assert_eq!(
            selected("EECDH+AESGCM:EDH+AESGCM:ECDHE+CHACHA20:!SHA1:!SHA256:!SHA384:!DSS:!RSA"),
            "125634"
        );
        assert_eq!(selected("ECDH+AESGCM:DH+AESGCM:ECDH+AES256:DH+AES:RSA+AESGCM:!aNULL:!MD5:!DSS"), "1256");
    }

    #[test]
    fn tls13_suites_and_groups_are_selected_by_name() {
        let selection = select_suites("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256");
        assert_eq!(selection.chosen.len(), 1);
        assert_eq!(&*selection.without_effect[0], "TLS_AES_128_CCM_SHA256");
        let selection = select_groups("X25519:P-256:secp521r1:X448");
        let names: Vec<_> = selection.chosen.iter().map(|group| group.name()).collect();
        assert_eq!(names, [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp521r1]);
        assert_eq!(&*selection.without_effect[0], "X448");
    }
}
