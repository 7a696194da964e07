//! A connection between two requests, after one that ended early, at its begin and at its end.

use super::*;
use crate::ends::BodySink;

#[test]
fn the_owner_sees_the_close_of_an_idle_connection() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let reader = pair.reader("/").await;
        pair.send(&response(1, b"x")).await;
        assert_eq!(reader.end.get(), Some(ReceiveOutcome::End));
        assert!(!pair.connection.is_closing());
        let runs = pair.runs.get();
        pair.peer.finish();
        pass().await;
        assert_eq!(pair.runs.get() - runs, 1);
        assert_eq!(pair.connection.fault(), Some(RESET));
        assert!(pair.connection.is_closing());
    });
}

#[test]
fn the_owner_sees_a_close_that_arrived_with_the_response() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        pair.peer.send(&response(1, b"x")).await.expect("it stands");
        pair.peer.finish();
        pass().await;
        // The stream takes its response, and nothing behind it.
        assert_eq!(stream.receive(usize::MAX), ReceiveOutcome::Bytes(1));
        stream.complete();
        drop(stream);
        pass().await;
        assert_eq!(pair.connection.fault(), Some(RESET));
    });
}

#[test]
fn a_complete_request_without_its_end_is_drained_before_the_connection_is_lent() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        pair.records(|out| write_stdout(1, b"Content-Length: 0\n\n", out)).await;
        assert_eq!(stream.take_head(HEAD_LIMIT, &mut Vec::new()), Ok(()));
        stream.complete();
        let runs = pair.runs.get();
        drop(stream);
        assert!(pair.connection.is_clogged() && !pair.connection.is_closing());
        pass().await;
        // The owner bounds the wait for the end.
        assert!(pair.connection.awaits_peer());
        assert_eq!(pair.runs.get() - runs, 1, "the owner runs to bound its wait");
        let mut early = pair.connection.stream();
        assert_eq!(begin(&mut early, GET, "/"), SendOutcome::Failed(ConnectionFault::Refused));
        let progress = pair.connection.progress();
        // Late output belongs to no other request.
        pair.records(|out| write_stdout(1, b"late", out)).await;
        assert_eq!(pair.connection.progress(), progress, "output is no progress towards the end");
        pair.records(|out| end(1, out)).await;
        assert!(pair.connection.progress() > progress && !pair.connection.awaits_peer());
        assert!(!pair.connection.is_clogged());
        let mut next = pair.begin(GET);
        pair.send(&response(2, b"next")).await;
        assert_eq!(receive_all(&mut next), (b"next".to_vec(), ReceiveOutcome::End));
    });
}

#[test]
fn the_wait_for_an_end_is_not_bounded_while_a_request_pauses_reading() {
    let conditions = Conditions { window: 1 << 18, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (mut slow, mut complete) = (pair.begin(GET), pair.begin(GET));
        let sent = body(MAX_ARRIVED + 1000);
        pair.records(|out| {
            write_stdout(2, b"x", out);
            sent.chunks(MAX_CONTENT).for_each(|piece| write_stdout(1, piece, out));
        })
        .await;
        assert_eq!(complete.receive(10), ReceiveOutcome::Bytes(1));
        complete.complete();
        drop(complete);
        pair.records(|out| end(2, out)).await;
        // The end is in the socket, and the application cannot do more.
        assert!(!pair.connection.awaits_peer());
        assert!(receive_all(&mut slow).0 == sent);
        assert!(pair.connection.awaits_peer());
        pass().await;
        assert!(!pair.connection.awaits_peer());
    });
}

#[test]
fn output_after_a_complete_response_is_bounded() {
    for (surplus, fault) in [(MAX_SURPLUS, None), (MAX_SURPLUS + 1, Some(ConnectionFault::Protocol))] {
        let conditions = Conditions { window: 1 << 18, ..Conditions::CALM };
        run_with(conditions, move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(GET);
            pair.records(|out| write_stdout(1, b"x", out)).await;
            assert_eq!(receive_all(&mut stream).1, ReceiveOutcome::Nothing);
            stream.complete();
            drop(stream);
            let bytes = body(surplus);
            pair.records(|out| bytes.chunks(MAX_CONTENT).for_each(|piece| write_stdout(1, piece, out))).await;
            assert_eq!((pair.connection.fault(), pair.held()), (fault, 0), "{surplus}");
        });
    }
}

