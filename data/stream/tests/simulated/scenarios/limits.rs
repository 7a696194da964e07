//! More clients than the frontend and its listener serve at once: the others wait to be accepted, and each is served.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "limits", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1 maxconn 3
 maxconn 2
 rate-limit sessions 20
 server s1 {s1}
";

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 8, &Menu::PLAIN);
}
