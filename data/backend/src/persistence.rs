//! Cookie persistence (`cookie`): the server that a request's cookie designates, the cookie that the response
//! sends to the client, and the two letters of the termination state.
//!
//! Pure functions: the input is header values and the date, the output is edits and results. Behaviour that the manual
//! leaves open was measured on HAProxy 2.6. The tables in the tests have the results.
//!
//! The order of calls for one exchange: [`CookieRules::examine`] the request, choose the server,
//! [`CookieRules::edit_request`] each `Cookie` header, then [`CookieRules::plan_response`] and
//! [`CookieRules::edit_response`] each `Set-Cookie` header.

mod date;
mod header;

use std::ops::Deref;
use std::sync::Arc;

use date::CookieDate;
pub use header::CookieEdit;
use weir_model::{CookieMode, CookiePersistence};

use crate::address::ServerAddress;
use crate::server_key::ServerKey;

/// The rules of a backend's `cookie <name> ...` line.
#[derive(Clone, Debug, PartialEq)]
pub struct CookieRules(Arc<CookiePersistence>);

impl CookieRules {
    /// The rules with these settings.
    #[must_use]
    pub fn new(settings: &Arc<CookiePersistence>) -> Self {
        Self(Arc::clone(settings))
    }

    /// `maxidle` in seconds. 0 disables it.
    fn idle_seconds(&self) -> u32 {
        u32::try_from(self.max_idle.as_secs()).unwrap_or(u32::MAX)
    }

    /// `maxlife` in seconds. 0 disables it.
    fn life_seconds(&self) -> u32 {
        u32::try_from(self.max_life.as_secs()).unwrap_or(u32::MAX)
    }
}

impl Deref for CookieRules {
    type Target = CookiePersistence;

    fn deref(&self) -> &CookiePersistence {
        &self.0
    }
}

/// The result of examining a request's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentedCookie {
    pub state: PresentedState,
    /// The server to use, if the state allows it.
    pub server: Option<ServerKey>,
    first: Option<CookieDate>,
    last: Option<CookieDate>,
}

/// The state of a request's cookie: the third letter of the termination state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentedState {
    /// The request lacks this cookie.
    None,
    /// The cookie designates no server.
    Invalid,
    /// The cookie's server is down or could not be reached.
    Down,
    Valid,
    /// The cookie has exceeded `maxidle`.
    Expired,
    /// The cookie has exceeded `maxlife`.
    Old,
    /// The cookie was ignored, because a rule designated the server or persistence is disabled.
    Unused,
}

impl PresentedState {
    /// The state's letter in logs.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::None => 'N',
            Self::Invalid => 'I',
            Self::Down => 'D',
            Self::Valid => 'V',
            Self::Expired => 'E',
            Self::Old => 'O',
            Self::Unused => 'U',
        }
    }
}

impl PresentedCookie {
    /// No cookie.
    pub const NONE: Self = Self { state: PresentedState::None, server: None, first: None, last: None };

    /// The cookie after `use-server` or `ignore-persist` overrode it.
    #[must_use]
    pub fn unused(self) -> Self {
        match self.state {
            PresentedState::None => self,
            _ => Self { state: PresentedState::Unused, server: None, ..self },
        }
    }

    /// The cookie after its server could not be reached and the request was redispatched.
    #[must_use]
    pub fn redispatched(self) -> Self {
        match self.state {
            PresentedState::Valid => Self { state: PresentedState::Down, server: None, ..self },
            _ => Self { server: None, ..self },
        }
    }
}

/// The facts needed to plan the edits of the response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFacts<'a> {
    /// The `cookie` value of the server that responded.
    pub server_cookie: Option<&'a str>,
    /// Whether that server was designated, by the cookie or otherwise, and the request was not redispatched.
    pub designated: bool,
    /// Whether the request was a POST.
    pub post: bool,
    /// Whether the server's response has a `Set-Cookie` of this name ([`CookieRules::is_set_by`]).
    pub provided: bool,
    /// The date, in seconds since 1970.
    pub wall_seconds: u64,
}

/// The changes to a response for cookie persistence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsePlan {
    /// The fourth letter of the termination state.
    pub letter: char,
    /// The value of a `Set-Cookie` header to add.
    pub set_cookie: Option<String>,
    /// Whether to add `Cache-Control: private`.
    pub private: bool,
    /// The treatment of the server's own `Set-Cookie`.
    provided: ProvidedCookie,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ProvidedCookie {
    Keep,
    Remove,
    Rewrite(String),
    /// Prepend this to the cookie's value.
    Prefix(String),
}

