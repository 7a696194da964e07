//! The whole configuration.

use std::sync::Arc;

use super::application::FcgiApplication;
use super::check_script::HealthCheck;
use super::global::Global;
use super::log::LogTarget;
use super::log_forward::LogForward;
use super::mail::Mailers;
use super::peers::Peers;
use super::proxy::Proxy;
use super::reply::HttpErrors;
use super::resolvers::Resolvers;
use super::ring::{Ring, TraceLine};
use super::table::StickTable;
use super::tls::CertificateStore;
use super::userlist::Userlist;

/// A configuration from all its files, checked and complete.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The `global` sections.
    pub global: Global,
    /// Lists of users, in order. Expressions refer to them by position.
    pub userlists: Vec<Userlist>,
    /// Frontends and backends, in order. A [`super::ProxyIndex`] is a position in this list.
    pub proxies: Vec<Proxy>,
    /// Stick-tables of proxies and of `peers` sections, in order. Expressions refer to them by position.
    pub tables: Vec<StickTable>,
    /// `ring` sections, in order.
    pub rings: Vec<Ring>,
    /// `resolvers` sections, in order. Includes `default` if the system configures name servers.
    pub resolvers: Vec<Resolvers>,
    /// `crt-store` sections, in order.
    pub certificate_stores: Vec<CertificateStore>,
    /// `log-forward` sections, in order.
    pub log_forwards: Vec<LogForward>,
    /// `mailers` sections, in order.
    pub mailers: Vec<Mailers>,
    /// `peers` sections, in order.
    pub peers: Vec<Peers>,
    /// `http-errors` sections, by name.
    pub http_errors: Vec<HttpErrors>,
    /// `healthcheck` sections, in order.
    pub health_checks: Vec<HealthCheck>,
    /// `fcgi-app` sections, in order. The backends that use one share it.
    pub applications: Vec<Arc<FcgiApplication>>,
    /// Lines of `traces` sections, in order.
    pub traces: Vec<TraceLine>,
}

impl Config {
    /// The list of users with this name.
    pub fn userlist(&self, name: &str) -> Option<&Userlist> {
        self.userlists.iter().find(|list| *list.name == *name)
    }

    /// Every `log` line.
    pub fn log_targets(&self) -> impl Iterator<Item = &Arc<LogTarget>> {
        let of_proxies = self.proxies.iter().flat_map(|proxy| proxy.settings.logging.targets.iter());
        let of_relays = self.log_forwards.iter().flat_map(|section| section.targets.iter());
        let of_peers = self.peers.iter().flat_map(|section| section.log_targets.iter());
        self.global.logs.iter().chain(of_proxies).chain(of_relays).chain(of_peers)
    }
}
