//! Rules on the response, and fields that the proxy adds to messages.

use std::net::IpAddr;

use weir_config::model::RulesetKind;
use weir_containers::PooledFuture;
use weir_http::NoRoom;

use crate::ending::{By, During, Ending};
use crate::instance::Proxy;
use crate::rules::RulesetResult;
use crate::stream::{Phase, ProxySide, Stream, StreamError};

impl Stream {
    /// Runs the backend's rules, then the frontend's, then those for every response.
    pub(super) async fn response_phase(&mut self) -> Phase {
        self.begin_response_rules();
        self.capture_response();
        self.response_content_rules().await?;
        self.remember_server_by_response();
        if self.has_response_rules(RulesetKind::HttpResponse) {
            PooledFuture::new(self.response_rules(RulesetKind::HttpResponse)).await?;
        }
        // Response rules see the server's response; the persistence cookie is only seen by after-response rules.
        crate::cookie::on_response(self);
        self.check_cacheable_cookies()?;
        if self.has_response_rules(RulesetKind::HttpAfterResponse) {
            PooledFuture::new(self.response_rules(RulesetKind::HttpAfterResponse)).await?;
        }
        Ok(())
    }

    /// Whether one of the stream's proxies has rules of a kind for responses. What runs them is in a box, or each stream that waits
    /// for its server would have the place for it.
    #[inline]
    pub(crate) fn has_response_rules(&self, kind: RulesetKind) -> bool {
        self.backend.has_rules(kind) || self.frontend.has_rules(kind)
    }

    async fn response_rules(&mut self, kind: RulesetKind) -> Phase {
        for side in self.sides_backend_first() {
            if let RulesetResult::Stop(stop) = self.run_rules(side, kind).await? {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Response rules begin: the variables of the request's scope end, those of the response's begin.
    pub(crate) fn begin_response_rules(&mut self) {
        if self.rules.begin_response() {
            self.variables.end_request();
            self.charge_variables();
        }
    }

    /// The backend and then the frontend, or the one proxy that is both.
    pub(crate) fn sides_backend_first(&self) -> impl Iterator<Item = ProxySide> + use<> {
        let frontend = self.has_other_backend().then_some(ProxySide::Frontend);
        std::iter::once(ProxySide::Backend).chain(frontend)
    }

    /// `unique-id-header`, `Early-Data` (RFC 8470, 5.1), `option forwardfor`, `option originalto`, `option forwarded`, in the order
    /// in which HAProxy adds them.
    pub(super) fn add_forwarding_fields(&mut self) -> Phase {
        self.try_add_forwarding_fields()
            .map_err(|NoRoom| StreamError::Error(400, Ending::new(By::Proxy, During::Request)))
    }

    fn try_add_forwarding_fields(&mut self) -> Result<(), NoRoom> {
        // At the latest here: the rules of the response and the log find an identifier that was made of the request.
        if self.unique_id().is_some()
            && let Some(name) = &self.frontend.config.settings.unique_id_header
        {
            let id = self.captures.unique_id().unwrap_or_default();
            self.request.message.head.add(name.as_bytes(), id)?;
        }
        if self.is_early() {
            self.request.message.head.add(b"early-data", b"1")?;
        }
        let (frontend, backend): (&Proxy, &Proxy) = (&self.frontend, &self.backend);
        fn of(proxy: &Proxy) -> &weir_config::model::Options {
            &proxy.config.settings.options
        }
        if let Some(option) = of(backend).forward_for.as_ref().or(of(frontend).forward_for.as_ref()) {
            let name = option.header.as_bytes();
            let source = self.source().ip();
            // If only one of both has `if-none`, the field is added: a client's own could pass for ours.
            let options =
                || [backend, frontend].into_iter().filter_map(|proxy| of(proxy).forward_for.as_ref());
            let if_none = options().all(|option| option.if_none);
            let present = if_none && self.request.message.head.has(self.request.message.bytes(), name);
            // An address that either of both excepts is excepted: such a client sends the field itself.
            let excepted = |source: &IpAddr| {
                options().any(|option| option.except.is_some_and(|network| network.contains(*source)))
            };
            if let Some(source) = source.filter(|source| !excepted(source))
                && !present
            {
                add_displayed(&mut self.request.message.head, name, &source)?;
            }
        }
        if let Some(option) = of(backend).original_to.as_ref().or(of(frontend).original_to.as_ref()) {
            let destination = self.destination().ip();
            let mut options =
                [backend, frontend].into_iter().filter_map(|proxy| of(proxy).original_to.as_ref());
            if let Some(destination) = destination.filter(|address| {
                !options.any(|option| option.except.is_some_and(|network| network.contains(*address)))
            }) {
                add_displayed(&mut self.request.message.head, option.header.as_bytes(), &destination)?;
            }
        }
        if self.backend.config.settings.options.forwarded.is_some() {
            add_forwarded(self)?;
        }
        Ok(())
    }

    /// `http-send-name-header`: needs the chosen server.
    pub(super) fn add_server_name(&mut self) -> Result<(), NoRoom> {
        let (Some(name), Some(lease)) = (&self.backend.config.settings.send_name_header, &self.server.lease)
        else {
            return Ok(());
        };
        let (head, raw) = self.request.message.edit();
        head.set(raw, name.as_bytes(), lease.server().name().as_bytes())
    }
}

fn add_forwarded(stream: &mut Stream) -> Result<(), NoRoom> {
    let backend = stream.backend.proxy().clone();
    if let Some(option) = &backend.config.settings.options.forwarded {
        let value = stream.forwarded_value(option);
        stream.request.message.head.add(b"forwarded", &value)?;
    }
    Ok(())
}

/// Adds a field with a short displayed value.
fn add_displayed(head: &mut weir_http::Head, name: &[u8], value: &IpAddr) -> Result<(), NoRoom> {
    use std::io::Write as _;
    let mut room = [0; 48];
    let mut rest = &mut room[..];
    // An address has at most 45 characters.
    let _ = write!(rest, "{value}");
    let left = rest.len();
    let length = room.len() - left;
    head.add(name, &room[..length])
}
