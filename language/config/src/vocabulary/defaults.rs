//! What holds where a word is not written: for the manual's reference and `weir explain`.
//!
//! A default that can be written as arguments of the word is a [`DefaultValue::Written`]: a test reads each configuration with
//! and without it and compares what comes of them. What depends on something else is a sentence. Options have no rows
//! here: all of them are off, but for those of [`NOT_OFF`].

use super::WordPlace;

/// What holds where a word is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefaultValue {
    /// The same as these arguments.
    Written(&'static str),
    /// The part of a sentence that says it.
    Described(&'static str),
}

use DefaultValue::{Described, Written};

/// The default of a word, if it has one.
pub(crate) fn of(place: WordPlace, name: &str) -> Option<DefaultValue> {
    if place == WordPlace::Option {
        let other = NOT_OFF.iter().find(|(option, _)| *option == name);
        return Some(other.map_or(Described("off"), |(_, text)| Described(text)));
    }
    let (_, rows) = ROWS.iter().find(|(known, _)| *known == place)?;
    rows.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

type Rows = &'static [(&'static str, DefaultValue)];

/// The words with a default, by place.
pub(crate) static ROWS: &[(WordPlace, Rows)] = &[
    (WordPlace::Global, GLOBAL),
    (WordPlace::Proxy, PROXY),
    (WordPlace::Bind, BIND),
    (WordPlace::Server, SERVER),
    (WordPlace::Action, ACTION),
    (WordPlace::Filter, FILTER),
    (WordPlace::Ring, RING),
    (WordPlace::LogForward, LOG_FORWARD),
    (WordPlace::Mailers, MAILERS),
    (WordPlace::Peers, PEERS),
    (WordPlace::Healthcheck, HEALTHCHECK),
    (WordPlace::Resolvers, RESOLVERS),
    (WordPlace::CrtStore, CRT_STORE),
    (WordPlace::Load, LOAD),
];

/// Options that are not simply off.
const NOT_OFF: &[(&str, &str)] = &[
    ("abortonclose", "on in `mode http`, off in `mode tcp`"),
    ("http-keep-alive", "on, unless `option http-server-close` or `option httpclose` is written"),
    ("http-restrict-req-hdr-names", "`preserve`"),
];

