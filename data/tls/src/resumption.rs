//! Session resumption, by tickets in the client or by sessions cached in this process.
//!
//! All workers share both. Tickets need no memory here, and their keys rotate automatically. The cache is for clients and listeners
//! without tickets. It is sharded, so that workers rarely contend for a lock.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::time_provider::TimeProvider;

use crate::ticket_keys::TicketKeys;

/// The tickets of one listener. They are valid for `lifetime` seconds and for sessions of the same scope.
///
/// Without keys from the operator, listeners reject each other's tickets. Several listeners and processes may share the operator's
/// keys. `scope` is therefore a digest of the requirements on a client when its session began: a session with other requirements
/// must not be resumed.
pub fn tickets(
    keys: Option<Arc<TicketKeys>>,
    lifetime: u32,
    clock: Arc<dyn TimeProvider>,
    scope: SessionScope,
) -> Arc<dyn ProducesTickets> {
    let keys: Arc<dyn ProducesTickets> = match keys {
        Some(keys) => keys,
        None => Arc::new(LateTickets::default()),
    };
    Arc::new(Tickets { keys, lifetime, clock, scope })
}

/// The requirements on a client when its session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionScope([u8; SCOPE]);

impl SessionScope {
    /// The scope of these requirements.
    pub fn of(words: &[&str]) -> SessionScope {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, words.join("\0").as_bytes());
        let mut scope = [0; SCOPE];
        scope.copy_from_slice(&digest.as_ref()[..SCOPE]);
        SessionScope(scope)
    }
}

/// Tickets that contain the scope and the start time of the session, encrypted.
#[derive(Debug)]
struct Tickets {
    keys: Arc<dyn ProducesTickets>,
    lifetime: u32,
    clock: Arc<dyn TimeProvider>,
    scope: SessionScope,
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.keys.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.lifetime.min(self.keys.lifetime()).min(LONGEST)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = seconds(&*self.clock)?.to_be_bytes();
        self.keys.encrypt(&[&self.scope.0[..], &now, plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.keys.decrypt(cipher)?;
        let (scope, rest) = plain.split_first_chunk::<SCOPE>()?;
        let (made, session) = rest.split_first_chunk::<8>()?;
        let age = seconds(&*self.clock)?.checked_sub(u64::from_be_bytes(*made))?;
        (*scope == self.scope.0 && age <= u64::from(self.lifetime())).then(|| session.to_vec())
    }
}

fn seconds(clock: &dyn TimeProvider) -> Option<u64> {
    Some(clock.current_time()?.as_secs())
}

/// Tickets with keys that the first handshake creates. Few of a listener's thousands of certificates need them.
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

/// Server-side session cache of the process, with a size limit.
pub struct SessionCache {
    shards: Box<[Mutex<CacheShard>]>,
    of_shard: usize,
    lifetime: u64,
    clock: Arc<dyn TimeProvider>,
    lookups: AtomicU64,
    misses: AtomicU64,
}

/// The start time in seconds, and the session.
type CachedSession = (u64, Box<[u8]>);

#[derive(Default)]
struct CacheShard {
    sessions: HashMap<Box<[u8]>, CachedSession>,
    /// Keys, the oldest first. Keys of removed sessions may still be listed.
    ages: VecDeque<Box<[u8]>>,
}

impl SessionCache {
    /// A cache of `size` sessions, each valid for `lifetime` seconds. 0 disables it.
    pub fn new(size: usize, lifetime: u64, clock: Arc<dyn TimeProvider>) -> SessionCache {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        SessionCache {
            shards,
            of_shard: size.div_ceil(SHARDS),
            lifetime,
            clock,
            lookups: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// A view of the cache for one listener, without the sessions of others.
    pub fn of_listener(self: &Arc<Self>) -> Arc<dyn StoresServerSessions> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let listener = NEXT.fetch_add(1, Relaxed);
        Arc::new(OfListener { cache: Arc::clone(self), listener })
    }

    /// The numbers of lookups and misses.
    pub fn lookups(&self) -> (u64, u64) {
        (self.lookups.load(Relaxed), self.misses.load(Relaxed))
    }

    fn count<T>(&self, found: Option<T>) -> Option<T> {
        self.lookups.fetch_add(1, Relaxed);
        if found.is_none() {
            self.misses.fetch_add(1, Relaxed);
        }
        found
    }

    fn shard(&self, key: &[u8]) -> Option<std::sync::MutexGuard<'_, CacheShard>> {
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

    /// A cached session, unless it is expired.
    fn fresh(&self, (began, session): &CachedSession) -> Option<Vec<u8>> {
        let age = seconds(&*self.cache.clock)?.checked_sub(*began)?;
        (age <= self.cache.lifetime).then(|| session.to_vec())
    }
}

impl StoresServerSessions for OfListener {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        weir_tls_session::note_stored(&key);
        let key = self.key(&key);
        let most = self.cache.of_shard;
        let Some(now) = seconds(&*self.cache.clock) else { return false };
        let Some(mut shard) = self.cache.shard(&key).filter(|_| most > 0) else { return false };
        while shard.ages.len() >= most {
            let Some(oldest) = shard.ages.pop_front() else { break };
            shard.sessions.remove(&oldest);
        }
        shard.ages.push_back(key.clone());
        shard.sessions.insert(key, (now, value.into()));
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(key);
        let found = self.cache.shard(&key).and_then(|shard| self.fresh(shard.sessions.get(&key)?));
        self.cache.count(found)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(key);
        let taken = self.cache.shard(&key).and_then(|mut shard| shard.sessions.remove(&key));
        self.cache.count(taken.and_then(|taken| self.fresh(&taken)))
    }

