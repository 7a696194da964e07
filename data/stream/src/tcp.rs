//! TCP mode: one stream for the whole connection.

use weir_containers::{PoolBox, PooledFuture};
use weir_model::{Protocol, RulesetKind};

use weir_net::{Connection, ReceiveOutcome};

use crate::actions::script::channel;
use crate::clock;
use crate::deadlines;
use crate::ending::{By, During};
use crate::errors::MessageDirection;
use crate::http::FirstByteWait;
use crate::instance::Proxy;
use crate::multiplexed;
use crate::passwords;
use crate::reservation;
use crate::stream::log_record::LogState;
use crate::stream::phases::TcpPhase;
use crate::stream::{PhaseResult, ProxySide, Stream, StreamError};

impl Stream {
    /// Serves a client until its connection closes, or until a rule or the backend switches it to HTTP (manual, 4.2, `mode`, and 4.3,
    /// `switch-mode`). In the latter case none of the client's bytes were consumed, and this stream serves the first HTTP/1 request.
    /// Returns the connection if it can carry another stream.
    pub(crate) async fn run_tcp(mut stream: PoolBox<Stream>) -> Option<Connection> {
        if !stream.tcp_phase().run_session().await {
            return None;
        }
        if !stream.speaks_http() {
            stream.session.upgrade(None);
        }
        let waited = stream.tcp_phase().first_bytes().await;
        let client = stream.take_client()?;
        if stream.session.is_http2(&client) || multiplexed::is_upgrade(&stream.session, &client) {
            stream.end_view();
            return Some(client);
        }
        stream.client = client.into();
        stream.began_in_tcp = true;
        Stream::run(stream, waited).await
    }
}

impl TcpPhase {
    /// Waits for the first byte of a request.
    async fn first_bytes(&mut self) -> FirstByteWait {
        let end =
            clock::after_some(deadlines::next_request(&self.stream.frontend.config.settings.timeouts, 0));
        loop {
            let head_limit = self.stream.frontend.instance().limits.head_limit();
            if !self.stream.client.input().is_empty()
                || self.stream.client.receive(head_limit) != ReceiveOutcome::Nothing
            {
                return FirstByteWait::Bytes;
            }
            if clock::passed(end) {
                return FirstByteWait::TimedOut;
            }
            weir_sched::wait(end).await;
        }
    }

    /// Runs the TCP session. Returns true if the connection continues in HTTP.
    async fn run_session(&mut self) -> bool {
        self.stream.session.requests.set(1);
        Proxy::count_connection_request();
        self.stream.begin_view();
        self.stream.attach_filters(ProxySide::Frontend);
        match self.process_tcp().await {
            Ok(TcpProgress::Wholly) => {}
            Ok(TcpProgress::UntilHttp) => return true,
            Err(stop) => {
                self.stream.ending = stop.ending();
                self.spare_reset();
            }
        }
        if self.stream.as_filter_phase().has_scripts() {
            PooledFuture::new(self.stream.filter_phase().end_analysis()).await;
        }
        if self.stream.frontend.config.settings.options.dont_log_null && self.stream.bytes_in() == 0 {
            self.stream.log.state = LogState::Unwanted;
        }
        self.stream.conclude();
        self.stream.server.upstream = None;
        self.stream.end_view();
        false
    }

    /// Reads the bytes that the client has already sent. With unread bytes, the kernel would send a reset instead of a FIN, and the client
    /// would report a network error.
    fn spare_reset(&mut self) {
        if !self.stream.client.is_broken() && !self.stream.entry.is_killed() {
            let held = self.stream.client.input().len();
            self.stream.client.consume(held);
            let _ = self.stream.client.receive(usize::MAX);
        }
    }

    /// Serves TCP until the end or a switch to HTTP. With `proto none` on the listener, a connection never switches to HTTP.
    fn until_http(&mut self) -> PhaseResult<TcpProgress> {
        channel::settle(&mut self.stream);
        match self.stream.session.listener().bind.options.protocol {
            Some(Protocol::None) => Err(StreamError::close(By::Proxy, During::Request)),
            _ => Ok(TcpProgress::UntilHttp),
        }
    }

    async fn process_tcp(&mut self) -> PhaseResult<TcpProgress> {
        // With `dontlognull`, the line must wait until the client sends something.
        if !self.stream.frontend.config.settings.options.dont_log_null {
            self.stream.log_line().log_arrival();
        }
        self.stream.filter_phase().begin_analysis(MessageDirection::Request).await?;
        self.stream.inspection().content_rules(ProxySide::Frontend).await?;
        if self.stream.speaks_http() {
            return self.until_http();
        }
        if !self.stream.frontend.used_userlists.outside_of_rules.is_empty() {
            passwords::verify_ahead(&mut self.stream, ProxySide::Frontend, |lists| &lists.outside_of_rules)
                .await?;
        }
        let is_scripted = self.stream.request_phase().reserve_for_routing(ProxySide::Frontend).await?;
        let chosen = self.stream.request_phase().choose_backend();
        reservation::end(is_scripted);
        let backend = chosen?;
        if backend.is_http() {
            return self.until_http();
        }
        self.stream.request_phase().enter_backend(backend);
        self.stream.filter_phase().begin_analysis(MessageDirection::Request).await?;
        if self.stream.has_other_backend() {
            self.stream.inspection().content_rules(ProxySide::Backend).await?;
            if !self.stream.backend.used_userlists.outside_of_rules.is_empty() {
                passwords::verify_ahead(&mut self.stream, ProxySide::Backend, |lists| {
                    &lists.outside_of_rules
                })
                .await?;
            }
        }
        channel::settle(&mut self.stream);
        self.stream.server_phase().reach_server().await?;
        self.stream.log_the_beginning();
        channel::settle(&mut self.stream);
        self.stream.filter_phase().begin_analysis(MessageDirection::Response).await?;
        self.stream.relay_phase().begin_relay();
        if self.stream.backend.has_rules(RulesetKind::TcpResponseContent) {
            self.stream.response_phase().begin_response_rules();
            self.stream.inspection().response_content_rules().await?;
            channel::settle(&mut self.stream);
        }
        if let Some(wait) = self.stream.tracking_mut().remember_server_by_response() {
            wait.await?;
        }
        self.stream.relay_phase().relay().await.map(|()| TcpProgress::Wholly)
    }
}

/// How the TCP mode of a connection ended.
enum TcpProgress {
    Wholly,
    /// A rule or the backend switched the connection to HTTP.
    UntilHttp,
}
