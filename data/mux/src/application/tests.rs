//! Requests to a scripted application: the bytes of each of them, the tasks that events wake, and the moments when a connection can be lent again.

use weir_fcgi::ProtocolStatus;
use weir_fcgi::testing::{
    ScriptedApplication, write_end, write_stderr, write_stdout, write_unknown_type, write_values,
};
use weir_http::Kind;
use weir_sched::simulate::network::{Conditions, SimulatedNetwork, SimulatedPeer};
use weir_sched::{Class, Tick, now, sleep_until, spawn, wait};

use super::requests::{MAX_ARRIVED, MAX_SURPLUS};
use super::*;
use crate::message::Message;
use crate::scripted_peer::{KIND, accepted, check_last_stream, owned, pass, run, run_with};

mod connections;

const SERIAL: ConnectionOptions =
    ConnectionOptions { get_values: false, keeps: true, multiplexes: false, max_requests: 1 };
const MULTIPLEXED: ConnectionOptions = ConnectionOptions { multiplexes: true, max_requests: 8, ..SERIAL };

/// A connection to an application with its owner task, and the application's end.
struct Pair {
    network: SimulatedNetwork,
    connection: Rc<ApplicationMultiplexer>,
    peer: SimulatedPeer,
    application: RefCell<ScriptedApplication>,
    /// Runs of the owner task.
    runs: Rc<Cell<u32>>,
    /// The error output, and whether each piece ends its record.
    errors: Rc<RefCell<Vec<(String, bool)>>>,
}

struct NotedErrors(Rc<RefCell<Vec<(String, bool)>>>);

impl ErrorOutput for NotedErrors {
    fn write(&mut self, text: &[u8], ends: bool) {
        self.0.borrow_mut().push((String::from_utf8_lossy(text).into_owned(), ends));
    }
}

impl Pair {
    async fn new(network: SimulatedNetwork, options: ConnectionOptions) -> Pair {
        let (connection, peer) = accepted(&network).await;
        let errors = Rc::new(RefCell::new(Vec::new()));
        let output = Box::new(NotedErrors(Rc::clone(&errors)));
        let connection =
            ApplicationMultiplexer::new(connection, options, Some(output), ConnectionIdentity::default());
        let runs = owned(&connection).await;
        Pair { network, connection, peer, application: RefCell::default(), runs, errors }
    }

    /// Sends bytes of the application, and lets them arrive.
    async fn send(&self, bytes: &[u8]) {
        self.peer.send(bytes).await.expect("it stands");
        pass().await;
        self.connection.inner.borrow().engine.check_invariants();
    }

    /// Sends records of the application, and lets them arrive.
    async fn records(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.send(&records(write)).await;
    }

    /// Lets the application read at most `most` bytes.
    fn read_some(&self, most: usize) -> usize {
        match self.peer.try_receive(most) {
            Ok(Some(bytes)) => {
                self.application.borrow_mut().receive(&bytes);
                bytes.len()
            }
            _ => 0,
        }
    }

    /// Lets the application read all bytes that were sent.
    async fn read(&self) {
        loop {
            pass().await;
            if self.read_some(1 << 20) == 0 {
                return;
            }
        }
    }

    /// The body of a request as the application received it, and whether it is complete.
    fn stdin(&self, id: u16) -> (Vec<u8>, bool) {
        let application = self.application.borrow();
        let request = &application.requests[&id];
        (request.stdin.clone(), request.has_stdin)
    }

    /// The ids of the requests that the application received, with their path.
    fn paths(&self) -> Vec<(u16, String)> {
        let path = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let application = self.application.borrow();
        let requests = application.requests.iter().filter(|(_, request)| request.has_params);
        requests.map(|(id, request)| (*id, request.param("PATH").map(path).unwrap_or_default())).collect()
    }

    /// Begins a request of this task.
    fn begin(&self, head: &str) -> ApplicationStream {
        let mut stream = self.connection.stream();
        assert!(!matches!(begin(&mut stream, head, "/"), SendOutcome::Failed(_)));
        stream
    }

    /// Begins a request in a task of its own, which takes output as it arrives.
    async fn reader(&self, path: &'static str) -> Reader {
        let reader = Reader::default();
        let (noted, mut stream) = (reader.clone(), self.connection.stream());
        spawn(&KIND, Class::Normal, async move {
            assert_eq!(begin(&mut stream, GET, path), SendOutcome::All);
            loop {
                noted.runs.set(noted.runs.get() + 1);
                let end = match noted.is_slow.get() {
                    true => ReceiveOutcome::Nothing,
                    false => noted.take(&mut stream),
                };
                if end != ReceiveOutcome::Nothing {
                    if end == ReceiveOutcome::End {
                        stream.complete();
                    }
                    noted.end.set(Some(end));
                    return;
                }
                wait(Tick::NEVER).await;
            }
        });
        pass().await;
        reader
    }