const GLOBAL: Rows = &[
    ("close-spread-time", Described("idle connections are closed at once when the process stops")),
    ("dns-accept-family", Written("ipv4,ipv6")),
    ("fd-hard-limit", Described("`1048576`, and never more than the system's hard limit")),
    ("grace", Described("no delay")),
    ("hard-stop-after", Described("none: a process that stops waits for its last connection")),
    ("http-err-codes", Written("400-499")),
    ("http-fail-codes", Written("500-599 -501 -505")),
    ("httpclient.resolvers.disabled", Written("off")),
    ("httpclient.resolvers.id", Described("`default`")),
    ("httpclient.resolvers.prefer", Written("ipv6")),
    ("httpclient.retries", Written("3")),
    ("httpclient.ssl.ca-file", Described("the system's certificate authorities")),
    ("httpclient.ssl.verify", Described("`required`")),
    ("httpclient.timeout.connect", Written("5s")),
    ("localpeer", Described("the host name")),
    ("log-tag", Described("`haproxy`")),
    ("max-spread-checks", Described("no bound")),
    ("maxconn", Described("as many as the limit of open files allows")),
    ("maxconnrate", Written("0")),
    ("maxpipes", Described("a quarter of `maxconn` where a proxy splices, else none")),
    ("maxsessrate", Written("0")),
    ("maxsslconn", Written("0")),
    ("maxsslrate", Written("0")),
    ("mworker-max-reloads", Described("`50`")),
    ("nbthread", Described("one for each processor that the process may use")),
    ("node", Described("the host name")),
    ("ocsp-update.disable", Written("off")),
    ("ocsp-update.maxdelay", Described("`3600`")),
    ("ocsp-update.mindelay", Described("`300`")),
    ("ocsp-update.mode", Written("off")),
    ("profiling.memory", Written("off")),
    ("profiling.tasks", Written("auto")),
    ("spread-checks", Written("0")),
    ("ssl-default-bind-options", Described("TLS 1.2 and 1.3, with tickets")),
    ("ssl-default-server-options", Described("TLS 1.2 and 1.3")),
    ("ssl-load-extra-files", Described("`all`")),
    ("ssl-server-verify", Described("`required`")),
    ("stats maxconn", Written("10")),
    ("stats timeout", Written("10s")),
    ("strict-limits", Described("on")),
    ("tune.buffers.limit", Written("0")),
    ("tune.buffers.reserve", Written("4")),
    ("tune.bufsize", Written("16384")),
    ("tune.h2.be.glitches-threshold", Described("`0`, no bound")),
    ("tune.h2.be.initial-window-size", Described("that of `tune.h2.initial-window-size`")),
    ("tune.h2.be.max-concurrent-streams", Described("that of `tune.h2.max-concurrent-streams`")),
    ("tune.h2.be.max-frames-at-once", Described("`0`, no bound")),
    ("tune.h2.be.rxbuf", Described("100 buffers, or one for each concurrent stream if these are more")),
    ("tune.h2.fe.glitches-threshold", Described("`0`, no bound")),
    ("tune.h2.fe.initial-window-size", Described("that of `tune.h2.initial-window-size`")),
    ("tune.h2.fe.max-concurrent-streams", Described("that of `tune.h2.max-concurrent-streams`")),
    ("tune.h2.fe.max-frames-at-once", Described("`0`, no bound")),
    ("tune.h2.fe.max-rst-at-once", Described("`0`, no bound")),
    ("tune.h2.fe.max-total-streams", Described("`0`, no bound")),
    ("tune.h2.fe.rxbuf", Described("100 buffers, or one for each concurrent stream if these are more")),
    ("tune.h2.header-table-size", Described("`4096`")),
    ("tune.h2.initial-window-size", Described("`65535`")),
    ("tune.h2.log-errors", Described("`stream`")),
    ("tune.h2.max-concurrent-streams", Described("`100`")),
    ("tune.h2.max-frame-size", Described("that of `tune.bufsize`, which is also the most")),
    ("tune.h2.zero-copy-fwd-send", Described("`on`")),
    ("tune.http.cookielen", Written("63")),
    ("tune.http.logurilen", Written("1024")),
    ("tune.http.maxhdr", Written("101")),
    ("tune.idle-pool.shared", Written("on")),
    ("tune.listener.default-shards", Written("by-process")),
    ("tune.listener.multi-queue", Written("on")),
    ("tune.max-checks-per-thread", Written("0")),
    ("tune.maxaccept", Described("`4`")),
    ("tune.maxpollevents", Described("`200`")),
    ("tune.maxrewrite", Described("1024, and never more than half of `tune.bufsize`")),
    ("tune.memory.hot-size", Written("512k")),
    ("tune.notsent-lowat.client", Described("no bound")),
    ("tune.notsent-lowat.server", Described("no bound")),
    ("tune.pattern.cache-size", Written("10000")),
    ("tune.peers.max-updates-at-once", Described("`200`")),
    ("tune.pipesize", Described("the system's")),
    ("tune.pool-high-fd-ratio", Written("95")),
    ("tune.pool-low-fd-ratio", Written("100")),
    ("tune.rcvbuf.client", Described("the system's")),
    ("tune.rcvbuf.frontend", Described("the system's")),
    ("tune.rcvbuf.server", Described("the system's")),
    ("tune.regex.on-limit", Written("no-match")),
    ("tune.regex.request-time", Written("500ms")),
    ("tune.renice.runtime", Described("the priority that the process was started with")),
    ("tune.renice.startup", Described("the priority that the process was started with")),
    ("tune.ring.queues", Described("`6`")),
    ("tune.runqueue-depth", Described("`200`")),
    ("tune.sched.low-latency", Written("off")),
    ("tune.sndbuf.backend", Described("the system's")),
    ("tune.sndbuf.client", Described("the system's")),
    ("tune.sndbuf.server", Described("the system's")),
    ("tune.ssl.cachesize", Described("`20000`")),
    ("tune.ssl.capture-buffer-size", Described("`0`: nothing is captured")),
    ("tune.ssl.hard-maxrecord", Described("no bound but that of TLS, 16384 bytes")),
    ("tune.ssl.keylog", Described("`off`")),
    ("tune.ssl.lifetime", Described("`300`")),
    ("tune.ssl.maxrecord", Described("no bound but that of TLS, 16384 bytes")),
    ("tune.ssl.ocsp-update.maxdelay", Described("`3600`")),
    ("tune.ssl.ocsp-update.mindelay", Described("`300`")),
    ("tune.ssl.ssl-ctx-cache-size", Described("`1000`")),
    ("tune.stick-counters", Written("3")),
    ("tune.timeline.slow", Written("1s")),
    ("tune.vars.global-max-size", Described("no bound")),
    ("tune.vars.proc-max-size", Described("no bound")),
    ("tune.vars.reqres-max-size", Described("no bound")),
    ("tune.vars.sess-max-size", Described("no bound")),
    ("tune.vars.txn-max-size", Described("no bound")),
    ("ulimit-n", Described("what `maxconn`, listeners and checks need")),
    ("warn-blocked-traffic-after", Written("100ms")),
];

