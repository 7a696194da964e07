//! Receives a request's head.

use weir_containers::PooledFuture;
use weir_http::{BodySize, Head, HeadFlags, Version};
use weir_mux::{BodyFlow, HeadOptions, ReadHead};
use weir_net::ConnectionFault;

use crate::clock;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::errors::MessageDirection;
use crate::http::FirstByteWait;
use crate::stream::log_record::LogState;
use crate::stream::phases::RequestPhase;
use crate::stream::request::RequestProgress;
use crate::stream::response::LocalName;
use crate::stream::{PhaseResult, StreamError};

impl RequestPhase {
    /// Waits for the complete head of a request and records its properties.
    pub(super) async fn read_request(&mut self, waited: FirstByteWait) -> PhaseResult {
        self.stream.timers.first_byte = Some(self.stream.elapsed());
        match waited {
            FirstByteWait::Bytes => {}
            FirstByteWait::TimedOut => return Err(self.no_request(ReadHead::Incomplete)),
            FirstByteWait::Stopped => return Err(StreamError::close(By::Killed, During::Request)),
        }
        let settings = &self.stream.frontend.config.settings;
        let options = HeadOptions {
            accept_fragment: self.stream.frontend.takes_fragments,
            ..self.stream.frontend.instance().limits.h1_options(settings.options.accept_unsafe_request)
        };
        // Most heads arrive complete, without waiting.
        if let DriveStep::Wait(waits) = self.look_for_head(&options)? {
            PooledFuture::new(self.await_head(waits, &options)).await?;
        }
        self.begin_request()
    }

    fn look_for_head(&mut self, options: &HeadOptions) -> PhaseResult<DriveStep<()>> {
        let limit = self.stream.frontend.instance().limits.head_limit();
        match self.stream.request.message.read_request(&mut self.stream.client, options, limit) {
            ReadHead::Complete => Ok(DriveStep::Done(())),
            ReadHead::Incomplete => {
                self.stream.trace().trace_wait(MessageDirection::Request);
                self.stream.client.shrink_input();
                Ok(DriveStep::Wait(Waits::ONCE))
            }
            failure => Err(self.no_request(failure)),
        }
    }

    async fn await_head(&mut self, waits: Waits, options: &HeadOptions) -> PhaseResult {
        let began = clock::tick_of_us(self.stream.timers.began_us);
        let configured = &self.stream.frontend.config.settings.timeouts;
        let during = While::head(configured, began, self.stream.session.requests.get(), weir_sched::now());
        self.stream
            .drive_on(
                during,
                Some(waits),
                |stream, _| stream.request_phase().look_for_head(options),
                |stream, _, _| Err(stream.request_phase().no_request(ReadHead::Incomplete)),
            )
            .await
    }

    /// Prepares a complete request, before any rule.
    fn begin_request(&mut self) -> PhaseResult {
        self.stream.timers.request = Some(self.stream.elapsed());
        self.stream.request.progress = RequestProgress::Known;
        self.stream.session.requests.set(self.stream.session.requests.get().saturating_add(1));
        if self.stream.request.message.head.flags().contains(HeadFlags::VIOLATION) {
            crate::refusals::keep_tolerated_request(&self.stream);
        }
        let head = &self.stream.request.message.head;
        self.stream.request.client_method = head.method();
        // `Expect` of an HTTP/1.0 client is ignored: the client does not support `100 Continue` (RFC 9110, 10.1.1).
        self.stream.request.expects_continue =
            head.flags().contains(HeadFlags::EXPECT_100) && head.version() >= Version::HTTP_11;
        self.stream.request.body.begin(BodyFlow::behind(
            &self.stream.client,
            head,
            BodySize::of_request(head),
        ));
        self.stream.inspection().bound_request_head();
        self.stream.reusable.client = true;
        self.stream.log_line().capture_request();
        self.judge_first_chunks()?;
        // Requests for `monitor-uri` are not logged (manual, "monitor-uri").
        if !self.is_for_monitor() {
            self.stream.log_line().log_arrival();
        }
        Ok(())
    }

