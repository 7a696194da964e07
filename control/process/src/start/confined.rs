//! The process with its final identity. It cannot open privileged resources any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use weir_assemble::{LiveNames, LivePeers, LiveTls};
use weir_backend::BackendNews;
use weir_events::LogSink;
use weir_model::AcceptedFamilies;
use weir_observe::{
    CheckedProcess, LiveProcess, LiveScripts, OcspRenewals, ProcessRecord, StatisticsPage, WeakLive,
};
use weir_scripts::ScriptNetwork;
use weir_stream::instance::{Hooks, Instance};
use weir_sys::process as system;

use super::bound::SettledProcess;
use super::built::{ProcessParts, Resolution};
use super::serving::ServingProcess;
use super::{Outside, StartFault, Startup, said, station};
use crate::core_dump;
use crate::lifecycle::{Lifecycle, ServedParts};
use crate::listening::ListeningSockets;
use crate::{process, watch};

/// A process with its root directory, user, group and capabilities.
pub(super) struct ConfinedProcess {
    start: Startup,
    parts: ProcessParts,
    peers: LivePeers,
    listening: ListeningSockets,
    outside: Outside,
}

impl SettledProcess {
    /// Changes the root directory and drops privileges.
    pub(super) fn confine(self) -> Result<ConfinedProcess, StartFault> {
        let SettledProcess { start, parts, peers, listening, outside } = self;
        let (global, messages) = (&start.global, start.messages);
        // The built-in configuration is only for a trial, so it needs no advice.
        if start.greeting.is_none() {
            start.identity.advise(global, messages);
        }
        core_dump::prepare(global.core_dump, messages);
        start.identity.assume(global, messages).map_err(Some)?;
        let mut probed = HashSet::new();
        let sinks = all_log_sinks(&parts.instance, &parts.relays.sinks, &peers.sinks);
        let sinks = sinks.chain(&parts.record.log_sinks);
        sinks.filter(|sink| probed.insert(Arc::as_ptr(sink))).for_each(|sink| sink.probe());
        Ok(ConfinedProcess { start, parts, peers, listening, outside })
    }
}

impl ConfinedProcess {
    /// Starts the workers.
    pub(super) fn serve(self) -> Result<ServingProcess, StartFault> {
        let ConfinedProcess { start, parts, peers, listening, outside } = self;
        let (global, messages) = (&start.global, start.messages);
        let families = start.families();
        let (live, lifecycle) =
            parts.live(peers, families, |served| Lifecycle::new(served, listening, global, messages));
        if let Some(scripts) = &live.record.scripts {
            scripts.serve(Arc::new(LiveScripts::new(&live)));
        }
        live.instance.keeps_quiet_clients.store(start.link.is_some(), SeqCst);
        let channel = start.link.as_ref().map(|link| system::duplicate(&link.channel)).transpose();
        let channel = channel.map_err(said("Cannot reach the master"))?;
        let Outside { background, signals } = outside;
        let runtime =
            station::start_workers(live.clone(), &lifecycle, global, start.workers, signals, channel)
                .map_err(said("Cannot start the workers"))?;
        let boot_ms = weir_sched::now().as_ms().saturating_sub(live.record.started_ms);
        live.record.boot_ms.store(u32::try_from(boot_ms).unwrap_or(u32::MAX), Relaxed);
        let watchdog = watch::start(
            &runtime,
            Arc::clone(&live.instance),
            global.profiling.warn_blocked_after,
            global.scripts.burst,
        )
        .map_err(said("Cannot start the watchdog"))?;
        process::forbid_processes(global, messages);
        Ok(ServingProcess { start, live, lifecycle, runtime, watchdog, background })
    }
}

impl Startup {
    /// The address families to accept from name resolution.
    fn families(&self) -> AcceptedFamilies {
        match self.invocation.ipv4_only {
            true => AcceptedFamilies { ipv4: true, ipv6: false, ipv6_if_routed: false },
            false => self.global.accepted_families,
        }
    }
}

impl ProcessParts {
    /// Creates checks, name resolution and OCSP updates, and the live process. Starts none of them. The record owns them, so they hold
    /// only weak references to it.
    pub(super) fn live(
        self,
        peers: LivePeers,
        families: AcceptedFamilies,
        lifecycle: impl FnOnce(ServedParts) -> Lifecycle,
    ) -> (LiveProcess, Arc<Lifecycle>) {
        let ProcessParts { instance, record, relays, resolution, client } = self;
        let Resolution { sections, name_servers, states } = resolution;
        weir_assemble::follow(&instance);
        let mut process = None;
        let live = LiveProcess::new(|live| {
            let resolvers = weir_assemble::resolvers(
                &sections,
                name_servers,
                families,
                &instance,
                &states,
                news_reporter(live),
            );
            let resolvers = Arc::new(resolvers);
            let hooks = Hooks {
                statistics: Some(Box::new(StatisticsPage::new(live))),
                news: Some(news_reporter(live)),
                names: Some(Box::new(LiveNames(Arc::clone(&resolvers)))),
                scripts: record.scripts.clone(),
            };
            let view = live.clone();
            let process = &mut process;
            let record = move |instance: &Arc<Instance>| {
                let view = CheckedProcess::new(instance, view);
                let checks = weir_assemble::checks(instance, &record.check_means, Box::new(view));
                let upstream = record.tls().and_then(LiveTls::client);
                let updates = OcspRenewals::new(&client, upstream, Arc::clone(&resolvers));
                if let Some(scripts) = &record.scripts {
                    let tls = record.tls().and_then(LiveTls::sockets);
                    scripts.connect(ScriptNetwork { client: Arc::clone(&updates.client), tls });
                }
                let served = ServedParts {
                    instance: Arc::clone(instance),
                    relays: Arc::new(relays.live(instance)),
                    peers: Arc::new(peers),
                    forwards: record.events.forwards.clone(),
                    operators: Arc::clone(&record.cli_connections),
                };
                let (relays, peers) = (Arc::clone(&served.relays), Arc::clone(&served.peers));
                let lifecycle = Arc::new(lifecycle(served));
                *process = Some(Arc::clone(&lifecycle));
                ProcessRecord {
                    frontends: Some(lifecycle),
                    relays: Some(relays),
                    peers,
                    checks: Some(Arc::new(checks)),
                    resolvers: Some(resolvers),
                    ocsp_updates: Some(Arc::new(updates)),
                    ..record
                }
            };
            (instance.with_hooks(hooks), record)
        });
        (live, process.expect("it was made with the record"))
    }
}

/// A callback that reports server changes to the process.
fn news_reporter(live: &WeakLive) -> Box<dyn Fn(BackendNews) + Send + Sync> {
    let live = live.clone();
    Box::new(move |news| live.report(news))
}

/// The open log targets of proxies, `log-forward` and `peers` sections. May contain duplicates.
pub(super) fn all_log_sinks<'s>(
    instance: &'s Instance,
    of_relays: &'s [Arc<LogSink>],
    of_peers: &'s [Arc<LogSink>],
) -> impl Iterator<Item = &'s Arc<LogSink>> {
    let of_proxies = instance.proxies.iter().flat_map(|proxy| &proxy.log_sinks);
    of_proxies.chain(of_relays).chain(of_peers)
}