impl CookieRules {
    /// Examines a request's `Cookie` headers. `find` returns the server of a cookie value and whether it is up.
    /// With `stays`, the server is used even if it is down (`option persist`, `force-persist`).
    pub fn examine<'a>(
        &self,
        headers: impl IntoIterator<Item = &'a [u8]>,
        wall_seconds: u64,
        stays: bool,
        mut find: impl FnMut(&str) -> Option<(ServerKey, bool)>,
    ) -> PresentedCookie {
        let mut presented = PresentedCookie::NONE;
        let values = headers.into_iter().flat_map(|header| header::values(header, &self.name));
        for value in values {
            presented = self.judge(value, wall_seconds, stays, &mut find);
            if presented.server.is_some() {
                break;
            }
        }
        presented
    }

    fn judge(
        &self,
        value: &[u8],
        wall_seconds: u64,
        stays: bool,
        find: &mut impl FnMut(&str) -> Option<(ServerKey, bool)>,
    ) -> PresentedCookie {
        let (name, last, first) = self.dissect(value);
        let now = CookieDate::of(wall_seconds);
        let dated = PresentedCookie { first, last, ..PresentedCookie::NONE };
        let (idle, life) = (self.idle_seconds(), self.life_seconds());
        if idle > 0 && last.is_some_and(|last| last.is_out(now, idle)) {
            return PresentedCookie { state: PresentedState::Expired, ..dated };
        }
        if life > 0 && first.is_some_and(|first| first.is_out(now, life)) {
            return PresentedCookie { state: PresentedState::Old, ..dated };
        }
        match std::str::from_utf8(name).ok().and_then(find) {
            None => PresentedCookie { state: PresentedState::Invalid, ..dated },
            Some((server, true)) => {
                PresentedCookie { state: PresentedState::Valid, server: Some(server), ..dated }
            }
            Some((server, false)) => {
                PresentedCookie { state: PresentedState::Down, server: stays.then_some(server), ..dated }
            }
        }
    }

    /// Splits a cookie value into the server's cookie and the dates of the last and the first visit.
    fn dissect<'a>(&self, value: &'a [u8]) -> (&'a [u8], Option<CookieDate>, Option<CookieDate>) {
        if self.mode == CookieMode::Prefix {
            return (header::before(value, PREFIX_END).unwrap_or(value), None, None);
        }
        let mut parts = value.split(|byte| *byte == DATE_START);
        let name = parts.next().unwrap_or_default();
        let mut date = || parts.next().and_then(CookieDate::decode);
        let last = date();
        (name, last, date())
    }

    /// The edit of a `Cookie` header before it is sent to the server.
    #[must_use]
    pub fn edit_request(&self, header: &[u8]) -> CookieEdit {
        match self.mode {
            CookieMode::Insert if self.indirect => header::without(header, &self.name),
            CookieMode::Prefix => header::without_prefix(header, &self.name, PREFIX_END),
            _ => CookieEdit::Keep,
        }
    }

    /// Whether a `Set-Cookie` header sets this cookie.
    #[must_use]
    pub fn is_set_by(&self, header: &[u8]) -> bool {
        header::set_cookie_value(header, &self.name).is_some()
    }

    /// Decides the cookie that the response sends to the client.
    #[must_use]
    pub fn plan_response(&self, presented: &PresentedCookie, facts: &ResponseFacts<'_>) -> ResponsePlan {
        match self.mode {
            CookieMode::Passive => ResponsePlan::new(NOT_CONCERNED, ProvidedCookie::Keep),
            CookieMode::Insert => self.plan_insertion(presented, facts),
            CookieMode::Rewrite | CookieMode::Prefix => self.plan_rewriting(facts),
        }
    }

    fn plan_rewriting(&self, facts: &ResponseFacts<'_>) -> ResponsePlan {
        if !facts.provided {
            return ResponsePlan::new('N', ProvidedCookie::Keep);
        }
        if self.indirect && facts.designated && !self.preserve {
            return ResponsePlan::new('D', ProvidedCookie::Remove);
        }
        match (facts.server_cookie, self.mode) {
            (None, _) => ResponsePlan::new('P', ProvidedCookie::Keep),
            (Some(cookie), CookieMode::Prefix) => {
                let prefix = format!("{cookie}{}", char::from(PREFIX_END));
                ResponsePlan::new('R', ProvidedCookie::Prefix(prefix))
            }
            (Some(cookie), _) => ResponsePlan::new('R', ProvidedCookie::Rewrite(cookie.to_owned())),
        }
    }

    fn plan_insertion(&self, presented: &PresentedCookie, facts: &ResponseFacts<'_>) -> ResponsePlan {
        if facts.provided && self.preserve {
            return ResponsePlan::new('P', ProvidedCookie::Keep);
        }
        let (letter, provided) =
            if facts.provided { ('D', ProvidedCookie::Remove) } else { ('N', ProvidedCookie::Keep) };
        let plan = ResponsePlan::new(letter, provided);
        let stale = presented.state == PresentedState::Valid && self.is_stale(presented, facts.wall_seconds);
        let letter = match facts.designated {
            false => 'I',
            true if stale => 'U',
            true => return plan,
        };
        if self.post_only && !facts.post {
            return plan;
        }
        let first = if letter == 'U' { presented.first } else { None };
        let set_cookie = Some(self.inserted(facts, first));
        ResponsePlan { letter, set_cookie, private: self.no_cache, ..plan }
    }

    /// Whether the dates of a valid cookie need an update.
    fn is_stale(&self, presented: &PresentedCookie, wall_seconds: u64) -> bool {
        if self.is_dated() {
            presented.last.is_none_or(|last| last < CookieDate::of(wall_seconds))
        } else {
            presented.last.is_some() || presented.first.is_some()
        }
    }

    fn is_dated(&self) -> bool {
        self.idle_seconds() > 0 || self.life_seconds() > 0
    }

    fn inserted(&self, facts: &ResponseFacts<'_>, first: Option<CookieDate>) -> String {
        let mut text = format!("{}=", self.name);
        match facts.server_cookie {
            // The server does not have a cookie value, so the client's cookie is deleted.
            None => text.push_str("; Expires=Thu, 01-Jan-1970 00:00:01 GMT"),
            Some(cookie) => {
                text.push_str(cookie);
                self.append_dates(&mut text, CookieDate::of(facts.wall_seconds), first);
            }
        }
        text.push_str("; path=/");
        for domain in &self.domains {
            text.push_str("; domain=");
            text.push_str(domain);
        }
        let flags = [(self.http_only, "; HttpOnly"), (self.secure, "; Secure")];
        flags.iter().filter(|(set, _)| *set).for_each(|(_, flag)| text.push_str(flag));
        for attribute in &self.attributes {
            text.push_str("; ");
            text.push_str(attribute);
        }
        text
    }

    fn append_dates(&self, text: &mut String, now: CookieDate, first: Option<CookieDate>) {
        if self.is_dated() {
            text.push(char::from(DATE_START));
            now.encode(text);
        }
        if self.life_seconds() > 0 {
            text.push(char::from(DATE_START));
            first.unwrap_or(now).encode(text);
        }
    }

    /// The edit of a server's `Set-Cookie` header before it is sent to the client.
    #[must_use]
    pub fn edit_response(&self, plan: &ResponsePlan, header: &[u8]) -> CookieEdit {
        let Some((value, end)) = header::set_cookie_value(header, &self.name) else {
            return CookieEdit::Keep;
        };
        let replaced = |value: &[&[u8]]| {
            let parts = [self.name.as_bytes(), b"="].into_iter().chain(value.iter().copied());
            CookieEdit::Replace(parts.chain([&header[end..]]).flatten().copied().collect())
        };
        match &plan.provided {
            ProvidedCookie::Keep => CookieEdit::Keep,
            ProvidedCookie::Remove => CookieEdit::Remove,
            ProvidedCookie::Rewrite(cookie) => replaced(&[cookie.as_bytes()]),
            ProvidedCookie::Prefix(prefix) => replaced(&[prefix.as_bytes(), value]),
        }
    }

    /// Both letters of the termination state.
    #[must_use]
    pub fn letters(&self, presented: &PresentedCookie, plan: Option<&ResponsePlan>) -> (char, char) {
        if self.mode == CookieMode::Passive {
            return (NOT_CONCERNED, NOT_CONCERNED);
        }
        (presented.state.letter(), plan.map_or(NOT_CONCERNED, |plan| plan.letter))
    }
}

