//! Checks of engines (SPOE): each request has the verdict of its own exchange, or the code of a failure.

use std::collections::BTreeMap;

use crate::agent::OWN_STATUS;
use crate::reader::Head;
use crate::stage::Stage;

/// The properties of the engine in a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineRules {
    /// `timeout processing`, in milliseconds.
    pub processing_ms: u64,
    /// `option continue-on-error`.
    pub continues: bool,
    pub max_frame_size: u32,
    pub pipelining: bool,
    /// Whether the messages of some requests exceed a frame: those with a number that ends with 7.
    pub too_large: bool,
}

/// Checks the variables that a rule saw: `number/code/client's port by the agent/client's port`, and for a response
/// `/number by its own exchange/number by a rule for the request`. `id` is the number of the request,
/// `passed` whether every rule before was sure to have run.
pub(crate) fn check_head(stage: &Stage, id: u64, head: &Head, passed: bool) {
    let (Some(rules), Some(field)) = (stage.engine.get(), head.field("x-engine")) else {
        assert!(stage.engine.get().is_none() || !passed, "{id} without its variables: {head:?}");
        return;
    };
    let words: Vec<&str> = field.split('/').collect();
    let [judged, code, client, port, ..] = words[..] else { panic!("{field}") };
    let own = id.to_string();
    assert!(judged.is_empty() || judged == own, "{own} has the verdict of another request: {field}");
    assert!(client.is_empty() || client == port, "{own} has the variable of another session: {field}");
    let answered = words.get(4).copied();
    assert!(answered.is_none_or(|answered| answered.is_empty() || answered == own), "{own}: {field}");
    if !code.is_empty() {
        check_code(code.parse().unwrap_or_else(|_| panic!("{field}")));
    }
    if !passed {
        return;
    }
    if code.is_empty() {
        assert!(
            judged == own && answered.is_none_or(|answered| answered == own),
            "{own} was not judged: {field}"
        );
    } else if !rules.continues && code != INVALID_ACTIONS {
        assert!(judged.is_empty() || answered.is_some_and(str::is_empty), "{own} after a failure: {field}");
    }
    // A rule set it between two exchanges, which both lend the variables of the stream.
    let of_rule = words.get(5).copied();
    assert!(of_rule.is_none_or(|of_rule| of_rule == own), "{own} lost a variable: {field}");
    if !stage.faulty {
        assert_eq!(client, port, "{own}: {field}");
        // Even after a request that was too large for its frame.
        assert!(answered.is_none_or(|answered| answered == own), "{own}: {field}");
        let expected = if rules.too_large && own.ends_with('7') { "3" } else { "" };
        assert_eq!(code, expected, "{own}: {field}");
    }
}

/// Codes of the manual, and those of agents (SPOE.txt, 2.2 and 3.5).
fn check_code(code: u32) {
    let known = matches!(code, 1 | 2 | 3 | 5 | 257..=268 | 355) || code == 256 + OWN_STATUS;
    assert!(known, "code {code}");
}

/// Checks the log lines of the engine: how long exchanges took, their codes, and that an engine is off after a failure.
pub(crate) fn check_lines(stage: &Stage) {
    let Some(rules) = stage.engine.get() else { return };
    let lines = stage.lines();
    // The code of the last failure, by stream.
    let mut failed: BTreeMap<&str, u32> = BTreeMap::new();
    let mut count = 0;
    for line in lines.iter().filter(|line| line.starts_with("SPOE: ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, agent, event, stream, code, took, totals] = words[..] else { panic!("{line}") };
        assert!(agent == "[agent]" && event.starts_with("<EVENT:on-"), "{line}");
        assert!(rules.continues || !failed.contains_key(stream), "after a failure: {line}");
        let code: u32 = code.strip_prefix("st=").and_then(|code| code.parse().ok()).expect(line);
        let took: u64 = took.parse().expect(line);
        assert!(took <= rules.processing_ms + CLOCK_STEP_MS, "an exchange without an end: {line}");
        if code > 0 {
            check_code(code);
            failed.insert(stream, code);
        }
        count += 1;
        assert!(totals.ends_with(&format!("/{count}")), "line {count}: {line}");
    }
    assert_eq!(weir_stream::spoe::open_agents(&stage.instance), 0, "connections to agents");
}

/// The code of a frame with an action that is not valid. The actions before it stay applied.
const INVALID_ACTIONS: &str = "260";
/// A deadline has a resolution of a millisecond.
const CLOCK_STEP_MS: u64 = 1;
