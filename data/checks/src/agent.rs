//! An agent's response (manual, "agent-check"): one line of keywords for weight, `maxconn`, administrative and operational state.

use std::sync::Arc;

use weir_backend::{CheckFinding, CheckStatus, Reason, RequestedState, ServerChange, WeightChange};
use weir_model::CheckConnect;
use weir_net::{Connection, ReceiveOutcome};
use weir_sched::{now, wait};

use crate::attempt::{Attempt, CheckConnection, ConnectionRequest};

/// Queries a server's agent and applies its response to the server. The keyword for up or down is the finding.
pub(crate) async fn query(attempt: &Attempt<'_>) -> CheckFinding {
    let line = match listen(attempt).await {
        Ok(line) => line,
        Err(finding) => return finding,
    };
    let answer = parse(&line);
    let mut remarks = Vec::new();
    for change in answer.changes(&mut remarks) {
        let reason = Reason::Operator;
        let changed = attempt.plan.backend.change_for(attempt.plan.server, change, reason, now().as_ms());
        match changed {
            Ok(news) => attempt.view.news(news),
            Err(_) => remarks.push(STATIC.to_owned()),
        }
    }
    answer.finding(&remarks)
}

const STATIC: &str = "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'. ";

/// Reads the agent's line.
async fn listen(attempt: &Attempt<'_>) -> Result<Vec<u8>, CheckFinding> {
    let redirected = attempt.check.record().redirection.as_ref().and_then(|said| said.send.clone());
    let question = redirected.as_ref().or(attempt.plan.agent_send.as_ref());
    let said = CheckConnect::default();
    let wanted = ConnectionRequest { speaks_first: question.is_some(), ..ConnectionRequest::usual(&said) };
    let CheckConnection { mut connection, socket, .. } = attempt.connect(wanted).await?;
    let line = converse(attempt, &mut connection, question).await;
    attempt.hold(socket, connection);
    line
}

async fn converse(
    attempt: &Attempt<'_>,
    connection: &mut Connection,
    question: Option<&Arc<[u8]>>,
) -> Result<Vec<u8>, CheckFinding> {
    let deadline = attempt.answer_deadline();
    if let Some(text) = question
        && connection.send_all(text, deadline).await.is_none()
    {
        return Err(CheckFinding::new(CheckStatus::L7Timeout));
    }
    let limit = attempt.view.objects().buffer_size();
    loop {
        let is_over = match connection.receive(limit) {
            ReceiveOutcome::Bytes(_) | ReceiveOutcome::Nothing => false,
            ReceiveOutcome::End | ReceiveOutcome::Full => true,
            ReceiveOutcome::Failed(fault) => {
                let detail = fault.to_string().into();
                return Err(CheckFinding { detail, ..CheckFinding::new(CheckStatus::SocketError) });
            }
        };
        match line(connection.input()) {
            AgentLine::Complete(line) => return Ok(line.to_vec()),
            AgentLine::NoText => return Err(incomplete()),
            AgentLine::Incomplete if is_over && connection.input().is_empty() => {
                let detail = "TCPCHK got an empty response at step 2".into();
                return Err(CheckFinding { detail, ..CheckFinding::new(CheckStatus::L7Response) });
            }
            // An incomplete line is not parsed, because a cut keyword may be a different keyword.
            AgentLine::Incomplete if is_over => return Err(incomplete()),
            AgentLine::Incomplete => {}
        }
        if deadline <= now() {
            return Err(CheckFinding::new(CheckStatus::L7Timeout));
        }
        wait(deadline).await;
    }
}

/// The finding if the agent closes before the end of its line, or the line exceeds the buffer. It changes nothing.
fn incomplete() -> CheckFinding {
    let detail = "Ignoring incomplete line from agent".into();
    CheckFinding { detail, ..CheckFinding::new(CheckStatus::L7Timeout) }
}

/// A parsed response of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentAnswer {
    /// `<n>%`, `weight:<n>` or `weight:<n>%`, or the error text if it is invalid.
    pub(crate) weight: Option<Result<WeightChange, &'static str>>,
    /// `maxconn:<n>`, or the error text if it is invalid.
    pub(crate) maximum_connections: Option<Result<u32, &'static str>>,
    /// `ready`, `drain`, `maint`.
    pub(crate) state: Option<RequestedState>,
    /// `up`, `down`, `fail`, `stopped`, in the agent's spelling.
    pub(crate) health: Option<String>,
    /// The text after `#`.
    pub(crate) description: String,
    /// The first unknown keyword.
    pub(crate) unknown: Option<String>,
}

