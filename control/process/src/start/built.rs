//! Creates the live objects from the configuration, before any socket is bound.

use std::sync::Arc;

use weir_assemble::{
    BuiltInstance, CheckMeans, ClientPlan, NameServersPlan, PeersPlan, ProcessValues, RelayListeners,
    RingFiles, SavedStates, SystemResolver,
};
use weir_model::{Config, Resolvers};
use weir_observe::files::SystemFiles;
use weir_observe::{LiveProcess, LiveScripts, ProcessRecord, RecordedLimits};
use weir_stream::instance::{Instance, InstanceIdentity};
use weir_syntax::SharedFiles;
use weir_sys::{process as system, users};

use super::read::DetachedProcess;
use super::{Outside, ProcessConfiguration, ProcessOptions, StartFault, Startup, refused, said};
use crate::limits::Capacity;
use crate::process;

/// A process with all objects that it will serve. None of them is reachable yet.
pub(super) struct BuiltProcess {
    pub start: Startup,
    pub parts: ProcessParts,
    pub peers: PeersPlan,
    /// Files of rings, still at temporary paths. Dropping this removes them.
    pub ring_files: RingFiles,
    pub outside: Outside,
}

/// The instance and the record of the process, before they refer to each other.
pub(super) struct ProcessParts {
    pub instance: Instance,
    pub record: ProcessRecord,
    pub relays: RelayListeners,
    pub resolution: Resolution,
    pub client: ClientPlan,
}

/// The name resolution at run time.
pub(super) struct Resolution {
    pub sections: Vec<Resolvers>,
    pub name_servers: NameServersPlan,
    pub states: SavedStates,
}

impl DetachedProcess {
    /// Builds the live objects. Resolves names, and opens rings and log targets.
    pub(super) fn build(self) -> Result<BuiltProcess, StartFault> {
        let DetachedProcess { start, prepared, outside } = self;
        let ProcessConfiguration {
            config,
            states,
            patterns,
            token_keys,
            scripts,
            variable_names,
            registry,
            environment,
            ..
        } = prepared;
        let (record, client, ring_files) = start.record(&config, &environment)?;
        let record =
            ProcessRecord { patterns, scripts, token_keys, variable_names, registry, environment, ..record };
        let sections = config.resolvers.clone();
        let resolver = &start.resolver();
        let fault = |faults: Vec<_>| refused(&faults, start.messages);
        let mut peers = weir_assemble::peers(&config, resolver).map_err(fault)?;
        let mut name_servers = weir_assemble::name_servers(&config, resolver).map_err(fault)?;
        // Set this first: building the instance already evaluates variables of scope `proc`.
        weir_expr::bound::set(config.global.tuning.buffer_size as usize);
        let warn = |warning: weir_assemble::Warning| match warning.is_borne && start.global.zero_warning {
            true => start.messages.announce(format!("config : {}", warning.text)),
            false => start.messages.warning(format!("config : {}", warning.text)),
        };
        let notice = |notice: String| start.messages.announce(format!("config : {notice}"));
        let options =
            ProcessValues { warn: &warn, notice: &notice, ..start.options(&record, resolver, &states) };
        let relays = weir_assemble::relays(&config, &options).map_err(fault)?;
        let built = weir_assemble::instance(config, options, &mut peers, &mut name_servers);
        let BuiltInstance { instance, tls, log_sinks } = built.map_err(fault)?;
        record.events.attach(&instance).map_err(fault)?;
        let relays = relays.publish(&instance, &tls);
        process::rehearse_threads(start.workers).map_err(said("Cannot start the workers"))?;
        let record = ProcessRecord { tls: Some(tls), log_sinks, ..record };
        let resolution = Resolution { sections, name_servers, states };
        let parts = ProcessParts { instance, record, relays, resolution, client };
        let parts = parts.initialize_scripts().map_err(|fault| Some(format!("config : {fault}")))?;
        Ok(BuiltProcess { start, parts, peers, ring_files, outside })
    }
}

