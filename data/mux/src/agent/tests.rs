//! Exchanges with a scripted agent: which task an answer wakes, and which faults end the connection.

use weir_sched::simulate::network::{SimulatedNetwork, SimulatedPeer};
use weir_sched::{Class, Tick, spawn, wait};
use weir_spop::frame::{self, FIN};
use weir_spop::testing::{write_ack, write_agent_disconnect, write_agent_hello};
use weir_spop::{SpopFrame, SpopFrameKind};

use super::*;
use crate::scripted_peer::{KIND, accepted, check_last_stream, owned, pass, run};

const MAX_FRAME_SIZE: u32 = 16_380;

/// A connection to an agent with its owner task, and the agent's end.
struct Pair {
    network: SimulatedNetwork,
    connection: Rc<AgentMultiplexer>,
    agent: SimulatedPeer,
    /// Runs of the owner task.
    runs: Rc<Cell<u32>>,
}

/// The outcome of an exchange in a task of its own. `None` while it waits.
type Outcome = Rc<RefCell<Option<Result<Vec<u8>, AgentFault>>>>;

impl Pair {
    /// A connection before the handshake.
    async fn new(network: SimulatedNetwork, pipelining: bool) -> Pair {
        let (connection, agent) = accepted(&network).await;
        let limits =
            AgentLimits { max_frame_size: MAX_FRAME_SIZE, pipelining, engine_id: "", healthcheck: false };
        let connection = AgentMultiplexer::new(connection, limits, ConnectionIdentity::default());
        let runs = owned(&connection).await;
        Pair { network, connection, agent, runs }
    }

    /// A connection after the handshake. The agent read the hello.
    async fn ready(network: SimulatedNetwork, pipelining: bool) -> Pair {
        let pair = Pair::new(network, pipelining).await;
        let mut hello = Vec::new();
        write_agent_hello(MAX_FRAME_SIZE, pipelining, &mut hello);
        pair.send(&hello).await;
        assert_eq!(pair.connection.greeting(), GreetingProgress::Complete);
        assert_eq!(pair.received().len(), 1);
        pair
    }

    /// Sends bytes of the agent, and lets them arrive.
    async fn send(&self, bytes: &[u8]) {
        self.agent.send(bytes).await.expect("it stands");
        pass().await;
    }

    /// Sends the ACK of an exchange. The payload is its actions.
    async fn answer(&self, stream_id: u64, frame_id: u64, payload: &[u8]) {
        self.send(&ack(stream_id, frame_id, payload)).await;
    }

    /// The frames that the agent received since the last call, by kind and stream ID.
    fn received(&self) -> Vec<(SpopFrameKind, u64)> {
        let mut bytes = Vec::new();
        while let Ok(Some(more)) = self.agent.try_receive(1 << 16)
            && !more.is_empty()
        {
            bytes.extend(more);
        }
        let (mut frames, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((frame, length)) = frame::read(rest, MAX_FRAME_SIZE).expect("valid frames") {
            frames.push((frame.kind, frame.stream_id));
            rest = &rest[length..];
        }
        assert!(rest.is_empty(), "a partial frame");
        frames
    }

    /// Runs an exchange in a task of its own, which waits until it is woken.
    async fn exchange(&self) -> Outcome {
        let outcome = Outcome::default();
        let (noted, mut stream) = (Rc::clone(&outcome), self.connection.stream());
        spawn(&KIND, Class::Normal, async move {
            assert_eq!(stream.notify(b""), Notified::Sent);
            let answer = loop {
                match collect(&mut stream) {
                    Some(answer) => break answer,
                    None => drop(wait(Tick::NEVER).await),
                }
            };
            *noted.borrow_mut() = Some(answer);
        });
        pass().await;
        outcome
    }

    /// Starts an exchange that no task waits for.
    fn begun(&self) -> AgentStream {
        let mut stream = self.connection.stream();
        assert_eq!(stream.notify(b""), Notified::Sent);
        stream
    }
}

/// An ACK frame with any payload.
fn ack(stream_id: u64, frame_id: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(
        &SpopFrame { kind: SpopFrameKind::Ack, flags: FIN, stream_id, frame_id, payload },
        &mut bytes,
    );
    bytes
}

fn collect(stream: &mut AgentStream) -> Option<Result<Vec<u8>, AgentFault>> {
    let mut actions = Vec::new();
    stream.answer(&mut actions).map(|answer| answer.map(|()| actions))
}

fn taken(outcome: &Outcome) -> Option<Result<Vec<u8>, AgentFault>> {
    outcome.borrow_mut().take()
}

#[test]
fn answers_in_any_order_wake_their_own_exchanges() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            outcomes.push(pair.exchange().await);
        }
        assert_eq!(pair.received(), [1, 3, 5].map(|number| (SpopFrameKind::Notify, number)));
        for (position, number) in [(2, 5_u64), (0, 1), (1, 3)] {
            let payload = number.to_string().into_bytes();
            pair.answer(number, 1, &payload).await;
            assert_eq!(taken(&outcomes[position]), Some(Ok(payload)));
            assert!(
                outcomes.iter().all(|outcome| outcome.borrow().is_none()),
                "after the answer to {number}"
            );
        }
        assert_eq!(pair.connection.fault(), None);
    });
}

