//! Everything that a configuration says.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::global::Global;
use super::proxy::Proxy;
use super::userlist::Userlist;

/// A configuration: what all its files say, checked and complete.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The process.
    pub global: Global,
    /// Users by the name of their list.
    pub userlists: BTreeMap<Arc<str>, Arc<Userlist>>,
    /// Frontends and backends, in order; [`super::ProxyIndex`] counts these.
    pub proxies: Vec<Proxy>,
}

impl Config {
    /// The list of users of that name.
    pub fn userlist(&self, name: &str) -> Option<&Arc<Userlist>> {
        self.userlists.get(name)
    }
}
