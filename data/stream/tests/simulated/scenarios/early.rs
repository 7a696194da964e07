//! Servers that answer before they have the request's body, and clients that wait for `100 Continue` with theirs.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::{How, Menu};
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "early answers", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 http-reuse always
 server s1 {s1}
";

static MENU: Menu = Menu {
    hows: &[How::Early, How::Early, How::Length],
    pipelined: false,
    half_closed: false,
    ..Menu::PLAIN
};

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 3, &MENU);
}
