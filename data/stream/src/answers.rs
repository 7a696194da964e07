//! Local responses: error messages, redirects, `return`, `deny`, authentication, the statistics page.
//!
//! The head is built in [`Stream::response`] like any other head, so `http-after-response` rules and the log see it. The body is in a
//! [`LocalReply`].

use std::sync::Arc;

use weir_containers::PooledFuture;
use weir_expr::bound;
use weir_expr::scratch::Scratch;
use weir_http::pages::BuiltInResponse;
use weir_http::{BodySize, HeadFlags, KnownName, NoRoom, Version, status};
use weir_model as config;
use weir_model::RulesetKind;
use weir_model::{Redirect, RedirectKind};
use weir_mux::{BodyFlow, BodyProducer, FlowState, LengthChange, LocalService, Message, StreamConnector};
use weir_net::SendOutcome;
use weir_scripts::ScriptReply;

use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::errors::MessageDirection;
use crate::reply::{LocalReply, ReplyBody};
use crate::rules::RulesetResult;
use crate::stream::Stream;
use crate::stream::phases::ReplyPhase;
use crate::stream::response::ResponseProgress;
use weir_vocabulary::fetch::auth::is_for_proxy;

/// The text of a format. An error if it was truncated: a truncated body must not be sent.
fn whole(text: Scratch) -> Result<Scratch, NoRoom> {
    if text.len() < bound::text_bytes() { Ok(text) } else { Err(NoRoom) }
}

fn has_prefix(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The message to use when a reply does not specify one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fallback {
    /// The proxy's message for the status.
    Configured,
    /// The built-in message. Used when the reply is itself the proxy's message for the status.
    BuiltIn,
}

/// What becomes of the rest of the request's body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestRest {
    Dropped,
    /// The service still reads it.
    ReadOn,
}

impl ReplyPhase {
    /// Prepares the error message for `status`: the message configured by the backend or frontend, else the built-in one.
    pub(crate) fn prepare_error(&mut self, status: u16) {
        let (frontend, backend) = (self.stream.frontend.clone(), self.stream.backend.proxy().clone());
        let own = backend.config.settings.errors.get(status);
        let own = own.or_else(|| frontend.config.settings.errors.get(status));
        let prepared = match own {
            None => self.prepare_built_in(status),
            Some(config::ErrorReply::Message(message)) => self.prepare_message(message, status),
            Some(config::ErrorReply::Redirect { status: code, url }) => {
                let prepared = self.prepare_location(*code, url.as_bytes());
                if let Some(reply) = &mut self.stream.response.reply {
                    reply.logged_as = status;
                }
                prepared
            }
            Some(config::ErrorReply::Reply(reply)) => self.prepare_made(reply, status, Fallback::BuiltIn),
        };
        if prepared.is_err() {
            // The built-in message always fits. Only a configured message can be too large.
            let _ = self.prepare_built_in(500);
        }
        // The connection closes after a request that could not be parsed.
        if !self.stream.request.is_known()
            && let Some(reply) = &mut self.stream.response.reply
        {
            reply.closes = true;
        }
    }

    /// Prepares the reply of a `deny`, `tarpit`, `return` or `http-error`.
    pub(crate) fn prepare_reply(&mut self, reply: &config::Reply, default_status: u16) {
        if self.prepare_made(reply, default_status, Fallback::Configured).is_err() {
            self.prepare_error(500);
        }
    }

    fn prepare_built_in(&mut self, status: u16) -> Result<(), NoRoom> {
        let page = BuiltInResponse::of(status).or_else(|| BuiltInResponse::of(500));
        let (status, reason, closes) =
            page.map_or((500, "", true), |page| (page.status, page.reason, page.closes));
        let mut body = Scratch::take();
        if let Some(page) = page {
            page.write_body(&mut body);
        }
        self.start(status, reason)?;
        let head = &mut self.stream.response.message.head;
        head.add(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes())?;
        head.add(b"cache-control", b"no-cache")?;
        if closes {
            head.add(b"connection", b"close")?;
        }
        head.add(b"content-type", b"text/html")?;
        self.stream.response.reply = Some(LocalReply { body: ReplyBody::Made(body), closes, logged_as: 0 });
        Ok(())
    }

