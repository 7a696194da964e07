//! Streams and stick-tables: counts of tracked entries, limits, stored servers. The counts are HAProxy 3.2's with the same configuration
//! and requests.

mod support;

use support::{HTTP, TCP, World, run};
use weir_expr::Value;
use weir_tables::{DataType, Key, KeyType};

/// A table, or several, in backends of their own.
fn tables(list: &[(&str, &str)]) -> String {
    let one = |(name, line): &(&str, &str)| format!("backend {name}\n stick-table {line}\n");
    list.iter().map(one).collect()
}

const COUNTED: &str = "type string size 100 store conn_cnt,conn_cur,sess_cnt,http_req_cnt,http_err_cnt,http_fail_cnt,\
                       http_req_rate(10s),bytes_in_cnt,bytes_out_cnt,gpc0,gpt0";

/// The counters of a key's entry in the table at that position. `None` without an entry.
fn counters(world: &World, table: usize, key: &str, wanted: &[DataType]) -> Option<Vec<u64>> {
    let key = Key::of(Value::str(key.as_bytes()), KeyType::Text(32)).expect("a key");
    let now = weir_sched::now().as_ms();
    let read = |data: &DataType, row: &weir_tables::LockedEntry<'_>| row.get(*data, 0).expect("it is stored");
    world.instance.tables[table].look(&key, now, |row| wanted.iter().map(|data| read(data, row)).collect())
}

const TRAFFIC: &[DataType] = &[
    DataType::ConnectionCount,
    DataType::ConnectionsCurrent,
    DataType::SessionCount,
    DataType::RequestCount,
    DataType::ErrorCount,
    DataType::FailureCount,
];

/// Sends a request for `path` with these fields. Returns all bytes received until EOF.
async fn request(world: &World, path: &str, fields: &str) -> String {
    let mut client = world.client();
    client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{fields}\r\n")).await;
    client.rest().await
}

#[test]
fn a_tracked_connection_counts_once_and_each_of_its_requests() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n tcp-request connection track-sc0 str(c) table t\n \
         tcp-request content track-sc1 str(r) table t\n http-request return status 200\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        let mut client = world.client();
        for _ in 0..3 {
            client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
            client.expect("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
        assert_eq!(counters(&world, 0, "c", TRAFFIC), Some(vec![1, 1, 1, 3, 0, 0]), "by the connection");
        assert_eq!(counters(&world, 0, "r", TRAFFIC), Some(vec![3, 0, 0, 3, 0, 0]), "by each request");
        client.finish();
        client.closed().await;
        assert_eq!(counters(&world, 0, "c", TRAFFIC), Some(vec![1, 0, 1, 3, 0, 0]), "it is left at the end");
        let bytes = [DataType::BytesInCount, DataType::BytesOutCount];
        assert_eq!(counters(&world, 0, "c", &bytes), Some(vec![3 * 27, 3 * 38]));
        assert_eq!(counters(&world, 0, "r", &bytes), Some(vec![3 * 27, 3 * 38]));
    });
}

#[test]
fn stick_tables_count_client_errors_and_server_failures() {
    let text = format!(
        "{HTTP}{}listen front\n bind 127.0.0.1:1\n http-request track-sc0 path table t\n \
         http-request deny if {{ path /denied }}\n http-request return status 500 if {{ path /own }}\n server s1 {{s1}}\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        support::answer_with(world.origin("s1"), |request| {
            let status = request.split(['/', ' ']).nth(2).unwrap_or_default();
            format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes()
        });
        let cases = [
            ("/200", [1, 0, 0]),
            ("/404", [1, 1, 0]),
            ("/500", [1, 0, 1]),
            ("/501", [1, 0, 0]),
            ("/denied", [1, 1, 0]),
            ("/own", [1, 0, 0]),
        ];
        for (path, expected) in cases {
            request(&world, path, "").await;
            let wanted = [DataType::RequestCount, DataType::ErrorCount, DataType::FailureCount];
            assert_eq!(counters(&world, 0, path, &wanted), Some(expected.to_vec()), "{path}");
        }
    });
}

