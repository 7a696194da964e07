//! The form of the statistics page: an administrator selects servers of one backend and an action.

use crate::uri::{FormStatus, StatsRequest};

/// Maximum length of a form body, in bytes: more servers than a page can show.
pub const LONGEST_FORM: usize = 65_536;

/// An action on servers that the form of the statistics page offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAction {
    Ready,
    /// Accepts only persistent traffic.
    Drain,
    Maintenance,
    /// Resumes (true) or pauses health checks.
    HealthChecks(bool),
    /// Forces the result of health checks.
    Health(ForcedHealth),
    /// Resumes (true) or pauses agent checks.
    AgentChecks(bool),
    /// Forces the agent's result: up (true) or down.
    Agent(bool),
    Shutdown,
}

/// A health that an administrator forces through the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedHealth {
    Up,
    /// Accepts only persistent traffic.
    Stopping,
    Down,
}

impl AdminAction {
    /// All actions, with their word in the form and their label on the page.
    pub const ALL: [(AdminAction, &'static str, &'static str); 13] = [
        (AdminAction::Ready, "ready", "Set state to READY"),
        (AdminAction::Drain, "drain", "Set state to DRAIN"),
        (AdminAction::Maintenance, "maint", "Set state to MAINT"),
        (AdminAction::HealthChecks(false), "dhlth", "Health: disable checks"),
        (AdminAction::HealthChecks(true), "ehlth", "Health: enable checks"),
        (AdminAction::Health(ForcedHealth::Up), "hrunn", "Health: force UP"),
        (AdminAction::Health(ForcedHealth::Stopping), "hnolb", "Health: force NOLB"),
        (AdminAction::Health(ForcedHealth::Down), "hdown", "Health: force DOWN"),
        (AdminAction::AgentChecks(false), "dagent", "Agent: disable checks"),
        (AdminAction::AgentChecks(true), "eagent", "Agent: enable checks"),
        (AdminAction::Agent(true), "arunn", "Agent: force UP"),
        (AdminAction::Agent(false), "adown", "Agent: force DOWN"),
        (AdminAction::Shutdown, "shutdown", "Kill sessions"),
    ];

    /// Action words of former page versions, still used by scripts.
    const FORMER: [(AdminAction, &'static str); 4] = [
        (AdminAction::Ready, "enable"),
        (AdminAction::Ready, "start"),
        (AdminAction::Drain, "stop"),
        (AdminAction::Maintenance, "disable"),
    ];

    fn from_word(word: &str) -> Option<Self> {
        let words = Self::ALL.iter().map(|&(action, word, _)| (action, word)).chain(Self::FORMER);
        words.into_iter().find(|known| known.1 == word).map(|known| known.0)
    }
}

/// The outcome of an action on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminOutcome {
    Done,
    /// The action does not apply, because the server lacks health or agent checks.
    Nothing,
    /// The server is unknown or refused the action.
    Refused,
}

/// The live servers, as an interface for the form.
pub trait AdminTarget {
    /// Whether a backend with this name or `#<id>` exists.
    fn has_backend(&self, backend: &str) -> bool;

    /// Applies an action to a server.
    fn act(&mut self, backend: &str, server: &str, action: AdminAction) -> AdminOutcome;
}

/// The trust in the sender of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// No trust: the rules deny the change, or another site sent the form.
    Nobody,
    /// A script: the form is applied without a token.
    Script,
    /// A browser: the form must contain the page's token, which other sites cannot read.
    Page {
        /// The token of this process.
        token: &'a str,
    },
}

/// Name of the form field that contains the token.
pub const TOKEN: &str = "token";

/// A parsed form of the statistics page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminForm {
    /// Name or `#<id>` of the backend.
    pub backend: String,
    pub servers: Vec<String>,
    /// The action. `None` for an unknown word.
    pub action: Option<AdminAction>,
    /// The received token. Empty without one.
    pub token: String,
}

