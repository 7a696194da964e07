//! What an agent answers (manual, "agent-check"): one line of words about weight, limit, administrative and operational state.

use weir_backend::{RequestedState, WeightChange};

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `<n>%`, `weight:<n>`, `weight:<n>%`; or why it is none.
    pub(crate) weight: Option<Result<WeightChange, &'static str>>,
    /// `maxconn:<n>`; or why it is none.
    pub(crate) maximum_connections: Option<Result<u32, &'static str>>,
    /// `ready`, `drain`, `maint`.
    pub(crate) state: Option<RequestedState>,
    /// `up`, `down`, `fail`, `stopped`: the word.
    pub(crate) health: Option<&'static str>,
    /// What follows a sharp.
    pub(crate) description: String,
    /// The first word that nobody knows.
    pub(crate) unknown: Option<String>,
}

impl Answer {
    /// Whether it says that the server is up.
    pub(crate) fn is_up(&self) -> bool {
        self.health == Some("up")
    }
}

/// The first line of what came, once its end did.
pub(crate) fn line(came: &[u8], complete: bool) -> Option<&[u8]> {
    match came.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        Some(end) => Some(&came[..end]),
        None if complete && !came.is_empty() => Some(came),
        None => None,
    }
}

/// Reads a line.
pub(crate) fn parse(line: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(line);
    let (words, description) = match text.split_once('#') {
        // A sharp begins a description where a word may begin.
        Some((words, rest)) if words.is_empty() || words.ends_with([' ', '\t', ',']) => (words, rest),
        _ => (&*text, ""),
    };
    let mut answer = Answer { description: description.trim().to_owned(), ..Answer::default() };
    for word in words.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        take(&mut answer, word);
    }
    answer
}

fn take(answer: &mut Answer, word: &str) {
    let is = |known: &str| word.eq_ignore_ascii_case(known);
    if let Some(known) = ["up", "down", "fail", "failed", "stopped"].into_iter().find(|known| is(known)) {
        answer.health = Some(known);
    } else if is("ready") {
        answer.state = Some(RequestedState::Ready);
    } else if is("drain") {
        answer.state = Some(RequestedState::Drain);
    } else if is("maint") {
        answer.state = Some(RequestedState::Maintenance);
    } else if let Some(limit) = word.strip_prefix("maxconn:") {
        answer.maximum_connections = Some(limit.parse().map_err(|_| "Invalid maxconn value."));
    } else if let Some(value) = word.strip_prefix("weight:") {
        answer.weight = Some(weight(value));
    } else if word.ends_with('%') {
        answer.weight = Some(weight(word));
    } else if answer.unknown.is_none() {
        answer.unknown = Some(word.to_owned());
    }
}

fn weight(text: &str) -> Result<WeightChange, &'static str> {
    const PER_CENT: &str = "Relative weight must be positive.";
    const ABSOLUTE: &str = "Absolute weight can only be between 0 and 256 inclusive.";
    match text.strip_suffix('%') {
        Some(number) => number.parse().map(WeightChange::Percentage).map_err(|_| PER_CENT),
        None => {
            let value: u32 = text.parse().map_err(|_| ABSOLUTE)?;
            if value > weir_backend::settings::MAXIMUM_WEIGHT { Err(ABSOLUTE) } else { Ok(WeightChange::Absolute(value)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Answer) {
        assert_eq!(parse(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn an_answer_is_words_in_any_order() {
        let none = Answer::default;
        check("", none());
        check("up,50%", Answer {
            health: Some("up"),
            weight: Some(Ok(WeightChange::Percentage(50))),
            ..none()
        });
        check("maxconn:30 READY\tweight:7", Answer {
            maximum_connections: Some(Ok(30)),
            state: Some(RequestedState::Ready),
            weight: Some(Ok(WeightChange::Absolute(7))),
            ..none()
        });
        check("drain stopped # maintenance window ", Answer {
            state: Some(RequestedState::Drain),
            health: Some("stopped"),
            description: "maintenance window".to_owned(),
            ..none()
        });
        check("maint", Answer { state: Some(RequestedState::Maintenance), ..none() });
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(parse(b"down up garbage more").unknown.as_deref(), Some("garbage"));
        assert_eq!(parse(b"fail#broken").unknown.as_deref(), Some("fail#broken"));
        let absolute = "Absolute weight can only be between 0 and 256 inclusive.";
        assert_eq!(parse(b"weight:300").weight, Some(Err(absolute)));
        assert_eq!(parse(b"x%").weight, Some(Err("Relative weight must be positive.")));
        assert_eq!(parse(b"maxconn:x").maximum_connections, Some(Err("Invalid maxconn value.")));
        assert!(parse(b"\xff\xfe").unknown.is_some());
    }

    #[test]
    fn a_line_ends_somewhere() {
        assert_eq!(line(b"up", false), None);
        assert_eq!(line(b"up", true), Some(&b"up"[..]));
        assert_eq!(line(b"up\r\nmore", false), Some(&b"up"[..]));
        assert_eq!(line(b"", true), None);
    }
}
