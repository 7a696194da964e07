//! Scheduling rounds of a connection: how much one receives, and which runs of its task a send or a frame causes.

use weir_events::trace::About;
use weir_sched::simulate::network::{Conditions, SimulatedNetwork, SimulatedPeer};
use weir_sched::{Class, Tick, current, spawn, wait, yield_now};

use super::*;
use crate::scripted_peer::{KIND, accepted, pass, run_with};
use crate::service::{BodyProducer, LocalService, ProducerStep};
use crate::{BodyFlow, FlowState, Message, StreamConnector};

/// Much more than any test sends.
const WINDOW: u32 = 1 << 28;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = &(payload.len() as u32).to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn data(payload: &[u8]) -> Vec<u8> {
    frame(0, 0, 1, payload)
}

/// A client's connection with a request that is still sending its body. Both sides have exchanged SETTINGS.
async fn connected(network: &SimulatedNetwork) -> (Rc<Multiplexer>, SimulatedPeer) {
    let (connection, client) = accepted(network).await;
    let limits =
        ConnectionLimits { stream_window: WINDOW, connection_window: WINDOW, ..ConnectionLimits::default() };
    let identity = ConnectionIdentity { about: About::default(), proxy: "f".into() };
    let multiplexer = Multiplexer::new(connection, limits, Pace::default(), identity);
    multiplexer.own(current());
    // POST, a scheme, and a literal path.
    let request = frame(1, 4, 1, b"\x83\x86\x04\x05/here");
    let greeting = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, b""), &request].concat();
    client.send(&greeting).await.expect("it stands");
    while multiplexer.next_started().is_none() {
        assert_eq!(multiplexer.turn(), TurnEnd::Quiet);
        pass().await;
    }
    (multiplexer, client)
}

fn run<F: Future<Output = ()> + 'static>(main: impl FnOnce(SimulatedNetwork) -> F) {
    run_with(Conditions { window: WINDOW as usize, ..Conditions::CALM }, main);
}

/// Lets a task own the connection, as in production, and counts its runs.
async fn carried(multiplexer: &Rc<Multiplexer>) -> Rc<Cell<u32>> {
    let (runs, multiplexer) = (Rc::new(Cell::new(0)), Rc::clone(multiplexer));
    let counted = Rc::clone(&runs);
    spawn(&KIND, Class::Normal, async move {
        multiplexer.own(current());
        loop {
            counted.set(counted.get() + 1);
            match multiplexer.turn() {
                TurnEnd::Quiet => drop(wait(Tick::NEVER).await),
                TurnEnd::More | TurnEnd::Late => yield_now().await,
                TurnEnd::Over => return,
            }
        }
    });
    pass().await;
    runs
}

/// R181, R182: a turn takes twelve buffers at most, and later turns take the rest. The turns and their receives are exact for one
/// buffer, eleven, twelve, thirteen, sixteen and a hundred.
#[test]
fn a_connection_receives_at_most_twelve_buffers_in_a_turn() {
    run(|network| async move {
        let (multiplexer, client) = connected(&network).await;
        // A frame of 16 bytes: whole frames fill a buffer of any size that is a multiple of it.
        let small = data(&[0; 7]);
        // Receives all available bytes. Returns the receives of each round, and the total bytes.
        let turns = || {
            let (mut receives, bytes) = (Vec::new(), multiplexer.look(|connection| connection.received));
            loop {
                let before = network.receives();
                let turn = multiplexer.turn();
                receives.push(network.receives() - before);
                if turn != TurnEnd::More {
                    assert_eq!(turn, TurnEnd::Quiet);
                    return (receives, multiplexer.look(|connection| connection.received) - bytes);
                }
            }
        };
        client.send(&small.repeat(1_000)).await.expect("it stands");
        pass().await;
        assert_eq!(turns(), (vec![1], 16_000));
        // A receive from a long stream reveals the buffer size.
        client.send(&small.repeat(100_000)).await.expect("it stands");
        pass().await;
        let (receives, bytes) = turns();
        let buffer = (bytes / receives.iter().sum::<u64>()).next_multiple_of(16_384) as usize;
        for (buffers, expected) in [
            (1, &[1][..]),
            (11, &[11]),
            (12, &[12, 0]),
            (13, &[12, 1]),
            (16, &[12, 4]),
            (100, &[12, 12, 12, 12, 12, 12, 12, 12, 4]),
        ] {
            client.send(&small.repeat(buffer / small.len() * buffers)).await.expect("it stands");
            pass().await;
            assert_eq!(turns(), (expected.to_vec(), (buffer * buffers) as u64), "{buffers} buffers");
        }
    });
}

