//! Handshake steps with expensive computations: the response to a ClientHello, and certificate verification (R42).

mod world;

use std::sync::Arc;

use weir_tls::rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use weir_tls::rustls::crypto::aws_lc_rs::kx_group;
use weir_tls::rustls::pki_types::ServerName;
use weir_tls::rustls::{ClientConfig, NamedGroup};
use weir_tls::{ChooseServer, VerifyMode};
use world::{Pair, World, certificate};

/// TLS 1.2 and TLS 1.3.
fn worlds() -> [World; 2] {
    [false, true].map(|newer| {
        let mut world = World::new();
        (world.settings.tls12, world.settings.tls13) = (!newer, newer);
        world
    })
}

#[test]
fn a_full_handshake_computes_on_both_sides_and_a_resumed_one_at_the_server() {
    for world in worlds() {
        let listener = world.listener(&["one.example"], false);
        let config = world.client(None);
        for expected in [(1, 1), (0, 1), (0, 1)] {
            let mut pair = Pair::new(Arc::clone(&listener), Arc::clone(&config), "one.example");
            pair.shake(usize::MAX / 2).expect("a handshake");
            assert_eq!(pair.computed, expected, "{:?}", pair.server.facts().version);
            assert_eq!(pair.server.facts().resumed, expected == (0, 1));
            // Tickets follow the handshake.
            let ended = pair.client.open(&pair.to_client, &mut [0; 100], &mut Vec::new());
            assert_eq!(ended.failure, None);
        }
    }
}

/// A client session cache that offers every session to every server name.
#[derive(Debug)]
struct ForAll(ClientSessionMemoryCache);

impl ForAll {
    fn name() -> ServerName<'static> {
        ServerName::try_from("any.example").expect("a name")
    }
}

impl ClientSessionStore for ForAll {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(ForAll::name(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&ForAll::name())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(ForAll::name(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&ForAll::name())
    }
}

#[test]
fn a_client_hello_costs_one_heavy_turn_even_if_its_session_is_resumed() {
    for world in worlds() {
        let listener = world.listener(&["one.example", "two.example"], false);
        let mut config = ClientConfig::clone(&world.client(None));
        config.resumption = Resumption::store(Arc::new(ForAll(ClientSessionMemoryCache::new(9))));
        let config = Arc::new(config);
        let shaken = |listener: &Arc<dyn ChooseServer>, name| {
            let mut pair = Pair::new(Arc::clone(listener), Arc::clone(&config), name);
            pair.shake(usize::MAX / 2).expect("a handshake");
            _ = pair.client.open(&pair.to_client, &mut [0; 100], &mut Vec::new());
            (pair.server.facts().resumed, pair.computed.1)
        };
        assert_eq!(shaken(&listener, "one.example"), (false, 1));
        // The ticket is valid, but for another name.
        assert_eq!(shaken(&listener, "two.example"), (false, 1));
        assert_eq!(shaken(&listener, "two.example"), (true, 1));
        // Another listener has other ticket keys.
        assert_eq!(shaken(&world.listener(&["two.example"], false), "two.example"), (false, 1));
    }
}

#[test]
fn each_client_hello_takes_a_turn_with_a_hello_retry_request() {
    let mut world = World::new();
    let listener = {
        let mut settings = world.settings.clone();
        settings.groups = vec![kx_group::SECP384R1];
        let kept = std::mem::replace(&mut world.settings, settings);
        let listener = world.listener(&["one.example"], false);
        world.settings = kept;
        listener
    };
    let mut pair = Pair::new(listener, world.client(None), "one.example");
    pair.shake(usize::MAX / 2).expect("a handshake");
    // The first ClientHello also takes a step, although the response is only a HelloRetryRequest. The second one causes the
    // computation.
    assert_eq!(pair.computed.1, 2);
}

#[test]
fn client_certificates_are_verified_in_a_separate_heavy_turn() {
    for mut world in worlds() {
        world.verify = VerifyMode::Required;
        let listener = world.listener(&["one.example"], false);
        let config = world.client(Some(&*certificate(&world.authority, "client")));
        for expected in [2, 1] {
            let mut pair = Pair::new(Arc::clone(&listener), Arc::clone(&config), "one.example");
            pair.shake(usize::MAX / 2).expect("a handshake");
            assert_eq!(pair.computed.1, expected, "{:?}", pair.server.facts().version);
            _ = pair.client.open(&pair.to_client, &mut [0; 100], &mut Vec::new());
        }
    }
}

#[test]
fn a_client_hello_in_pieces_costs_one_heavy_turn() {
    for world in worlds() {
        let listener = world.listener(&["one.example"], false);
        let mut pair = Pair::new(listener, world.client(None), "one.example");
        pair.shake(1).expect("a handshake");
        assert_eq!(pair.computed.1, 1);
    }
}
