//! The list of a backend's servers for readers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::server::Server;
use crate::server_key::ServerKey;

/// All servers. The list is replaced as a whole.
pub(crate) struct ServerSnapshot {
    pub(crate) servers: Arc<[Arc<Server>]>,
    pub(crate) places: Box<[Option<Arc<Server>>]>,
    by_cookie: HashMap<String, Vec<ServerKey>>,
}

impl ServerSnapshot {
    pub(crate) fn new(servers: Vec<Arc<Server>>) -> Self {
        let mut by_cookie: HashMap<String, Vec<ServerKey>> = HashMap::new();
        let size = servers.iter().map(|server| server.key().index() + 1).max().unwrap_or(0);
        let mut places = vec![None; size];
        for server in &servers {
            places[server.key().index()] = Some(Arc::clone(server));
            if let Some(value) = server.cookie() {
                by_cookie.entry(String::clone(&value)).or_default().push(server.key());
            }
        }
        Self { servers: servers.into(), places: places.into(), by_cookie }
    }

    pub(crate) fn by_cookie(&self, value: &str) -> Option<&Arc<Server>> {
        let servers = || self.by_cookie.get(value).into_iter().flatten().filter_map(|key| self.get(*key));
        servers().find(|server| server.is_available()).or_else(|| servers().next())
    }

    pub(crate) fn get(&self, key: ServerKey) -> Option<&Arc<Server>> {
        self.places.get(key.index())?.as_ref().filter(|server| server.key() == key)
    }
}