impl AgentAnswer {
    /// The changes to the server. Appends errors in keywords to `remarks`.
    fn changes(&self, remarks: &mut Vec<String>) -> Vec<ServerChange> {
        let mut changes = Vec::new();
        match self.weight {
            Some(Ok(weight)) => changes.push(ServerChange::Weight(weight)),
            Some(Err(why)) => remarks.push(why.to_owned()),
            None => {}
        }
        match self.maximum_connections {
            Some(Ok(limit)) => changes.push(ServerChange::MaximumConnections(limit)),
            Some(Err(why)) => remarks.push(why.to_owned()),
            None => {}
        }
        changes.extend(self.state.map(ServerChange::State));
        changes
    }

    /// The finding about the server's health, in HAProxy's wording.
    fn finding(&self, remarks: &[String]) -> CheckFinding {
        let Some(word) = &self.health else {
            let detail = match (&self.unknown, remarks.first()) {
                (Some(word), _) => format!("agent reports an error : {word}"),
                (None, Some(remark)) => format!("agent warns : {remark}"),
                (None, None) => String::new(),
            };
            return CheckFinding {
                detail: shortened(&detail).to_owned().into(),
                ..CheckFinding::new(CheckStatus::Checked)
            };
        };
        let remark = match &self.unknown {
            Some(unknown) => unknown.clone(),
            None if self.description.is_empty() => remarks.join(" "),
            None => self.description.clone(),
        };
        let remark = if remark.is_empty() { remark } else { format!(" ({remark})") };
        let status = if word.eq_ignore_ascii_case("up") { CheckStatus::L7Ok } else { CheckStatus::L7Status };
        let detail = format!("via agent : {word}{remark}");
        CheckFinding {
            code: Some(0),
            detail: shortened(&detail).to_owned().into(),
            ..CheckFinding::new(status)
        }
    }
}

/// Truncates a message for logs and statistics, because an agent's line may be as long as a buffer.
fn shortened(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    &text[..ends.take_while(|end| *end <= TEXT_LIMIT).last().unwrap_or(0)]
}

/// Maximum length of an agent's message in logs and statistics, in bytes.
const TEXT_LIMIT: usize = 256;

/// The first line of received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AgentLine<'b> {
    Complete(&'b [u8]),
    Incomplete,
    /// The bytes contain a zero byte and are not text.
    NoText,
}

pub(crate) fn line(came: &[u8]) -> AgentLine<'_> {
    match came.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        Some(zero) if came[zero] == 0 => AgentLine::NoText,
        Some(end) => AgentLine::Complete(&came[..end]),
        None => AgentLine::Incomplete,
    }
}

pub(crate) fn parse(line: &[u8]) -> AgentAnswer {
    let text = String::from_utf8_lossy(line);
    let (words, description) = match text.split_once('#') {
        // A `#` begins a description only at the start of a word.
        Some((words, rest)) if words.is_empty() || words.ends_with([' ', '\t', ',']) => (words, rest),
        _ => (&*text, ""),
    };
    let mut answer = AgentAnswer { description: description.trim().to_owned(), ..AgentAnswer::default() };
    for word in words.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        take(&mut answer, word);
    }
    answer
}

fn take(answer: &mut AgentAnswer, word: &str) {
    let is = |known: &str| word.eq_ignore_ascii_case(known);
    if ["up", "down", "fail", "stopped"].into_iter().any(is) {
        answer.health = Some(word.to_owned());
    } else if is("ready") {
        answer.state = Some(RequestedState::Ready);
    } else if is("drain") {
        answer.state = Some(RequestedState::Drain);
    } else if is("maint") {
        answer.state = Some(RequestedState::Maintenance);
    } else if let Some(limit) = behind(word, "maxconn:") {
        answer.maximum_connections = Some(weir_backend::settings::parse_maximum_connections(limit));
    } else if let Some(value) = behind(word, "weight:") {
        answer.weight = Some(WeightChange::parse(value));
    } else if word.ends_with('%') && word.starts_with(|first: char| first.is_ascii_digit()) {
        answer.weight = Some(WeightChange::parse(word));
    } else if answer.unknown.is_none() {
        answer.unknown = Some(word.to_owned());
    }
}

