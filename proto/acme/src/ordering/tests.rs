use std::collections::VecDeque;

use serde_json::json;

use super::*;
use crate::account::{AccountKeyKind, KeyCurve, make_key};
use crate::jws::MacAlgorithm;
use crate::testing::{AnswerScript, Authority, CHAIN, document, problem};

fn key() -> Arc<AccountKey> {
    let der = make_key(AccountKeyKind::Ecdsa(KeyCurve::P256)).expect("random numbers");
    Arc::new(AccountKey::from_der(&der).expect("a key of ours"))
}

fn plan(names: &[&str]) -> OrderPlan {
    OrderPlan {
        directory: "https://ca.test/directory".to_owned(),
        identifiers: names.iter().map(|name| Identifier::parse(name).expect("a name")).collect(),
        challenges: vec![ChallengeKind::TlsAlpn01, ChallengeKind::Http01, ChallengeKind::Dns01],
        contact: vec!["me@example.org".to_owned()],
        account: None,
        changes_contact: false,
        external_account: None,
        profile: None,
        replaces: None,
        resumes: None,
    }
}

/// The events of a run besides requests.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    waits: Vec<u64>,
    proofs: Vec<Proof>,
    requests: usize,
}

/// Runs an order to its end.
fn run(ordering: &mut Ordering, authority: &mut Authority) -> (Result<Issued, OrderFailure>, Seen) {
    let mut seen = Seen::default();
    for _ in 0..10_000 {
        match ordering.step() {
            OrderStep::Request(request) => {
                seen.requests += 1;
                match authority.answer(&request) {
                    Some(answer) => ordering.answered(&answer),
                    None => ordering.unanswered(),
                }
            }
            OrderStep::Publish(proofs) => {
                seen.proofs = proofs;
                ordering.published(Ok(()));
            }
            OrderStep::MakeCsr => ordering.sign(b"request"),
            OrderStep::Wait { seconds } => {
                seen.waits.push(seconds);
                ordering.waited();
            }
            OrderStep::Ended(result) => return (*result, seen),
        }
    }
    panic!("an order ends: {ordering:?}");
}

fn issue(plan: OrderPlan, authority: &mut Authority) -> (Result<Issued, OrderFailure>, Seen) {
    run(&mut Ordering::new(plan, key()), authority)
}

#[test]
fn orders_a_certificate_for_several_names() {
    let mut authority = Authority { pending: 2, processing: 1, ..Authority::default() };
    let (result, seen) =
        issue(plan(&["example.org", "www.example.org", "*.example.org", "::1"]), &mut authority);
    let issued = result.expect("it is issued");
    assert_eq!((issued.chain, issued.account), (CHAIN.into(), "https://ca.test/account/1".to_owned()));
    let kinds: Vec<_> =
        seen.proofs.iter().map(|proof| (proof.identifier.text(), proof.challenge.kind)).collect();
    let named = |name: &str, kind| (name.to_owned(), kind);
    assert_eq!(
        kinds,
        [
            named("example.org", ChallengeKind::TlsAlpn01),
            named("www.example.org", ChallengeKind::TlsAlpn01),
            named("example.org", ChallengeKind::Dns01),
            named("::1", ChallengeKind::TlsAlpn01),
        ]
    );
    assert_eq!(authority.paths()[..3], ["/account", "/order", "/authz/0"]);
    let account = &authority.exchanges[2];
    assert_eq!(account.payload, json!({"termsOfServiceAgreed": true, "contact": ["mailto:me@example.org"]}));
    assert_eq!(account.header["alg"], "ES256");
    let csr = authority.exchanges.iter().find(|one| one.path == "/finalize/1").expect("it was finalized");
    assert_eq!(csr.payload, json!({"csr": encode(b"request")}));
    assert_eq!(csr.header["kid"], "https://ca.test/account/1");
    // The last one is the authority's wish.
    assert_eq!(seen.waits, [1, 2, 3]);
}

