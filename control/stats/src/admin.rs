//! The form of the statistics page: an administrator selects servers of one backend and an action.

use crate::uri::{FormStatus, StatsRequest};

/// The longest form that is read, in bytes: more servers than a page can show.
pub const LONGEST_FORM: usize = 65_536;

/// What to do with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Normal operation.
    Ready,
    /// No new traffic except that of persistence.
    Drain,
    /// No traffic.
    Maintenance,
    /// End all sessions.
    Shutdown,
}

impl Action {
    /// All actions, with their word in the form and their label on the page.
    pub const ALL: [(Action, &'static str, &'static str); 4] = [
        (Action::Ready, "ready", "Set state to READY"),
        (Action::Drain, "drain", "Set state to DRAIN"),
        (Action::Maintenance, "maint", "Set state to MAINT"),
        (Action::Shutdown, "shutdown", "Kill sessions"),
    ];
}

/// The live servers, as an interface for the form.
pub trait AdminTarget {
    /// Whether there is a backend of this name, or with this `#<id>`.
    fn has_backend(&self, backend: &str) -> bool;

    /// Applies an action; false when the backend has no such server.
    fn act(&mut self, backend: &str, server: &str, action: Action) -> bool;
}

/// A parsed form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminForm {
    /// The backend's name, or `#<id>`.
    pub backend: String,
    /// The checked servers.
    pub servers: Vec<String>,
    /// The action; `None` when the word is unknown.
    pub action: Option<Action>,
}

impl AdminForm {
    /// Parses the body of a `POST` (`application/x-www-form-urlencoded`). `None` when it contains no action, or a value
    /// cannot be decoded.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let mut form = Self::default();
        let mut asked = false;
        for pair in body.split(|&byte| byte == b'&') {
            let end = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let value = decode(pair.get(end + 1..).unwrap_or_default())?;
            match &pair[..end] {
                b"b" => form.backend = value,
                b"s" => form.servers.push(value),
                b"action" => {
                    asked = true;
                    form.action = Action::ALL.iter().find(|row| row.1 == value).map(|row| row.0);
                }
                _ => {}
            }
        }
        (asked && !form.servers.is_empty()).then_some(form)
    }

    /// Applies the action, server by server.
    pub fn apply(&self, target: &mut dyn AdminTarget) -> FormStatus {
        let Some(action) = self.action else { return FormStatus::Error };
        if !target.has_backend(&self.backend) {
            return FormStatus::Error;
        }
        let done = self.servers.iter().filter(|server| target.act(&self.backend, server, action)).count();
        match done {
            0 => FormStatus::Error,
            _ if done == self.servers.len() => FormStatus::Done,
            _ => FormStatus::Partly,
        }
    }
}

/// The result of a `POST` to the statistics. `admin` says whether the rules allow it; a body over [`LONGEST_FORM`] should
/// not be read at all and is passed as `None`.
pub fn post(body: Option<&[u8]>, admin: bool, target: &mut dyn AdminTarget) -> FormStatus {
    if !admin {
        return FormStatus::Denied;
    }
    match body {
        None => FormStatus::TooLarge,
        Some(body) => AdminForm::parse(body).map_or(FormStatus::Nothing, |form| form.apply(target)),
    }
}

/// The target of the redirect afterwards, so that a reload does not repeat the action.
pub fn location(prefix: &str, request: &StatsRequest, status: FormStatus) -> String {
    request.link(prefix, |other| other.status = Some(status))
}

/// Decodes percent-encoding, and `+` for blanks.
fn decode(bytes: &[u8]) -> Option<String> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => decoded.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            other => decoded.push(other),
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Toy {
        done: Vec<String>,
    }

    impl AdminTarget for Toy {
        fn has_backend(&self, backend: &str) -> bool {
            matches!(backend, "b1" | "#3")
        }

        fn act(&mut self, backend: &str, server: &str, action: Action) -> bool {
            self.done.push(format!("{backend}/{server} {action:?}"));
            server.starts_with("srv")
        }
    }

    fn check(body: &str, expected: FormStatus, done: &[&str]) {
        let mut toy = Toy::default();
        assert_eq!(post(Some(body.as_bytes()), true, &mut toy), expected, "{body}");
        assert_eq!(toy.done, done, "{body}");
    }

    #[test]
    fn forms_fare_as_in_the_reference() {
        check(
            "s=srv1&s=srv2&action=maint&b=%233",
            FormStatus::Done,
            &["#3/srv1 Maintenance", "#3/srv2 Maintenance"],
        );
        check("s=srv1&action=ready&b=b1", FormStatus::Done, &["b1/srv1 Ready"]);
        check("s=nosuch&action=ready&b=b1", FormStatus::Error, &["b1/nosuch Ready"]);
        check("s=srv1&s=nosuch&action=drain&b=b1", FormStatus::Partly, &["b1/srv1 Drain", "b1/nosuch Drain"]);
        check("s=srv1&action=zzz&b=b1", FormStatus::Error, &[]);
        check("s=srv1&action=&b=b1", FormStatus::Error, &[]);
        check("s=srv1&action=ready&b=nope", FormStatus::Error, &[]);
        check("action=ready&b=b1", FormStatus::Nothing, &[]);
        check("s=srv1", FormStatus::Nothing, &[]);
        check("", FormStatus::Nothing, &[]);
        check("s=%zz&action=ready&b=b1", FormStatus::Nothing, &[]);
        check("s=%e", FormStatus::Nothing, &[]);
    }

    #[test]
    fn nothing_is_done_without_the_right_or_the_form() {
        let mut toy = Toy::default();
        assert_eq!(post(Some(b"s=srv1&action=ready&b=b1"), false, &mut toy), FormStatus::Denied);
        assert_eq!(post(None, true, &mut toy), FormStatus::TooLarge);
        assert!(toy.done.is_empty());
    }

    #[test]
    fn the_browser_is_sent_to_the_view_it_came_from() {
        let request = StatsRequest::parse("/stats", "/stats;up?scope=b1").unwrap();
        assert_eq!(location("/stats", &request, FormStatus::Done), "/stats;st=DONE;up?scope=b1");
    }
}
