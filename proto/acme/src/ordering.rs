//! The engine of one order: from the directory to the chain of certificates.
//!
//! ```text
//!   Directory ─► Nonce ─► Account ─► [Contact] ─► CertificateOrder ─► Authorization, each ─► Publish ─► Trigger, each ─► Poll, each
//!                                                                                                               │
//!   Ended ◄── Chain ◄── PollOrder ◄── Finalize ◄── CSR ◄────────────────────────────────────────────────────────┘
//! ```
//! A state is named for the event that it awaits. Its driver takes the next [`OrderStep`], does it, and reports. A request that is
//! not answered, or answered with a server's error, is repeated after a while; one with a nonce that the authority refuses at once.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::account::AccountKey;
use crate::challenge::{Challenge, ChallengeKind};
use crate::documents::{Authorization, CertificateOrder, Directory, Status};
use crate::identifier::Identifier;
use crate::json::{Malformed, encode, is_url};
use crate::jws::{ExternalAccount, Signer, sign};
use crate::problem::AcmeProblem;

/// The subject and the means of an order.
#[derive(Clone, Debug)]
pub struct OrderPlan {
    /// The URL of the directory.
    pub directory: String,
    /// The names and addresses, at least one.
    pub identifiers: Vec<Identifier>,
    /// The kinds of challenges that can be answered, the preferred one first.
    pub challenges: Vec<ChallengeKind>,
    /// The mail addresses of the account.
    pub contact: Vec<String>,
    /// The URL of the account, if it is known.
    pub account: Option<String>,
    /// Whether the account has another contact.
    pub changes_contact: bool,
    pub external_account: Option<ExternalAccount>,
    pub profile: Option<String>,
    /// The identifier of the certificate that this one replaces ([`crate::renewal::certificate_id`]).
    pub replaces: Option<String>,
    /// The URL of an order that was begun.
    pub resumes: Option<String>,
}

/// The next work of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderStep {
    /// Send it. Then [`Ordering::answered`], or [`Ordering::unanswered`].
    Request(AcmeRequest),
    /// Make the answers of these challenges visible to the authority. Then [`Ordering::published`].
    Publish(Vec<Proof>),
    /// Make a certificate request for the identifiers. Then [`Ordering::sign`].
    MakeCsr,
    /// Then [`Ordering::waited`].
    Wait {
        seconds: u64,
    },
    Ended(Box<Result<Issued, OrderFailure>>),
}

/// A request of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeRequest {
    pub method: &'static str,
    pub url: String,
    /// JSON of a signature, with the content type `application/jose+json`. Empty unless the method is POST.
    pub body: String,
    pub accept: &'static str,
}

/// An answer of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcmeAnswer {
    pub status: u16,
    pub replay_nonce: Option<String>,
    pub location: Option<String>,
    /// `Retry-After`, in seconds from now.
    pub retry_after: Option<u64>,
    pub body: Vec<u8>,
}

/// A challenge to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Without the `*.` of a wildcard.
    pub identifier: Identifier,
    pub is_wildcard: bool,
    pub challenge: Challenge,
    /// The URL of the account, for records that persist.
    pub account: String,
}

/// The result of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// PEM: the certificate, and those between it and a root.
    pub chain: Vec<u8>,
    pub account: String,
}

/// Why an order failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderFailure {
    pub phase: OrderPhase,
    pub cause: FailureCause,
    /// After how many seconds the authority allows another try.
    pub retry_after: Option<u64>,
}

/// The cause of an [`OrderFailure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// No answer, several times.
    Unreachable,
    /// An answer with this status and error.
    Refused(u16, AcmeProblem),
    /// The authority could not verify control of this name.
    Unproven {
        identifier: String,
        kind: ChallengeKind,
        problem: AcmeProblem,
    },
    /// None of the authority's challenges for this name can be answered here.
    NoChallenge(String),
    Malformed(Malformed),
    /// The authority requires an external account.
    NeedsExternalAccount,
    /// The authority lacks the profile.
    NoProfile,
    /// It took too long.
    TooSlow,
    /// Random numbers are missing.
    Signature,
    /// The answers of challenges could not be made visible, for this reason.
    NotPublished(String),
}

/// The phase of an order, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPhase {
    Directory,
    Account,
    Order,
    Authorization,
    Challenge,
    Finalization,
    Certificate,
}