const PROXY: Rows = &[
    ("backlog", Described("the `maxconn` of the listener, or of the frontend")),
    ("balance", Written("random")),
    ("clitcpka-cnt", Described("the system's")),
    ("clitcpka-idle", Described("the system's")),
    ("clitcpka-intvl", Described("the system's")),
    ("default_backend", Described("none: in a `frontend`, a request that no `use_backend` takes gets 503")),
    ("description", Described("none")),
    ("email-alert level", Described("`alert`")),
    ("email-alert myhostname", Described("the host name")),
    ("error-log-format", Described("the format of the log of errors that came before a request")),
    ("fullconn", Described("a tenth of the `maxconn` of all frontends that may use the backend")),
    ("hash-balance-factor", Written("0")),
    ("hash-preserve-affinity", Written("always")),
    ("hash-type", Written("map-based sdbm")),
    ("http-check expect", Described("a status from 200 to 399")),
    ("http-check send", Described("what `option httpchk` says: `OPTIONS /` by HTTP/1.0")),
    ("http-reuse", Written("safe")),
    ("id", Described("the lowest number that is free")),
    ("load-server-state-from-file", Written("none")),
    ("log", Described("nothing is logged")),
    (
        "log-format",
        Described("that of `option httplog` or `option tcplog` where one is written, else one short line"),
    ),
    ("log-tag", Described("that of `global`")),
    ("max-keep-alive-queue", Written("-1")),
    ("maxconn", Described("that of the process")),
    ("mode", Written("tcp")),
    ("outlier-ejection", Written("off")),
    ("rate-limit sessions", Written("0")),
    ("retries", Written("3")),
    ("retry-on", Written("conn-failure")),
    ("server-state-file-name", Described("the name of the backend")),
    ("source", Described("the system chooses the address")),
    ("srvtcpka-cnt", Described("the system's")),
    ("srvtcpka-idle", Described("the system's")),
    ("srvtcpka-intvl", Described("the system's")),
    ("stats realm", Described("`HAProxy Statistics`")),
    ("stats refresh", Described("none: the page stays as it is")),
    ("stats scope", Described("every proxy")),
    ("stats uri", Described("`/haproxy?stats`")),
    ("tcp-request inspect-delay", Described("none: rules see what there is at once")),
    ("tcp-response inspect-delay", Described("none: rules see what there is at once")),
    (
        "timeout check",
        Described("none; `timeout connect` and the server's `inter` bound a check all the same"),
    ),
    ("timeout client", Described("none, with a warning")),
    ("timeout client-fin", Described("that of `timeout client`")),
    ("timeout client-hs", Described("that of `timeout client`")),
    ("timeout connect", Described("none, with a warning")),
    ("timeout http-keep-alive", Described("that of `timeout http-request`, else of `timeout client`")),
    ("timeout http-request", Described("that of `timeout client`")),
    ("timeout queue", Described("that of `timeout connect`")),
    ("timeout server", Described("none, with a warning")),
    ("timeout server-fin", Described("that of `timeout server`")),
    ("timeout tarpit", Described("that of `timeout connect`")),
    ("timeout tunnel", Described("those of `timeout client` and `timeout server`")),
    ("unique-id-header", Described("none: the identifier is not sent to servers")),
];

const BIND: Rows = &[
    ("alpn", Described("`h2,http/1.1` in HTTP mode with TLS, else none")),
    ("backlog", Described("that of the frontend")),
    ("ca-ignore-err", Described("none")),
    ("crt-ignore-err", Described("none")),
    ("id", Described("the lowest number that is free")),
    ("idle-ping", Described("none: idle clients are not pinged")),
    ("interface", Described("all")),
    ("level", Described("`operator`")),
    ("maxconn", Described("no limit of its own")),
    ("mode", Described("what the umask of the process leaves")),
    ("mss", Described("the system's")),
    ("name", Described("the address as it is written")),
    ("nice", Written("0")),
    ("proto", Described("what ALPN chose, else what the first bytes are")),
    ("severity-output", Written("none")),
    ("shards", Described("that of `tune.listener.default-shards`")),
    ("ssl-max-ver", Described("`TLSv1.3`")),
    ("ssl-min-ver", Described("`TLSv1.2`")),
    ("tcp-ut", Described("the system's")),
    ("thread", Described("all threads")),
    ("tls-ticket-keys", Described("random keys of the process")),
    ("verify", Described("`none`")),
];

