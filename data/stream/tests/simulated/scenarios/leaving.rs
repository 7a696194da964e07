//! A soft stop under traffic, as in a reload: the worker accepts no more connections, and each request in progress gets
//! its complete response.

use std::rc::Rc;

use weir_sched::{now, sleep_until};

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "leaving", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 server s1 {s1} maxconn 2
";

fn play(stage: Rc<Stage>) {
    stage.host_all();
    client::some(&stage, 4, &Menu::PLAIN);
    let worker = Rc::clone(&stage);
    stage.play(async move {
        sleep_until(now().after(worker.network.random(500))).await;
        worker.stop();
    });
}