    fn is_direct(&self) -> bool {
        self.connection.inner.borrow().is_direct
    }

    fn held(&self) -> usize {
        let inner = self.connection.inner.borrow();
        inner.connection.input().len() + inner.requests.held()
    }
}

/// The bytes and the end that the task of a request took.
#[derive(Clone, Default)]
struct Reader {
    runs: Rc<Cell<u32>>,
    taken: Rc<RefCell<Vec<u8>>>,
    /// The outcome that ended it.
    end: Rc<Cell<Option<ReceiveOutcome>>>,
    /// Whether it takes nothing.
    is_slow: Rc<Cell<bool>>,
}

impl Reader {
    fn take(&self, stream: &mut ApplicationStream) -> ReceiveOutcome {
        loop {
            match stream.receive(usize::MAX) {
                ReceiveOutcome::Bytes(_) => self.taken.borrow_mut().extend(take(stream)),
                other => return other,
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.taken.borrow()).into_owned()
    }
}

fn begin(stream: &mut ApplicationStream, head: &str, path: &str) -> SendOutcome {
    let mut message = Message::new(10);
    assert!(message.read_kept(Kind::Request, head.as_bytes()).is_some());
    stream.params_mut().push(b"PATH", path.as_bytes());
    stream.send_message(&message.head)
}

/// Takes the input of a stream.
fn take(stream: &mut ApplicationStream) -> Vec<u8> {
    let input = stream.input().to_vec();
    stream.consume(input.len());
    input
}

/// Receives until there is nothing more. Returns the output and the last outcome.
fn receive_all(stream: &mut ApplicationStream) -> (Vec<u8>, ReceiveOutcome) {
    let mut all = Vec::new();
    loop {
        match stream.receive(usize::MAX) {
            ReceiveOutcome::Bytes(count) => {
                assert_eq!(count, stream.input().len());
                all.extend(take(stream));
            }
            other => return (all, other),
        }
    }
}

fn records(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

fn end(id: u16, out: &mut Vec<u8>) {
    write_end(id, 0, ProtocolStatus::RequestComplete, out);
}

fn response(id: u16, text: &[u8]) -> Vec<u8> {
    records(|out| {
        text.chunks(MAX_CONTENT).for_each(|piece| write_stdout(id, piece, out));
        end(id, out);
    })
}

/// Bytes with pieces that differ from their neighbours.
fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

const GET: &str = "GET / HTTP/1.1\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
const RESET: ConnectionFault = ConnectionFault::Io(Errno::CONNRESET);
const HEAD_LIMIT: usize = 1000;
/// The size of a buffer for bytes that are forwarded.
const BULK_SIZE: usize = 48 * 1024;

#[test]
fn the_only_request_drives_the_connection_without_its_owner() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let runs = pair.runs.get();
        let reader = pair.reader("/a").await;
        assert!(pair.is_direct());
        pair.read().await;
        assert_eq!(pair.paths(), [(1, "/a".to_owned())]);
        assert_eq!((pair.stdin(1), pair.network.sends()), ((vec![], true), 1));
        let receives = pair.network.receives();
        pair.send(&response(1, b"Status: 200\n\nhello")).await;
        assert_eq!(
            (reader.text(), reader.end.get()),
            ("Status: 200\n\nhello".into(), Some(ReceiveOutcome::End))
        );
        // One run to begin, one for the response.
        assert_eq!((reader.runs.get(), pair.network.receives() - receives), (2, 1));
        // The owner neither received nor sent. The end of the stream changes nothing for it.
        assert_eq!(pair.runs.get(), runs);
        assert!(!pair.is_direct() && !pair.connection.is_clogged());
    });
}

#[test]
fn the_end_of_a_response_wakes_its_task_once() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let reader = pair.reader("/").await;
        for runs in 2..5 {
            pair.records(|out| write_stdout(1, b"x", out)).await;
            assert_eq!(reader.runs.get(), runs);
        }
        pair.records(|out| end(1, out)).await;
        assert_eq!((reader.runs.get(), reader.end.get()), (5, Some(ReceiveOutcome::End)));
        // Output and its end in one piece do not leave a wake behind for the task.
        let mut stream = pair.begin(GET);
        pair.send(&response(2, b"x")).await;
        assert_eq!(receive_all(&mut stream), (b"x".to_vec(), ReceiveOutcome::End));
        let before = now();
        wait(now().after(20)).await;
        assert!(now() >= before.after(20), "a wake was left behind");
    });
}

