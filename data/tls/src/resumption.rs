//! What lets a client go on with an earlier session: tickets that it keeps, or sessions that are kept here.
//!
//! Both are shared by all workers. Tickets need no memory here; their keys change by themselves. Sessions are for clients that know
//! no tickets, and for listeners without them; they stand in shards, so that workers seldom meet at one lock.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ProducesTickets, StoresServerSessions};

/// The tickets of one listener. Listeners do not take each other's: a session that one of them refused to begin must not go on
/// there.
pub fn tickets() -> Option<Arc<dyn ProducesTickets>> {
    Some(Arc::new(LateTickets::default()))
}

/// Tickets whose keys are made with the first handshake: a listener with thousands of certificates needs few of them.
#[derive(Debug, Default)]
struct LateTickets(OnceLock<Option<Arc<dyn ProducesTickets>>>);

impl LateTickets {
    fn made(&self) -> Option<&dyn ProducesTickets> {
        self.0.get_or_init(|| Ticketer::new().ok()).as_deref()
    }
}

impl ProducesTickets for LateTickets {
    fn enabled(&self) -> bool {
        self.made().is_some_and(ProducesTickets::enabled)
    }

    fn lifetime(&self) -> u32 {
        self.made().map_or(0, ProducesTickets::lifetime)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.made()?.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.made()?.decrypt(cipher)
    }
}

/// Sessions of the process, up to a number of them.
pub struct SessionCache {
    shards: Box<[Mutex<Shard>]>,
    of_shard: usize,
}

#[derive(Default)]
struct Shard {
    sessions: HashMap<Box<[u8]>, Box<[u8]>>,
    /// The oldest first; those that were taken may still be among them.
    ages: VecDeque<Box<[u8]>>,
}

impl SessionCache {
    /// Room for so many sessions; 0 for none.
    pub fn new(size: usize) -> SessionCache {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        SessionCache { shards, of_shard: size.div_ceil(SHARDS) }
    }

    /// The part of one listener, which sees no session of another.
    pub fn of_listener(self: &Arc<Self>) -> Arc<dyn StoresServerSessions> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let listener = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Arc::new(OfListener { cache: Arc::clone(self), listener })
    }

    fn shard(&self, key: &[u8]) -> Option<std::sync::MutexGuard<'_, Shard>> {
        let number = usize::from(*key.last()?) % SHARDS;
        Some(self.shards[number].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCache").field("of_shard", &self.of_shard).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct OfListener {
    cache: Arc<SessionCache>,
    listener: u32,
}

impl OfListener {
    fn key(&self, key: &[u8]) -> Box<[u8]> {
        [&self.listener.to_be_bytes(), key].concat().into()
    }
}

impl StoresServerSessions for OfListener {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let key = self.key(&key);
        let most = self.cache.of_shard;
        let Some(mut shard) = self.cache.shard(&key).filter(|_| most > 0) else { return false };
        while shard.ages.len() >= most {
            let Some(oldest) = shard.ages.pop_front() else { break };
            shard.sessions.remove(&oldest);
        }
        shard.ages.push_back(key.clone());
        shard.sessions.insert(key, value.into());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(key);
        self.cache.shard(&key)?.sessions.get(&key).map(|value| value.to_vec())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(key);
        self.cache.shard(&key)?.sessions.remove(&key).map(Vec::from)
    }

    fn can_cache(&self) -> bool {
        self.cache.of_shard > 0
    }
}

/// How many locks the sessions stand behind.
const SHARDS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_of_one_listener() {
        let cache = Arc::new(SessionCache::new(SHARDS));
        let (one, other) = (cache.of_listener(), cache.of_listener());
        assert!(one.put(vec![1, 7], vec![9]) && one.can_cache());
        assert_eq!((one.get(&[1, 7]), other.get(&[1, 7])), (Some(vec![9]), None));
        // One session a shard: the younger one takes the place.
        assert!(one.put(vec![2, 7], vec![8]));
        assert_eq!((one.get(&[1, 7]), one.take(&[2, 7]), one.take(&[2, 7])), (None, Some(vec![8]), None));
        assert!(!Arc::new(SessionCache::new(0)).of_listener().put(vec![1], vec![2]));
    }
}
