//! Server words about the PROXY header at the start of connections (manual, 5.2).

use std::sync::Arc;

use weir_expr::{EvaluationPoint, EvaluationPoints};

use super::{NOT_ADDED, ServerLine, ServerReader, option};
use crate::numbers::prefixed_integer;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{ProxyV2, SendProxy};

pub(super) const READY: &[Row<ServerReader>] = &[
    option(
        "proxy-v2-options",
        "<option>[,<option>]*",
        "crc32c,unique-id",
        "additional fields of a version 2 header",
        |server, words| {
            let word = words.expect("'proxy-v2-options' : expects a list of options")?;
            let header = proxy_v2(server);
            for option in word.text().split(',').filter(|option| !option.is_empty()) {
                match option {
                    "crc32c" => header.crc32c = true,
                    "unique-id" => header.unique_id = true,
                    "authority" => header.authority = true,
                    "ssl" => header.tls.enabled = true,
                    "cert-cn" => header.tls.common_name = true,
                    "ssl-cipher" => header.tls.cipher = true,
                    "cert-sig" => header.tls.signature = true,
                    "cert-key" => header.tls.key = true,
                    _ => {
                        let message = format!("'{option}' : proxy v2 option not implemented.");
                        return Err(fault(word.span(), message));
                    }
                }
            }
            Ok(())
        },
    )
    .values(&[
        ("crc32c", "a checksum"),
        ("unique-id", "the identifier of 'unique-id-format'"),
        ("authority", "the name that the client asked for (SNI)"),
        ("ssl", "whether the client uses TLS"),
        ("cert-cn", "the common name of its certificate"),
        ("ssl-cipher", "the cipher"),
        ("cert-sig", "the algorithm that signed its certificate"),
        ("cert-key", "the algorithm of the certificate's key"),
    ]),
    option("send-proxy", "", "", "begin connections with a version 1 PROXY header", |server, _| {
        // Version 2 takes precedence, in any order.
        server.settings.send_proxy.get_or_insert(SendProxy::V1);
        Ok(())
    }),
    option("send-proxy-v2", "", "", "begin connections with a version 2 PROXY header", |server, _| {
        server.settings.send_proxy = Some(SendProxy::V2);
        Ok(())
    }),
    option(
        "send-proxy-v2-ssl",
        "",
        "",
        "begin connections with a version 2 PROXY header with TLS information",
        |server, _| {
            server.settings.send_proxy = Some(SendProxy::V2);
            proxy_v2(server).tls.enabled = true;
            Ok(())
        },
    ),
    option(
        "send-proxy-v2-ssl-cn",
        "",
        "",
        "the same with the name in the client's certificate",
        |server, _| {
            server.settings.send_proxy = Some(SendProxy::V2);
            let tls = &mut proxy_v2(server).tls;
            (tls.enabled, tls.common_name) = (true, true);
            Ok(())
        },
    ),
    option(
        "set-proxy-v2-tlv-fmt",
        "(<id>) <fmt>",
        "(0xE1) x",
        "a further field of the version 2 PROXY header",
        read_tlv,
    ),
];

pub(super) const NEGATIONS: &[Row<ServerReader>] = &[
    option("no-send-proxy", "", "", "undo 'send-proxy' of default-server", |server, _| {
        if matches!(server.settings.send_proxy, Some(SendProxy::V1)) {
            server.settings.send_proxy = None;
        }
        Ok(())
    }),
    option("no-send-proxy-v2", "", "", "undo 'send-proxy-v2' of default-server", |server, _| {
        forget_proxy_v2(server);
        Ok(())
    }),
    option("no-send-proxy-v2-ssl", "", "", "undo 'send-proxy-v2-ssl' of default-server", |server, _| {
        forget_proxy_v2(server);
        proxy_v2(server).tls.enabled = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option(
        "no-send-proxy-v2-ssl-cn",
        "",
        "",
        "undo 'send-proxy-v2-ssl-cn' of default-server",
        |server, _| {
            forget_proxy_v2(server);
            let tls = &mut proxy_v2(server).tls;
            (tls.enabled, tls.common_name) = (false, false);
            Ok(())
        },
    )
    .with(NOT_ADDED),
];

fn proxy_v2<'s>(server: &'s mut ServerLine<'_>) -> &'s mut ProxyV2 {
    Arc::make_mut(server.settings.proxy_v2.get_or_insert_default())
}

fn forget_proxy_v2(server: &mut ServerLine<'_>) {
    if matches!(server.settings.send_proxy, Some(SendProxy::V2)) {
        server.settings.send_proxy = None;
    }
}

/// `set-proxy-v2-tlv-fmt(<id>) <fmt>`.
fn read_tlv(server: &mut ServerLine<'_>, words: &mut Words<'_>) -> Parsed {
    let keyword = &words.line().words()[words.position() - 1];
    let identifier = keyword
        .text()
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .and_then(|number| prefixed_integer(number.trim()))
        .and_then(|number| u8::try_from(number).ok());
    let identifier = identifier.ok_or_else(|| {
        fault(keyword.span(), "'set-proxy-v2-tlv-fmt' expects a type between 0 and 255 in parentheses")
    })?;
    let format = match words.take() {
        Some(format) => {
            server.expressions.format(format, EvaluationPoints::only(EvaluationPoint::ServerSource))?
        }
        // Without a format at the end of the line, the field is empty.
        None => server.expressions.literal(keyword, "")?,
    };
    let header = proxy_v2(server);
    if header.tlvs.len() == MAX_TLVS {
        return Err(fault(keyword.span(), format!("'set-proxy-v2-tlv-fmt' : more than {MAX_TLVS} fields")));
    }
    header.tlvs.push((identifier, format));
    Ok(())
}

/// The limit of additional fields in a PROXY header.
const MAX_TLVS: usize = 32;
