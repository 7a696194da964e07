//! An engine that asks agents about sessions, requests and responses: with pipelining, without it, and with frames that are too small
//! for some requests. In runs with faults, agents leave, come back, answer late or wrongly, or are silent.

use std::rc::Rc;

use weir_sched::{now, sleep_until};

use super::{HTTP, Scenario};
use crate::agent::{self, Agents};
use crate::client;
use crate::engines::EngineRules;
use crate::plan::Menu;
use crate::stage::Stage;

/// The configuration up to the options of the agent.
macro_rules! front {
    ($messages:literal) => {
        concat!("
frontend front
 bind 127.0.0.1:1
 filter spoe engine e config engine.conf
 http-request set-header x-engine %[var(txn.e.judged)]/%[var(txn.e.error)]/%[var(sess.e.client)]/%[src_port]
 http-request set-var(txn.id) req.hdr(x-id)
 http-response set-var(txn.passed) var(res.e.passed)
 http-after-response set-header x-engine %[var(txn.e.judged)]/%[var(txn.e.error)]/%[var(sess.e.client)]/%[src_port]/%[var(txn.passed)]/%[var(txn.id)]
 default_backend servers
backend servers
 http-reuse always
 server s1 {s1}
backend agents
 mode spop
 balance roundrobin
 retries 2
 option redispatch 1
 server a1 {a1}
 server a2 {a2}
--- engine.conf
[e]
spoe-message session
 args port=src_port
 event on-client-session
spoe-message request
 args id=req.hdr(x-id)
 event on-frontend-http-request
spoe-message response
 args id=var(txn.id)
 event on-http-response
spoe-agent agent
 messages session request response ", $messages, "
 option var-prefix e
 option set-on-error error
 timeout processing 2s
 use-backend agents
 log stdout format raw local0
")
    };
}

pub(super) const PIPELINED: Scenario = Scenario {
    name: "engines",
    defaults: HTTP,
    text: concat!(
        front!(""),
        " option pipelining
"
    ),
    play: |stage| play(&stage, RULES),
};

pub(super) const SERIAL: Scenario = Scenario {
    name: "engines without pipelining",
    defaults: HTTP,
    text: concat!(
        front!(""),
        " no option pipelining
"
    ),
    play: |stage| play(&stage, EngineRules { pipelining: false, ..RULES }),
};

pub(super) const CONTINUED: Scenario = Scenario {
    name: "engines that continue",
    defaults: HTTP,
    text: concat!(
        front!("padding"),
        " option continue-on-error
 max-frame-size 256
spoe-message padding
 args str(0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789) \
 str(0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789) \
 str(0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789)
 event on-frontend-http-request if { req.hdr(x-id) -m end 7 }
"
    ),
    play: |stage| {
        let rules = EngineRules { continues: true, max_frame_size: 256, too_large: true, ..RULES };
        play(&stage, rules);
    },
};

const RULES: EngineRules = EngineRules {
    processing_ms: 2_000,
    continues: false,
    max_frame_size: 16_380,
    pipelining: true,
    too_large: false,
};

fn play(stage: &Rc<Stage>, rules: EngineRules) {
    stage.engine.set(Some(rules));
    stage.host("s1");
    let agents = Agents::new(stage, rules);
    for name in NAMES {
        host(stage, name, &agents);
    }
    if stage.network.random(2) == 0 {
        weir_stream::spoe::warm_up(&stage.instance);
    }
    client::some(stage, 5, &Menu::PLAIN);
    if stage.faulty {
        let restarts = Rc::clone(stage);
        stage.play(async move {
            for _ in 0..restarts.network.random(6) {
                sleep_until(now().after(restarts.network.random(800))).await;
                let name = NAMES[restarts.network.random(2) as usize];
                match restarts.network.random(3) {
                    0 => restarts.close_service(name),
                    1 if restarts.listen_again(name) => host(&restarts, name, &agents),
                    _ => restarts.answer(name, restarts.network.random(2) == 0),
                }
            }
        });
    }
}

fn host(stage: &Rc<Stage>, name: &str, agents: &Rc<Agents>) {
    let agents = Rc::clone(agents);
    stage.host_with(name, move |peer| agent::serve(Rc::clone(&agents), peer));
}

const NAMES: [&str; 2] = ["a1", "a2"];
