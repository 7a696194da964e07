//! The choice of a server: rules, persistence, the balancing algorithm, and the queue.

use weir_backend::{Choice, ChooseInput, Lease, QueueEntry, Server, ServerKey, WaitOutcome, hash};
use weir_containers::PooledFuture;
use weir_http::Method;
use weir_model::HashType;
use weir_model::{BalanceArgument, ServerTarget};

use crate::counters::CountedEvent;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::reservation;
use crate::server::key;
use crate::stream::choice::Designation;
use crate::stream::phases::ChoicePhase;
use crate::stream::{PhaseResult, Stream, StreamError};
use weir_vocabulary::fetch::rdp;

struct ServerSearch {
    /// Any other server is preferred to this one (redispatch).
    avoid: Option<ServerKey>,
    /// The server designated by a rule or by persistence, while it may still be used.
    designated: Option<ServerKey>,
    /// The server of the last queue wait.
    queue: Option<ServerKey>,
    /// The deadline shared by all queue waits.
    during: Option<While>,
}

/// A wait for a slot. Yields `None` if the choice must be repeated.
type WaitForSlot<'s> = PooledFuture<'s, PhaseResult<Option<Lease>>>;

impl ChoicePhase {
    /// Gets a slot of a server, waiting in a queue if necessary.
    pub(super) async fn assign(&mut self) -> PhaseResult {
        self.stream.enter(During::Queue);
        let avoid = None;
        self.assign_avoiding(avoid).await
    }

    /// Gets a slot of a server, preferring any other server to `avoid`.
    pub(super) async fn assign_avoiding(&mut self, avoid: Option<ServerKey>) -> PhaseResult {
        // In a block of its own: its waits would take memory for the lifetime of every stream.
        if reservation::is_needed(&self.stream, &self.stream.backend.scripted.in_assignment) {
            return PooledFuture::new(self.assign_with_scripts(avoid)).await;
        }
        let mut search = self.begin_search(avoid);
        loop {
            let Some(wait) = self.look_for_server(&mut search)? else { return Ok(()) };
            let lease = wait.await?;
            if let Some(lease) = lease {
                return self.leased(lease);
            }
            self.search_again(&mut search);
        }
    }

    /// [`assign_avoiding`](Self::assign_avoiding), with the state of scripts that the rules or the key of the backend use. A wait gives the
    /// state back.
    async fn assign_with_scripts(&mut self, avoid: Option<ServerKey>) -> PhaseResult {
        reservation::reserve(&mut self.stream).await?;
        let mut search = self.begin_search(avoid);
        loop {
            let looked = self.look_for_server(&mut search);
            reservation::end(true);
            let Some(wait) = looked? else { return Ok(()) };
            let lease = wait.await?;
            if let Some(lease) = lease {
                return self.leased(lease);
            }
            self.search_again(&mut search);
            reservation::reserve(&mut self.stream).await?;
        }
    }

    fn begin_search(&mut self, avoid: Option<ServerKey>) -> ServerSearch {
        let designated = if avoid.is_none() { self.designated_server() } else { None };
        ServerSearch { avoid, designated, queue: None, during: None }
    }

    /// The server of the queue cannot be used any more.
    fn search_again(&mut self, search: &mut ServerSearch) {
        search.designated = None;
        self.leave_server(search.queue);
    }

