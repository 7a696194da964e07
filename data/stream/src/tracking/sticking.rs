//! Persistence by a stick-table: `stick match`, `stick on`, `stick store-request`, `stick store-response` (manual, 4.2).

use weir_backend::{Server, ServerAddress, ServerKey};
use weir_containers::{LocalArc, PooledFuture};
use weir_expr::table::{DataType, ServerKeyKind};
use weir_model::{StickKind, StickRule};
use weir_tables::{Key, Table};

use crate::instance::Proxy;
use crate::reservation;
use crate::stream::PhaseResult;
use crate::stream::phases::StreamTables;
use weir_vocabulary::tracked::now_ms;

/// Maximum number of stored keys per request and per response (manual, "stick store-request").
const MAX_STORES: usize = 8;

impl StreamTables {
    /// The usable server that a stick-table stores for this request, and whether redispatch to other servers is forbidden. Also collects
    /// the keys to store for the request.
    #[inline]
    pub(crate) fn server_by_table(&mut self, follows: bool) -> Option<(ServerKey, bool)> {
        if self.stream.backend.config.stick_rules.is_empty() { None } else { self.server_by_rules(follows) }
    }

    fn server_by_rules(&mut self, follows: bool) -> Option<(ServerKey, bool)> {
        let backend = self.stream.backend.proxy().clone();
        self.stream.inspection().receive_what_came();
        if let Some(tables) = &mut self.stream.tables {
            tables.stores.clear();
        }
        let mut found = None;
        for rule in &backend.config.stick_rules {
            let looks = rule.kind.matches() && found.is_none() && follows;
            if !looks && !rule.kind.stores_request() {
                continue;
            }
            let Some(table) = self.table_of(rule, &backend) else { continue };
            let stores = rule.kind.stores_request() && self.may_store(&table);
            if !looks && !stores {
                continue;
            }
            let Some(key) = self.key_of(rule, &table) else { continue };
            if looks {
                found = self.remembered_server(&table, &key);
            }
            if stores {
                self.use_tables().stores.push((table, key));
            }
        }
        found
    }

    /// Whether this request may still store a key in the table. Each table gets at most one.
    fn may_store(&self, table: &Table) -> bool {
        let stores = self.stream.tables.as_ref().map_or(&[][..], |tables| &tables.stores);
        stores.len() < MAX_STORES && !stores.iter().any(|(other, _)| std::ptr::eq(&**other, table))
    }

    fn table_of(&self, rule: &StickRule, proxy: &Proxy) -> Option<LocalArc<Table>> {
        let position = rule.table.target().map(|(table, _)| table).or(proxy.config.table)?;
        self.stream.frontend.instance().table(position).cloned()
    }

    fn key_of(&mut self, rule: &StickRule, table: &Table) -> Option<Key> {
        let applies = rule.condition.as_ref().is_none_or(|condition| self.stream.holds(condition));
        if applies { self.table_key(table, &rule.key).ok() } else { None }
    }

    /// The server stored in an entry: by server key, else by server ID. The flag forbids redispatch to other servers.
    fn remembered_server(&mut self, table: &Table, key: &Key) -> Option<(ServerKey, bool)> {
        let (id, name) =
            table.refresh(key, now_ms(), |row| (row.get(DataType::ServerId, 0), row.server_key()))?;
        let backend = self.stream.backend.servers();
        let by_name = name.and_then(|name| match table.declaration().server_key {
            ServerKeyKind::Name => backend.server_by_name(&name),
            ServerKeyKind::Address => {
                backend.servers().iter().find(|server| address_of(server) == *name).cloned()
            }
        });
        let by_id = || backend.server_by_id(u32::try_from(id?).ok().filter(|id| *id > 0)?);
        let server = by_name.or_else(by_id)?;
        if server.is_up() {
            return Some((server.key(), false));
        }
        // The server is down, but persistence keeps the request in its queue.
        let (key, is_forced) = (server.key(), !backend.settings().persist);
        crate::cookie::wants_servers_that_are_down(&mut self.stream).then_some((key, is_forced))
    }

    /// Stores the collected keys of the request with the server, once the connection is established.
    #[inline]
    pub(crate) fn remember_server(&mut self) {
        if let Some(tables) = &mut self.stream.tables
            && !tables.stores.is_empty()
        {
            let stores = std::mem::take(&mut tables.stores);
            self.store_server(&stores);
            // Keeps the keys: another attempt may use another server.
            self.use_tables().stores = stores;
        }
    }

    /// `stick store-response`: stores keys of the response with its server. Returns the wait for the state of scripts, if its rules use one.
    #[inline]
    pub(crate) fn remember_server_by_response(&mut self) -> Option<PooledFuture<'_, PhaseResult>> {
        if reservation::is_needed(&self.stream, &self.stream.backend.scripted.in_storing) {
            return Some(PooledFuture::new(self.store_with_scripts()));
        }
        if !self.stream.backend.config.stick_rules.is_empty() {
            self.store_by_response();
        }
        None
    }

    async fn store_with_scripts(&mut self) -> PhaseResult {
        reservation::reserve(&mut self.stream).await?;
        self.store_by_response();
        reservation::end(true);
        Ok(())
    }

    #[cold]
    fn store_by_response(&mut self) {
        let backend = self.stream.backend.proxy().clone();
        let mut stores: Vec<(LocalArc<Table>, Key)> = Vec::new();
        for rule in &backend.config.stick_rules {
            if rule.kind != StickKind::StoreResponse || stores.len() == MAX_STORES {
                continue;
            }
            let Some(table) = self.table_of(rule, &backend) else { continue };
            if stores.iter().any(|(other, _)| std::ptr::eq(&**other, &*table)) {
                continue;
            }
            if let Some(key) = self.key_of(rule, &table) {
                stores.push((table, key));
            }
        }
        self.store_server(&stores);
    }

    fn store_server(&self, stores: &[(LocalArc<Table>, Key)]) {
        if stores.is_empty() {
            return;
        }
        let Some(lease) = &self.stream.server.lease else { return };
        let server: &Server = lease.server();
        if self.stream.as_server_phase().known_server().is_some_and(|known| known.settings.non_stick) {
            return;
        }
        for (table, key) in stores {
            table.store(key, now_ms(), |row| {
                row.set(DataType::ServerId, 0, server.id().into());
                match table.declaration().server_key {
                    ServerKeyKind::Name => row.set_server_key(server.name()),
                    ServerKeyKind::Address => row.set_server_key(&address_of(server)),
                }
            });
        }
    }
}

/// A server's address as its key in the table. Empty for a server without an address.
fn address_of(server: &Server) -> String {
    match &*server.address() {
        ServerAddress::Unix(path) => path.display().to_string(),
        address => address.inet_text().unwrap_or_default(),
    }
}
