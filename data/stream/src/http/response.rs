//! Rules on the response, and what the proxy itself adds to messages.

use weir_config::model::RulesetKind;
use weir_http::NoRoom;

use crate::ending::{By, During, Ending};
use crate::instance::Proxy;
use crate::rules::RulesetResult;
use crate::stream::{Phase, Stream, StreamError};

impl Stream {
    /// The backend's rules, then the frontend's, then those that run on every response.
    pub(super) async fn response_phase(&mut self) -> Phase {
        self.begin_response_rules();
        self.capture_response();
        self.response_content_rules().await?;
        self.remember_server_by_response();
        self.response_rules(RulesetKind::HttpResponse).await?;
        // Rules see the server's response; what persistence makes of it, those do that see every response.
        crate::cookie::on_response(self);
        self.check_cacheable_cookies()?;
        self.response_rules(RulesetKind::HttpAfterResponse).await
    }

    async fn response_rules(&mut self, kind: RulesetKind) -> Phase {
        for proxy in self.proxies_backend_first() {
            if !proxy.has_rules(kind) {
                continue;
            }
            if let RulesetResult::Stop(stop) = self.run_rules(proxy, kind).await? {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// From here on rules see the response: the variables of the request's scope end, those of the response's begin.
    pub(crate) fn begin_response_rules(&mut self) {
        if self.variables.begin_response() {
            self.charge_variables();
        }
    }

    /// The backend and then the frontend, or the one that is both.
    pub(crate) fn proxies_backend_first(&self) -> impl Iterator<Item = &'static Proxy> + use<> {
        let frontend = (!std::ptr::eq(self.backend, self.frontend)).then_some(self.frontend);
        std::iter::once(self.backend).chain(frontend)
    }

    /// `unique-id-header`, `option forwardfor`, `option originalto`, `option forwarded`, in the order in which the reference
    /// program adds them.
    pub(super) fn add_forwarding_fields(&mut self) -> Phase {
        self.try_add_forwarding_fields()
            .map_err(|NoRoom| StreamError::Error(400, Ending::new(By::Proxy, During::Request)))
    }

    fn try_add_forwarding_fields(&mut self) -> Result<(), NoRoom> {
        let (frontend, backend) = (self.frontend, self.backend);
        if let (Some(name), Some(id)) = (&frontend.config.settings.unique_id_header, &self.log.unique_id) {
            self.request.message.head.add(name.as_bytes(), id)?;
        }
        let of = |proxy: &'static Proxy| &proxy.config.settings.options;
        if let Some(option) = of(backend).forward_for.as_ref().or(of(frontend).forward_for.as_ref()) {
            let name = option.header.as_bytes();
            let source = self.source().ip();
            // Where one of both says `if-none` and the other does not, the field is added: a client's own would pass for ours.
            let mut options =
                [backend, frontend].into_iter().filter_map(|proxy| of(proxy).forward_for.as_ref());
            let if_none = options.all(|option| option.if_none);
            let present = if_none && self.request.message.head.has(self.request.message.bytes(), name);
            if let Some(source) =
                source.filter(|source| !option.except.is_some_and(|except| except.contains(*source)))
                && !present
            {
                add_displayed(&mut self.request.message.head, name, &source)?;
            }
        }
        if let Some(option) = of(backend).original_to.as_ref().or(of(frontend).original_to.as_ref()) {
            let destination = self.destination().ip();
            let except = option.except;
            if let Some(destination) =
                destination.filter(|address| !except.is_some_and(|net| net.contains(*address)))
            {
                add_displayed(&mut self.request.message.head, option.header.as_bytes(), &destination)?;
            }
        }
        if let Some(option) = &of(backend).forwarded {
            let value = self.forwarded_value(option);
            self.request.message.head.add(b"forwarded", &value)?;
        }
        Ok(())
    }

    /// `http-send-name-header`: known only once the server is.
    pub(super) fn add_server_name(&mut self) -> Result<(), NoRoom> {
        let (Some(name), Some(lease)) = (&self.backend.config.settings.send_name_header, &self.server.lease)
        else {
            return Ok(());
        };
        let (head, raw) = self.request.message.edit();
        head.set(raw, name.as_bytes(), lease.server().name().as_bytes())
    }
}

/// Adds a field whose value is short text.
fn add_displayed(head: &mut weir_http::Head, name: &[u8], value: &std::net::IpAddr) -> Result<(), NoRoom> {
    use std::io::Write as _;
    let mut room = [0; 48];
    let mut rest = &mut room[..];
    // An address has at most 45 characters.
    let _ = write!(rest, "{value}");
    let left = rest.len();
    let length = room.len() - left;
    head.add(name, &room[..length])
}
