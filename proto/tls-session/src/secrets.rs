//! Secrets for decrypting a recorded session: the keys (`tune.ssl.keylog`), and the randoms of both sides.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use rustls::KeyLog;

/// A kind of key, in the order of [`LABELS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The master secret, the only key before TLS 1.3.
    Master,
    /// The client's early data.
    ClientEarly,
    ClientHandshake,
    ServerHandshake,
    /// The client's application data.
    ClientTraffic,
    /// The server's application data.
    ServerTraffic,
    Exporter,
    /// The exporter secret of early data.
    EarlyExporter,
}

/// Their labels in key logs (the file of `SSLKEYLOGFILE`).
const LABELS: [&str; 8] = [
    "CLIENT_RANDOM",
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
    "EXPORTER_SECRET",
    "EARLY_EXPORTER_SECRET",
];

/// The keys of a session, by kind. A missing key is empty.
#[derive(Clone, Default)]
pub struct Secrets([Box<[u8]>; LABELS.len()]);

impl Secrets {
    /// A key. `None` if the session lacks it.
    pub fn get(&self, secret: Secret) -> Option<&[u8]> {
        Some(&*self.0[secret as usize]).filter(|key| !key.is_empty())
    }

    fn keep(&mut self, label: &str, key: &[u8]) {
        if let Some(position) = LABELS.iter().position(|known| *known == label) {
            self.0[position] = key.into();
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are never written to logs.
        f.write_str("Secrets")
    }
}

/// A key log that keeps keys with their sessions.
pub fn keep_keys() -> Arc<dyn KeyLog> {
    Arc::new(KeptKeys)
}

/// rustls reports keys on the thread that processes the session, so a thread-local list assigns them to the session.
#[derive(Debug)]
struct KeptKeys;

impl KeyLog for KeptKeys {
    fn log(&self, label: &str, _: &[u8], key: &[u8]) {
        LOGGED.with_borrow_mut(|logged| logged.get_or_insert_default().keep(label, key));
    }
}

thread_local! {
    static LOGGED: RefCell<ManuallyDrop<Option<Box<Secrets>>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Moves the keys reported on this thread since the last call to those of a session.
pub(crate) fn take_logged(known: &mut Option<Box<Secrets>>) {
    let Some(logged) = LOGGED.with_borrow_mut(|logged| logged.take()) else { return };
    let Some(known) = known else { return *known = Some(logged) };
    for (position, key) in logged.0.into_iter().enumerate().filter(|(_, key)| !key.is_empty()) {
        known.0[position] = key;
    }
}

/// The randoms of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Randoms {
    pub client: Option<[u8; 32]>,
    pub server: Option<[u8; 32]>,
}

impl Randoms {
    /// Extracts the random of a hello at the beginning of these records.
    pub(crate) fn note(&mut self, records: &[u8]) {
        let [HANDSHAKE, 3, _, _, _, kind, _, _, _, 3, _, rest @ ..] = records else { return };
        let Some(random) = rest.first_chunk::<32>() else { return };
        match *kind {
            CLIENT_HELLO => _ = self.client.get_or_insert(*random),
            SERVER_HELLO if *random != RETRY => _ = self.server.get_or_insert(*random),
            _ => {}
        }
    }

    /// Whether both are known.
    pub(crate) fn are_known(&self) -> bool {
        self.client.is_some() && self.server.is_some()
    }
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// The special random of a HelloRetryRequest (RFC 8446, 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_server_randoms_are_read_from_the_hellos() {
        let hello =
            |kind: u8, random: &[u8; 32]| [&[22, 3, 1, 0, 99, kind, 0, 0, 95, 3, 3], &random[..]].concat();
        let mut randoms = Randoms::default();
        randoms.note(&hello(1, &[7; 32])[..42]);
        assert_eq!(randoms, Randoms::default());
        randoms.note(&hello(1, &[7; 32]));
        randoms.note(&hello(2, &RETRY));
        randoms.note(&hello(1, &[8; 32]));
        randoms.note(&hello(2, &[9; 32]));
        assert_eq!(randoms, Randoms { client: Some([7; 32]), server: Some([9; 32]) });
    }

    #[test]
    fn logged_tls_secrets_are_kept_by_kind() {
        let (log, mut known) = (keep_keys(), None);
        take_logged(&mut known);
        assert!(known.is_none());
        log.log("CLIENT_RANDOM", &[], b"master");
        log.log("SOMETHING_ELSE", &[], b"x");
        take_logged(&mut known);
        log.log("EXPORTER_SECRET", &[], b"exporter");
        take_logged(&mut known);
        let known = known.expect("keys");
        assert_eq!(known.get(Secret::Master), Some(&b"master"[..]));
        assert_eq!(known.get(Secret::Exporter), Some(&b"exporter"[..]));
        assert_eq!(known.get(Secret::ClientTraffic), None);
    }
}
