//! The words of `server` lines about TLS.

use std::sync::Arc;

use weir_expr::{Place, Places};

use crate::bind::tls::{force, path, protocols, version};
use crate::model::{ServerTls, TlsOptions, TlsVerify, TlsVersion};
use crate::rows::Row;
use crate::words::fault;

use super::{NOT_ADDED, ServerLine, ServerReader, option};

fn tls<'l>(server: &'l mut ServerLine<'_>) -> &'l mut ServerTls {
    Arc::make_mut(server.settings.tls.get_or_insert_default())
}

fn options<'l>(server: &'l mut ServerLine<'_>) -> &'l mut TlsOptions {
    &mut tls(server).options
}

pub(super) const ROWS: &[Row<ServerReader>] = &[
    option("alpn", "<protocols>", "http/1.1", "TLS: protocols to negotiate", |server, words| {
        options(server).protocols = Some(protocols(words)?);
        Ok(())
    }),
    option("ca-file", "<cafile>", "ca.pem", "TLS: authorities", |server, words| {
        options(server).ca_file = Some(path(words, "ca-file", "CAfile path")?);
        Ok(())
    }),
    option("ciphers", "<ciphers>", "HIGH", "TLS: ciphers up to TLS 1.2", |server, words| {
        options(server).ciphers = Some(path(words, "ciphers", "cipher suite")?);
        Ok(())
    }),
    option(
        "ciphersuites",
        "<ciphersuites>",
        "TLS_AES_128_GCM_SHA256",
        "TLS: ciphers of TLS 1.3",
        |server, words| {
            options(server).ciphersuites = Some(path(words, "ciphersuites", "cipher suite")?);
            Ok(())
        },
    ),
    option("crl-file", "<crlfile>", "crl.pem", "TLS: revocation list", |server, words| {
        options(server).crl_file = Some(path(words, "crl-file", "CRLfile path")?);
        Ok(())
    }),
    option("crt", "<cert>", "client.pem", "TLS: our certificate", |server, words| {
        tls(server).certificate = Some(path(words, "crt", "certificate file path")?);
        Ok(())
    }),
    option("curves", "<curves>", "X25519:P-256", "TLS: elliptic curves", |server, words| {
        options(server).curves = Some(path(words, "curves", "curve suite")?);
        Ok(())
    }),
    Row::removed("force-sslv3", "SSLv3 is not supported: TLSv1.2 and TLSv1.3 are"),
    Row::removed("force-tlsv10", "TLSv1.0 is not supported: TLSv1.2 and TLSv1.3 are"),
    Row::removed("force-tlsv11", "TLSv1.1 is not supported: TLSv1.2 and TLSv1.3 are"),
    option("force-tlsv12", "", "", "TLS: 1.2 only", |server, _| {
        force(options(server), TlsVersion::Tls12);
        Ok(())
    }),
    option("force-tlsv13", "", "", "TLS: 1.3 only", |server, _| {
        force(options(server), TlsVersion::Tls13);
        Ok(())
    }),
    option("no-renegotiate", "", "", "TLS: refuse renegotiation (always so)", |_, _| Ok(())),
    option("no-ssl", "", "", "undo 'ssl' of default-server", |server, _| {
        tls(server).enabled = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("no-ssl-reuse", "", "", "TLS: no session resumption", |server, _| {
        tls(server).no_reuse = true;
        Ok(())
    }),
    option("no-sslv3", "", "", "TLS: refuse SSLv3", |server, _| {
        options(server).refused_versions.push(TlsVersion::Ssl3);
        Ok(())
    }),
    option("no-tls-tickets", "", "", "TLS: no stateless resumption", |server, _| {
        options(server).no_tickets = Some(true);
        Ok(())
    }),
    option("no-tlsv10", "", "", "TLS: refuse 1.0", |server, _| {
        options(server).refused_versions.push(TlsVersion::Tls10);
        Ok(())
    }),
    option("no-tlsv11", "", "", "TLS: refuse 1.1", |server, _| {
        options(server).refused_versions.push(TlsVersion::Tls11);
        Ok(())
    }),
    option("no-tlsv12", "", "", "TLS: refuse 1.2", |server, _| {
        options(server).refused_versions.push(TlsVersion::Tls12);
        Ok(())
    }),
    option("no-tlsv13", "", "", "TLS: refuse 1.3", |server, _| {
        options(server).refused_versions.push(TlsVersion::Tls13);
        Ok(())
    }),
    option("no-verifyhost", "", "", "undo 'verifyhost' of default-server", |server, _| {
        tls(server).verify_host = None;
        Ok(())
    })
    .with(NOT_ADDED),
    option("sni", "<expression>", "str(a.example)", "TLS: name to ask for", |server, words| {
        let expression = server.expressions.expression(words, Places::only(Place::BackendSetServer))?;
        tls(server).server_name = Some(expression);
        Ok(())
    }),
    option("ssl", "", "", "TLS to this server", |server, _| {
        tls(server).enabled = true;
        Ok(())
    }),
    option(
        "ssl-max-ver",
        "[ SSLv3 | TLSv1.0 | TLSv1.1 | TLSv1.2 | TLSv1.3 ]",
        "TLSv1.3",
        "TLS: highest version",
        |server, words| {
            options(server).max_version = Some(version(words, "ssl-max-ver")?);
            Ok(())
        },
    ),
    option(
        "ssl-min-ver",
        "[ SSLv3 | TLSv1.0 | TLSv1.1 | TLSv1.2 | TLSv1.3 ]",
        "TLSv1.2",
        "TLS: lowest version",
        |server, words| {
            options(server).min_version = Some(version(words, "ssl-min-ver")?);
            Ok(())
        },
    ),
    option("ssl-reuse", "", "", "TLS: session resumption (the default)", |server, _| {
        tls(server).no_reuse = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("tls-tickets", "", "", "TLS: stateless resumption (the default)", |server, _| {
        options(server).no_tickets = Some(false);
        Ok(())
    }),
    option("verify", "[none|required]", "none", "TLS: check the server's certificate", |server, words| {
        let word = words.expect("'verify' : missing verify method")?;
        options(server).verify = Some(match word.text() {
            "none" => TlsVerify::None,
            "required" => TlsVerify::Required,
            _ => {
                let message = format!(
                    "'verify' : unknown verify method '{word}', only 'none' and 'required' are supported"
                );
                return Err(fault(word.span(), message));
            }
        });
        Ok(())
    }),
    option(
        "verifyhost",
        "<hostname>",
        "a.example",
        "TLS: name that the certificate must have",
        |server, words| {
            tls(server).verify_host = Some(path(words, "verifyhost", "hostname to verify against")?);
            Ok(())
        },
    ),
];