    /// Prepares the message of an error file. Logs and counters show `status`, even if the file has another status or is empty.
    fn prepare_message(&mut self, message: &config::ErrorMessage, status: u16) -> Result<(), NoRoom> {
        self.stream.response.message.clear();
        self.stream.response.status = status;
        let Some(response) = &message.response else {
            // With an empty file, no response is sent (manual, "errorfile").
            self.stream.response.reply = None;
            return Ok(());
        };
        let version = if response.is_http_10 { Version::HTTP_10 } else { Version::HTTP_11 };
        let reason = match &*response.reason {
            b"" => status::reason(response.status).as_bytes(),
            reason => reason,
        };
        let head = &mut self.stream.response.message.head;
        head.start_response(version, response.status, reason)?;
        response.fields.iter().try_for_each(|field| head.add(&field.name, &field.value))?;
        head.add(b"content-length", itoa::Buffer::new().format(response.body.len()).as_bytes())?;
        let body = ReplyBody::Shared(Arc::clone(&response.body));
        self.stream.response.reply = Some(LocalReply { body, closes: false, logged_as: status });
        Ok(())
    }

    fn prepare_made(
        &mut self,
        made: &config::Reply,
        default_status: u16,
        fallback: Fallback,
    ) -> Result<(), NoRoom> {
        let status = if made.status == 0 { default_status } else { made.status };
        let names_none = match &made.content {
            config::ReplyContent::ProxyDefault => true,
            config::ReplyContent::Section(section) => section.message.get().is_none(),
            _ => false,
        };
        if names_none {
            match fallback {
                Fallback::Configured => self.prepare_error(status),
                Fallback::BuiltIn => self.prepare_built_in(status)?,
            }
            return Ok(());
        }
        let body = match &made.content {
            config::ReplyContent::ProxyDefault => ReplyBody::Empty,
            config::ReplyContent::Message(_) | config::ReplyContent::Section(_) => {
                let message = match &made.content {
                    config::ReplyContent::Section(section) => section.message.get(),
                    config::ReplyContent::Message(message) => Some(message),
                    _ => None,
                };
                let Some(message) = message else { return Ok(()) };
                return self.prepare_message(message, status);
            }
            config::ReplyContent::Empty => ReplyBody::Empty,
            config::ReplyContent::Body(body) => ReplyBody::Shared(Arc::clone(body)),
            config::ReplyContent::Format(format) => ReplyBody::Made(whole(self.stream.format(format))?),
        };
        self.start(status, status::reason(status))?;
        self.add_reply_headers(made)?;
        let head = &mut self.stream.response.message.head;
        // A 204 must not have content, not even empty content (RFC 9110, 8.6).
        if status != 204 {
            head.add(b"content-length", itoa::Buffer::new().format(body.bytes().len()).as_bytes())?;
        }
        if let Some(kind) = made.content_type.as_ref().filter(|_| !body.bytes().is_empty()) {
            head.add(b"content-type", kind.as_bytes())?;
        }
        self.stream.response.reply = Some(LocalReply { body, closes: false, logged_as: 0 });
        Ok(())
    }

    /// Adds the `hdr` fields, except to a message from a file (the parser warns about them).
    fn add_reply_headers(&mut self, made: &config::Reply) -> Result<(), NoRoom> {
        for header in &made.headers {
            let value = self.stream.format(&header.value);
            // A field without a value is omitted, unlike fields that header rules set.
            if !value.is_empty() {
                self.stream.response.message.head.add(header.name.as_bytes(), &value)?;
            }
        }
        Ok(())
    }

    /// Prepares a redirection. Returns false if `ignore-empty` suppresses it.
    pub(crate) fn prepare_redirect(&mut self, redirect: &Redirect) -> bool {
        let value = self.stream.format(&redirect.value);
        if redirect.ignore_empty && value.is_empty() {
            return false;
        }
        let location = self.redirect_location(redirect, value);
        let cookie = redirect.cookie.as_ref().map(|cookie| {
            let mut value = self.stream.format(&cookie.format);
            value.extend_from_slice(cookie.attributes.as_bytes());
            value
        });
        let prepared = self.prepare_location(redirect.status, &location).and_then(|()| match &cookie {
            Some(cookie) => self.stream.response.message.head.add(b"set-cookie", cookie),
            None => Ok(()),
        });
        if prepared.is_err() {
            self.prepare_error(500);
        }
        true
    }

