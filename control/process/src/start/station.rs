//! The workers: each sets up its thread and starts its tasks.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use weir_assemble::{LiveTls, RelayWay};
use weir_events::calendar::ZoneOffset;
use weir_events::{LogIdentity, Logger};
use weir_expr::pattern::regex::{budget, limit};
use weir_logs::relay::{self, StreamAcceptor};
use weir_model::{Global, Tuning};
use weir_observe::{LiveProcess, ocsp_updates, pattern_care, pulse, work_target};
use weir_peers::PeerAcceptor;
use weir_sched::Runtime;
use weir_stream::instance::{LocalInstance, ProxyRef, local};
use weir_stream::listener_handler;
use weir_sys::process as system;
use weir_sys::signal::SignalReader;
use weir_sys::time::{coarse_monotonic_ns, monotonic_ns};
use weir_tls::ChooseServer;

use crate::cli_server::{self, CliAcceptor};
use crate::lifecycle::Lifecycle;
use crate::listening::SocketOwner;
use crate::tuning::{self, WorkerTuning};
use crate::{tables, worker};

pub(super) fn start_workers(
    live: LiveProcess,
    lifecycle: &Arc<Lifecycle>,
    global: &Global,
    workers: usize,
    signals: SignalReader,
    channel: Option<OwnedFd>,
) -> weir_sys::Result<Runtime> {
    let settings = tuning::scheduler(global, workers);
    work_target::measure(settings.profiling);
    weir_memory::name_work_with(work_target::work_name);
    weir_memory::count(global.profiling.memory);
    let station = Station::new(live, lifecycle, global, workers);
    station.tuning.buffers.publish();
    let signals = Mutex::new(Some(signals));
    let channel = Mutex::new(channel);
    Runtime::start(&settings, move |worker| {
        station.set_up(worker);
        let reader = signals.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| worker == 0);
        let channel = channel.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| worker == 0);
        if let (Some(channel), Some(socket)) = (channel, station.live.record.cli_sockets.last())
            && let Err(errno) = worker::attend(
                station.live.clone(),
                Arc::clone(&station.lifecycle),
                Arc::clone(socket),
                channel,
            )
        {
            station.lifecycle.messages.alert(format!("The master cannot be heard: {errno}."));
        }
        if let Some(reader) = reader
            && let Err(errno) = station.lifecycle.obey(reader)
        {
            station.lifecycle.messages.alert(format!("Signals cannot be received: {errno}."));
        }
    })
}

/// Sets the limits of regular expressions, the action at a limit, and the size of the result cache.
fn bound_regular_expressions(tuning: &Tuning) {
    weir_expr::pattern::set_cache_size(tuning.pattern_cache_size as usize);
    limit::set_on_limit(tuning.regex_on_limit);
    let most = tuning.regex_request_time.map_or(0, |most| most.as_nanos().try_into().unwrap_or(u64::MAX));
    let clock_ns = if most < COARSE_BUDGET_NS { monotonic_ns } else { coarse_monotonic_ns };
    let context = budget::BudgetContext { clock_ns, owner: || weir_sched::current().to_bits() };
    budget::set_budget(most, context);
}

/// From this budget on, the coarse clock measures it. Most searches end within its tick of 1 to 10 ms, and on average it counts the
/// right time. It takes a fifth of the time of the exact clock: two readings of that clock cost as much as a short search.
const COARSE_BUDGET_NS: u64 = 100_000_000;

/// The settings of each worker.
struct Station {
    live: LiveProcess,
    lifecycle: Arc<Lifecycle>,
    log_identity: Arc<LogIdentity>,
    tuning: WorkerTuning,
    /// Maximum size of TLS records to send.
    largest_record: Option<usize>,
}

impl Station {
    fn new(live: LiveProcess, lifecycle: &Arc<Lifecycle>, global: &Global, workers: usize) -> Self {
        let hostname = &live.instance.identity.hostname;
        let hostname = global.log_host_name.as_ref().map(|name| match name {
            weir_model::SentHostName::Own => hostname.clone(),
            weir_model::SentHostName::Named(name) => name.to_string(),
        });
        bound_regular_expressions(&global.tuning);
        weir_events::size_datagram_sockets(global.tuning.datagram_send_buffer.unwrap_or(0));
        if global.no_memory_trimming {
            weir_memory::keep_free_memory();
        }
        Station {
            live,
            lifecycle: Arc::clone(lifecycle),
            log_identity: Arc::new(LogIdentity { hostname, process_id: system::id() }),
            tuning: WorkerTuning::new(&global.tuning, workers),
            largest_record: global.tls.largest_record().map(|bytes| bytes as usize),
        }
    }

