//! Connections without keep-alive on the client's side, on the server's, or on both, and server connections that serve
//! one client only.

use std::rc::Rc;

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "closing", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
frontend front
 bind 127.0.0.1:1
 use_backend both if { hdr_end(x-id) 0 3 6 }
 use_backend servers if { hdr_end(x-id) 1 4 7 }
 default_backend private
backend both
 option httpclose
 server s1 {s1}
backend servers
 option http-server-close
 server s1 {s1}
backend private
 http-reuse never
 server s1 {s1}
";

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 4, &Menu::PLAIN);
}