#[test]
fn authorizations_that_are_valid_need_no_challenge() {
    let mut authority = Authority { reuses: true, ..Authority::default() };
    let (result, seen) = issue(plan(&["example.org"]), &mut authority);
    assert!(result.is_ok() && seen.proofs.is_empty());
    assert!(!authority.paths().iter().any(|path| path.starts_with("/challenge")));
}

#[test]
fn a_refused_nonce_is_replaced_at_once() {
    for each in [2, 3, 7] {
        let mut authority = Authority { refuses_nonces: Some(each), ..Authority::default() };
        let (result, seen) = issue(plan(&["a.test", "b.test"]), &mut authority);
        assert!(result.is_ok(), "{result:?}");
        assert!(seen.waits.is_empty());
    }
    let mut authority = Authority { refuses_nonces: Some(1), ..Authority::default() };
    let (result, seen) = issue(plan(&["a.test"]), &mut authority);
    let cause = result.expect_err("no nonce is good").cause;
    assert!(matches!(cause, FailureCause::Refused(400, ref problem) if problem.is_bad_nonce()), "{cause:?}");
    assert_eq!(seen.requests as u32, 2 + MOST_NONCES + 1);
}

#[test]
fn requests_are_repeated_after_losses_and_server_errors() {
    // Each request of the order is lost once, and then answered by an error of the server.
    let mut failures: VecDeque<Option<AcmeAnswer>> = VecDeque::from([
        None,
        Some(document(503, json!({}))),
        None,
        Some(AcmeAnswer { retry_after: Some(7), ..problem(500, "serverInternal", "") }),
    ]);
    let mut known = Vec::new();
    let script = AnswerScript::new(move |_, exchange, answer| {
        if known.contains(&exchange.path) {
            return Some(answer);
        }
        known.push(exchange.path.clone());
        let failure = failures.pop_front().expect("turns around");
        failures.push_back(failure.clone());
        failure
    });
    let mut authority = Authority { script, ..Authority::default() };
    let (result, seen) = issue(plan(&["a.test"]), &mut authority);
    assert!(result.is_ok(), "{result:?}");
    assert!(seen.waits.contains(&7) && seen.waits.contains(&1), "{:?}", seen.waits);

    let mut authority = Authority { script: AnswerScript::new(|_, _, _| None), ..Authority::default() };
    let (result, seen) = issue(plan(&["a.test"]), &mut authority);
    let failure = result.expect_err("nobody answers");
    assert_eq!((failure.cause, failure.phase), (FailureCause::Unreachable, OrderPhase::Directory));
    assert_eq!(seen.waits, [1, 2, 4, 8, 16]);
    // Nonces arrive, and nothing else.
    let script = AnswerScript::new(|_, exchange, answer| (exchange.method != "POST").then_some(answer));
    let (result, seen) = issue(plan(&["a.test"]), &mut Authority { script, ..Authority::default() });
    assert_eq!(result.expect_err("nobody answers").phase, OrderPhase::Account);
    assert_eq!(seen.waits, [1, 2, 4, 8, 16]);
}

#[test]
fn a_rate_limit_ends_the_order_and_says_when_to_try_again() {
    let script = AnswerScript::new(|_, exchange, answer| match &*exchange.path {
        "/order" => Some(AcmeAnswer {
            retry_after: Some(7_200),
            ..problem(429, "rateLimited", "too many certificates")
        }),
        _ => Some(answer),
    });
    let mut authority = Authority { script, ..Authority::default() };
    let mut plan = plan(&["a.test"]);
    plan.replaces = Some("a.b".to_owned());
    let failure = issue(plan, &mut authority).0.expect_err("it is limited");
    assert_eq!((failure.retry_after, failure.phase), (Some(7_200), OrderPhase::Order));
    assert_eq!(failure.to_string(), "order: the authority answered 429, rateLimited: too many certificates");
    assert_eq!(authority.paths(), ["/account", "/order"], "it is not asked again without the replaced one");
}

