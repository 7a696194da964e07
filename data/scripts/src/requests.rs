//! The requests of scripts (`core.httpclient`).
//!
//! A request runs in a task of its own, which ends with the wait of its script.

use std::sync::{Arc, Mutex, PoisonError};

use weir_client::{
    AnswerLimits, ByteBudget, Client, HttpAnswer, Request, RequestFailure, RequestFields, RequestRoute, Url,
};
use weir_http::pages::BuiltInResponse;
use weir_lua::{LuaStack, Misuse};
use weir_sched::{Class, TaskKey, Tick, WorkKind};

use crate::held::HeldBytes;
use crate::wait::{ScriptJob, ScriptReply};

/// A request of a script that was not sent yet.
#[derive(Debug)]
pub(crate) struct ScriptRequest {
    pub method: &'static str,
    pub url: Url,
    pub route: RequestRoute,
    pub fields: RequestFields,
    pub body: Vec<u8>,
    pub limits: AnswerLimits,
}

/// Sends a request, and waits for its response.
pub(crate) struct RequestJob {
    /// The client and the request, until the task runs.
    to_send: Option<(Arc<Client>, ScriptRequest, HeldBytes)>,
    outcome: Arc<OutcomeSlot>,
    task: TaskKey,
    limit: usize,
}

/// The place where the task leaves the outcome.
type OutcomeSlot = Mutex<Option<Result<ScriptReply, RequestFailure>>>;

impl RequestJob {
    pub(crate) fn new(client: Arc<Client>, request: ScriptRequest, held: HeldBytes) -> Self {
        let limit = request.limits.bytes;
        RequestJob {
            to_send: Some((client, request, held)),
            outcome: Arc::default(),
            task: TaskKey::NONE,
            limit,
        }
    }
}

impl ScriptJob for RequestJob {
    fn advance(&mut self) -> Option<Tick> {
        if let Some((client, request, held)) = self.to_send.take() {
            let reporter =
                ResponseReporter { slot: Arc::clone(&self.outcome), waiter: weir_sched::current() };
            self.task = weir_sched::spawn(&REQUEST, Class::Normal, async move {
                let ScriptRequest { method, url, route, fields, body, limits } = &request;
                let budget: Option<&dyn ByteBudget> = Some(&held);
                let request = Request { method, url, route, fields, body, limits: *limits, budget };
                let outcome = client.send(&request).await;
                reporter.report(outcome.answer.map(reply_of));
            });
        }
        lock(&self.outcome).is_none().then_some(Tick::NEVER)
    }

    fn finish(self: Box<Self>, stack: &LuaStack<'_>) -> Result<(), Misuse> {
        match lock(&self.outcome).take().unwrap_or(Err(RequestFailure::Cut)) {
            Ok(reply) => push_reply(stack, &reply),
            Err(RequestFailure::TooLarge) => {
                let limit = self.limit;
                return Err(Misuse::text(format!("httpclient: the response is larger than {limit} bytes")));
            }
            Err(RequestFailure::NoMemory) => return Err(Misuse::text("not enough memory")),
            Err(failure) => push_failure(stack, failure),
        }
        Ok(())
    }
}

impl Drop for RequestJob {
    fn drop(&mut self) {
        weir_sched::kill(self.task);
    }
}

/// Reports the outcome. A failure if the task is killed.
struct ResponseReporter {
    slot: Arc<OutcomeSlot>,
    waiter: TaskKey,
}

impl ResponseReporter {
    fn report(self, outcome: Result<ScriptReply, RequestFailure>) {
        *lock(&self.slot) = Some(outcome);
    }
}

impl Drop for ResponseReporter {
    fn drop(&mut self) {
        lock(&self.slot).get_or_insert(Err(RequestFailure::Cut));
        weir_sched::wake(self.waiter);
    }
}

fn lock(slot: &OutcomeSlot) -> std::sync::MutexGuard<'_, Option<Result<ScriptReply, RequestFailure>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The response for the script. Fields of the connection are not part of it.
fn reply_of(answer: HttpAnswer) -> ScriptReply {
    let (head, raw) = (&answer.head.head, answer.head.bytes());
    let fields = head.fields(raw).filter(|(name, _)| !name.eq_ignore_ascii_case(b"connection"));
    ScriptReply {
        status: head.status(),
        reason: Some(head.reason(raw).to_vec()),
        headers: fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect(),
        body: answer.body,
    }
}

/// Pushes the response to a request that failed: that of a proxy to its client.
pub(crate) fn push_failure(stack: &LuaStack<'_>, failure: RequestFailure) {
    let status = match failure {
        RequestFailure::UnknownHost
        | RequestFailure::NoConnection(_)
        | RequestFailure::NoConnectionInTime
        | RequestFailure::NoTls
        | RequestFailure::Handshake(_) => 503,
        RequestFailure::NoAnswerInTime => 504,
        RequestFailure::Broken(_)
        | RequestFailure::Cut
        | RequestFailure::Malformed
        | RequestFailure::TooLarge
        | RequestFailure::NoMemory => 502,
    };
    push_page(stack, status, failure == RequestFailure::UnknownHost);
}

/// Pushes a response of the process itself.
fn push_page(stack: &LuaStack<'_>, status: u16, is_empty: bool) {
    let Some(page) = BuiltInResponse::of(status) else { return stack.push_nil() };
    let mut reply = ScriptReply { status, reason: Some(page.reason.into()), ..ScriptReply::default() };
    let mut add = |name: &str, value: &str| reply.headers.push((name.into(), value.into()));
    if !is_empty {
        page.write_body(&mut reply.body);
        add("cache-control", "no-cache");
        add("content-type", "text/html");
    }
    add("content-length", &reply.body.len().to_string());
    push_reply(stack, &reply);
}

/// Pushes the table of a response: its values of a header begin at index 0.
fn push_reply(stack: &LuaStack<'_>, reply: &ScriptReply) {
    stack.push_table(0, 4);
    stack.push_integer(reply.status.into());
    stack.set_field(b"status");
    stack.push_bytes(reply.reason.as_deref().unwrap_or_default());
    stack.set_field(b"reason");
    stack.push_bytes(&reply.body);
    stack.set_field(b"body");
    let mut headers: Vec<&(Vec<u8>, Vec<u8>)> = reply.headers.iter().collect();
    headers.sort_by_key(|(name, _)| name);
    stack.push_table(0, headers.len());
    for of_name in headers.chunk_by(|(one, _), (other, _)| one == other) {
        stack.push_table(0, 1);
        for (index, (_, value)) in of_name.iter().enumerate() {
            stack.push_bytes(value);
            stack.set_index(index as i64);
        }
        stack.set_field(&of_name[0].0);
    }
    stack.set_field(b"headers");
}

static REQUEST: WorkKind = WorkKind::new("Lua HTTP request");
