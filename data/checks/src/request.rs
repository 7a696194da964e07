//! HTTP requests of checks.

use weir_backend::server::weight;
use weir_backend::{OperationalState, ServerAddress};
use weir_http::Method;
use weir_model::{CheckAction, CheckRule, HttpRequest};
use weir_sched::now;

use crate::attempt::Attempt;
use crate::context::CheckContext;
use crate::expected::render;
use crate::form::RequestForm;
use crate::process_view::ProcessView;
use crate::script::HTTP_1_1;

/// The properties of a request.
pub(crate) struct RequestFacts {
    pub(crate) method: Method,
    /// Whether the server may keep the connection open.
    pub(crate) persists: bool,
}

/// Makes a request. Missing parts have the manual's defaults ("http-check send"). With `keeps` the server may keep the
/// connection open, unless the request has its own `Connection` field.
pub(crate) fn make(
    said: &HttpRequest,
    state: Option<&str>,
    keeps: bool,
    context: &mut CheckContext<'_>,
    out: &mut impl RequestForm,
) -> RequestFacts {
    let method = said.method.as_deref().unwrap_or(b"OPTIONS");
    let version = said.version.as_deref().unwrap_or(b"HTTP/1.0");
    let uri = said.uri.as_ref().map(|uri| render(uri, context)).filter(|uri| !uri.is_empty());
    let uri = uri.unwrap_or_else(|| b"/".to_vec());
    let body = said.body.as_ref().map(|body| render(body, context));
    out.begin(method, &uri, version);
    let is_recent = version == HTTP_1_1;
    let (mut says_connection, mut persists) = (false, is_recent && keeps);
    for (name, format) in &said.headers {
        let mut value = Vec::new();
        format.render(context, &mut value);
        // Removes line breaks and zero bytes, so a value cannot begin a new line.
        value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        if **name == *b"connection" {
            says_connection = true;
            persists = is_recent && value.eq_ignore_ascii_case(b"keep-alive");
            if persists {
                continue;
            }
        }
        out.field(name, &value);
    }
    if let Some(state) = state {
        out.field(b"x-haproxy-server-state", state.as_bytes());
    }
    let method = Method::from_bytes(method);
    let sends_content = !matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Delete | Method::Trace | Method::Connect
    );
    if body.is_some() || sends_content {
        out.field(b"content-length", body.as_ref().map_or(0, Vec::len).to_string().as_bytes());
    }
    if is_recent && !persists && !says_connection {
        out.field(b"connection", b"close");
    }
    out.end(body.as_deref().unwrap_or_default());
    RequestFacts { method, persists }
}

/// The host of the next request on this connection, without its port. `None` for an IP address.
pub(crate) fn host(following: &[CheckRule], context: &mut CheckContext<'_>) -> Option<Vec<u8>> {
    let on_this_connection =
        following.iter().take_while(|rule| !matches!(rule.action, CheckAction::Connect(_)));
    let request = on_this_connection.into_iter().find_map(|rule| match &rule.action {
        CheckAction::SendHttp(request) => Some(request),
        _ => None,
    })?;
    let (_, format) = request.headers.iter().find(|(name, _)| **name == *b"host")?;
    let mut value = Vec::new();
    format.render(context, &mut value);
    weir_tls::host_name(&value).map(<[u8]>::to_vec)
}

/// The server's state for `http-check send-state`.
pub(crate) fn state(attempt: &Attempt<'_>, view: &dyn ProcessView) -> String {
    let (server, backend) = (attempt.server, &attempt.plan.backend);
    let now_ms = now().as_ms();
    let word = match server.operational_state(now_ms) {
        OperationalState::Stopped => "DOWN",
        OperationalState::Stopping => "NOLB",
        OperationalState::Starting | OperationalState::Running => "UP",
    };
    let (step, steps, is_up) = attempt.check.progress();
    let progress =
        if step < steps && (is_up || step > 0) { format!(" {step}/{steps}") } else { String::new() };
    let (address, port) = match &*server.address() {
        ServerAddress::Inet { ip: Some(ip), port } => (ip.to_string(), port.number().to_string()),
        _ => ("unix".to_owned(), "unix".to_owned()),
    };
    // The weight is reported even if the server currently takes no visitors.
    let weight = weight::displayed(weight::effective(server.user_weight(), server.ramp(now_ms)));
    let total: u32 = backend.servers().iter().map(|server| server.served()).sum();
    format!(
        "{word}{progress}; address={address}; port={port}; name={}/{}; node={}; weight={weight}/{}; scur={}/{total}; qcur={}",
        backend.name(),
        server.name(),
        view.node(),
        backend.status(now_ms).weight,
        server.served(),
        server.queued()
    )
}