#[test]
fn output_behind_a_complete_response_does_not_hold_other_requests() {
    for (surplus, fault) in [(MAX_ARRIVED, None), (MAX_ARRIVED + 1, Some(ConnectionFault::Protocol))] {
        run(move |network| async move {
            let pair = Pair::new(network, MULTIPLEXED).await;
            let (mut first, mut other) = (pair.begin(GET), pair.begin(GET));
            let bytes = body(surplus);
            pair.records(|out| bytes.chunks(MAX_CONTENT).for_each(|piece| write_stdout(1, piece, out))).await;
            assert!(pair.connection.is_clogged(), "reading is paused");
            first.complete();
            drop(first);
            pass().await;
            assert_eq!(
                (pair.connection.fault(), pair.connection.is_clogged()),
                (fault, fault.is_some()),
                "{surplus}"
            );
            if fault.is_none() {
                pair.send(&response(2, b"other")).await;
                assert_eq!(receive_all(&mut other), (b"other".to_vec(), ReceiveOutcome::End));
            }
        });
    }
}

#[test]
fn a_request_that_is_abandoned_is_aborted_and_its_connection_leaves() {
    for options in [SERIAL, MULTIPLEXED] {
        run(move |network| async move {
            let pair = Pair::new(network, options).await;
            let stream = pair.begin(GET);
            let other = if options.multiplexes { Some(pair.reader("/other").await) } else { None };
            pair.records(|out| write_stdout(1, b"half", out)).await;
            drop(stream);
            assert!(pair.connection.is_closing() && pair.connection.is_clogged());
            pair.read().await;
            assert!(pair.application.borrow().requests[&1].is_aborted);
            let mut late = pair.connection.stream();
            assert!(matches!(begin(&mut late, GET, "/"), SendOutcome::Failed(_)));
            // Requests in progress go on.
            if let Some(other) = other {
                pair.send(&[response(1, b"late"), response(2, b"for the other")].concat()).await;
                assert_eq!(other.text(), "for the other");
            }
            assert_eq!(pair.connection.fault(), None);
        });
    }
}

#[test]
fn an_upload_goes_on_after_the_end_of_the_output() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        assert_eq!(stream.send(b"half", false), SendOutcome::All);
        pair.records(|out| {
            write_stdout(1, b"early", out);
            write_stdout(1, b"", out);
        })
        .await;
        assert_eq!(receive_all(&mut stream), (b"early".to_vec(), ReceiveOutcome::End));
        assert_eq!(stream.send(b" of it", true), SendOutcome::All);
        pair.read().await;
        assert_eq!(pair.stdin(1), (b"half of it".to_vec(), true));
        stream.complete();
        drop(stream);
        pair.records(|out| end(1, out)).await;
        assert!(!pair.connection.is_closing() && !pair.connection.is_clogged());
    });
}

#[test]
fn a_connection_with_an_unfinished_upload_and_a_complete_response_leaves() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        assert_eq!(stream.send(b"half", false), SendOutcome::All);
        pair.records(|out| write_stdout(1, b"early", out)).await;
        assert_eq!(receive_all(&mut stream), (b"early".to_vec(), ReceiveOutcome::Nothing));
        stream.complete();
        drop(stream);
        assert!(pair.connection.is_closing());
        pair.read().await;
        assert!(pair.application.borrow().requests[&1].is_aborted);
    });
}

#[test]
fn the_owner_sends_the_queued_records_of_a_request_that_ended() {
    let conditions = Conditions { window: 1_000, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        assert_eq!(stream.send(&body(3_000), true), SendOutcome::All);
        pair.send(&response(1, b"early")).await;
        assert_eq!(receive_all(&mut stream), (b"early".to_vec(), ReceiveOutcome::End));
        // Its task does not wait for the socket.
        assert!(!stream.has_pending() && !stream.is_full());
        assert_eq!((stream.flush(), stream.finish()), (SendOutcome::All, SendOutcome::All));
        // The socket takes more, and nothing else happens before the stream ends.
        assert_eq!(pair.read_some(1_000), 1_000);
        pass().await;
        stream.complete();
        drop(stream);
        pair.read().await;
        assert_eq!(pair.stdin(1), (body(3_000), true));
        assert!(!pair.connection.is_closing() && !pair.connection.is_clogged());
    });
}

