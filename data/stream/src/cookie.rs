//! Cookie persistence: finds the server that a client returns to, and sets the cookie.
//!
//! There are two cookies. The HTTP cookie is read, edited and written as `weir_backend::persistence` decides. This file handles the
//! messages, the rules and the chosen server. The RDP cookie is only read.
//!
//! The response needs the state of the request's cookie. It is kept as the log letter. The cookie's dates may have been removed from
//! the forwarded request, but are still in the request's original bytes.

use weir_backend::{
    Backend, CookieEdit, CookieRules, PresentedCookie, PresentedState, ResponseFacts, ServerAddress,
    ServerKey,
};
use weir_http::{Head, KnownName, Method, NoRoom, ValueEdit, received_lines};
use weir_model::CookieMode;

use crate::caching::Caching;
use crate::errors::MessageDirection;
use crate::stream::Stream;
use weir_vocabulary::fetch::rdp;

/// The usable server that the client's cookie designates, and whether redispatch to other servers is forbidden (`force-persist`).
pub(crate) fn designated(stream: &mut Stream) -> (Option<ServerKey>, bool) {
    if stream.backend.servers().settings().cookie.is_none() || !stream.request.is_known() {
        return designated_by_token(stream);
    }
    designated_by_cookie(stream)
}

fn designated_by_cookie(stream: &mut Stream) -> (Option<ServerKey>, bool) {
    let proxy = stream.backend.proxy().clone();
    let backend = proxy.servers();
    let Some(settings) = &backend.settings().cookie else { return (None, false) };
    let rule = persist_rule(stream);
    let forced = rule == Some(PersistOverride::Force);
    let stays = backend.settings().persist || forced;
    let mut presented = examine(stream, settings, stays);
    if rule == Some(PersistOverride::Ignore) {
        presented = presented.unused();
    }
    note_request(stream, settings, &presented);
    (presented.server, forced)
}

/// Called when a `use-server` rule designated the server. The cookie is not used, but otherwise handled as usual (manual,
/// "use-server").
pub(crate) fn overrule(stream: &mut Stream) {
    stream.choice.overruled = true;
    let proxy = stream.backend.proxy().clone();
    let cookie = proxy.servers().settings().cookie.as_ref();
    if let Some(settings) = cookie.filter(|_| stream.request.is_known()) {
        let presented = examine(stream, settings, false).unused();
        note_request(stream, settings, &presented);
    }
}

/// Called when the designated server cannot be used. For the log and the response it counts as down.
pub(crate) fn lose_server(stream: &mut Stream) {
    let letter = &mut stream.choice.cookie_letters[0];
    if state_of(*letter) == PresentedState::Valid {
        *letter = PresentedState::Down.letter() as u8;
    }
}

/// Examines the cookies of a refused request, for the log.
pub(crate) fn on_refused(stream: &mut Stream) {
    stream.log_line().capture_request_cookie();
    if stream.backend.backend.as_ref().is_some_and(|backend| backend.settings().cookie.is_some()) {
        (stream.choice.last, _) = designated(stream);
    }
}

/// The cookie letters of the termination code. "No cookie" until a request was examined.
pub(crate) fn logged_letters(stream: &Stream) -> [u8; 2] {
    let cookie = stream.backend.backend.as_ref().and_then(|backend| backend.settings().cookie.as_ref());
    let concerned =
        stream.request.is_known() && cookie.is_some_and(|cookie| cookie.mode != CookieMode::Passive);
    let unless_looked_at = if concerned { b'N' } else { b'-' };
    stream.choice.cookie_letters.map(|letter| if letter == b'-' { unless_looked_at } else { letter })
}

/// Whether a server may be used while it is down (manual, "option persist", "force-persist").
pub(crate) fn wants_servers_that_are_down(stream: &mut Stream) -> bool {
    stream.backend.servers().settings().persist || persist_rule(stream) == Some(PersistOverride::Force)
}

fn note_request(stream: &mut Stream, settings: &CookieRules, presented: &PresentedCookie) {
    stream.choice.cookie_letters = letters(settings, presented, None);
    // A request without room for the edit keeps the cookie, and the server sees it. This is harmless.
    let _ = edit_request(stream, settings);
}

/// Sets the persistence cookie in the response.
pub(crate) fn on_response(stream: &mut Stream) {
    if stream.backend.servers().settings().cookie.is_some() {
        let proxy = stream.backend.proxy().clone();
        let settings = proxy.servers().settings().cookie.as_ref();
        settings.into_iter().for_each(|settings| set_cookie(stream, settings));
    }
}