/// The settings of dynamic cookies. They may change while the backend runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicCookies {
    /// Whether dynamic cookies are used (`cookie ... dynamic`).
    pub enabled: bool,
    /// `dynamic-cookie-key`.
    pub key: Option<String>,
}

impl DynamicCookies {
    /// The dynamic cookie of a server without a configured cookie.
    #[must_use]
    pub fn of(&self, address: &ServerAddress) -> Option<String> {
        let (Some(key), true) = (&self.key, self.enabled) else { return None };
        let (ip, port) = (address.ip()?, address.port()?);
        let mut bytes = key.as_bytes().to_vec();
        match ip {
            std::net::IpAddr::V4(ip) => bytes.extend(ip.octets()),
            std::net::IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
        bytes.extend(port.number().to_be_bytes());
        Some(format!("{:016x}", xxhash_rust::xxh64::xxh64(&bytes, 0)))
    }
}

impl ResponsePlan {
    fn new(letter: char, provided: ProvidedCookie) -> Self {
        Self { letter, set_cookie: None, private: false, provided }
    }
}

/// The letter of the termination state if cookies are not involved.
pub const NOT_CONCERNED: char = '-';
/// Separates the server's `cookie` value from the value that the server set.
const PREFIX_END: u8 = b'~';
/// Precedes each date in a cookie value.
const DATE_START: u8 = b'|';

#[cfg(test)]
mod tests;