#[test]
fn a_failed_challenge_names_its_kind_and_reason() {
    let mut authority = Authority { verdict: "invalid", pending: 1, ..Authority::default() };
    let failure = issue(plan(&["a.test"]), &mut authority).0.expect_err("it is not proven");
    assert!(failure.to_string().contains("failed for 'a.test', unauthorized: wrong answer"), "{failure}");
    let mut authority = Authority { offers: vec!["dns-01"], ..Authority::default() };
    let mut ours = plan(&["a.test"]);
    ours.challenges = vec![ChallengeKind::Http01];
    let failure = issue(ours, &mut authority).0.expect_err("there is no challenge");
    assert_eq!(failure.cause, FailureCause::NoChallenge("a.test".to_owned()));
}

#[test]
fn external_accounts_are_bound_by_their_key() {
    let mut authority = Authority { meta: json!({"externalAccountRequired": true}), ..Authority::default() };
    let failure = issue(plan(&["a.test"]), &mut authority).0.expect_err("it wants one");
    assert_eq!(failure.cause, FailureCause::NeedsExternalAccount);
    let mut plan = plan(&["a.test"]);
    plan.external_account = ExternalAccount::new("kid-1", " c2VjcmV0LWtleQ== \n", MacAlgorithm::Hs256);
    assert!(issue(plan, &mut authority).0.is_ok());
    let account = authority.exchanges.iter().rfind(|one| one.path == "/account").expect("it was made");
    let binding = &account.payload["externalAccountBinding"];
    let decode = |name: &str| {
        use base64::Engine as _;
        let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(binding[name].as_str().expect("a text"));
        bytes.expect("base64url")
    };
    let header: Value = serde_json::from_slice(&decode("protected")).expect("JSON");
    assert_eq!(header, json!({"alg": "HS256", "kid": "kid-1", "url": "https://ca.test/account"}));
    let jwk: Value = serde_json::from_slice(&decode("payload")).expect("JSON");
    assert_eq!(jwk, account.header["jwk"]);
    let signed = format!(
        "{}.{}",
        binding["protected"].as_str().unwrap_or(""),
        binding["payload"].as_str().unwrap_or("")
    );
    let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, b"secret-key");
    aws_lc_rs::hmac::verify(&secret, signed.as_bytes(), &decode("signature"))
        .expect("it is signed by the key");
}

#[test]
fn a_forgotten_account_is_made_again() {
    let mut authority = Authority::default();
    let mut restored = plan(&["a.test"]);
    restored.account = Some("https://ca.test/account/99".to_owned());
    restored.changes_contact = true;
    restored.resumes = Some("https://ca.test/order/7".to_owned());
    let (result, _) = issue(restored, &mut authority);
    assert_eq!(result.expect("it is issued").account, "https://ca.test/account/1");
    assert_eq!(authority.paths()[..3], ["/account/99", "/account", "/order"]);
}

#[test]
fn an_interrupted_order_goes_on_or_begins_again() {
    for interrupted in 0..14 {
        let mut authority = Authority::default();
        let key = key();
        let mut ordering = Ordering::new(plan(&["a.test"]), Arc::clone(&key));
        for _ in 0..interrupted {
            match ordering.step() {
                OrderStep::Request(request) => {
                    let answer = authority.answer(&request).expect("it answers");
                    ordering.answered(&answer);
                }
                OrderStep::Publish(_) => ordering.published(Ok(())),
                OrderStep::MakeCsr => ordering.sign(b"lost"),
                OrderStep::Wait { .. } => ordering.waited(),
                OrderStep::Ended(_) => break,
            }
        }
        let mut second = plan(&["a.test"]);
        second.account = ordering.account().map(str::to_owned);
        second.resumes = ordering.url().map(str::to_owned);
        let (result, _) = run(&mut Ordering::new(second, key), &mut authority);
        assert!(result.is_ok(), "interrupted after {interrupted}: {result:?}");
    }
}

