//! TLS settings: of the process, and defaults of the lines below (`ssl-default-*`, `ssl-load-extra-*`).
//!
//! Without a TLS listener they change nothing, so they are always accepted. Files are read, and names of ciphers looked up, when a line
//! uses them.

use weir_syntax::Word;

use super::context::{GlobalContext, GlobalReader};
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Fault, Parsed, Words, fault};
use weir_model::{
    ChainFolder, ExtraFiles, GlobalTls, LineDefaults, PassphraseProgram, TlsDefaults, TlsOptions, TlsVerify,
    TlsVersion,
};

/// The lines that a default applies to.
#[derive(Clone, Copy)]
enum DefaultsOf {
    Listener,
    Server,
}

impl GlobalContext<'_> {
    /// Reads a folder for all lines, which may be set once.
    fn tls_base(
        &mut self,
        words: &mut Words<'_>,
        base: fn(&mut GlobalTls) -> &mut Option<Box<str>>,
    ) -> Parsed {
        if base(&mut self.global.tls).is_some() {
            return Err(fault(words.line().span(), format!("'{}' already specified.", self.keyword)));
        }
        let folder = self.word(words, FOLDER)?.text().into();
        *base(&mut self.global.tls) = Some(folder);
        Ok(())
    }

    /// The defaults of the lines below this one, mutable.
    fn tls_defaults(&mut self) -> &mut TlsDefaults {
        let lines = &mut self.global.tls.line_defaults;
        if lines.last().is_none_or(|(at, _)| *at != self.at) {
            let above = lines.last().map(|(_, defaults)| defaults.clone()).unwrap_or_default();
            lines.push((self.at.clone(), above));
        }
        &mut lines.last_mut().expect("it was added above").1
    }

    /// The defaults for one kind of lines, mutable. Records the location of this keyword.
    fn line_defaults(&mut self, side: DefaultsOf) -> &mut LineDefaults {
        let (keyword, at) = (self.keyword, self.at.clone());
        let defaults = self.tls_defaults();
        let side = match side {
            DefaultsOf::Listener => &mut defaults.listener,
            DefaultsOf::Server => &mut defaults.server,
        };
        side.places.retain(|(known, _)| *known != keyword);
        side.places.push((keyword, at));
        side
    }

    /// Reads the only argument, a default option.
    fn default_text(
        &mut self,
        words: &mut Words<'_>,
        side: DefaultsOf,
        expected: &str,
        option: fn(&mut TlsOptions) -> &mut Option<Box<str>>,
    ) -> Parsed {
        let text = self.word(words, expected)?.text().into();
        *option(&mut self.line_defaults(side).options) = Some(text);
        Ok(())
    }

    /// `ssl-default-bind-options`, `ssl-default-server-options`: one or more of `options`, `ssl-min-ver`, `ssl-max-ver`.
    fn default_options(&mut self, words: &mut Words<'_>, side: DefaultsOf, options: &[&str]) -> Parsed {
        let keyword = self.keyword;
        if words.at_end() {
            return Err(words.fault(lacks_option(keyword)));
        }
        let mut changes = Vec::new();
        while let Some(word) = words.take() {
            let version = match word.text() {
                "ssl-min-ver" | "ssl-max-ver" => {
                    let name = words.peek_text();
                    let Some(version) = TlsVersion::of(name) else {
                        return Err(words.fault(format!("'{word}' : unknown TLS version '{name}'")));
                    };
                    words.take();
                    Some(version)
                }
                text if options.contains(&text) => None,
                _ => return Err(unknown_option(word, keyword, options)),
            };
            changes.push((word.text(), version));
        }
        if let Some((last, _)) = changes.iter().rfind(|(word, _)| word.ends_with("strict-sni")) {
            self.tls_defaults().strict_names = *last == "strict-sni";
        }
        let options = &mut self.line_defaults(side).options;
        changes.into_iter().for_each(|(word, version)| apply(options, word, version));
        Ok(())
    }
}

