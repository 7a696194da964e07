//! FastCGI applications: one request at a time on a connection, several, limits that the application announces, and connections that
//! close after each request. In runs with faults, applications leave, come back, and break the protocol.

use std::rc::Rc;

use weir_sched::{now, sleep_until};

use super::{HTTP, HTTP2, Scenario};
use crate::application::{self, ApplicationRules};
use crate::plan::{How, Menu};
use crate::stage::Stage;
use crate::{client, multiplexed};

/// The configuration up to the options of the application.
macro_rules! front {
    ($bind:literal, $settings:literal) => {
        concat!(
            "
listen front
 bind 127.0.0.1:1",
            $bind,
            $settings,
            "
 http-reuse always
 retries 2
 option redispatch 1
 use-fcgi-app app
 server s1 {s1} proto fcgi
 server s2 {s2} proto fcgi maxconn 3
fcgi-app app
 docroot /srv
 log-stderr stdout format raw local0
"
        )
    };
}

pub(super) const SERIAL: Scenario = Scenario {
    name: "applications",
    defaults: HTTP,
    text: front!("", ""),
    play: |stage| {
        play(&stage, RULES);
        client::some(&stage, 3, &LARGE);
    },
};

// A client that reads slowly holds the requests that share its connection.
pub(super) const MULTIPLEXED: Scenario = Scenario {
    name: "applications that multiplex",
    defaults: HTTP2,
    text: concat!(
        front!(
            " proto h2",
            "
 timeout server 200s"
        ),
        " option mpxs-conns
 option max-reqs 5
"
    ),
    play: |stage| {
        play(&stage, ApplicationRules { requests: 5, ..RULES });
        // An HTTP/2 client sends nothing more of a body once it has its response.
        multiplexed::some(&stage, 3, &OF_STREAMS);
    },
};

pub(super) const ASKED: Scenario = Scenario {
    name: "applications with limits",
    defaults: HTTP,
    text: concat!(
        front!("", ""),
        " option get-values
"
    ),
    play: |stage| {
        play(&stage, ApplicationRules { requests: 4, get_values: true, ..RULES });
        client::some(&stage, 4, &MENU);
    },
};

pub(super) const CLOSED: Scenario = Scenario {
    name: "applications that close",
    defaults: HTTP,
    text: concat!(
        front!("", ""),
        " no option keep-conn
"
    ),
    play: |stage| {
        play(&stage, ApplicationRules { keeps: false, ..RULES });
        client::some(&stage, 4, &MENU);
    },
};

const RULES: ApplicationRules = ApplicationRules { requests: 1, keeps: true, get_values: false };

/// All that servers can do, except for a change of the protocol. A body without a length must fit a buffer.
const MENU: Menu = Menu {
    hows: &[How::Length, How::Chunked, How::Close, How::Last, How::Early],
    announced: true,
    ..Menu::PLAIN
};

const LARGE: Menu = Menu { large: true, ..MENU };

const OF_STREAMS: Menu = Menu { announced: true, ..multiplexed::MENU };

fn play(stage: &Rc<Stage>, rules: ApplicationRules) {
    // Records and HTTP have other sizes.
    stage.multiplexed.set(true);
    for name in NAMES {
        host(stage, name, rules);
    }
    if stage.faulty {
        let restarts = Rc::clone(stage);
        stage.play(async move {
            for _ in 0..restarts.network.random(6) {
                sleep_until(now().after(restarts.network.random(800))).await;
                let name = NAMES[restarts.network.random(2) as usize];
                match restarts.network.random(3) {
                    0 => restarts.close_service(name),
                    1 if restarts.listen_again(name) => host(&restarts, name, rules),
                    _ => restarts.answer(name, restarts.network.random(2) == 0),
                }
            }
        });
    }
}

fn host(stage: &Rc<Stage>, name: &str, rules: ApplicationRules) {
    let of = Rc::clone(stage);
    stage.host_with(name, move |peer| application::serve(Rc::clone(&of), peer, rules));
}

const NAMES: [&str; 2] = ["s1", "s2"];