#[test]
fn http_err_codes_and_http_fail_codes_select_the_counted_statuses() {
    let text = format!(
        "global\n http-err-codes 404 +418\n http-fail-codes -500\n{HTTP}{}listen front\n bind 127.0.0.1:1\n \
         http-request track-sc0 path table t\n server s1 {{s1}}\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        support::answer_with(world.origin("s1"), |request| {
            let status = request.split(['/', ' ']).nth(2).unwrap_or_default();
            format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes()
        });
        for (path, expected) in
            [("/404", [1, 0]), ("/418", [1, 0]), ("/403", [0, 0]), ("/500", [0, 0]), ("/503", [0, 1])]
        {
            request(&world, path, "").await;
            let wanted = [DataType::ErrorCount, DataType::FailureCount];
            assert_eq!(counters(&world, 0, path, &wanted), Some(expected.to_vec()), "{path}");
        }
    });
}

#[test]
fn http_req_rate_limits_each_key_separately() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n http-request track-sc0 req.hdr(key) table t\n \
         http-request deny status 429 if {{ sc0_http_req_rate gt 2 }}\n http-request return status 200\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        let mut seen = Vec::new();
        for key in ["a", "a", "a", "b", "a"] {
            let reply = request(&world, "/", &format!("key: {key}\r\n")).await;
            seen.push(reply[9..12].to_owned());
        }
        assert_eq!(seen, ["200", "200", "429", "200", "429"]);
    });
}

#[test]
fn a_stick_counter_tracks_the_first_key_found_by_a_rule() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n http-request track-sc0 req.hdr(none) table t\n \
         http-request track-sc0 path table t\n http-request track-sc0 str(late) table t\n \
         http-request sc-inc-gpc0(0)\n http-request sc-set-gpt0(0) int(7)\n \
         http-request return status 200 content-type a lf-string \
         \"%[sc0_key] %[sc0_tracked] %[sc1_tracked] [%[sc1_get_gpc0]] %[sc0_get_gpc0] %[sc_get_gpt0(0)] %[sc0_trackers] \
         %[sc0_inc_gpc0] %[path,table_gpc0(t)] %[path,in_table(t)] %[str(x),in_table(t)] %[str(x),table_gpc0(t)] \
         %[table_cnt(t)] %[table_avl(t)]\"\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        let reply = request(&world, "/p", "").await;
        assert!(reply.ends_with("\r\n\r\n/p 1 0 [] 1 7 1 2 2 1 0 0 1 99"), "{reply}");
        assert_eq!(counters(&world, 0, "late", &[DataType::Gpc0]), None);
    });
}

#[test]
fn a_stick_counter_of_the_session_is_not_replaced_by_a_stream_rule() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n tcp-request connection track-sc0 str(c) table t\n \
         tcp-request session track-sc0 str(s0) table t\n tcp-request session track-sc1 str(s) table t\n \
         tcp-request content track-sc0 str(r0) table t\n http-request track-sc1 str(r1) table t\n \
         http-request track-sc2 str(r) table t\n http-request return status 200\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        for _ in 0..2 {
            request(&world, "/", "").await;
        }
        let counted = |key| counters(&world, 0, key, &[DataType::ConnectionCount, DataType::RequestCount]);
        for tracked in ["c", "s", "r"] {
            assert_eq!(counted(tracked), Some(vec![2, 2]), "{tracked}");
        }
        for late in ["s0", "r0", "r1"] {
            assert_eq!(counted(late), None, "{late}");
        }
    });
}

#[test]
fn all_tracked_entries_count_regardless_of_order_and_stored_data() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n http-request track-sc2 str(last) table t\n \
         http-request track-sc0 str(first) table t\n http-request track-sc1 str(rates) table r\n \
         http-request return status 403\n",
        tables(&[("t", COUNTED), ("r", "type string size 100 store http_err_rate(10s),bytes_in_rate(10s)")])
    );
    run(text, |world| async move {
        request(&world, "/", "").await;
        let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".len() as u64;
        for key in ["first", "last"] {
            let counted = [DataType::ConnectionsCurrent, DataType::RequestCount, DataType::BytesInCount];
            assert_eq!(counters(&world, 0, key, &counted), Some(vec![0, 1, request]), "{key}");
        }
        assert_eq!(
            counters(&world, 1, "rates", &[DataType::BytesInRate]),
            Some(vec![request]),
            "a rate alone"
        );
    });
}

