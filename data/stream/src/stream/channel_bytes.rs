//! Bytes of the channels that are not in the input of a connection.

use weir_containers::PoolBox;
use weir_sched::Tick;
use weir_scripts::ScriptSide;

use super::Stream;
use super::attached::Attached;

/// Bytes that scripts made or moved before a connection takes them: at most a buffer for each direction.
pub(crate) struct ChannelBytes {
    /// When the inspection delay of the current ruleset ends.
    pub(crate) inspects_until: Tick,
    /// Outgoing bytes of the request, until there is a server.
    pub(crate) to_server: Vec<u8>,
    /// Outgoing bytes of the response that the client has not taken yet.
    pub(crate) to_client: Vec<u8>,
    /// Incoming bytes of the response, until there is a server.
    pub(crate) early: Vec<u8>,
}

impl Default for ChannelBytes {
    /// Scripts do not wait by default.
    fn default() -> Self {
        let inspects_until = Tick::from_ms(0);
        ChannelBytes { inspects_until, to_server: Vec::new(), to_client: Vec::new(), early: Vec::new() }
    }
}

impl ChannelBytes {
    pub(crate) fn of(stream: &Stream) -> Option<&ChannelBytes> {
        stream.attached.as_ref()?.channels.as_deref()
    }

    /// Created on the first call.
    pub(crate) fn of_mut(stream: &mut Stream) -> &mut ChannelBytes {
        Attached::of_stream(stream).channels.get_or_insert_default()
    }

    pub(crate) fn held(attached: &mut Option<PoolBox<Attached>>) -> Option<&mut ChannelBytes> {
        attached.as_mut()?.channels.as_deref_mut()
    }

    pub(crate) fn outgoing(&self, side: ScriptSide) -> &[u8] {
        match side {
            ScriptSide::Request => &self.to_server,
            ScriptSide::Response => &self.to_client,
        }
    }
}
