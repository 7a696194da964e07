//! An authority without a network, for tests. It verifies signatures and nonces, and misbehaves by settings.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::ordering::{AcmeAnswer, AcmeRequest};

/// A scripted authority at `https://ca.test`.
#[derive(Debug)]
pub struct Authority {
    /// Refuses each nonce of this number: 2 refuses every second.
    pub refuses_nonces: Option<u64>,
    /// How often an authorization is pending before it is valid.
    pub pending: u32,
    /// How often an order is processed before it is valid.
    pub processing: u32,
    /// Authorizations are valid at once.
    pub reuses: bool,
    /// The result of authorizations.
    pub verdict: &'static str,
    /// The kinds of challenges that it offers.
    pub offers: Vec<&'static str>,
    /// More fields of the directory's `meta`.
    pub meta: Value,
    /// Replaces the answer of a request: its number, from 0, and the answer. `None` loses it.
    pub script: AnswerScript,
    /// The requests so far.
    pub exchanges: Vec<AcmeExchange>,
    pub state: AuthorityState,
}

/// The knowledge of an [`Authority`].
#[derive(Debug, Default)]
pub struct AuthorityState {
    nonces: u64,
    valid_nonce: Option<String>,
    accounts: Vec<Value>,
    order: Option<Value>,
    names: Vec<Value>,
    polls: u32,
}

/// Changes an answer of the authority.
pub struct AnswerScript(pub Box<AnswerChange>);

type AnswerChange = dyn FnMut(usize, &AcmeExchange, AcmeAnswer) -> Option<AcmeAnswer> + Send;

impl AnswerScript {
    /// A script of this function, which gets the number of a request from 0, the request, and the answer.
    pub fn new(
        change: impl FnMut(usize, &AcmeExchange, AcmeAnswer) -> Option<AcmeAnswer> + Send + 'static,
    ) -> Self {
        AnswerScript(Box::new(change))
    }
}

impl std::fmt::Debug for AnswerScript {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Script")
    }
}

/// A request as the authority reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeExchange {
    pub method: &'static str,
    pub path: String,
    /// The protected header. Null for requests without a signature.
    pub header: Value,
    /// Null for a request that reads.
    pub payload: Value,
}

const ROOT: &str = "https://ca.test";

/// The chain of every order.
pub const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

impl Default for Authority {
    fn default() -> Self {
        Authority {
            refuses_nonces: None,
            pending: 0,
            processing: 0,
            reuses: false,
            verdict: "valid",
            offers: vec!["http-01", "dns-01", "tls-alpn-01"],
            meta: json!({}),
            script: AnswerScript::new(|_, _, answer| Some(answer)),
            exchanges: Vec::new(),
            state: AuthorityState::default(),
        }
    }
}

impl Authority {
    /// The answer to a request. `None` if it is lost.
    pub fn answer(&mut self, request: &AcmeRequest) -> Option<AcmeAnswer> {
        let exchange = read(request);
        let mut answer = self.reply(&exchange);
        if exchange.method != "GET" {
            self.state.nonces += 1;
            let nonce = format!("nonce-{}", self.state.nonces);
            self.state.valid_nonce = Some(nonce.clone());
            answer.replay_nonce = Some(nonce);
        }
        let number = self.exchanges.len();
        let answer = (self.script.0)(number, &exchange, answer);
        self.exchanges.push(exchange);
        answer
    }

    /// The paths of the signed requests.
    pub fn paths(&self) -> Vec<&str> {
        self.exchanges.iter().filter(|one| one.method == "POST").map(|one| &*one.path).collect()
    }

    fn reply(&mut self, exchange: &AcmeExchange) -> AcmeAnswer {
        match (exchange.method, &*exchange.path) {
            ("GET", "/directory") => document(
                200,
                json!({
                    "newNonce": format!("{ROOT}/nonce"), "newAccount": format!("{ROOT}/account"), "newOrder": format!("{ROOT}/order"),
                    "renewalInfo": format!("{ROOT}/info"), "meta": self.meta,
                }),
            ),
            ("HEAD", "/nonce") => AcmeAnswer { status: 200, ..AcmeAnswer::default() },
            ("POST", path) => {
                let nonce = exchange.header["nonce"].as_str().map(str::to_owned);
                let is_unlucky =
                    self.refuses_nonces.is_some_and(|each| self.state.nonces.is_multiple_of(each));
                if nonce.is_none() || nonce != self.state.valid_nonce.take() || is_unlucky {
                    return problem(400, "badNonce", "try again");
                }
                self.signed(path, exchange)
            }
            _ => problem(404, "malformed", "no such resource"),
        }
    }

