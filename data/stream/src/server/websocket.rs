//! Upgrade requests for WebSocket and other protocols to HTTP/2 servers (RFC 8441; manual, `ws`).
//!
//! An HTTP/2 server announces in its SETTINGS whether it accepts extended CONNECT.

use weir_http::HeadFlags;
use weir_model::{Protocol, WebSocket};

use super::connect::ServerConnectError;
use super::retry::AttemptFailure;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::stream::StreamError;
use crate::stream::phases::ServerPhase;

impl ServerPhase {
    /// Whether the request is an upgrade to another protocol.
    pub(super) fn upgrades_protocol(&self) -> bool {
        let request = &self.stream.request.message;
        self.stream.request.is_known() && request.head.upgrade(request.bytes()).is_some()
    }

    /// Whether the request is an upgrade to WebSocket.
    fn upgrades_to_websocket(&self) -> bool {
        let upgrade = HeadFlags::CONNECTION_UPGRADE | HeadFlags::UPGRADE_WEBSOCKET;
        self.stream.request.is_known() && self.stream.request.message.head.flags().contains(upgrade)
    }

    /// The HTTP version that `ws` requires for this request's server connection. `None` if any will do.
    pub(super) fn websocket_protocol(&self) -> Option<Protocol> {
        if !self.upgrades_to_websocket() {
            return None;
        }
        let known = self.known_server()?;
        let settings = &known.settings;
        let offers_http1 = || {
            let tls = settings.tls.as_ref().filter(|tls| tls.enabled)?;
            tls.options.protocols.as_ref()?.iter().any(|name| &**name == "http/1.1").then_some(Protocol::H1)
        };
        match settings.web_socket {
            // Applications know no upgrades.
            _ if settings.protocol == Some(Protocol::Fcgi) => None,
            WebSocket::H1 => Some(Protocol::H1),
            WebSocket::H2 => Some(Protocol::H2),
            WebSocket::Auto if settings.protocol.is_some() => None,
            WebSocket::Auto => offers_http1(),
        }
    }

    /// Waits for the server's SETTINGS on an HTTP/2 connection, to learn whether it accepts extended CONNECT.
    pub(super) async fn await_consent(&mut self) -> Result<(), ServerConnectError> {
        self.stream
            .drive(
                While::connection(&self.stream.timeouts, weir_sched::now()),
                |stream, _| {
                    let shared =
                        stream.server.upstream.as_ref().and_then(|upstream| upstream.connector.shared());
                    let Some(shared) = shared else { return Ok(DriveStep::Done(())) };
                    if shared.multiplexer().was_greeted() {
                        return match shared.multiplexer().takes_extended_connect() {
                            true => Ok(DriveStep::Done(())),
                            false => Err(StreamError::error(502, By::Server, During::Headers).into()),
                        };
                    }
                    if stream.client_left() {
                        return Err(StreamError::close(By::Client, During::Connect).into());
                    }
                    Ok(DriveStep::Wait(Waits::ONCE))
                },
                |_, _, _| Err(ServerConnectError::Failed(AttemptFailure::ConnectTimeout)),
            )
            .await
    }
}
