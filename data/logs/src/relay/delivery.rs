//! Delivers a message to every target.

use std::cell::RefCell;
use std::io::Write as _;
use std::net::IpAddr;

use weir_events::{Logger, NewHost, RelayedDate, RelayedMessage};
use weir_model::HostStrategy;
use weir_sys::Address;
use weir_syslog::{HeaderShape, Stamp, SyslogMessage};

use super::{Relay, Relays};

/// Per-worker state for delivery.
struct Desk {
    logger: Logger,
    /// The text of the host field while a message is written: the sender's address, after the message's host if both are wanted.
    host: Vec<u8>,
}

thread_local! {
    static DESK: RefCell<Option<Desk>> = const { RefCell::new(None) };
}

/// Sets the worker's logger.
pub fn install(logger: Logger) {
    DESK.set(Some(Desk { logger, host: Vec::new() }));
}

/// The sender's IP address. `None` for a UNIX socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sender(Option<IpAddr>);

impl Sender {
    pub(crate) fn of(address: &Address) -> Self {
        Self::from_ip(address.ip())
    }

    pub(crate) fn from_ip(ip: Option<IpAddr>) -> Self {
        // An IPv6 socket reports IPv4 senders as mapped addresses.
        Sender(ip.map(|ip| ip.to_canonical()))
    }
}

impl Relay {
    /// Sends a message to every target. A target that cannot accept it now drops it.
    pub(crate) fn deliver(&self, relays: &Relays, bytes: &[u8], sender: Sender) {
        relays.count();
        let message =
            if self.unparsed { SyslogMessage::unparsed(bytes) } else { SyslogMessage::parse(bytes) };
        let time = weir_sched::wall_time();
        DESK.with_borrow_mut(|desk| {
            let Some(Desk { logger, host }) = desk else { return };
            let relayed = relayed(&message, self.host, sender.0, host);
            for sink in &self.sinks {
                // The target counts dropped messages.
                logger.relay(sink, time, &relayed);
            }
        });
    }
}

/// The host field for targets (manual, "option host"). `space` is a buffer for composing it.
fn chosen_host<'a>(
    strategy: HostStrategy,
    own: Option<&'a [u8]>,
    sender: Sender,
    space: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let Some(sender) = sender.0 else { return own };
    space.clear();
    match (strategy, own) {
        (HostStrategy::Keep, _) | (HostStrategy::Fill, Some(_)) => return own,
        (HostStrategy::Append, Some(own)) => {
            space.extend_from_slice(own);
            space.push(b',');
        }
        (HostStrategy::Replace, _) | (_, None) => {}
    }
    // Writing to memory does not fail.
    let _ = write!(space, "{sender}");
    Some(space)
}

/// A message for the targets, with its host field. `space` is a buffer for composing the host.
pub fn relayed<'a>(
    message: &SyslogMessage<'a>,
    strategy: HostStrategy,
    sender: Option<IpAddr>,
    space: &'a mut Vec<u8>,
) -> RelayedMessage<'a> {
    let host = chosen_host(strategy, message.host, Sender(sender), space);
    let has_room = matches!(message.shape, HeaderShape::Rfc3164 | HeaderShape::Rfc5424);
    let new_host = host.filter(|host| has_room && message.host != Some(*host)).map(|name| NewHost {
        at: message.host_at,
        // An unknown host is written as a dash.
        length: message.host.map_or(1, <[u8]>::len),
        name,
    });
    RelayedMessage {
        whole: message.whole,
        priority: message.priority,
        after_priority: message.after_priority,
        date: match message.stamp {
            Stamp::None => RelayedDate::None,
            Stamp::Unknown => RelayedDate::Unknown,
            Stamp::Rfc3164(date) => RelayedDate::Rfc3164(date),
            Stamp::Iso(date) => RelayedDate::Iso(date),
        },
        host,
        new_host,
        tag: message.tag,
        process_id: message.process_id,
        message_id: message.message_id,
        structured_data: message.structured_data,
        text: message.text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(strategy: HostStrategy, own: Option<&str>, sender: Option<&str>, expected: Option<&str>) {
        let mut space = Vec::new();
        let sender = Sender::from_ip(sender.map(|sender| sender.parse().unwrap()));
        let found = chosen_host(strategy, own.map(str::as_bytes), sender, &mut space);
        assert_eq!(found, expected.map(str::as_bytes), "{strategy:?} {own:?}");
    }

    #[test]
    fn the_host_strategy_selects_the_host_of_a_relayed_message() {
        use HostStrategy::{Append, Fill, Keep, Replace};
        let (own, sender) = (Some("host"), Some("192.0.2.1"));
        check(Replace, own, sender, sender);
        check(Replace, None, sender, sender);
        check(Fill, own, sender, own);
        check(Fill, None, sender, sender);
        check(Keep, own, sender, own);
        check(Keep, None, sender, None);
        check(Append, own, sender, Some("host,192.0.2.1"));
        check(Append, None, sender, sender);
        for strategy in [Replace, Fill, Keep, Append] {
            check(strategy, own, None, own);
            check(strategy, None, None, None);
        }
    }

    #[test]
    fn an_ipv4_mapped_sender_is_written_as_ipv4() {
        check(HostStrategy::Replace, None, Some("::ffff:192.0.2.1"), Some("192.0.2.1"));
        check(HostStrategy::Replace, None, Some("2001:db8::1"), Some("2001:db8::1"));
        assert!(Sender::of(&Address::Unnamed).0.is_none());
    }
}
