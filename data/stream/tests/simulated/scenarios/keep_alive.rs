//! HTTP with keep-alive on both sides: several clients with several requests each, to two servers with idle connections. Bodies
//! are copied, or spliced through pipes. With splicing, requests are also pipelined, so that the next one follows the spliced
//! bytes.

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::{How, Menu};

pub(super) const SCENARIO: Scenario = Scenario { name: "keep-alive", defaults: HTTP, text: TEXT, play };
pub(super) const SPLICED: Scenario =
    Scenario { name: "spliced keep-alive", defaults: HTTP, text: THROUGH_PIPES, play: pipelined };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 http-reuse always
 server s1 {s1}
 server s2 {s2}
";

const THROUGH_PIPES: &str = "
listen front
 bind 127.0.0.1:1
 no option abortonclose
 option splice-request
 option splice-response
 server s1 {s1}
 server s2 {s2}
";

/// No server delimits a response by closing, because pipelined requests after it would get no response.
static PIPELINED: Menu = Menu {
    hows: &[How::Length, How::Chunked, How::Last],
    pipelined: true,
    half_closed: true,
    large: true,
    ..Menu::PLAIN
};

fn play(stage: std::rc::Rc<crate::stage::Stage>) {
    stage.host_all();
    client::some(&stage, 4, &Menu::PLAIN);
}

fn pipelined(stage: std::rc::Rc<crate::stage::Stage>) {
    stage.host_all();
    client::some(&stage, 3, &PIPELINED);
}