#[test]
fn a_connection_with_an_unfinished_upload_leaves() {
    // The application ended the request and does not read the rest of its body.
    for finishes in [false, true] {
        run(move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(POST);
            assert_eq!(stream.send(b"half", false), SendOutcome::All);
            pair.send(&response(1, b"early")).await;
            assert_eq!(receive_all(&mut stream), (b"early".to_vec(), ReceiveOutcome::End));
            assert_eq!((stream.send(b"more", false), stream.shut()), (SendOutcome::All, false));
            if finishes {
                assert_eq!((stream.send(b"the rest", true), stream.shut()), (SendOutcome::All, true));
            }
            stream.complete();
            drop(stream);
            assert!(pair.connection.is_closing(), "{finishes}");
            pair.read().await;
            assert_eq!(pair.stdin(1), (b"half".to_vec(), false));
            assert_eq!(pair.peer.bytes().0 as usize, response(1, b"early").len());
        });
    }
}

#[test]
fn the_end_of_a_request_ends_the_wait_for_a_full_socket() {
    // The application answers, and does not read the rest of the body. It ends the request, or its output and the connection.
    for ends_request in [true, false] {
        let conditions = Conditions { window: 1_000, ..Conditions::CALM };
        run_with(conditions, move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(POST);
            assert_eq!(stream.send(&body(3_000), false), SendOutcome::All);
            assert!(stream.has_pending() && stream.is_full());
            assert_eq!(stream.send(&body(3_000), false), SendOutcome::Part(0));
            pair.records(|out| {
                write_stdout(1, b"early", out);
                write_stdout(1, b"", out);
                if ends_request {
                    end(1, out);
                }
            })
            .await;
            assert_eq!(receive_all(&mut stream), (b"early".to_vec(), ReceiveOutcome::End));
            let Pair { peer, connection, .. } = pair;
            if ends_request {
                assert_eq!(BodySink::flush(&mut stream, false), SendOutcome::All);
                assert!(!stream.has_pending() && !stream.is_full());
                assert_eq!(stream.send(&body(3_000), false), SendOutcome::All, "the rest is dropped");
                assert_eq!(stream.finish(), SendOutcome::All);
            } else {
                assert!(stream.has_pending() && stream.is_full(), "it may still read");
                drop(peer);
                pass().await;
                assert!(matches!(BodySink::flush(&mut stream, false), SendOutcome::Failed(_)));
            }
            assert_eq!(stream.fault(), None, "the response is complete");
            stream.complete();
            drop(stream);
            assert!(connection.is_closing());
        });
    }
}

#[test]
fn an_upload_that_waits_sees_the_end_of_its_request() {
    // The task of a response that is complete by its length, or by the end of the output, receives no more.
    for ends_output in [true, false] {
        let conditions = Conditions { window: 1_000, ..Conditions::CALM };
        run_with(conditions, move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(POST);
            assert_eq!(stream.send(&body(3_000), false), SendOutcome::All);
            pair.records(|out| {
                write_stdout(1, b"early", out);
                if ends_output {
                    write_stdout(1, b"", out);
                }
            })
            .await;
            assert_eq!(receive_all(&mut stream).0, b"early".to_vec());
            assert_eq!(stream.flush(), SendOutcome::Part(0));
            pair.records(|out| end(1, out)).await;
            assert_eq!(stream.flush(), SendOutcome::All);
            assert!(!stream.has_pending() && stream.ended());
            assert_eq!(stream.send(&body(3_000), true), SendOutcome::All);
        });
    }
}

#[test]
fn output_that_an_upload_received_wakes_the_task_for_its_response() {
    let conditions = Conditions { window: 1_000, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        assert_eq!(stream.send(&body(3_000), false), SendOutcome::All);
        pair.records(|out| write_stdout(1, b"half", out)).await;
        assert_eq!(stream.flush(), SendOutcome::Part(0));
        assert_eq!(stream.input(), b"half");
        let before = now();
        wait(before.after(5_000)).await;
        assert_eq!(now(), before, "the task was not woken");
        // An upload receives nothing while the response has input.
        pair.records(|out| write_stdout(1, b" of it", out)).await;
        assert_eq!((stream.flush(), take(&mut stream)), (SendOutcome::Part(0), b"half".to_vec()));
        assert_eq!(receive_all(&mut stream), (b" of it".to_vec(), ReceiveOutcome::Nothing));
    });
}

