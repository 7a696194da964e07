//! Several workers at once: counters stay exact, and idle connections move to workers that need them.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::threads::{Running, counting_origin};
use weir_backend::{BackendCounter as B, FrontendCounter as F, ServerCounter as S};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn text(lines: &str) -> String {
    format!(
        "defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n\
        listen front\n bind 127.0.0.1:1\n{lines}\n"
    )
}

/// Waits until all streams have ended, then checks that nothing is left behind.
fn check_idle(running: &Running) {
    let until = Instant::now() + Duration::from_secs(20);
    let busy = || {
        let streams: u64 =
            running.instance.process_counters.iter().map(|counters| counters.streams_now.value()).sum();
        running.instance.connections.inside() > 0 || streams > 0
    };
    while busy() {
        assert!(Instant::now() < until, "somebody is still served");
        std::thread::yield_now();
    }
    for proxy in &running.instance.proxies {
        assert_eq!(proxy.connections.inside(), 0);
        let Some(backend) = &proxy.backend else { continue };
        assert_eq!((backend.sessions(), backend.queued()), (0, 0));
        for server in backend.servers().iter() {
            assert_eq!((server.served(), server.queued()), (0, 0));
        }
        assert!(servers(proxy).iter().all(|server| server.pools().used() == 0));
    }
}

fn servers(proxy: &weir_stream::instance::Proxy) -> weir_backend::ServerList {
    proxy.servers().servers()
}

/// Runs many clients: each makes `requests` on one connection, then the next one connects.
fn load(running: &Running, threads: usize, clients: usize, requests: usize) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..clients {
                    let mut client = running.client();
                    for _ in 0..requests {
                        client.stream(GET, OK);
                    }
                }
            });
        }
    });
}

#[test]
fn counters_are_exact_under_load_of_several_workers() {
    let lines = " http-reuse always\n balance roundrobin\n server s1 {s1}\n server s2 {s2} maxconn 1";
    let running = Running::start(&text(lines), 3, OK);
    load(&running, 6, 50, 5);
    check_idle(&running);
    let all = 6 * 50 * 5;
    let proxy = &running.instance.proxies[0];
    let frontend = [F::Connections, F::Sessions, F::Requests, F::Http2xx, F::BadRequests];
    assert_eq!(frontend.map(|counter| proxy.frontend_counters.sum(counter)), [300, 300, all, all, 0]);
    assert_eq!(proxy.frontend_counters.sum(F::BytesIn), all * GET.len() as u64);
    let backend = [B::Sessions, B::Http2xx, B::Balanced, B::FailedResponses, B::Retries];
    assert_eq!(backend.map(|counter| proxy.backend_counters.sum(counter)), [all, all, all, 0, 0]);
    let of_servers =
        |counter| servers(proxy).iter().map(|server| server.counters().sum(counter)).sum::<u64>();
    assert_eq!([S::Http2xx, S::Balanced].map(of_servers), [all, all]);
    assert_eq!(of_servers(S::Connects) + of_servers(S::Reuses), all);
    assert!(servers(proxy).iter().all(|server| server.counters().sum(S::Sessions) > 0));
    let limited = &proxy.servers().servers()[1];
    assert_eq!(limited.served_maximum(), 1);
}

#[test]
fn a_worker_reuses_idle_connections_of_other_workers() {
    let running = Running::start(&text(" http-reuse always\n server s1 {s1}"), 2, OK);
    let proxy = &running.instance.proxies[0];
    let idle_of = |worker| servers(proxy)[0].pools().idle_of(worker);
    // One at a time, until both workers have served a client.
    let served = |worker: usize| running.instance.process_counters[worker].requests.value();
    let mut clients = 0;
    while served(0) < 20 || served(1) < 20 {
        running.client().stream(GET, OK);
        clients += 1;
        assert!(clients < 20_000, "one worker gets nobody");
    }
    check_idle(&running);
    // Checked only now, because a client gets its response before the server connection is idle.
    assert_eq!(idle_of(0) + idle_of(1), servers(proxy)[0].pools().idle());
    // A worker waits at most 2 ms to borrow a connection from a busy worker, so more than one may have been opened.
    let connects = proxy.backend_counters.sum(B::Connects);
    assert!(connects * 4 <= clients, "{connects} connections for {clients} clients, one at a time");
    assert_eq!(proxy.backend_counters.sum(B::Reuses) + connects, clients);
}

/// `strict-maxconn`: idle connections of all workers, and those that wait for their only client, make room for new ones.
#[test]
fn strict_maxconn_includes_idle_connections_of_all_workers() {
    for reuse in ["never", "safe", "aggressive", "always"] {
        let (address, most) = counting_origin(OK);
        let lines = format!(" http-reuse {reuse}\n server s1 {address} maxconn 2 strict-maxconn");
        let running = Running::start(&text(&lines), 3, OK);
        // Each client keeps its connection open while others connect.
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let mut client = running.client();
                client.stream(GET, OK);
                client
            })
            .collect();
        load(&running, 6, 20, 5);
        drop(waiting);
        check_idle(&running);
        assert_eq!(most.load(Ordering::Relaxed), 2, "http-reuse {reuse}");
    }
}

/// Servers are added, used, put into maintenance and removed under load on three workers. No request fails.
#[test]
fn servers_are_added_and_removed_under_load_without_failed_requests() {
    let lines = " http-reuse always\n balance roundrobin\n server s1 {s1}";
    let running = Running::start(&text(lines), 3, OK);
    let proxy = &running.instance.proxies[0];
    let backend = proxy.servers();
    let address = backend.servers()[0].settings().address.clone();
    let done = std::sync::atomic::AtomicBool::new(false);
    let set =
        |key, state| backend.change(key, weir_backend::ServerChange::State(state), 0).expect("it is there");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut client = running.client();
                    (0..5).for_each(|_| client.stream(GET, OK));
                }
            });
        }
        for round in 0..20 {
            let settings = weir_backend::ServerSettings {
                name: format!("added{round}"),
                address: address.clone(),
                ..weir_backend::ServerSettings::default()
            };
            let key = backend.add(settings, 0).expect("it may be added").key();
            set(key, weir_backend::RequestedState::Ready);
            while backend.server(key).expect("it is there").counters().sum(S::Http2xx) < 20 {
                std::thread::yield_now();
            }
            set(key, weir_backend::RequestedState::Maintenance);
            while backend.remove(key, 0).is_err() {
                for worker in 0..3 {
                    let instance = Arc::clone(&running.instance);
                    running.run_on(worker, move || {
                        weir_stream::server::idle::forget(&instance.proxies[0], key);
                    });
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    check_idle(&running);
    assert_eq!(servers(proxy).len(), 1);
    assert_eq!(proxy.backend_counters.sum(B::Http5xx), 0);
}
