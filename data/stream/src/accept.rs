//! Admission of an accepted connection: connection rules, PROXY header, session rules.

use std::rc::Rc;
use std::sync::Arc;

use weir_backend::{FrontendCounter, ListenerCounter, ProcessCounter, ProcessRate};
use weir_model::RulesetKind;
use weir_net::tls_count;
use weir_net::{Connection, ReceiveOutcome, proxy_header};
use weir_sys::option;
use weir_tls::{ChooseServer, Facts, SessionFailure, TlsSession, Why, openssl};

use crate::actions::{self, ExpectProxy};
use crate::clock;
use crate::deadlines;
use crate::instance::{Instance, Proxy};
use crate::proxy_header::adopt;
use crate::rules::RulesetResult;
use crate::session::ClientSession;
use crate::stream::{ProxySide, Stream};

/// Whether rules must run or a PROXY header must be read before the session begins.
pub(crate) fn needs_admission(session: &ClientSession) -> bool {
    session.listener().bind.options.accept_proxy
        || session.listener().tls.is_some()
        || session.frontend().has_rules(RulesetKind::TcpRequestConnection)
        || session.frontend().has_rules(RulesetKind::TcpRequestSession)
}

/// Runs the connection rules, reads the PROXY header, and runs the session rules. `None` if the connection was closed.
pub(crate) async fn admit(client: Connection, session: Rc<ClientSession>) -> Option<Connection> {
    let frontend = session.frontend().clone();
    let before = frontend.has_rules(RulesetKind::TcpRequestConnection);
    let after = frontend.has_rules(RulesetKind::TcpRequestSession);
    let mut client = client;
    let mut expects_header = session.listener().bind.options.accept_proxy;
    if before {
        let mut stream = Stream::new(Rc::clone(&session), client, session.accepted.monotonic_us);
        if refused(stream.run_rules(ProxySide::Frontend, RulesetKind::TcpRequestConnection).await) {
            return None;
        }
        expects_header |= stream.expects_proxy();
        client = stream.take_client()?;
    }
    // A client that delays its PROXY header still takes a TLS slot (`maxsslconn`). At the limit the listeners pause, so a connection is
    // refused here only if two workers accepted at the same moment.
    let place = match session.listener().tls.is_some() && expects_header {
        true => Some(tls_count::SessionPlace::in_advance()?),
        false => None,
    };
    if expects_header && let Err(what) = read_header(&mut client, &session).await {
        reset_if_it_spoke(&client);
        Stream::new(session, client, weir_sched::now_us()).log_line().log_refused_handshake(what);
        return None;
    }
    drop(place);
    if let Some(chooser) = &session.listener().tls
        && let Err(failure) = shake_hands(&mut client, &session, Arc::clone(chooser)).await
    {
        let what = openssl::in_words(failure);
        Stream::new(session, client, weir_sched::now_us()).log_line().log_refused_handshake(&what);
        return None;
    }
    if session.speaks_http() && session.is_http2(&client) {
        end_handshake(&mut client, &session).await?;
    }
    if after {
        let mut stream = Stream::new(Rc::clone(&session), client, session.accepted.monotonic_us);
        if refused(stream.run_rules(ProxySide::Frontend, RulesetKind::TcpRequestSession).await) {
            return None;
        }
        client = stream.take_client()?;
    }
    frontend.count_session(&session, &client);
    session.count_tracked_session();
    Some(client)
}

/// Sets `SO_LINGER` if input remains unread, so that the later close resets the connection. The client then knows that its data was not
/// read, and the kernel keeps no TIME_WAIT state.
fn reset_if_it_spoke(client: &Connection) {
    if !client.input().is_empty() {
        let _ = option::set_no_linger(client.descriptor());
    }
}

async fn read_header(client: &mut Connection, session: &ClientSession) -> Result<(), &'static str> {
    let timeouts = &session.frontend().config.settings.timeouts;
    let deadline = clock::after_some(deadlines::handshake(timeouts));
    let read = proxy_header::read(client, deadline, |header| adopt(session, header)).await;
    let took = weir_sched::now_us().saturating_sub(session.accepted.monotonic_us) / 1000;
    session.handshake_ms.set(u32::try_from(took).unwrap_or(u32::MAX));
    read
}

