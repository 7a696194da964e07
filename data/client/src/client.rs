//! The client: its name servers, timeouts and retries.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_dns::Name;
use weir_http::Method;
use weir_http::message::{write_field, write_length_field};
use weir_net::{ConnectError, ConnectPlan, ConnectTarget, Connection, Greeting};
use weir_resolvers::{ResolveReply, Resolvers};
use weir_sched::{Tick, now, wait};
use weir_sys::Address;
use weir_tls::LiveUpstream;

use crate::answer::{HttpAnswer, RequestFailure};
use crate::exchange::{self, AnswerLimits, ByteBudget};
use crate::fields::RequestFields;
use crate::url::Url;

/// Sends requests.
#[derive(Debug)]
pub struct Client {
    settings: ClientSettings,
}

/// How requests are sent.
#[derive(Debug)]
pub struct ClientSettings {
    /// The most retries of a request that never reached a server.
    pub retries: u32,
    /// The connect timeout in milliseconds. The TLS handshake has another timeout of the same length.
    pub connect_ms: u64,
    /// The TLS settings. Without them, requests to `https` URLs fail.
    pub tls: Option<Arc<LiveUpstream>>,
    /// The name servers. Without them, only URLs with an IP address work.
    pub naming: Option<HostResolution>,
}

/// The name servers that resolve hosts.
#[derive(Debug)]
pub struct HostResolution {
    /// All `resolvers` sections.
    pub resolvers: Arc<Resolvers>,
    /// The name of the section to use.
    pub section: Box<str>,
    /// Query the IPv4 address first.
    pub prefers_ipv4: bool,
}

/// An HTTP request, without its connection.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub method: &'r str,
    pub url: &'r Url,
    pub route: &'r RequestRoute,
    pub fields: &'r RequestFields,
    /// Sent with its length unless it is empty.
    pub body: &'r [u8],
    pub limits: AnswerLimits,
    /// Admits the bytes of the response's body, beside its limits.
    pub budget: Option<&'r dyn ByteBudget>,
}

/// The address that a request is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRoute {
    /// The host of the URL.
    Host,
    /// An HTTP proxy. The request has the whole URL then.
    Proxy(SocketAddr),
    /// An address in place of the host's. An IP address with port 0 has the port of the URL.
    Address(Address),
}

/// The result of a request, with its timings.
#[derive(Debug)]
pub struct RequestOutcome {
    /// The response, or the failure of the last attempt.
    pub answer: Result<HttpAnswer, RequestFailure>,
    pub retries: u32,
    /// The connect time of the last established connection, in milliseconds.
    pub connect_ms: Option<u64>,
    /// The total time, in milliseconds.
    pub total_ms: u64,
}

impl Client {
    /// A client with these settings.
    pub fn new(settings: ClientSettings) -> Self {
        Client { settings }
    }

    /// Sends a request. Retries if no connection can be established.
    pub async fn send(&self, request: &Request<'_>) -> RequestOutcome {
        let began = now();
        let (mut retries, mut connect_ms) = (0, None);
        let answer = loop {
            let tried = self.attempt(request, &mut connect_ms).await;
            match tried {
                Err(failure) if failure.is_before_request() && retries < self.settings.retries => {
                    retries += 1;
                    // A server that refuses at once may be about to start (manual, "retries").
                    weir_sched::sleep_until(now().after(PAUSE_MS)).await;
                }
                ended => break ended,
            }
        };
        let total_ms = now().as_ms().saturating_sub(began.as_ms());
        RequestOutcome { answer, retries, connect_ms, total_ms }
    }

    async fn attempt(
        &self,
        request: &Request<'_>,
        connect_ms: &mut Option<u64>,
    ) -> Result<HttpAnswer, RequestFailure> {
        let address = match request.route {
            RequestRoute::Proxy(proxy) => Address::Inet(*proxy),
            RequestRoute::Address(Address::Inet(to)) if to.port() == 0 => {
                Address::Inet(SocketAddr::new(to.ip(), request.url.port))
            }
            RequestRoute::Address(address) => address.clone(),
            RequestRoute::Host => {
                Address::Inet(SocketAddr::new(self.address_of(request.url).await?, request.url.port))
            }
        };
        let began = now();
        let mut connection = self.connect(address).await?;
        *connect_ms = Some(now().as_ms().saturating_sub(began.as_ms()));
        if request.url.is_secure {
            self.secure(request.url, &mut connection).await?;
        }
        let method = Method::from_bytes(request.method.as_bytes());
        exchange::hold(connection, method, (&written(request), request.body), request.limits, request.budget)
            .await
    }

