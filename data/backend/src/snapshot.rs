//! The servers of a backend, for readers.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use weir_sync::PersistentMap;

use crate::server::Server;
use crate::server_key::ServerKey;

/// All servers and their indexes. The next version shares almost all of its memory with this one, so a change costs about
/// the same with thousands of servers as with a few.
#[derive(Clone, Default)]
pub(crate) struct ServerSnapshot {
    servers: ServerList,
    /// Servers by slot, with the rank of each.
    places: PersistentMap<u32, (u64, Arc<Server>)>,
    /// The first server with each identifier. Identifiers in a configuration are unique.
    by_id: PersistentMap<u32, ServerKey>,
    by_name: HashedWords,
    by_cookie: HashedWords,
    /// The rank of the next server.
    next: u64,
}

/// Servers by the hash of a word, then by rank. A look-up compares the words of servers with equal hashes.
type HashedWords = PersistentMap<(u64, u64), ServerKey>;

/// The servers of a backend at one moment: those of the configuration in its order, then those added at run time.
#[derive(Clone, Default)]
pub struct ServerList(PersistentMap<u64, Arc<Server>>);

impl ServerSnapshot {
    pub(crate) fn new(servers: impl IntoIterator<Item = Arc<Server>>) -> Self {
        let mut snapshot = Self::default();
        servers.into_iter().for_each(|server| snapshot.add(server));
        snapshot
    }

    /// Appends a server to the list.
    pub(crate) fn add(&mut self, server: Arc<Server>) {
        let (key, rank) = (server.key(), self.next);
        self.next += 1;
        if self.by_id.get(&server.id()).is_none() {
            self.by_id.insert(server.id(), key);
        }
        self.by_name.insert((hash(server.name()), rank), key);
        if let Some(cookie) = server.cookie() {
            self.by_cookie.insert((hash(&cookie), rank), key);
        }
        self.places.insert(key.place(), (rank, Arc::clone(&server)));
        self.servers.0.insert(rank, server);
    }

    pub(crate) fn remove(&mut self, server: &Server) {
        let Some(rank) = self.rank(server.key()) else { return };
        if self.by_id.get(&server.id()) == Some(&server.key()) {
            self.by_id.remove(&server.id());
        }
        self.by_name.remove(&(hash(server.name()), rank));
        if let Some(cookie) = server.cookie() {
            self.by_cookie.remove(&(hash(&cookie), rank));
        }
        self.places.remove(&server.key().place());
        self.servers.0.remove(&rank);
    }

    /// Updates the cookie index after a server's cookie changed from `former`.
    pub(crate) fn change_cookie(&mut self, server: &Server, former: Option<Arc<String>>) {
        let Some(rank) = self.rank(server.key()) else { return };
        if let Some(former) = former {
            self.by_cookie.remove(&(hash(&former), rank));
        }
        if let Some(cookie) = server.cookie() {
            self.by_cookie.insert((hash(&cookie), rank), server.key());
        }
    }

    pub(crate) fn servers(&self) -> &ServerList {
        &self.servers
    }

    pub(crate) fn get(&self, key: ServerKey) -> Option<&Arc<Server>> {
        self.at(key.index()).filter(|server| server.key() == key)
    }

    /// The server in slot `place`.
    pub(crate) fn at(&self, place: usize) -> Option<&Arc<Server>> {
        self.places.get(&u32::try_from(place).ok()?).map(|(_, server)| server)
    }

    /// The first server with that name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Server>> {
        self.with_hash(&self.by_name, name).find(|server| server.name() == name)
    }

    /// The first server with that identifier.
    pub(crate) fn by_id(&self, id: u32) -> Option<&Arc<Server>> {
        self.get(*self.by_id.get(&id)?)
    }

    /// The first available server with this cookie, or else the first one with it.
    pub(crate) fn by_cookie(&self, value: &str) -> Option<&Arc<Server>> {
        let has_value = |server: &&Arc<Server>| server.cookie().is_some_and(|cookie| *cookie == *value);
        let servers = || self.with_hash(&self.by_cookie, value).filter(has_value);
        servers().find(|server| server.is_available()).or_else(|| servers().next())
    }

    /// The lowest identifier that no server has, from 1 on.
    pub(crate) fn free_id(&self) -> u32 {
        let zero = usize::from(self.by_id.get(&0).is_some());
        let is_dense =
            |rank: usize| self.by_id.nth(zero + rank).is_some_and(|(id, _)| *id as usize == rank + 1);
        // The identifiers below `low` are taken, and one up to `high` is free.
        let (mut low, mut high) = (0, self.by_id.len() - zero);
        while low < high {
            let middle = low.midpoint(high);
            if is_dense(middle) { low = middle + 1 } else { high = middle }
        }
        u32::try_from(low + 1).unwrap_or(u32::MAX)
    }

    fn rank(&self, key: ServerKey) -> Option<u64> {
        self.places.get(&key.place()).map(|(rank, _)| *rank)
    }

    fn with_hash<'s>(&'s self, words: &'s HashedWords, word: &str) -> impl Iterator<Item = &'s Arc<Server>> {
        let wanted = hash(word);
        let entries = words.iter_from(&(wanted, 0)).take_while(move |((hash, _), _)| *hash == wanted);
        entries.filter_map(|(_, key)| self.get(*key))
    }
}

impl ServerList {
    /// The number of servers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The server at position `rank`, from 0.
    #[must_use]
    pub fn get(&self, rank: usize) -> Option<&Arc<Server>> {
        self.0.nth(rank).map(|(_, server)| server)
    }

    /// The servers from position `rank` on, in order.
    pub fn iter_after(&self, rank: usize) -> impl Iterator<Item = &Arc<Server>> {
        self.0.iter_after(rank).map(|(_, server)| server)
    }

    /// All servers in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.0.iter().map(|(_, server)| server)
    }
}

impl std::ops::Index<usize> for ServerList {
    type Output = Arc<Server>;

    fn index(&self, rank: usize) -> &Arc<Server> {
        self.get(rank).expect("the rank is less than the length")
    }
}

/// Operators choose names and cookies of servers, so the hash needs no secret.
fn hash(word: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(word)
}