#[test]
fn answers_that_arrive_byte_by_byte_are_complete() {
    run(|network| async move {
        let pair = Pair::new(network, true).await;
        let mut hello = Vec::new();
        write_agent_hello(MAX_FRAME_SIZE, true, &mut hello);
        for byte in hello {
            assert_eq!(pair.connection.greeting(), GreetingProgress::Awaited);
            pair.send(&[byte]).await;
        }
        assert_eq!(pair.connection.greeting(), GreetingProgress::Complete);
        let outcome = pair.exchange().await;
        for byte in ack(1, 1, b"some actions") {
            assert_eq!(taken(&outcome), None);
            pair.send(&[byte]).await;
        }
        assert_eq!(taken(&outcome), Some(Ok(b"some actions".to_vec())));
    });
}

#[test]
fn an_answer_to_an_abandoned_exchange_is_counted_as_late_and_frees_its_place() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        drop(pair.begun());
        let kept = pair.exchange().await;
        assert!(pair.connection.summary().starts_with("exchanges=2 abandoned=1 "));
        pair.answer(1, 1, b"late").await;
        assert!(pair.connection.summary().starts_with("exchanges=1 abandoned=0 "));
        assert_eq!((pair.connection.take_late(), pair.connection.take_late()), (1, 0));
        pair.answer(3, 1, b"in time").await;
        assert_eq!(taken(&kept), Some(Ok(b"in time".to_vec())));
        assert_eq!((pair.connection.take_late(), pair.connection.is_closing()), (0, false));
    });
}

#[test]
fn a_second_answer_is_ignored() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let mut waiting = pair.begun();
        pair.send(&[ack(1, 1, b"first"), ack(1, 1, b"second")].concat()).await;
        assert_eq!(collect(&mut waiting), Some(Ok(b"first".to_vec())));
        // It was collected, and its place is free.
        pair.answer(1, 1, b"third").await;
        assert!(matches!(collect(&mut waiting), Some(Err(_))), "no exchange is left");
        assert_eq!((pair.connection.fault(), pair.connection.take_late()), (None, 0));
        assert!(pair.connection.summary().starts_with("exchanges=0 "));
    });
}

#[test]
fn a_stream_dropped_with_its_answer_frees_its_place_without_a_late_answer() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let stream = pair.begun();
        pair.answer(1, 1, b"unread").await;
        drop(stream);
        assert!(pair.connection.summary().starts_with("exchanges=0 abandoned=0 "));
        assert_eq!((pair.connection.take_late(), pair.connection.is_closing()), (0, false));
    });
}