#[test]
fn output_arrives_however_its_records_are_cut() {
    let text = b"Status: 201 Made\nA: b\n\nbody of a response";
    let whole = records(|out| {
        text.chunks(7).for_each(|piece| write_stdout(1, piece, out));
        write_stdout(1, b"", out);
        end(1, out);
    });
    for piece in [1, 2, 3, 7, 9, 15, 16, whole.len()] {
        let whole = whole.clone();
        run(move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(GET);
            let (mut text, mut all) = (Vec::new(), Vec::new());
            for bytes in whole.chunks(piece) {
                pair.send(bytes).await;
                if text.is_empty() && stream.take_head(HEAD_LIMIT, &mut text) == Err(NoCgiHead::Awaited) {
                    continue;
                }
                loop {
                    all.extend(take(&mut stream));
                    if !matches!(stream.receive(HEAD_LIMIT), ReceiveOutcome::Bytes(_)) {
                        break;
                    }
                }
            }
            assert!(text.starts_with(b"HTTP/1.1 201 Made\r\nA: b\r\ndate: "), "{piece}");
            assert!(text.ends_with(b" GMT\r\ntransfer-encoding: chunked\r\n\r\n"), "{piece}");
            assert_eq!((&all[..], stream.receive(1)), (&b"body of a response"[..], ReceiveOutcome::End));
            assert!(stream.ended());
        });
    }
}

#[test]
fn a_record_that_is_cut_arrives_in_little_room() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        pair.records(|out| write_stdout(1, b"1234567890", out)).await;
        assert_eq!(stream.receive(1 << 16), ReceiveOutcome::Bytes(10));
        // The front of a header stays with the connection, which has less room than that.
        let bytes = response(1, b"abcdefghij");
        pair.send(&bytes[..7]).await;
        assert_eq!(stream.receive(12), ReceiveOutcome::Nothing);
        pair.send(&bytes[7..]).await;
        let mut all = Vec::new();
        while stream.receive(12) != ReceiveOutcome::End {
            all.extend(take(&mut stream));
            pass().await;
        }
        assert_eq!(
            (String::from_utf8_lossy(&all), pair.connection.fault()),
            ("1234567890abcdefghij".into(), None)
        );
    });
}

#[test]
fn the_input_of_a_request_is_limited() {
    for options in [SERIAL, MULTIPLEXED] {
        run(move |network| async move {
            let pair = Pair::new(network, options).await;
            let mut stream = pair.begin(GET);
            let _other = options.multiplexes.then(|| pair.begin(GET));
            let sent = body(40_000);
            pair.records(|out| write_stdout(1, &sent, out)).await;
            let mut all = Vec::new();
            loop {
                match stream.receive(1000) {
                    ReceiveOutcome::Bytes(_) => {
                        assert!(stream.input().len() <= 1016, "{}", stream.input().len())
                    }
                    ReceiveOutcome::Full => all.extend(take(&mut stream)),
                    other => break assert_eq!(other, ReceiveOutcome::Nothing),
                }
            }
            all.extend(take(&mut stream));
            assert!(all == sent);
        });
    }
}

#[test]
fn a_head_of_an_application_is_limited() {
    for (length, expected) in
        [(HEAD_LIMIT, Ok(())), (HEAD_LIMIT + 1, Err(NoCgiHead::TooLarge)), (60_000, Err(NoCgiHead::TooLarge))]
    {
        run(move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(GET);
            let head = format!("A: {}\n\n", "b".repeat(length - 5));
            pair.records(|out| write_stdout(1, head.as_bytes(), out)).await;
            let mut text = Vec::new();
            assert_eq!(stream.take_head(HEAD_LIMIT, &mut text), expected, "{length}");
            assert_eq!(text.is_empty(), expected.is_err());
        });
    }
}

#[test]
fn a_response_without_a_head_is_a_failure() {
    let cases: [(&[u8], bool, NoCgiHead); 4] = [
        (b"A: b", true, NoCgiHead::Ended),
        (b"", true, NoCgiHead::Ended),
        (b"A: b\n", false, NoCgiHead::Awaited),
        (b"no field\n\n", false, NoCgiHead::Invalid),
    ];
    for (output, ends, expected) in cases {
        run(move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(GET);
            pair.records(|out| {
                if !output.is_empty() {
                    write_stdout(1, output, out);
                }
                if ends {
                    end(1, out);
                }
            })
            .await;
            let mut text = Vec::new();
            assert_eq!(stream.take_head(HEAD_LIMIT, &mut text), Err(expected), "{output:?}");
        });
    }
}

