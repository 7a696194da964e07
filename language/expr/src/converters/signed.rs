//! Signatures of JSON Web Tokens (RFC 7515, RFC 7518).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{KeyInit, Mac};
use weir_fingerprint::{Canonical, Fingerprint};

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::error::{ParseError, show};
use crate::sample::SampleType::{Bin, Int};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;
use crate::token_keys::{Curve, TokenKey, TokenKeys};

pub(super) const ROWS: &[Converter] = &[Converter::new(
    "jwt_verify",
    Bin,
    Int,
    Run::Resolved(verify),
    "Whether a token's signature is good: algorithm, secret or file of the public key",
)
.args(2, &[ArgKind::Str, ArgKind::Str])
.check(check)];

/// The signature does not match.
const WRONG: i64 = 0;
const GOOD: i64 = 1;
const UNKNOWN_ALGORITHM: i64 = -1;
const INVALID_TOKEN: i64 = -3;
const UNKNOWN_KEY: i64 = -5;

/// A value of `alg` (RFC 7518, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum Algorithm {
    None,
    Signs(Scheme),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum Scheme {
    Hs(Digest),
    /// RSA, with its index among the algorithms of a key.
    Rsa(usize),
    Es(Curve),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum Digest {
    Sha256,
    Sha384,
    Sha512,
}

/// The keys by path, and the file of the second argument.
#[derive(Debug, Canonical)]
struct TokenKeyArg {
    #[canonical(skip = "all files; the field below has the one that counts")]
    all: TokenKeys,
    file: Option<Fingerprint>,
}

impl Algorithm {
    fn from_name(name: &[u8]) -> Option<Algorithm> {
        Some(Algorithm::Signs(match name {
            b"none" => return Some(Algorithm::None),
            b"HS256" => Scheme::Hs(Digest::Sha256),
            b"HS384" => Scheme::Hs(Digest::Sha384),
            b"HS512" => Scheme::Hs(Digest::Sha512),
            b"RS256" => Scheme::Rsa(0),
            b"RS384" => Scheme::Rsa(1),
            b"RS512" => Scheme::Rsa(2),
            b"PS256" => Scheme::Rsa(3),
            b"PS384" => Scheme::Rsa(4),
            b"PS512" => Scheme::Rsa(5),
            b"ES256" => Scheme::Es(Curve::P256),
            b"ES384" => Scheme::Es(Curve::P384),
            b"ES512" => Scheme::Es(Curve::P521),
            _ => return None,
        }))
    }

    fn needs_file(self) -> bool {
        matches!(self, Algorithm::Signs(Scheme::Rsa(_) | Scheme::Es(_)))
    }
}

/// Reads the files now: no file is read while requests wait. The keys, by path, follow the two arguments.
fn check(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let name = args.str(0).unwrap_or_default();
    let algorithm = match variable(name, scope) {
        Some(variable) => {
            args.set(0, variable);
            None
        }
        None => {
            let algorithm = Algorithm::from_name(name)
                .ok_or_else(|| format!("unknown JWT algorithm: {}.", show(name)))?;
            args.set(0, Arg::Custom(Arc::new(algorithm)));
            Some(algorithm)
        }
    };
    let text = args.str(1).unwrap_or_default();
    let mut file = None;
    if let Some(variable) = variable(text, scope) {
        args.set(1, variable);
    } else if algorithm.is_none_or(Algorithm::needs_file)
        && let Ok(path) = std::str::from_utf8(text)
        && !path.is_empty()
    {
        match scope.token_keys.read(path, scope.loader) {
            Ok(true) => file = scope.token_keys.fingerprint(path),
            // If the algorithm is known only at run time, the text may be a secret.
            Ok(false) if algorithm.is_none() => {}
            Ok(false) => warn(scope, path, "it cannot be read"),
            Err(why) => warn(scope, path, &why),
        }
    }
    args.set(2, Arg::Custom(Arc::new(TokenKeyArg { all: scope.token_keys.clone(), file })));
    Ok(())
}

fn variable(name: &[u8], scope: &ExpressionScope<'_>) -> Option<Arg> {
    let name = std::str::from_utf8(name).ok()?;
    scope.variables.intern(name).ok().map(Arg::Variable)
}

fn warn(scope: &ExpressionScope<'_>, path: &str, why: &str) {
    let message = format!(
        "'jwt_verify' : the file '{path}' does not contain a signature key, so every token fails: {why}"
    );
    scope.warnings.push(ParseError::new(0, message));
}

fn verify<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let (algorithm, is_chosen) = match args.str(0) {
        Some(b"") => return None,
        Some(name) => (Algorithm::from_name(name), true),
        None => (Some(*args.custom::<Algorithm>(0)?), false),
    };
    let text = args.str(1)?;
    // With an empty secret, anybody can sign.
    if text.is_empty() && algorithm != Some(Algorithm::None) {
        return None;
    }
    let find = || args.custom::<TokenKeyArg>(2)?.all.find(std::str::from_utf8(text).ok()?);
    let verdict = match algorithm {
        None => UNKNOWN_ALGORITHM,
        // The sender of a token chooses its algorithm. It must not choose unsigned tokens, nor the name of a file as the secret (RFC 8725,
        // 3.1).
        Some(Algorithm::None) if is_chosen => WRONG,
        Some(Algorithm::Signs(Scheme::Hs(_))) if is_chosen && find().is_some() => WRONG,
        Some(algorithm) => judge(value.bytes()?, algorithm, text, find),
    };
    scratch::recycle(value);
    Some(Value::Int(verdict))
}