/// Checks that an ACK with these IDs fails the exchanges in flight, 1 and 3.
#[track_caller]
fn check_unknown(stream_id: u64, frame_id: u64) {
    run(move |network| async move {
        let pair = Pair::ready(network, true).await;
        let outcomes = [pair.exchange().await, pair.exchange().await];
        pair.received();
        pair.answer(stream_id, frame_id, b"").await;
        let fault = AgentFault::Protocol(StatusCode::FrameIdNotFound);
        assert_eq!(
            outcomes.each_ref().map(taken),
            [Some(Err(fault)), Some(Err(fault))],
            "{stream_id} {frame_id}"
        );
        assert_eq!(fault.status(), 12);
        assert_eq!(pair.received(), [(SpopFrameKind::HaproxyDisconnect, 0)]);
        assert!(pair.connection.is_closing());
    });
}

#[test]
fn an_answer_with_unknown_ids_fails_all_exchanges() {
    // A later number, the even ones that are never sent, a number that a cut to 32 bits makes known, and another frame.
    for (stream_id, frame_id) in [(5, 1), (2, 1), (0, 0), ((1 << 32) + 1, 1), (1, 2), (3, 0)] {
        check_unknown(stream_id, frame_id);
    }
}

#[test]
fn a_connection_without_pipelining_carries_one_exchange_at_a_time() {
    run(|network| async move {
        let pair = Pair::new(network, true).await;
        assert_eq!(pair.connection.stream_limit(), 1);
        assert_eq!(
            pair.connection.stream().notify(b""),
            Notified::Failed(AgentFault::Protocol(StatusCode::Unknown))
        );
        let mut hello = Vec::new();
        write_agent_hello(MAX_FRAME_SIZE, false, &mut hello);
        pair.send(&hello).await;
        assert_eq!((pair.connection.stream_limit(), pair.connection.is_clogged()), (1, false));
        let mut first = pair.begun();
        assert!(pair.connection.is_clogged());
        assert!(matches!(pair.connection.stream().notify(b""), Notified::Failed(_)));
        pass().await;
        pair.answer(1, 1, b"x").await;
        assert_eq!(collect(&mut first), Some(Ok(b"x".to_vec())));
        assert!(!pair.connection.is_clogged());
        drop(pair.begun());
    });
}

#[test]
fn pipelining_offers_all_places_only_if_both_sides_support_it() {
    for (own, agents, expected) in [(true, true, MAX_EXCHANGES), (true, false, 1), (false, true, 1)] {
        run(move |network| async move {
            let pair = Pair::new(network, own).await;
            let mut hello = Vec::new();
            write_agent_hello(MAX_FRAME_SIZE, agents, &mut hello);
            pair.send(&hello).await;
            assert_eq!(pair.connection.stream_limit(), expected);
            let begun: Vec<_> = (0..expected).map(|_| pair.begun()).collect();
            assert!(pair.connection.is_clogged());
            drop(begun);
        });
    }
}

#[test]
fn an_abandoned_exchange_without_pipelining_retires_the_connection() {
    run(|network| async move {
        let pair = Pair::ready(network, false).await;
        drop(pair.begun());
        assert!(pair.connection.is_closing() && pair.connection.is_clogged());
        // Its answer still arrives, and is dropped.
        pass().await;
        pair.answer(1, 1, b"late").await;
        assert_eq!((pair.connection.take_late(), pair.connection.fault()), (1, None));
    });
}

#[test]
fn too_many_abandoned_exchanges_with_pipelining_retire_the_connection() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let last = pair.exchange().await;
        let mut begun: Vec<_> = (0..51).map(|_| pair.begun()).collect();
        let mut others: Vec<_> = (0..13).map(|_| pair.begun()).collect();
        while begun.len() > 1 {
            begun.truncate(begun.len().saturating_sub(4).max(1));
            // The agent is alive.
            let other = 3 + 2 * 51 + 2 * u64::try_from(others.len() - 1).expect("few");
            pair.answer(other, 1, b"").await;
            drop(others.pop());
        }
        assert!(!pair.connection.is_closing());
        let runs = pair.runs.get();
        drop(begun);
        assert!(pair.connection.is_closing());
        pass().await;
        assert_eq!(pair.runs.get() - runs, 1, "the owner reports it to the pool");
        // Exchanges in flight go on.
        pair.answer(1, 1, b"in time").await;
        assert_eq!(taken(&last), Some(Ok(b"in time".to_vec())));
    });
}