#[test]
fn an_upload_that_ends_early_leaves_those_of_other_requests_whole() {
    let conditions = Conditions { window: 8_000, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (mut first, mut second) = (pair.begin(POST), pair.begin(POST));
        assert_eq!(second.send(&body(10_000), false), SendOutcome::All);
        for _ in 0..2 {
            while !first.is_full() {
                assert_eq!(first.send(&body(10_000), false), SendOutcome::All);
            }
            pass().await;
        }
        pair.send(&response(1, b"early")).await;
        assert_eq!(receive_all(&mut first), (b"early".to_vec(), ReceiveOutcome::End));
        assert!(!first.is_full() && !first.has_pending() && second.is_full());
        assert_eq!(first.send(&body(90_000), true), SendOutcome::All);
        first.complete();
        drop(first);
        assert!(pair.connection.is_closing() && pair.connection.fault().is_none());
        // The application reads on. Its records are not cut.
        while pair.connection.inner.borrow().engine.output().len() >= MAX_OUTPUT {
            pair.read().await;
        }
        assert_eq!(second.send(&body(10_000), true), SendOutcome::All);
        pair.read().await;
        assert!(pair.stdin(2) == ([body(10_000), body(10_000)].concat(), true));
    });
}

#[test]
fn a_request_with_a_finished_upload_leaves_its_connection_usable() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        assert_eq!((stream.send(b"all", false), stream.shut()), (SendOutcome::All, false));
        assert_eq!((stream.finish(), stream.shut()), (SendOutcome::All, true));
        pair.send(&response(1, b"x")).await;
        assert_eq!(receive_all(&mut stream).1, ReceiveOutcome::End);
        stream.complete();
        drop(stream);
        assert!(!pair.connection.is_closing() && !pair.connection.is_clogged());
    });
}

#[test]
fn a_response_that_precedes_a_close_can_be_read_after_a_failed_send() {
    for (options, length) in [(SERIAL, 5_000), (SERIAL, 100), (MULTIPLEXED, 100)] {
        run(move |network| async move {
            let pair = Pair::new(network, options).await;
            let mut stream = pair.begin(POST);
            let _other = options.multiplexes.then(|| pair.begin(GET));
            pass().await;
            // The application answers without reading the body, and closes, which resets the connection.
            pair.send(&response(1, b"early")).await;
            let Pair { peer, connection, .. } = pair;
            drop(peer);
            pass().await;
            for _ in 0..2 {
                assert_eq!(stream.send(&body(length), false), SendOutcome::All, "the rest is dropped");
                assert!(!stream.has_pending() && !stream.is_full());
            }
            // The failed send looked for the response already.
            let received = take(&mut stream);
            assert!(connection.is_closing());
            let (rest, outcome) = receive_all(&mut stream);
            assert_eq!(([received, rest].concat(), outcome), (b"early".to_vec(), ReceiveOutcome::End));
            assert_eq!(stream.fault(), None);
            drop(stream);
            pass().await;
            assert!(connection.fault().is_some());
        });
    }
}

#[test]
fn a_connection_that_is_not_kept_carries_one_request() {
    run(|network| async move {
        let pair = Pair::new(network, ConnectionOptions { keeps: false, ..MULTIPLEXED }).await;
        let reader = pair.reader("/").await;
        pair.read().await;
        assert!(!pair.application.borrow().requests[&1].keeps);
        assert!(pair.connection.is_closing() && pair.connection.is_clogged());
        let mut second = pair.connection.stream();
        assert_eq!(begin(&mut second, GET, "/"), SendOutcome::Failed(ConnectionFault::Refused));
        let runs = pair.runs.get();
        pair.send(&response(1, b"x")).await;
        assert_eq!((reader.text(), reader.end.get()), ("x".into(), Some(ReceiveOutcome::End)));
        assert_eq!(pair.runs.get() - runs, 1, "the owner closes it");
    });
}