    /// Prepares a redirection to a complete location.
    pub(crate) fn prepare_redirection(&mut self, status: u16, location: &[u8]) {
        if self.prepare_location(status, location).is_err() {
            self.prepare_error(500);
        }
    }

    fn redirect_location(&self, redirect: &Redirect, value: Scratch) -> Scratch {
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let mut location = value;
        match redirect.kind {
            RedirectKind::Location => {
                if redirect.keep_query
                    && let Some(query) = head.query(raw).filter(|query| !query.is_empty())
                {
                    let separator = if location.contains(&b'?') { b'&' } else { b'?' };
                    location.push(separator);
                    location.extend_from_slice(query);
                }
                return location;
            }
            RedirectKind::Prefix => {
                // A lone slash means an empty prefix (manual, "redirect prefix").
                if location.as_slice() == b"/" {
                    location.clear();
                }
            }
            RedirectKind::Scheme => {
                location.extend_from_slice(b"://");
                location.extend_from_slice(head.find_known(raw, KnownName::Host).unwrap_or_default());
            }
        }
        let rest = if redirect.drop_query { head.path(raw) } else { head.path_and_query(raw) };
        // A target without a path (of a CONNECT, absolute, or set by a rule) becomes the root path.
        location.extend_from_slice(if rest.starts_with(b"/") { rest } else { b"/" });
        if redirect.append_slash && !location.ends_with(b"/") {
            location.push(b'/');
        }
        location
    }

    fn prepare_location(&mut self, status: u16, location: &[u8]) -> Result<(), NoRoom> {
        self.start(status, status::redirect_reason(status))?;
        let head = &mut self.stream.response.message.head;
        head.add(b"content-length", b"0")?;
        head.add(b"location", location)?;
        // Caches may store permanent redirections (RFC 9110, 15.4). All others get `no-cache`.
        if !matches!(status, 301 | 308) {
            head.add(b"cache-control", b"no-cache")?;
        }
        self.stream.response.reply = Some(LocalReply::default());
        Ok(())
    }

    /// Prepares a 401 or 407 response, which requests credentials.
    pub(crate) fn prepare_authentication(&mut self, realm: &str) {
        let message = &self.stream.request.message;
        let proxied = is_for_proxy(&self.stream, message.head.uri(message.bytes()));
        let (status, field): (u16, &[u8]) =
            if proxied { (407, b"proxy-authenticate") } else { (401, b"www-authenticate") };
        self.prepare_error(status);
        let mut value = Scratch::take();
        value.extend_from_slice(b"Basic realm=\"");
        value.extend_from_slice(realm.as_bytes());
        value.push(b'"');
        let _ = self.stream.response.message.head.add(field, &value);
    }

    /// Prepares the refusal of an authorization server, with these fields of its answer. Without `body`, it does not have one.
    pub(crate) fn prepare_refusal(
        &mut self,
        answer: &Message,
        body: Option<Vec<u8>>,
        returns: fn(&[u8]) -> bool,
    ) {
        if self.make_refusal(answer, body, returns).is_err() {
            self.prepare_error(500);
        }
    }

    fn make_refusal(
        &mut self,
        answer: &Message,
        body: Option<Vec<u8>>,
        returns: fn(&[u8]) -> bool,
    ) -> Result<(), NoRoom> {
        let status = answer.head.status();
        self.start(status, status::reason(status))?;
        let body = body.unwrap_or_default();
        let head = &mut self.stream.response.message.head;
        for (name, value) in answer.head.fields(answer.bytes()).filter(|(name, _)| returns(name)) {
            if !body.is_empty() || !has_prefix(name, b"content-") {
                head.add(name, value)?;
            }
        }
        head.add(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes())?;
        if answer.head.find_known(answer.bytes(), KnownName::CacheControl).is_none() {
            head.add(b"cache-control", b"no-cache")?;
        }
        let body = ReplyBody::Made(Scratch::from(body));
        self.stream.response.reply = Some(LocalReply { body, closes: false, logged_as: 0 });
        Ok(())
    }

    /// Prepares the reply of a script.
    pub(crate) fn prepare_script_reply(
        &mut self,
        status: u16,
        reason: Option<&str>,
        headers: &[(Vec<u8>, Vec<u8>)],
        body: Vec<u8>,
    ) {
        if self.make_script_reply(status, reason, headers, body).is_err() {
            self.prepare_error(500);
        }
    }