#[test]
fn an_agent_that_vanished_loses_its_connection_after_five_exchanges() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let begun: Vec<_> = (0..5).map(|_| pair.begun()).collect();
        for (given_up, exchange) in begun.into_iter().enumerate() {
            assert!(!pair.connection.is_closing(), "{given_up}");
            drop(exchange);
        }
        assert!(pair.connection.is_closing());
    });
}

#[test]
fn an_agent_that_answers_again_and_again_is_disconnected() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let first = pair.exchange().await;
        for _ in 0..101 {
            pair.answer(1, 1, b"x").await;
        }
        assert_eq!((taken(&first), pair.connection.fault()), (Some(Ok(b"x".to_vec())), None));
        pair.answer(1, 1, b"x").await;
        assert_eq!(pair.connection.fault(), Some(AgentFault::Protocol(StatusCode::InvalidFrame)));
    });
}

#[test]
fn many_exchanges_are_sent_by_one_call_in_one_run_of_the_owner() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let (sends, runs) = (pair.network.sends(), pair.runs.get());
        let begun: Vec<_> = (0..80).map(|_| pair.begun()).collect();
        pass().await;
        assert_eq!((pair.network.sends() - sends, pair.runs.get() - runs), (1, 1));
        assert_eq!(pair.received().len(), begun.len());
        // The same holds for the receiving side.
        let answers: Vec<u8> = (0..80).flat_map(|at| ack(2 * at + 1, 1, b"")).collect();
        let runs = pair.runs.get();
        pair.send(&answers).await;
        assert_eq!(pair.runs.get() - runs, 1);
        for mut stream in begun {
            assert_eq!(collect(&mut stream), Some(Ok(Vec::new())));
        }
    });
}

/// Runs two exchanges up to this event, and checks that both fail with this status.
#[track_caller]
fn check_failure<F: Future<Output = ()>>(expected: u32, event: impl FnOnce(Pair) -> F + 'static) {
    run(move |network| async move {
        let pair = Pair::ready(network, true).await;
        let (connection, outcomes) =
            (Rc::clone(&pair.connection), [pair.exchange().await, pair.exchange().await]);
        event(pair).await;
        pass().await;
        let statuses = outcomes
            .each_ref()
            .map(|outcome| taken(outcome).map(|failed| failed.map_err(AgentFault::status)));
        assert_eq!(statuses, [Some(Err(expected)), Some(Err(expected))]);
        assert!(connection.is_closing() && connection.is_clogged());
        assert!(matches!(connection.stream().notify(b""), Notified::Failed(_)));
        assert!(matches!(connection.greeting(), GreetingProgress::Failed));
    });
}

#[test]
fn a_connection_that_ends_fails_its_exchanges() {
    let io = StatusCode::Io.number();
    check_failure(io, |pair| async move { drop(pair.agent) });
    check_failure(io, |pair| async move { pair.agent.reset() });
    check_failure(io, |pair| async move { pair.agent.finish() });
    check_failure(io, |pair| async move { pair.connection.close() });
    for (status, expected) in [(0, io), (3, 3), (42, 42)] {
        check_failure(expected, move |pair| async move {
            let mut bytes = Vec::new();
            write_agent_disconnect(status, b"bye", &mut bytes);
            pair.send(&bytes).await;
        });
    }
}

#[test]
fn a_frame_that_breaks_the_protocol_fails_the_exchanges() {
    check_failure(StatusCode::FrameTooBig.number(), |pair| async move { pair.send(&[255; 4]).await });
    check_failure(StatusCode::InvalidFrame.number(), |pair| async move { pair.send(&[0; 4]).await });
    let mut fragment = ack(1, 1, b"");
    fragment[8] = 0;
    check_failure(StatusCode::Fragmentation.number(), |pair| async move { pair.send(&fragment).await });
}

