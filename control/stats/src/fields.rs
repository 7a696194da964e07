//! Every field of a frontend, listener, server or backend, one row each: the dictionary of `show stat`.
//!
//! These are exact copies of HAProxy's names, order, tags and descriptions, because monitoring tools depend on them. A field's
//! index is its position below. [`StatsRow::begin`](crate::StatsRow::begin) sets fields that are always zero where they apply.
//! The source of a row sets only the others.

/// The kind of a row's object. The discriminant is the value of the `type` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatsObject {
    /// The client side of a proxy.
    Frontend = 0,
    /// The server side of a proxy.
    Backend = 1,
    Server = 2,
    Listener = 3,
}

impl StatsObject {
    /// The first letter of a line in typed output.
    pub fn letter(self) -> char {
        ['F', 'B', 'S', 'L'][self as usize]
    }

    /// The value of `objType` in JSON.
    pub fn word(self) -> &'static str {
        ["Frontend", "Backend", "Server", "Listener"][self as usize]
    }

    /// The bit for the `<type>` argument of `show stat`.
    pub fn mask(self) -> u32 {
        1 << self as u32
    }
}

const F: u32 = 1;
const B: u32 = 2;
const S: u32 = 4;
const L: u32 = 8;

/// The type of a value in typed output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `str`.
    Text,
    /// `u32`.
    U32,
    /// `s32`.
    S32,
    /// `u64`.
    U64,
}

/// The value of a field not set by the source of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldDefault {
    Set,
    /// Zero for all kinds with this field.
    Zero,
    /// Zero in `mode http`, otherwise empty.
    HttpZero,
    /// Zero for a frontend in any mode. Otherwise like [`FieldDefault::HttpZero`].
    FrontendZero,
}

impl FieldDefault {
    /// Whether the default is zero for an object of this kind and mode.
    pub fn is_zero(self, kind: StatsObject, http: bool) -> bool {
        match self {
            FieldDefault::Set => false,
            FieldDefault::Zero => true,
            FieldDefault::HttpZero => http,
            FieldDefault::FrontendZero => http || kind == StatsObject::Frontend,
        }
    }
}

/// The declaration of a field of `show stat`.
#[derive(Debug)]
pub struct FieldDecl {
    /// The name in the header line.
    pub name: &'static str,
    /// The kinds with this field, as a sum of [`StatsObject::mask`].
    pub applies: u32,
    /// Origin, nature, scope and persistence, one letter each (management manual, "Typed output format").
    pub tags: &'static str,
    /// The type in typed output.
    pub type_: Type,
    pub fill: FieldDefault,
    pub description: &'static str,
}

impl FieldDecl {
    /// The tags for a kind. A backend's `act` and `bck` count servers, so they are gauges. HAProxy tags its `rate_max` as a gauge, too.
    pub fn tags_on(&self, kind: StatsObject) -> &'static str {
        match (kind, self.name) {
            (StatsObject::Backend, "act" | "bck" | "rate_max") => "MGPV",
            _ => self.tags,
        }
    }
}

macro_rules! fields {
    ($($variant:ident: $name:literal, $applies:expr, $tags:literal, $type:ident, $fill:ident, $description:literal;)*) => {
        /// A field, by name. The discriminant is the field's index.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum StatsField {
            $(#[doc = $description] $variant,)*
        }

        /// All fields, by index.
        pub static FIELDS: &[FieldDecl] = &[
            $(FieldDecl {
                name: $name,
                applies: $applies,
                tags: $tags,
                type_: Type::$type,
                fill: FieldDefault::$fill,
                description: $description,
            },)*
        ];

        impl StatsField {
            /// All fields, by index.
            pub const ALL: &'static [StatsField] = &[$(StatsField::$variant,)*];
        }
    };
}

