//! The words of `bind` lines about TLS that `server` lines do not have, and the lines of a `crt-list`.

use weir_syntax::{Line, SourceMap, Span, Word};

use super::{BIND_OPTIONS, BindReader, option};
use crate::crt_store::read_load_word;
use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row};
use crate::tls_words::{protocols, text};
use crate::words::{Parsed, Words, fault};
use weir_model::{
    Bind, BindOptions, BindTls, CertificateFiles, CertificateSource, IgnoredErrors, Location, TlsOptions,
    TlsVerify,
};

fn tls(bind: &mut Bind) -> &mut BindTls {
    bind.options.tls.get_or_insert_default()
}

pub(super) fn options(bind: &mut Bind) -> &mut TlsOptions {
    &mut tls(bind).options
}

pub(crate) const BIND_ROWS: &[Row<BindReader>] = &[
    option("allow-0rtt", "", "", "TLS: accept early data", |bind, _| {
        options(bind).allow_early_data = true;
        Ok(())
    }),
    option("alpn", "<protocols>", "http/1.1", "TLS: protocols to negotiate", |bind, words| {
        options(bind).protocols = Some(protocols(words, "'alpn'")?);
        Ok(())
    })
    .default(Described("`h2,http/1.1` in HTTP mode with TLS, else none")),
    option(
        "ca-ignore-err",
        "[all|<errorID>,...]",
        "all",
        "TLS: errors to ignore in a chain",
        |bind, words| {
            options(bind).ca_ignored = ignored_errors(words, "ca-ignore-err")?;
            Ok(())
        },
    )
    .default(Described("none")),
    option(
        "ca-sign-file",
        "<cafile>",
        "ca.pem",
        "TLS: authority that signs generated certificates",
        |bind, words| {
            tls(bind).signer = Some(text(words, "ca-sign-file", "CAfile path")?);
            Ok(())
        },
    ),
    option(
        "ca-sign-pass",
        "<passphrase>",
        "secret",
        "TLS: passphrase of the key in 'ca-sign-file'",
        |bind, words| {
            tls(bind).signer_passphrase = Some(text(words, "ca-sign-pass", "CAkey password")?);
            Ok(())
        },
    ),
    option(
        "ca-verify-file",
        "<cafile>",
        "ca.pem",
        "TLS: authorities that are not announced",
        |bind, words| {
            options(bind).ca_verify_file = Some(text(words, "ca-verify-file", "CAfile path")?);
            Ok(())
        },
    ),
    option("crt", "<cert>", "site.pem", "TLS: certificate and key", |bind, words| {
        let path = text(words, "crt", "certificate location")?;
        tls(bind).certificates.push(CertificateSource::Path(path));
        Ok(())
    }),
    option("crt-ignore-err", "<errors>", "10,23", "TLS: errors to ignore in a certificate", |bind, words| {
        options(bind).crt_ignored = ignored_errors(words, "crt-ignore-err")?;
        Ok(())
    })
    .default(Described("none")),
    option("crt-list", "<file>", "sites.list", "TLS: list of certificates", |bind, words| {
        let path = text(words, "crt-list", "certificate location")?;
        tls(bind).certificates.push(CertificateSource::List(path));
        Ok(())
    }),
    option("default-crt", "<cert>", "site.pem", "TLS: certificate without a matching name", |bind, words| {
        let path = text(words, "default-crt", "certificate location")?;
        tls(bind).default_certificates.push(path);
        Ok(())
    }),
    option("ecdhe", "<named curve>", "prime256v1", "TLS: curve for ECDHE", |bind, words| {
        options(bind).curves = Some(text(words, "ecdhe", "named curve")?);
        Ok(())
    }),
    option("generate-certificates", "", "", "TLS: make certificates on the fly", |bind, _| {
        tls(bind).generates = true;
        Ok(())
    }),
    option("no-alpn", "", "", "TLS: negotiate no protocol", |bind, _| {
        options(bind).protocols = Some(Vec::new());
        Ok(())
    }),
    option("no-ca-names", "", "", "TLS: do not announce authorities", |bind, _| {
        options(bind).no_ca_names = true;
        Ok(())
    }),
    option("no-strict-sni", "", "", "TLS: accept unknown names", |bind, _| {
        tls(bind).strict_names = Some(false);
        Ok(())
    }),
    option("prefer-client-ciphers", "", "", "TLS: the client's order of ciphers", |bind, _| {
        options(bind).client_order = true;
        Ok(())
    }),
    option("ssl", "", "", "TLS on this listener", |bind, _| {
        tls(bind).enabled = true;
        Ok(())
    }),
    option("strict-sni", "", "", "TLS: refuse unknown names", |bind, _| {
        tls(bind).strict_names = Some(true);
        Ok(())
    }),
    option("tls-ticket-keys", "<keyfile>", "tickets.keys", "TLS: keys of tickets", |bind, words| {
        options(bind).ticket_keys = Some(text(words, "tls-ticket-keys", "TLS ticket keys file path")?);
        Ok(())
    })
    .default(Described("random keys of the process")),
    option(
        "verify",
        "[none|optional|required]",
        "none",
        "TLS: request client certificates",
        |bind, words| {
            let word = words.expect("'verify' : missing verify method")?;
            options(bind).verify = Some(match word.text() {
                "none" => TlsVerify::None,
                "optional" => TlsVerify::Optional,
                "required" => TlsVerify::Required,
                _ => {
                    return Err(fault(
                        word.span(),
                        format!(
                            "'verify' : unknown verify method '{word}', only 'none', 'optional', and \
                             'required' are supported"
                        ),
                    ));
                }
            });
            Ok(())
        },
    )
    .default(Described("`none`"))
    .values(&[
        ("none", "no certificate is requested (the default)"),
        ("optional", "a client may do without"),
        ("required", "a client without a valid certificate is refused"),
    ]),
];