/// Applies an option of `ssl-default-bind-options` or `ssl-default-server-options`.
fn apply(options: &mut TlsOptions, word: &str, version: Option<TlsVersion>) {
    match word {
        "ssl-min-ver" => options.min_version = version,
        "ssl-max-ver" => options.max_version = version,
        "no-tls-tickets" => options.no_tickets = Some(true),
        "prefer-client-ciphers" => options.client_order = true,
        "no-alpn" => options.protocols = Some(Vec::new()),
        word => match (named(word, "no-"), named(word, "force-")) {
            (Some(version), _) if !options.refused_versions.contains(&version) => {
                options.refused_versions.push(version);
            }
            (_, Some(version)) => {
                options.min_version = Some(version);
                options.max_version = Some(version);
            }
            _ => {}
        },
    }
}

/// The version in a word such as `no-tlsv11`.
fn named(word: &str, prefix: &str) -> Option<TlsVersion> {
    Some(match word.strip_prefix(prefix)? {
        "sslv3" => TlsVersion::Ssl3,
        "tlsv10" => TlsVersion::Tls10,
        "tlsv11" => TlsVersion::Tls11,
        "tlsv12" => TlsVersion::Tls12,
        "tlsv13" => TlsVersion::Tls13,
        _ => return None,
    })
}

/// `ssl-load-extra-files`: kinds of files, or one word for none or all kinds.
fn extra_files(words: &mut Words<'_>) -> Parsed<ExtraFiles> {
    let keyword = "ssl-load-extra-files";
    let (mut names, mut alone) = (Vec::new(), None);
    while let Some(word) = words.take() {
        if !EXTRA_FILES.contains(&word.text()) {
            return Err(unknown_option(word, keyword, &EXTRA_FILES));
        }
        names.push(word.text());
        alone = alone.or(Some(word).filter(|word| matches!(word.text(), "none" | "all")));
    }
    match (names.len(), alone) {
        (0, _) => return Err(words.fault(lacks_option(keyword))),
        (2.., Some(word)) => {
            return Err(fault(word.span(), format!("'{keyword}' : '{word}' stands alone.")));
        }
        _ => {}
    }
    let has = |name: &str| names.iter().any(|word| *word == name || *word == "all");
    Ok(ExtraFiles {
        bundle: has("bundle"),
        ocsp: has("ocsp"),
        issuer: has("issuer"),
        key: has("key"),
        sctl: has("sctl"),
    })
}

/// `ssl-passphrase-cmd`: a program and its arguments.
fn passphrase_program(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    let program = words.expect(&format!("'{}' expects a program.", line.keyword))?;
    let mut texts: Vec<Box<str>> = vec![program.text().into()];
    while let Some(word) = words.take() {
        texts.push(word.text().into());
    }
    line.global.tls.passphrase_program = Some(PassphraseProgram { words: texts, at: line.at.clone() });
    Ok(())
}

fn lacks_option(keyword: &str) -> String {
    format!("global statement '{keyword}' expects an option as an argument.")
}

fn unknown_option(word: &Word, keyword: &str, options: &[&str]) -> Fault {
    let mut fault = fault(word.span(), format!("unknown option '{word}' on global statement '{keyword}'."));
    fault.suggestion = weir_syntax::did_you_mean(word.text(), options.iter().copied()).map(str::to_owned);
    fault
}

pub(super) const MAX: u32 = i32::MAX as u32;

const BIND_OPTIONS: [&str; 16] = [
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "no-alpn",
    "no-renegotiate",
    "no-sslv3",
    "no-strict-sni",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "prefer-client-ciphers",
    "strict-sni",
];

const SERVER_OPTIONS: [&str; 12] = [
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "no-renegotiate",
    "no-sslv3",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
];

const EXTRA_FILES: [&str; 7] = ["all", "bundle", "issuer", "key", "none", "ocsp", "sctl"];