impl ProcessParts {
    /// Runs the init functions of scripts. They see the objects that the process will serve.
    fn initialize_scripts(self) -> Result<ProcessParts, String> {
        let Some(scripts) = self.record.scripts.clone() else { return Ok(self) };
        let ProcessParts { instance, record, relays, resolution, client } = self;
        let live = LiveProcess::new(|_| (instance, |_: &Arc<Instance>| record));
        // The objects of a process belong to workers, so the functions run on one.
        let process = Arc::new(LiveScripts::new(&live));
        let ran = weir_sched::run(async move {
            scripts.initialize(process).and_then(|()| scripts.check_commands(weir_cli::is_command))
        });
        let ran = ran.map_err(|errno| format!("cannot run the init functions of scripts: {errno}"))?;
        ran.ok_or("the init functions of scripts were stopped")??;
        let (instance, record) = live.into_parts().ok_or("the init functions of scripts still run")?;
        Ok(ProcessParts { instance, record, relays, resolution, client })
    }
}

impl Startup {
    /// The system's resolver, with the command line options.
    pub(super) fn resolver(&self) -> SystemResolver {
        SystemResolver { ipv4_only: self.invocation.ipv4_only }
    }

    /// The process record without the objects used by expressions, the plan of its HTTP client, and the files of its rings.
    fn record(
        &self,
        config: &Config,
        environment: &[String],
    ) -> Result<(ProcessRecord, ClientPlan, RingFiles), StartFault> {
        let (global, resolver, messages) = (&self.global, &self.resolver(), self.messages);
        let fault = |faults: Vec<_>| refused(&faults, messages);
        let events = weir_assemble::events(config, resolver, self.invocation.ignore_unresolved);
        let mut events = events.map_err(fault)?;
        let ring_files = events.take_files();
        let mailers = weir_assemble::mailers(config, resolver, |text: &str| messages.warning(text));
        let mailers = mailers.map_err(fault)?;
        let client = ClientPlan::new(config, resolver).map_err(fault)?;
        let check_means = CheckMeans::new(config, environment)
            .map_err(|error| Some(format!("External checks cannot be started: {error}.")))?;
        let record = ProcessRecord {
            events,
            description: global.description.as_deref().map(str::to_owned),
            messages: Some(messages),
            limits: recorded_limits(&self.capacity, &self.invocation),
            cli_connections_limit: global.stats_maxconn,
            shares_idle: weir_assemble::shares_idle(global),
            check_means,
            mailers,
            log_tag: global.log_tag.as_deref().unwrap_or(weir_assemble::DEFAULT_TAG).as_bytes().into(),
            ..ProcessRecord::new(self.workers)
        };
        Ok((record, client, ring_files))
    }

    /// The options for building the instance, without callbacks for warnings and notices.
    fn options<'o>(
        &self,
        record: &'o ProcessRecord,
        resolver: &'o SystemResolver,
        states: &'o SavedStates,
    ) -> ProcessValues<'o> {
        let hostname = users::host_name();
        let soft = system::descriptor_limit().soft.unwrap_or(u64::MAX);
        ProcessValues {
            files: SharedFiles::new(SystemFiles),
            variable_names: record.variable_names.clone(),
            workers: self.workers,
            connections: self.capacity.maxconn,
            open_files: u64::from(self.capacity.open_files).min(soft) as u32,
            pipes: self.capacity.pipes,
            frontend_connections: self.invocation.proxy_maxconn,
            events: &record.events,
            resolver,
            states,
            ignore_unknown_names: self.invocation.ignore_unresolved,
            identity: InstanceIdentity {
                node: self.global.node.as_deref().unwrap_or(&hostname).to_owned(),
                hostname,
                process_id: system::id(),
                started_us: weir_sched::wall_us(),
                time_zone: weir_assemble::local_time_zone(&SystemFiles),
            },
            warn: &|_| {},
            notice: &|_| {},
        }
    }
}

fn recorded_limits(capacity: &Capacity, invocation: &ProcessOptions) -> RecordedLimits {
    RecordedLimits {
        connections: capacity.maxconn,
        connections_hard: capacity.hard_maxconn,
        open_files: capacity.open_files,
        sockets: capacity.open_files,
        pipes: capacity.pipes,
        memory: invocation.memory_mb.unwrap_or(0) << 20,
    }
}
