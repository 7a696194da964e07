//! Checks over FastCGI: each request of a check is one to the application of its server's backend.
//!
//! `set-param` and `pass-header` do not apply, as in HAProxy: they are evaluated for streams, at the point of the backend's rules. An
//! application gets all fields of the check, which the operator wrote.

use std::rc::Rc;
use std::sync::Arc;

use weir_fcgi::Params;
use weir_model::FcgiApplication;
use weir_mux::{ApplicationMultiplexer, Message, StreamConnector};
use weir_sys::Address;
use weir_vocabulary::application::{CgiRequest, IndivisiblePath};

/// A connection to an application, in use by a check. Once it and its streams are dropped, it is closed.
#[derive(Debug)]
pub struct ApplicationConnection {
    /// The connection. It waits for nothing before its first request.
    pub connection: Rc<ApplicationMultiplexer>,
    /// The settings of the application.
    pub application: Arc<FcgiApplication>,
}

impl ApplicationConnection {
    /// A connector for the next request.
    pub(crate) fn stream(&self) -> StreamConnector {
        self.connection.stream().into()
    }

    /// Makes the parameters of a request from its head. `length` is the length of the body in bytes.
    ///
    /// # Errors
    /// For a path that cannot be decoded or divided safely.
    pub(crate) fn parameters(
        &self,
        message: &Message,
        length: u64,
        server: Option<&Address>,
        params: &mut Params,
    ) -> Result<(), IndivisiblePath> {
        params.clear();
        let (head, raw) = (&message.head, message.bytes());
        let request = CgiRequest {
            application: &self.application,
            head,
            raw,
            length,
            source: None,
            destination: server,
            is_secured: false,
        };
        request.write_defaults(params, &|_| false, &mut Vec::new())?;
        request.write_fields(params, |_| false);
        if head.find_line(raw, CONNECTION, 1).is_none() {
            params.push_header(CONNECTION, b"close");
        }
        Ok(())
    }
}

const CONNECTION: &[u8] = b"connection";