    fn make_script_reply(
        &mut self,
        status: u16,
        reason: Option<&str>,
        headers: &[(Vec<u8>, Vec<u8>)],
        body: Vec<u8>,
    ) -> Result<(), NoRoom> {
        self.start_for_script(status, reason, headers)?;
        let head = &mut self.stream.response.message.head;
        if !status::is_bodyless(status) {
            head.add(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes())?;
        }
        let body = if status::is_bodyless(status) { Vec::new() } else { body };
        let body = ReplyBody::Made(Scratch::from(body));
        self.stream.response.reply = Some(LocalReply { body, closes: false, logged_as: 0 });
        Ok(())
    }

    /// Starts a response of a script. Its framing is that of the body.
    fn start_for_script(
        &mut self,
        status: u16,
        reason: Option<&str>,
        headers: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(), NoRoom> {
        self.start(status, reason.unwrap_or_else(|| status::redirect_reason(status)))?;
        let head = &mut self.stream.response.message.head;
        let framing: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"connection"];
        let frames = |name: &[u8]| framing.iter().any(|own| name.eq_ignore_ascii_case(own));
        let own = headers.iter().filter(|(name, _)| !frames(name));
        own.map(|(name, value)| (name.to_ascii_lowercase(), value))
            .try_for_each(|(name, value)| head.add(&name, value))
    }

    /// Prepares the head of a service of a script. Returns the length of the body that the script announces, if it does. `None` if the head
    /// is invalid.
    pub(crate) fn prepare_service(&mut self, reply: &ScriptReply) -> Option<Option<u64>> {
        let lengths = reply.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
        let mut length = None;
        for (_, value) in lengths {
            let value = decimal(value)?;
            if length.replace(value).is_some_and(|other| other != value) {
                return None;
            }
        }
        let reason = reply.reason.as_deref().map(String::from_utf8_lossy);
        self.start_for_script(reply.status, reason.as_deref(), &reply.headers).ok()?;
        if let Some(length) = length {
            let text = itoa::Buffer::new().format(length).to_owned();
            self.stream.response.message.head.add(b"content-length", text.as_bytes()).ok()?;
        }
        Some(length)
    }

    /// Prepares a page: `headers`, then the output of `service`.
    pub(crate) fn prepare_page(
        &mut self,
        status: u16,
        headers: &[(&[u8], &[u8])],
        service: Option<Box<dyn BodyProducer>>,
    ) {
        let made = self.start(status, status::reason(status)).and_then(|()| {
            let head = &mut self.stream.response.message.head;
            headers.iter().try_for_each(|(name, value)| head.add(name, value))?;
            if service.is_none() { head.add(b"content-length", b"0") } else { Ok(()) }
        });
        let body = service
            .map_or(ReplyBody::Empty, |service| ReplyBody::Streamed(Box::new(LocalService::new(service))));
        self.stream.response.reply = Some(LocalReply { body, closes: false, logged_as: 0 });
        if made.is_err() {
            self.prepare_error(500);
        }
    }

    fn start(&mut self, status: u16, reason: &str) -> Result<(), NoRoom> {
        self.stream.response.message.clear();
        self.stream.response.status = status;
        self.stream.response.message.head.start_response(Version::HTTP_11, status, reason.as_bytes())
    }

    /// Sends the prepared reply: head, after-response rules, body.
    pub(crate) async fn send_reply(&mut self) -> Result<(), Ending> {
        let Some(reply) = self.stream.response.reply.take() else {
            return Err(self.stream.ending);
        };
        let size = match &reply.body {
            ReplyBody::Streamed(_) => BodySize::Unknown,
            body => BodySize::of_length(body.bytes().len() as u64),
        };
        let bodiless = self.begin_reply(&reply, size, RequestRest::Dropped).await;
        let whole = if bodiless { &b""[..] } else { reply.body.bytes() };
        self.stream.response.logged.reply =
            if self.stream.request.is_known() { whole.len() as u32 } else { 0 };
        self.stream.log_the_beginning();
        self.stream.response.progress = ResponseProgress::Leaving;
        match reply.body {
            ReplyBody::Streamed(service) if !bodiless => PooledFuture::new(self.send_streamed(service)).await,
            _ => self.send_whole(whole).await,
        }
    }

