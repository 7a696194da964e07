//! Access to the objects of fetches: the messages, as far as they are available, and the objects that arguments name.

use std::sync::Arc;

use weir_backend::{Server, ServerKey};
use weir_config::model::RulesetKind;
use weir_expr::{Args, Fetched};
use weir_http::Head;
use weir_mux::{Message, ReadHead};

use crate::instance::Proxy;
use crate::stream::Stream;

/// Why a requested object is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It does not exist, and waiting does not help.
    Missing,
    /// More bytes may bring it.
    Later,
}

impl From<Absent> for Fetched<'_> {
    fn from(absent: Absent) -> Self {
        match absent {
            Absent::Missing => Fetched::Missing,
            Absent::Later => Fetched::Later,
        }
    }
}

/// The message that a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The request, until it is answered.
    Request,
    /// The parts of the request that are kept after it is answered.
    AskedRequest,
    /// The response.
    Response,
    /// The message that is processed now.
    Current,
}

impl Stream {
    /// Whether content inspection is active, so that missing data may still arrive. Nothing else waits.
    pub(super) fn may_wait(&self) -> bool {
        let (kind, whole) = match self.server.upstream {
            None => (RulesetKind::TcpRequestContent, self.request.is_known()),
            Some(_) => (RulesetKind::TcpResponseContent, self.response.is_known()),
        };
        let inspects = self.frontend.has_rules(kind) || self.backend.has_rules(kind);
        inspects && !whole && !self.rules.inspection_over
    }

    /// The reason for a missing object.
    pub(super) fn absent(&self) -> Absent {
        if self.may_wait() { Absent::Later } else { Absent::Missing }
    }

    /// The message that a side means now.
    pub(super) fn side(&self, side: Side) -> Side {
        match side {
            Side::Current if self.server.upstream.is_some() && !self.speaks_http() => Side::Response,
            Side::Current if self.rules.see_response() => Side::Response,
            Side::Current => Side::Request,
            side => side,
        }
    }

    /// A message whose head is available.
    pub(super) fn message(&mut self, side: Side) -> Result<&Message, Absent> {
        match self.side(side) {
            Side::Response => self.response_message(),
            // A request is not available once it is answered: the configuration check warned about such rules.
            Side::Request if self.rules.see_response() => Err(Absent::Missing),
            _ => self.request_message(),
        }
    }

    /// The head of a message, and the bytes that it refers to.
    pub(super) fn head(&mut self, side: Side) -> Result<(&Head, &[u8]), Absent> {
        self.message(side).map(|message| (&message.head, message.bytes()))
    }

    /// The request, if its head is available. In TCP mode it is parsed here on demand.
    fn request_message(&mut self) -> Result<&Message, Absent> {
        if !self.request.is_known() && !has_head(&self.request.message) {
            if self.speaks_http() {
                return Err(Absent::Missing);
            }
            self.look_for_request()?;
        }
        Ok(&self.request.message)
    }

    /// Parses an HTTP request in TCP mode. Its bytes stay in the client's input, to be relayed.
    fn look_for_request(&mut self) -> Result<(), Absent> {
        // Bytes received later are not the beginning of the connection.
        if self.server.upstream.is_some() {
            return Err(Absent::Missing);
        }
        let unsafe_too = self.frontend.config.settings.options.accept_unsafe_request;
        let options = self.frontend.instance().limits.h1_options(unsafe_too);
        let limit = self.frontend.instance().limits.head_limit();
        match self.request.message.read_request(&mut self.client, &options, limit) {
            ReadHead::Complete => Ok(()),
            ReadHead::Incomplete | ReadHead::Ended => Err(self.absent()),
            ReadHead::StartLineTooLarge | ReadHead::TooLarge | ReadHead::Invalid(_) | ReadHead::Failed(_) => {
                Err(Absent::Missing)
            }
        }
    }

    /// The response, if its head is available.
    fn response_message(&mut self) -> Result<&Message, Absent> {
        if !self.response.is_known() && !has_head(&self.response.message) {
            if self.speaks_http() {
                return Err(Absent::Missing);
            }
            self.look_for_response()?;
        }
        Ok(&self.response.message)
    }

    fn look_for_response(&mut self) -> Result<(), Absent> {
        // After bytes were relayed, the input is not the beginning of the response.
        if self.client.sent() > 0 {
            return Err(Absent::Missing);
        }
        let unsafe_too = self.backend.config.settings.options.accept_unsafe_response;
        let options = self.frontend.instance().limits.h1_options(unsafe_too);
        let limit = self.frontend.instance().limits.head_limit();
        let Some(upstream) = &mut self.server.upstream else { return Err(Absent::Missing) };
        match self.response.message.read_response(&mut upstream.connector, &options, limit) {
            ReadHead::Complete => Ok(()),
            ReadHead::Incomplete | ReadHead::Ended => Err(self.absent()),
            ReadHead::StartLineTooLarge | ReadHead::TooLarge | ReadHead::Invalid(_) | ReadHead::Failed(_) => {
                Err(Absent::Missing)
            }
        }
    }

    /// The bytes received from one side and not relayed yet, in TCP mode.
    pub(super) fn raw_input(&self, side: Side) -> &[u8] {
        match self.side(side) {
            Side::Response => self.server.input(),
            _ => self.client.input(),
        }
    }

    /// The stream's current or last server; none before it has a backend.
    pub(super) fn server_taken(&self) -> Option<Arc<Server>> {
        self.backend.backend.as_ref()?;
        self.chosen_server()
    }

    /// The backend that an argument names, or the current one.
    pub(super) fn backend_argument(&self, args: &Args) -> Option<&Proxy> {
        let named = args.reference(0);
        match named.and_then(|reference| reference.target()) {
            Some((index, _)) => self.frontend.instance().proxies.get(index as usize),
            None => match named.and_then(|reference| reference.name.as_deref()) {
                Some(name) => self.frontend.instance().backend_by_name(name),
                None => Some(&self.backend),
            },
        }
    }

    /// The frontend that an argument names, or the current one.
    pub(super) fn frontend_argument(&self, args: &Args) -> Option<&Proxy> {
        let named = args.reference(0);
        match named.and_then(|reference| reference.target()) {
            Some((index, _)) => self.frontend.instance().proxies.get(index as usize),
            None => match named.and_then(|reference| reference.name.as_deref()) {
                Some(name) => self.frontend.instance().frontend_by_name(name),
                None => Some(&self.frontend),
            },
        }
    }

    /// The server that an argument names, with its backend.
    pub(super) fn server_argument(&self, args: &Args) -> Option<(&Proxy, Arc<Server>)> {
        let reference = args.reference(0)?;
        let Some((proxy, rank)) = reference.target() else {
            return self
                .frontend
                .instance()
                .find_server(&self.backend, reference.name.as_deref()?.as_bytes());
        };
        let proxy = self.frontend.instance().proxies.get(proxy as usize)?;
        let server = proxy.backend.as_ref()?.server(ServerKey::configured(rank))?;
        Some((proxy, server))
    }
}

/// The position of the list of users that an argument names.
pub(super) fn userlist_argument(args: &Args) -> Option<u32> {
    args.reference(0)?.target().map(|(position, _)| position)
}

/// Whether a message's head was read to its end.
fn has_head(message: &Message) -> bool {
    message.head.end() > 0
}
