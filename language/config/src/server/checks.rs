//! The words of a server line that say how the server is checked.

use std::time::Duration;

use crate::address::source_address;
use crate::model::InitialState;
use crate::numbers::{delay_of, integer_in};
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

use super::{NOT_ADDED, ServerReader, option};

pub(super) const READY: &[Row<ServerReader>] = &[
    option("addr", "<ipv4|ipv6>", "127.0.0.2", "health checks: address to check", |server, words| {
        let word = words.expect("'addr' expects <ipv4|ipv6> as argument.")?;
        let (host, first, last) = source_address(word, "addr")?;
        if (first, last) != (0, 0) {
            return Err(fault(word.span(), "'addr' takes no port: 'port' says it."));
        }
        server.settings.check.address = Some(host);
        Ok(())
    }),
    option("check", "", "", "health checks: on", |server, _| {
        server.settings.check.enabled = true;
        Ok(())
    }),
    option("check-send-proxy", "", "", "health checks: send a PROXY header", |server, _| {
        server.settings.check.send_proxy = true;
        Ok(())
    }),
    option("check-via-socks4", "", "", "health checks: through the server's SOCKS4 proxy", |server, _| {
        server.settings.check.via_socks4 = true;
        Ok(())
    }),
    option("downinter", "<delay>", "10s", "health checks: interval while down", |server, words| {
        server.settings.check.down_inter = Some(interval(words, "downinter")?);
        Ok(())
    }),
    option("fall", "<count>", "3", "health checks: failures until down", |server, words| {
        server.settings.check.fall = times(words, "fall")?;
        Ok(())
    }),
    option("fastinter", "<delay>", "500ms", "health checks: interval while changing", |server, words| {
        server.settings.check.fast_inter = Some(interval(words, "fastinter")?);
        Ok(())
    }),
    option(
        "init-state",
        "{ fully-up | up | down | fully-down | none }",
        "down",
        "health checks: state at the start",
        |server, words| {
            let text = words.take().map_or("", |word| word.text());
            server.settings.check.initial_state = match text {
                "none" => InitialState::Unsaid,
                "fully-up" => InitialState::FullyUp,
                "up" => InitialState::Up,
                "down" => InitialState::Down,
                "fully-down" => InitialState::FullyDown,
                _ => {
                    return Err(words.fault(format!(
                        "'init-state' expects one of 'none', 'fully-up', 'up', 'down', or 'fully-down' but got '{text}'"
                    )));
                }
            };
            Ok(())
        },
    ),
    option("inter", "<delay>", "5s", "health checks: interval", |server, words| {
        server.settings.check.inter = interval(words, "inter")?;
        Ok(())
    }),
    option("no-check", "", "", "undo 'check' of default-server", |server, _| {
        server.settings.check.enabled = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("no-check-send-proxy", "", "", "undo 'check-send-proxy' of default-server", |server, _| {
        server.settings.check.send_proxy = false;
        Ok(())
    })
    .with(NOT_ADDED),
    option("port", "<port>", "8080", "health checks: port to check", |server, words| {
        let word = words.expect("'port' expects a port number as argument.")?;
        let port: u16 = integer_in(word, "port", 0..=u16::MAX)?;
        server.settings.check.port = (port > 0).then_some(port);
        Ok(())
    }),
    option("rise", "<count>", "2", "health checks: successes until up", |server, words| {
        server.settings.check.rise = times(words, "rise")?;
        Ok(())
    }),
];

/// A delay between checks.
fn interval(words: &mut Words<'_>, keyword: &str) -> Parsed<Duration> {
    let word = words.expect(&format!("'{keyword}' expects a delay as argument."))?;
    let delay = delay_of(words, word, keyword)?;
    if delay < SHORTEST_INTERVAL {
        return Err(fault(word.span(), format!("'{keyword}' : invalid value {word}.")));
    }
    Ok(delay)
}

/// The clock of timers is one of milliseconds.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// How many checks in a row.
fn times(words: &mut Words<'_>, keyword: &str) -> Parsed<u32> {
    let word = words.expect(&format!("'{keyword}' expects an integer argument."))?;
    let count = integer_in(word, keyword, i64::MIN..=i64::MAX)?;
    match u32::try_from(count) {
        Ok(count @ 1..=MOST_TIMES) => Ok(count),
        Ok(_) if count > 0 => Err(fault(word.span(), format!("'{keyword}' has to be at most {MOST_TIMES}."))),
        _ => Err(fault(word.span(), format!("'{keyword}' has to be > 0."))),
    }
}

/// Successes and failures together are counted in 31 bits.
const MOST_TIMES: u32 = 1 << 30;
