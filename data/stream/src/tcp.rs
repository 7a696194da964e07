//! TCP mode: one stream for the whole connection.

use weir_config::model::RulesetKind;
use weir_containers::PoolBox;

use crate::instance::Proxy;
use crate::stream::log_record::LogState;
use crate::stream::{Phase, Stream};

impl Stream {
    /// Serves a client until its connection ends.
    pub(crate) async fn run_tcp(mut stream: PoolBox<Stream>) {
        stream.run_session().await;
    }

    async fn run_session(&mut self) {
        self.session.requests.set(1);
        Proxy::count_connection_request();
        self.begin_view();
        self.attach_filters(self.frontend);
        if let Err(stop) = self.process_tcp().await {
            self.ending = stop.ending();
        }
        self.timers.close = Some(self.elapsed());
        self.count_end();
        if self.frontend.config.settings.options.dont_log_null && self.bytes_in() == 0 {
            self.log.state = LogState::Unwanted;
        }
        self.log_end();
        self.note_on_timeline();
        self.server.upstream = None;
        self.end_view();
    }

    async fn process_tcp(&mut self) -> Phase {
        let frontend = self.frontend;
        self.make_unique_id();
        self.content_rules(frontend).await?;
        self.route()?;
        if !std::ptr::eq(self.backend, self.frontend) {
            self.content_rules(self.backend).await?;
        }
        self.reach_server().await?;
        self.log_the_beginning();
        self.begin_relay();
        if self.backend.has_rules(RulesetKind::TcpResponseContent) {
            self.begin_response_rules();
            self.response_content_rules().await?;
        }
        self.remember_server_by_response();
        self.relay().await
    }
}
