//! HTTP/2 on the client's side, on the server's, and on both: many concurrent streams, windows of any size, resets, GOAWAY.

use std::rc::Rc;

use super::{HTTP2, Scenario};
use crate::plan::Menu;
use crate::stage::Stage;
use crate::{client, multiplexed};

pub(super) const BOTH: Scenario = Scenario { name: "http/2", defaults: HTTP2, text: BOTH_SIDES, play: both };
pub(super) const CLIENTS: Scenario =
    Scenario { name: "http/2 clients", defaults: HTTP2, text: OF_CLIENTS, play: clients };
pub(super) const SERVERS: Scenario =
    Scenario { name: "http/2 servers", defaults: HTTP2, text: OF_SERVERS, play: servers };

const BOTH_SIDES: &str = "
listen front
 bind 127.0.0.1:1 proto h2
 http-reuse always
 server s1 {s1} proto h2
 server s2 {s2} proto h2 maxconn 3
";

const OF_CLIENTS: &str = "
listen front
 bind 127.0.0.1:1 proto h2
 server s1 {s1}
 server s2 {s2} maxconn 2
";

const OF_SERVERS: &str = "
listen front
 bind 127.0.0.1:1
 http-reuse always
 server s1 {s1} proto h2
";

fn both(stage: Rc<Stage>) {
    multiplexed::host(&stage);
    multiplexed::some(&stage, 3, &multiplexed::MENU);
}

fn clients(stage: Rc<Stage>) {
    stage.host_all();
    stage.multiplexed.set(true);
    multiplexed::some(&stage, 3, &multiplexed::MENU);
}

fn servers(stage: Rc<Stage>) {
    multiplexed::host(&stage);
    client::some(&stage, 5, &Menu { half_closed: false, ..multiplexed::MENU });
}