#[test]
fn a_failed_handshake_wakes_the_tasks_that_await_it() {
    run(|network| async move {
        let pair = Pair::new(network, true).await;
        let (connection, seen) = (Rc::clone(&pair.connection), Rc::new(Cell::new(GreetingProgress::Awaited)));
        let noted = Rc::clone(&seen);
        spawn(&KIND, Class::Normal, async move {
            while connection.greeting() == GreetingProgress::Awaited {
                wait(Tick::NEVER).await;
            }
            noted.set(connection.greeting());
        });
        pass().await;
        pair.answer(1, 1, b"").await;
        assert_eq!(seen.get(), GreetingProgress::Failed);
    });
}

#[test]
fn a_handshake_wakes_the_tasks_that_await_it() {
    run(|network| async move {
        let pair = Pair::new(network, true).await;
        let (connection, count) = (Rc::clone(&pair.connection), Rc::new(Cell::new(0)));
        for _ in 0..2 {
            let (connection, count) = (Rc::clone(&connection), Rc::clone(&count));
            spawn(&KIND, Class::Normal, async move {
                while connection.greeting() == GreetingProgress::Awaited {
                    wait(Tick::NEVER).await;
                }
                count.set(count.get() + 1);
            });
        }
        pass().await;
        assert_eq!(count.get(), 0);
        let mut hello = Vec::new();
        write_agent_hello(MAX_FRAME_SIZE, true, &mut hello);
        pair.send(&hello).await;
        assert_eq!(count.get(), 2);
    });
}

#[test]
fn a_connection_says_goodbye_once() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        pair.connection.leave();
        pair.connection.leave();
        assert!(pair.connection.is_closing());
        pair.connection.give_up();
        pass().await;
        assert_eq!(pair.received(), [(SpopFrameKind::HaproxyDisconnect, 0)]);
        assert_eq!(pair.connection.fault(), None, "it waits for the agent's answer");
        let mut bytes = Vec::new();
        write_agent_disconnect(0, b"", &mut bytes);
        pair.send(&bytes).await;
        assert_eq!(pair.connection.fault(), Some(AgentFault::Left(0)));
        assert_eq!(pair.received(), []);
    });
}

#[test]
fn the_last_stream_of_an_unwanted_connection_wakes_its_owner() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let Pair { connection, runs, agent, .. } = pair;
        let stream = connection.stream();
        check_last_stream(connection, stream, &runs).await;
        drop(agent);
    });
}

#[test]
fn messages_larger_than_a_frame_are_refused_without_an_exchange() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let mut stream = pair.connection.stream();
        assert_eq!(stream.notify(&vec![0; MAX_FRAME_SIZE as usize]), Notified::TooLarge);
        assert!(pair.connection.summary().starts_with("exchanges=0 "));
        drop(stream);
        pass().await;
        assert_eq!((pair.received(), pair.connection.is_closing()), (vec![], false));
    });
}

#[test]
fn actions_arrive_as_the_agent_wrote_them() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let outcome = pair.exchange().await;
        let action = weir_spop::AgentAction::UnsetVar { scope: weir_spop::ActionScope::Session, name: b"v" };
        let mut bytes = Vec::new();
        write_ack(1, 1, &[action], &mut bytes);
        pair.send(&bytes).await;
        let actions = taken(&outcome).expect("an answer").expect("no fault");
        assert_eq!(weir_spop::AgentActions::new(&actions).collect::<Vec<_>>(), [Ok(action)]);
    });
}