#[test]
fn replaced_certificates_and_profiles_are_named_in_orders() {
    let meta = json!({"profiles": {"shortlived": "six days", "classic": ""}});
    let mut authority = Authority { meta, ..Authority::default() };
    let mut ours = plan(&["a.test"]);
    (ours.profile, ours.replaces) = (Some("shortlived".to_owned()), Some("aki.serial".to_owned()));
    assert!(issue(ours.clone(), &mut authority).0.is_ok());
    let order = authority.exchanges.iter().find(|one| one.path == "/order").expect("it was ordered");
    assert_eq!(
        (&order.payload["profile"], &order.payload["replaces"]),
        (&json!("shortlived"), &json!("aki.serial"))
    );
    // An authority that does not like the former certificate gets an order without it.
    let mut refusals = 0;
    authority.script =
        AnswerScript::new(move |_, exchange, answer| match exchange.payload["replaces"].is_null() {
            true => Some(answer),
            false => {
                refusals += 1;
                assert_eq!(refusals, 1);
                Some(AcmeAnswer { replay_nonce: answer.replay_nonce, ..problem(409, "alreadyReplaced", "") })
            }
        });
    assert!(issue(ours.clone(), &mut authority).0.is_ok());
    ours.profile = Some("long".to_owned());
    assert_eq!(issue(ours, &mut authority).0.expect_err("unknown").cause, FailureCause::NoProfile);
}

#[test]
fn an_authority_that_works_for_ever_is_given_up() {
    for (pending, processing) in [(u32::MAX, 0), (0, u32::MAX)] {
        let mut authority = Authority { pending, processing, ..Authority::default() };
        let (result, seen) = issue(plan(&["a.test"]), &mut authority);
        assert_eq!(result.expect_err("it never ends").cause, FailureCause::TooSlow);
        assert!((MOST_WAITED - MOST_WAIT..=MOST_WAITED + MOST_WAIT).contains(&seen.waits.iter().sum()));
    }
}

/// Every answer is replaced by each of these once: the order ends, and never asks anybody else.
#[test]
fn an_authority_that_lies_in_any_answer_ends_the_order() {
    let lies = [
        document(200, json!([])),
        document(200, json!({})),
        document(200, json!({"status": "valid"})),
        document(200, json!({"status": "new", "authorizations": [], "finalize": "https://ca.test/x"})),
        document(
            201,
            json!({"status": "pending", "authorizations": ["http://evil.test/"], "finalize": "https://ca.test/x"}),
        ),
        document(
            200,
            json!({"status": "pending", "authorizations": vec!["https://ca.test/a"; 2_000], "finalize": "https://ca.test/x"}),
        ),
        document(
            200,
            json!({"status": "valid", "identifier": {"type": "dns", "value": "../../etc"}, "challenges": []}),
        ),
        document(
            200,
            json!({"status": "pending", "identifier": {"type": "dns", "value": "a.test"},
            "challenges": [{"type": "http-01", "url": "https://ca.test/c", "token": "../../etc/passwd"}]}),
        ),
        document(
            200,
            json!({"newNonce": "https://ca.test/\r\nHost: evil", "newAccount": "x", "newOrder": "y"}),
        ),
        document(204, json!(null)),
        document(302, json!({})),
        document(404, json!({"type": 5, "detail": [], "subproblems": {"a": 1}})),
        document(600, json!({})),
        AcmeAnswer { status: 200, body: vec![b'['; 300_000], ..AcmeAnswer::default() },
        AcmeAnswer {
            status: 200,
            body: b"\xff\xfe".to_vec(),
            replay_nonce: Some("bad nonce\r\n".to_owned()),
            ..AcmeAnswer::default()
        },
        AcmeAnswer {
            status: 201,
            location: Some("gopher://evil.test/".to_owned()),
            retry_after: Some(u64::MAX),
            ..AcmeAnswer::default()
        },
        AcmeAnswer { status: 503, retry_after: Some(u64::MAX), ..AcmeAnswer::default() },
    ];
    for lie in &lies {
        for at in 0..16 {
            let lie = lie.clone();
            let script = AnswerScript::new(move |number, _, answer| {
                Some(if number == at {
                    AcmeAnswer {
                        replay_nonce: lie.replay_nonce.clone().or(answer.replay_nonce),
                        ..lie.clone()
                    }
                } else {
                    answer
                })
            });
            let mut authority = Authority { script, pending: 1, processing: 1, ..Authority::default() };
            let (_, seen) = issue(plan(&["a.test"]), &mut authority);
            assert!(seen.requests < 60, "{} requests", seen.requests);
        }
    }
}