fn set_cookie(stream: &mut Stream, settings: &CookieRules) {
    let presented = presented_before(stream, settings);
    let overruled = is_overruled(stream);
    let head = &stream.response.message.head;
    let provided =
        head.lines(stream.response.message.bytes(), SET_COOKIE).any(|line| settings.is_set_by(line));
    let server_cookie = stream.server.lease.as_ref().and_then(|lease| lease.server().cookie());
    let facts = ResponseFacts {
        server_cookie: server_cookie.as_ref().map(|cookie| cookie.as_str()),
        designated: presented.server.is_some() || overruled,
        post: stream.request.message.head.method() == Method::Post,
        provided,
        wall_seconds: wall_seconds(),
    };
    let plan = settings.plan_response(&presented, &facts);
    stream.choice.cookie_letters = letters(settings, &presented, Some(&plan));
    // A response without room for the edit is sent without the cookie. The client's next request is then balanced again.
    let _ = edit_response(stream, settings, &plan, provided);
}

/// The rules `force-persist` and `ignore-persist`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PersistOverride {
    Force,
    Ignore,
}

/// The kind of the first rule that applies.
fn persist_rule(stream: &mut Stream) -> Option<PersistOverride> {
    if stream.backend.config.persist_rules.is_empty() {
        return None;
    }
    let proxy = stream.backend.proxy().clone();
    let applies = proxy.config.persist_rules.iter().find(|rule| stream.holds(&rule.condition))?;
    Some(if applies.force { PersistOverride::Force } else { PersistOverride::Ignore })
}

fn examine(stream: &Stream, settings: &CookieRules, stays: bool) -> PresentedCookie {
    let head = &stream.request.message.head;
    let lines = head.lines(stream.request.message.bytes(), COOKIE);
    let backend = stream.backend.servers();
    settings.examine(lines, wall_seconds(), stays, |value| by_cookie(backend, value))
}

fn by_cookie(backend: &Backend, value: &str) -> Option<(ServerKey, bool)> {
    backend.look_at_cookie(value, |server| (server.key(), server.is_up()))
}

/// Whether a rule took precedence over the cookie. The client then keeps its cookie.
fn is_overruled(stream: &mut Stream) -> bool {
    if stream.choice.overruled {
        return !stream.choice.redispatched;
    }
    if stream.choice.designation.is_persistent() || stream.backend.config.persist_rules.is_empty() {
        return false;
    }
    // The conditions of these rules refer to the request, so they are evaluated as request rules.
    let processed = std::mem::replace(&mut stream.rules.processed, MessageDirection::Request);
    let ignores = persist_rule(stream) == Some(PersistOverride::Ignore);
    stream.rules.processed = processed;
    ignores
}

/// The state of the request's cookie, recovered for the response.
fn presented_before(stream: &Stream, settings: &CookieRules) -> PresentedCookie {
    let state = state_of(stream.choice.cookie_letters[0]);
    let mut presented = PresentedCookie::NONE;
    if stream.choice.overruled {
        presented.state = state;
        return presented;
    }
    if state == PresentedState::Valid {
        let message = &stream.request.message;
        let lines = received_lines(message.head.raw_bytes(message.bytes()), COOKIE);
        let backend = stream.backend.servers();
        presented = settings.examine(lines, wall_seconds(), true, |value| by_cookie(backend, value));
    }
    presented.state = state;
    if !stream.choice.designation.is_persistent() || stream.choice.redispatched {
        return presented.redispatched();
    }
    presented.server = stream.server.lease.as_ref().map(|lease| lease.server().key());
    presented
}

fn state_of(letter: u8) -> PresentedState {
    match letter {
        b'I' => PresentedState::Invalid,
        b'D' => PresentedState::Down,
        b'V' => PresentedState::Valid,
        b'E' => PresentedState::Expired,
        b'O' => PresentedState::Old,
        b'U' => PresentedState::Unused,
        _ => PresentedState::None,
    }
}

/// Removes the cookie, or its prefix, from the request. The server does not need it.
fn edit_request(stream: &mut Stream, settings: &CookieRules) -> Result<(), NoRoom> {
    let edits = settings.mode == CookieMode::Prefix || settings.indirect;
    if !edits {
        return Ok(());
    }
    let (head, raw) = stream.request.message.edit();
    edit_fields(head, raw, KnownName::Cookie, |line| settings.edit_request(line))
}

