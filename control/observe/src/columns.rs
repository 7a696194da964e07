//! Maps counters to the columns of `show stat`.
//!
//! Each kind of object has a table. A counter without a column is a compile error, so every counter is shown.

use weir_backend::{BackendCounter, CounterSet, FrontendCounter, ListenerCounter, ServerCounter};
use weir_stats::StatsField;

/// A set of counters with their columns.
pub(super) trait ColumnCounters: CounterSet {
    /// The counter's column.
    fn column(self) -> StatsField;

    /// The counter in a column. `None` if the column is not a counter.
    fn of(field: StatsField) -> Option<Self>;
}

macro_rules! columns {
    ($($counters:ident { $($counter:ident $field:ident,)* })*) => {$(
        impl ColumnCounters for $counters {
            fn column(self) -> StatsField {
                match self {
                    $(Self::$counter => StatsField::$field,)*
                }
            }

            fn of(field: StatsField) -> Option<Self> {
                match field {
                    $(StatsField::$field => Some(Self::$counter),)*
                    _ => None,
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
        Http2Headers H2HeadersRcvd,
        Http2Data H2DataRcvd,
        Http2Settings H2SettingsRcvd,
        Http2Resets H2RstStreamRcvd,
        Http2GoAways H2GoawayRcvd,
        Http2ConnectionErrors H2DetectedConnProtocolErrors,
        Http2StreamErrors H2DetectedStrmProtocolErrors,
        Http2ResetsSent H2RstStreamResp,
        Http2GoAwaysSent H2GoawayResp,
        Http2Connections H2TotalConnections,
        Http2Streams H2BackendTotalStreams,
        TlsSessions SslSess,
        TlsResumed SslReusedSess,
        TlsFailures SslFailedHandshake,
        StapledResponses SslOcspStaple,
        EndedResponses SslFailedOcspStaple,
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
        Http2Headers H2HeadersRcvd,
        Http2Data H2DataRcvd,
        Http2Settings H2SettingsRcvd,
        Http2Resets H2RstStreamRcvd,
        Http2GoAways H2GoawayRcvd,
        Http2ConnectionErrors H2DetectedConnProtocolErrors,
        Http2StreamErrors H2DetectedStrmProtocolErrors,
        Http2ResetsSent H2RstStreamResp,
        Http2GoAwaysSent H2GoawayResp,
        Http2Connections H2TotalConnections,
        Http2Streams H2BackendTotalStreams,
        TlsSessions SslSess,
        TlsResumed SslReusedSess,
        TlsFailures SslFailedHandshake,
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
        TlsSessions SslSess,
        TlsResumed SslReusedSess,
        TlsFailures SslFailedHandshake,
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
        TlsSessions SslSess,
        TlsResumed SslReusedSess,
        TlsFailures SslFailedHandshake,
        StapledResponses SslOcspStaple,
        EndedResponses SslFailedOcspStaple,
    }
}