#[test]
fn three_stick_counters_on_one_entry_count_three_times() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n tcp-request connection track-sc0 str(k) table t\n \
         tcp-request session track-sc1 str(k) table t\n http-request track-sc2 str(k) table t\n \
         http-request sc-inc-gpc0(0)\n http-request sc-inc-gpc0(2)\n http-response sc-inc-gpc0(1)\n \
         http-request deny if {{ path /denied }}\n http-request return status 200 content-type a lf-string \
         \"%[sc_trackers(0)] %[sc_conn_cur(1)] %[sc_http_req_cnt(2)] %[sc_get_gpc0(1)] %[sc2_trackers] %[sc0_conn_cnt]\"\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        let reply = request(&world, "/", "").await;
        assert!(reply.ends_with("\r\n\r\n3 3 3 2 3 3"), "{reply}");
        assert_eq!(counters(&world, 0, "k", TRAFFIC), Some(vec![3, 0, 2, 3, 0, 0]));
        request(&world, "/denied", "").await;
        assert_eq!(counters(&world, 0, "k", TRAFFIC), Some(vec![6, 0, 4, 6, 3, 0]));
        assert_eq!(counters(&world, 0, "k", &[DataType::Gpc0]), Some(vec![4]), "each rule once");
    });
}

#[test]
fn gpc_and_gpt_arrays_serve_the_older_single_counters() {
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n http-request track-sc0 path table t\n \
         http-request sc-inc-gpc(1,0)\n http-request sc-add-gpc(0,0) int(5)\n http-request sc-inc-gpc0(0)\n \
         http-request sc-set-gpt(1,0) 9\n http-request sc-inc-gpc(7,0)\n \
         http-request return status 200 content-type a lf-string \
         \"%[sc_get_gpc(0,0)] %[sc_get_gpc(1,0)] %[sc0_get_gpc0] %[sc0_gpc1_rate] %[sc_get_gpt(1,0)] \
         [%[sc_get_gpc(7,0)]] %[path,table_gpc_rate(0,t)]\"\n",
        tables(&[("t", "type string size 10 store gpc(2),gpc_rate(2,10s),gpt(2)")])
    );
    run(text, |world| async move {
        let reply = request(&world, "/", "").await;
        assert!(reply.ends_with("\r\n\r\n6 1 6 1 9 [] 6"), "{reply}");
    });
}

/// Two servers, round-robin unless a table selects one.
fn backend_configuration(lines: &str) -> String {
    format!(
        "{HTTP}listen front\n bind 127.0.0.1:1\n balance roundrobin\n stick-table type string size 100\n{lines}\n \
         cookie S insert indirect\n server s1 {{s1}} cookie c1\n server s2 {{s2}} cookie c2\n server s3 {{s3}} non-stick\n"
    )
}

fn serve_names(world: &World) {
    for name in ["s1", "s2", "s3"] {
        support::answer_with(world.origin(name), move |_| {
            format!("HTTP/1.1 200 OK\r\nsession: of-{name}\r\ncontent-length: 2\r\n\r\n{name}").into_bytes()
        });
    }
}

async fn server_of(world: &World, fields: &str) -> String {
    let reply = request(world, "/", fields).await;
    reply[reply.len() - 2..].to_owned()
}

#[test]
fn stick_on_returns_a_client_to_its_server() {
    run(backend_configuration(" stick on req.hdr(key)"), |world| async move {
        serve_names(&world);
        let first = server_of(&world, "key: a\r\n").await;
        let second = server_of(&world, "key: b\r\n").await;
        assert_ne!(first, second);
        for _ in 0..3 {
            assert_eq!(server_of(&world, "key: a\r\n").await, first);
            assert_eq!(server_of(&world, "key: b\r\n").await, second);
        }
    });
}

#[test]
fn a_cookie_overrides_a_stick_table_and_updates_its_entry() {
    run(backend_configuration(" stick on req.hdr(key)"), |world| async move {
        serve_names(&world);
        assert_eq!(server_of(&world, "key: a\r\ncookie: S=c2\r\n").await, "s2");
        for _ in 0..2 {
            assert_eq!(server_of(&world, "key: a\r\n").await, "s2");
        }
        assert_eq!(server_of(&world, "key: a\r\ncookie: S=c1\r\n").await, "s1");
        assert_eq!(server_of(&world, "key: a\r\n").await, "s1", "the last server is remembered");
    });
}

