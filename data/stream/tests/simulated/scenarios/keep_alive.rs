//! HTTP with keep-alive on both sides: several clients with several requests each, to two servers with idle connections.

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;

pub const SCENARIO: Scenario = Scenario { name: "keep-alive", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 http-reuse always
 server s1 {s1}
 server s2 {s2}
";

fn play(stage: std::rc::Rc<crate::stage::Stage>) {
    stage.host_all();
    client::some(&stage, 4, &Menu::PLAIN);
}
