//! `shutdown session`: streams end at once, whatever they wait for.

mod support;

use std::rc::Rc;

use support::{plain, run};
use weir_sched::{Class, Kind, Tick, now, sleep_until, spawn, wait};
use weir_stream::worker::{end_streams, sessions};

static STUBBORN: Kind = Kind::new("stubborn");
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// The session of the only stream in progress.
async fn the_stream() -> Rc<weir_stream::session::Session> {
    for _ in 0..1000 {
        let found = sessions().into_iter().find(|session| session.view.id.get() != 0);
        if let Some(session) = found {
            return session;
        }
        weir_sched::yield_now().await;
    }
    panic!("no stream begins");
}

#[test]
fn a_stream_that_waits_for_its_server_answers_and_is_logged() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let _server = world.accept("s1").await;
        let id = the_stream().await.view.id.get();
        sleep_until(now().after(20)).await;
        assert_eq!(end_streams(|session| session.view.id.get() == id + 1), 0);
        assert_eq!(end_streams(|session| session.view.id.get() == id), 1);
        assert!(client.rest().await.starts_with("HTTP/1.1 502"));
        assert!(world.log().await.contains(" KH-- "));
        world.check_idle().await;
    });
}

/// The client of an answer of our own does not read it.
#[test]
fn a_stream_whose_client_does_not_read_is_logged() {
    let body = "x".repeat(6000);
    let text = plain(&format!(" http-request return status 200 content-type text/plain string {body}"));
    run(text, |world| async move {
        let mut client = world.client();
        client.make_narrow();
        // Answers to so many requests fill the kernel's buffers.
        client.send(GET.repeat(2000)).await;
        // Until the lines of the answers that did leave are read, and nothing goes on.
        loop {
            sleep_until(now().after(1000)).await;
            if world.is_quiet() {
                break;
            }
            while !world.is_quiet() {
                world.log().await;
            }
        }
        let began = now();
        assert_eq!(end_streams(|_| true), 1);
        assert!(world.log().await.contains(" 200 "), "the answer that did not leave");
        assert!(now().since(began) < 50, "at its next step");
        drop(client);
        world.check_idle().await;
    });
}

/// R67: what does not look whether it was told is ended by the scheduler.
#[test]
fn a_stream_that_does_not_look_is_killed() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let _server = world.accept("s1").await;
        let session = the_stream().await;
        let own_task = session.task.get();
        let (held, stays) = (Rc::new(()), session.clone());
        let stubborn = spawn(&STUBBORN, Class::Normal, {
            let held = held.clone();
            async move {
                let (_held, _session) = (held, stays);
                loop {
                    wait(Tick::NEVER).await;
                }
            }
        });
        session.task.set(stubborn);
        drop(session);
        let began = now();
        assert_eq!(end_streams(|_| true), 1);
        while Rc::strong_count(&held) > 1 {
            assert!(now().since(began) < 1000, "it is never killed");
            sleep_until(now().after(10)).await;
        }
        weir_sched::wake(own_task);
        assert!(client.rest().await.starts_with("HTTP/1.1 502"));
        world.check_idle().await;
    });
}