    /// Runs the after-response rules, and states the framing of a body of this size. Returns whether the response must not have a body.
    async fn begin_reply(&mut self, reply: &LocalReply, size: BodySize, rest: RequestRest) -> bool {
        self.stream.response.progress = ResponseProgress::Known;
        // Rules run only if there was a request.
        if self.stream.request.is_known() {
            self.stream.response_phase().begin_response_rules();
            if self.stream.as_response_phase().has_response_rules(RulesetKind::HttpAfterResponse) {
                PooledFuture::new(self.after_response_rules()).await;
            }
        }
        self.stream.response.status =
            if reply.logged_as > 0 { reply.logged_as } else { self.stream.response.message.head.status() };
        // Bytes of a reply without a request do not count for the stream. HAProxy logs 0 for them.
        if self.stream.request.is_known() {
            self.stream.note_head_size(false);
        }
        let bodiless = self.stream.request.head_only()
            || status::is_bodyless(self.stream.response.message.head.status());
        let size = match size {
            // A client that treats the response as a tunnel reads until EOF and ignores the framing fields.
            _ if self.stream.as_exchange_phase().promises_tunnel() => BodySize::Tunnel,
            _ if bodiless => BodySize::None,
            size => size,
        };
        // For an HTTP/1.0 client, the end of the connection delimits the body.
        if size == BodySize::Unknown && self.stream.request.message.head.version() >= Version::HTTP_11 {
            self.stream.response.message.head.note(HeadFlags::CHUNKED);
        }
        self.settle_reply(reply, size, rest);
        let _ = self.stream.exchange_phase().restate_response(size);
        bodiless
    }

    /// Completes the prepared head of a service that goes on. Returns whether the response must not have a body.
    pub(crate) async fn open_service(&mut self, size: BodySize) -> bool {
        let bodiless = self.begin_reply(&LocalReply::default(), size, RequestRest::ReadOn).await;
        self.stream.log_the_beginning();
        self.stream.response.progress = ResponseProgress::Leaving;
        bodiless
    }

    /// Sends the head of a service, before a body that is made while it is sent.
    pub(crate) async fn send_service_head(&mut self) -> Result<(), Ending> {
        PooledFuture::new(self.begin_streamed()).await
    }

    /// Sends the head of a service, and its body of the announced length.
    pub(crate) async fn send_service(&mut self, body: &[u8]) -> Result<(), Ending> {
        self.stream.response.logged.reply = body.len() as u32;
        self.send_whole(body).await
    }

    /// Ends a response of [`open_service`](Self::open_service), which was sent as a whole.
    pub(crate) fn close_service(&mut self) {
        self.drop_request_body();
        self.stream.request.upload_refused |= !self.stream.request.body.is_done();
    }

    async fn after_response_rules(&mut self) {
        self.stream.response_phase().add_kept_cookies();
        for side in self.stream.as_response_phase().sides_backend_first() {
            if !matches!(
                self.stream.run_rules(side, RulesetKind::HttpAfterResponse).await,
                Ok(RulesetResult::Continue | RulesetResult::Accept)
            ) {
                break;
            }
        }
    }

    /// Decides whether the client's connection persists, and sets the head's fields accordingly.
    fn settle_reply(&mut self, reply: &LocalReply, size: BodySize, rest: RequestRest) {
        // The rest of the request's body would be parsed as the next request. The head is removed first: if it counted as body, an incomplete
        // body would look complete.
        self.stream.request.message.detach(&mut self.stream.client);
        if rest == RequestRest::Dropped {
            self.drop_request_body();
        }
        // If a rule changed the status to 1xx, the client takes the reply for an interim response and waits for another.
        let last = self.stream.response.message.head.status() >= 200;
        self.stream.reusable.client &= last
            && !reply.closes
            && self.stream.request.is_known()
            && (rest == RequestRest::ReadOn || self.stream.request.body.is_done())
            && self.stream.response.message.client_persists(
                &self.stream.request.message,
                size,
                self.stream.as_exchange_phase().client_mode(),
            )
            && !self.stream.session.closes();
        let _ = self
            .stream
            .response
            .message
            .announce_to_client(&self.stream.request.message, self.stream.reusable.client);
        self.stream.exchange_phase().adjust_response_case();
    }