/// Waits for the greeting in a task of its own.
async fn greeter(pair: &Pair) -> Rc<Cell<(GreetingProgress, u32)>> {
    let seen = Rc::new(Cell::new((GreetingProgress::Awaited, 0)));
    let (noted, connection) = (Rc::clone(&seen), Rc::clone(&pair.connection));
    spawn(&KIND, Class::Normal, async move {
        loop {
            noted.set((connection.greeting(), noted.get().1 + 1));
            match noted.get().0 {
                GreetingProgress::Awaited => drop(wait(Tick::NEVER).await),
                _ => return,
            }
        }
    });
    pass().await;
    seen
}

#[test]
fn the_limits_of_an_application_end_the_greeting() {
    let options = ConnectionOptions { get_values: true, ..SERIAL };
    run(move |network| async move {
        let pair = Pair::new(network, options).await;
        let waiting = [greeter(&pair).await, greeter(&pair).await];
        pair.read().await;
        assert_eq!(pair.application.borrow().value_queries, 1);
        for _ in 0..3 {
            assert_eq!(pair.connection.greeting(), GreetingProgress::Awaited);
        }
        assert_eq!(pair.connection.inner.borrow().greeting_waiters.len(), 3);
        let mut early = pair.connection.stream();
        assert_eq!(begin(&mut early, GET, "/"), SendOutcome::Failed(ConnectionFault::Refused));
        assert_eq!(pair.connection.stream_limit(), 1);
        pair.records(|out| write_values(&[("FCGI_MAX_REQS", "3"), ("FCGI_MPXS_CONNS", "1")], out)).await;
        assert_eq!(waiting.each_ref().map(|seen| seen.get()), [(GreetingProgress::Complete, 2); 2]);
        assert_eq!(
            (pair.connection.greeting(), pair.connection.stream_limit()),
            (GreetingProgress::Complete, 3)
        );
        pair.connection.end_greeting();
        assert_eq!(pair.connection.fault(), None);
        let _first = pair.begin(GET);
    });
}

#[test]
fn an_application_that_does_not_know_get_values_is_used_as_configured() {
    let options = ConnectionOptions { get_values: true, ..MULTIPLEXED };
    run(move |network| async move {
        let pair = Pair::new(network, options).await;
        pair.records(|out| write_unknown_type(9, out)).await;
        assert_eq!(
            (pair.connection.greeting(), pair.connection.stream_limit()),
            (GreetingProgress::Complete, 8)
        );
    });
}

#[test]
fn a_greeting_without_an_answer_fails() {
    let options = ConnectionOptions { get_values: true, ..SERIAL };
    for closes in [true, false] {
        run(move |network| async move {
            let pair = Pair::new(network, options).await;
            let waiting = greeter(&pair).await;
            match closes {
                true => pair.peer.finish(),
                // The wait timed out.
                false => pair.connection.end_greeting(),
            }
            pass().await;
            assert_eq!(waiting.get(), (GreetingProgress::Failed, 2));
            assert!(pair.connection.is_closing());
        });
    }
}

#[test]
fn error_output_arrives_in_pieces_beside_the_response() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        let record = records(|out| write_stderr(1, b"a warning", out));
        pair.send(&record[..12]).await;
        assert_eq!(receive_all(&mut stream), (vec![], ReceiveOutcome::Nothing));
        pair.send(&record[12..]).await;
        pair.records(|out| {
            write_stdout(1, b"x", out);
            write_stderr(1, b"more", out);
        })
        .await;
        assert_eq!(receive_all(&mut stream), (b"x".to_vec(), ReceiveOutcome::Nothing));
        let expected = [("a wa", false), ("rning", true), ("more", true)];
        assert_eq!(*pair.errors.borrow(), expected.map(|(text, ends)| (text.to_owned(), ends)));
    });
}