/// R185 to R187: each of two hundred sends causes one run of the connection's task, which sends it, and no other.
#[test]
fn a_stream_send_causes_one_run_of_the_connection_task() {
    run(|network| async move {
        let (multiplexer, client) = connected(&network).await;
        let runs = carried(&multiplexer).await;
        for number in 1..=200 {
            let before = runs.get();
            assert_eq!(multiplexer.send_data(1, b"x", false), 1);
            pass().await;
            assert_eq!((runs.get() - before, multiplexer.has_output()), (1, false), "send {number}");
        }
        // A frame of one byte has ten.
        let mut received = Vec::new();
        while let Ok(Some(more)) = client.try_receive(1 << 20) {
            received.extend(more);
        }
        assert!(received.ends_with(&data(b"x").repeat(200)));
    });
}

/// R183: demultiplexing wakes streams and never the connection's own task: frames that arrive together cause one run.
#[test]
fn frames_received_together_cause_one_run_of_the_connection_task() {
    run(|network| async move {
        let (multiplexer, client) = connected(&network).await;
        let runs = carried(&multiplexer).await;
        for number in 1..=20 {
            let before = runs.get();
            client.send(&data(b"some bytes").repeat(number)).await.expect("it stands");
            pass().await;
            assert_eq!(runs.get() - before, 1, "{number} frames");
        }
    });
}

/// Appends this many pieces of a datagram's size.
struct Datagrams(usize);

impl BodyProducer for Datagrams {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
        self.0 -= 1;
        out.extend_from_slice(&[b'x'; 1300]);
        if self.0 > 0 { ProducerStep::More } else { ProducerStep::Last }
    }
}

/// A megabyte in pieces of a datagram's size is sent in DATA frames of a dozen pieces each. One send takes all queued frames.
#[test]
fn small_pieces_are_combined_into_few_data_frames() {
    const COUNT: usize = 768;
    run(|network| async move {
        let (multiplexer, client) = connected(&network).await;
        // The client's windows.
        let updates = [0, 1].map(|stream| frame(8, 0, stream, &(1u32 << 24).to_be_bytes())).concat();
        client.send(&updates).await.expect("it stands");
        pass().await;
        assert_eq!(multiplexer.turn(), TurnEnd::Quiet);
        while let Ok(Some(_)) = client.try_receive(1 << 20) {}
        let before = network.sends();
        let mut stream = multiplexer.stream(1);
        let mut head = Message::new(10);
        let answer = b"HTTP/1.1 200 OK\r\n\r\n";
        head.read_kept(weir_http::Kind::Response, answer).expect("a head");
        assert_eq!(stream.send_message(&head.head, head.bytes()), SendOutcome::All);
        let mut sink = StreamConnector::from(stream);
        let mut service = StreamConnector::from(LocalService::new(Box::new(Datagrams(COUNT))));
        let mut flow = BodyFlow::made();
        flow.aim(&sink, &head.head, false);
        while flow.advance(&mut service, &mut sink) != FlowState::Done {
            assert_eq!(multiplexer.turn(), TurnEnd::Quiet);
        }
        assert_eq!(multiplexer.turn(), TurnEnd::Quiet);
        assert!(network.sends() - before <= COUNT as u64 / 12 + 1, "{} sends", network.sends() - before);
        pass().await;
        let mut received = Vec::new();
        while let Ok(Some(more)) = client.try_receive(1 << 21) {
            received.extend(more);
        }
        let (mut sizes, mut at) = (Vec::new(), 0);
        while at < received.len() {
            let length = u32::from_be_bytes([0, received[at], received[at + 1], received[at + 2]]) as usize;
            if received[at + 3] == 0 {
                sizes.push(length);
            }
            at += 9 + length;
        }
        assert_eq!(sizes, [12 * 1300; COUNT / 12]);
    });
}