impl AdminForm {
    /// Parses the body of a `POST` (`application/x-www-form-urlencoded`). `None` if the form lacks an action or a value cannot be
    /// decoded.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let mut form = Self::default();
        let mut has_action = false;
        for pair in body.split(|&byte| byte == b'&') {
            let end = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let value = decode(pair.get(end + 1..).unwrap_or_default())?;
            match &pair[..end] {
                b"b" => form.backend = value,
                b"s" => form.servers.push(value),
                b"action" => {
                    has_action = true;
                    form.action = AdminAction::from_word(&value);
                }
                key if key == TOKEN.as_bytes() => form.token = value,
                _ => {}
            }
        }
        (has_action && !form.servers.is_empty()).then_some(form)
    }

    /// Applies the action to each server in order.
    pub fn apply(&self, target: &mut dyn AdminTarget) -> FormStatus {
        let Some(action) = self.action else { return FormStatus::Error };
        if !target.has_backend(&self.backend) {
            return FormStatus::Error;
        }
        let (mut done, mut refused) = (0, 0);
        for server in &self.servers {
            match target.act(&self.backend, server, action) {
                AdminOutcome::Done => done += 1,
                AdminOutcome::Refused => refused += 1,
                AdminOutcome::Nothing => {}
            }
        }
        match (done, refused) {
            (0, 0) => FormStatus::Nothing,
            (_, 0) => FormStatus::Done,
            (0, _) => FormStatus::Error,
            _ => FormStatus::Partly,
        }
    }
}

/// The result of a `POST` to the statistics page from a client with this trust. Pass `None` for a body over [`LONGEST_FORM`], without
/// reading it.
pub fn post(body: Option<&[u8]>, trust: Trust<'_>, target: &mut dyn AdminTarget) -> FormStatus {
    if trust == Trust::Nobody {
        return FormStatus::Denied;
    }
    let Some(body) = body else { return FormStatus::TooLarge };
    match (AdminForm::parse(body), trust) {
        (None, _) => FormStatus::Nothing,
        (Some(form), Trust::Page { token }) if form.token != token => FormStatus::Denied,
        (Some(form), _) => form.apply(target),
    }
}

/// The redirect target after a form, so that a browser reload does not repeat the action.
pub fn location(prefix: &str, request: &StatsRequest, status: FormStatus) -> String {
    request.link(prefix, |other| other.status = Some(status))
}

/// Decodes percent-encoding, and `+` as a space.
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

        fn act(&mut self, backend: &str, server: &str, action: AdminAction) -> AdminOutcome {
            self.done.push(format!("{backend}/{server} {action:?}"));
            match (server.starts_with("srv"), action) {
                (true, AdminAction::Agent(_)) => AdminOutcome::Nothing,
                (true, _) => AdminOutcome::Done,
                (false, _) => AdminOutcome::Refused,
            }
        }
    }

    fn check(body: &str, expected: FormStatus, done: &[&str]) {
        let mut toy = Toy::default();
        assert_eq!(post(Some(body.as_bytes()), Trust::Script, &mut toy), expected, "{body}");
        assert_eq!(toy.done, done, "{body}");
    }

    #[test]
    fn posted_forms_give_the_same_status_as_haproxy() {
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
        check("s=srv1&action=arunn&b=b1", FormStatus::Nothing, &["b1/srv1 Agent(true)"]);
        check("s=srv1&action=disable&b=b1", FormStatus::Done, &["b1/srv1 Maintenance"]);
    }

    #[test]
    fn each_form_action_reaches_the_server() {
        for (action, word, _) in AdminAction::ALL {
            let mut toy = Toy::default();
            post(Some(format!("s=srv1&action={word}&b=b1").as_bytes()), Trust::Script, &mut toy);
            assert_eq!(toy.done, [format!("b1/srv1 {action:?}")], "{word}");
        }
    }

    #[test]
    fn a_browser_form_needs_the_token_of_the_page() {
        let trust = Trust::Page { token: "17" };
        for (token, expected) in [
            ("", FormStatus::Denied),
            ("&token=", FormStatus::Denied),
            ("&token=18", FormStatus::Denied),
            ("&token=17&token=18", FormStatus::Denied),
            ("&token=17", FormStatus::Done),
        ] {
            let mut toy = Toy::default();
            let form = format!("s=srv1&action=ready&b=b1{token}");
            assert_eq!(post(Some(form.as_bytes()), trust, &mut toy), expected, "{form}");
            assert_eq!(toy.done.len(), usize::from(expected == FormStatus::Done), "{form}");
        }
    }

    #[test]
    fn refuses_forms_without_admin_rights_or_above_the_size_limit() {
        let mut toy = Toy::default();
        assert_eq!(post(Some(b"s=srv1&action=ready&b=b1"), Trust::Nobody, &mut toy), FormStatus::Denied);
        assert_eq!(post(None, Trust::Script, &mut toy), FormStatus::TooLarge);
        assert!(toy.done.is_empty());
    }

    #[test]
    fn the_form_redirect_keeps_the_filter_and_scope_of_the_view() {
        let request = StatsRequest::parse("/stats", "/stats;up?scope=b1").unwrap();
        assert_eq!(location("/stats", &request, FormStatus::Done), "/stats;st=DONE;up?scope=b1");
    }
}
