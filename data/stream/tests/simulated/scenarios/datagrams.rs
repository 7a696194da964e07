//! Bodies that arrive in pieces of a datagram's size, as from QUIC, for clients of HTTP/1 and HTTP/2. They pass a filter now and then.
//!
//! A client may have 100 kB of uploads before its next update of a window, on a link of 25 kB/s: it has a minute for that.

use std::rc::Rc;

use super::{HTTP, HTTP2, Scenario};
use crate::plan::{How, Menu};
use crate::stage::Stage;
use crate::{client, multiplexed};

pub const HTTP_1: Scenario = Scenario { name: "datagrams", defaults: HTTP, text: TEXT, play };
pub const HTTP_2: Scenario =
    Scenario { name: "datagrams to http/2", defaults: HTTP2, text: TO_HTTP_2, play: multiplexed };
pub const FILTERED: Scenario =
    Scenario { name: "filtered datagrams", defaults: HTTP, text: THROUGH_A_FILTER, play };

/// The configuration, with more words of `bind` and more lines before those of the answer.
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
};

fn play(stage: Rc<Stage>) {
    client::some(&stage, 3, &MENU);
}

fn multiplexed(stage: Rc<Stage>) {
    stage.multiplexed.set(true);
    multiplexed::some(&stage, 3, &MENU);
}