#[test]
fn a_date_is_added_to_a_head_without_one() {
    run(|network| async move {
        let pair = Pair::new(network.clone(), SERIAL).await;
        let mut dates = Vec::new();
        for (id, wait_ms) in [(1, 0), (2, 100), (3, 2_000)] {
            sleep_until(now().after(wait_ms)).await;
            let mut stream = pair.begin(GET);
            pair.send(&response(id, b"Content-Length: 0\n\n")).await;
            let mut text = Vec::new();
            assert_eq!(stream.take_head(HEAD_LIMIT, &mut text), Ok(()));
            let text = String::from_utf8(text).expect("a head");
            let (_, date) = text.split_once("\r\ndate: ").expect("a date");
            let seconds = i64::try_from(weir_sched::wall_us() / 1_000_000).expect("a time");
            let expected = weir_formats::civil::CivilTime::at(seconds, 0);
            let mut text = Vec::new();
            expected.write_http_date(&mut text).expect("memory takes all");
            assert_eq!(date.as_bytes(), [&text, &b" GMT\r\n\r\n"[..]].concat());
            dates.push(date.to_owned());
            stream.complete();
        }
        assert_ne!(dates[0], dates[2]);
        let mut stream = pair.begin(GET);
        pair.send(&response(4, b"Date: its own\nContent-Length: 0\n\n")).await;
        let mut text = Vec::new();
        assert_eq!(stream.take_head(HEAD_LIMIT, &mut text), Ok(()));
        assert_eq!(text, b"HTTP/1.1 200 OK\r\nDate: its own\r\nContent-Length: 0\r\n\r\n");
    });
}

#[test]
fn only_a_body_without_a_length_gets_chunks() {
    const CHUNKED: &str = "transfer-encoding: chunked";
    for (head, text, chunked, own_chunks) in [
        (GET, "A: b\n\n", true, false),
        ("HEAD / HTTP/1.1\r\n\r\n", "A: b\n\n", false, false),
        (GET, "Status: 304\n\n", false, false),
        (GET, "Content-Length: 1\n\n", false, true),
        (GET, "Transfer-Encoding: chunked\n\n", false, true),
    ] {
        run(move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(head);
            pair.send(&response(1, text.as_bytes())).await;
            let mut out = Vec::new();
            assert_eq!(stream.take_head(HEAD_LIMIT, &mut out), Ok(()));
            let out = String::from_utf8(out).expect("a head");
            assert_eq!((out.contains(CHUNKED), stream.sends_chunks()), (chunked, own_chunks), "{head}{out}");
        });
    }
}

/// Uploads a body while the application reads `step` bytes at a time. Checks that output is bounded.
async fn upload(pair: &Pair, stream: &mut ApplicationStream, id: u16, sent: &[u8], step: usize) {
    let mut left = sent;
    let (mut idle, mut most) = (0, 0);
    while idle < 20 {
        idle += 1;
        match left {
            b"" => assert!(!matches!(stream.finish(), SendOutcome::Failed(_))),
            _ => match stream.send(left, true) {
                SendOutcome::All => left = b"",
                SendOutcome::Part(count) => left = &left[count..],
                SendOutcome::Failed(fault) => panic!("{fault:?}"),
            },
        }
        most = most.max(pair.connection.inner.borrow().engine.output().len());
        pass().await;
        if pair.read_some(step) > 0 {
            idle = 0;
        }
    }
    assert!(most <= MAX_OUTPUT + 64 * 1024 + 1000, "{most} bytes queued");
    let (received, is_complete) = pair.stdin(id);
    assert_eq!((received.len(), is_complete), (sent.len(), true));
    assert!(received == sent, "the body has its order");
}

#[test]
fn a_body_arrives_in_order_at_an_application_that_reads_slowly() {
    for (length, step, short_sends) in [
        (0, 10_000, 0),
        (1, 3, 0),
        (4_095, 100, 2),
        (4_096, 100, 2),
        (70_000, 3_000, 2),
        (500_000, 20_000, 0),
        (500_000, 20_000, 3),
    ] {
        for options in [SERIAL, MULTIPLEXED] {
            let conditions = Conditions { window: 8_000, short_sends, ..Conditions::CALM };
            run_with(conditions, move |network| async move {
                let pair = Pair::new(network, options).await;
                let mut stream = pair.begin(POST);
                let _other = options.multiplexes.then(|| pair.begin(GET));
                assert_eq!(pair.is_direct(), !options.multiplexes);
                upload(&pair, &mut stream, 1, &body(length), step).await;
                assert!(!stream.has_pending() && stream.shut());
                let counted = pair.peer.bytes().1;
                if !options.multiplexes {
                    assert_eq!(stream.sent, counted);
                }
            });
        }
    }
}