impl OrderPhase {
    /// The phase in a message.
    pub fn name(self) -> &'static str {
        match self {
            OrderPhase::Directory => "directory",
            OrderPhase::Account => "account",
            OrderPhase::Order => "order",
            OrderPhase::Authorization => "authorization",
            OrderPhase::Challenge => "challenge",
            OrderPhase::Finalization => "finalization",
            OrderPhase::Certificate => "certificate",
        }
    }
}

impl std::fmt::Display for OrderFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: ", self.phase.name())?;
        match &self.cause {
            FailureCause::Unreachable => formatter.write_str("the authority does not answer"),
            FailureCause::Refused(status, problem) => {
                write!(formatter, "the authority answered {status}, {problem}")
            }
            FailureCause::Unproven { identifier, kind, problem } => {
                write!(formatter, "{} failed for '{identifier}', {problem}", kind.name())
            }
            FailureCause::NoChallenge(identifier) => {
                write!(formatter, "the authority offers no usable challenge for '{identifier}'")
            }
            FailureCause::Malformed(malformed) => malformed.fmt(formatter),
            FailureCause::NeedsExternalAccount => formatter
                .write_str("the authority requires an external account ('eab-key-id' and 'eab-mac-key')"),
            FailureCause::NoProfile => formatter.write_str("the authority does not have this profile"),
            FailureCause::TooSlow => formatter.write_str("the authority takes too long"),
            FailureCause::Signature => formatter.write_str("the request could not be signed"),
            FailureCause::NotPublished(why) => {
                write!(formatter, "the challenge could not be prepared: {why}")
            }
        }
    }
}

/// An order in progress.
#[derive(Debug)]
pub struct Ordering {
    plan: OrderPlan,
    key: Arc<AccountKey>,
    stage: OrderStage,
    nonce: Option<String>,
    directory: Option<Directory>,
    account: Option<String>,
    /// The URL of the order.
    url: Option<String>,
    order: Option<CertificateOrder>,
    proofs: Vec<(String, Proof)>,
    csr: Option<String>,
    /// The wait before the current request.
    delay: Option<u64>,
    /// Repetitions of the current request: without an answer, with another nonce, and until the authority is ready.
    tries: u32,
    nonces: u32,
    polls: u32,
    /// The seconds of waits for the authority's work.
    waited: u64,
    /// Whether the authority forgot the account before.
    has_forgotten: bool,
    result: Option<Result<Issued, OrderFailure>>,
}

/// The event that an order awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrderStage {
    Directory,
    Account,
    Contact,
    Order,
    /// The answer of the order's URL, for one that was begun before.
    Resumed,
    Authorization(usize),
    Publish,
    Trigger(usize),
    Poll(usize),
    Csr,
    Finalize,
    PollOrder,
    Chain,
    Ended,
}

impl OrderStage {
    fn phase(self) -> OrderPhase {
        match self {
            OrderStage::Directory => OrderPhase::Directory,
            OrderStage::Account | OrderStage::Contact => OrderPhase::Account,
            OrderStage::Order | OrderStage::Resumed => OrderPhase::Order,
            OrderStage::Authorization(_) => OrderPhase::Authorization,
            OrderStage::Publish | OrderStage::Trigger(_) | OrderStage::Poll(_) => OrderPhase::Challenge,
            OrderStage::Csr | OrderStage::Finalize | OrderStage::PollOrder => OrderPhase::Finalization,
            OrderStage::Chain | OrderStage::Ended => OrderPhase::Certificate,
        }
    }
}

impl Ordering {
    /// An order that was not begun.
    pub fn new(plan: OrderPlan, key: Arc<AccountKey>) -> Self {
        Ordering {
            account: plan.account.clone(),
            url: plan.resumes.clone(),
            plan,
            key,
            stage: OrderStage::Directory,
            nonce: None,
            directory: None,
            order: None,
            proofs: Vec::new(),
            csr: None,
            delay: None,
            tries: 0,
            nonces: 0,
            polls: 0,
            waited: 0,
            has_forgotten: false,
            result: None,
        }
    }

    /// The URL of the order, once the authority has made it. An order that is interrupted goes on by [`OrderPlan::resumes`].
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The URL of the account, once it is known.
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// The phase, for people.
    pub fn phase(&self) -> OrderPhase {
        self.stage.phase()
    }

