//! Automatic updates of OCSP responses at run time (manual, "ocsp-update").
//!
//! ```text
//!   the keeper: sleeps until one is due ──► a task queries the responder ──► believed? ──► shown, logged, due again
//!       ▲  certificates changed                      │ at most a few at once                   │ no: logged, due after the least delay
//!       └────────────────────────────────────────────┴─────────────────────────────────────────┘
//! ```
//! A slow responder delays other updates only when [`MOST_AT_ONCE`] responders are slow. Updates by operators start immediately.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_cli::target::{Later, OcspUpdate};
use weir_client::{
    AnswerLimits, Client, Request, RequestFailure, RequestFields, RequestOutcome, RequestRoute, Url,
};
use weir_events::Level;
use weir_expr::{WallTime, time};
use weir_resolvers::Resolvers;
use weir_sched::{Class, TaskKey, Tick, WorkKind, caught, now, wait};
use weir_tls::LiveUpstream;
use weir_tls::ocsp::OcspResponse;

use super::LiveProcess;
use weir_assemble::{ClientPlan, LiveTls, RenewalFault, RenewalSubject};

/// All OCSP responses with automatic updates, and the results of these updates.
#[derive(Debug)]
pub struct OcspRenewals {
    /// The HTTP client for the requests.
    pub client: Arc<Client>,
    limits: AnswerLimits,
    delays: Delays,
    proxy: Option<SocketAddr>,
    state: Mutex<RenewalState>,
    /// Held during [`OcspRenewals::align`], which reads the certificates without holding the lock of `state`.
    aligning: Mutex<()>,
}

#[derive(Debug, Default)]
struct RenewalState {
    /// Scheduled updates, by the response's key in the runtime API.
    entries: BTreeMap<String, ScheduledRenewal>,
    /// Number of updates in progress.
    under_way: usize,
    /// The task that waits for the next due time.
    keeper: Option<TaskKey>,
    /// Whether certificates changed after the last alignment.
    is_stale: bool,
}

impl RenewalState {
    /// Starts the updates that are due, at most [`MOST_AT_ONCE`] in total. Also returns when the next is due, if more may start.
    fn take_due(&mut self, at: u64) -> (Vec<RenewalSubject>, Option<u64>) {
        let mut waiting: Vec<(u64, String)> = self
            .entries
            .values()
            .filter(|entry| !entry.is_under_way)
            .map(|entry| (entry.due, entry.subject.key.clone()))
            .collect();
        waiting.sort_unstable();
        let mut begun = Vec::new();
        for (due, key) in waiting {
            // The end of any update wakes the keeper task.
            let is_full = self.under_way >= MOST_AT_ONCE;
            if due > at || is_full {
                return (begun, (!is_full).then_some(due));
            }
            self.under_way += 1;
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.is_under_way = true;
                begun.push(entry.subject.clone());
            }
        }
        (begun, None)
    }
}

/// The bounds of the delay between two updates of a response, in seconds.
#[derive(Clone, Copy, Debug)]
struct Delays {
    least: u64,
    most: u64,
}

impl Delays {
    /// When the next update is due for a response that was renewed `at`: [`MARGIN`] before it expires, within the bounds.
    fn after(&self, good_until: Option<u64>, at: u64) -> u64 {
        let (soonest, latest) = (at.saturating_add(self.least), at.saturating_add(self.most));
        let ends = good_until.map_or(soonest, |ends| ends.saturating_sub(MARGIN));
        ends.clamp(soonest, latest.max(soonest))
    }
}

#[derive(Debug)]
struct ScheduledRenewal {
    subject: RenewalSubject,
    /// When the next update is due, in seconds since 1970.
    due: u64,
    is_under_way: bool,
    /// The time of the last renewal.
    renewed: Option<u64>,
    successes: u64,
    failures: u64,
    last: UpdateResult,
}

/// The result of an update: number and words of the manual, with details if available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UpdateResult {
    code: u8,
    detail: Option<String>,
}

impl UpdateResult {
    fn of(code: u8, detail: impl Into<Option<String>>) -> Self {
        UpdateResult { code, detail: detail.into() }
    }

    fn text(&self) -> String {
        let words = VERDICTS.get(usize::from(self.code)).copied().unwrap_or_default();
        match &self.detail {
            Some(detail) => format!("{words} ({})", detail.trim_end_matches('.')),
            None => words.to_owned(),
        }
    }
}