    /// Validates the part of a chunked body that arrived with the head. An invalid one never reaches a server.
    fn judge_first_chunks(&mut self) -> PhaseResult {
        if !self.stream.request.message.head.flags().contains(HeadFlags::CHUNKED) {
            return Ok(());
        }
        self.stream.request.message.detach(&mut self.stream.client);
        if self.stream.client.shared().is_some() || weir_mux::may_begin_chunks(self.stream.client.input()) {
            return Ok(());
        }
        self.stream.request.progress = RequestProgress::Refused;
        self.stream.timers.request = None;
        self.stream.counts().count_bad_request();
        Err(StreamError::error(400, By::Proxy, During::Request))
    }

    /// Fails with the monitor response if the request is for `monitor-uri`.
    pub(super) fn check_monitor(&mut self) -> PhaseResult {
        if self.is_for_monitor() { Err(self.monitor()) } else { Ok(()) }
    }

    fn is_for_monitor(&self) -> bool {
        self.stream
            .frontend
            .config
            .settings
            .monitor_uri
            .as_ref()
            .is_some_and(|uri| self.targets(uri.as_bytes()))
    }

    /// Whether the request's target is this URI, in origin or absolute form. A URI with a scheme matches only the absolute form.
    fn targets(&self, uri: &[u8]) -> bool {
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let target = target_as(uri, head, raw);
        target == uri
    }

    /// The result when no request arrives.
    fn no_request(&mut self, failure: ReadHead) -> StreamError {
        self.stream.trace().trace_refusal(MessageDirection::Request, failure);
        // A head refused by HTTP/2 may have left no bytes in the input.
        let is_refused =
            matches!(failure, ReadHead::TooLarge | ReadHead::StartLineTooLarge | ReadHead::Invalid(_));
        let nothing_came =
            !is_refused && self.stream.client.input().is_empty() && !self.stream.request.message.has_begun();
        let first = self.stream.session.requests.get() == 0;
        let quiet = self.stream.frontend.config.settings.options.http_ignore_probes && nothing_came;
        if nothing_came && (!first || quiet || self.stream.frontend.config.settings.options.dont_log_null) {
            self.stream.log.state = LogState::Unwanted;
        }
        if nothing_came && !first {
            return StreamError::Close(Ending::NORMAL);
        }
        let (status, by) = match failure {
            ReadHead::Incomplete if self.stream.client.is_starved() => (500, By::Resource),
            ReadHead::Incomplete => (408, By::ClientTimeout),
            ReadHead::Failed(ConnectionFault::Shortage) => (500, By::Resource),
            ReadHead::Ended | ReadHead::Failed(_) => (400, By::Client),
            ReadHead::TooLarge => {
                crate::refusals::keep_long_request(&self.stream);
                (431, By::Proxy)
            }
            ReadHead::StartLineTooLarge => {
                crate::refusals::keep_long_request(&self.stream);
                (414, By::Proxy)
            }
            ReadHead::Invalid(error) => {
                crate::refusals::keep_request(&self.stream, error);
                (error.kind.status(), By::Proxy)
            }
            ReadHead::Complete => (400, By::Internal),
        };
        let ending = Ending::new(by, During::Request);
        if quiet {
            return StreamError::Close(ending);
        }
        self.stream.request.progress = RequestProgress::Refused;
        self.stream.counts().count_request();
        self.stream.tracking().count_tracked_request();
        self.stream.counts().count_bad_request();
        StreamError::Error(status, ending)
    }

    /// Responds to `monitor-uri`.
    fn monitor(&mut self) -> StreamError {
        let frontend = self.stream.frontend.clone();
        self.stream.log.state = LogState::Unwanted;
        self.stream.response.service = LocalName::Statistics;
        frontend.count_intercepted();
        let failed = frontend.config.monitor_fail.iter().any(|condition| self.stream.holds(condition));
        let ending = Ending::new(By::Local, During::Request);
        if failed {
            return StreamError::Error(503, ending);
        }
        self.stream.reply_phase().prepare_error(200);
        StreamError::Reply(ending)
    }
}

/// A request's target in the form of `written`: without scheme and host if `written` begins with a slash. HTTP/2 always sends both.
pub(crate) fn target_as<'a>(written: &[u8], head: &'a Head, raw: &'a [u8]) -> &'a [u8] {
    if written.first() == Some(&b'/') { head.path_and_query(raw) } else { head.uri(raw) }
}