    /// The directory, once it is known.
    pub fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// What to do next. A call that is repeated before the driver reports returns the same step, with another signature.
    pub fn step(&mut self) -> OrderStep {
        if let Some(seconds) = self.delay {
            return OrderStep::Wait { seconds };
        }
        match self.stage {
            OrderStage::Publish => {
                OrderStep::Publish(self.proofs.iter().map(|(_, proof)| proof.clone()).collect())
            }
            OrderStage::Csr => OrderStep::MakeCsr,
            OrderStage::Ended => {
                let result = self.result.clone();
                OrderStep::Ended(Box::new(result.expect("an order that has ended has a result")))
            }
            _ => self.request().map_or_else(|cause| self.ended(cause), OrderStep::Request),
        }
    }

    fn ended(&mut self, cause: FailureCause) -> OrderStep {
        self.fail(cause, None);
        self.step()
    }

    /// The time of a wait has passed.
    pub fn waited(&mut self) {
        self.delay = None;
    }

    /// The answers of the challenges are visible, or not for this reason.
    pub fn published(&mut self, result: Result<(), String>) {
        if self.stage == OrderStage::Publish {
            match result {
                Ok(()) => self.enter(OrderStage::Trigger(0)),
                Err(why) => self.fail(FailureCause::NotPublished(why), None),
            }
        }
    }

    /// The certificate request, in DER (PKCS #10).
    pub fn sign(&mut self, csr: &[u8]) {
        if self.stage == OrderStage::Csr {
            self.csr = Some(encode(csr));
            self.enter(OrderStage::Finalize);
        }
    }

    /// A request was not answered.
    pub fn unanswered(&mut self) {
        self.try_again(FailureCause::Unreachable, None);
    }

    /// A request was answered.
    pub fn answered(&mut self, answer: &AcmeAnswer) {
        if matches!(self.stage, OrderStage::Publish | OrderStage::Csr | OrderStage::Ended) {
            return;
        }
        let had_nonce = self.nonce.take().is_some();
        self.nonce = answer.replay_nonce.clone().filter(|nonce| is_nonce(nonce));
        match answer.status {
            200..=299 if self.needs_nonce() && !had_nonce => self.accept_nonce(),
            200..=299 => match self.accept(answer) {
                Ok(()) => {}
                Err(cause) => self.fail(cause, answer.retry_after),
            },
            status => self.refused(status, answer),
        }
    }

    /// The answer of a request for a nonce.
    fn accept_nonce(&mut self) {
        if self.nonce.is_none() {
            self.fail(FailureCause::Malformed(Malformed("Replay-Nonce")), None);
        }
    }

    fn needs_nonce(&self) -> bool {
        self.stage != OrderStage::Directory
    }

    /// The next request.
    fn request(&self) -> Result<AcmeRequest, FailureCause> {
        let get = |method, url: &str| AcmeRequest {
            method,
            url: url.to_owned(),
            body: String::new(),
            accept: JSON,
        };
        let Some(directory) = &self.directory else { return Ok(get("GET", &self.plan.directory)) };
        let Some(nonce) = &self.nonce else { return Ok(get("HEAD", &directory.new_nonce)) };
        let (url, payload) = self.payload(directory);
        let signer = match (self.stage, &self.account) {
            (OrderStage::Account, _) | (_, None) => Signer::Key,
            (_, Some(account)) => Signer::Account(account),
        };
        let body = sign(&self.key, signer, nonce, url, &payload).map_err(|_| FailureCause::Signature)?;
        let accept = if self.stage == OrderStage::Chain { PEM } else { JSON };
        Ok(AcmeRequest { method: "POST", url: url.to_owned(), body, accept })
    }