#[test]
fn records_without_output_do_not_keep_the_task_from_others() {
    let conditions = Conditions { window: 1 << 20, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let reader = pair.reader("/").await;
        let (runs, receives) = (reader.runs.get(), pair.network.receives());
        let pieces = 1_000_000 / MAX_CONTENT;
        reader.is_slow.set(true);
        pair.records(|out| {
            (0..pieces).for_each(|_| write_stderr(1, &body(MAX_CONTENT), out));
            out.extend(response(1, b"x"));
        })
        .await;
        assert_eq!(pair.network.receives(), receives);
        reader.is_slow.set(false);
        weir_sched::wake(pair.connection.inner.borrow().requests.first_task());
        pass().await;
        let (runs, receives) = (u64::from(reader.runs.get() - runs), pair.network.receives() - receives);
        assert_eq!((reader.text(), reader.end.get()), ("x".into(), Some(ReceiveOutcome::End)));
        assert!(runs > 2 && receives / runs <= 8, "{receives} receives in {runs} runs");
    });
}

#[test]
fn a_flood_of_stray_records_breaks_the_connection() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let reader = pair.reader("/").await;
        pair.records(|out| (0..200).for_each(|_| write_stdout(9, b"x", out))).await;
        assert_eq!(reader.end.get(), Some(ReceiveOutcome::Failed(ConnectionFault::Protocol)));
        assert!(pair.connection.is_closing());
    });
}

#[test]
fn a_stream_without_news_is_quiet() {
    for options in [SERIAL, MULTIPLEXED] {
        run(move |network| async move {
            let pair = Pair::new(network, options).await;
            let mut stream = pair.begin(GET);
            let _other = options.multiplexes.then(|| pair.begin(GET));
            pass().await;
            let _ = stream.receive(usize::MAX);
            assert!(stream.is_quiet());
            pair.records(|out| write_stdout(1, b"x", out)).await;
            assert!(!stream.is_quiet());
            assert_eq!(stream.receive(usize::MAX), ReceiveOutcome::Bytes(1));
            assert!(!stream.is_quiet());
            take(&mut stream);
            assert!(stream.is_quiet());
            pair.records(|out| end(1, out)).await;
            assert!(!stream.is_quiet());
        });
    }
}

#[test]
fn the_last_stream_of_an_unwanted_connection_wakes_its_owner() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let Pair { connection, runs, peer, .. } = pair;
        let stream = connection.stream();
        check_last_stream(connection, stream, &runs).await;
        drop(peer);
    });
}

#[test]
fn a_connection_that_leaves_sends_its_queued_records() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        drop(pair.begin(GET));
        let sends = pair.network.sends();
        assert!(!pair.connection.leave(), "an application does not answer");
        assert_eq!(pair.network.sends() - sends, 1);
        pair.read().await;
        assert!(pair.application.borrow().requests[&1].is_aborted);
    });
}

#[test]
fn a_stream_begins_empty_and_drops_its_lease() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let lease = Rc::new(());
        let mut stream = pair.begin(GET);
        stream.hold(Box::new(Rc::clone(&lease)));
        pair.records(|out| write_stdout(1, b"A: longer than the next head\nB: c", out)).await;
        assert_eq!(stream.take_head(HEAD_LIMIT, &mut Vec::new()), Err(NoCgiHead::Awaited));
        pair.records(|out| end(1, out)).await;
        assert_eq!(stream.receive(HEAD_LIMIT), ReceiveOutcome::End);
        stream.complete();
        drop(stream);
        assert_eq!(Rc::strong_count(&lease), 1);
        // The buffers are those of the first.
        let mut stream = pair.connection.stream();
        assert!(stream.params_mut().is_empty() && stream.input().is_empty());
        assert_eq!(begin(&mut stream, GET, "/next"), SendOutcome::All);
        pair.send(&response(2, b"A: b\n\nbody")).await;
        assert_eq!(stream.take_head(HEAD_LIMIT, &mut Vec::new()), Ok(()));
        assert_eq!(stream.input(), b"body");
        pair.read().await;
        assert_eq!(pair.paths()[1], (2, "/next".to_owned()));
    });
}

#[test]
fn an_unopened_stream_leaves_no_trace() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.connection.stream();
        assert_eq!((stream.flush(), stream.has_pending()), (SendOutcome::All, false));
        assert_eq!(stream.fault(), None);
        drop(stream);
        pass().await;
        assert_eq!((pair.read_some(100), pair.connection.is_closing()), (0, false));
    });
}
