//! Bodies that arrive in pieces of a datagram's size, as from QUIC: from services to HTTP/1 and HTTP/2 clients, and in requests to servers of
//! both. Some pass a filter, or are inspected and kept for retries.
//!
//! A client may send 100 kB of uploads before its next WINDOW_UPDATE, on a link of 25 kB/s. So its timeout is a minute.

use std::rc::Rc;

use super::{HTTP, HTTP2, Scenario};
use crate::plan::{How, Menu};
use crate::stage::Stage;
use crate::{client, multiplexed};

pub(super) const HTTP_1: Scenario = Scenario { name: "datagrams", defaults: HTTP, text: TEXT, play };
pub(super) const HTTP_2: Scenario =
    Scenario { name: "datagrams to http/2", defaults: HTTP2, text: TO_HTTP_2, play: multiplexed };
pub(super) const FILTERED: Scenario =
    Scenario { name: "filtered datagrams", defaults: HTTP, text: THROUGH_A_FILTER, play };

pub(super) const UP_TO_HTTP_1: Scenario =
    Scenario { name: "uploads in datagrams", defaults: HTTP2, text: UP, play: to_http_1 };
pub(super) const UP_TO_HTTP_2: Scenario =
    Scenario { name: "uploads in datagrams to http/2", defaults: HTTP2, text: UP_AGAIN, play: to_http_2 };
pub(super) const UP_KEPT: Scenario =
    Scenario { name: "kept uploads in datagrams", defaults: HTTP2, text: KEPT, play: kept };

/// The configuration, with additional words on the `bind` line, and additional lines before the lines of the answer.
macro_rules! configuration {
    ($bind:literal, $lines:literal) => {
        concat!(
            "\nlisten front\n bind 127.0.0.1:1",
            $bind,
            "\n timeout client 1m\n",
            $lines,
            " stats enable
 stats uri /
 http-request set-var(txn.id) req.hdr(x-id)
 http-after-response set-header x-from service if { status 200 }
 http-after-response set-header x-id %[var(txn.id)] if { status 200 }
"
        )
    };
}

const TEXT: &str = configuration!("", "");
const TO_HTTP_2: &str = configuration!(" proto h2", "");
const THROUGH_A_FILTER: &str = configuration!("", " filter trace quiet max-fwd 700\n");

static MENU: Menu = Menu {
    hows: &[How::Datagrams],
    wrong: &[How::Datagrams],
    // A local answer to a request with an incomplete body ends the connection.
    pipelined: false,
    half_closed: false,
    large: true,
    datagrams: false,
    announced: false,
    hasty: false,
};

const UP: &str = "
listen front
 bind 127.0.0.1:1 proto h2
 timeout client 1m
 timeout server 1m
 server s1 {s1}
 server s2 {s2} maxconn 2
";

const UP_AGAIN: &str = "
listen front
 bind 127.0.0.1:1 proto h2
 timeout client 1m
 timeout server 1m
 filter trace quiet max-fwd 700
 http-reuse always
 server s1 {s1} proto h2
 server s2 {s2} proto h2
";

/// Bodies that fit a buffer are resent after failures.
const KEPT: &str = "
listen front
 bind 127.0.0.1:1 proto h2
 timeout client 1m
 timeout server 1m
 timeout http-request 1m
 option http-buffer-request
 http-request set-var(txn.length) req.body_len
 retries 3
 retry-on all-retryable-errors
 option redispatch 1
 server s1 {s1}
 server s2 {s2}
";

static UPLOADS: Menu =
    Menu { large: true, datagrams: true, pipelined: false, half_closed: false, ..multiplexed::MENU };

fn to_http_1(stage: Rc<Stage>) {
    stage.host_all();
    stage.multiplexed.set(true);
    multiplexed::some(&stage, 2, &UPLOADS);
}

fn to_http_2(stage: Rc<Stage>) {
    multiplexed::host(&stage);
    multiplexed::some(&stage, 2, &UPLOADS);
}

fn kept(stage: Rc<Stage>) {
    // The first attempt, three retries, and further ones caused by dead reused connections.
    stage.most_arrivals.set(6);
    to_http_1(stage);
}

fn play(stage: Rc<Stage>) {
    client::some(&stage, 3, &MENU);
}

fn multiplexed(stage: Rc<Stage>) {
    stage.multiplexed.set(true);
    multiplexed::some(&stage, 3, &MENU);
}