#[test]
fn a_large_piece_of_a_body_is_sent_without_a_copy() {
    let conditions = Conditions { window: 1 << 20, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        pair.read().await;
        let sends = pair.network.sends();
        assert_eq!(stream.send(&body(4_096), false), SendOutcome::All);
        assert_eq!(pair.network.sends() - sends, 1, "header and content with one call");
        assert_eq!(pair.connection.inner.borrow().engine.output().len(), 0);
        // A record holds as much as it can.
        assert_eq!(stream.send(&body(2 * MAX_CONTENT), false), SendOutcome::All);
        assert_eq!(pair.network.sends() - sends, 3);
        assert_eq!(stream.send(&body(4_096), true), SendOutcome::All);
        assert_eq!(pair.network.sends() - sends, 5, "the end follows");
        pair.read().await;
        let sent = [body(4_096), body(2 * MAX_CONTENT), body(4_096)].concat();
        assert!(pair.stdin(1) == (sent, true));
    });
}

#[test]
fn small_pieces_of_a_body_are_sent_with_their_header_and_end() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        let sends = pair.network.sends();
        assert_eq!(stream.send(&body(100), true), SendOutcome::All);
        assert_eq!(pair.network.sends() - sends, 1);
        pair.read().await;
        assert_eq!(pair.stdin(1), (body(100), true));
    });
}

#[test]
fn a_record_that_the_socket_takes_in_part_is_completed() {
    // The room for the header and the content is 0 to 19 bytes.
    for room in 0..20 {
        let conditions = Conditions { window: 2_000, ..Conditions::CALM };
        run_with(conditions, move |network| async move {
            let pair = Pair::new(network, SERIAL).await;
            let mut stream = pair.begin(POST);
            let filling = 2_000 - room - 8 - usize::try_from(stream.sent).expect("few");
            assert_eq!(stream.send(&body(filling), false), SendOutcome::All);
            assert!(!stream.has_pending());
            assert_eq!(stream.send(&body(5_000), true), SendOutcome::All);
            while stream.has_pending() {
                pass().await;
                pair.read_some(1 << 20);
                let _ = stream.flush();
            }
            pair.read().await;
            assert!(pair.stdin(1) == ([body(filling), body(5_000)].concat(), true), "{room}");
        });
    }
}

#[test]
fn a_body_that_was_kept_is_taken_at_once() {
    let conditions = Conditions { window: 8_000, ..Conditions::CALM };
    for options in [SERIAL, MULTIPLEXED] {
        run_with(conditions.clone(), move |network| async move {
            let pair = Pair::new(network, options).await;
            let mut stream = pair.begin(POST);
            let _other = options.multiplexes.then(|| pair.begin(GET));
            let sent = body(200_000);
            assert!(!matches!(stream.send_pending(&sent, true), SendOutcome::Failed(_)));
            assert!(stream.shut());
            for _ in 0..100 {
                let _ = stream.flush();
                pass().await;
                pair.read_some(1 << 20);
            }
            assert!(pair.stdin(1) == (sent, true));
        });
    }
}

#[test]
fn a_shared_connection_sends_large_pieces_with_those_of_others() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let mut streams = [pair.begin(POST), pair.begin(POST), pair.begin(POST)];
        pair.read().await;
        let sends = pair.network.sends();
        for stream in &mut streams {
            assert_eq!(stream.send(&body(5_000), true), SendOutcome::All);
        }
        pair.read().await;
        assert_eq!(pair.network.sends() - sends, 1);
        assert!([1, 2, 3].into_iter().all(|id| pair.stdin(id) == (body(5_000), true)));
    });
}

#[test]
fn a_full_output_holds_uploads_until_the_application_reads() {
    let conditions = Conditions { window: 8_000, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let _other = pair.begin(GET);
        let (woken, taken) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (runs, counted) = (Rc::clone(&woken), Rc::clone(&taken));
        let mut stream = pair.connection.stream();
        spawn(&KIND, Class::Normal, async move {
            assert_eq!(begin(&mut stream, POST, "/"), SendOutcome::All);
            loop {
                while !stream.is_full() {
                    assert_eq!(stream.send(&body(10_000), false), SendOutcome::All);
                    counted.set(counted.get() + 10_000);
                }
                wait(Tick::NEVER).await;
                runs.set(runs.get() + 1);
            }
        });
        pass().await;
        let output = || pair.connection.inner.borrow().engine.output().len();
        assert!(output() >= MAX_OUTPUT && taken.get() < MAX_OUTPUT + 20_000);
        assert!(pair.connection.is_clogged() && pair.connection.awaits_peer());
        for _ in 0..3 {
            // Its task runs once there is room, and not before.
            let (held, runs) = (output(), woken.get());
            let mut read = 0;
            while woken.get() == runs {
                assert!(output() >= MAX_OUTPUT, "there is room: {}", output());
                read += pair.read_some(1_000);
                pass().await;
            }
            assert!(held < MAX_OUTPUT + read, "there was no room: {held} {read}");
            assert_eq!(woken.get(), runs + 1);
        }
    });
}

