//! A scripted HTTP client. Sends requests, and checks that each response belongs to its request.

use std::rc::Rc;

use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{Tick, now};

use crate::engines;
use crate::pattern::{Pattern, Way};
use crate::plan::{How, Leave, Menu, PlannedRequest, Visit};
use crate::reader::{Head, Part, Reader};
use crate::stage::Stage;

/// The answer to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    /// Whether a server, not the proxy, sent the response.
    pub from_server: bool,
    /// The complete response arrived.
    pub complete: bool,
}

/// Several clients with several visits each, as the seed and a menu determine.
pub(crate) fn some(stage: &Rc<Stage>, most: u64, menu: &'static Menu) {
    for _ in 0..=stage.network.random(most) {
        let guest = Rc::clone(stage);
        stage.play(async move {
            for _ in 0..=guest.network.random(3) {
                visit(&guest, Visit::drawn(&guest, menu)).await;
            }
        });
    }
}

struct Client<'s> {
    stage: &'s Stage,
    visit: Visit,
    peer: SimulatedPeer,
    out: Vec<u8>,
    /// A body that waits for its `100 Continue`.
    withheld: Vec<u8>,
    /// Number of requests started.
    begun: usize,
    /// The responses received. The last may be partial.
    answers: Vec<Answer>,
    complete: usize,
    reader: Reader,
    body: Option<Pattern>,
    tunnel: bool,
    moved: usize,
    finished: bool,
    /// When the client leaves.
    deadline: Tick,
    /// The far end announced that this is the last response.
    last: bool,
}

/// Runs a visit: all requests of one connection of a client.
pub(crate) async fn visit(stage: &Stage, visit: Visit) {
    let peer = stage.client();
    let deadline = visit.patience_ms.map_or(Tick::NEVER, |patience_ms| now().after(patience_ms));
    let mut client = Client {
        stage,
        visit,
        peer,
        out: Vec::new(),
        withheld: Vec::new(),
        begun: 0,
        answers: Vec::new(),
        complete: 0,
        reader: Reader::default(),
        body: None,
        tunnel: false,
        moved: 0,
        finished: false,
        deadline,
        last: false,
    };
    let gone = client.run().await;
    let Client { peer, answers, complete, visit, .. } = client;
    for (at, request) in visit.requests.iter().enumerate() {
        let answer = answers.get(at).copied().unwrap_or_default();
        stage.answered(request, Answer { complete: at < complete, ..answer });
    }
    stage.client_ends(&peer);
    match visit.leave {
        Leave::ResetAfter(_) if gone => peer.reset(),
        Leave::VanishAfter(_) if gone => peer.vanish(),
        _ => drop(peer),
    }
}

