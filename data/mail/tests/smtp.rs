//! Mail delivery to scripted servers in a simulated network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use weir_mail::{Mail, Mailer, Mailers};
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork, SimulatedPeer, SimulatedService};
use weir_sched::{now, sleep_until};
use weir_sys::Address;

const PLACE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 25);
const TIMEOUT_MS: u64 = 2000;

/// The messages for operators.
type Reports = Arc<Mutex<Vec<String>>>;

/// Runs a test with one mailer, as the first task of a worker.
#[track_caller]
fn simulate<F: Future<Output = ()> + 'static>(test: impl FnOnce(SimulatedNetwork, Desk) -> F + 'static) {
    let run = network::run(3, Conditions { cuts: 3, ..Conditions::CALM }, |network| {
        let reports = Reports::default();
        let heard = Arc::clone(&reports);
        let report = move |text: &str| heard.lock().expect("nobody panics").push(text.to_owned());
        let mailer = Mailer::new("staff/one", PLACE, TIMEOUT_MS, report);
        test(network, Desk { mailers: Mailers::new(vec![mailer]), reports })
    });
    assert_eq!(run.expect("a worker").outcome, Ok(()));
}

struct Desk {
    mailers: Mailers,
    reports: Reports,
}

impl Desk {
    fn send(&self, text: &str) {
        self.mailers.send(Mail {
            from: "weir@a.example".to_owned(),
            to: "staff@b.example".to_owned(),
            host_name: "lb1".to_owned(),
            date: "Mon, 23 Nov 2026 04:22:14 +0000 (UTC)".to_owned(),
            subject: format!("[HAProxy Alert] {text}"),
            text: text.to_owned(),
        });
    }

    #[track_caller]
    fn check(&self, counts: [u64; 3], reports: &[&str]) {
        assert_eq!(self.mailers.counts(), [counts]);
        assert_eq!(*self.reports.lock().expect("nobody panics"), reports);
    }
}

fn listen(network: &SimulatedNetwork) -> SimulatedService {
    network.listen(&Address::Inet(PLACE)).expect("a free address")
}

async fn pass(milliseconds: u64) {
    sleep_until(now().after(milliseconds)).await;
}

/// Receives from the client up to the end of a line or of the mail.
async fn hear(peer: &SimulatedPeer, end: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        let more = peer.receive(1).await.expect("it is there");
        assert!(!more.is_empty(), "it ended after {:?}", String::from_utf8_lossy(&heard));
        heard.extend(more);
    }
    String::from_utf8(heard).expect("text")
}

/// Receives one mail. Returns the client's commands and the mail.
async fn take_mail(service: &SimulatedService) -> Vec<String> {
    let peer = service.accept().await;
    let mut heard = Vec::new();
    let dialogue = [
        ("220-a\r\n220 b\r\n", "\r\n"),
        ("250 c\r\n", "\r\n"),
        ("250 d\r\n", "\r\n"),
        ("250 e\r\n", "\r\n"),
        ("354 f\r\n", "\r\n.\r\n"),
        ("250 g\r\n", "\r\n"),
    ];
    for (said, end) in dialogue {
        peer.send(said.as_bytes()).await.expect("it listens");
        heard.push(hear(&peer, end).await);
    }
    peer.send(b"221 h\r\n").await.expect("it listens");
    heard
}

#[test]
fn delivers_a_mail_with_the_smtp_dialogue() {
    simulate(|network, desk| async move {
        let service = listen(&network);
        desk.send("Server b/s is DOWN");
        let expected = [
            "HELO lb1\r\n",
            "MAIL FROM:<weir@a.example>\r\n",
            "RCPT TO:<staff@b.example>\r\n",
            "DATA\r\n",
            "From: weir@a.example\r\nTo: staff@b.example\r\nDate: Mon, 23 Nov 2026 04:22:14 +0000 (UTC)\r\n\
             Subject: [HAProxy Alert] Server b/s is DOWN\r\n\r\nServer b/s is DOWN\r\n\r\n.\r\n",
            "QUIT\r\n",
        ];
        assert_eq!(take_mail(&service).await, expected);
        pass(100).await;
        desk.check([1, 0, 0], &[]);
        assert_eq!(network.held(), 0);
    });
}

#[test]
fn mails_are_sent_one_by_one_even_after_a_refusal() {
    simulate(|network, desk| async move {
        let service = listen(&network);
        desk.send("one");
        desk.send("two");
        let peer = service.accept().await;
        peer.send(b"554 not you\r\n").await.expect("it listens");
        drop(peer);
        let heard = take_mail(&service).await;
        assert!(heard[4].contains("\r\n\r\ntwo\r\n"), "{heard:?}");
        pass(100).await;
        let report = "Mailer staff/one (10.0.0.1:25): a mail was not delivered: the server answered '554 not you' to the connection.";
        desk.check([1, 1, 0], &[report]);
    });
}

#[test]
fn a_silent_mail_server_times_out() {
    simulate(|network, desk| async move {
        let service = listen(&network);
        desk.send("one");
        desk.send("two");
        let silent = service.accept().await;
        pass(TIMEOUT_MS - 100).await;
        desk.check([0, 0, 0], &[]);
        pass(200).await;
        let report =
            "Mailer staff/one (10.0.0.1:25): a mail was not delivered: it took too long ('timeout mail').";
        desk.check([0, 1, 0], &[report]);
        drop(silent);
        // A further failure is reported only after a successful delivery.
        drop(service);
        pass(TIMEOUT_MS).await;
        desk.check([0, 2, 0], &[report]);
        desk.send("three");
        pass(TIMEOUT_MS).await;
        desk.check([0, 3, 0], &[report]);
        assert_eq!(network.held(), 0);
    });
}

#[test]
fn mails_above_the_queue_limit_are_dropped() {
    simulate(|network, desk| async move {
        let service = listen(&network);
        desk.send("first");
        // The mail being delivered is not in the queue.
        let _silent = service.accept().await;
        (0..130).for_each(|_| desk.send("more"));
        desk.check(
            [0, 0, 2],
            &["Mailer staff/one (10.0.0.1:25): more than 128 mails wait, others are dropped."],
        );
    });
}