    fn can_cache(&self) -> bool {
        self.cache.of_shard > 0
    }
}

/// The length of a scope's digest, in bytes.
const SCOPE: usize = 16;
/// The limit of a ticket's lifetime (RFC 8446, 4.6.1): a week, in seconds.
const LONGEST: u32 = 604_800;
/// The number of shards.
const SHARDS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::UnixTime;
    use std::time::Duration;

    /// A clock that only changes when it is set.
    #[derive(Debug, Default)]
    struct ManualClock(AtomicU64);

    impl TimeProvider for ManualClock {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Relaxed))))
        }
    }

    #[test]
    fn session_tickets_are_valid_within_their_lifetime_and_scope() {
        let clock = Arc::new(ManualClock::default());
        let keys = Arc::new(TicketKeys::for_tests());
        let made = |keys: Option<Arc<TicketKeys>>, scope: &str| {
            tickets(keys, 300, Arc::clone(&clock) as _, SessionScope::of(&[scope]))
        };
        let one = made(Some(Arc::clone(&keys)), "");
        let ticket = one.encrypt(b"a session").expect("a ticket");
        assert_eq!(one.lifetime(), 300);
        assert_eq!(made(Some(Arc::clone(&keys)), "").decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
        assert_eq!(made(Some(keys), "required").decrypt(&ticket), None);
        assert_eq!(made(None, "").decrypt(&ticket), None);
        clock.0.store(300, Relaxed);
        assert!(one.decrypt(&ticket).is_some());
        clock.0.store(301, Relaxed);
        assert_eq!(one.decrypt(&ticket), None);
    }

    #[test]
    fn cached_tls_sessions_expire() {
        let clock = Arc::new(ManualClock::default());
        let all = Arc::new(SessionCache::new(9, 5, Arc::clone(&clock) as _));
        let cache = all.of_listener();
        assert!(cache.put(vec![1], vec![9]));
        clock.0.store(5, Relaxed);
        assert_eq!(cache.get(&[1]), Some(vec![9]));
        clock.0.store(6, Relaxed);
        assert_eq!((cache.get(&[1]), cache.take(&[1])), (None, None));
        assert_eq!(all.lookups(), (3, 2));
    }

    #[test]
    fn cached_tls_sessions_are_limited_and_belong_to_one_listener() {
        let cache = Arc::new(SessionCache::new(SHARDS, 5, Arc::<ManualClock>::default()));
        let (one, other) = (cache.of_listener(), cache.of_listener());
        assert!(one.put(vec![1, 7], vec![9]) && one.can_cache());
        assert_eq!((one.get(&[1, 7]), other.get(&[1, 7])), (Some(vec![9]), None));
        // The capacity of a shard is one session: the second replaces the first.
        assert!(one.put(vec![2, 7], vec![8]));
        assert_eq!((one.get(&[1, 7]), one.take(&[2, 7]), one.take(&[2, 7])), (None, Some(vec![8]), None));
        assert!(
            !Arc::new(SessionCache::new(0, 5, Arc::<ManualClock>::default()))
                .of_listener()
                .put(vec![1], vec![2])
        );
    }
}