/// The rest of a word after a case-insensitive prefix.
fn behind<'w>(word: &'w str, beginning: &str) -> Option<&'w str> {
    let (head, rest) = word.split_at_checked(beginning.len())?;
    head.eq_ignore_ascii_case(beginning).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: AgentAnswer) {
        assert_eq!(parse(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn accepts_agent_words_in_any_order() {
        let none = AgentAnswer::default;
        check("", none());
        check(
            "up,50%",
            AgentAnswer {
                health: Some("up".to_owned()),
                weight: Some(Ok(WeightChange::Percentage(50))),
                ..none()
            },
        );
        check(
            "maxconn:30 READY\tweight:7",
            AgentAnswer {
                maximum_connections: Some(Ok(30)),
                state: Some(RequestedState::Ready),
                weight: Some(Ok(WeightChange::Absolute(7))),
                ..none()
            },
        );
        check(
            "drain stopped # maintenance window ",
            AgentAnswer {
                state: Some(RequestedState::Drain),
                health: Some("stopped".to_owned()),
                description: "maintenance window".to_owned(),
                ..none()
            },
        );
        check("maint", AgentAnswer { state: Some(RequestedState::Maintenance), ..none() });
    }

    #[test]
    fn reports_unknown_agent_words_and_invalid_weights() {
        assert_eq!(parse(b"down up garbage more").unknown.as_deref(), Some("garbage"));
        assert_eq!(parse(b"fail#broken").unknown.as_deref(), Some("fail#broken"));
        let absolute = "Absolute weight can only be between 0 and 256 inclusive.";
        assert_eq!(parse(b"weight:300").weight, Some(Err(absolute)));
        assert_eq!(parse(b"x%").unknown.as_deref(), Some("x%"));
        assert_eq!(parse(b"+5%").unknown.as_deref(), Some("+5%"));
        assert_eq!(parse(b"weight:-5%").weight, Some(Err("Relative weight must be positive.")));
        assert_eq!(parse(b"1.5%").weight, Some(Err("Trailing garbage in weight string")));
        let huge = WeightChange::Percentage(u32::MAX);
        assert_eq!(parse(b"99999999999999999999%").weight, Some(Ok(huge)));
        let limit = |text: &str| parse(text.as_bytes()).maximum_connections;
        assert_eq!(limit("maxconn:x"), Some(Err("maxconn string empty or preceded by garbage")));
        assert_eq!(limit("maxconn:5x"), Some(Err("Trailing garbage in maxconn string")));
        assert_eq!(limit("maxconn:"), Some(Err("Require <maxconn>.")));
        assert_eq!(limit("maxconn:-5"), Some(Err("Invalid maxconn value.")));
        assert_eq!(
            (limit("MaxConn:5"), parse(b"WEIGHT:5").weight),
            (Some(Ok(5)), Some(Ok(WeightChange::Absolute(5))))
        );
        let weight = |text: &str| parse(text.as_bytes()).weight;
        assert_eq!(weight("weight:"), Some(Err("Require <weight> or <weight%>.")));
        assert_eq!(weight("weight:x"), Some(Err("Empty weight string empty or preceded by garbage")));
        assert_eq!(weight("weight:5%x"), Some(Err("Trailing garbage in weight string")));
        assert_eq!(parse(b"failed").unknown.as_deref(), Some("failed"), "the manual has 'fail'");
        assert!(parse(b"\xff\xfe").unknown.is_some());
    }

    #[test]
    fn an_agent_answer_ends_at_the_line_end() {
        assert_eq!(line(b"up"), AgentLine::Incomplete);
        assert_eq!(line(b"up\r\nmore"), AgentLine::Complete(b"up"));
        assert_eq!(line(b"up\nmo\0re"), AgentLine::Complete(b"up"));
        assert_eq!(line(b"up\0\n"), AgentLine::NoText);
        assert_eq!(line(b""), AgentLine::Incomplete);
    }

    #[test]
    fn truncates_long_unknown_agent_words() {
        let long = "\u{20ac}".repeat(1_000);
        for line in [long.clone(), format!("down # {long}")] {
            let detail = parse(line.as_bytes()).finding(&[]).detail;
            assert!((200..=TEXT_LIMIT).contains(&detail.len()), "{}", detail.len());
        }
    }
}