    /// The URL and the payload of the current signed request. An empty payload reads.
    fn payload<'s>(&'s self, directory: &'s Directory) -> (&'s str, String) {
        let order = self.order.as_ref();
        let proof = |at: usize| self.proofs.get(at);
        let order_url = self.url.as_deref().unwrap_or_default();
        match self.stage {
            OrderStage::Account => (&directory.new_account, self.new_account(directory).to_string()),
            OrderStage::Contact => {
                (self.account.as_deref().unwrap_or_default(), json!({"contact": self.contact()}).to_string())
            }
            OrderStage::Order => (&directory.new_order, self.new_order().to_string()),
            OrderStage::Authorization(at) => {
                let url = order.and_then(|order| order.authorizations.get(at));
                (url.map_or("", String::as_str), String::new())
            }
            OrderStage::Trigger(at) => {
                (proof(at).map_or("", |(_, proof)| &*proof.challenge.url), "{}".to_owned())
            }
            OrderStage::Poll(at) => (proof(at).map_or("", |(url, _)| &**url), String::new()),
            OrderStage::Finalize => {
                let url = order.map_or("", |order| &*order.finalize);
                (url, json!({"csr": self.csr}).to_string())
            }
            OrderStage::Chain => {
                let url = order.and_then(|order| order.certificate.as_deref());
                (url.unwrap_or_default(), String::new())
            }
            _ => (order_url, String::new()),
        }
    }

    fn contact(&self) -> Vec<String> {
        self.plan.contact.iter().map(|mail| format!("mailto:{mail}")).collect()
    }

    fn new_account(&self, directory: &Directory) -> Value {
        let mut account = json!({"termsOfServiceAgreed": true});
        if !self.plan.contact.is_empty() {
            account["contact"] = json!(self.contact());
        }
        if let Some(external) = &self.plan.external_account {
            let binding = external.binding(&self.key, &directory.new_account);
            account["externalAccountBinding"] = serde_json::from_str(&binding).unwrap_or_default();
        }
        account
    }

    fn new_order(&self) -> Value {
        let mut order = json!({"identifiers": self.plan.identifiers.iter().map(Identifier::document).collect::<Vec<_>>()});
        if let Some(profile) = &self.plan.profile {
            order["profile"] = json!(profile);
        }
        if let Some(replaces) = &self.plan.replaces {
            order["replaces"] = json!(replaces);
        }
        order
    }

    /// Whether URLs of the authority must have TLS.
    fn is_secure(&self) -> bool {
        self.plan.directory.starts_with("https://")
    }

    /// A good answer of the current request.
    fn accept(&mut self, answer: &AcmeAnswer) -> Result<(), FailureCause> {
        let secure = self.is_secure();
        match self.stage {
            OrderStage::Directory => {
                let directory = Directory::read(&answer.body, secure)?;
                self.check(&directory)?;
                self.directory = Some(directory);
                let next = match (&self.account, self.plan.changes_contact) {
                    (None, _) => OrderStage::Account,
                    (Some(_), true) => OrderStage::Contact,
                    (Some(_), false) => self.order_stage(),
                };
                self.enter(next);
            }
            OrderStage::Account => {
                self.account = Some(self.location(answer)?);
                self.enter(self.order_stage());
            }
            OrderStage::Contact => self.enter(self.order_stage()),
            OrderStage::Order => {
                let order = CertificateOrder::read(&answer.body, secure)?;
                self.url = Some(self.location(answer)?);
                self.begin(order)?;
            }
            OrderStage::Resumed => {
                let order = CertificateOrder::read(&answer.body, secure)?;
                match order.status {
                    Status::Pending | Status::Ready => self.begin(order)?,
                    // The key of a certificate request that was sent is lost.
                    _ => self.order_anew(),
                }
            }
            OrderStage::Authorization(at) => self.accept_authorization(at, &answer.body)?,
            OrderStage::Trigger(at) if at + 1 < self.proofs.len() => self.enter(OrderStage::Trigger(at + 1)),
            OrderStage::Trigger(_) => self.enter(OrderStage::Poll(0)),
            OrderStage::Poll(at) => self.accept_poll(at, answer)?,
            OrderStage::Finalize | OrderStage::PollOrder => self.accept_order(answer)?,
            OrderStage::Chain => {
                let account = self.account.clone().unwrap_or_default();
                self.result = Some(Ok(Issued { chain: answer.body.clone(), account }));
                self.stage = OrderStage::Ended;
            }
            OrderStage::Publish | OrderStage::Csr | OrderStage::Ended => {}
        }
        Ok(())
    }

    /// The stage after the account: the order that was begun before, or a new one.
    fn order_stage(&self) -> OrderStage {
        if self.url.is_some() { OrderStage::Resumed } else { OrderStage::Order }
    }

    /// Whether the authority meets the plan.
    fn check(&self, directory: &Directory) -> Result<(), FailureCause> {
        let is_new = self.account.is_none();
        if is_new && directory.requires_external_account && self.plan.external_account.is_none() {
            return Err(FailureCause::NeedsExternalAccount);
        }
        match &self.plan.profile {
            Some(profile) if !directory.profiles.contains(profile) => Err(FailureCause::NoProfile),
            _ => Ok(()),
        }
    }

    fn location(&self, answer: &AcmeAnswer) -> Result<String, FailureCause> {
        let location = answer.location.as_deref().filter(|url| is_url(url, self.is_secure()));
        location.map(str::to_owned).ok_or(FailureCause::Malformed(Malformed("Location")))
    }

    /// Goes on with the order's authorizations.
    fn begin(&mut self, order: CertificateOrder) -> Result<(), FailureCause> {
        let (status, error) = (order.status, order.error.clone());
        self.order = Some(order);
        match status {
            Status::Pending => self.enter(OrderStage::Authorization(0)),
            Status::Ready => self.enter(OrderStage::Csr),
            _ => return Err(FailureCause::Refused(200, error.unwrap_or_default())),
        }
        Ok(())
    }

    /// Forgets the order, and makes another one.
    fn order_anew(&mut self) {
        (self.url, self.order) = (None, None);
        self.proofs.clear();
        self.enter(OrderStage::Order);
    }

    fn accept_authorization(&mut self, at: usize, body: &[u8]) -> Result<(), FailureCause> {
        let authorization = Authorization::read(body, self.is_secure())?;
        match authorization.status {
            Status::Valid => {}
            Status::Pending => self.choose(at, authorization)?,
            _ => return Err(unproven(&authorization)),
        }
        let count = self.order.as_ref().map_or(0, |order| order.authorizations.len());
        self.enter(match at + 1 < count {
            true => OrderStage::Authorization(at + 1),
            false if self.proofs.is_empty() => OrderStage::PollOrder,
            false => OrderStage::Publish,
        });
        Ok(())
    }

    /// Chooses a challenge of an authorization.
    fn choose(&mut self, at: usize, authorization: Authorization) -> Result<(), FailureCause> {
        let Authorization { identifier, is_wildcard, challenges, .. } = authorization;
        let find = |kind: &ChallengeKind| {
            let is_usable = kind.proves(&identifier, is_wildcard);
            challenges.iter().find(|challenge| is_usable && challenge.kind == *kind)
        };
        let found = self.plan.challenges.iter().find_map(find);
        let challenge = found.cloned().ok_or_else(|| FailureCause::NoChallenge(identifier.text()))?;
        let url =
            self.order.as_ref().and_then(|order| order.authorizations.get(at)).cloned().unwrap_or_default();
        let account = self.account.clone().unwrap_or_default();
        self.proofs.push((url, Proof { identifier, is_wildcard, challenge, account }));
        Ok(())
    }

    fn accept_poll(&mut self, at: usize, answer: &AcmeAnswer) -> Result<(), FailureCause> {
        let authorization = Authorization::read(&answer.body, self.is_secure())?;
        match authorization.status {
            Status::Pending => return self.wait_for_authority(answer),
            Status::Valid if at + 1 < self.proofs.len() => self.enter(OrderStage::Poll(at + 1)),
            Status::Valid => self.enter(OrderStage::PollOrder),
            _ => return Err(unproven(&authorization)),
        }
        Ok(())
    }

    fn accept_order(&mut self, answer: &AcmeAnswer) -> Result<(), FailureCause> {
        let order = CertificateOrder::read(&answer.body, self.is_secure())?;
        let (status, error, has_chain) = (order.status, order.error.clone(), order.certificate.is_some());
        let has_finalized = self.csr.is_some();
        self.order = Some(order);
        match status {
            Status::Ready if !has_finalized => self.enter(OrderStage::Csr),
            Status::Valid if has_finalized && has_chain => self.enter(OrderStage::Chain),
            Status::Valid => return Err(FailureCause::Malformed(Malformed("certificate"))),
            Status::Pending | Status::Processing | Status::Ready => {
                self.stage = OrderStage::PollOrder;
                return self.wait_for_authority(answer);
            }
            _ => return Err(FailureCause::Refused(200, error.unwrap_or_default())),
        }
        Ok(())
    }

    /// The authority works: asks it again after a while.
    fn wait_for_authority(&mut self, answer: &AcmeAnswer) -> Result<(), FailureCause> {
        let seconds = answer.retry_after.unwrap_or(1 << self.polls.min(5)).clamp(1, MOST_WAIT);
        (self.tries, self.nonces) = (0, 0);
        self.polls += 1;
        self.waited += seconds;
        if self.waited > MOST_WAITED {
            return Err(FailureCause::TooSlow);
        }
        self.delay = Some(seconds);
        Ok(())
    }

    /// An answer with an error.
    fn refused(&mut self, status: u16, answer: &AcmeAnswer) {
        let problem = AcmeProblem::read(&answer.body);
        if problem.is_bad_nonce() && self.nonces < MOST_NONCES {
            // The answer has another nonce, or the next request gets one.
            self.nonces += 1;
            return;
        }
        if problem.is_unknown_account() && !self.has_forgotten && self.stage != OrderStage::Account {
            self.has_forgotten = true;
            (self.account, self.url) = (None, None);
            return self.enter(OrderStage::Account);
        }
        match self.stage {
            // The state of the order is in its document.
            OrderStage::Finalize if problem.kind == "orderNotReady" => {
                return self.enter(OrderStage::PollOrder);
            }
            // Whatever is wrong with the order of yesterday or with the former certificate, a new one does without.
            OrderStage::Resumed if status < 500 => return self.order_anew(),
            OrderStage::Order if self.plan.replaces.is_some() && status < 500 && !problem.is_rate_limit() => {
                self.plan.replaces = None;
                return;
            }
            _ => {}
        }
        let cause = FailureCause::Refused(status, problem);
        if status >= 500 {
            self.try_again(cause, answer.retry_after)
        } else {
            self.fail(cause, answer.retry_after)
        }
    }

    /// Repeats the request after a while, a few times.
    fn try_again(&mut self, cause: FailureCause, retry_after: Option<u64>) {
        if self.tries >= MOST_TRIES || retry_after.is_some_and(|seconds| seconds > MOST_WAIT) {
            return self.fail(cause, retry_after);
        }
        self.delay = Some(retry_after.unwrap_or(1 << self.tries).max(1));
        self.tries += 1;
        // It may be used up.
        self.nonce = None;
    }

    fn fail(&mut self, cause: FailureCause, retry_after: Option<u64>) {
        self.result = Some(Err(OrderFailure { phase: self.stage.phase(), cause, retry_after }));
        (self.stage, self.delay) = (OrderStage::Ended, None);
    }

    fn enter(&mut self, stage: OrderStage) {
        self.stage = stage;
        (self.tries, self.nonces, self.polls) = (0, 0, 0);
    }
}

