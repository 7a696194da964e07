//! `retry-on`: requests are retried after truncated, empty or invalid responses. Their bodies arrive in full each time.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "replays", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 retries 3
 retry-on all-retryable-errors
 option redispatch 1
 http-reuse always
 server s1 {s1}
 server s2 {s2} maxconn 2
";

fn play(stage: Rc<Stage>) {
    // The first attempt, three retries, and further ones caused by dead reused connections.
    stage.most_arrivals.set(6);
    stage.host_all();
    client::some(&stage, 4, &Menu::PLAIN);
}
