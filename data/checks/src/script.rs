//! The dialogue of a check: the rules of a backend, completed with the defaults from its options.

use std::sync::Arc;

use weir_model::{
    CheckAction, CheckMethod, CheckRule, CheckScripts, CheckText, Expect, Expected, HttpRequest,
};

/// A dialogue, ready to run.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) rules: Vec<CheckRule>,
    /// The kind of rules.
    pub(crate) style: Style,
    /// `http-check disable-on-404`.
    pub(crate) disable_on_404: bool,
    /// `http-check send-state`.
    pub(crate) send_state: bool,
}

/// The kind of rules of a dialogue. Determines the failure messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `http-check` rules.
    Http,
    /// `tcp-check` rules.
    Tcp,
    /// The built-in dialogue of an option.
    Own,
}

impl Script {
    /// The dialogue of a backend's checks. `None` if they only connect or run a program.
    pub fn of(said: &CheckScripts) -> Option<Arc<Script>> {
        let (rules, style) = match &said.method {
            CheckMethod::Connect | CheckMethod::Program => return None,
            CheckMethod::Tcp => (said.tcp.rules.to_vec(), Style::Tcp),
            CheckMethod::Own(rules) => (rules.to_vec(), Style::Own),
            CheckMethod::Http(request) => (completed(&said.http.rules, request), Style::Http),
        };
        let Script { disable_on_404, send_state, .. } = Script {
            rules: Vec::new(),
            style,
            disable_on_404: said.disable_on_404,
            send_state: said.send_state,
        };
        // Without rules, 'option tcp-check' only connects, but its findings still name the step.
        (style == Style::Tcp || !rules.is_empty())
            .then(|| Arc::new(Script { rules, style, disable_on_404, send_state }))
    }
}

impl Script {
    /// Whether the dialogue can use any connection to the server: the rules are for HTTP, do not connect themselves,
    /// and their requests keep the connection alive.
    pub fn takes_any_connection(&self) -> bool {
        let binds = |rule: &CheckRule| match &rule.action {
            CheckAction::Connect(_) => true,
            CheckAction::SendHttp(request) => request.version.as_deref() != Some(HTTP_1_1),
            _ => false,
        };
        self.style == Style::Http && !self.rules.iter().any(binds)
    }
}

/// `http-check` rules with their implicit parts: the request of the option, and the expectation of status 2xx or 3xx.
fn completed(said: &[CheckRule], request: &HttpRequest) -> Vec<CheckRule> {
    let mut rules = Vec::with_capacity(said.len() + 2);
    let mut first_send = true;
    for rule in said {
        match &rule.action {
            CheckAction::SendHttp(own) if first_send => {
                first_send = false;
                let merged = CheckAction::SendHttp(Arc::new(merge(own, request)));
                rules.push(CheckRule { action: merged, ..rule.clone() });
                continue;
            }
            CheckAction::Expect(_) if first_send => {
                first_send = false;
                rules.push(unwritten(CheckAction::SendHttp(Arc::new(request.clone()))));
            }
            _ => {}
        }
        rules.push(rule.clone());
    }
    if first_send {
        rules.push(unwritten(CheckAction::SendHttp(Arc::new(request.clone()))));
    }
    let last_exchange = rules.iter().rev().find_map(|rule| match &rule.action {
        CheckAction::Expect(_) => Some(true),
        CheckAction::SendHttp(_) => Some(false),
        _ => None,
    });
    if last_exchange != Some(true) {
        let step = u32::try_from(rules.len() + 1).unwrap_or(u32::MAX);
        rules.push(CheckRule { step, ..unwritten(CheckAction::Expect(Arc::new(well()))) });
    }
    rules
}

fn unwritten(action: CheckAction) -> CheckRule {
    CheckRule { comment: None, step: 0, action }
}

/// The default expectation (manual, "http-check expect").
fn well() -> Expect {
    Expect::plain(Expected::Status(Arc::from([(200, 399)])))
}

/// A rule's request. Missing parts come from the option.
fn merge(own: &HttpRequest, option: &HttpRequest) -> HttpRequest {
    let text = |own: &Option<CheckText>, other: &Option<CheckText>| own.clone().or_else(|| other.clone());
    let mut headers = option.headers.clone();
    headers.retain(|(name, _)| !own.headers.iter().any(|(other, _)| other == name));
    headers.extend(own.headers.iter().cloned());
    HttpRequest {
        method: own.method.clone().or_else(|| option.method.clone()),
        uri: text(&own.uri, &option.uri),
        version: own.version.clone().or_else(|| option.version.clone()),
        headers,
        body: text(&own.body, &option.body),
    }
}

/// First version with persistent connections by default.
pub(crate) const HTTP_1_1: &[u8] = b"HTTP/1.1";

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(action: CheckAction) -> CheckRule {
        unwritten(action)
    }

    fn send(uri: &str) -> CheckAction {
        let uri = Some(CheckText::Fixed(uri.as_bytes().into()));
        CheckAction::SendHttp(Arc::new(HttpRequest { uri, ..HttpRequest::default() }))
    }

    /// The kinds of rules, with the methods and URIs of requests.
    fn outline(rules: &[CheckRule]) -> Vec<String> {
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"-")).into_owned();
        rules
            .iter()
            .map(|rule| match &rule.action {
                CheckAction::Connect(_) => "connect".to_owned(),
                CheckAction::SendHttp(request) => {
                    let uri = match &request.uri {
                        Some(CheckText::Fixed(uri)) => Some(&uri[..]),
                        _ => None,
                    };
                    format!("send {} {}", text(request.method.as_deref()), text(uri))
                }
                CheckAction::Expect(_) => "expect".to_owned(),
                _ => "other".to_owned(),
            })
            .collect()
    }

    #[test]
    fn implicit_connect_send_and_expect_rules_are_added() {
        let option = HttpRequest {
            method: Some((*b"GET").into()),
            uri: Some(CheckText::Fixed((*b"/o").into())),
            ..HttpRequest::default()
        };
        let expect = || rule(CheckAction::Expect(Arc::new(well())));
        let connect = || rule(CheckAction::Connect(Default::default()));
        let check = |said: &[CheckRule], expected: &[&str]| {
            assert_eq!(outline(&completed(said, &option)), expected);
        };
        check(&[], &["send GET /o", "expect"]);
        check(&[expect()], &["send GET /o", "expect"]);
        check(&[rule(send("/r"))], &["send GET /r", "expect"]);
        check(&[connect()], &["connect", "send GET /o", "expect"]);
        check(
            &[connect(), rule(send("/r")), expect(), connect(), rule(send("/s"))],
            &["connect", "send GET /r", "expect", "connect", "send - /s", "expect"],
        );
    }
}
