//! Shared by the tests of connections with several streams: a simulated peer, and the task that owns the connection.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use weir_net::Connection;
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork, SimulatedPeer};
use weir_sched::{Class, Descriptor, Tick, WorkKind, current, now, sleep_until, spawn, wait, yield_now};
use weir_sys::Address;

use crate::multiplexer::TurnEnd;
use crate::served::ServedConnection;

pub(crate) static KIND: WorkKind = WorkKind::new("connection's test");

/// A connection, and the peer's end of it.
pub(crate) async fn accepted(network: &SimulatedNetwork) -> (Connection, SimulatedPeer) {
    let place = |port| Address::from((Ipv4Addr::LOCALHOST, port));
    let listener = Descriptor::register(network.listener(&place(80)).expect("a free port")).expect("room");
    listener.set_owner(current());
    let peer = network.connect(&place(1000), &place(80));
    let accepted = loop {
        match listener.accept().expect("it listens") {
            Some((accepted, _)) => break accepted,
            None => drop(wait(Tick::NEVER).await),
        }
    };
    (Connection::new(Descriptor::register(accepted).expect("room")), peer)
}

/// Lets a task own the connection, as in production. Returns how often it ran.
pub(crate) async fn owned<C: ServedConnection + 'static>(connection: &Rc<C>) -> Rc<Cell<u32>> {
    let runs = Rc::new(Cell::new(0));
    let (counted, served) = (Rc::clone(&runs), Rc::clone(connection));
    let owner = spawn(&KIND, Class::Normal, async move {
        loop {
            counted.set(counted.get() + 1);
            match served.turn() {
                TurnEnd::Quiet => drop(wait(Tick::NEVER).await),
                TurnEnd::More | TurnEnd::Late => yield_now().await,
                TurnEnd::Over => return served.close(),
            }
        }
    });
    connection.own(owner);
    pass().await;
    runs
}

/// Whether the last stream of a connection, which nothing else refers to, wakes the owner. `runs` counts those of the owner.
pub(crate) async fn check_last_stream<C, S>(connection: Rc<C>, stream: S, runs: &Cell<u32>) {
    let before = runs.get();
    // Only the owner and the stream are left.
    drop(connection);
    pass().await;
    assert_eq!(runs.get(), before);
    drop(stream);
    pass().await;
    assert_eq!(runs.get(), before + 1);
}

/// Lets everything arrive.
pub(crate) async fn pass() {
    sleep_until(now().after(50)).await;
}

/// Runs `main` on a worker with a simulated network.
pub(crate) fn run_with<F: Future<Output = ()> + 'static>(
    conditions: Conditions,
    main: impl FnOnce(SimulatedNetwork) -> F,
) {
    let run = network::run(1, conditions, main).expect("a worker");
    run.outcome.expect("it ends");
}

/// Runs `main` without delays and losses.
pub(crate) fn run<F: Future<Output = ()> + 'static>(main: impl FnOnce(SimulatedNetwork) -> F) {
    run_with(Conditions::CALM, main);
}
