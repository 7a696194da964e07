//! The words of `server` lines about TLS that `bind` lines do not have.

use std::sync::Arc;

use weir_syntax::Diagnostic;

use weir_expr::{EvaluationPoint, EvaluationPoints};

use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::tls_words::text;
use crate::words::fault;
use weir_model::{ServerTls, TlsOptions, TlsVerify};

use super::{LOG_STREAMS, NOT_ADDED, ServerLine, ServerLineKind, ServerReader, option};

fn tls<'l>(server: &'l mut ServerLine<'_>) -> &'l mut ServerTls {
    Arc::make_mut(server.settings.tls.get_or_insert_default())
}

pub(super) fn options<'l>(server: &'l mut ServerLine<'_>) -> &'l mut TlsOptions {
    &mut tls(server).options
}

pub(super) const ROWS: &[Row<ServerReader>] = &[
    option("allow-0rtt", "", "", "TLS: send early data", |server, _| {
        options(server).allow_early_data = true;
        Ok(())
    }),
    option("crt", "<cert>", "client.pem", "TLS: our certificate", |server, words| {
        tls(server).certificate = Some(text(words, "crt", "certificate file path")?);
        Ok(())
    })
    .with(LOG_STREAMS),
    option(
        "renegotiate",
        "",
        "",
        "accepted for compatibility, no effect: renegotiations are refused",
        |_, words| {
            let message = "'renegotiate' has no effect: renegotiation requests of servers are refused, and TLSv1.3 does not support them. Remove it.";
            words.line().remark(Diagnostic::warning(words.line().span(), message.to_owned()));
            Ok(())
        },
    )
    .with(LOG_STREAMS),
    option("no-renegotiate", "", "", "TLS: refuse renegotiation (always so)", |_, _| Ok(()))
        .with(LOG_STREAMS),
    option("no-ssl", "", "", "undo 'ssl' of default-server", |server, _| {
        let tls = tls(server);
        tls.may_be_enabled |= std::mem::take(&mut tls.enabled);
        tls.is_taken_back = true;
        Ok(())
    })
    .with(NOT_ADDED | LOG_STREAMS),
    option("no-ssl-reuse", "", "", "TLS: no session resumption", |server, _| {
        tls(server).no_reuse = true;
        Ok(())
    })
    .with(LOG_STREAMS),
    option("no-sni-auto", "", "", "TLS: send no server name unless 'sni' sets one", |server, _| {
        tls(server).no_automatic_name = true;
        Ok(())
    })
    .with(LOG_STREAMS),
    option("no-verifyhost", "", "", "undo 'verifyhost' of default-server", |server, _| {
        tls(server).verify_host = None;
        Ok(())
    })
    .with(NOT_ADDED | LOG_STREAMS),
    option("sni", "<expression>", "str(a.example)", "TLS: server name (SNI) to send", |server, words| {
        // Rings and name servers connect without a client, so the name is evaluated once.
        let place = match server.kind {
            ServerLineKind::Ring | ServerLineKind::NameServer => EvaluationPoint::ConfigParser,
            _ => EvaluationPoint::ServerSource,
        };
        let expression = server.expressions.expression(words, EvaluationPoints::only(place))?;
        tls(server).server_name = Some(expression);
        Ok(())
    })
    .with(LOG_STREAMS),
    option(
        "sni-auto",
        "",
        "",
        "TLS: send the name of the request's 'Host' as server name (the default)",
        |server, _| {
            tls(server).no_automatic_name = false;
            Ok(())
        },
    )
    .with(NOT_ADDED | LOG_STREAMS),
    option("ssl", "", "", "TLS to this server", |server, _| {
        let tls = tls(server);
        (tls.enabled, tls.is_taken_back) = (true, false);
        Ok(())
    })
    .with(LOG_STREAMS),
    option("ssl-reuse", "", "", "TLS: session resumption (the default)", |server, _| {
        tls(server).no_reuse = false;
        Ok(())
    })
    .with(NOT_ADDED | LOG_STREAMS),
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
    })
    .with(LOG_STREAMS)
    .default(Described("that of `ssl-server-verify`, `required`"))
    .values(&[("none", "trust any certificate"), ("required", "against 'ca-file' (the default)")]),
    option(
        "verifyhost",
        "<hostname>",
        "a.example",
        "TLS: name that the certificate must have",
        |server, words| {
            tls(server).verify_host = Some(text(words, "verifyhost", "hostname to verify against")?);
            Ok(())
        },
    )
    .with(LOG_STREAMS),
];