fields! {
    Pxname: "pxname", L|F|B|S, "KNSV", Text, Set, "Proxy name";
    Svname: "svname", L|F|B|S, "KNSV", Text, Set, "Server name";
    Qcur: "qcur", B|S, "MGPV", U32, Zero, "Number of current queued connections";
    Qmax: "qmax", B|S, "MMPV", U32, Zero, "Highest value of queued connections encountered since process started";
    Scur: "scur", L|F|B|S, "MGPV", U32, Zero, "Number of current sessions on the frontend, backend or server";
    Smax: "smax", L|F|B|S, "MMPV", U32, Zero, "Highest value of current sessions encountered since process started";
    Slim: "slim", L|F|B|S, "CLPV", U32, Set, "Frontend/listener/server's maxconn, backend's fullconn";
    Stot: "stot", L|F|B|S, "MCPP", U64, Zero, "Total number of sessions since process started";
    Bin: "bin", L|F|B|S, "MCPP", U64, Zero, "Total number of request bytes since process started";
    Bout: "bout", L|F|B|S, "MCPP", U64, Zero, "Total number of response bytes since process started";
    Dreq: "dreq", L|F|B, "MCPP", U64, Zero, "Total number of denied requests since process started";
    Dresp: "dresp", L|F|B|S, "MCPP", U64, Zero, "Total number of denied responses since process started";
    Ereq: "ereq", L|F, "MCPP", U64, Zero, "Total number of invalid requests since process started";
    Econ: "econ", B|S, "MCPP", U64, Zero, "Total number of failed connections to server since the worker process started";
    Eresp: "eresp", B|S, "MCPP", U64, Zero, "Total number of invalid responses since the worker process started";
    Wretr: "wretr", B|S, "MCPP", U64, Zero, "Total number of server connection retries since the worker process started";
    Wredis: "wredis", B|S, "MCPP", U64, Zero, "Total number of server redispatches due to connection failures since the worker process started";
    Status: "status", L|F|B|S, "SGPV", Text, Set, "Frontend/listen status: OPEN/WAITING/FULL/STOP; backend: UP/DOWN; server: last check status";
    Weight: "weight", B|S, "MaPV", U32, Set, "Server's effective weight, or sum of active servers' effective weights for a backend";
    Act: "act", B|S, "SGPV", U32, Set, "Total number of active UP servers with a non-zero weight";
    Bck: "bck", B|S, "SGPV", U32, Set, "Total number of backup UP servers with a non-zero weight";
    Chkfail: "chkfail", S, "MCPP", U64, Set, "Total number of failed individual health checks per server/backend, since the worker process started";
    Chkdown: "chkdown", B|S, "MCPP", U64, Set, "Total number of failed checks causing UP to DOWN server transitions, per server/backend, since the worker process started";
    Lastchg: "lastchg", B|S, "MAPP", U32, Set, "How long ago the last server state changed, in seconds";
    Downtime: "downtime", B|S, "MCPP", U32, Set, "Total time spent in DOWN state, for server or backend";
    Qlimit: "qlimit", S, "CGSV", U32, Set, "Limit on the number of connections in queue, for servers only (maxqueue argument)";
    Pid: "pid", L|F|B|S, "KGPV", U32, Set, "Relative worker process number (1)";
    Iid: "iid", L|F|B|S, "KGSV", U32, Set, "Frontend or Backend numeric identifier ('id' setting)";
    Sid: "sid", L|S, "KGSV", U32, Set, "Server numeric identifier ('id' setting)";
    Throttle: "throttle", S, "MaPV", U32, Set, "Throttling ratio applied to a server's maxconn and weight during the slowstart period (0 to 100%)";
    Lbtot: "lbtot", B|S, "MCPP", U64, Zero, "Total number of requests routed by load balancing since the worker process started (ignores queue pop and stickiness)";
    Tracked: "tracked", S, "CNSV", Text, Set, "Name of the other server this server tracks for its state";
    Type: "type", L|F|B|S, "CGSV", U32, Set, "Type of the object (Listener, Frontend, Backend, Server)";
    Rate: "rate", F|B|S, "MRPP", U32, Zero, "Total number of sessions processed by this object over the last second (sessions for listeners/frontends, requests for backends/servers)";
    RateLim: "rate_lim", F, "CLPV", U32, Zero, "Limit on the number of sessions accepted in a second (frontend only, 'rate-limit sessions' setting)";
    RateMax: "rate_max", F|B|S, "MMPV", U32, Zero, "Highest value of sessions per second observed since the worker process started";
    CheckStatus: "check_status", S, "MOPV", Text, Set, "Status report of the server's latest health check, prefixed with '*' if a check is currently in progress";
    CheckCode: "check_code", S, "MOPV", U32, Set, "Layer 5-7 status code of the server's latest health check, when its protocol has one";
    CheckDuration: "check_duration", S, "MDPV", U64, Set, "Total duration of the latest server health check, in milliseconds";
    Hrsp1xx: "hrsp_1xx", F|B|S, "MCPP", U64, HttpZero, "Total number of HTTP responses with status 100-199 returned by this object since the worker process started";
    Hrsp2xx: "hrsp_2xx", F|B|S, "MCPP", U64, HttpZero, "Total number of HTTP responses with status 200-299 returned by this object since the worker process started";
    Hrsp3xx: "hrsp_3xx", F|B|S, "MCPP", U64, HttpZero, "Total number of HTTP responses with status 300-399 returned by this object since the worker process started";
    Hrsp4xx: "hrsp_4xx", F|B|S, "MCPP", U64, HttpZero, "Total number of HTTP responses with status 400-499 returned by this object since the worker process started";
    Hrsp5xx: "hrsp_5xx", F|B|S, "MCPP", U64, HttpZero, "Total number of HTTP responses with status 500-599 returned by this object since the worker process started";
    HrspOther: "hrsp_other", F|B|S, "MCPP", U64, HttpZero, "Total number of HTTP responses with status <100, >599 returned by this object since the worker process started (error -1 included)";
    Hanafail: "hanafail", S, "MCPV", U64, Set, "Number of failed checks that the observation of the server's responses caused ('observe' setting)";
    ReqRate: "req_rate", F, "MRPP", U32, Zero, "Number of HTTP requests processed over the last second on this object";
    ReqRateMax: "req_rate_max", F, "MMPV", U32, Zero, "Highest value of http requests observed since the worker process started";
    ReqTot: "req_tot", F|B|S, "MCPP", U64, FrontendZero, "Total number of HTTP requests processed by this object since the worker process started";
    CliAbrt: "cli_abrt", B|S, "MCPP", U64, Zero, "Total number of requests or connections aborted by the client since the worker process started";
    SrvAbrt: "srv_abrt", B|S, "MCPP", U64, Zero, "Total number of requests or connections aborted by the server since the worker process started";
    CompIn: "comp_in", F|B, "MCPP", U64, Zero, "Total number of bytes submitted to the HTTP compressor for this object since the worker process started";
    CompOut: "comp_out", F|B, "MCPP", U64, Zero, "Total number of bytes emitted by the HTTP compressor for this object since the worker process started";
    CompByp: "comp_byp", F|B, "MCPP", U64, Zero, "Total number of bytes that bypassed HTTP compression for this object since the worker process started (CPU/memory/bandwidth limitation)";
    CompRsp: "comp_rsp", F|B, "MCPP", U64, Zero, "Total number of HTTP responses that were compressed for this object since the worker process started";
    Lastsess: "lastsess", B|S, "MAPP", S32, Set, "How long ago some traffic was seen on this object on this worker process, in seconds";
    LastChk: "last_chk", S, "MOPV", Text, Set, "Short description of the latest health check report for this server (see also check_desc)";
    LastAgt: "last_agt", S, "MOPV", Text, Set, "Short description of the latest agent check report for this server (see also agent_desc)";
    Qtime: "qtime", B|S, "MaPV", U32, Zero, "Time spent in the queue, in milliseconds, averaged over the 1024 last requests (backend/server)";
    Ctime: "ctime", B|S, "MaPV", U32, Zero, "Time spent waiting for a connection to complete, in milliseconds, averaged over the 1024 last requests (backend/server)";
    Rtime: "rtime", B|S, "MaPV", U32, Zero, "Time spent waiting for a server response, in milliseconds, averaged over the 1024 last requests (backend/server)";
    Ttime: "ttime", B|S, "MaPV", U32, Zero, "Total request+response time (request+queue+connect+response+processing), in milliseconds, averaged over the 1024 last requests (backend/server)";
    AgentStatus: "agent_status", S, "MOPV", Text, Set, "Status report of the server's latest agent check, prefixed with '*' if a check is currently in progress";
    AgentCode: "agent_code", S, "MOPV", U32, Set, "Status code of the server's latest agent check (unused)";
    AgentDuration: "agent_duration", S, "MDPV", U64, Set, "Total duration of the latest server agent check, in milliseconds";
    CheckDesc: "check_desc", S, "MOPV", Text, Set, "Textual description of the latest health check report for this server";
    AgentDesc: "agent_desc", S, "MOPV", Text, Set, "Textual description of the latest agent check report for this server";
    CheckRise: "check_rise", S, "CGSV", U32, Set, "Number of successful health checks before declaring a server UP (server 'rise' setting)";
    CheckFall: "check_fall", S, "CGSV", U32, Set, "Number of failed health checks before declaring a server DOWN (server 'fall' setting)";
    CheckHealth: "check_health", S, "CGSV", U32, Set, "Current server health check level (0..fall-1=DOWN, fall..rise-1=UP)";
    AgentRise: "agent_rise", S, "CGSV", U32, Set, "Number of successful agent checks before declaring a server UP (server 'rise' setting)";
    AgentFall: "agent_fall", S, "CGSV", U32, Set, "Number of failed agent checks before declaring a server DOWN (server 'fall' setting)";
    AgentHealth: "agent_health", S, "CGSV", U32, Set, "Current server agent check level (0..fall-1=DOWN, fall..rise-1=UP)";
    Addr: "addr", L|S, "CGSV", Text, Set, "Server's address:port, shown only if show-legends is set, or at levels oper/admin for the CLI";
    Cookie: "cookie", B|S, "CNSV", Text, Set, "Backend's cookie name or Server's cookie value, shown only if show-legends is set, or at levels oper/admin for the CLI";
    Mode: "mode", L|F|B|S, "CGSV", Text, Set, "'mode' setting (tcp/http/health/cli/spop)";
    Algo: "algo", B, "CGSV", Text, Set, "Backend's load balancing algorithm, shown only if show-legends is set, or at levels oper/admin for the CLI";
    ConnRate: "conn_rate", F, "MRPP", U32, Zero, "Number of new connections accepted over the last second on the frontend for this worker process";
    ConnRateMax: "conn_rate_max", F, "MMPV", U32, Zero, "Highest value of connections per second observed since the worker process started";
    ConnTot: "conn_tot", F, "MCPP", U64, Zero, "Total number of new connections accepted on this frontend since the worker process started";
    Intercepted: "intercepted", F, "MCPP", U64, HttpZero, "Total number of HTTP requests intercepted on the frontend (redirects/stats/services) since the worker process started";
    Dcon: "dcon", L|F, "MCPP", U64, Zero, "Total number of incoming connections blocked on a listener/frontend by a tcp-request connection rule since the worker process started";
    Dses: "dses", L|F, "MCPP", U64, Zero, "Total number of incoming sessions blocked on a listener/frontend by a tcp-request connection rule since the worker process started";
    Wrew: "wrew", L|F|B|S, "MCPP", U64, Zero, "Total number of failed HTTP header rewrites since the worker process started";
    Connect: "connect", B|S, "MCPP", U64, Zero, "Total number of outgoing connection attempts on this backend/server since the worker process started";
    Reuse: "reuse", B|S, "MCPP", U64, Zero, "Total number of reused connection on this backend/server since the worker process started";
    CacheLookups: "cache_lookups", F|B, "MCPP", U64, HttpZero, "Total number of HTTP requests looked up in the cache on this frontend/backend since the worker process started";
    CacheHits: "cache_hits", F|B, "MCPP", U64, HttpZero, "Total number of HTTP requests not found in the cache on this frontend/backend since the worker process started";
    SrvIcur: "srv_icur", S, "MGPV", U32, Zero, "Current number of idle connections available for reuse on this server";
    SrcIlim: "src_ilim", S, "CLPV", U32, Set, "Limit on the number of available idle connections on this server (server 'pool_max_conn' directive)";
    QtimeMax: "qtime_max", B|S, "MMPV", U32, Zero, "Maximum observed time spent in the queue, in milliseconds (backend/server)";
    CtimeMax: "ctime_max", B|S, "MMPV", U32, Zero, "Maximum observed time spent waiting for a connection to complete, in milliseconds (backend/server)";
    RtimeMax: "rtime_max", B|S, "MMPV", U32, Zero, "Maximum observed time spent waiting for a server response, in milliseconds (backend/server)";
    TtimeMax: "ttime_max", B|S, "MMPV", U32, Zero, "Maximum observed total request+response time (request+queue+connect+response+processing), in milliseconds (backend/server)";
    Eint: "eint", L|F|B|S, "MCPP", U64, Zero, "Total number of internal errors since process started";
    IdleConnCur: "idle_conn_cur", S, "MGPV", U32, Zero, "Current number of unsafe idle connections";
    SafeConnCur: "safe_conn_cur", S, "MGPV", U32, Zero, "Current number of safe idle connections";
    UsedConnCur: "used_conn_cur", S, "MGPV", U32, Zero, "Current number of connections in use";
    NeedConnEst: "need_conn_est", S, "MGPV", U32, Zero, "Estimated needed number of connections";
    Uweight: "uweight", B|S, "MaPV", U32, Set, "Server's user weight, or sum of active servers' user weights for a backend";
    AggServerStatus: "agg_server_status", B, "MGPV", U32, Zero, "Backend's aggregated gauge of servers' status";
    AggServerCheckStatus: "agg_server_check_status", B, "MGPV", U32, Zero, "Backend's aggregated gauge of servers' state check status";
    AggCheckStatus: "agg_check_status", B, "MGPV", U32, Zero, "Backend's aggregated gauge of servers' state check status";
    Srid: "srid", S, "MCPV", U32, Zero, "Server id revision, to prevent server id reuse mixups";
    SessOther: "sess_other", F, "MCPV", U64, Zero, "Total number of sessions other than HTTP since process started";
    H1sess: "h1sess", F, "MCPP", U64, Zero, "Total number of HTTP/1 sessions since process started";
    H2sess: "h2sess", F, "MCPP", U64, Zero, "Total number of HTTP/2 sessions since process started";
    H3sess: "h3sess", F, "MCPP", U64, Zero, "Total number of HTTP/3 sessions since process started";
    ReqOther: "req_other", F, "MCPP", U64, Zero, "Total number of sessions other than HTTP processed by this object since the worker process started";
    H1req: "h1req", F, "MCPP", U64, Zero, "Total number of HTTP/1 sessions processed by this object since the worker process started";
    H2req: "h2req", F, "MCPP", U64, Zero, "Total number of hTTP/2 sessions processed by this object since the worker process started";
    H3req: "h3req", F, "MCPP", U64, Zero, "Total number of HTTP/3 sessions processed by this object since the worker process started";
    Proto: "proto", L, "CNSV", Text, Set, "Protocol of the listener's address";
    PrivIdleCur: "priv_idle_cur", S, "MGPV", U32, Zero, "Current number of private idle connections";
    Reqbin: "reqbin", L|F|B|S, "MCPP", U64, Zero, "Total number of request bytes received since process started";
    Reqbout: "reqbout", L|F|B|S, "MCPP", U64, Zero, "Total number of request bytes sent since process started";
    Resbin: "resbin", L|F|B|S, "MCPP", U64, Zero, "Total number of response bytes received since process started";
    Resbout: "resbout", L|F|B|S, "MCPP", U64, Zero, "Total number of response bytes sent since process started";
    CacheHintHits: "cache_hint_hits", F|B, "MCPP", U64, HttpZero, "Total number of HTTP requests for which a 103 Early Hints response was emitted from the cache on this frontend/backend since the worker process started";
    // From here on: protocol counters, after the `-` column of the CSV.
    H2HeadersRcvd: "h2_headers_rcvd", F|B, "MCPV", U64, Zero, "Total number of received HEADERS frames";
    H2DataRcvd: "h2_data_rcvd", F|B, "MCPV", U64, Zero, "Total number of received DATA frames";
    H2SettingsRcvd: "h2_settings_rcvd", F|B, "MCPV", U64, Zero, "Total number of received SETTINGS frames";
    H2RstStreamRcvd: "h2_rst_stream_rcvd", F|B, "MCPV", U64, Zero, "Total number of received RST_STREAM frames";
    H2GoawayRcvd: "h2_goaway_rcvd", F|B, "MCPV", U64, Zero, "Total number of received GOAWAY frames";
    H2DetectedConnProtocolErrors: "h2_detected_conn_protocol_errors", F|B, "MCPV", U64, Zero, "Total number of connection protocol errors";
    H2DetectedStrmProtocolErrors: "h2_detected_strm_protocol_errors", F|B, "MCPV", U64, Zero, "Total number of stream protocol errors";
    H2RstStreamResp: "h2_rst_stream_resp", F|B, "MCPV", U64, Zero, "Total number of RST_STREAM sent on detected error";
    H2GoawayResp: "h2_goaway_resp", F|B, "MCPV", U64, Zero, "Total number of GOAWAY sent on detected error";
    H2OpenConnections: "h2_open_connections", F|B, "MGPV", U64, Zero, "Count of currently open connections";
    H2BackendOpenStreams: "h2_backend_open_streams", F|B, "MGPV", U64, Zero, "Count of currently open streams";
    H2TotalConnections: "h2_total_connections", F|B, "MCPV", U64, Zero, "Total number of connections";
    H2BackendTotalStreams: "h2_backend_total_streams", F|B, "MCPV", U64, Zero, "Total number of streams";
    SslSess: "ssl_sess", L|F|B|S, "MCPV", U64, Zero, "Total number of ssl sessions established";
    SslReusedSess: "ssl_reused_sess", L|F|B|S, "MCPV", U64, Zero, "Total number of ssl sessions reused";
    SslFailedHandshake: "ssl_failed_handshake", L|F|B|S, "MCPV", U64, Zero, "Total number of failed handshake";
    SslOcspStaple: "ssl_ocsp_staple", L|F|B|S, "MCPV", U64, Zero, "Total number of stapled OCSP responses";
    SslFailedOcspStaple: "ssl_failed_ocsp_staple", L|F|B|S, "MCPV", U64, Zero, "Total number of failed OCSP stapling (expired or error)";
    H3Data: "h3_data", F|B, "MCPV", U64, Zero, "Total number of DATA frames received";
    H3Headers: "h3_headers", F|B, "MCPV", U64, Zero, "Total number of HEADERS frames received";
    H3CancelPush: "h3_cancel_push", F|B, "MCPV", U64, Zero, "Total number of CANCEL_PUSH frames received";
    H3PushPromise: "h3_push_promise", F|B, "MCPV", U64, Zero, "Total number of PUSH_PROMISE frames received";
    H3MaxPushId: "h3_max_push_id", F|B, "MCPV", U64, Zero, "Total number of MAX_PUSH_ID frames received";
    H3Goaway: "h3_goaway", F|B, "MCPV", U64, Zero, "Total number of GOAWAY frames received";
    H3Settings: "h3_settings", F|B, "MCPV", U64, Zero, "Total number of SETTINGS frames received";
    H3NoError: "h3_no_error", F|B, "MCPV", U64, Zero, "Total number of H3_NO_ERROR errors received";
    H3GeneralProtocolError: "h3_general_protocol_error", F|B, "MCPV", U64, Zero, "Total number of H3_GENERAL_PROTOCOL_ERROR errors received";
    H3InternalError: "h3_internal_error", F|B, "MCPV", U64, Zero, "Total number of H3_INTERNAL_ERROR errors received";
    H3StreamCreationError: "h3_stream_creation_error", F|B, "MCPV", U64, Zero, "Total number of H3_STREAM_CREATION_ERROR errors received";
    H3ClosedCriticalStream: "h3_closed_critical_stream", F|B, "MCPV", U64, Zero, "Total number of H3_CLOSED_CRITICAL_STREAM errors received";
    H3FrameUnexpected: "h3_frame_unexpected", F|B, "MCPV", U64, Zero, "Total number of H3_FRAME_UNEXPECTED errors received";
    H3FrameError: "h3_frame_error", F|B, "MCPV", U64, Zero, "Total number of H3_FRAME_ERROR errors received";
    H3ExcessiveLoad: "h3_excessive_load", F|B, "MCPV", U64, Zero, "Total number of H3_EXCESSIVE_LOAD errors received";
    H3IdError: "h3_id_error", F|B, "MCPV", U64, Zero, "Total number of H3_ID_ERROR errors received";
    H3SettingsError: "h3_settings_error", F|B, "MCPV", U64, Zero, "Total number of H3_SETTINGS_ERROR errors received";
    H3MissingSettings: "h3_missing_settings", F|B, "MCPV", U64, Zero, "Total number of H3_MISSING_SETTINGS errors received";
    H3RequestRejected: "h3_request_rejected", F|B, "MCPV", U64, Zero, "Total number of H3_REQUEST_REJECTED errors received";
    H3RequestCancelled: "h3_request_cancelled", F|B, "MCPV", U64, Zero, "Total number of H3_REQUEST_CANCELLED errors received";
    H3RequestIncomplete: "h3_request_incomplete", F|B, "MCPV", U64, Zero, "Total number of H3_REQUEST_INCOMPLETE errors received";
    H3MessageError: "h3_message_error", F|B, "MCPV", U64, Zero, "Total number of H3_MESSAGE_ERROR errors received";
    H3ConnectError: "h3_connect_error", F|B, "MCPV", U64, Zero, "Total number of H3_CONNECT_ERROR errors received";
    H3VersionFallback: "h3_version_fallback", F|B, "MCPV", U64, Zero, "Total number of H3_VERSION_FALLBACK errors received";
    PackDecompressionFailed: "pack_decompression_failed", F|B, "MCPV", U64, Zero, "Total number of QPACK_DECOMPRESSION_FAILED errors received";
    QpackEncoderStreamError: "qpack_encoder_stream_error", F|B, "MCPV", U64, Zero, "Total number of QPACK_ENCODER_STREAM_ERROR errors received";
    QpackDecoderStreamError: "qpack_decoder_stream_error", F|B, "MCPV", U64, Zero, "Total number of QPACK_DECODER_STREAM_ERROR errors received";
    QuicRxbufFull: "quic_rxbuf_full", F|B, "MCPV", U64, Zero, "Total number of cancelled reception due to full receiver buffer";
    QuicDroppedPkt: "quic_dropped_pkt", F|B, "MCPV", U64, Zero, "Total number of dropped packets";
    QuicDroppedPktBufoverrun: "quic_dropped_pkt_bufoverrun", F|B, "MCPV", U64, Zero, "Total number of dropped packets because of buffer overrun";
    QuicDroppedParsingPkt: "quic_dropped_parsing_pkt", F|B, "MCPV", U64, Zero, "Total number of dropped packets upon parsing error";
    QuicSocketFull: "quic_socket_full", F|B, "MCPV", U64, Zero, "Total number of EAGAIN error on sendto() calls";
    QuicSendtoErr: "quic_sendto_err", F|B, "MCPV", U64, Zero, "Total number of error on sendto() calls, EAGAIN excepted";
    QuicSendtoErrUnknwn: "quic_sendto_err_unknwn", F|B, "MCPV", U64, Zero, "Total number of error on sendto() calls not explicitly listed";
    QuicSentPkt: "quic_sent_pkt", F|B, "MCPV", U64, Zero, "Total number of sent packets";
    QuicLostPkt: "quic_lost_pkt", F|B, "MCPV", U64, Zero, "Total number of lost sent packets";
    QuicTooShortDgram: "quic_too_short_dgram", F|B, "MCPV", U64, Zero, "Total number of too short dgrams with Initial packets";
    QuicRetrySent: "quic_retry_sent", F|B, "MCPV", U64, Zero, "Total number of Retry sent";
    QuicRetryValidated: "quic_retry_validated", F|B, "MCPV", U64, Zero, "Total number of validated Retry tokens";
    QuicRetryError: "quic_retry_error", F|B, "MCPV", U64, Zero, "Total number of Retry tokens errors";
    QuicHalfOpenConn: "quic_half_open_conn", F|B, "MGPV", U64, Zero, "Total number of half open connections";
    QuicHdshkFail: "quic_hdshk_fail", F|B, "MCPV", U64, Zero, "Total number of handshake failures";
    QuicStlessRstSent: "quic_stless_rst_sent", F|B, "MCPV", U64, Zero, "Total number of stateless reset packet sent";
    QuicConnMigrationDone: "quic_conn_migration_done", F|B, "MCPV", U64, Zero, "Total number of connection migration proceeded";
    QuicTranspErrNoError: "quic_transp_err_no_error", F|B, "MCPV", U64, Zero, "Total number of NO_ERROR errors received";
    QuicTranspErrInternalError: "quic_transp_err_internal_error", F|B, "MCPV", U64, Zero, "Total number of INTERNAL_ERROR errors received";
    QuicTranspErrConnectionRefused: "quic_transp_err_connection_refused", F|B, "MCPV", U64, Zero, "Total number of CONNECTION_REFUSED errors received";
    QuicTranspErrFlowControlError: "quic_transp_err_flow_control_error", F|B, "MCPV", U64, Zero, "Total number of FLOW_CONTROL_ERROR errors received";
    QuicTranspErrStreamLimitError: "quic_transp_err_stream_limit_error", F|B, "MCPV", U64, Zero, "Total number of STREAM_LIMIT_ERROR errors received";
    QuicTranspErrStreamStateError: "quic_transp_err_stream_state_error", F|B, "MCPV", U64, Zero, "Total number of STREAM_STATE_ERROR errors received";
    QuicTranspErrFinalSizeError: "quic_transp_err_final_size_error", F|B, "MCPV", U64, Zero, "Total number of FINAL_SIZE_ERROR errors received";
    QuicTranspErrFrameEncodingError: "quic_transp_err_frame_encoding_error", F|B, "MCPV", U64, Zero, "Total number of FRAME_ENCODING_ERROR errors received";
    QuicTranspErrTransportParameterError: "quic_transp_err_transport_parameter_error", F|B, "MCPV", U64, Zero, "Total number of TRANSPORT_PARAMETER_ERROR errors received";
    QuicTranspErrConnectionIdLimit: "quic_transp_err_connection_id_limit", F|B, "MCPV", U64, Zero, "Total number of CONNECTION_ID_LIMIT_ERROR errors received";
    QuicTranspErrProtocolViolationError: "quic_transp_err_protocol_violation_error", F|B, "MCPV", U64, Zero, "Total number of PROTOCOL_VIOLATION errors received";
    QuicTranspErrInvalidToken: "quic_transp_err_invalid_token", F|B, "MCPV", U64, Zero, "Total number of INVALID_TOKEN errors received";
    QuicTranspErrApplicationError: "quic_transp_err_application_error", F|B, "MCPV", U64, Zero, "Total number of APPLICATION_ERROR errors received";
    QuicTranspErrCryptoBufferExceeded: "quic_transp_err_crypto_buffer_exceeded", F|B, "MCPV", U64, Zero, "Total number of CRYPTO_BUFFER_EXCEEDED errors received";
    QuicTranspErrKeyUpdateError: "quic_transp_err_key_update_error", F|B, "MCPV", U64, Zero, "Total number of KEY_UPDATE_ERROR errors received";
    QuicTranspErrAeadLimitReached: "quic_transp_err_aead_limit_reached", F|B, "MCPV", U64, Zero, "Total number of AEAD_LIMIT_REACHED errors received";
    QuicTranspErrNoViablePath: "quic_transp_err_no_viable_path", F|B, "MCPV", U64, Zero, "Total number of NO_VIABLE_PATH errors received";
    QuicTranspErrCryptoError: "quic_transp_err_crypto_error", F|B, "MCPV", U64, Zero, "Total number of CRYPTO_ERROR errors received";
    QuicTranspErrUnknownError: "quic_transp_err_unknown_error", F|B, "MCPV", U64, Zero, "Total number of UNKNOWN_ERROR errors received";
    QuicDataBlocked: "quic_data_blocked", F|B, "MCPV", U64, Zero, "Total number of received DATA_BLOCKED frames";
    QuicStreamDataBlocked: "quic_stream_data_blocked", F|B, "MCPV", U64, Zero, "Total number of received STREAM_DATA_BLOCKED frames";
    QuicStreamsBlockedBidi: "quic_streams_blocked_bidi", F|B, "MCPV", U64, Zero, "Total number of received STREAMS_BLOCKED_BIDI frames";
    QuicStreamsBlockedUni: "quic_streams_blocked_uni", F|B, "MCPV", U64, Zero, "Total number of received STREAMS_BLOCKED_UNI frames";
    QuicNcbufGapLimit: "quic_ncbuf_gap_limit", F|B, "MCPV", U64, Zero, "Total number of failures to add to ncbuf because of gap size limit";
    H1OpenConnections: "h1_open_connections", F|B, "MGPV", U64, Zero, "Count of currently open connections";
    H1OpenStreams: "h1_open_streams", F|B, "MGPV", U64, Zero, "Count of currently open streams";
    H1TotalConnections: "h1_total_connections", F|B, "MCPV", U64, Zero, "Total number of connections";
    H1TotalStreams: "h1_total_streams", F|B, "MCPV", U64, Zero, "Total number of streams";
    H1BytesIn: "h1_bytes_in", F|B, "MCPV", U64, Zero, "Total number of bytes received";
    H1BytesOut: "h1_bytes_out", F|B, "MCPV", U64, Zero, "Total number of bytes send";
    H1SplicedBytesIn: "h1_spliced_bytes_in", F|B, "MCPV", U64, Zero, "Total number of bytes received using kernel splicing";
    H1SplicedBytesOut: "h1_spliced_bytes_out", F|B, "MCPV", U64, Zero, "Total number of bytes sendusing kernel splicing";
    Ejections: "ejections", B|S, "MCPV", U64, Set, "Total number of ejections by 'outlier-ejection' since the worker process started";
}