async fn shake_hands(
    client: &mut Connection,
    session: &ClientSession,
    chooser: Arc<dyn ChooseServer>,
) -> Result<(), SessionFailure> {
    let timeouts = &session.frontend().config.settings.timeouts;
    let deadline = clock::after_some(deadlines::handshake(timeouts));
    let shaken = client.shake_hands(TlsSession::server(chooser), deadline).await;
    session.count_handshake(client.tls(), shaken.as_ref().err());
    let took = weir_sched::now_us().saturating_sub(session.accepted.monotonic_us) / 1000;
    session.handshake_ms.set(u32::try_from(took).unwrap_or(u32::MAX));
    shaken
}

/// Waits for the end of a handshake with early data. All streams of an HTTP/2 connection share it, and none of them may be early data.
/// `None` if the handshake does not complete.
async fn end_handshake(client: &mut Connection, session: &ClientSession) -> Option<()> {
    let deadline = clock::after_some(deadlines::handshake(&session.frontend().config.settings.timeouts));
    while client.tls().is_some_and(|facts| facts.early) {
        match client.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => {}
            ReceiveOutcome::Nothing if !clock::passed(deadline) => _ = weir_sched::wait(deadline).await,
            _ => return None,
        }
    }
    Some(())
}

impl ClientSession {
    /// Counts a finished handshake of the client. A handshake that weir timed out does not count as a failure.
    fn count_handshake(&self, facts: Option<&Facts>, failure: Option<&SessionFailure>) {
        let count = |frontend, listener| {
            let worker = weir_sched::worker_index();
            self.frontend().frontend_counters.increment(worker, frontend);
            self.listener().counters.increment(worker, listener);
        };
        match (failure, facts) {
            (Some(SessionFailure { why: Why::TimedOut, .. }), _) | (None, None) => {}
            (Some(_), _) => count(FrontendCounter::TlsFailures, ListenerCounter::TlsFailures),
            (None, Some(facts)) => {
                self.frontend().instance().count_tls_session(facts);
                match facts.resumed {
                    true => count(FrontendCounter::TlsResumed, ListenerCounter::TlsResumed),
                    false => count(FrontendCounter::TlsSessions, ListenerCounter::TlsSessions),
                }
                match facts.stapled.filter(|_| !facts.resumed) {
                    Some(true) => count(FrontendCounter::StapledResponses, ListenerCounter::StapledResponses),
                    Some(false) => count(FrontendCounter::EndedResponses, ListenerCounter::EndedResponses),
                    None => {}
                }
            }
        }
    }
}

impl Instance {
    /// Counts a TLS session with a client, full or resumed.
    pub fn count_tls_session(&self, facts: &Facts) {
        let worker = weir_sched::worker_index();
        self.rates.increment(worker, ProcessCounter::TlsSessions);
        if facts.resumed {
            self.rates.increment(worker, ProcessCounter::TlsResumed);
        } else {
            self.rates.event(worker, ProcessRate::TlsKeys, weir_sched::now().as_ms());
        }
    }
}

fn refused(result: Result<RulesetResult, crate::stream::StreamError>) -> bool {
    matches!(result, Err(_) | Ok(RulesetResult::Stop(_)))
}

impl Stream {
    /// Whether a `tcp-request connection expect-proxy` rule applies.
    fn expects_proxy(&mut self) -> bool {
        let frontend = self.frontend.clone();
        let rules = frontend.config.rules(RulesetKind::TcpRequestConnection);
        rules
            .filter(|rule| actions::arguments::<ExpectProxy>(&rule.action).is_some())
            .any(|rule| self.rule_applies(rule).is_true())
    }

    /// Takes the client connection out of the stream, if it carries only this stream. `None` in HTTP/2.
    pub(crate) fn take_client(&mut self) -> Option<Connection> {
        self.client.take_connection()
    }
}

/// Sets options on a listening socket. Accepted connections inherit them, which saves a system call each.
pub fn prepare_listener(proxy: &Proxy, socket: impl std::os::fd::AsFd) {
    let socket = socket.as_fd();
    let settings = &proxy.config.settings;
    // An option that the kernel rejects (on a UNIX socket, all of them) affects only performance.
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