    fn signed(&mut self, path: &str, exchange: &AcmeExchange) -> AcmeAnswer {
        if path != "/account" && !self.knows(&exchange.header) {
            return problem(400, "accountDoesNotExist", "unknown account");
        }
        let (number, part) = path.rsplit_once('/').map_or(("", path), |(before, last)| (last, before));
        match part {
            "" if path == "/account" => {
                self.state.accounts.push(exchange.header["jwk"].clone());
                let location = format!("{ROOT}/account/{}", self.state.accounts.len());
                AcmeAnswer { location: Some(location), ..document(201, json!({"status": "valid"})) }
            }
            "" if path == "/order" => {
                self.state.names = exchange.payload["identifiers"].as_array().cloned().unwrap_or_default();
                let authorizations: Vec<String> =
                    (0..self.state.names.len()).map(|at| format!("{ROOT}/authz/{at}")).collect();
                let status = if self.reuses { "ready" } else { "pending" };
                self.state.order = Some(
                    json!({"status": status, "authorizations": authorizations, "finalize": format!("{ROOT}/finalize/1")}),
                );
                AcmeAnswer {
                    location: Some(format!("{ROOT}/order/1")),
                    ..document(201, self.state.order.clone().unwrap_or_default())
                }
            }
            "/account" => document(200, json!({"status": "valid"})),
            "/authz" => self.authorization(number),
            "/challenge" => document(200, json!({"type": "http-01", "status": "processing", "url": "x"})),
            "/order" => self.state_of_order(),
            "/finalize" => {
                if let Some(order) = &mut self.state.order {
                    order["status"] = json!("processing");
                }
                self.state.polls = 0;
                self.state_of_order()
            }
            "/certificate" => AcmeAnswer { status: 200, body: CHAIN.into(), ..AcmeAnswer::default() },
            _ => problem(404, "malformed", "no such resource"),
        }
    }

    fn knows(&self, header: &Value) -> bool {
        let number = header["kid"].as_str().and_then(|kid| kid.strip_prefix("https://ca.test/account/"));
        number
            .and_then(|number| number.parse::<usize>().ok())
            .is_some_and(|number| (1..=self.state.accounts.len()).contains(&number))
    }

    fn authorization(&mut self, number: &str) -> AcmeAnswer {
        let is_triggered = self.exchanges.iter().any(|one| one.path.starts_with("/challenge/"));
        let status = match (is_triggered, self.state.polls < self.pending) {
            (false, _) if self.reuses => "valid",
            (false, _) => "pending",
            (true, true) => {
                self.state.polls += 1;
                "pending"
            }
            (true, false) => self.verdict,
        };
        let name =
            number.parse::<usize>().ok().and_then(|at| self.state.names.get(at)).cloned().unwrap_or_default();
        let text = name["value"].as_str().unwrap_or_default();
        let challenges: Vec<Value> = self.offers.iter().map(|kind| {
            let mut challenge = json!({"type": kind, "url": format!("{ROOT}/challenge/{kind}-{number}"), "token": format!("token_{number}")});
            if *kind == "dns-persist-01" {
                challenge["issuer-domain-names"] = json!(["ca.test"]);
            }
            if status == "invalid" {
                challenge["error"] = json!({"type": "urn:ietf:params:acme:error:unauthorized", "detail": "wrong\nanswer"});
            }
            challenge
        }).collect();
        let base = text.strip_prefix("*.").unwrap_or(text);
        document(
            200,
            json!({
                "status": status, "identifier": {"type": name["type"], "value": base}, "wildcard": base != text, "challenges": challenges,
            }),
        )
    }

    fn state_of_order(&mut self) -> AcmeAnswer {
        let Some(order) = &mut self.state.order else { return problem(404, "malformed", "no such order") };
        if order["status"] == "pending" {
            order["status"] = json!("ready");
        } else if order["status"] == "processing" {
            if self.state.polls >= self.processing {
                order["status"] = json!("valid");
                order["certificate"] = json!(format!("{ROOT}/certificate/1"));
            }
            self.state.polls += 1;
        }
        AcmeAnswer { retry_after: Some(3), ..document(200, order.clone()) }
    }
}

/// An answer with a document.
pub fn document(status: u16, value: Value) -> AcmeAnswer {
    AcmeAnswer { status, body: value.to_string().into_bytes(), ..AcmeAnswer::default() }
}

/// An answer with an error.
pub fn problem(status: u16, kind: &str, detail: &str) -> AcmeAnswer {
    document(status, json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail}))
}

/// Reads a request, and verifies the signature of one that has a key.
fn read(request: &AcmeRequest) -> AcmeExchange {
    let path = request.url.strip_prefix(ROOT).expect("only this authority is asked").to_owned();
    if request.method != "POST" {
        return AcmeExchange { method: request.method, path, header: Value::Null, payload: Value::Null };
    }
    let body: Value = serde_json::from_str(&request.body).expect("requests are JSON");
    let text = |name: &str| body[name].as_str().expect("a signature has three parts").to_owned();
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).expect("base64url");
    let header: Value = serde_json::from_slice(&decode(&text("protected"))).expect("headers are JSON");
    assert_eq!(header["url"], json!(request.url), "a signature is for one URL");
    if header["jwk"].is_object() {
        let signed = format!("{}.{}", text("protected"), text("payload"));
        assert!(is_signed(&header, signed.as_bytes(), &decode(&text("signature"))), "{header}");
    }
    let payload = decode(&text("payload"));
    let payload =
        if payload.is_empty() { Value::Null } else { serde_json::from_slice(&payload).expect("JSON") };
    AcmeExchange { method: "POST", path, header, payload }
}

/// Whether the signature is one of the key in the header.
pub fn is_signed(header: &Value, message: &[u8], signature: &[u8]) -> bool {
    let jwk = &header["jwk"];
    let number = |name: &str| {
        BASE64_URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap_or_default()).unwrap_or_default()
    };
    let algorithm = match header["alg"].as_str() {
        Some("RS256") => {
            let key = RsaPublicKeyComponents { n: number("n"), e: number("e") };
            return key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok();
        }
        Some("ES256") => &ECDSA_P256_SHA256_FIXED,
        Some("ES384") => &ECDSA_P384_SHA384_FIXED,
        Some("ES512") => &ECDSA_P521_SHA512_FIXED,
        _ => return false,
    };
    let point = [vec![4], number("x"), number("y")].concat();
    UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
}
