//! Calls of the Lua API, by a worker that serves a configuration on a simulated network.
//!
//! The bytes are the choices of a script (`scripts/calls.lua`): which member it calls, with which arguments, in actions, fetches, converters,
//! services, tasks, init functions and in the body of its file. Nothing may panic, and after the end of the process nothing may be held.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use weir_assemble::{
    BuiltInstance, EventSinks, LoadedConfiguration, NameServersPlan, PeersPlan, ProcessValues, Resolver,
};
use weir_events::{LogIdentity, Logger};
use weir_net::shortage::BufferLimits;
use weir_observe::{LiveProcess, LiveScripts, ProcessRecord};
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork, SimulatedPeer};
use weir_sched::{Class, Descriptor, WorkKind, now, sleep_until, spawn};
use weir_scripts::{Client, ClientSettings, ScriptNetwork, Scripts};
use weir_stream::instance::{Hooks, InstanceIdentity, LocalInstance, ProxyRef, local};
use weir_syntax::{
    DiagnosticSeverity, Environment, MemoryFiles, NoFiles, SharedFiles, SourceMap, StaticFeatures,
};
use weir_sys::Address;

/// Calls of the API by a script that these bytes drive. The first byte sets the memory of states, and whether they are shared.
pub fn script_calls(bytes: &[u8]) {
    let Some((&first, choices)) = bytes.split_first() else { return };
    let choices = choices[..choices.len().min(MOST_CHOICES)].to_vec();
    // A worker keeps state in its thread.
    let thread = std::thread::spawn(move || serve(first, &choices));
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Serves some clients, and checks that nothing is left.
fn serve(first: u8, choices: &[u8]) {
    let scripts = Rc::new(Cell::new(None));
    let (theirs, text) = (Rc::clone(&scripts), configuration(first));
    let files = files(choices);
    let run = network::run(first.into(), Conditions::CALM, |network| async move {
        let Some(process) = ScriptedProcess::start(network, &text, files) else { return };
        theirs.set(Some((Arc::downgrade(&process.scripts), process.scripts.budgets())));
        process.visit().await;
    });
    let outcome = run.expect("a worker").outcome;
    assert_eq!(outcome, Ok(()), "the clients are not served to the end");
    if let Some((scripts, budgets)) = scripts.take() {
        assert!(scripts.upgrade().is_none(), "something keeps the scripts of a process that has ended");
        let taken = budgets.map(|budget| budget.taken());
        assert_eq!(taken, [0; 3], "bytes of states, bytes for scripts, and tasks after the end");
    }
    let panics = PANICS.take();
    assert_eq!(panics, 0, "a task panicked");
}

/// The worker's end of a process.
struct ScriptedProcess {
    network: SimulatedNetwork,
    live: LiveProcess,
    instance: LocalInstance,
    scripts: Arc<Scripts>,
}

impl ScriptedProcess {
    /// Starts a process on this worker. `None` if its scripts refuse to start, as they may.
    fn start(network: SimulatedNetwork, text: &str, files: MemoryFiles) -> Option<ScriptedProcess> {
        count_panics();
        let mut sources = SourceMap::new();
        sources.add("fuzz.cfg", text.as_bytes().to_vec());
        let conditions = StaticFeatures { features: &[], enabled: &[], tls: None };
        let loaded = LoadedConfiguration::read(&sources, Arc::new(files), &conditions, Environment::new());
        let LoadedConfiguration { outcome, registry, patterns, token_keys, variable_names, scripts } = loaded;
        let mut alerts = outcome.diagnostics.iter();
        if let Some(alert) = alerts.find(|found| found.severity == DiagnosticSeverity::Alert) {
            let message = alert.classic_message(&sources);
            // Or a file that the script loaded as a map or the other way round.
            let is_expected = ["Lua", "lua", "is already used as"].iter().any(|part| message.contains(part));
            assert!(is_expected, "{message}");
            return None;
        }
        scripts.start(&outcome.config.global.scripts, 1).ok()?;
        let record = ProcessRecord {
            registry,
            patterns,
            token_keys,
            scripts: Some(Arc::clone(&scripts)),
            ..ProcessRecord::new(1)
        };
        let values = values(Arc::clone(&variable_names), &record.events);
        let (mut peers, mut name_servers) = (PeersPlan::default(), NameServersPlan::default());
        let built = weir_assemble::instance(outcome.config, values, &mut peers, &mut name_servers);
        let BuiltInstance { mut instance, tls, log_sinks } = built.expect("a configuration without names");
        for (port, listener) in (80..).zip(instance.proxies.iter_mut().flat_map(|proxy| &mut proxy.listeners))
        {
            listener.address = Some(Address::from((Ipv4Addr::LOCALHOST, port)));
        }
        let hooks = Hooks { scripts: Some(Arc::clone(&scripts)), ..Hooks::default() };
        let instance = instance.with_hooks(hooks);
        let record = ProcessRecord { variable_names, tls: Some(tls), log_sinks, ..record };
        let live = LiveProcess::new(|_| (instance, |_: &Arc<_>| record));
        scripts.initialize(Arc::new(LiveScripts::new(&live))).ok()?;
        let settings = ClientSettings { retries: 1, connect_ms: 1_000, tls: None, naming: None };
        scripts.connect(ScriptNetwork { client: Arc::new(Client::new(settings)), tls: None });
        scripts.serve(Arc::new(LiveScripts::new(&live)));
        scripts.log_to(|_, _| true);
        let instance = local(&live.instance);
        let limits = BufferLimits { size: instance.limits.buffer_size, most: None, kept: 8, reserve: 0 };
        limits.set_up(1);
        weir_stream::worker::install(Arc::clone(&instance.process_counters[0]));
        weir_stream::recycle::configure(instance.limits.header_count);
        weir_stream::log::install(Logger::new(
            Arc::new(LogIdentity::default()),
            weir_events::calendar::utc(),
        ));
        scripts.begin(0);
        Some(ScriptedProcess { network, live, instance, scripts })
    }

    /// Serves one client after the other, and a server.
    async fn visit(&self) {
        self.host();
        let listeners = self.listen();
        for (number, (listener, request)) in (1..).zip(VISITS) {
            let from = Address::from((Ipv4Addr::new(10, 0, 0, number), 1024));
            let peer = self.network.connect(&from, &listeners[*listener]);
            converse(&peer, request.as_bytes()).await;
        }
        // Tasks of scripts.
        sleep_until(now().after(100)).await;
        assert!(Arc::ptr_eq(self.instance.shared(), &self.live.instance));
    }

    /// Answers to everything, at a server.
    fn host(&self) {
        let service = self.network.listen(&Address::from((Ipv4Addr::LOCALHOST, 8001))).expect("its own");
        spawn(&HOST, Class::Normal, async move {
            loop {
                let peer = service.accept().await;
                spawn(&HOST, Class::Normal, async move {
                    while peer.receive(10_000).await.is_ok_and(|bytes| !bytes.is_empty()) {
                        if peer.send(ANSWER).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
    }

    fn listen(&self) -> Vec<Address> {
        let mut addresses = Vec::new();
        for proxy in &self.instance.proxies {
            for (at, listener) in (0..).zip(&proxy.listeners) {
                let address = listener.address.clone().expect("it has one");
                let socket = self.network.listener(&address).expect("each has its own");
                weir_stream::accept::prepare_listener(proxy, &socket);
                let handler = weir_stream::listener_handler::ListenerHandler {
                    frontend: ProxyRef::at(&self.instance, proxy.index).expect("it is there"),
                    listener: at,
                    workers: Arc::new([0]),
                    spread: weir_stream::listener_handler::Spread::Keep,
                };
                let descriptor = Descriptor::register(socket).expect("it is simulated");
                let task = spawn(&ACCEPT, Class::Urgent, weir_net::listener::accept(descriptor, handler, 64));
                proxy.acceptors.lock().expect("nobody panics with it").push(task);
                addresses.push(address);
            }
        }
        addresses
    }
}

/// Sends a request, and receives for some time.
async fn converse(peer: &SimulatedPeer, request: &[u8]) {
    let deadline = now().after(PATIENCE_MS);
    let mut rest = request;
    while now() < deadline {
        match peer.try_send(rest) {
            Ok(count) => rest = &rest[count..],
            Err(_) => return,
        }
        match peer.try_receive(10_000) {
            Ok(Some(bytes)) if bytes.is_empty() => return,
            Ok(Some(_)) => {}
            Ok(None) => peer.wait_until(deadline).await,
            Err(_) => return,
        }
    }
}

fn values<'v>(variable_names: Arc<weir_expr::VariableNames>, events: &'v EventSinks) -> ProcessValues<'v> {
    ProcessValues {
        variable_names,
        files: SharedFiles::new(NoFiles),
        workers: 1,
        connections: 100,
        open_files: u32::MAX,
        pipes: 10,
        frontend_connections: None,
        events,
        resolver: &NoNames,
        states: Box::leak(Box::default()),
        ignore_unknown_names: false,
        identity: InstanceIdentity {
            hostname: "host".into(),
            node: "host".into(),
            process_id: 1,
            started_us: 0,
            time_zone: weir_expr::TimeZone::fixed(0, "UTC"),
        },
        warn: &|_| {},
        notice: &|_| {},
    }
}

struct NoNames;

impl Resolver for NoNames {
    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// The script with its choices, and the files that it loads.
fn files(choices: &[u8]) -> MemoryFiles {
    let mut script = String::from("local INPUT = \"");
    choices.iter().for_each(|byte| script.push_str(&format!("\\x{byte:02x}")));
    script.push_str("\"\n");
    script.push_str(include_str!("scripts/calls.lua"));
    let files = [("calls.lua", script), ("m.map", "a b\n/c d\n".into()), ("a.acl", "a\n/c\n".into())];
    MemoryFiles::from_iter(files)
}

fn configuration(first: u8) -> String {
    let load = if first & 1 == 0 { "lua-load" } else { "lua-load-per-thread" };
    // Little memory, enough of it, or no limit.
    let megabytes = [1, 8, 8, 0][usize::from(first >> 1 & 3)];
    let booleans = if first & 8 == 0 { "normal" } else { "pre-3.1-bug" };
    let global = format!(
        "global
 tune.lua.bool-sample-conversion {booleans}
 tune.lua.maxmem {megabytes}
 tune.lua.burst-timeout 50ms
 tune.lua.session-timeout 100ms
 tune.lua.service-timeout 100ms
 tune.lua.task-timeout 100ms
 tune.lua.log.stderr off
 {load} calls.lua
"
    );
    [&global, PROXIES].concat()
}

thread_local! {
    /// The worker catches panics of tasks, so they are counted here.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts the panics of this thread's tasks.
fn count_panics() {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
}

static HOST: WorkKind = WorkKind::new("server");
static ACCEPT: WorkKind = WorkKind::new("accept");

/// Listeners and requests of clients.
const VISITS: &[(usize, &str)] = &[
    (0, "GET /a?b=c HTTP/1.1\r\nhost: x\r\ncookie: a=b\r\nx-forwarded-for: 10.1.1.1\r\n\r\n"),
    (1, "first line\r\nsecond line\r\n"),
    (0, "POST /s HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\nline\nanother"),
    (2, "raw bytes\n"),
    (
        0,
        "POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
    ),
    (0, "GET /s HTTP/1.1\r\n\r\n"),
];
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-answer: a, b\r\nset-cookie: c=d\r\n\r\nhello";
/// How long clients stay, in virtual milliseconds. Beyond the timeouts of the proxies.
const PATIENCE_MS: u64 = 3_000;
/// The most bytes that drive a script.
const MOST_CHOICES: usize = 4_096;

const PROXIES: &str = "
defaults
 mode http
 timeout client 1s
 timeout server 1s
 timeout connect 1s
listen web
 bind 127.0.0.1:1
 stick-table type string size 100 expire 10s store gpc0,http_req_rate(10s)
 http-request track-sc0 path
 http-request set-header x-fetch %[lua.fetch(a,1),lua.convert(b)]
 http-request lua.act a b
 http-request use-service lua.web if { path_beg /s }
 http-request set-header x-map %[path,map(m.map,e)] if { path -f a.acl }
 http-response lua.act a b
 http-after-response lua.late
 server s 127.0.0.1:8001
 server spare 127.0.0.1:8001 backup
listen raw
 mode tcp
 bind 127.0.0.1:2
 tcp-request inspect-delay 500ms
 tcp-request content lua.act a b
 tcp-response inspect-delay 500ms
 tcp-response content lua.act a b
 server s 127.0.0.1:8001
listen served
 mode tcp
 bind 127.0.0.1:3
 tcp-request content set-var(txn.x) lua.fetch
 tcp-request content use-service lua.raw
";