    /// Drops the received rest of the request's body.
    fn drop_request_body(&mut self) {
        if !self.stream.request.body.is_done() {
            let right = self.stream.request.body.inspect(&mut self.stream.client);
            self.stream.trace_mut().trace_coding(MessageDirection::Request, right);
            if self.stream.request.body.is_complete() {
                self.stream.client.consume(self.stream.request.body.ready());
                self.stream.request.body.begin(BodyFlow::done());
            }
        }
    }

    /// Sends the head, then the output of a service, at the client's pace.
    async fn send_streamed(&mut self, service: Box<LocalService>) -> Result<(), Ending> {
        let mut source = StreamConnector::from(*service);
        self.begin_streamed().await?;
        self.stream
            .drive(
                While::Bodies,
                |stream, _| {
                    let flow = stream.response.body.advance(&mut source, &mut stream.client);
                    stream.trace_mut().trace_body(MessageDirection::Response, flow);
                    match flow {
                        FlowState::Done => return Ok(DriveStep::Done(())),
                        FlowState::Refused => return Err(Ending::new(By::Internal, During::Data)),
                        FlowState::Yield
                        | FlowState::AwaitSource
                        | FlowState::AwaitSink
                        | FlowState::Withheld
                            if !stream.client.is_broken() => {}
                        _ => return Err(ABORTED),
                    }
                    let waits_for_service = flow == FlowState::AwaitSource;
                    stream.response.body.resume_at(waits_for_service.then(|| source.resumes_at()));
                    Ok(DriveStep::Wait(Waits {
                        client_takes: flow == FlowState::AwaitSink,
                        withheld: matches!(flow, FlowState::Withheld | FlowState::AwaitSource),
                        yields: flow == FlowState::Yield,
                        ..Waits::default()
                    }))
                },
                |_, by, _| Err(Ending::new(by, During::Data)),
            )
            .await
    }

    /// Sends the head of a response, before a body that is made while it is sent.
    async fn begin_streamed(&mut self) -> Result<(), Ending> {
        self.stream.response.body.begin(BodyFlow::made());
        if self.stream.response.body.is_filtered() {
            self.stream.filter_phase().begin_analysis(MessageDirection::Response).await?;
            let change = self.stream.filter_phase().pass_head(MessageDirection::Response).await?;
            let (message, request) = (&mut self.stream.response.message, &self.stream.request.message);
            let stated = match change {
                LengthChange::Unknown if request.head.version() >= Version::HTTP_11 => message.chunk(),
                LengthChange::Unknown => message.unframe(),
                LengthChange::To(length) => message.set_length(length),
                LengthChange::None => Ok(()),
            };
            if stated.is_err() {
                return Err(Ending::new(By::Internal, During::Headers));
            }
        }
        self.stream.response.body.aim(&self.stream.client, &self.stream.response.message.head);
        self.stream.response.message.send(&mut self.stream.client, &mut self.stream.scratch, true);
        Ok(())
    }

    async fn send_whole(&mut self, body: &[u8]) -> Result<(), Ending> {
        let Stream { response, scratch, client, reusable, .. } = &mut self.stream;
        // If the connection closes after the reply, the FIN goes into the same segment.
        let last = !reusable.client;
        let sent = response.message.send_whole(client, body, scratch, last);
        self.stream.trace().trace_sent(MessageDirection::Response, body.len(), last);
        match sent {
            SendOutcome::All => Ok(()),
            SendOutcome::Failed(_) => Err(ABORTED),
            SendOutcome::Part(_) => PooledFuture::new(self.send_rest()).await,
        }
    }

    async fn send_rest(&mut self) -> Result<(), Ending> {
        self.stream
            .drive(
                While::Bodies,
                |stream, _| match stream.client.flush(false) {
                    SendOutcome::All => Ok(DriveStep::Done(())),
                    SendOutcome::Failed(_) => Err(ABORTED),
                    SendOutcome::Part(_) => {
                        Ok(DriveStep::Wait(Waits { client_takes: true, ..Waits::default() }))
                    }
                },
                |_, by, _| Err(Ending::new(by, During::Data)),
            )
            .await
    }
}

/// A number in digits. `None` for anything else.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits =
        std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// The client closed while the reply was being sent.
const ABORTED: Ending = Ending::new(By::Client, During::Data);
