//! A connection that was just accepted: its own rules, its PROXY header, the rules of its session.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use weir_backend::{ProcessCounter, ProcessRate};
use weir_config::model::Action;
use weir_config::model::RulesetKind;
use weir_net::Connection;
use weir_sys::option;
use weir_tls::{ChooseServer, Failure, Session as TlsSession, Why};

use crate::clock;
use crate::deadlines;
use crate::instance::Proxy;
use crate::rules::RulesetResult;
use crate::session::Session;
use crate::stream::Stream;

/// Whether anything is to be done before the session begins.
pub(crate) fn needs_admission(session: &Session) -> bool {
    session.listener.bind.options.accept_proxy
        || session.listener.tls.is_some()
        || session.frontend.has_rules(RulesetKind::TcpRequestConnection)
        || session.frontend.has_rules(RulesetKind::TcpRequestSession)
}

/// The rules of the connection, its header, the rules of the session; none when it ends here.
pub(crate) async fn admit(client: Connection, session: Rc<Session>) -> Option<Connection> {
    let frontend = session.frontend;
    let before = frontend.has_rules(RulesetKind::TcpRequestConnection);
    let after = frontend.has_rules(RulesetKind::TcpRequestSession);
    let mut client = client;
    let mut expects_header = session.listener.bind.options.accept_proxy;
    if before {
        let mut stream = Stream::new(Rc::clone(&session), client, session.accepted.monotonic_us);
        if refused(stream.run_rules(frontend, RulesetKind::TcpRequestConnection).await) {
            return None;
        }
        expects_header |= stream.expects_proxy();
        client = stream.take_client()?;
    }
    if expects_header && let Err(what) = read_header(&mut client, &session).await {
        Stream::new(session, client, weir_sched::now_us()).log_refused_handshake(what);
        return None;
    }
    if let Some(chooser) = &session.listener.tls
        && let Err(failure) = shake_hands(&mut client, &session, Arc::clone(chooser)).await
    {
        let what = handshake_error(failure);
        Stream::new(session, client, weir_sched::now_us()).log_refused_handshake(&what);
        return None;
    }
    if after {
        let mut stream = Stream::new(Rc::clone(&session), client, session.accepted.monotonic_us);
        if refused(stream.run_rules(frontend, RulesetKind::TcpRequestSession).await) {
            return None;
        }
        client = stream.take_client()?;
    }
    frontend.count_session(&session, &client);
    session.count_tracked_session();
    Some(client)
}

async fn read_header(client: &mut Connection, session: &Session) -> Result<(), &'static str> {
    let timeouts = &session.frontend.config.settings.timeouts;
    let deadline = clock::after_some(deadlines::handshake(timeouts));
    let read = crate::proxy_header::read(client, session, deadline).await;
    let took = weir_sched::now_us().saturating_sub(session.accepted.monotonic_us) / 1000;
    session.handshake_ms.set(u32::try_from(took).unwrap_or(u32::MAX));
    read
}

async fn shake_hands(
    client: &mut Connection,
    session: &Session,
    chooser: Arc<dyn ChooseServer>,
) -> Result<(), Failure> {
    let timeouts = &session.frontend.config.settings.timeouts;
    let deadline = clock::after_some(deadlines::handshake(timeouts));
    let shaken = client.shake_hands(TlsSession::server(chooser), deadline).await;
    if shaken.is_ok() {
        count_session(client, session);
    }
    let took = weir_sched::now_us().saturating_sub(session.accepted.monotonic_us) / 1000;
    session.handshake_ms.set(u32::try_from(took).unwrap_or(u32::MAX));
    shaken
}

/// Counts a session that was agreed on, with a key of its own or not.
fn count_session(client: &Connection, session: &Session) {
    let (worker, rates) = (weir_sched::worker_index(), &session.frontend.instance().rates);
    rates.increment(worker, ProcessCounter::TlsSessions);
    if client.tls().is_some_and(|facts| facts.resumed) {
        rates.increment(worker, ProcessCounter::TlsResumed);
    } else {
        rates.event(worker, ProcessRate::TlsKeys, weir_sched::now().as_ms());
    }
}

/// What the log says of a handshake that failed.
fn handshake_error(failure: Failure) -> Cow<'static, str> {
    match (failure.why, weir_tls::openssl::error(failure)) {
        (Why::TimedOut, _) => "Timeout during SSL handshake".into(),
        (Why::Closed, _) => "Connection closed during SSL handshake".into(),
        (_, Some((code, words))) => {
            format!("SSL handshake failure (error:{code:08X}:SSL routines::{words})").into()
        }
        (_, None) => "SSL handshake failure".into(),
    }
}

fn refused(result: Result<RulesetResult, crate::stream::StreamError>) -> bool {
    matches!(result, Err(_) | Ok(RulesetResult::Stop(_)))
}

impl Stream {
    /// Whether a `tcp-request connection expect-proxy` rule applies.
    fn expects_proxy(&mut self) -> bool {
        let rules = self.frontend.config.rules(RulesetKind::TcpRequestConnection);
        rules
            .filter(|rule| matches!(rule.action, Action::ExpectProxy))
            .any(|rule| self.rule_applies(rule).is_true())
    }

    /// Gives the client's connection back, where the stream had one of its own.
    pub(crate) fn take_client(&mut self) -> Option<Connection> {
        self.client.take_connection()
    }
}

/// Sets on a listening socket what every connection accepted from it inherits: that saves these calls for each of them.
pub fn prepare_listener(proxy: &Proxy, socket: impl std::os::fd::AsFd) {
    let socket = socket.as_fd();
    let settings = &proxy.config.settings;
    // What the kernel refuses here (on a UNIX socket, all of it) costs speed, not correctness.
    let _ = option::set_no_delay(socket, true);
    if settings.options.client_keep_alive {
        let _ = option::set_keep_alive(socket, crate::keepalive::parameters(&settings.client_keep_alive));
    }
    if settings.options.tcp_smart_accept == Some(true) {
        let _ = option::set_quick_ack(socket, false);
    }
    if settings.options.no_linger {
        let _ = option::set_no_linger(socket);
    }
}