impl From<Malformed> for FailureCause {
    fn from(malformed: Malformed) -> Self {
        FailureCause::Malformed(malformed)
    }
}

/// Why an authorization is not valid.
fn unproven(authorization: &Authorization) -> FailureCause {
    let failed = authorization.challenges.iter().find(|challenge| challenge.error.is_some());
    let failed = failed.or(authorization.challenges.first());
    FailureCause::Unproven {
        identifier: authorization.identifier.text(),
        kind: failed.map_or(ChallengeKind::Http01, |challenge| challenge.kind),
        problem: failed.and_then(|challenge| challenge.error.clone()).unwrap_or_default(),
    }
}

/// RFC 8555, section 6.5.1.
fn is_nonce(text: &str) -> bool {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MOST_NONCE).contains(&text.len()) && text.bytes().all(is_character)
}

const JSON: &str = "application/json";
const PEM: &str = "application/pem-certificate-chain";
/// The longest nonce in bytes.
const MOST_NONCE: usize = 512;
/// How often a request is repeated with another nonce. Pebble refuses one of twenty.
const MOST_NONCES: u32 = 8;
/// How often a request is repeated without an answer, or after a server's error.
const MOST_TRIES: u32 = 5;
/// The longest wait between two requests, in seconds.
const MOST_WAIT: u64 = 300;
/// The longest time that an authority may work on an order, in seconds.
const MOST_WAITED: u64 = 3600;

#[cfg(test)]
mod tests;