const SERVER: Rows = &[
    ("addr", Described("the address of the server")),
    ("agent-addr", Described("the address that is checked")),
    ("agent-inter", Described("`2s`")),
    ("check-proto", Described("that of `proto`")),
    ("downinter", Described("that of `inter`")),
    ("error-limit", Written("10")),
    ("fall", Written("3")),
    ("fastinter", Described("that of `inter`")),
    ("hash-key", Written("id")),
    ("id", Described("the lowest number that is free")),
    ("idle-ping", Described("none: idle connections are not pinged")),
    ("init-addr", Described("`last,libc`")),
    ("init-state", Described("`up`")),
    ("inter", Written("2s")),
    ("log-bufsize", Described("that of `tune.bufsize`")),
    ("log-proto", Written("legacy")),
    ("max-reuse", Described("no bound")),
    ("maxconn", Written("0")),
    ("maxqueue", Written("0")),
    ("minconn", Written("0")),
    ("observe", Described("nothing is observed")),
    ("on-error", Written("fail-check")),
    ("on-marked-down", Described("sessions go on")),
    ("on-marked-up", Described("sessions of backup servers go on")),
    ("pool-low-conn", Written("0")),
    ("pool-max-conn", Described("no bound")),
    ("pool-purge-delay", Written("5s")),
    ("port", Described("the port of the server")),
    ("proto", Described("what ALPN chose, else HTTP/1.1")),
    ("resolve-prefer", Written("ipv6")),
    ("resolvers", Described("names are resolved at the start only")),
    ("rise", Written("2")),
    ("shard", Described("all keys")),
    ("slowstart", Written("0")),
    ("ssl-max-ver", Described("`TLSv1.3`")),
    ("ssl-min-ver", Described("`TLSv1.2`")),
    ("tcp-ut", Described("the system's")),
    ("verify", Described("that of `ssl-server-verify`, `required`")),
    ("weight", Written("1")),
    ("ws", Written("auto")),
];

const ACTION: Rows = &[
    ("auth", Described("the realm is the name of the proxy")),
    ("deny", Described("status 403 for a request, 502 for a response")),
    ("redirect", Described("code 302")),
    ("return", Described("status 200, without a body")),
    ("set-bandwidth-limit", Described("the limit and the period of the `filter` line")),
    ("strict-mode", Described("on")),
    ("tarpit", Described("status 500")),
    ("wait-for-body", Described("the whole body, or as much as a buffer holds")),
];

const FILTER: Rows =
    &[("bwlim-in", Described("`min-size` is 0")), ("bwlim-out", Described("`min-size` is 0"))];

const RING: Rows = &[
    ("description", Described("none")),
    ("format", Described("`raw`")),
    ("maxlen", Written("1024")),
    ("size", Written("16384")),
    ("timeout connect", Described("none")),
    ("timeout server", Described("none")),
];

const LOG_FORWARD: Rows = &[
    ("backlog", Described("that of `maxconn`")),
    ("maxconn", Written("10")),
    ("option host", Written("fill")),
    ("timeout client", Described("none, with a warning")),
];

const MAILERS: Rows = &[("timeout mail", Written("10s"))];

const PEERS: Rows = &[("shards", Described("every peer gets all keys"))];

const HEALTHCHECK: Rows = &[("type", Described("`tcp-check`: a connection that is accepted is enough"))];

const RESOLVERS: Rows = &[
    ("accepted_payload_size", Written("512")),
    ("hold", Described("`valid 10s`, `obsolete 0s`, and `30s` for the others")),
    ("resolve_retries", Written("3")),
    ("timeout", Described("`resolve 1s`, `retry 1s`")),
];

const CRT_STORE: Rows =
    &[("crt-base", Described("that of `global`")), ("key-base", Described("that of `global`"))];

const LOAD: Rows = &[
    ("alias", Described("the name of the file")),
    ("key", Described("the key in the certificate's file, or beside it")),
    ("ocsp-update", Described("that of `ocsp-update.mode`, `off`")),
];
