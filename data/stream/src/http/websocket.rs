//! WebSocket between an HTTP/2 client and an HTTP/1 server (RFC 8441, 5).
//!
//! The client's extended CONNECT does not contain a key. Weir generates one, and the server's proof that it understood the upgrade (RFC
//! 6455, 4.1) is checked by weir.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_http::HeadFlags;

use crate::ending::{By, During, Ending};
use crate::stream::phases::ExchangePhase;
use crate::stream::{PhaseResult, Stream, StreamError};

impl ExchangePhase {
    /// Adds a key to an upgrade request without one.
    pub(super) fn add_websocket_key(&mut self) -> PhaseResult {
        if self.stream.client.shared().is_none()
            || !self.stream.request.message.head.flags().contains(HeadFlags::UPGRADE_WEBSOCKET)
        {
            return Ok(());
        }
        let (head, raw) = self.stream.request.message.edit();
        if head.has(raw, KEY) {
            return Ok(());
        }
        let random = [weir_sched::random().to_ne_bytes(), weir_sched::random().to_ne_bytes()].concat();
        head.add(KEY, STANDARD.encode(random).as_bytes())
            .map_err(|_| StreamError::Error(400, Ending::new(By::Proxy, During::Request)))
    }

    /// Whether the 101 of an HTTP/1 server switches protocols. It must contain `Connection: upgrade` (RFC 9110, 7.8), and an HTTP/2 client
    /// must have requested the protocol. An HTTP/1 client receives the 101 itself.
    pub(super) fn may_switch(&self) -> bool {
        self.stream.response.message.head.flags().contains(HeadFlags::CONNECTION_UPGRADE)
            && (self.stream.client.shared().is_none() || self.switch_was_requested())
    }

    /// Handles the consent of an HTTP/2 server to another protocol. An HTTP/1 client expects the protocol's name and, for WebSocket, the
    /// proof, which HTTP/2 lacks. If they do not fit, the client must refuse the response.
    #[cold]
    pub(super) fn accept_switch(&mut self) {
        let request = &self.stream.request.message;
        if !request.head.flags().contains(HeadFlags::UPGRADE_WEBSOCKET) {
            let Some(protocol) = request.head.upgrade(request.bytes()) else { return };
            let (head, raw) = self.stream.response.message.edit();
            let _ = head.set(raw, b"upgrade", protocol);
            return;
        }
        let Some(key) = request.head.find(request.bytes(), KEY, 1) else { return };
        let proof = proof_of(key);
        // Replaces a value from the server, which does not match this key.
        let (head, raw) = self.stream.response.message.edit();
        let _ = head.set(raw, b"sec-websocket-accept", proof.as_bytes());
    }

    #[cold]
    fn switch_was_requested(&self) -> bool {
        let (request, response) = (&self.stream.request.message, &self.stream.response.message);
        if !request.head.flags().contains(HeadFlags::HAS_UPGRADE | HeadFlags::CONNECTION_UPGRADE) {
            return false;
        }
        if !request.head.flags().contains(HeadFlags::UPGRADE_WEBSOCKET) {
            return true;
        }
        let value = |message: &weir_mux::Message, name: &[u8]| {
            message.head.values(message.bytes(), name).next().map(<[u8]>::to_vec)
        };
        let Some(key) = value(request, KEY) else { return false };
        let proof = proof_of(&key);
        value(response, b"sec-websocket-accept").is_some_and(|accept| accept == proof.as_bytes())
    }
}

/// Whether an HTTP/1 server handled an extended CONNECT as a GET. To the client, its 2xx status would mean that the tunnel is open (RFC
/// 8441, 4).
pub(super) fn is_upgrade_ignored(stream: &Stream) -> bool {
    (200..300).contains(&stream.response.server_status)
        && stream.request.message.head.flags().contains(HeadFlags::HAS_UPGRADE)
        && stream.client.shared().is_some()
        && !stream.server.is_shared()
}

/// The proof that the request with this key was understood (RFC 6455, 4.2.2).
fn proof_of(key: &[u8]) -> String {
    STANDARD.encode(weir_tls::inspect::sha1(&[key, MAGIC].concat()))
}

const KEY: &[u8] = b"sec-websocket-key";
/// The GUID of RFC 6455, 1.3.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