/// The result for a token in compact form: a header, a payload, and the signature of both.
fn judge(
    token: &[u8],
    algorithm: Algorithm,
    secret: &[u8],
    key: impl FnOnce() -> Option<Arc<TokenKey>>,
) -> i64 {
    let mut parts = token.split(|byte| *byte == b'.');
    let (Some(_), Some(_), signature, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return INVALID_TOKEN;
    };
    let signature = signature.unwrap_or_default();
    let scheme = match algorithm {
        Algorithm::None if signature.is_empty() => return GOOD,
        Algorithm::None => return WRONG,
        Algorithm::Signs(_) if signature.is_empty() => return INVALID_TOKEN,
        Algorithm::Signs(scheme) => scheme,
    };
    let signed = &token[..token.len() - signature.len() - 1];
    let mut decoded = scratch::take();
    let verdict = match URL_SAFE_NO_PAD.decode_vec(signature, &mut decoded) {
        Ok(()) => judge_signature(signed, &decoded, scheme, secret, key),
        Err(_) => INVALID_TOKEN,
    };
    scratch::give(decoded);
    verdict
}

fn judge_signature(
    signed: &[u8],
    signature: &[u8],
    scheme: Scheme,
    secret: &[u8],
    key: impl FnOnce() -> Option<Arc<TokenKey>>,
) -> i64 {
    fn is_good<M: Mac + KeyInit>(secret: &[u8], signed: &[u8], signature: &[u8]) -> bool {
        let mut mac = <M as KeyInit>::new_from_slice(secret).expect("an HMAC takes keys of any length");
        mac.update(signed);
        mac.verify_slice(signature).is_ok()
    }
    let is_good = match scheme {
        Scheme::Hs(Digest::Sha256) => is_good::<hmac::Hmac<sha2::Sha256>>(secret, signed, signature),
        Scheme::Hs(Digest::Sha384) => is_good::<hmac::Hmac<sha2::Sha384>>(secret, signed, signature),
        Scheme::Hs(Digest::Sha512) => is_good::<hmac::Hmac<sha2::Sha512>>(secret, signed, signature),
        Scheme::Rsa(_) | Scheme::Es(_) => {
            let Some(key) = key() else { return UNKNOWN_KEY };
            match (scheme, &*key) {
                (Scheme::Rsa(place), TokenKey::Rsa(keys)) => {
                    keys.get(place).is_some_and(|key| key.verify_sig(signed, signature).is_ok())
                }
                (Scheme::Es(_), TokenKey::Ec(curve, _)) if signature.len() != curve.signature_length() => {
                    return INVALID_TOKEN;
                }
                (Scheme::Es(wanted), TokenKey::Ec(curve, key)) => {
                    wanted == *curve && key.verify_sig(signed, signature).is_ok()
                }
                _ => false,
            }
        }
    };
    if is_good { GOOD } else { WRONG }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair};

    use super::*;
    use crate::testing::{Fixture, TestContext};

    /// A token with this signature of its first two parts.
    fn token(algorithm: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
        let header = format!(r#"{{"alg":"{algorithm}"}}"#);
        let signed = [header.as_str(), r#"{"sub":"x"}"#].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn pem(label: &str, der: &[u8]) -> String {
        pem::encode(&pem::Pem::new(label, der))
    }

    fn public_key(key: &EcdsaKeyPair) -> String {
        let der: PublicKeyX509Der<'_> = key.public_key().as_der().expect("a key");
        pem("PUBLIC KEY", der.as_ref())
    }

    fn with_secret<M: Mac + KeyInit>(signed: &[u8]) -> Vec<u8> {
        let mut mac = <M as KeyInit>::new_from_slice(b"secret").expect("any length");
        mac.update(signed);
        mac.finalize().into_bytes().to_vec()
    }

    #[track_caller]
    fn check(fixture: &Fixture, token: &str, arguments: &str, expected: &str) {
        let verdict = fixture.eval(&format!("str({token}),jwt_verify({arguments})"));
        assert_eq!(verdict, expected, "{arguments} {token}");
    }

    /// Every algorithm, with the key that it needs, another one of its kind, and one of another kind.
    #[test]
    fn jwt_verify_accepts_only_signatures_of_the_algorithm_and_key() {
        let random = SystemRandom::new();
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let other = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let curves = [
            ("ES256", &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            ("ES384", &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            ("ES512", &signature::ECDSA_P521_SHA512_FIXED_SIGNING),
        ]
        .map(|(name, algorithm)| (name, EcdsaKeyPair::generate(algorithm).expect("a key")));
        let mut fixture = Fixture::new()
            .file("rsa", &pem("RSA PUBLIC KEY", rsa.public_key().as_ref()))
            .file("other", &pem("RSA PUBLIC KEY", other.public_key().as_ref()));
        for (name, key) in &curves {
            fixture = fixture.file(name, &public_key(key));
        }
        let rsa_algorithms: [(&str, &'static dyn signature::RsaEncoding); 6] = [
            ("RS256", &signature::RSA_PKCS1_SHA256),
            ("RS384", &signature::RSA_PKCS1_SHA384),
            ("RS512", &signature::RSA_PKCS1_SHA512),
            ("PS256", &signature::RSA_PSS_SHA256),
            ("PS384", &signature::RSA_PSS_SHA384),
            ("PS512", &signature::RSA_PSS_SHA512),
        ];
        for (name, encoding) in rsa_algorithms {
            let token = token(name, |signed| {
                let mut signature = vec![0; rsa.public_modulus_len()];
                rsa.sign(encoding, &random, signed, &mut signature).expect("a signature");
                signature
            });
            check(&fixture, &token, &format!("{name},rsa"), "1");
            check(&fixture, &token, &format!("{name},other"), "0");
            check(&fixture, &token, &format!("{name},ES256"), "0");
            let next = if name == "RS256" { "RS384" } else { "RS256" };
            check(&fixture, &token, &format!("{next},rsa"), "0");
            let cut = token.rsplit_once('.').expect("three parts").0;
            for (token, verdict) in [
                (format!("{token}AAA"), "-3"),
                (format!("{token}A"), "0"),
                (format!("{token}="), "-3"),
                (format!("{token}."), "-3"),
                (format!("{cut}."), "-3"),
                (cut.to_owned(), "-3"),
                (format!("{cut}.+/+/"), "-3"),
                (format!("{cut}.AAAA"), "0"),
                (token.replacen("eyJ", "eyK", 1), "0"),
            ] {
                check(&fixture, &token, &format!("{name},rsa"), verdict);
            }
        }
        for (name, key) in &curves {
            let token =
                token(name, |signed| key.sign(&random, signed).expect("a signature").as_ref().to_vec());
            for (wanted, _) in &curves {
                for (of, _) in &curves {
                    let expected = match (wanted == name, of == name) {
                        (true, true) => "1",
                        (false, true) => "0",
                        // The length of a signature depends on the key.
                        (_, false) => "-3",
                    };
                    check(&fixture, &token, &format!("{wanted},{of}"), expected);
                }
            }
            check(&fixture, &token, &format!("{name},rsa"), "0");
            check(&fixture, &token, &format!("{name},nowhere"), "-5");
        }
        assert_eq!(fixture.warnings.take().len(), 3, "the file that is not there");
    }

    #[test]
    fn jwt_hmac_secrets_are_never_read_as_file_names() {
        let fixture = Fixture::new().file("secret", "x");
        let tokens = [
            token("HS256", with_secret::<hmac::Hmac<sha2::Sha256>>),
            token("HS384", with_secret::<hmac::Hmac<sha2::Sha384>>),
            token("HS512", with_secret::<hmac::Hmac<sha2::Sha512>>),
        ];
        for (token, name) in tokens.iter().zip(["HS256", "HS384", "HS512"]) {
            for wanted in ["HS256", "HS384", "HS512"] {
                let expected = if wanted == name { "1" } else { "0" };
                check(&fixture, token, &format!("{wanted},secret"), expected);
            }
            check(&fixture, token, &format!("{name},other"), "0");
            check(&fixture, token, &format!("{name},"), "-");
            check(&fixture, token, "RS256,secret", "-5");
        }
    }

    /// RFC 8725, 3.1: a token's header may say any algorithm.
    #[test]
    fn jwt_verify_ignores_the_algorithm_in_the_token_header() {
        let key = EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let good = token("ES256", |signed| {
            key.sign(&SystemRandom::new(), signed).expect("a signature").as_ref().to_vec()
        });
        let fixture = Fixture::new().file("secret", &public_key(&key));
        let signed = token("HS256", with_secret::<hmac::Hmac<sha2::Sha256>>);
        for (algorithm, token, key, verdict) in [
            ("ES256", &*good, "secret", "1"),
            ("ES256", &good, "other", "-5"),
            ("HS256", &signed, "secret", "0"),
            ("none", "a.b.", "secret", "0"),
            ("none", "a.b.", "other", "0"),
            ("XX", "a.b.AAAA", "secret", "-1"),
            ("", "a.b.AAAA", "secret", "-"),
        ] {
            let mut context = TestContext::default();
            fixture.eval_in(&format!("str({algorithm}),set-var(txn.algorithm)"), &mut context);
            fixture.eval_in(&format!("str({key}),set-var(txn.key)"), &mut context);
            for key in [key, "txn.key"] {
                let text = format!("str({token}),jwt_verify(txn.algorithm,{key})");
                assert_eq!(fixture.eval_in(&text, &mut context), verdict, "{text}");
            }
        }
    }

    /// Only the configuration can accept unsigned tokens, with the algorithm `none`.
    #[test]
    fn jwt_verify_accepts_unsigned_tokens_only_with_algorithm_none() {
        let fixture = Fixture::new();
        for (token, verdict) in
            [("a.b.", "1"), ("a.b", "1"), ("a.b.AAAA", "0"), ("a", "-3"), ("a.b.c.d", "-3")]
        {
            check(&fixture, token, "none,x", verdict);
            check(&fixture, token, "HS256,x", if verdict == "0" { "0" } else { "-3" });
        }
    }

    #[test]
    fn jwt_verify_warns_about_files_without_a_public_key() {
        let fixture = Fixture::new()
            .file("empty", "")
            .file("certificate", &pem("CERTIFICATE", b"x"))
            .file("damaged", &pem("PUBLIC KEY", b"x"));
        for (file, said) in [
            ("empty", "no PEM block is in it"),
            ("certificate", "found is 'CERTIFICATE'"),
            ("damaged", "neither one of RSA"),
            ("nowhere", "it cannot be read"),
        ] {
            check(&fixture, "a.b.AAAA", &format!("RS256,{file}"), "-5");
            let warnings = fixture.warnings.take();
            assert!(matches!(&warnings[..], [warning] if warning.message.contains(said)), "{warnings:?}");
        }
        let error = fixture.parse("str(a),jwt_verify(RS257,x)").expect_err("no algorithm");
        assert!(error.message.contains("unknown JWT algorithm: RS257."), "{}", error.message);
    }
}