const CIPHERS: &str = "a cipher suite as an argument";
const SUITES: &str = "cipher suites as an argument";
const CURVES: &str = "curves as an argument";
const ALGORITHMS: &str = "signature algorithms as an argument";
const FOLDER: &str = "a directory path as an argument";

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready("ca-base", "<dir>", "/etc/ssl/certs", "TLS: folder of authorities", |l, w| {
        l.tls_base(w, |tls| &mut tls.authority_base)
    }),
    Row::ready("crt-base", "<dir>", "/etc/ssl/private", "TLS: folder of certificates", |l, w| {
        l.tls_base(w, |tls| &mut tls.certificate_base)
    }),
    Row::ready("key-base", "<dir>", "/etc/ssl/private", "TLS: folder of keys", |l, w| {
        l.tls_base(w, |tls| &mut tls.key_base)
    }),
    Row::ready(
        "ssl-default-bind-ciphers",
        "<ciphers>",
        "HIGH",
        "TLS: ciphers up to 1.2 of listeners",
        |l, w| l.default_text(w, DefaultsOf::Listener, CIPHERS, |o| &mut o.ciphers),
    ),
    Row::ready(
        "ssl-default-bind-ciphersuites",
        "<ciphersuites>",
        "TLS_AES_128_GCM_SHA256",
        "TLS: ciphers of 1.3 of listeners",
        |l, w| l.default_text(w, DefaultsOf::Listener, SUITES, |o| &mut o.ciphersuites),
    ),
    Row::ready(
        "ssl-default-bind-client-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: signatures of clients",
        |l, w| l.default_text(w, DefaultsOf::Listener, ALGORITHMS, |o| &mut o.client_signatures),
    ),
    Row::ready("ssl-default-bind-curves", "<curves>", "X25519:P-256", "TLS: curves of listeners", |l, w| {
        l.default_text(w, DefaultsOf::Listener, CURVES, |o| &mut o.curves)
    }),
    Row::<GlobalReader>::ready(
        "ssl-default-bind-options",
        "[<option>]...",
        "ssl-min-ver TLSv1.2",
        "TLS: options of listeners",
        |l, w| l.default_options(w, DefaultsOf::Listener, &BIND_OPTIONS),
    )
    .default(Described("TLS 1.2 and 1.3, with tickets")),
    Row::ready(
        "ssl-default-bind-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: signatures of listeners",
        |l, w| l.default_text(w, DefaultsOf::Listener, ALGORITHMS, |o| &mut o.signatures),
    ),
    Row::ready(
        "ssl-default-server-ciphers",
        "<ciphers>",
        "HIGH",
        "TLS: ciphers up to 1.2 towards servers",
        |l, w| l.default_text(w, DefaultsOf::Server, CIPHERS, |o| &mut o.ciphers),
    ),
    Row::ready(
        "ssl-default-server-ciphersuites",
        "<ciphersuites>",
        "TLS_AES_128_GCM_SHA256",
        "TLS: ciphers of 1.3 towards servers",
        |l, w| l.default_text(w, DefaultsOf::Server, SUITES, |o| &mut o.ciphersuites),
    ),
    Row::ready(
        "ssl-default-server-client-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: our signatures towards servers",
        |l, w| l.default_text(w, DefaultsOf::Server, ALGORITHMS, |o| &mut o.client_signatures),
    ),
    Row::ready(
        "ssl-default-server-curves",
        "<curves>",
        "X25519:P-256",
        "TLS: curves towards servers",
        |l, w| l.default_text(w, DefaultsOf::Server, CURVES, |o| &mut o.curves),
    ),
    Row::<GlobalReader>::ready(
        "ssl-default-server-options",
        "[<option>]...",
        "no-tls-tickets",
        "TLS: options towards servers",
        |l, w| l.default_options(w, DefaultsOf::Server, &SERVER_OPTIONS),
    )
    .default(Described("TLS 1.2 and 1.3")),
    Row::ready(
        "ssl-default-server-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: signatures of servers",
        |l, w| l.default_text(w, DefaultsOf::Server, ALGORITHMS, |o| &mut o.signatures),
    ),
    Row::ready("ssl-dh-param-file", "<file>", "/etc/ssl/dhparam.pem", "TLS: parameters for DHE", |l, w| {
        l.word(w, "a file path as an argument")?;
        l.global.tls.dh_parameters.get_or_insert_with(|| l.at.clone());
        Ok(())
    }),
    Row::ready(
        "issuers-chain-path",
        "<dir>",
        "/etc/ssl/chains",
        "TLS: folder of chains, for certificate files without one",
        |l, w| {
            let path = l.word(w, FOLDER)?.text().into();
            l.global.tls.chain_folders.push(ChainFolder { path, at: l.at.clone() });
            Ok(())
        },
    ),
    Row::ready(
        "ssl-skip-self-issued-ca",
        "",
        "",
        "TLS: do not send a root that issued the certificate itself",
        |l, w| {
            l.global.tls.skips_self_issued = l.flag(w)?;
            Ok(())
        },
    ),
    Row::ready("ssl-load-extra-del-ext", "", "", "TLS: find keys by replacing the extension", |l, w| {
        let replaces_extension = l.flag(w)?;
        l.tls_defaults().replaces_extension = replaces_extension;
        Ok(())
    }),
    Row::<GlobalReader>::ready(
        "ssl-load-extra-files",
        "<none|all|bundle|sctl|ocsp|issuer|key>*",
        "ocsp key",
        "TLS: files to load beside certificates",
        |l, w| {
            let extra_files = extra_files(w)?;
            l.tls_defaults().extra_files = extra_files;
            Ok(())
        },
    )
    .default(Described("`all`")),
    Row::ready(
        "ssl-passphrase-cmd",
        "<cmd> [<args>]...",
        "/usr/local/bin/passphrase --quiet",
        "TLS: program that prints the passphrase of a key; run at start, its first argument is the key's file",
        passphrase_program,
    ),
    Row::<GlobalReader>::ready(
        "ssl-server-verify",
        "[none|required]",
        "required",
        "TLS: verify servers",
        |l, w| {
            let none = l.choice(w, &["none", "required"])? == "none";
            l.global.tls.server_verify = Some(if none { TlsVerify::None } else { TlsVerify::Required });
            Ok(())
        },
    )
    .default(Described("`required`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.cachesize",
        "<number>",
        "50000",
        "TLS: sessions to remember",
        |l, w| {
            l.global.tls.sessions = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`20000`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.capture-buffer-size",
        "<number>",
        "96",
        "TLS: bytes of the client's hello to keep",
        |l, w| {
            l.global.tls.captured_hello = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`: nothing is captured")),
    Row::ready(
        "tune.ssl.default-dh-param",
        "<number>",
        "2048",
        "TLS: size of the parameters for DHE",
        |l, w| l.number(w, 1024..=MAX).map(drop),
    ),
    Row::ready("tune.ssl.force-private-cache", "", "", "TLS: do not share sessions", |l, w| {
        l.flag(w).map(drop)
    }),
    Row::<GlobalReader>::ready(
        "tune.ssl.hard-maxrecord",
        "<number>",
        "16384",
        "TLS: largest record",
        |l, w| {
            l.global.tls.record_hard_max = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("no bound but that of TLS, 16384 bytes")),
    Row::<GlobalReader>::ready(
        "tune.ssl.keylog",
        "{ on | off }",
        "on",
        "TLS: keep the keys for analysis",
        |l, w| {
            l.global.tls.logs_keys = l.switch(w)?;
            Ok(())
        },
    )
    .default(Described("`off`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.lifetime",
        "<timeout>",
        "600",
        "TLS: how long sessions can be resumed",
        |l, w| {
            let word = l.word(w, "ssl sessions <lifetime> in seconds as argument")?;
            l.global.tls.session_lifetime = crate::numbers::seconds_of(w, word, l.keyword)?;
            Ok(())
        },
    )
    .default(Described("`300`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.maxrecord",
        "<number>",
        "1419",
        "TLS: largest record for interactive traffic",
        |l, w| {
            l.global.tls.record_max = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("no bound but that of TLS, 16384 bytes")),
    Row::<GlobalReader>::ready(
        "tune.ssl.ssl-ctx-cache-size",
        "<number>",
        "5000",
        "TLS: generated certificates to remember",
        |l, w| {
            l.global.tls.generated_certificates = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`1000`")),
];