#[test]
fn an_owner_that_receives_much_lets_others_run() {
    let conditions = Conditions { window: 1 << 20, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (first, second) = (pair.reader("/1").await, pair.reader("/2").await);
        let (runs, receives) = (pair.runs.get(), pair.network.receives());
        let piece = body(MAX_CONTENT);
        pair.records(|out| {
            (0..15).for_each(|_| write_stderr(1, &piece, out));
            out.extend([response(1, b"x"), response(2, b"y")].concat());
        })
        .await;
        assert_eq!((first.text(), second.text()), ("x".into(), "y".into()));
        let (runs, receives) = (u64::from(pair.runs.get() - runs), pair.network.receives() - receives);
        assert!(runs > 1 && receives / runs <= 12, "{receives} receives in {runs} runs");
    });
}

#[test]
fn a_full_socket_leaves_records_pending_and_wakes_the_task_when_it_takes_more() {
    let conditions = Conditions { window: 1_000, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(POST);
        assert!(!stream.has_pending() && !stream.is_full());
        let sent = body(3_000);
        assert_eq!(stream.send(&sent, true), SendOutcome::All);
        assert!(stream.has_pending() && stream.is_full());
        assert_eq!((stream.flush(), stream.finish()), (SendOutcome::Part(0), SendOutcome::Part(0)));
        pass().await;
        assert_eq!(pair.read_some(1 << 20), 1_000);
        let before = now();
        wait(before.after(5_000)).await;
        assert!(now() < before.after(5_000), "the task was not woken");
        while stream.flush() == SendOutcome::Part(0) {
            pass().await;
            pair.read_some(1 << 20);
        }
        assert!(!stream.has_pending() && !stream.is_full());
        pair.read().await;
        assert_eq!(pair.stdin(1), (sent, true));
    });
}

#[test]
fn requests_that_share_a_connection_get_their_own_output() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let mut readers = Vec::new();
        for path in ["/1", "/2", "/3"] {
            readers.push(pair.reader(path).await);
            assert_eq!(pair.is_direct(), readers.len() == 1);
        }
        pair.read().await;
        let expected = [(1, "/1"), (2, "/2"), (3, "/3")].map(|(id, path)| (id, path.to_owned()));
        assert_eq!(pair.paths(), expected);
        let mut bytes = Vec::new();
        for round in 0..3 {
            for id in [3, 1, 2] {
                write_stdout(id, format!("{round} of {id},").as_bytes(), &mut bytes);
            }
        }
        let (runs, owner) = (readers[0].runs.get(), pair.runs.get());
        pair.send(&bytes).await;
        assert_eq!(
            (readers[0].runs.get() - runs, pair.runs.get() - owner),
            (1, 1),
            "one wake for all records"
        );
        for id in [2, 3, 1] {
            let others: Vec<u32> = readers.iter().map(|reader| reader.runs.get()).collect();
            pair.records(|out| end(id, out)).await;
            for (at, reader) in readers.iter().enumerate() {
                assert_eq!(reader.runs.get() - others[at], u32::from(at + 1 == usize::from(id)), "{at} {id}");
            }
        }
        for (id, reader) in (1..).zip(&readers) {
            let text: String = (0..3).map(|round| format!("{round} of {id},")).collect();
            assert_eq!((reader.text(), reader.end.get()), (text, Some(ReceiveOutcome::End)));
        }
        assert!(!pair.connection.is_clogged() && pair.connection.inner.borrow().requests.is_empty());
    });
}

#[test]
fn requests_that_share_a_connection_are_sent_by_one_call() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let _first = pair.begin(GET);
        let (sends, runs) = (pair.network.sends(), pair.runs.get());
        let _others: Vec<_> = (0..7).map(|_| pair.begin(GET)).collect();
        assert!(pair.connection.is_clogged(), "the limit");
        pass().await;
        assert_eq!((pair.network.sends() - sends, pair.runs.get() - runs), (1, 1));
        let mut message = pair.connection.stream();
        assert_eq!(begin(&mut message, GET, "/"), SendOutcome::Failed(ConnectionFault::Refused));
    });
}