    /// Prepares the current thread for serving.
    ///
    /// Uses every thread-local value with a destructor for the first time: the C library registers the destructor on the heap, and
    /// aborts the process if that allocation fails.
    fn set_up(&self, worker: usize) {
        let instance = local(&self.live.instance);
        if self.live.record.tls().is_some_and(LiveTls::speaks) {
            weir_tls::library::prepare_thread();
        }
        // Readers of published values need a thread-local slot. Create it here.
        drop(weir_sync::VersionCell::new(()).load());
        self.tuning.buffers.set_up(instance.process_counters.len());
        weir_containers::keep_recycled(self.tuning.hot_bytes);
        if let Some(bytes) = self.largest_record {
            weir_net::set_largest_record(bytes);
        }
        weir_stream::recycle::configure(instance.limits.header_count);
        weir_stream::worker::install(Arc::clone(&instance.process_counters[worker]));
        let zone = instance.identity.time_zone.clone();
        let offset: ZoneOffset = Arc::new(move |seconds| zone.at(seconds).offset);
        let logger = || Logger::new(Arc::clone(&self.log_identity), Arc::clone(&offset)).of_worker(worker);
        weir_stream::log::install(logger());
        relay::install(logger());
        let timeline = Arc::clone(&self.live.record.timelines[worker]);
        weir_stream::timeline::install(timeline, self.tuning.timeline_slow_ms);
        weir_stream::server::idle::start_keeper(Rc::clone(&instance));
        weir_stream::spoe::warm_up(&instance);
        pulse::start(self.live.clone());
        if worker == 0 {
            pattern_care::start(self.live.clone());
            ocsp_updates::start(&self.live);
            tables::start(Rc::clone(&instance));
            self.live.record.peers.sections.iter().for_each(|section| section.start());
        }
        weir_logs::forward::start(&self.live.record.events.forwards);
        if let Some(scripts) = &instance.hooks.scripts {
            let (sinks, tag) = (self.live.record.log_sinks.clone(), instance.subrequests.log_tag.clone());
            scripts.log_to(move |level, text| {
                let level = weir_events::Level::ALL[usize::from(level.min(7))];
                weir_stream::log::send_line(&sinks, &tag, level, text.as_bytes());
                !sinks.is_empty()
            });
            scripts.begin(worker);
        }
        if let Some(checks) = &self.live.record.checks {
            checks.start();
        }
        if let Some(resolvers) = &self.live.record.resolvers {
            resolvers.start();
        }
        self.accept(&instance);
        self.accept_operators();
        self.accept_messages();
        self.accept_peers();
    }

    fn accept(&self, instance: &LocalInstance) {
        for listener_sockets in self.lifecycle.listening.all_sockets() {
            let SocketOwner::Frontend { proxy, listener } = listener_sockets.owner else { continue };
            let Some(frontend) = ProxyRef::at(instance, proxy) else { continue };
            let acceptor = listener_handler::ListenerHandler {
                frontend: frontend.clone(),
                listener,
                workers: Arc::clone(&listener_sockets.workers),
                spread: self.tuning.spread,
            };
            if let Some(task) = listener_sockets.accept_here(acceptor, self.tuning.accept_batch) {
                let acceptors = &frontend.acceptors;
                acceptors.lock().unwrap_or_else(PoisonError::into_inner).push(task);
            }
        }
    }
}

impl Station {
    fn accept_operators(&self) {
        let all_sockets = self.lifecycle.listening.all_sockets().iter();
        let of_operators =
            all_sockets.filter(|listener_sockets| matches!(listener_sockets.owner, SocketOwner::Operator(_)));
        for (listener_sockets, socket) in of_operators.zip(&self.live.record.cli_sockets) {
            if let Some(task) = listener_sockets.accept_here(
                CliAcceptor {
                    live: self.live.clone(),
                    socket: Arc::clone(socket),
                    lifecycle: Arc::clone(&self.lifecycle),
                },
                cli_server::BATCH,
            ) {
                self.lifecycle.add_acceptor(task);
            }
        }
    }

    /// Starts accepting connections from peers.
    fn accept_peers(&self) {
        for listener_sockets in self.lifecycle.listening.all_sockets() {
            let SocketOwner::Peers(listener) = &listener_sockets.owner else { continue };
            let tls = listener.tls.clone().map(|tls| tls as Arc<dyn ChooseServer>);
            let acceptor = PeerAcceptor {
                section: Arc::clone(&listener.section),
                tls,
                accept_proxy: listener.bind.options.accept_proxy,
            };
            if let Some(task) = listener_sockets.accept_here(acceptor, self.tuning.accept_batch) {
                self.lifecycle.add_acceptor(task);
            }
        }
    }

    /// Starts receiving messages for `log-forward` sections.
    fn accept_messages(&self) {
        let relays = &self.lifecycle.parts().relays.shared;
        for listener_sockets in self.lifecycle.listening.all_sockets() {
            let SocketOwner::Relay(listener) = &listener_sockets.owner else { continue };
            let task = match &listener.way {
                RelayWay::Stream(way) => {
                    let acceptor = StreamAcceptor { relays: Arc::clone(relays), listener: Arc::clone(way) };
                    listener_sockets.accept_here(acceptor, self.tuning.accept_batch)
                }
                RelayWay::Datagrams(relay) => listener_sockets.receive_here(listener.number, |descriptor| {
                    relay::receive_datagrams(Arc::clone(relays), Arc::clone(relay), descriptor)
                }),
            };
            if let Some(task) = task {
                self.lifecycle.add_acceptor(task);
            }
        }
    }
}
