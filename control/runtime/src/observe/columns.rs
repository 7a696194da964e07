//! Which counter is which column of `show stat`.
//!
//! Each kind of object has a table. A counter that is not in it does not compile, so none is counted and never shown.

use weir_backend::{BackendCounter, CounterSet, FrontendCounter, ListenerCounter, ServerCounter};
use weir_stats::Field;

/// Counters that are columns.
pub(super) trait Column: CounterSet {
    /// Its column.
    fn column(self) -> Field;
}

macro_rules! columns {
    ($($counters:ident { $($counter:ident $field:ident,)* })*) => {$(
        impl Column for $counters {
            fn column(self) -> Field {
                match self {
                    $(Self::$counter => Field::$field,)*
                }
            }
        }
    )*};
}

columns! {
    FrontendCounter {
        Connections ConnTot,
        Sessions Stot,
        Requests ReqTot,
        BytesIn Bin,
        BytesOut Bout,
        RequestBytesOut Reqbout,
        ResponseBytesIn Resbin,
        DeniedRequests Dreq,
        DeniedResponses Dresp,
        DeniedConnections Dcon,
        DeniedSessions Dses,
        BadRequests Ereq,
        InternalErrors Eint,
        FailedRewrites Wrew,
        Intercepted Intercepted,
        Http1xx Hrsp1xx,
        Http2xx Hrsp2xx,
        Http3xx Hrsp3xx,
        Http4xx Hrsp4xx,
        Http5xx Hrsp5xx,
        HttpOther HrspOther,
        CacheLookups CacheLookups,
        CacheHits CacheHits,
        CompressedIn CompIn,
        CompressedOut CompOut,
        CompressionBypassed CompByp,
        CompressedResponses CompRsp,
        SessionsHttp1 H1sess,
        SessionsHttp2 H2sess,
        SessionsHttp3 H3sess,
        SessionsOther SessOther,
        RequestsHttp1 H1req,
        RequestsHttp2 H2req,
        RequestsHttp3 H3req,
        RequestsOther ReqOther,
        SplicedIn H1SplicedBytesIn,
        SplicedOut H1SplicedBytesOut,
    }
    BackendCounter {
        Sessions Stot,
        Requests ReqTot,
        BytesIn Bin,
        BytesOut Bout,
        RequestBytesOut Reqbout,
        ResponseBytesIn Resbin,
        DeniedRequests Dreq,
        DeniedResponses Dresp,
        FailedConnections Econ,
        FailedResponses Eresp,
        InternalErrors Eint,
        FailedRewrites Wrew,
        Retries Wretr,
        Redispatches Wredis,
        ClientAborts CliAbrt,
        ServerAborts SrvAbrt,
        Balanced Lbtot,
        Connects Connect,
        Reuses Reuse,
        Intercepted Intercepted,
        Http1xx Hrsp1xx,
        Http2xx Hrsp2xx,
        Http3xx Hrsp3xx,
        Http4xx Hrsp4xx,
        Http5xx Hrsp5xx,
        HttpOther HrspOther,
        CacheLookups CacheLookups,
        CacheHits CacheHits,
        CompressedIn CompIn,
        CompressedOut CompOut,
        CompressionBypassed CompByp,
        CompressedResponses CompRsp,
        SplicedIn H1SplicedBytesIn,
        SplicedOut H1SplicedBytesOut,
    }
    ServerCounter {
        Sessions Stot,
        Requests ReqTot,
        BytesIn Bin,
        BytesOut Bout,
        RequestBytesOut Reqbout,
        ResponseBytesIn Resbin,
        DeniedResponses Dresp,
        FailedConnections Econ,
        FailedResponses Eresp,
        InternalErrors Eint,
        FailedRewrites Wrew,
        Retries Wretr,
        Redispatches Wredis,
        ClientAborts CliAbrt,
        ServerAborts SrvAbrt,
        Balanced Lbtot,
        Connects Connect,
        Reuses Reuse,
        FailedChecks Chkfail,
        Http1xx Hrsp1xx,
        Http2xx Hrsp2xx,
        Http3xx Hrsp3xx,
        Http4xx Hrsp4xx,
        Http5xx Hrsp5xx,
        HttpOther HrspOther,
    }
    ListenerCounter {
        Sessions Stot,
        BytesIn Bin,
        BytesOut Bout,
        RequestBytesOut Reqbout,
        ResponseBytesIn Resbin,
        DeniedRequests Dreq,
        DeniedResponses Dresp,
        DeniedConnections Dcon,
        DeniedSessions Dses,
        BadRequests Ereq,
        InternalErrors Eint,
        FailedRewrites Wrew,
    }
}