#[test]
fn a_request_that_is_not_read_bounds_memory_and_holds_the_others() {
    let conditions = Conditions { window: 1 << 18, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (slow, other) = (pair.reader("/slow").await, pair.reader("/other").await);
        slow.is_slow.set(true);
        let sent = body(300_000);
        let mut bytes = records(|out| sent.chunks(MAX_CONTENT).for_each(|piece| write_stdout(1, piece, out)));
        bytes.extend(response(2, b"after it"));
        let mut rest = &bytes[..];
        let mut most = 0;
        for _ in 0..20 {
            rest = &rest[pair.peer.try_send(rest).expect("it stands")..];
            pass().await;
            most = most.max(pair.held());
        }
        assert!((MAX_ARRIVED..=MAX_ARRIVED + BULK_SIZE).contains(&most), "{most} bytes held");
        assert!(pair.connection.is_clogged());
        assert_eq!(other.text(), "");
        let runs = pair.runs.get();
        pass().await;
        assert_eq!(pair.runs.get(), runs, "the owner waits");
        slow.is_slow.set(false);
        pair.records(|_| {}).await;
        weir_sched::wake(pair.connection.inner.borrow().requests.first_task());
        while !rest.is_empty() {
            rest = &rest[pair.peer.try_send(rest).expect("it stands")..];
            pass().await;
        }
        pass().await;
        assert!(*slow.taken.borrow() == sent);
        assert_eq!((other.text(), other.end.get()), ("after it".into(), Some(ReceiveOutcome::End)));
        assert!(!pair.connection.is_clogged());
    });
}

#[test]
fn a_request_that_is_not_read_and_leaves_frees_the_connection() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (slow, _other) = (pair.begin(GET), pair.reader("/other").await);
        pair.send(&response(1, &body(MAX_CONTENT))).await;
        pair.send(&records(|out| write_stdout(2, b"x", out))).await;
        assert!(!pair.connection.is_clogged());
        drop(slow);
        let slow = pair.begin(GET);
        // All is received, and the socket is empty.
        pair.records(|out| {
            write_stdout(3, &body(MAX_CONTENT), out);
            write_stdout(3, b"xx", out);
            end(3, out);
        })
        .await;
        assert!(pair.connection.is_clogged());
        drop(slow);
        pass().await;
        assert!(!pair.connection.is_clogged());
    });
}

/// Begins a second request while the first has received half of its response, and part of a record.
async fn check_switch(pair: &Pair, half: usize, reads: bool) {
    let first = pair.reader("/first").await;
    assert!(pair.is_direct());
    let bytes = response(1, b"the first response");
    // Bytes that nothing read yet when the second request begins.
    first.is_slow.set(!reads);
    pair.send(&bytes[..half]).await;
    first.is_slow.set(false);
    let second = pair.reader("/second").await;
    assert!(!pair.is_direct());
    pair.send(&bytes[half..]).await;
    assert_eq!((first.text(), first.end.get()), ("the first response".into(), Some(ReceiveOutcome::End)));
    pair.send(&response(2, b"the second")).await;
    assert_eq!((second.text(), second.end.get()), ("the second".into(), Some(ReceiveOutcome::End)));
}

#[test]
fn a_request_that_gets_company_loses_nothing() {
    for half in 0..response(1, b"the first response").len() {
        for reads in [true, false] {
            run(move |network| async move {
                let pair = Pair::new(network, MULTIPLEXED).await;
                check_switch(&pair, half, reads).await;
                // The next request is alone again.
                let third = pair.reader("/third").await;
                assert!(pair.is_direct());
                pair.send(&response(3, b"the third")).await;
                assert_eq!((third.text(), third.end.get()), ("the third".into(), Some(ReceiveOutcome::End)));
            });
        }
    }
}

#[test]
fn a_request_that_gets_company_is_not_woken_for_it() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let first = pair.reader("/first").await;
        let runs = first.runs.get();
        let second = pair.reader("/second").await;
        pass().await;
        assert_eq!((first.runs.get() - runs, second.runs.get()), (0, 1));
    });
}

#[test]
fn an_owner_that_is_woken_leaves_a_direct_request_alone() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        pair.send(&response(1, b"for the request")).await;
        let runs = pair.runs.get();
        pair.connection.give_up();
        pass().await;
        assert_eq!(pair.runs.get() - runs, 1);
        assert_eq!(receive_all(&mut stream), (b"for the request".to_vec(), ReceiveOutcome::End));
    });
}

#[test]
fn shared_output_that_is_taken_in_parts_keeps_its_order() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (mut stream, _other) = (pair.begin(GET), pair.begin(GET));
        pair.records(|out| write_stdout(1, b"12345", out)).await;
        assert_eq!(stream.receive(usize::MAX), ReceiveOutcome::Bytes(5));
        pair.send(&response(1, b"6789")).await;
        // The input holds the first record.
        assert_eq!(stream.receive(7), ReceiveOutcome::Bytes(2));
        assert!(!stream.ended(), "there is more");
        assert_eq!((stream.receive(7), stream.receive(20)), (ReceiveOutcome::Full, ReceiveOutcome::Bytes(2)));
        assert_eq!((stream.input(), stream.ended()), (&b"123456789"[..], true));
        assert_eq!((stream.receive(20), stream.received), (ReceiveOutcome::End, 9));
    });
}