#[test]
fn stick_store_response_stores_the_server_of_a_response() {
    let rules = " stick match req.hdr(session)\n stick store-response res.hdr(session)";
    run(backend_configuration(rules), |world| async move {
        serve_names(&world);
        assert_eq!(server_of(&world, "").await, "s1");
        assert_eq!(server_of(&world, "").await, "s2");
        for _ in 0..2 {
            assert_eq!(server_of(&world, "session: of-s2\r\n").await, "s2");
            assert_eq!(server_of(&world, "session: of-s1\r\n").await, "s1");
        }
    });
}

#[test]
fn stick_on_stores_the_server_chosen_by_use_server() {
    run(
        backend_configuration(" stick on req.hdr(key)\n use-server s2 if { req.hdr(to) s2 }"),
        |world| async move {
            serve_names(&world);
            for key in ["a", "b"] {
                assert_eq!(server_of(&world, &format!("key: {key}\r\nto: s2\r\n")).await, "s2");
                assert_eq!(server_of(&world, &format!("key: {key}\r\n")).await, "s2");
            }
        },
    );
}

#[test]
fn servers_with_non_stick_are_not_stored_in_the_table() {
    run(
        backend_configuration(" stick on req.hdr(key)\n use-server s3 if { req.hdr(to) s3 }"),
        |world| async move {
            serve_names(&world);
            assert_eq!(server_of(&world, "key: a\r\nto: s3\r\n").await, "s3");
            let next = server_of(&world, "key: a\r\n").await;
            assert_ne!(next, "s3");
        },
    );
}

/// The manual (11.1, "bytes_in_cnt", "bytes_out_cnt") counts bytes received from clients and sent to clients, heads included. HAProxy 3.2
/// counts them in its own form of messages: 39 for the first request here, of 28 bytes, and 76 for an answer of 69.
#[test]
fn byte_counters_count_wire_bytes_once_for_each_stick_counter() {
    let track: String =
        (0..3).map(|counter| format!(" http-request track-sc{counter} str(k) table t\n")).collect();
    let text = format!(
        "{HTTP}{}frontend front\n bind 127.0.0.1:1\n{track} \
         http-request return status 200 content-type text/plain string hello\n",
        tables(&[("t", COUNTED)])
    );
    run(text, |world| async move {
        let requests = [
            "GET /a HTTP/1.1\r\nhost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n0123456789",
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ];
        let mut client = world.client();
        client.send(requests.concat()).await;
        let answers = client.rest().await;
        assert_eq!((requests[0].len(), answers.matches("200 OK").count()), (28, 3));
        let wire = [requests.concat().len(), answers.len()].map(|bytes| 3 * bytes as u64);
        let counted = counters(&world, 0, "k", &[DataType::BytesInCount, DataType::BytesOutCount]);
        assert_eq!(counted, Some(wire.to_vec()));
        assert_eq!(counters(&world, 0, "k", &[DataType::RequestCount]), Some(vec![9]));
    });
}

#[test]
fn a_tcp_content_rule_tracks_a_key_of_the_payload() {
    let text = format!(
        "{TCP}{}listen front\n bind 127.0.0.1:1\n tcp-request inspect-delay 5s\n \
         tcp-request content track-sc0 req.payload(0,2) table t\n tcp-request content accept if {{ req.len gt 1 }}\n \
         server s1 {{s1}}\n",
        tables(&[(
            "t",
            "type binary len 2 size 10 store conn_cnt,conn_cur,bytes_in_cnt,bytes_out_cnt,http_req_cnt"
        )])
    );
    run(text, |world| async move {
        let mut client = world.client();
        client.send("k").await;
        client.send("eys").await;
        let mut server = world.accept("s1").await;
        server.expect("keys").await;
        let key = Key::of(Value::bin(b"ke"), KeyType::Binary(2)).expect("a key");
        let read = |data| {
            let now = weir_sched::now().as_ms();
            world.instance.tables[0].look(&key, now, |row| row.get(data, 0).expect("it is stored"))
        };
        assert_eq!(read(DataType::ConnectionsCurrent), Some(1));
        client.finish();
        server.closed().await;
        server.send("values").await;
        server.finish();
        client.rest().await;
        assert_eq!(read(DataType::ConnectionsCurrent), Some(0));
        assert_eq!(read(DataType::ConnectionCount), Some(1));
        assert_eq!((read(DataType::BytesInCount), read(DataType::BytesOutCount)), (Some(4), Some(6)));
        assert_eq!(read(DataType::RequestCount), Some(0), "nothing of HTTP");
    });
}
