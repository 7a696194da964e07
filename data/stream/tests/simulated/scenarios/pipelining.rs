//! Pipelined requests, and clients that half-close early. Each answer belongs to its request, in order, and the last one is not
//! lost: the backends ignore a client's half-close.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::{How, Menu};
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "pipelining", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
frontend front
 bind 127.0.0.1:1
 use_backend plain if { url_end 1 3 5 7 9 }
 default_backend edited
 no option abortonclose
 option http-buffer-request
backend edited
 no option abortonclose
 option http-buffer-request
 http-request set-header x-edited yes
 http-response del-header nothing
 server s1 {s1}
backend plain
 no option abortonclose
 server s2 {s2}
";

/// No server delimits a response by closing, because pipelined requests after it would get no response.
const HOWS: &[How] = &[How::Length, How::Chunked, How::Last];
static MENU: Menu = Menu { hows: HOWS, pipelined: true, half_closed: true, ..Menu::PLAIN };

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 3, &MENU);
}