#[test]
fn a_connection_keeps_few_and_small_buffers_of_answers() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let spare = || pair.connection.inner.borrow().spare.len();
        let mut streams: Vec<_> = (0..2 * MAX_SPARE).map(|_| pair.begun()).collect();
        for (number, stream) in (1..).step_by(2).zip(&mut streams) {
            pair.answer(number, FRAME_ID, b"actions").await;
            assert_eq!(stream.received, 0);
        }
        for stream in &mut streams {
            assert_eq!(collect(stream), Some(Ok(b"actions".to_vec())));
            assert_eq!(stream.received, 7);
        }
        assert_eq!(spare(), MAX_SPARE);
        pair.connection.inner.borrow_mut().spare.clear();
        let mut large = pair.begun();
        pair.answer(4 * MAX_SPARE as u64 + 1, FRAME_ID, &[0; MAX_SPARE_SIZE + 1]).await;
        assert!(collect(&mut large).is_some());
        assert_eq!(spare(), 0);
    });
}

#[test]
fn a_farewell_is_awaited_unless_an_exchange_was_given_up() {
    for is_given_up in [false, true] {
        run(move |network| async move {
            let pair = Pair::ready(network, true).await;
            let mut stream = Some(pair.begun());
            stream.take_if(|_| is_given_up);
            assert_eq!(pair.connection.leave(), !is_given_up);
        });
    }
}

#[test]
fn the_end_of_the_wait_for_a_hello_breaks_only_a_connection_without_one() {
    run(|network| async move {
        let pair = Pair::new(network, true).await;
        pair.connection.end_greeting();
        assert!(pair.connection.is_closing() && pair.connection.fault().is_some());
    });
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        pair.connection.end_greeting();
        assert!(!pair.connection.is_closing());
    });
}

#[test]
fn an_agent_that_does_not_read_clogs_its_connection() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let (connection, message) = (&pair.connection, vec![0; 12_000]);
        assert!(!connection.awaits_peer());
        let mut streams = Vec::new();
        while !connection.is_clogged() {
            let mut stream = connection.stream();
            assert_eq!(stream.notify(&message), Notified::Sent);
            assert!(stream.sent > 12_000);
            streams.push(stream);
            pass().await;
            assert!(streams.len() < 50, "the output has a bound below that of exchanges");
        }
        assert!(connection.awaits_peer() && !connection.is_closing());
        let before = connection.progress();
        for _ in 0..100 {
            let _ = pair.agent.try_receive(1 << 16);
            pass().await;
        }
        assert!(!connection.awaits_peer() && !connection.is_clogged());
        assert!(connection.progress() > before);
    });
}

#[test]
fn a_connection_ends_before_the_numbers_of_exchanges_do() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        pair.connection.inner.borrow_mut().next = u32::MAX - 4;
        let streams = [false, true].map(|is_last| {
            let stream = pair.begun();
            assert_eq!(pair.connection.is_closing(), is_last);
            stream
        });
        drop(streams);
    });
}

#[test]
fn the_lease_of_a_stream_ends_with_it() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let (lease, mut stream) = (Rc::new(()), pair.begun());
        stream.hold(Box::new(Rc::clone(&lease)));
        drop(stream);
        assert_eq!(Rc::strong_count(&lease), 1);
    });
}

#[test]
fn an_agent_that_broke_the_protocol_gets_its_disconnect_before_the_close() {
    run(|network| async move {
        let pair = Pair::ready(network, true).await;
        let (connection, message) = (&pair.connection, vec![0; 12_000]);
        let mut streams = Vec::new();
        while !connection.awaits_peer() {
            let mut stream = connection.stream();
            assert_eq!(stream.notify(&message), Notified::Sent);
            streams.push(stream);
            pass().await;
        }
        pair.answer(999, FRAME_ID, b"").await;
        assert!(matches!(connection.fault(), Some(AgentFault::Protocol(_))));
        assert!(matches!(connection.turn(), TurnEnd::Quiet), "the agent has not read its disconnect");
        while connection.awaits_peer() {
            let _ = pair.agent.try_receive(1 << 16);
            pass().await;
            connection.turn();
        }
        assert!(matches!(connection.turn(), TurnEnd::Over));
    });
}