/// The results in the manual's words, indexed by result number.
const VERDICTS: [&str; 6] = [
    "Unknown",
    "Update successful",
    "HTTP error",
    "Missing \"ocsp-response\" header",
    "OCSP response check failure",
    "Error during insertion",
];
const SUCCESSFUL: u8 = 1;
const HTTP_ERROR: u8 = 2;
const NO_RESPONSE: u8 = 3;
const NOT_BELIEVED: u8 = 4;
const NOT_SHOWN: u8 = 5;

impl OcspRenewals {
    /// No scheduled updates. [`start`] starts the keeper.
    pub fn new(plan: &ClientPlan, tls: Option<Arc<LiveUpstream>>, resolvers: Arc<Resolvers>) -> Self {
        OcspRenewals {
            client: Arc::new(plan.client(tls, resolvers)),
            limits: plan.limits(),
            delays: Delays { least: plan.updates.least_delay.into(), most: plan.updates.most_delay.into() },
            proxy: plan.proxy,
            // Stale, so that the first `align` reads the certificates.
            state: Mutex::new(RenewalState { is_stale: true, ..RenewalState::default() }),
            aligning: Mutex::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, RenewalState> {
        lock(&self.state)
    }

    /// Marks the schedule as stale after a change of certificates, and wakes the keeper.
    fn note_change(&self) {
        let mut state = self.state();
        state.is_stale = true;
        let keeper = state.keeper;
        drop(state);
        keeper.into_iter().for_each(weir_sched::wake);
    }

    /// Adds and removes scheduled updates to match the current certificates.
    fn align(&self, tls: &LiveTls, at: u64) {
        align(&self.state, &self.aligning, &self.delays, || tls.renewed(), at);
    }

    /// Records the result of an update. Returns the numbers of failed and successful updates of this response.
    fn conclude(
        &self,
        subject: &RenewalSubject,
        verdict: &UpdateResult,
        good_until: Option<u64>,
        at: u64,
    ) -> (u64, u64) {
        let due = self.delays.after(good_until, at);
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(&subject.key) else {
            let is_good = verdict.code == SUCCESSFUL;
            return (u64::from(!is_good), u64::from(is_good));
        };
        if verdict.code == SUCCESSFUL {
            entry.successes += 1;
            entry.renewed = Some(at);
            entry.due = due;
            entry.subject.good_until = good_until;
        } else {
            entry.failures += 1;
            entry.due = at.saturating_add(self.delays.least);
        }
        entry.last = verdict.clone();
        (entry.failures, entry.successes)
    }

    /// Ends an update that the keeper started.
    fn end(&self, key: &str) {
        let mut state = self.state();
        state.under_way = state.under_way.saturating_sub(1);
        if let Some(entry) = state.entries.get_mut(key) {
            entry.is_under_way = false;
        }
        let keeper = state.keeper;
        drop(state);
        keeper.into_iter().for_each(weir_sched::wake);
    }

    /// The rows of `show ssl ocsp-updates`, ordered by due time. Available before the keeper runs.
    pub(super) fn list(&self, tls: &LiveTls) -> Vec<OcspUpdate> {
        self.align(tls, seconds());
        let state = self.state();
        let mut listed: Vec<&ScheduledRenewal> = state.entries.values().collect();
        listed.sort_by_key(|entry| entry.due);
        let view = |entry: &ScheduledRenewal| OcspUpdate {
            key: entry.subject.key.clone(),
            path: entry.subject.path.to_string(),
            due: entry.due,
            renewed: entry.renewed,
            successes: entry.successes,
            failures: entry.failures,
            code: entry.last.code,
            text: entry.last.text(),
        };
        listed.into_iter().map(view).collect()
    }

    /// Queries the responder.
    async fn query(&self, subject: &RenewalSubject) -> Result<(OcspRequest, RequestOutcome), UpdateResult> {
        let responder = subject.responder.as_deref().unwrap_or_default();
        let mut url =
            Url::parse(responder).map_err(|fault| UpdateResult::of(HTTP_ERROR, fault.to_string()))?;
        let (mut method, mut body) = ("GET", Vec::new());
        let in_path = subject.id.question_in_path();
        // A short OCSP request goes into the URL of a GET, where caches can use it (RFC 5019, 5).
        if responder.len() + 1 + in_path.len() <= LONGEST_GET {
            url = url.below(&in_path);
        } else {
            (method, body) = ("POST", subject.id.question());
        }
        let mut fields = RequestFields::default();
        if !body.is_empty() {
            let _ = fields.add(b"content-type", b"application/ocsp-request");
        }
        let proxy = self.proxy.filter(|_| !url.is_secure);
        let route = &proxy.map_or(RequestRoute::Host, RequestRoute::Proxy);
        let limits = self.limits;
        let request =
            Request { method, url: &url, route, fields: &fields, body: &body, limits, budget: None };
        let began_us = weir_sched::wall_us();
        let outcome = self.client.send(&request).await;
        Ok((OcspRequest { method, url, began_us }, outcome))
    }
}

/// An HTTP request that was sent.
struct OcspRequest {
    method: &'static str,
    url: Url,
    began_us: u64,
}

/// The OCSP response in the body of an answer with status 200. Any other answer is an error of the update.
fn response_of(outcome: &RequestOutcome) -> Result<&[u8], UpdateResult> {
    let answer = match &outcome.answer {
        Ok(answer) => answer,
        Err(failure) => {
            return Err(UpdateResult::of(HTTP_ERROR, failure.to_string()));
        }
    };
    let status = answer.head.head.status();
    if status != 200 {
        return Err(UpdateResult::of(HTTP_ERROR, format!("status {status}")));
    }
    let kind = answer.field(b"content-type").unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !kind.eq_ignore_ascii_case(b"application/ocsp-response") {
        return Err(UpdateResult::of(NO_RESPONSE, None));
    }
    Ok(&answer.body)
}

/// Adapts the schedule if certificates changed. Known responses keep their state. Concurrent callers wait: otherwise the keeper
/// would find nothing to do and sleep, and operators would see an empty list.
fn align(
    state: &Mutex<RenewalState>,
    aligning: &Mutex<()>,
    delays: &Delays,
    renewed: impl FnOnce() -> Vec<RenewalSubject>,
    at: u64,
) {
    let _aligning = lock(aligning);
    if !std::mem::take(&mut lock(state).is_stale) {
        return;
    }
    let renewed = renewed();
    let mut state = lock(state);
    let mut former = std::mem::take(&mut state.entries);
    for subject in renewed {
        let entry = match former.remove(&subject.key) {
            // An operator installed a new response, so reschedule by its expiry.
            Some(known) if known.subject.good_until != subject.good_until && !known.is_under_way => {
                ScheduledRenewal { due: delays.after(subject.good_until, at), subject, ..known }
            }
            Some(known) => ScheduledRenewal { subject, ..known },
            None => ScheduledRenewal {
                due: subject.good_until.map_or(at, |_| delays.after(subject.good_until, at)),
                subject,
                is_under_way: false,
                renewed: None,
                successes: 0,
                failures: 0,
                last: UpdateResult::default(),
            },
        };
        state.entries.insert(entry.subject.key.clone(), entry);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the keeper on the current worker.
pub fn start(live: &LiveProcess) {
    let (Some(updates), Some(tls)) = (&live.record.ocsp_updates, &live.record.tls) else { return };
    let watching = Arc::clone(updates);
    tls.watch(move || watching.note_change());
    weir_sched::spawn(&KEEPER, Class::Bulk, keep(live.clone(), Arc::clone(updates), Arc::clone(tls)));
}

async fn keep(live: LiveProcess, updates: Arc<OcspRenewals>, tls: Arc<LiveTls>) {
    updates.state().keeper = Some(weir_sched::current());
    loop {
        let at = seconds();
        updates.align(&tls, at);
        let (due, next) = updates.state().take_due(at);
        for subject in due {
            let (live, updates, tls) = (live.clone(), Arc::clone(&updates), Arc::clone(&tls));
            weir_sched::spawn(&UPDATE, Class::Bulk, async move {
                let _ = caught(renew(live, &updates, &tls, &subject)).await;
                updates.end(&subject.key);
            });
        }
        let sleep_ms = next.map(|next| next.saturating_sub(seconds()).max(1).saturating_mul(1000));
        wait(sleep_ms.map_or(Tick::NEVER, |ms| now().after(ms))).await;
    }
}

/// Updates one response. Returns the response now in use, or the reason for the failure.
async fn renew(
    live: LiveProcess,
    updates: &OcspRenewals,
    tls: &LiveTls,
    subject: &RenewalSubject,
) -> Result<OcspResponse, String> {
    let renewed = match updates.query(subject).await {
        Ok((exchange, outcome)) => {
            log_exchange(&live, &exchange, &outcome);
            response_of(&outcome).and_then(|der| {
                tls.renew(subject, der).map_err(|fault| match fault {
                    RenewalFault::NotBelieved(why) => UpdateResult::of(NOT_BELIEVED, why.to_owned()),
                    RenewalFault::NotShown(why) => UpdateResult::of(NOT_SHOWN, why),
                })
            })
        }
        Err(verdict) => Err(verdict),
    };
    let verdict = renewed.as_ref().err().cloned().unwrap_or(UpdateResult::of(SUCCESSFUL, None));
    let good_until = renewed.as_ref().ok().map(OcspResponse::good_until);
    let (failures, successes) = updates.conclude(subject, &verdict, good_until, seconds());
    let (code, text) = (verdict.code, verdict.text());
    let line = format!("<OCSP-UPDATE> {} {code} \"{text}\" {failures} {successes}", subject.path);
    log(&live, Level::Notice, &line);
    renewed.map_err(|verdict| verdict.text())
}

/// The result of an update or request by an operator.
struct RenewalResult(Arc<Mutex<Option<String>>>);

impl Later for RenewalResult {
    fn take(&mut self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Updates a response for an operator.
///
/// # Errors
/// The reason why the request cannot be sent.
pub(super) fn update_now(live: &LiveProcess, path: &str, task: TaskKey) -> Result<Box<dyn Later>, String> {
    let none = || "there are no certificates".to_owned();
    let tls = live.record.tls.clone().ok_or_else(none)?;
    let updates = live.record.ocsp_updates.clone().ok_or_else(none)?;
    let subject = tls.subject(path)?;
    let live = live.clone();
    Ok(in_background(task, async move {
        match caught(renew(live, &updates, &tls, &subject)).await {
            Ok(Ok(response)) => response.describe(),
            Ok(Err(why)) => format!("Can't update the OCSP response of '{}': {why}.\n", subject.path),
            Err(_) => "The update itself failed.\n".to_owned(),
        }
    }))
}

/// Runs `work` in a separate task, which wakes the operator's task when the result is ready.
pub(super) fn in_background(task: TaskKey, work: impl Future<Output = String> + 'static) -> Box<dyn Later> {
    let place = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&place);
    weir_sched::spawn(&UPDATE, Class::Bulk, async move {
        let text = work.await;
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        weir_sched::wake(task);
    });
    Box::new(RenewalResult(place))
}

/// Sends a request for an operator (manual, "httpclient"). The result is the response, verbatim.
///
/// # Errors
/// The reason why the request cannot be sent.
pub(super) fn request_now(
    live: &LiveProcess,
    method: &str,
    url: &str,
    task: TaskKey,
) -> Result<Box<dyn Later>, String> {
    let updates = live.record.ocsp_updates.clone().ok_or("the process serves nothing")?;
    if !weir_http::is_token(method.as_bytes()) {
        return Err("the method is not valid".to_owned());
    }
    let (method, url) = (method.to_owned(), Url::parse(url).map_err(|fault| fault.to_string())?);
    Ok(in_background(task, async move {
        let (route, fields, limits) = (&RequestRoute::Host, &RequestFields::default(), updates.limits);
        let request = Request { method: &method, url: &url, route, fields, body: b"", limits, budget: None };
        match updates.client.send(&request).await.answer {
            Ok(answer) => {
                let mut text = Vec::new();
                answer.head.write(&mut text);
                text.extend_from_slice(&answer.body);
                text.push(b'\n');
                String::from_utf8_lossy(&text).into_owned()
            }
            Err(failure) => format!("No answer: {failure}.\n"),
        }
    }))
}

/// Logs a failed request in the traffic log format. Successful requests are not logged.
fn log_exchange(live: &LiveProcess, exchange: &OcspRequest, outcome: &RequestOutcome) {
    let (status, bytes, state) = match &outcome.answer {
        Ok(answer) => match answer.head.head.status() {
            status @ 500.. => (status, answer.body.len(), "--"),
            _ => return,
        },
        Err(failure) => {
            let (status, state) = ending(*failure);
            (status, 0, state)
        }
    };
    let began = wall_time(exchange.began_us);
    let mut date = Vec::new();
    time::format(b"%d/%b/%Y:%H:%M:%S", began, &live.instance.identity.time_zone, &mut date);
    let connect = outcome.connect_ms.map_or(-1, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let line = format!(
        "-:- [{}.{:03}] <OCSP-UPDATE> -/- 0/0/{connect}/-1/{} {status} {bytes} - - {state}-- 0/0/0/0/{} 0/0 {{}} \"{} {} HTTP/1.1\"",
        String::from_utf8_lossy(&date),
        began.micros / 1000,
        outcome.total_ms,
        outcome.retries,
        exchange.method,
        exchange.url.absolute(),
    );
    log(live, Level::Info, &line);
}

fn wall_time(us: u64) -> WallTime {
    WallTime::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}

/// The status code and termination state that represent a failure in the log.
fn ending(failure: RequestFailure) -> (u16, &'static str) {
    match failure {
        RequestFailure::UnknownHost => (503, "LR"),
        RequestFailure::NoConnection(_) | RequestFailure::NoTls | RequestFailure::Handshake(_) => (503, "SC"),
        RequestFailure::NoConnectionInTime => (503, "sC"),
        RequestFailure::Broken(_) | RequestFailure::Cut => (502, "SH"),
        RequestFailure::NoAnswerInTime => (504, "sH"),
        RequestFailure::Malformed | RequestFailure::TooLarge => (502, "PH"),
        RequestFailure::NoMemory => (502, "PR"),
    }
}

fn log(live: &LiveProcess, level: Level, line: &str) {
    let sinks = &live.record.log_sinks;
    weir_stream::log::send_line(sinks, &live.record.log_tag, level, line.as_bytes());
}

fn seconds() -> u64 {
    weir_sched::wall_us() / 1_000_000
}

static KEEPER: WorkKind = WorkKind::new("OCSP keeper");
static UPDATE: WorkKind = WorkKind::new("OCSP update");
/// Maximum number of concurrent updates.
const MOST_AT_ONCE: usize = 8;
/// Time from the update of a response to its expiry, in seconds.
const MARGIN: u64 = 300;
/// Maximum length of a URL that contains the OCSP request (RFC 5019, 5).
const LONGEST_GET: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tls::ocsp::CertId;

    #[test]
    fn an_ocsp_response_is_renewed_before_it_expires_within_the_delays() {
        let delays = Delays { least: 300, most: 3600 };
        let check =
            |good_until, expected| assert_eq!(delays.after(good_until, 10_000), expected, "{good_until:?}");
        check(None, 10_300);
        check(Some(9_000), 10_300);
        check(Some(10_400), 10_300);
        check(Some(11_000), 10_700);
        check(Some(99_000), 13_600);
    }

    fn entry(number: usize, due: u64) -> (String, ScheduledRenewal) {
        let id = CertId { name_hash: [].into(), key_hash: [].into(), serial: [number as u8].into() };
        let key = format!("{number:02}");
        let subject = RenewalSubject {
            key: key.clone(),
            path: "a.pem".into(),
            id,
            issuer: Vec::new().into(),
            responder: None,
            good_until: None,
            is_renewed: true,
        };
        let last = UpdateResult::default();
        let entry = ScheduledRenewal {
            subject,
            due,
            is_under_way: false,
            renewed: None,
            successes: 0,
            failures: 0,
            last,
        };
        (key, entry)
    }

    fn keys(subjects: &[RenewalSubject]) -> Vec<&str> {
        subjects.iter().map(|subject| &*subject.key).collect()
    }

    #[test]
    fn ocsp_updates_start_in_due_time_order_a_few_at_a_time() {
        let entries = (0..12).map(|number| entry(number, 100 - number as u64)).chain([entry(20, 500)]);
        let mut state = RenewalState { entries: entries.collect(), ..RenewalState::default() };
        assert_eq!(state.take_due(80).1, Some(89));
        let (begun, next) = state.take_due(200);
        assert_eq!(keys(&begun), ["11", "10", "09", "08", "07", "06", "05", "04"]);
        assert_eq!((next, state.take_due(200).0.len()), (None, 0));
        state.under_way -= 6;
        let (begun, next) = state.take_due(200);
        assert_eq!((keys(&begun), next), (vec!["03", "02", "01", "00"], Some(500)));
    }

    #[test]
    fn a_second_caller_waits_while_the_ocsp_list_is_rebuilt() {
        let (state, aligning) =
            (Mutex::new(RenewalState { is_stale: true, ..RenewalState::default() }), Mutex::new(()));
        let delays = Delays { least: 300, most: 3600 };
        let seen = || lock(&state).entries.len();
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let first = || {
                align(
                    &state,
                    &aligning,
                    &delays,
                    || {
                        begun.send(()).expect("the second caller listens");
                        // The other thread reads the state during this time.
                        std::thread::sleep(std::time::Duration::from_millis(50));
                        vec![entry(1, 0).1.subject]
                    },
                    10,
                );
            };
            scope.spawn(first);
            has_begun.recv().expect("the first caller sends");
            align(&state, &aligning, &delays, Vec::new, 10);
            assert_eq!(seen(), 1);
        });
    }
}
