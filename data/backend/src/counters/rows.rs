//! The counters as rows: the counted events, and the position in a worker's block.

/// An enumeration of counters. Each worker has a block with all of them.
pub trait CounterSet: Copy + 'static {
    /// All counters, by position.
    const ALL: &'static [Self];

    /// The counter's position in a worker's block.
    fn position(self) -> usize;
}

macro_rules! counters {
    ($(#[$doc:meta])* $set:ident { $($variant:ident $help:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $set { $(#[doc = $help] $variant,)* }

        impl $set {
            /// The number of counters.
            pub const COUNT: usize = <Self as CounterSet>::ALL.len();
        }

        impl CounterSet for $set {
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            #[inline]
            fn position(self) -> usize {
                self as usize
            }
        }
    };
}

counters! {
    /// Counters of a frontend.
    FrontendCounter {
        Connections "Connections that clients opened."
        Sessions "Sessions that began."
        Requests "HTTP requests received."
        BytesIn "Bytes received from clients."
        BytesOut "Bytes sent to clients."
        RequestBytesOut "Bytes of requests passed on."
        ResponseBytesIn "Bytes of responses received."
        DeniedRequests "Requests that a rule refused."
        DeniedResponses "Responses that a rule refused."
        DeniedConnections "Connections that a rule refused."
        DeniedSessions "Sessions that a rule refused."
        BadRequests "Requests that were invalid, aborted or timed out."
        InternalErrors "Faults of the process itself."
        FailedRewrites "Header rewrites that found no room or failed."
        Intercepted "Requests answered by a rule or a service."
        Http1xx "Responses with status 100 to 199."
        Http2xx "Responses with status 200 to 299."
        Http3xx "Responses with status 300 to 399."
        Http4xx "Responses with status 400 to 499."
        Http5xx "Responses with status 500 to 599."
        HttpOther "Responses with any other status."
        CacheLookups "Requests looked up in a cache."
        CacheHits "Requests served from a cache."
        CompressedIn "Bytes of responses given to compression."
        CompressedOut "Bytes that compression made of them."
        CompressionBypassed "Bytes that bypassed compression for lack of CPU or bandwidth."
        CompressedResponses "Responses that were compressed."
        SessionsHttp1 "Sessions that spoke HTTP/1."
        SessionsHttp2 "Sessions that spoke HTTP/2."
        SessionsHttp3 "Sessions that spoke HTTP/3."
        SessionsOther "Sessions that spoke anything else."
        RequestsHttp1 "HTTP/1 requests."
        RequestsHttp2 "HTTP/2 requests."
        RequestsHttp3 "HTTP/3 requests."
        RequestsOther "Requests of any other protocol."
        SplicedIn "Bytes that came from HTTP/1 clients through the kernel only."
        SplicedOut "Bytes that went to HTTP/1 clients through the kernel only."
        Http2Headers "HEADERS frames that clients sent."
        Http2Data "DATA frames that clients sent."
        Http2Settings "SETTINGS frames that clients sent."
        Http2Resets "RST_STREAM frames that clients sent."
        Http2GoAways "GOAWAY frames that clients sent."
        Http2ConnectionErrors "Errors of clients that ended a connection of HTTP/2."
        Http2StreamErrors "Errors of clients that ended a stream of HTTP/2."
        Http2ResetsSent "RST_STREAM frames that answered errors of clients."
        Http2GoAwaysSent "GOAWAY frames that answered errors of clients."
        Http2Connections "Connections of HTTP/2 with clients."
        Http2Streams "Streams of HTTP/2 with clients."
        TlsSessions "Sessions of TLS with a key of their own."
        TlsResumed "Sessions of TLS that went on with an earlier one."
        TlsFailures "Handshakes of TLS that failed."
        StapledResponses "OCSP responses that were shown beside a certificate."
        EndedResponses "OCSP responses that were not shown since they had ended."
    }
}

counters! {
    /// Counters of a backend.
    BackendCounter {
        Sessions "Sessions that reached the backend."
        Requests "HTTP requests that reached the backend."
        BytesIn "Bytes received from clients."
        BytesOut "Bytes sent to clients."
        RequestBytesOut "Bytes of requests passed on."
        ResponseBytesIn "Bytes of responses received."
        DeniedRequests "Requests that a rule refused."
        DeniedResponses "Responses that a rule refused."
        FailedConnections "Connections to servers that could not be made."
        FailedResponses "Responses that were invalid or broken off."
        InternalErrors "Faults of the process itself."
        FailedRewrites "Header rewrites that found no room or failed."
        Retries "Attempts that were repeated: to connect to the same server, and to get an answer that can be passed on."
        Redispatches "Requests sent to another server after a failure."
        ClientAborts "Transfers that the client broke off."
        ServerAborts "Transfers that the server broke off."
        Balanced "Times that a server was chosen."
        Connects "Attempts to open a connection to a server."
        Reuses "Requests sent over a connection that was idle."
        Intercepted "Requests answered by a rule or a service."
        Http1xx "Responses with status 100 to 199."
        Http2xx "Responses with status 200 to 299."
        Http3xx "Responses with status 300 to 399."
        Http4xx "Responses with status 400 to 499."
        Http5xx "Responses with status 500 to 599."
        HttpOther "Responses with any other status."
        CacheLookups "Requests looked up in a cache."
        CacheHits "Requests served from a cache."
        CompressedIn "Bytes of responses given to compression."
        CompressedOut "Bytes that compression made of them."
        CompressionBypassed "Bytes that bypassed compression for lack of CPU or bandwidth."
        CompressedResponses "Responses that were compressed."
        SplicedIn "Bytes that came from HTTP/1 servers through the kernel only."
        SplicedOut "Bytes that went to HTTP/1 servers through the kernel only."
        Http2Headers "HEADERS frames that servers sent."
        Http2Data "DATA frames that servers sent."
        Http2Settings "SETTINGS frames that servers sent."
        Http2Resets "RST_STREAM frames that servers sent."
        Http2GoAways "GOAWAY frames that servers sent."
        Http2ConnectionErrors "Errors of servers that ended a connection of HTTP/2."
        Http2StreamErrors "Errors of servers that ended a stream of HTTP/2."
        Http2ResetsSent "RST_STREAM frames that answered errors of servers."
        Http2GoAwaysSent "GOAWAY frames that answered errors of servers."
        Http2Connections "Connections of HTTP/2 with servers."
        Http2Streams "Streams of HTTP/2 with servers."
        TlsSessions "Sessions of TLS with a key of their own."
        TlsResumed "Sessions of TLS that went on with an earlier one."
        TlsFailures "Handshakes of TLS that failed."
    }
}

counters! {
    /// Counters of a server.
    ServerCounter {
        Sessions "Sessions sent to the server."
        Requests "HTTP requests that the server answered."
        BytesIn "Bytes received from clients."
        BytesOut "Bytes sent to clients."
        RequestBytesOut "Bytes of requests passed on."
        ResponseBytesIn "Bytes of responses received."
        DeniedResponses "Responses that a rule refused."
        FailedConnections "Connections that could not be made."
        FailedResponses "Responses that were invalid or broken off."
        InternalErrors "Faults of the process itself."
        FailedRewrites "Header rewrites that found no room or failed."
        Retries "Attempts that were repeated: to connect to it, and to get an answer that can be passed on."
        Redispatches "Requests that went to another server after a failure."
        ClientAborts "Transfers that the client broke off."
        ServerAborts "Transfers that the server broke off."
        Balanced "Times that the server was chosen."
        Connects "Attempts to open a connection."
        Reuses "Requests sent over a connection that was idle."
        FailedChecks "Health checks that failed."
        Http1xx "Responses with status 100 to 199."
        Http2xx "Responses with status 200 to 299."
        Http3xx "Responses with status 300 to 399."
        Http4xx "Responses with status 400 to 499."
        Http5xx "Responses with status 500 to 599."
        HttpOther "Responses with any other status."
        TlsSessions "Sessions of TLS with a key of their own."
        TlsResumed "Sessions of TLS that went on with an earlier one."
        TlsFailures "Handshakes of TLS that failed."
    }
}

counters! {
    /// Counters of a listener (`option socket-stats`).
    ListenerCounter {
        Sessions "Sessions that began."
        BytesIn "Bytes received from clients."
        BytesOut "Bytes sent to clients."
        RequestBytesOut "Bytes of requests passed on."
        ResponseBytesIn "Bytes of responses received."
        DeniedRequests "Requests that a rule refused."
        DeniedResponses "Responses that a rule refused."
        DeniedConnections "Connections that a rule refused."
        DeniedSessions "Sessions that a rule refused."
        BadRequests "Requests that were invalid, aborted or timed out."
        InternalErrors "Faults of the process itself."
        FailedRewrites "Header rewrites that found no room or failed."
        TlsSessions "Sessions of TLS with a key of their own."
        TlsResumed "Sessions of TLS that went on with an earlier one."
        TlsFailures "Handshakes of TLS that failed."
        StapledResponses "OCSP responses that were shown beside a certificate."
        EndedResponses "OCSP responses that were not shown since they had ended."
    }
}

counters! {
    /// Counters of the process, in addition to those of its objects.
    ProcessCounter {
        LimitReached "Connections whose arrival brought the process to its limit."
        TlsSessions "Sessions of TLS that clients and the process agreed on."
        TlsResumed "Those of them that went on with an earlier one."
    }
}

macro_rules! by_status {
    ($($set:ident)*) => {$(
        impl $set {
            /// The counter of a response status. Values outside of 100 to 599 count as other.
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

/// The rates of a frontend. Other objects have only the session rate, at position 0.
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

/// The rates of the process in `show info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRate {
    /// Connections: `ConnRate`.
    Connections,
    /// Sessions: `SessRate`.
    Sessions,
    /// TLS connections of clients: `SslRate`.
    TlsConnections,
    /// Key exchanges with clients: `SslFrontendKeyRate`.
    TlsKeys,
    /// Key exchanges with servers: `SslBackendKeyRate`.
    TlsServerKeys,
    /// Bytes given to compression: `CompressBpsIn`.
    CompressedIn,
    /// Bytes that compression made of them: `CompressBpsOut`.
    CompressedOut,
}

impl ProcessRate {
    /// The number of counters.
    pub const COUNT: usize = Self::CompressedOut as usize + 1;
}

impl From<ProcessRate> for usize {
    fn from(rate: ProcessRate) -> Self {
        rate as Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counters_position_is_its_index_in_the_list() {
        #[track_caller]
        fn check<C: CounterSet>(count: usize) {
            assert!(C::ALL.iter().map(|counter| counter.position()).eq(0..count));
        }
        check::<FrontendCounter>(FrontendCounter::COUNT);
        check::<BackendCounter>(BackendCounter::COUNT);
        check::<ServerCounter>(ServerCounter::COUNT);
        check::<ListenerCounter>(ListenerCounter::COUNT);
        check::<ProcessCounter>(ProcessCounter::COUNT);
    }

    #[test]
    fn http_statuses_map_to_their_class_counters() {
        let expected = [
            (100, ServerCounter::Http1xx),
            (204, ServerCounter::Http2xx),
            (304, ServerCounter::Http3xx),
            (499, ServerCounter::Http4xx),
            (503, ServerCounter::Http5xx),
            (0, ServerCounter::HttpOther),
            (600, ServerCounter::HttpOther),
        ];
        for (status, counter) in expected {
            assert_eq!(ServerCounter::of_status(status), counter);
        }
    }
}
