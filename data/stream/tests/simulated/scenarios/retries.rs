//! A server that refuses connections, and in runs with faults servers that close, reopen, or do not answer: requests go to
//! another server as long as no server can have received them.

use std::rc::Rc;

use weir_sched::{now, sleep_until};

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "retries", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 retries 4
 option redispatch 1
 server gone {closed}
 server s1 {s1}
 server s2 {s2}
";

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 4, &Menu::PLAIN);
    if stage.faulty {
        let servers = Rc::clone(&stage);
        stage.play(async move {
            for _ in 0..servers.network.random(6) {
                sleep_until(now().after(servers.network.random(500))).await;
                let name = ["s1", "s2"][servers.network.random(2) as usize];
                match servers.network.random(3) {
                    0 => servers.close_service(name),
                    1 => servers.open_service(name),
                    _ => servers.answer(name, servers.network.random(2) == 0),
                }
            }
            servers.open_service("s1");
            servers.answer("s1", true);
        });
    }
}