fn ignored_errors(words: &mut Words<'_>, keyword: &str) -> Parsed<IgnoredErrors> {
    let word = words.expect(&format!("'{keyword}' : missing error IDs list"))?;
    let mut ignored = IgnoredErrors::default();
    for name in word.text().split(',') {
        match name {
            "all" => ignored.all = true,
            _ => ignored.codes.push(error_code(name, word, keyword)?),
        }
    }
    Ok(ignored)
}

/// A certificate error, by number or by OpenSSL's name.
fn error_code(name: &str, word: &Word, keyword: &str) -> Parsed<u16> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    weir_expr::x509_errors::code(name).ok_or_else(|| {
        let message =
            format!("'{keyword}' : error constant '{name}' unknown in error IDs list '{}'", word.text());
        fault(word.span(), message)
    })
}

/// One line of a `crt-list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrtListLine {
    pub number: usize,
    pub path: Box<str>,
    /// The options of the `bind` line, overridden by this line's.
    pub options: TlsOptions,
    /// The files of the certificate. None of them is set if the line has only its first word.
    pub files: CertificateFiles,
    /// The options of this line as written.
    pub written: Box<str>,
    /// SNI filters: names for which the certificate is used, and after `!`, names for which it is not.
    pub filters: Vec<Box<str>>,
}

impl CrtListLine {
    /// Whether the line names the files of the certificate one by one.
    pub fn names_files(&self) -> bool {
        self.files.key.is_some() || self.files.ocsp.is_some() || self.files.issuer.is_some()
    }
}

/// Parses one line of a `crt-list` file, which must not be empty or a comment.
///
/// # Errors
/// The error of the line.
pub fn parse_crt_list_line(
    number: usize,
    line: &str,
    inherited: &TlsOptions,
    warn: impl FnMut(String),
) -> Result<CrtListLine, String> {
    let (before, options, after) = match line.split_once('[') {
        Some((before, rest)) => {
            let (inside, after) =
                rest.split_once(']').ok_or("the options begin with '[' and lack their ']'")?;
            (before, inside, after)
        }
        None => (line, "", ""),
    };
    let mut words = before.split_whitespace();
    let path = words.next().ok_or("a line begins with the name of a certificate")?;
    let filters = words.chain(after.split_whitespace()).map(Box::from).collect();
    let written = options.trim().into();
    let (options, files) = crt_list_options(options, inherited, warn)?;
    Ok(CrtListLine { number, path: path.into(), options, files, written, filters })
}

fn crt_list_options(
    text: &str,
    inherited: &TlsOptions,
    warn: impl FnMut(String),
) -> Result<(TlsOptions, CertificateFiles), String> {
    let mut files = CertificateFiles::default();
    let file = SourceMap::new().add("crt-list", Vec::new());
    let span = Span::new(file, 0, 0, 0);
    let words = text.split_whitespace().map(|word| Word::synthetic(word, span)).collect();
    let Some(line) = Line::new(words, span) else { return Ok((inherited.clone(), files)) };
    let mut bind = Bind {
        at: Location::new("crt-list".into(), 0),
        spelling: Box::default(),
        addresses: Vec::new(),
        name: None,
        id: None,
        options: BindOptions::default(),
    };
    tls(&mut bind).options = inherited.clone();
    let mut words = Words::new(&line, 0);
    while let Some(word) = words.take() {
        let row = CRT_LIST_WORDS.contains(&word.text()).then(|| BIND_OPTIONS.find(word.text())).flatten();
        match row.map(|row| row.handler) {
            Some(Handler::Ready(reader)) => {
                reader.read(&mut bind, &mut words).map_err(|fault| fault.message)?
            }
            Some(Handler::NotYet) => return Err(format!("'{word}' is not implemented yet")),
            _ => match read_load_word(&mut files, word.text(), &mut words) {
                Some(read) if LOAD_WORDS.contains(&word.text()) => read.map_err(|fault| fault.message)?,
                _ => return Err(format!("unknown keyword '{word}' in the options of a certificate")),
            },
        }
    }
    line.take_remarks().into_iter().map(|remark| remark.message).for_each(warn);
    Ok((bind.options.tls.map(|tls| tls.options).unwrap_or_default(), files))
}

