//! Local responses to requests with and without bodies, even while a body is still being sent: each client gets its
//! complete response, and no server gets the request.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::{How, Menu};
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "local answers", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 timeout tarpit 2s
 http-request deny if { path_sub /Denied/ }
 http-request redirect location /elsewhere if { path_sub /Redirected/ }
 http-request tarpit if { path_sub /Tarpitted/ }
 http-request return status 200 content-type text/plain string 0123456789 if { path_sub /Returned/ }
 server s1 {s1}
";

const HOWS: &[How] = &[How::Denied, How::Returned, How::Redirected, How::Tarpitted, How::Length];
static MENU: Menu = Menu { hows: HOWS, pipelined: false, half_closed: false, ..Menu::PLAIN };

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 4, &MENU);
}
