//! The first steps: checks limits and identity, then detaches from the shell.

use weir_model::{Config, Global, ListenAddress, LogForward, MAX_THREADS, Proxy as ProxyConfig};
use weir_observe::messages::{Messages, Verbosity};
use weir_sys::process as system;
use weir_sys::signal::SignalReader;

use super::{Outside, ProcessConfiguration, ProcessOptions, StartFault, Startup, said};
use crate::lifecycle::SIGNALS;
use crate::limits::{self, Bounds, Capacity, FixedDescriptors};
use crate::process::{self, Background, ProcessIdentity};
use crate::{log_connector, privileges};

/// A configuration that was read, with an identity that the process is able to take.
pub(super) struct ReadProcess {
    start: Startup,
    prepared: ProcessConfiguration,
}

/// A process detached from the shell, with one thread. Later threads inherit its signal mask and cannot gain privileges.
pub(super) struct DetachedProcess {
    pub start: Startup,
    pub prepared: ProcessConfiguration,
    pub outside: Outside,
}

impl ReadProcess {
    /// Applies the process-wide settings and looks up the identity.
    pub(super) fn new(
        mut prepared: ProcessConfiguration,
        mut invocation: ProcessOptions,
        messages: &'static Messages,
    ) -> Result<ReadProcess, StartFault> {
        let link = invocation.worker.take();
        let config = &prepared.config;
        let global = config.global.clone();
        if global.quiet && messages.verbosity() == Verbosity::Normal {
            messages.set_verbosity(Verbosity::Quiet);
        }
        invocation.precedence.of_service(global.tuning.niceness.runtime, messages);
        let workers = worker_count(&global);
        let needs = privileges::needs(config);
        let capacity = capacity(config, &invocation, workers);
        if capacity.automatic {
            messages.notice(format!("Automatically setting global.maxconn to {}.", capacity.maxconn));
        }
        process::warn_of_few_descriptors(&capacity, &global, messages);
        warn_of_tcp_servers(config, messages);
        if !process::raise_descriptor_limit(&capacity, &global, messages) {
            return Err(None);
        }
        let identity = ProcessIdentity::new(&global).map_err(Some)?;
        identity.rehearse(&needs).map_err(Some)?;
        let greeting = prepared.greeting.take();
        let start = Startup { global, invocation, link, messages, workers, capacity, identity, greeting };
        Ok(ReadProcess { start, prepared })
    }

    /// Goes to the background if configured. Starts the parts that require a single-threaded process.
    pub(super) fn detach(self) -> Result<DetachedProcess, StartFault> {
        let ReadProcess { start, prepared } = self;
        let Startup { global, invocation, messages, .. } = &start;
        let background =
            (invocation.daemon || global.daemon) && !invocation.foreground && start.link.is_none();
        let background = background.then(Background::enter).transpose();
        let background = background.map_err(said("[weir.main()] Cannot fork"))?;
        // Only the main thread exists so far. Later threads inherit its signal mask.
        let signals = SignalReader::new(&SIGNALS).map_err(said("Cannot receive signals"))?;
        log_connector::start(&prepared.config, &start.identity, messages)
            .map_err(said("[weir.main()] Cannot fork"))?;
        let messages = start.messages;
        weir_events::report_outages(|text| messages.warning(text));
        // Log writers are the first threads, so set this before them.
        process::forbid_privileges(global, messages);
        Ok(DetachedProcess { start, prepared, outside: Outside { background, signals } })
    }
}

/// Warns of servers with `mptcp@` that are reached over TCP, because the kernel lacks MPTCP.
fn warn_of_tcp_servers(config: &Config, messages: &Messages) {
    let mut servers =
        config.proxies.iter().flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, server)));
    let Some((proxy, server)) = servers.find(|(_, server)| server.settings.multipath) else { return };
    if let Err(error) = weir_sys::socket::multipath_stream(weir_sys::AddressFamily::Inet) {
        messages.warning(format!(
            "[weir.main()] Servers with 'mptcp@', such as {}/{}, are reached by TCP: the kernel does not speak MPTCP ({}).",
            proxy.name,
            server.name,
            weir_sys::error_text(error)
        ));
    }
}

/// The number of workers: `nbthread`, or one per processor available to the process.
pub fn worker_count(global: &Global) -> usize {
    let most = usize::from(MAX_THREADS);
    let usable = || system::processors().map_or(1, |processors| processors.len());
    global.threads.map_or_else(usable, usize::from).clamp(1, most)
}

fn capacity(config: &Config, invocation: &ProcessOptions, workers: usize) -> Capacity {
    let global = &config.global;
    let limit = system::descriptor_limit();
    let splices = |proxy: &ProxyConfig| {
        let splice = &proxy.settings.options.splice;
        splice.auto || splice.request || splice.response
    };
    let of_peers = config.peers.iter().filter_map(|section| section.bind.as_ref());
    let of_relays = config.log_forwards.iter().flat_map(LogForward::all_binds);
    let binds = config
        .proxies
        .iter()
        .flat_map(|proxy| &proxy.binds)
        .chain(&global.sockets)
        .chain(of_relays)
        .chain(of_peers);
    let listening = binds.flat_map(|bind| &bind.addresses).map(ListenAddress::listener_count).sum();
    limits::capacity(&Bounds {
        maxconn: invocation.maxconn.or(global.limits.maxconn),
        open_files: global.limits.open_files,
        open_files_hard: global.limits.open_files_hard,
        memory_mb: invocation.memory_mb,
        pipes: global.limits.pipes,
        splices: !global.no_splice && config.proxies.iter().any(splices),
        buffer_size: global.tuning.buffer_size,
        fixed: FixedDescriptors::new(listening, workers, global.stats_maxconn),
        system_soft: limit.soft,
        system_hard: limit.hard,
    })
}
