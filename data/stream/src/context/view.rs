//! The stream data that expressions can read.

use std::cell::Ref;
use std::sync::Arc;

use weir_backend::Server;
use weir_expr::context::CaptureSide;
use weir_model::password::PasswordHash;
use weir_model::{CompressionAlgorithm, Location, RulesetKind, Timeouts};
use weir_mux::{Message, ReadHead, StreamConnector};
use weir_sys::Address;
use weir_tables::Table;
use weir_vocabulary::past::PastConnection;
use weir_vocabulary::timers::Timers;
use weir_vocabulary::tracked::TrackedEntry;
use weir_vocabulary::{
    Absent, AvailableBody, FetchView, MessageSide, Objects, ProxyFields, ServerConnection, StreamProgress,
    ViewedListener, ViewedProxy,
};

use crate::stream::Stream;
use crate::stream::rule_state::decided_at;
use crate::stream::server_side::reached_address;

impl FetchView for Stream {
    fn objects(&self) -> &dyn Objects {
        &**self.frontend.instance().shared()
    }

    fn frontend(&self) -> Option<ViewedProxy<'_>> {
        Some(self.frontend.viewed())
    }

    fn backend(&self) -> Option<ViewedProxy<'_>> {
        Some(self.backend.viewed())
    }

    fn listener(&self) -> Option<ViewedListener<'_>> {
        let listener = self.session.listener();
        let (id, name) = (listener.id, listener.bind.name.as_deref());
        Some(ViewedListener { id, name, connections: &listener.connections })
    }

    fn server(&self) -> Option<Arc<Server>> {
        self.backend.backend.as_ref()?;
        self.chosen_server()
    }

    fn client(&self) -> Option<&StreamConnector> {
        Some(&self.client)
    }

    fn client_requests(&self) -> u32 {
        self.session.requests.get()
    }

    fn source(&self) -> Option<Address> {
        Some(Stream::source(self).clone())
    }

    fn destination(&self) -> Option<Address> {
        Some(Stream::destination(self).clone())
    }

    fn connection_source(&self) -> Option<Address> {
        Some(self.session.connection_source().clone())
    }

    fn connection_destination(&self) -> Option<Address> {
        Some(self.session.connection_destination().clone())
    }

    fn proxy_fields(&self) -> Option<Ref<'_, ProxyFields>> {
        self.session.proxy_header()
    }

    fn server_connection(&self) -> Option<ServerConnection<'_>> {
        let upstream = self.server.upstream.as_ref()?;
        let (reused, requests) = (upstream.reused, upstream.requests);
        Some(ServerConnection { connector: &upstream.connector, reused, requests })
    }

    fn past_connection(&self) -> Option<&PastConnection> {
        self.server.past()
    }

    fn own_address(&self) -> Option<Address> {
        self.server.own_address()
    }

    fn reached_address(&self) -> Option<Address> {
        self.backend.backend.as_ref()?;
        reached_address(self)
    }

    fn speaks_http(&self) -> bool {
        Stream::speaks_http(self)
    }

    fn may_wait(&self) -> bool {
        let (kind, whole) = match self.server.upstream {
            None => (RulesetKind::TcpRequestContent, self.request.is_known()),
            Some(_) => (RulesetKind::TcpResponseContent, self.response.is_known()),
        };
        let inspects = self.frontend.has_rules(kind) || self.backend.has_rules(kind);
        inspects && !whole && !self.rules.inspection_over
    }

    fn side(&self, side: MessageSide) -> MessageSide {
        match side {
            MessageSide::Current if self.server.upstream.is_some() && !self.speaks_http() => {
                MessageSide::Response
            }
            MessageSide::Current if self.rules.see_response() => MessageSide::Response,
            MessageSide::Current => MessageSide::Request,
            side => side,
        }
    }

    fn is_known(&self, side: MessageSide) -> bool {
        match self.side(side) {
            MessageSide::Response => self.response.is_known(),
            _ => self.request.is_known(),
        }
    }

    fn message(&mut self, side: MessageSide) -> Result<&Message, Absent> {
        match self.side(side) {
            MessageSide::Response => self.response_message(),
            // The request is not available to response rules. The configuration check warned about such rules.
            MessageSide::Request if self.rules.see_response() => Err(Absent::Missing),
            _ => self.request_message(),
        }
    }

    fn raw_input(&self, side: MessageSide) -> &[u8] {
        match self.side(side) {
            MessageSide::Response => self.server.input(),
            _ => self.client.input(),
        }
    }

    fn request_body(&mut self) -> Result<AvailableBody<'_>, Absent> {
        if !self.request.is_known() || self.server.upstream.is_some() || self.response.is_known() {
            return Err(Absent::Missing);
        }
        let announced = self.request.message.head.content_length();
        if let Some(body) = self.attempts.kept_body() {
            return Ok(AvailableBody { bytes: body.payload(), announced, grows: false });
        }
        self.request.message.detach(&mut self.client);
        if !self.request.body.inspect(&mut self.client) {
            return Err(Absent::Missing);
        }
        let grows = !self.request.body.is_complete() && self.may_wait();
        Ok(AvailableBody { bytes: self.request.body.waiting(&self.client), announced, grows })
    }

    fn response_body(&mut self) -> Result<AvailableBody<'_>, Absent> {
        self.message(MessageSide::Response)?;
        if !self.response.is_known() || self.response.is_leaving() || self.response.reply.is_some() {
            return Err(Absent::Missing);
        }
        let announced = self.response.message.head.content_length();
        let Some(upstream) = &mut self.server.upstream else { return Err(Absent::Missing) };
        self.response.begin_body(&upstream.connector, self.response.size);
        self.response.message.detach(&mut upstream.connector);
        if !self.response.body.inspect(&mut upstream.connector) {
            return Err(Absent::Missing);
        }
        Ok(AvailableBody { bytes: self.response.body.waiting(&upstream.connector), announced, grows: false })
    }

    fn request_line(&self) -> Option<Ref<'_, Vec<u8>>> {
        Some(self.entry.request_line())
    }

    fn response_compression(&self) -> Option<CompressionAlgorithm> {
        crate::filters::response_algorithm(self)
    }

    fn captured(&self, side: CaptureSide) -> &[Option<Box<[u8]>>] {
        self.captures.slots(side)
    }

    fn unique_id(&mut self) -> Option<&[u8]> {
        self.log_line().unique_id()
    }

    fn progress(&self) -> Option<StreamProgress> {
        Some(StreamProgress {
            serial: self.serial,
            began_wall_us: self.began_wall_us(),
            retries: self.attempts.retries,
            allowed_retries: self.attempts.allowed(),
            redispatched: self.choice.redispatched,
            priority: self.choice.priority,
            queued: self.choice.queued,
            ending: self.ending.letters(),
            status: self.response.status,
            server_status: self.response.server_status,
            bytes_in: self.bytes_in(),
            bytes_out: self.bytes_out(),
            bytes_saved: crate::filters::saved_bytes(self),
        })
    }

    fn timers(&self) -> Option<Timers> {
        let close = self.timers.close.or_else(|| Some(self.elapsed()));
        Some(Timers { close, ..self.timers })
    }

    fn timeouts(&self) -> Option<Timeouts> {
        Some(self.timeouts.configured())
    }

    fn decided_at(&self) -> Option<&Location> {
        decided_at(self)
    }

    fn table(&self, position: Option<u32>) -> Option<&Table> {
        self.tracking().table_named(position).map(|table| &**table)
    }

    fn tracked(&self, counter: usize) -> Option<TrackedEntry> {
        self.tracking().counter(counter)
    }

    fn password_verdict(&mut self, hash: &Arc<PasswordHash>, candidate: &[u8]) -> Option<bool> {
        let may_suspend = self.rules.may_suspend;
        self.captures.passwords_mut().verdict(hash, candidate, may_suspend)
    }
}

impl Stream {
    /// The request, if its head is available. In TCP mode the request is parsed here on demand.
    fn request_message(&mut self) -> Result<&Message, Absent> {
        if !self.request.is_known() && !has_head(&self.request.message) {
            if self.speaks_http() {
                return Err(Absent::Missing);
            }
            self.look_for_request()?;
        }
        Ok(&self.request.message)
    }

    /// Parses an HTTP request in TCP mode. The bytes stay in the client's input, to be relayed.
    fn look_for_request(&mut self) -> Result<(), Absent> {
        // With a server connection, the input may not start at the client's first byte.
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
        // After bytes were relayed, the input is not the start of the response.
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
}

/// Whether a message's head was parsed completely.
fn has_head(message: &Message) -> bool {
    message.head.end() > 0
}
