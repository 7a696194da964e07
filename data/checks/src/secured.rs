//! What a check's expressions know of its TLS session.

use weir_expr::Value;
use weir_tls::{Facts, ciphers, openssl};

/// The value of a fetch `ssl_bc…`; none where there is no value, or no session.
pub(crate) fn value<'f>(facts: Option<&'f Facts>, name: &str) -> Option<Value<'f>> {
    match name {
        "ssl_bc" => return Some(Value::Bool(facts.is_some())),
        "ssl_bc_is_resumed" => return Some(Value::Bool(facts.is_some_and(|facts| facts.resumed))),
        _ => {}
    }
    let facts = facts?;
    let text = |text: &'f str| Value::Str(text.as_bytes().into());
    let binary = |bytes: &'f [u8]| Value::Bin(bytes.into());
    match name {
        "ssl_bc_alg_keysize" | "ssl_bc_use_keysize" => {
            ciphers::bits_of(facts.cipher?).map(|bits| Value::Int(bits.into()))
        }
        "ssl_bc_alpn" => facts.protocol.as_deref().map(|name| Value::Str(name.into())),
        "ssl_bc_cipher" => ciphers::name_of(facts.cipher?).map(text),
        "ssl_bc_client_random" => facts.randoms.client.as_ref().map(|random| binary(random)),
        "ssl_bc_curve" => ciphers::name_of_group(facts.group?).map(text),
        "ssl_bc_err" => {
            Some(Value::Int(facts.failure.and_then(openssl::error).map_or(0, |error| error.0.into())))
        }
        "ssl_bc_err_str" => Some(Value::Str(openssl::words_of(facts.failure).into_bytes().into())),
        "ssl_bc_protocol" => facts.version_name().map(text),
        "ssl_bc_server_random" => facts.randoms.server.as_ref().map(|random| binary(random)),
        "ssl_bc_session_id" => facts.session_id().map(binary),
        "ssl_bc_session_key" => facts.session_key().map(binary),
        "ssl_bc_sni" => facts.server_name.as_deref().map(text),
        "ssl_bc_unique_id" => facts.unique_id().map(binary),
        _ => None,
    }
}