    /// Takes a slot of a server, or returns the wait for one. Not an async function: its locals would take memory for the lifetime of the
    /// stream.
    fn look_for_server(&mut self, search: &mut ServerSearch) -> PhaseResult<Option<WaitForSlot<'_>>> {
        loop {
            let input = self.choose_input(search.avoid);
            let task = weir_sched::current();
            let wake = move || -> Box<dyn weir_backend::WakeWaiter> {
                Box::new(weir_backend::WakeFn(move || weir_sched::wake(task)))
            };
            let backend = self.stream.backend.servers();
            let choice = match &search.designated {
                Some(key) => {
                    // Only these options let a request use a server that is down (manual, "option persist", "force-persist").
                    let designation = self.stream.choice.designation;
                    let stays = designation.is_persistent()
                        && (designation.is_forced() || backend.settings().persist);
                    backend.take(*key, stays, &input, wake)
                }
                None => backend.choose(&input, wake),
            };
            match choice {
                Choice::Server(lease) => {
                    // A server that could not be avoided was counted when it was chosen first.
                    if search.avoid != Some(lease.server().key()) {
                        self.stream.counts().count_balanced(lease.server().counters());
                    }
                    self.leased(lease)?;
                    return Ok(None);
                }
                Choice::Wait(waiting) => {
                    search.queue = waiting.server();
                    self.stream.choice.last = search.queue;
                    // A request from a server's queue counts for that server. A request in the backend's queue does not yet count for a server.
                    if let Some(server) = search.queue.and_then(|key| backend.server(key)) {
                        self.stream.counts().count_balanced(server.counters());
                    }
                    // A slot from the queue after a failed attempt is a redispatch, whichever server grants it.
                    self.stream.choice.redispatched |= search.avoid.is_some();
                    let timeouts = &self.stream.timeouts;
                    let during =
                        *search.during.get_or_insert_with(|| While::slot(timeouts, weir_sched::now()));
                    return Ok(Some(PooledFuture::new(self.wait_in_queue(waiting, during))));
                }
                Choice::Full if search.designated.is_some() => {
                    let server = search.designated.take();
                    if self.stream.choice.designation.is_forced() || backend.settings().redispatch == 0 {
                        self.stream.choice.last = server;
                        self.stream.counts().count_failed_in_queue();
                        return Err(StreamError::error(503, By::Server, During::Queue));
                    }
                    self.leave_server(server);
                }
                Choice::None if search.designated.is_some() => {
                    search.designated = None;
                    self.stream.choice.choose_freely();
                }
                Choice::Full | Choice::None => {
                    self.stream.counts().count(CountedEvent::FailedConnection);
                    return Err(StreamError::error(503, By::Server, During::Connect));
                }
            }
        }
    }

    /// The designated server cannot be used. The request is redispatched.
    fn leave_server(&mut self, server: Option<ServerKey>) {
        self.stream.choice.choose_freely();
        self.stream.choice.last = None;
        if server.is_some() {
            crate::cookie::lose_server(&mut self.stream);
            self.stream.choice.redispatched = true;
            self.stream.counts().count_redispatch_from(server);
        }
    }

    fn leased(&mut self, lease: Lease) -> PhaseResult {
        let server = lease.server();
        self.stream.entry.server.set(server.key().index() as u32);
        self.stream.session.note_server(self.stream.backend.index, server.key());
        self.stream.choice.last = Some(server.key());
        self.stream.timers.queue = Some(self.stream.elapsed());
        self.stream.server.lease = Some(lease);
        self.redirect_instead()
    }

    /// `redir` on a server line: redirects the client to the server after GET or HEAD. The client's own method counts, even if rules
    /// changed it.
    fn redirect_instead(&mut self) -> PhaseResult {
        let known = self.stream.as_server_phase().known_server();
        let Some(prefix) = known.as_ref().and_then(|known| known.settings.redirect_prefix.as_ref()) else {
            return Ok(());
        };
        if !self.stream.request.is_known()
            || !matches!(self.stream.request.client_method, Method::Get | Method::Head)
        {
            return Ok(());
        }
        let target = self.stream.request.message.head.path_and_query(self.stream.request.message.bytes());
        // A target without a path cannot take another prefix. The server gets the request.
        if !target.starts_with(b"/") {
            return Ok(());
        }
        let location = [prefix.as_bytes(), target].concat();
        self.stream.reply_phase().prepare_redirection(302, &location);
        Err(StreamError::Reply(Ending::new(By::Local, During::Connect)))
    }

    /// Waits for a slot. Yields `None` if the choice must be repeated. A failed request leaves the queue.
    ///
    /// Not an async function: that would store the arguments twice.
    fn wait_in_queue(
        &mut self,
        waiting: QueueEntry,
        during: While,
    ) -> impl Future<Output = PhaseResult<Option<Lease>>> {
        let mut waiting = Some(waiting);
        async move {
            let outcome = self
                .stream
                .drive(
                    during,
                    |stream, _| stream.choice_phase().look_for_slot(waiting.as_mut()),
                    |stream, by, _| {
                        stream.counts().count_failed_in_queue();
                        Err(StreamError::error(503, by, During::Queue))
                    },
                )
                .await;
            if let (Err(stop), Some(waiting)) = (&outcome, waiting)
                && stop.ending().by != By::Killed
            {
                self.stream.choice.queued.add(waiting.give_up());
                self.stream.timers.queue = Some(self.stream.elapsed());
            }
            outcome
        }
    }

    fn look_for_slot(&mut self, waiting: Option<&mut QueueEntry>) -> PhaseResult<DriveStep<Option<Lease>>> {
        match waiting.and_then(QueueEntry::poll) {
            Some(WaitOutcome::Granted(granted)) => {
                self.stream.choice.queued.add(granted.positions);
                return Ok(DriveStep::Done(Some(granted.lease)));
            }
            Some(WaitOutcome::ChooseAgain(positions)) => {
                self.stream.choice.queued.add(positions);
                return Ok(DriveStep::Done(None));
            }
            None => {}
        }
        if self.stream.client_left() {
            return Err(StreamError::close(By::Client, During::Queue));
        }
        self.stream.hold_little();
        Ok(DriveStep::Wait(Waits::ONCE))
    }

    /// The server designated by a `use-server` rule or, if none applies, by a cookie.
    fn designated_server(&mut self) -> Option<ServerKey> {
        let by_rule = self.server_by_rule();
        if let Some((server, designation)) = by_rule {
            crate::cookie::overrule(&mut self.stream);
            // Called for its side effect: stick-tables store the server of the rule.
            self.stream.tracking_mut().server_by_table(false);
            self.stream.choice.designation = designation;
            return Some(server);
        }
        let (server, forced) = match crate::cookie::designated(&mut self.stream) {
            (None, _) => self.stream.tracking_mut().server_by_table(true).unzip(),
            (server, forced) => {
                self.stream.tracking_mut().server_by_table(false);
                (server, Some(forced))
            }
        };
        let forced = forced.unwrap_or_default();
        self.stream.choice.designation = match server {
            Some(_) => Designation::Persistence { forced },
            None => Designation::Free,
        };
        server
    }

    /// The server of the first `use-server` rule that applies and names a usable server.
    fn server_by_rule(&mut self) -> Option<(ServerKey, Designation)> {
        if self.stream.backend.config.use_server.is_empty() {
            return None;
        }
        self.stream.inspection().receive_what_came();
        let backend = self.stream.backend.proxy().clone();
        for rule in &backend.config.use_server {
            let applies = rule.condition.as_ref().is_none_or(|condition| self.stream.holds(condition));
            if !applies {
                continue;
            }
            let server = match &rule.target {
                ServerTarget::Static(rank) => Some(ServerKey::configured(*rank)),
                ServerTarget::Dynamic(name) => {
                    let name = self.stream.format(name);
                    let name = std::str::from_utf8(&name).ok();
                    name.and_then(|name| backend.servers().server_by_name(name)).map(|server| server.key())
                }
            };
            let is_up = |key| backend.servers().look_at(key, Server::is_up);
            let Some((server, is_up)) = server.and_then(|key| Some((key, is_up(key)?))) else { continue };
            let designation = match is_up {
                true => Designation::Rule,
                false if crate::cookie::wants_servers_that_are_down(&mut self.stream) => {
                    Designation::RuleThoughDown { forced: !backend.servers().settings().persist }
                }
                false => continue,
            };
            return Some((server, designation));
        }
        None
    }

    /// The server of the connection's previous request, with `option prefer-last-server` and `max-keep-alive-queue` not exceeded.
    fn preferred_server(&self) -> Option<ServerKey> {
        let settings = &self.stream.backend.config.settings;
        let (backend, server) = self.stream.session.last_server()?;
        let short =
            settings.max_keep_alive_queue.is_none_or(|most| self.stream.backend.servers().queued() <= most);
        (settings.options.prefer_last_server && backend == self.stream.backend.index && short)
            .then_some(server)
    }

    fn choose_input(&mut self, avoid: Option<ServerKey>) -> ChooseInput {
        ChooseInput {
            hash: self.balance_hash(),
            avoid,
            prefer: self.preferred_server(),
            priority: self.stream.choice.priority,
            random: weir_sched::random(),
            worker: weir_sched::worker_index(),
            now_ms: weir_sched::now().as_ms(),
        }
    }

    /// The hash for the balancing algorithm. `None` if the algorithm does not use a key, or the request lacks it.
    fn balance_hash(&mut self) -> Option<u32> {
        let kind = self.stream.backend.servers().settings().hash_type;
        let raw = self.stream.request.message.bytes();
        let head = &self.stream.request.message.head;
        match &self.stream.backend.config.settings.balance.argument {
            BalanceArgument::Plain | BalanceArgument::Draws(_) | BalanceArgument::LogMessage(_) => None,
            BalanceArgument::Source => self.stream.source().ip().map(|address| key::source(kind, address)),
            BalanceArgument::RdpCookie { name } => {
                match rdp::cookie(self.stream.client.input(), name.as_bytes()) {
                    rdp::RdpCookie::Value(value) => Some(hash::hash(kind, value)),
                    rdp::RdpCookie::Nothing | rdp::RdpCookie::TooShort => None,
                }
            }
            BalanceArgument::Expression(_) => hash_of_expression(&mut self.stream, kind),
            BalanceArgument::Uri(_)
            | BalanceArgument::UrlParameter { .. }
            | BalanceArgument::Header { .. }
                if !self.stream.request.is_known() =>
            {
                None
            }
            BalanceArgument::Uri(arguments) => Some(key::uri(kind, *arguments, head.uri(raw))),
            BalanceArgument::UrlParameter { name, .. } => {
                let found = key::parameter(name, key::query(head.uri(raw)));
                let found = found.or_else(|| self.parameter_in_form(name));
                found.map(|value| hash::hash(kind, value))
            }
            BalanceArgument::Header { name, use_domain_only } => {
                let value = head.find_line(raw, name.as_bytes(), 1)?;
                Some(hash::hash(kind, key::header_part(value, *use_domain_only)))
            }
        }
    }

    /// A form parameter in the received part of a POST body (`balance url_param ... check_post`).
    fn parameter_in_form(&self, name: &str) -> Option<&[u8]> {
        if !self.balances_on_body() {
            return None;
        }
        let body = &self.stream.client.input()
            [..self.stream.request.body.ready().min(self.stream.client.input().len())];
        key::parameter(name, body)
    }

    /// Whether the choice of a server depends on the request's body, which only a POST has.
    pub(crate) fn balances_on_body(&self) -> bool {
        let argument = &self.stream.backend.config.settings.balance.argument;
        self.stream.backend.backend.is_some()
            && matches!(argument, BalanceArgument::UrlParameter { check_post: true, .. })
            && self.stream.request.message.head.method() == Method::Post
    }
}

fn hash_of_expression(stream: &mut Stream, kind: HashType) -> Option<u32> {
    let backend = stream.backend.proxy().clone();
    let BalanceArgument::Expression(expression) = &backend.config.settings.balance.argument else {
        return None;
    };
    let value = stream.evaluate_string(expression)?;
    Some(hash::hash(kind, &value))
}
