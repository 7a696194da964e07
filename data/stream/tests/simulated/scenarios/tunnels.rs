//! Connections that switch protocols (`101 Switching Protocols`): bytes flow both ways until the server ends the connection.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::{How, Menu};
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "tunnels", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 timeout tunnel 1m
 server s1 {s1}
";

static MENU: Menu = Menu { hows: &[How::Upgrade], pipelined: false, half_closed: false, ..Menu::PLAIN };

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 3, &MENU);
}
