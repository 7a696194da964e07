//! The scenarios. A new one is a file here and a row below.

mod applications;
mod closing;
mod datagrams;
mod early;
mod engines;
mod keep_alive;
mod leaving;
mod limits;
mod local;
mod moving;
mod multiplexed;
mod pipelining;
mod queues;
mod replays;
mod retries;
mod scripts;
mod tcp;
mod tunnels;

use std::rc::Rc;

use crate::stage::Stage;

/// A configuration, and its clients.
pub(crate) struct Scenario {
    pub name: &'static str,
    /// The beginning of the text.
    pub defaults: &'static str,
    /// The configuration. `{name}` is the address of a server, `{closed}` of one that refuses connections.
    pub text: &'static str,
    /// Starts the scripts. The run ends with the last of them.
    pub play: fn(Rc<Stage>),
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    keep_alive::SCENARIO,
    keep_alive::SPLICED,
    pipelining::SCENARIO,
    early::SCENARIO,
    queues::SCENARIO,
    retries::SCENARIO,
    tunnels::SCENARIO,
    tcp::SCENARIO,
    tcp::SPLICED,
    leaving::SCENARIO,
    closing::SCENARIO,
    limits::SCENARIO,
    local::SCENARIO,
    moving::SCENARIO,
    replays::SCENARIO,
    multiplexed::BOTH,
    multiplexed::CLIENTS,
    multiplexed::SERVERS,
    datagrams::HTTP_1,
    datagrams::HTTP_2,
    datagrams::FILTERED,
    datagrams::UP_TO_HTTP_1,
    datagrams::UP_TO_HTTP_2,
    datagrams::UP_KEPT,
    engines::PIPELINED,
    engines::SERIAL,
    engines::CONTINUED,
    applications::SERIAL,
    applications::MULTIPLEXED,
    applications::ASKED,
    applications::CLOSED,
    scripts::ACTIONS,
    scripts::SERVICES,
    scripts::CHANNELS,
    scripts::APPLETS,
];

/// The checks read this log format.
const HTTP: &str = "defaults
 mode http
 timeout client 10s
 timeout server 10s
 timeout connect 4s
 timeout queue 20s
 log stdout format raw local0
 log-format \"%f %b/%s %ts %ST %U %B %HU\"
";

/// [`HTTP`], with a log format that shows only the path of absolute targets.
const HTTP2: &str = "defaults
 mode http
 timeout client 10s
 timeout server 10s
 timeout connect 4s
 timeout queue 20s
 log stdout format raw local0
 log-format \"%f %b/%s %ts %ST %U %B %HPO\"
";

const TCP: &str = "defaults
 mode tcp
 timeout client 10s
 timeout server 10s
 timeout connect 4s
 log stdout format raw local0
 log-format \"%f %b/%s %ts 0 %U %B -\"
";
