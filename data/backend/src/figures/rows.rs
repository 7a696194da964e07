//! The counters as rows: their statistics name, what they count, and their place in a worker's block.

/// One counter of a kind of object.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// The name of the statistics field.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
}

/// An enumeration of counters.
pub trait CounterSet: Copy + 'static {
    /// All rows, by position.
    const ROWS: &'static [CounterRow];

    /// Its position among the rows.
    fn position(self) -> usize;

    /// The counter of a statistics field.
    fn by_name(name: &str) -> Option<Self>;
}

macro_rules! counters {
    ($(#[$doc:meta])* $set:ident { $($variant:ident $name:literal $help:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $set { $(#[doc = $help] $variant,)* }

        impl $set {
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        impl CounterSet for $set {
            const ROWS: &'static [CounterRow] = &[$(CounterRow { name: $name, help: $help },)*];

            #[inline]
            fn position(self) -> usize {
                self as usize
            }

            fn by_name(name: &str) -> Option<Self> {
                let position = Self::ROWS.iter().position(|row| row.name == name)?;
                Self::ALL.get(position).copied()
            }
        }
    };
}

counters! {
    /// What a frontend counts.
    FrontendCounter {
        Connections "conn_tot" "Connections that clients opened."
        Sessions "stot" "Sessions that began."
        Requests "req_tot" "HTTP requests received."
        BytesIn "bin" "Bytes received from clients."
        BytesOut "bout" "Bytes sent to clients."
        RequestBytesOut "reqbout" "Bytes of requests passed on."
        ResponseBytesIn "resbin" "Bytes of responses received."
        DeniedRequests "dreq" "Requests that a rule refused."
        DeniedResponses "dresp" "Responses that a rule refused."
        DeniedConnections "dcon" "Connections that a rule refused."
        DeniedSessions "dses" "Sessions that a rule refused."
        BadRequests "ereq" "Requests that were invalid, aborted or timed out."
        InternalErrors "eint" "Faults of the process itself."
        FailedRewrites "wrew" "Header rewrites that found no room or failed."
        Intercepted "intercepted" "Requests answered by a rule or a service."
        Http1xx "hrsp_1xx" "Responses with status 100 to 199."
        Http2xx "hrsp_2xx" "Responses with status 200 to 299."
        Http3xx "hrsp_3xx" "Responses with status 300 to 399."
        Http4xx "hrsp_4xx" "Responses with status 400 to 499."
        Http5xx "hrsp_5xx" "Responses with status 500 to 599."
        HttpOther "hrsp_other" "Responses with any other status."
        CacheLookups "cache_lookups" "Requests looked up in a cache."
        CacheHits "cache_hits" "Requests served from a cache."
        CompressedIn "comp_in" "Bytes of responses given to compression."
        CompressedOut "comp_out" "Bytes that compression made of them."
        CompressionBypassed "comp_byp" "Bytes that bypassed compression for lack of CPU or bandwidth."
        CompressedResponses "comp_rsp" "Responses that were compressed."
        SessionsHttp1 "h1sess" "Sessions that spoke HTTP/1."
        SessionsHttp2 "h2sess" "Sessions that spoke HTTP/2."
        SessionsHttp3 "h3sess" "Sessions that spoke HTTP/3."
        SessionsOther "sess_other" "Sessions that spoke anything else."
        RequestsHttp1 "h1req" "HTTP/1 requests."
        RequestsHttp2 "h2req" "HTTP/2 requests."
        RequestsHttp3 "h3req" "HTTP/3 requests."
        RequestsOther "req_other" "Requests of any other protocol."
        SplicedIn "h1_spliced_bytes_in" "Bytes that came from HTTP/1 clients through the kernel only."
        SplicedOut "h1_spliced_bytes_out" "Bytes that went to HTTP/1 clients through the kernel only."
    }
}

counters! {
    /// What a backend counts.
    BackendCounter {
        Sessions "stot" "Sessions that reached the backend."
        Requests "req_tot" "HTTP requests that reached the backend."
        BytesIn "bin" "Bytes received from clients."
        BytesOut "bout" "Bytes sent to clients."
        RequestBytesOut "reqbout" "Bytes of requests passed on."
        ResponseBytesIn "resbin" "Bytes of responses received."
        DeniedRequests "dreq" "Requests that a rule refused."
        DeniedResponses "dresp" "Responses that a rule refused."
        FailedConnections "econ" "Connections to servers that could not be made."
        FailedResponses "eresp" "Responses that were invalid or broken off."
        InternalErrors "eint" "Faults of the process itself."
        FailedRewrites "wrew" "Header rewrites that found no room or failed."
        Retries "wretr" "Attempts to connect again to the same server."
        Redispatches "wredis" "Requests sent to another server after a failure."
        ClientAborts "cli_abrt" "Transfers that the client broke off."
        ServerAborts "srv_abrt" "Transfers that the server broke off."
        Balanced "lbtot" "Times that a server was chosen."
        Connects "connect" "Attempts to open a connection to a server."
        Reuses "reuse" "Requests sent over a connection that was idle."
        Intercepted "intercepted" "Requests answered by a rule or a service."
        Http1xx "hrsp_1xx" "Responses with status 100 to 199."
        Http2xx "hrsp_2xx" "Responses with status 200 to 299."
        Http3xx "hrsp_3xx" "Responses with status 300 to 399."
        Http4xx "hrsp_4xx" "Responses with status 400 to 499."
        Http5xx "hrsp_5xx" "Responses with status 500 to 599."
        HttpOther "hrsp_other" "Responses with any other status."
        CacheLookups "cache_lookups" "Requests looked up in a cache."
        CacheHits "cache_hits" "Requests served from a cache."
        CompressedIn "comp_in" "Bytes of responses given to compression."
        CompressedOut "comp_out" "Bytes that compression made of them."
        CompressionBypassed "comp_byp" "Bytes that bypassed compression for lack of CPU or bandwidth."
        CompressedResponses "comp_rsp" "Responses that were compressed."
        SplicedIn "h1_spliced_bytes_in" "Bytes that came from HTTP/1 servers through the kernel only."
        SplicedOut "h1_spliced_bytes_out" "Bytes that went to HTTP/1 servers through the kernel only."
    }
}

counters! {
    /// What a server counts.
    ServerCounter {
        Sessions "stot" "Sessions sent to the server."
        Requests "req_tot" "HTTP requests sent to the server."
        BytesIn "bin" "Bytes received from clients."
        BytesOut "bout" "Bytes sent to clients."
        RequestBytesOut "reqbout" "Bytes of requests passed on."
        ResponseBytesIn "resbin" "Bytes of responses received."
        DeniedResponses "dresp" "Responses that a rule refused."
        FailedConnections "econ" "Connections that could not be made."
        FailedResponses "eresp" "Responses that were invalid or broken off."
        InternalErrors "eint" "Faults of the process itself."
        FailedRewrites "wrew" "Header rewrites that found no room or failed."
        Retries "wretr" "Attempts to connect again."
        Redispatches "wredis" "Requests that went to another server after a failure."
        ClientAborts "cli_abrt" "Transfers that the client broke off."
        ServerAborts "srv_abrt" "Transfers that the server broke off."
        Balanced "lbtot" "Times that the server was chosen."
        Connects "connect" "Attempts to open a connection."
        Reuses "reuse" "Requests sent over a connection that was idle."
        FailedChecks "chkfail" "Health checks that failed."
        Http1xx "hrsp_1xx" "Responses with status 100 to 199."
        Http2xx "hrsp_2xx" "Responses with status 200 to 299."
        Http3xx "hrsp_3xx" "Responses with status 300 to 399."
        Http4xx "hrsp_4xx" "Responses with status 400 to 499."
        Http5xx "hrsp_5xx" "Responses with status 500 to 599."
        HttpOther "hrsp_other" "Responses with any other status."
    }
}

counters! {
    /// What a listener counts (`option socket-stats`).
    ListenerCounter {
        Sessions "stot" "Sessions that began."
        BytesIn "bin" "Bytes received from clients."
        BytesOut "bout" "Bytes sent to clients."
        RequestBytesOut "reqbout" "Bytes of requests passed on."
        ResponseBytesIn "resbin" "Bytes of responses received."
        DeniedRequests "dreq" "Requests that a rule refused."
        DeniedResponses "dresp" "Responses that a rule refused."
        DeniedConnections "dcon" "Connections that a rule refused."
        DeniedSessions "dses" "Sessions that a rule refused."
        BadRequests "ereq" "Requests that were invalid, aborted or timed out."
        InternalErrors "eint" "Faults of the process itself."
        FailedRewrites "wrew" "Header rewrites that found no room or failed."
    }
}

counters! {
    /// What the process counts beside what its objects do.
    ProcessCounter {
        LimitReached "MaxconnReached" "Connections whose arrival brought the process to its limit."
    }
}

macro_rules! by_status {
    ($($set:ident)*) => {$(
        impl $set {
            /// The counter of a response status; 0 and what is above 599 count as other.
            #[must_use]
            pub fn of_status(status: u16) -> Self {
                match status / 100 {
                    1 => Self::Http1xx,
                    2 => Self::Http2xx,
                    3 => Self::Http3xx,
                    4 => Self::Http4xx,
                    5 => Self::Http5xx,
                    _ => Self::HttpOther,
                }
            }
        }
    )*};
}

by_status!(FrontendCounter BackendCounter ServerCounter);

/// The rates of a frontend. Everything else has one rate, of sessions, at position 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendRate {
    /// Sessions: `rate`.
    Sessions,
    /// Requests: `req_rate`.
    Requests,
    /// Connections: `conn_rate`.
    Connections,
}

impl From<FrontendRate> for usize {
    fn from(rate: FrontendRate) -> Self {
        rate as Self
    }
}

/// The rates of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRate {
    /// Connections: `ConnRate`.
    Connections,
    /// Sessions: `SessRate`.
    Sessions,
}

impl From<ProcessRate> for usize {
    fn from(rate: ProcessRate) -> Self {
        rate as Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_found() {
        #[track_caller]
        fn check<C: CounterSet>() {
            let names: HashSet<_> = C::ROWS.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), C::ROWS.len());
            for (position, row) in C::ROWS.iter().enumerate() {
                assert_eq!(C::by_name(row.name).map(C::position), Some(position));
            }
            assert!(C::by_name("nonsense").is_none());
        }
        check::<FrontendCounter>();
        check::<BackendCounter>();
        check::<ServerCounter>();
        check::<ListenerCounter>();
        check::<ProcessCounter>();
    }

    #[test]
    fn statuses_have_their_counter() {
        let expected = [
            (100, "hrsp_1xx"),
            (204, "hrsp_2xx"),
            (304, "hrsp_3xx"),
            (499, "hrsp_4xx"),
            (503, "hrsp_5xx"),
            (0, "hrsp_other"),
            (600, "hrsp_other"),
        ];
        for (status, name) in expected {
            assert_eq!(ServerCounter::ROWS[ServerCounter::of_status(status).position()].name, name);
        }
    }
}