fn edit_response(
    stream: &mut Stream,
    settings: &CookieRules,
    plan: &weir_backend::ResponsePlan,
    provided: bool,
) -> Result<(), NoRoom> {
    let method = stream.request.message.head.method();
    let (head, raw) = stream.response.message.edit();
    // A cache would give the cookie to other clients (manual, "cookie", `nocache`).
    let cached = plan.private && Caching::of(method, head, raw).keeps();
    if provided {
        edit_fields(head, raw, KnownName::SetCookie, |line| settings.edit_response(plan, line))?;
    }
    if let Some(value) = &plan.set_cookie {
        head.add(SET_COOKIE, value.as_bytes())?;
    }
    if cached {
        head.add(b"cache-control", b"private")?;
    }
    Ok(())
}

fn edit_fields(
    head: &mut Head,
    raw: &[u8],
    name: KnownName,
    edit: impl Fn(&[u8]) -> CookieEdit,
) -> Result<(), NoRoom> {
    head.edit_values(raw, name, |value| match edit(value) {
        CookieEdit::Keep => ValueEdit::Keep,
        CookieEdit::Remove => ValueEdit::Remove,
        CookieEdit::Replace(value) => ValueEdit::Replace(value),
    })
}

fn letters(
    settings: &CookieRules,
    presented: &PresentedCookie,
    plan: Option<&weir_backend::ResponsePlan>,
) -> [u8; 2] {
    let (request, response) = settings.letters(presented, plan);
    // Log letters are ASCII, so the casts are exact.
    [request as u8, response as u8]
}

fn wall_seconds() -> u64 {
    weir_sched::wall_us() / 1_000_000
}

/// `persist rdp-cookie`: the server that an RDP `msts` token designates.
fn designated_by_token(stream: &mut Stream) -> (Option<ServerKey>, bool) {
    let Some(wanted) = address_of_token(stream) else { return (None, false) };
    let rule = persist_rule(stream);
    if rule == Some(PersistOverride::Ignore) {
        return (None, false);
    }
    let forced = rule == Some(PersistOverride::Force);
    let backend = stream.backend.servers();
    let stays = backend.settings().persist || forced;
    let servers = backend.servers();
    let found = servers.iter().find(|server| *server.address() == ServerAddress::from(wanted));
    (found.filter(|server| stays || server.is_up()).map(|server| server.key()), forced)
}

/// The server address of a token in the client's data.
fn address_of_token(stream: &Stream) -> Option<std::net::SocketAddr> {
    let name = stream.backend.config.settings.persist_rdp_cookie.as_ref()?;
    let rdp::RdpCookie::Value(token) = rdp::cookie(stream.client.input(), name.as_bytes()) else {
        return None;
    };
    rdp::server_of(token).map(std::net::SocketAddr::V4)
}

const COOKIE: &[u8] = b"cookie";
const SET_COOKIE: &[u8] = b"set-cookie";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_model::CookiePersistence;

    use super::*;

    #[test]
    fn removed_cookie_fields_are_still_found_in_the_received_bytes() {
        let raw = b"GET / HTTP/1.1\r\nCookie: S=A|x\r\ncookies: no\r\nCOOKIE:S=B \r\nHost: h\r\n\r\n";
        let mut message = weir_mux::Message::default();
        assert_eq!(message.read_kept(weir_http::Kind::Request, raw), Some(raw.len()));
        message.head.remove_known(KnownName::Cookie);
        let lines: Vec<_> = received_lines(message.head.raw_bytes(raw), COOKIE).collect();
        assert_eq!(lines, [&b"S=A|x"[..], b"S=B"]);
    }

    #[test]
    fn converts_log_letters_back_to_cookie_states() {
        use PresentedState::{Down, Expired, Invalid, None, Old, Unused, Valid};
        for state in [None, Invalid, Down, Valid, Expired, Old, Unused] {
            assert_eq!(state_of(state.letter() as u8), state);
        }
    }

    #[test]
    fn cookie_fields_are_edited_in_place() {
        let mut head = Head::new();
        head.start_request(b"GET", b"/", weir_http::Version::HTTP_11).expect("room");
        for (name, value) in [("Cookie", "S=A"), ("X", "S=A"), ("cookie", "S=B; x=1"), ("Cookie", "y=2")] {
            head.add(name.as_bytes(), value.as_bytes()).expect("room");
        }
        let settings = CookieRules::new(&Arc::new(CookiePersistence {
            name: "S".into(),
            mode: CookieMode::Insert,
            indirect: true,
            ..CookiePersistence::default()
        }));
        edit_fields(&mut head, b"", KnownName::Cookie, |line| settings.edit_request(line)).expect("room");
        let left: Vec<_> = head.fields(b"").map(|(_, value)| value.to_vec()).collect();
        assert_eq!(left, [&b"S=A"[..], b"x=1", b"y=2"]);
    }
}