impl Client<'_> {
    /// Runs the visit. True if the client leaves before it is done.
    async fn run(&mut self) -> bool {
        loop {
            self.begin_more();
            let sent = self.send();
            match self.receive() {
                Some(true) => {}
                Some(false) if sent => {}
                Some(false) => {
                    if self.leaves() {
                        return true;
                    }
                    // Read slowly at random.
                    match self.stage.network.random(20) {
                        0 => weir_sched::sleep_until(now().after(self.stage.network.random(200))).await,
                        _ => self.peer.wait_until(self.deadline).await,
                    }
                }
                None => return false,
            }
            if self.leaves() {
                return true;
            }
            if self.last && self.complete == self.answers.len() {
                return false;
            }
            if self.complete == self.visit.requests.len() && self.out.is_empty() && !self.finished {
                return false;
            }
        }
    }

    fn leaves(&self) -> bool {
        self.deadline <= now()
            || match self.visit.leave {
                Leave::After(bytes) | Leave::ResetAfter(bytes) | Leave::VanishAfter(bytes) => {
                    self.moved >= bytes
                }
                Leave::Politely | Leave::HalfClosed => false,
            }
    }

    fn begin_more(&mut self) {
        let waits = !self.visit.pipelined && self.begun > self.complete;
        if !self.out.is_empty() || !self.withheld.is_empty() || waits {
            return;
        }
        let Some(request) = self.visit.requests.get(self.begun) else {
            if self.visit.leave == Leave::HalfClosed && !self.finished && !self.tunnel && self.begun > 0 {
                self.finished = true;
                self.peer.finish();
            }
            return;
        };
        self.stage.note_request(request, self.begun == 0);
        self.begun += 1;
        self.out = request.head();
        let body = request.body(&self.stage.network);
        match request.expects && !self.visit.pipelined {
            true => self.withheld = body,
            false => self.out.extend(body),
        }
    }

    /// Sends. True if any byte was sent.
    fn send(&mut self) -> bool {
        if self.out.is_empty() {
            return false;
        }
        match self.peer.try_send(&self.out) {
            Ok(count) => {
                self.out.drain(..count);
                self.moved += count;
                count > 0
            }
            // Bytes that the far end sent before may still be unread.
            Err(_) => {
                self.out.clear();
                self.withheld.clear();
                false
            }
        }
    }

    /// Receives. True if any byte was received, `None` at EOF.
    fn receive(&mut self) -> Option<bool> {
        let most = 1 + self.stage.network.random(20_000) as usize;
        match self.peer.try_receive(most) {
            Ok(None) => Some(false),
            Ok(Some(bytes)) if !bytes.is_empty() => {
                self.moved += bytes.len();
                self.take_in(&bytes);
                Some(true)
            }
            Ok(_) => {
                if self.reader.ends_with_connection() {
                    self.complete += 1;
                } else if self.tunnel {
                    self.end_tunnel();
                }
                None
            }
            Err(_) => None,
        }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
        loop {
            if self.tunnel {
                let raw = self.reader.take_raw();
                return self.body.get_or_insert_with(|| unreachable!("a tunnel has one")).check(&raw);
            }
            let Some(part) = self.reader.next() else { return };
            match part {
                Part::Head(head) => self.begin_answer(&head),
                Part::Data(data) => {
                    if let Some(body) = &mut self.body {
                        body.check(&data);
                    }
                }
                Part::End => self.end_answer(),
            }
        }
    }

    fn requested(&self) -> &PlannedRequest {
        let at = self.complete;
        assert!(at < self.begun, "an answer to nothing");
        &self.visit.requests[at]
    }

    fn begin_answer(&mut self, head: &Head) {
        let request = self.requested().clone();
        let status = head.status();
        if status == 100 {
            assert!(request.expects, "nobody expects it: {head:?}");
            self.out.append(&mut self.withheld);
            return;
        }
        let from_server = head.field("x-from").is_some();
        if from_server {
            assert_eq!(head.field("x-id"), Some(&*request.id.to_string()), "the answer to another request");
        }
        engines::check_head(self.stage, request.id, head, from_server);
        self.answers.truncate(self.complete);
        self.answers.push(Answer { status, from_server, complete: false });
        self.last = head.field("connection") == Some("close");
        self.body = from_server.then(|| Pattern::new(request.id, Way::Down));
        // A final response ends the wait for `100 Continue`. The body is sent, or the connection ends.
        self.out.append(&mut self.withheld);
        if status == 101 {
            assert_eq!(request.how, How::Upgrade);
            self.tunnel = true;
            self.out = Pattern::new(request.id, Way::Up).make(request.download);
            return;
        }
        if request.method == "HEAD" || status == 204 || status == 304 {
            self.reader.no_body_follows();
        } else {
            self.reader.body_follows(head, true);
        }
    }

    fn end_answer(&mut self) {
        let request = self.requested().clone();
        if let Some(body) = self.body.take()
            && request.method != "HEAD"
        {
            assert_eq!(body.done, request.download, "length of the answer to {}", request.id);
        }
        self.complete += 1;
    }

    fn end_tunnel(&mut self) {
        let request = self.requested().clone();
        if self.body.take().is_some_and(|body| body.done == request.download) && self.out.is_empty() {
            self.complete += 1;
        }
    }
}