    async fn address_of(&self, url: &Url) -> Result<IpAddr, RequestFailure> {
        if let Some(address) = url.address() {
            return Ok(address);
        }
        let naming = self.settings.naming.as_ref().ok_or(RequestFailure::UnknownHost)?;
        let name = Name::parse(url.host.as_bytes()).map_err(|_| RequestFailure::UnknownHost)?;
        let address = match naming.resolvers.look_up(&naming.section, name, naming.prefers_ipv4) {
            ResolveReply::Known(address) => address,
            ResolveReply::Later { question, limit_ms } => {
                let deadline = now().after(limit_ms);
                loop {
                    if let Some(address) = question.answer() {
                        break address;
                    }
                    if deadline <= now() {
                        break None;
                    }
                    wait(deadline).await;
                }
            }
        };
        address.ok_or(RequestFailure::UnknownHost)
    }

    async fn connect(&self, to: Address) -> Result<Connection, RequestFailure> {
        let deadline = now().after(self.settings.connect_ms);
        let plan = ConnectPlan::to(ConnectTarget::Address(to));
        let mut connecting = plan.begin().map_err(RequestFailure::NoConnection)?;
        let stood = connecting.stand(Greeting::default(), deadline, || Ok(())).await;
        stood.map_err(|error| match error {
            ConnectError::Failed(fault) => RequestFailure::NoConnection(fault),
            ConnectError::TimedOut => RequestFailure::NoConnectionInTime,
        })?;
        Ok(connecting.into_connection())
    }

    async fn secure(&self, url: &Url, connection: &mut Connection) -> Result<(), RequestFailure> {
        let tls = self.settings.tls.as_ref().ok_or(RequestFailure::NoTls)?;
        let deadline: Tick = now().after(self.settings.connect_ms);
        // The certificate is verified against the host sent as SNI, even if that is an address.
        let session = tls.session(Some(url.host.as_bytes()), None);
        let session = session.map_err(|failure| RequestFailure::Handshake(failure.why))?;
        let made = connection.shake_hands(session, deadline).await;
        made.map_err(|failure| RequestFailure::Handshake(failure.why))
    }
}

/// The serialized head of a request.
fn written(request: &Request<'_>) -> Vec<u8> {
    let Request { method, url, route, fields, body, .. } = request;
    let target = match route {
        RequestRoute::Proxy(_) => url.absolute(),
        RequestRoute::Host | RequestRoute::Address(_) => url.target.to_string(),
    };
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    let usual: [(&[u8], &[u8]); 3] =
        [(b"host", url.authority.as_bytes()), (b"accept", b"*/*"), (b"user-agent", b"weir")];
    for (name, value) in usual {
        if !fields.has(name) {
            write_field(&mut head, name, value);
        }
    }
    for (name, value) in fields.iter() {
        write_field(&mut head, name, value);
    }
    write_field(&mut head, b"connection", b"close");
    if !body.is_empty() {
        write_length_field(&mut head, body.len() as u64);
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The pause before a retry, in milliseconds.
const PAUSE_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(route: RequestRoute, fields: &[(&str, &str)], body: &[u8]) -> String {
        let url = Url::parse("http://a.example:81/x?y").expect("a URL");
        let mut kept = RequestFields::default();
        for (name, value) in fields {
            kept.add(name.as_bytes(), value.as_bytes()).expect("a field");
        }
        let limits = AnswerLimits::within(1, 1);
        let request =
            Request { method: "PUT", url: &url, route: &route, fields: &kept, body, limits, budget: None };
        String::from_utf8(written(&request)).expect("ASCII")
    }

    #[test]
    fn fields_of_the_caller_replace_the_usual_ones() {
        let end = "connection: close\r\n";
        assert_eq!(
            head(RequestRoute::Host, &[], b""),
            format!(
                "PUT /x?y HTTP/1.1\r\nhost: a.example:81\r\naccept: */*\r\nuser-agent: weir\r\n{end}\r\n"
            )
        );
        let fields = [("Host", "b"), ("user-agent", "c"), ("x", "1"), ("x", "2"), ("content-length", "9")];
        assert_eq!(
            head(RequestRoute::Host, &fields, b"abc"),
            format!(
                "PUT /x?y HTTP/1.1\r\naccept: */*\r\nhost: b\r\nuser-agent: c\r\nx: 1\r\nx: 2\r\n{end}content-length: 3\r\n\r\n"
            )
        );
    }

    #[test]
    fn a_proxy_gets_the_whole_url() {
        let proxy = RequestRoute::Proxy(SocketAddr::from(([192, 0, 2, 1], 80)));
        assert!(head(proxy, &[], b"").starts_with("PUT http://a.example:81/x?y HTTP/1.1\r\n"));
    }
}
