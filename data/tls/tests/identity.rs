//! Session identifiers on both sides of a simulated wire.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use weir_tls::rustls::ClientConfig;
use weir_tls::{ChooseServer, Secret, TlsSession, keep_identities};

mod world;
use world::*;

/// Identifier, key and Finished message. Empty if absent.
type Identifiers = [Vec<u8>; 3];

fn identifiers(session: &TlsSession) -> Identifiers {
    let facts = session.facts();
    [facts.session_id(), facts.session_key(), facts.unique_id()].map(|part| part.unwrap_or_default().to_vec())
}

/// A session after the client received its tickets, and its identifiers on client and server.
fn session(
    listener: &Arc<dyn ChooseServer>,
    config: &Arc<ClientConfig>,
    piece: usize,
    resumed: bool,
) -> (Pair, [Identifiers; 2]) {
    let mut pair = Pair::new(Arc::clone(listener), Arc::clone(config), "one.example");
    pair.shake(piece).expect("a handshake");
    assert_eq!(carry(&mut pair.server, &mut pair.client, &mut pair.to_client, b"data", 1000), b"data");
    assert_eq!((pair.client.facts().resumed, pair.server.facts().resumed), (resumed, resumed));
    let identifiers = [identifiers(&pair.client), identifiers(&pair.server)];
    (pair, identifiers)
}

/// The only test of its process, because `keep_identities` affects the whole process.
///
/// The values match HAProxy 3.2 with OpenSSL. On the client, the Finished message is the one that RFC 5929 defines.
#[test]
fn tls_sessions_have_identifiers_after_keep_identities() {
    let mut world = World::new();
    world.settings.tls13 = false;
    let (listener, config) = (world.listener(&["one.example"], false), world.client(None));
    let (_, before) = session(&listener, &config, 1 << 16, false);
    assert_eq!(before, <[Identifiers; 2]>::default(), "they are not kept");
    keep_identities();

    for piece in [1 << 16, 1] {
        // A TLS 1.2 session with a new ticket lacks an identifier on the server. On the client, it has the ticket's key.
        let config = world.client(None);
        let (pair, [client, server]) = session(&listener, &config, piece, false);
        let main =
            pair.client.facts().secrets.as_ref().and_then(|keys| keys.get(Secret::Master)).expect("a key");
        assert_eq!((&client[1][..], &server[1][..]), (main, main));
        assert_eq!((server[0].len(), client[0].len(), client[2].len()), (0, 32, 12));
        assert_eq!(client[2], server[2]);
        // The resumed session has an identifier that the client chose. A new ticket has a new identifier.
        let (_, [client_later, server_later]) = session(&listener, &config, piece, true);
        assert_eq!((&client_later[1], &server_later[1]), (&client[1], &client[1]));
        assert_eq!((server_later[0].len(), client_later[0].len()), (32, 32));
        assert_ne!(client_later[0], client[0]);
        assert_eq!(client_later[2], server_later[2]);
        assert_ne!(client_later[2], client[2]);
    }

    // TLS 1.3 with stateless tickets, then with the session cache.
    for early_data in [0, 1000] {
        let world = World { early_data, ..World::new() };
        let (listener, config) = (world.listener(&["one.example"], false), world.client(None));
        let mut ids = Vec::new();
        for (piece, resumed) in [(1 << 16, false), (1 << 16, true), (1, true)] {
            let (_, [client, server]) = session(&listener, &config, piece, resumed);
            assert_eq!((&client[1], &client[2]), (&server[1], &server[2]), "{early_data} {resumed}");
            assert_eq!((client[0].len(), client[1].len(), client[2].len()), (32, 48, 48));
            let of_server = digest(&SHA256, &server[0]);
            assert_eq!(client[0] == of_server.as_ref(), early_data > 0, "a stored session is its ticket");
            ids.extend([client, server].concat());
        }
        let different = ids.iter().collect::<std::collections::HashSet<_>>().len();
        assert_eq!(different, 3 * (2 + 1 + 1), "only keys and Finished messages are the same on both sides");
    }
}