#[test]
fn a_request_that_ended_but_is_read_slowly_does_not_disturb_the_next() {
    run(|network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (mut slow, helper) = (pair.begin(GET), pair.reader("/helper").await);
        pair.send(&[response(1, b"for the first"), response(2, b"for the second")].concat()).await;
        assert_eq!(helper.text(), "for the second");
        // The application ended the request, but the first stream has not taken its output.
        let third = pair.reader("/third").await;
        assert_eq!(receive_all(&mut slow), (b"for the first".to_vec(), ReceiveOutcome::End));
        pair.send(&response(3, b"for the third")).await;
        assert_eq!((third.text(), third.end.get()), ("for the third".into(), Some(ReceiveOutcome::End)));
    });
}

#[test]
fn a_request_that_waits_for_the_socket_when_it_gets_company_goes_on() {
    let conditions = Conditions { window: 1_000, ..Conditions::CALM };
    run_with(conditions, |network| async move {
        let pair = Pair::new(network, MULTIPLEXED).await;
        let (woken, mut stream) = (Rc::new(Cell::new(0)), pair.connection.stream());
        let counted = Rc::clone(&woken);
        spawn(&KIND, Class::Normal, async move {
            assert_eq!(begin(&mut stream, POST, "/"), SendOutcome::All);
            assert_eq!(stream.send(&body(3_000), false), SendOutcome::All);
            while stream.has_pending() {
                let _ = stream.flush();
                wait(Tick::NEVER).await;
                counted.set(counted.get() + 1);
            }
            assert_eq!(stream.send(&body(10), true), SendOutcome::All);
            wait(Tick::NEVER).await;
        });
        pass().await;
        let _second = pair.begin(GET);
        pair.read().await;
        assert!(woken.get() > 0, "nothing woke it");
        assert_eq!(pair.stdin(1), ([body(3_000), body(10)].concat(), true));
    });
}

#[test]
fn output_that_ends_without_end_request_is_a_whole_response() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        pair.records(|out| write_stdout(1, b"all", out)).await;
        assert_eq!(receive_all(&mut stream), (b"all".to_vec(), ReceiveOutcome::Nothing));
        assert!(!stream.ended());
        pair.records(|out| write_stdout(1, b"", out)).await;
        assert_eq!(receive_all(&mut stream), (vec![], ReceiveOutcome::End));
        assert!(stream.ended() && stream.fault().is_none());
        stream.complete();
        drop(stream);
        // END_REQUEST is missing.
        assert!(pair.connection.is_clogged() && !pair.connection.is_closing());
        pair.records(|out| end(1, out)).await;
        assert!(!pair.connection.is_clogged());
    });
}

#[test]
fn output_that_ended_survives_a_close_without_end_request() {
    run(|network| async move {
        let pair = Pair::new(network, SERIAL).await;
        let mut stream = pair.begin(GET);
        pair.records(|out| {
            write_stdout(1, b"all", out);
            write_stdout(1, b"", out);
        })
        .await;
        pair.peer.finish();
        pass().await;
        assert_eq!(receive_all(&mut stream), (b"all".to_vec(), ReceiveOutcome::End));
        pair.connection.close();
        assert_eq!((stream.receive(10), stream.fault()), (ReceiveOutcome::End, None));
    });
}

#[test]
fn a_connection_that_ends_fails_incomplete_requests_only() {
    for (finished, expected) in [(false, ReceiveOutcome::Failed(RESET)), (true, ReceiveOutcome::End)] {
        for options in [SERIAL, MULTIPLEXED] {
            run(move |network| async move {
                let pair = Pair::new(network, options).await;
                let reader = pair.reader("/").await;
                let other = if options.multiplexes { Some(pair.reader("/other").await) } else { None };
                pair.records(|out| {
                    write_stdout(1, b"half", out);
                    if finished {
                        end(1, out);
                    }
                })
                .await;
                pair.peer.finish();
                pass().await;
                assert_eq!((reader.text(), reader.end.get()), ("half".into(), Some(expected)));
                if let Some(other) = other {
                    assert_eq!(other.end.get(), Some(ReceiveOutcome::Failed(RESET)));
                }
                assert!(pair.connection.is_closing() && pair.connection.is_clogged());
                assert_eq!(pair.connection.fault(), Some(RESET));
                let mut late = pair.connection.stream();
                assert_eq!(begin(&mut late, GET, "/"), SendOutcome::Failed(RESET));
            });
        }
    }
}
