//! Servers that take one or two requests at a time: the others wait in their queues or in the backend's, and each is served.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "queues", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 balance leastconn
 option redispatch
 server s1 {s1} maxconn 1
 server s2 {s2} maxconn 2 maxqueue 3
";

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 12, &Menu::PLAIN);
}
