//! `crt-store` sections: named certificates and their files (manual, section "Certificate Storage").

use std::collections::HashSet;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Line};

use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::words::{Parsed, Words, fault, not_yet, suggesting};
use weir_model::{CertificateFiles, CertificateLoad, CertificateStore, Location};

/// Reads one line of a `crt-store` section.
pub(crate) type CrtStoreKeyword = fn(&mut CertificateStore, &mut Words<'_>, Location) -> Parsed;

/// Every word of a `crt-store` section.
pub(crate) static CRT_STORE_KEYWORDS: Table<CrtStoreKeyword> = Table::new(&[&[
    Row::<CrtStoreKeyword>::ready(
        "crt-base",
        "<dir>",
        "/etc/ssl/certs",
        "folder of the certificates that follow",
        |store, words, _| {
            store.certificate_base = Some(folder(store, words, "crt-base")?);
            Ok(())
        },
    )
    .default(Described("that of `global`")),
    Row::<CrtStoreKeyword>::ready(
        "key-base",
        "<dir>",
        "/etc/ssl/private",
        "folder of the keys that follow",
        |store, words, _| {
            store.key_base = Some(folder(store, words, "key-base")?);
            Ok(())
        },
    )
    .default(Described("that of `global`")),
    Row::ready("load", "[crt <file>] [param*]", "crt site.pem", "a certificate", load),
]]);

/// Reads the argument of one word of a `load` line.
pub(crate) type LoadKeyword = fn(&mut CertificateFiles, &mut Words<'_>) -> Parsed;

/// Every word of a `load` line. Lines of a `crt-list` accept all of them except `alias`.
pub(crate) static LOAD_KEYWORDS: Table<LoadKeyword> = Table::new(&[&[
    Row::not_yet("acme", "<string>", "certificate by ACME"),
    Row::<LoadKeyword>::ready("alias", "<string>", "site", "name of the certificate", |files, words| {
        files.alias = Some(file(words, "alias")?);
        Ok(())
    })
    .default(Described("the name of the file")),
    Row::not_yet("bits", "<number>", "certificate by ACME: size of the key"),
    Row::ready("crt", "<filename>", "site.pem", "file of the certificate", |files, words| {
        files.certificate = Some(file(words, "crt")?);
        Ok(())
    }),
    Row::not_yet("curves", "<string>", "certificate by ACME: curve of the key"),
    Row::not_yet("domains", "<string>", "certificate by ACME: its names"),
    Row::not_yet("generate-dummy", "[ off | on ]", "a certificate to begin with"),
    Row::not_yet("ips", "<string>", "certificate by ACME: its addresses"),
    Row::ready(
        "issuer",
        "<filename>",
        "issuer.pem",
        "file with the certificate of the issuer",
        |files, words| {
            files.issuer = Some(file(words, "issuer")?);
            Ok(())
        },
    ),
    Row::not_yet("jwt", "[ off | on ]", "a certificate that verifies tokens"),
    Row::<LoadKeyword>::ready("key", "<filename>", "site.key", "file of the key", |files, words| {
        files.key = Some(file(words, "key")?);
        Ok(())
    })
    .default(Described("the key in the certificate's file, or beside it")),
    Row::not_yet("keytype", "[ RSA | ECDSA ]", "certificate by ACME: kind of the key"),
    Row::ready("ocsp", "<filename>", "site.ocsp", "file of the OCSP response", |files, words| {
        files.ocsp = Some(file(words, "ocsp")?);
        Ok(())
    }),
    Row::<LoadKeyword>::ready(
        "ocsp-update",
        "[ off | on ]",
        "off",
        "renew the OCSP response",
        |files, words| {
            let word = words.expect("'ocsp-update' expects 'on' or 'off' as an argument.")?;
            files.ocsp_update = Some(match word.text() {
                "off" => false,
                "on" => true,
                _ => {
                    let message =
                        format!("cannot parse 'ocsp-update' value '{word}', 'on' or 'off' is expected.");
                    return Err(fault(word.span(), message));
                }
            });
            Ok(())
        },
    )
    .default(Described("that of `ocsp-update.mode`, `off`")),
    Row::ready(
        "sctl",
        "<filename>",
        "site.sctl",
        "accepted for compatibility, no effect: signed certificate timestamps are not sent",
        |_, words| {
            let name = file(words, "sctl")?;
            let message = format!(
                "'sctl' : '{name}' is not sent: signed certificate timestamps are not implemented. Clients take those in certificates and OCSP responses."
            );
            words.line().remark(Diagnostic::warning(words.line().span(), message));
            Ok(())
        },
    ),
]]);

/// The limit of certificates in one section.
const MOST_LOADS: usize = 1 << 20;

/// Starts the section of a section line.
pub(crate) fn begin(line: &Line, at: Location) -> Parsed<CertificateStore> {
    let mut words = Words::new(line, 1);
    let name = words.take().map_or("", |word| word.text());
    if !words.at_end() {
        let message = "'crt-store' section only supports a <name> argument.";
        return Err(Box::new(Diagnostic::alert(line.span_at(2), message).layout(Layout::ParsingTight)));
    }
    Ok(CertificateStore { name: name.into(), at, certificate_base: None, key_base: None, loads: Vec::new() })
}

pub(crate) fn read_line(
    store: &mut CertificateStore,
    known: &mut HashSet<String>,
    line: &Line,
    at: Location,
    diagnostics: &mut Diagnostics,
) {
    let keyword = line.keyword();
    let Some((row, count)) = CRT_STORE_KEYWORDS.find_phrase(line, 0) else {
        let message = format!("unknown keyword '{keyword}' in 'crt-store' section");
        let nearest = nearest_phrase(&CRT_STORE_KEYWORDS, keyword.text());
        diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
        return;
    };
    let Handler::Ready(read) = row.handler else { return };
    let before = store.loads.len();
    if let Err(fault) = read(store, &mut Words::new(line, count), at) {
        diagnostics.push(*fault);
    }
    let Some(added) = store.loads.get(before) else { return };
    let name = added.name.as_deref().or(added.files.certificate.as_deref()).unwrap_or_default();
    if !known.insert(format!("{}/{name}", store.name)) {
        let message = format!("'load' in section 'crt-store': store '{name}' was already defined.");
        diagnostics.push(Diagnostic::alert(line.span(), message));
    }
}

fn folder(store: &CertificateStore, words: &mut Words<'_>, keyword: &str) -> Parsed<Box<str>> {
    let word = words.expect(&format!("'{keyword}' expects a directory path as an argument."))?;
    if !store.loads.is_empty() {
        let message =
            format!("'{keyword}' can't be used after a load line, use it at the beginning of the section.");
        return Err(fault(word.span(), message));
    }
    words.end(keyword)?;
    Ok(word.text().into())
}

fn file(words: &mut Words<'_>, keyword: &str) -> Parsed<Box<str>> {
    Ok(words.expect(&format!("'{keyword}' expects a filename as an argument."))?.text().into())
}

fn load(store: &mut CertificateStore, words: &mut Words<'_>, at: Location) -> Parsed {
    let mut files = CertificateFiles::default();
    while let Some(word) = words.take() {
        read_load_word(&mut files, word.text(), words).unwrap_or_else(|| {
            let nearest = LOAD_KEYWORDS.nearest(word.text());
            let message = format!("'load {word}' in section 'crt-store': unknown keyword '{word}'.");
            Err(suggesting(fault(word.span(), message), nearest))
        })?;
    }
    let Some(certificate) = files.certificate.as_deref() else {
        return Err(words.fault("'load' in section 'crt-store': mandatory 'crt' parameter not found."));
    };
    if store.loads.len() == MOST_LOADS {
        return Err(words.fault(format!("more than {MOST_LOADS} certificates in one 'crt-store' section.")));
    }
    // A certificate of the unnamed store is referred to by its path.
    let name = match (files.alias.as_deref(), &*store.name) {
        (Some(alias), store) => Some(format!("@{store}/{alias}").into()),
        (None, "") => None,
        (None, store) => Some(format!("@{store}/{certificate}").into()),
    };
    store.loads.push(CertificateLoad { at, name, files });
    Ok(())
}

/// Reads the argument of a word of a `load` line. None for any other word.
pub(crate) fn read_load_word(
    files: &mut CertificateFiles,
    word: &str,
    words: &mut Words<'_>,
) -> Option<Result<(), Box<Diagnostic>>> {
    let row = LOAD_KEYWORDS.find(word)?;
    Some(match row.handler {
        Handler::Ready(read) => read(files, words),
        Handler::NotYet => Err(not_yet(words.here(), row.name)),
        Handler::Removed(instead) => Err(fault(words.here(), format!("'{}' : {instead}", row.name))),
    })
}
