//! Global settings of the HTTP client: requests that the process itself sends.

use std::time::Duration;

use weir_fingerprint::Canonical;

use super::names;
use super::{Host, Location, TlsVerify};

/// The built-in HTTP client (manual, "HTTPClient tuning").
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct HttpClient {
    /// `httpclient.resolvers.disabled`: names are not resolved.
    pub resolves_nothing: bool,
    /// `httpclient.resolvers.id`, and its location.
    #[canonical(with = names::client_resolvers)]
    pub resolvers: Option<(Box<str>, Location)>,
    /// `httpclient.resolvers.prefer ipv4`.
    pub prefers_ipv4: bool,
    /// `httpclient.retries`.
    pub retries: u32,
    /// `httpclient.ssl.ca-file`.
    pub ca_file: Option<Box<str>>,
    /// `httpclient.ssl.verify`.
    pub verify: Option<TlsVerify>,
    /// The location of an `httpclient.ssl` setting: with one, TLS faults are errors.
    #[canonical(skip = "a place in a file")]
    pub tls_at: Option<Location>,
    /// `httpclient.timeout.connect`.
    pub connect_timeout: Duration,
}

impl Default for HttpClient {
    fn default() -> Self {
        HttpClient {
            resolves_nothing: false,
            resolvers: None,
            prefers_ipv4: false,
            retries: 3,
            ca_file: None,
            verify: None,
            tls_at: None,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// How OCSP responses are renewed (manual, "ocsp-update").
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct OcspUpdates {
    /// `ocsp-update.disable`: update no OCSP response.
    pub disabled: bool,
    /// `ocsp-update.mode`: update the OCSP responses of all certificates, unless a line overrides it.
    pub of_all: bool,
    /// `ocsp-update.mindelay`: shortest time between two updates of one response, in seconds.
    pub least_delay: u32,
    /// `ocsp-update.maxdelay`: longest time between two updates of one response, in seconds.
    pub most_delay: u32,
    /// The location of a delay setting.
    #[canonical(skip = "a place in a file")]
    pub at: Option<Location>,
    /// `ocsp-update.httpproxy`, and its location.
    #[canonical(with = names::proxy_of_updates)]
    pub proxy: Option<(Host, u16, Location)>,
}

impl Default for OcspUpdates {
    fn default() -> Self {
        OcspUpdates {
            disabled: false,
            of_all: false,
            least_delay: 300,
            most_delay: 3600,
            at: None,
            proxy: None,
        }
    }
}