/// The number of fields.
pub const FIELD_COUNT: usize = StatsField::ALL.len();

/// The first protocol counter. In CSV a column named `-` precedes it.
pub const FIRST_EXTRA: usize = StatsField::H2HeadersRcvd as usize;

impl StatsField {
    /// The field's declaration.
    pub fn decl(self) -> &'static FieldDecl {
        &FIELDS[self as usize]
    }

    /// Whether objects of this kind have the field.
    pub fn applies_to(self, kind: StatsObject) -> bool {
        self.decl().applies & kind.mask() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statistics_field_has_tags_and_a_description() {
        for row in FIELDS {
            assert_eq!(row.tags.len(), 4, "{}", row.name);
            assert!(!row.description.is_empty() && row.applies != 0, "{}", row.name);
            assert!(row.fill == FieldDefault::Set || row.type_ != Type::Text, "{}", row.name);
        }
    }

    #[test]
    fn fields_keep_haproxys_csv_positions() {
        for (field, position) in [
            (StatsField::Type, 32),
            (StatsField::Addr, 73),
            (StatsField::Uweight, 99),
            (StatsField::CacheHintHits, 118),
            (StatsField::SslSess, 132),
        ] {
            assert_eq!(field as usize, position);
        }
        assert_eq!(FIRST_EXTRA, 119);
    }
}