/// The words of a `bind` line that a line of a `crt-list` may have.
const CRT_LIST_WORDS: [&str; 18] = [
    "allow-0rtt",
    "alpn",
    "ca-file",
    "ca-verify-file",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "curves",
    "ecdhe",
    "ktls",
    "no-alpn",
    "no-ca-names",
    "npn",
    "sigalgs",
    "ssl-max-ver",
    "ssl-min-ver",
    "verify",
];

/// The words of a `load` line that a `crt-list` line may have.
const LOAD_WORDS: [&str; 5] = ["key", "ocsp", "issuer", "sctl", "ocsp-update"];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::TlsVersion;

    fn parse_crt_list(
        text: &str,
        inherited: &TlsOptions,
        mut warn: impl FnMut(usize, String),
    ) -> Result<Vec<CrtListLine>, String> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut parse =
            |(number, line)| parse_crt_list_line(number, line, inherited, |text| warn(number, text));
        lines.map(&mut parse).collect()
    }

    #[test]
    fn parses_options_and_sni_filters_of_crt_list_lines() {
        let inherited = TlsOptions { ciphers: Some("HIGH".into()), ..TlsOptions::default() };
        let text = "# names\n\na.pem\nb.pem [alpn http/1.1 ssl-min-ver TLSv1.3] *.b.example !x.b.example\nc.pem c.example\n";
        let lines = parse_crt_list(text, &inherited, |_, text| panic!("{text}")).expect("a good list");
        assert_eq!((lines.len(), lines[0].number, &*lines[0].path), (3, 3, "a.pem"));
        assert_eq!((&lines[0].options, lines[0].filters.len()), (&inherited, 0));
        assert_eq!(lines[1].options.min_version, Some(TlsVersion::Tls13));
        assert_eq!(lines[1].options.ciphers, inherited.ciphers);
        assert_eq!(lines[1].filters, [Box::from("*.b.example"), "!x.b.example".into()]);
        assert_eq!(lines[2].filters, [Box::from("c.example")]);
        assert_eq!(lines[2].files, CertificateFiles::default());
        let files = parse_crt_list("d.crt [key d.key issuer ca.pem ocsp-update off]", &inherited, |_, _| {});
        let files = files.expect("a good list").remove(0).files;
        assert_eq!((files.key.as_deref(), files.issuer.as_deref()), (Some("d.key"), Some("ca.pem")));
        assert_eq!((files.ocsp, files.ocsp_update), (None, Some(false)));
    }

    #[track_caller]
    fn refuse(text: &str, expected: &str) {
        let fault = parse_crt_list(text, &TlsOptions::default(), |_, _| {}).expect_err(text);
        assert_eq!(fault, expected);
    }

    #[test]
    fn rejects_invalid_options_in_a_crt_list() {
        refuse("a.pem [alpn http/1.1", "the options begin with '[' and lack their ']'");
        refuse("a.pem [crt-list x]", "unknown keyword 'crt-list' in the options of a certificate");
        refuse("a.pem [sctl]", "'sctl' expects a filename as an argument.");
        refuse("a.pem [ktls auto]", "'ktls' : expects either 'on' or 'off' but got 'auto'");
        refuse("a.pem [alias a]", "unknown keyword 'alias' in the options of a certificate");
        refuse("a.pem [key]", "'key' expects a filename as an argument.");
        refuse(
            "a.pem [verify maybe]",
            "'verify' : unknown verify method 'maybe', only 'none', 'optional', and 'required' are supported",
        );
    }

    #[test]
    fn warns_about_unsupported_protocols_in_a_crt_list() {
        let mut warnings = Vec::new();
        let lines = parse_crt_list("a.pem [alpn h2,h3,http/1.1]", &TlsOptions::default(), |line, text| {
            warnings.push((line, text));
        });
        let lines = lines.expect("a good list");
        assert_eq!(lines[0].options.protocols.as_deref(), Some(&["h2".into(), "http/1.1".into()][..]));
        assert_eq!((warnings.len(), warnings[0].0), (1, 1));
        warnings.clear();
        let words = "a.pem [ktls off npn http/1.1 sctl a.sctl]";
        parse_crt_list(words, &TlsOptions::default(), |line, text| warnings.push((line, text)))
            .expect("a list");
        assert!(warnings.len() == 2 && warnings[0].1.ends_with("Write 'alpn http/1.1'."), "{warnings:?}");
        assert!(warnings[1].1.contains("'a.sctl' is not sent"), "{warnings:?}");
    }
}
