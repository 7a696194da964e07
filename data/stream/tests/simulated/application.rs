//! A scripted FastCGI application: the path of each request selects its handling, as with the scripted servers. In between it writes to its
//! error output, pads its records, ends requests late, and in runs with faults it breaks every rule.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use weir_fcgi::testing::{
    ApplicationRequest, ScriptedApplication, write_end, write_record, write_stderr, write_stdout,
    write_values,
};
use weir_fcgi::{FcgiRecordKind, ProtocolStatus};
use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{Tick, now};

use crate::pattern::{Pattern, Way};
use crate::pieces::OutputPieces;
use crate::plan::{self, PlannedRequest};
use crate::stage::Stage;

/// The properties of the application in a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplicationRules {
    /// Requests at once on a connection.
    pub requests: usize,
    /// Whether connections stay open after a request.
    pub keeps: bool,
    /// Whether connections begin with GET_VALUES.
    pub get_values: bool,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(stage: Rc<Stage>, peer: SimulatedPeer, rules: ApplicationRules) {
    let connection = ApplicationEnd {
        stage: &stage,
        peer: &peer,
        rules,
        script: ScriptedApplication::new(),
        served: BTreeMap::new(),
        answered_queries: 0,
        out: OutputPieces::new(10),
        end: None,
    };
    let last = connection.run().await;
    stage.server_ends(&peer);
    match last {
        End::Close => drop(peer),
        End::Reset => peer.reset(),
        End::Vanish => peer.vanish(),
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Reset,
    Vanish,
}

/// One connection of an application.
struct ApplicationEnd<'a> {
    stage: &'a Stage,
    peer: &'a SimulatedPeer,
    rules: ApplicationRules,
    script: ScriptedApplication,
    served: BTreeMap<u16, Served>,
    answered_queries: usize,
    out: OutputPieces,
    /// How the connection ends once all of `out` is sent.
    end: Option<End>,
}

/// A request in progress.
struct Served {
    number: u64,
    how: String,
    length: usize,
    head_only: bool,
    delay_ms: u64,
    body: Pattern,
    /// The rest of the answer, record by record. `None` before it begins.
    records: Option<VecDeque<Vec<u8>>>,
    /// When the next record is sent.
    next_at: Tick,
    /// How the connection ends after the last record.
    then: Option<End>,
}

impl ApplicationEnd<'_> {
    /// Runs until the connection ends.
    async fn run(mut self) -> End {
        loop {
            self.understand();
            self.release();
            let Some(sent) = self.out.send(self.peer, &self.stage.network) else { return End::Close };
            if let Some(end) = self.end.filter(|_| self.out.bytes.is_empty()) {
                return end;
            }
            match self.peer.try_receive(1 + self.random(20_000) as usize) {
                Ok(Some(bytes)) if bytes.is_empty() => return End::Close,
                Ok(Some(bytes)) => self.script.receive(&bytes),
                Ok(None) if sent => {}
                Ok(None) => self.peer.wait_until(self.next_at()).await,
                Err(_) => return End::Close,
            }
        }
    }

    fn random(&self, bound: u64) -> u64 {
        self.stage.network.random(bound)
    }

    fn draws(&self, one_in: u64) -> bool {
        self.stage.faulty && self.random(one_in) == 0
    }

    fn next_at(&self) -> Tick {
        let records = self.served.values().filter(|served| served.records.is_some());
        let next = records.map(|served| served.next_at).min().unwrap_or(Tick::NEVER);
        // A full window wakes the script when there is room.
        if self.out.bytes.is_empty() {
            next
        } else if self.out.sends_at > now() {
            next.max(now().after(1)).min(self.out.sends_at)
        } else {
            Tick::NEVER
        }
    }

    /// Looks at what arrived.
    fn understand(&mut self) {
        assert!(self.rules.get_values || self.script.value_queries == 0, "GET_VALUES without the option");
        if self.answered_queries < self.script.value_queries {
            self.answered_queries = self.script.value_queries;
            self.answer_query();
        }
        let script = std::mem::take(&mut self.script);
        assert!(script.requests.len() <= self.rules.requests, "{:?}", script.requests.keys());
        for (id, request) in &script.requests {
            self.look(*id, request);
        }
        self.script = script;
        // An application may end an aborted request, or go on with it.
        let aborted = self.script.requests.iter().filter(|(_, request)| request.is_aborted);
        let aborted: Vec<u16> = aborted.map(|(id, _)| *id).collect();
        for id in aborted {
            if self.random(2) == 0 {
                self.script.requests.remove(&id);
                self.served.remove(&id);
                write_end(id, 1, ProtocolStatus::RequestComplete, &mut self.out.bytes);
            }
        }
    }

    fn answer_query(&mut self) {
        let limit = self.rules.requests.to_string();
        match self.random(8) {
            // Neither an answer nor a close.
            0 if self.stage.faulty => {}
            1 if self.stage.faulty => self.out.bytes.extend([1, 10, 0, 0, 0, 2, 0, 0, 9, 9]),
            _ => write_values(&[("FCGI_MAX_REQS", &limit), ("FCGI_MPXS_CONNS", "1")], &mut self.out.bytes),
        }
    }

    fn look(&mut self, id: u16, request: &ApplicationRequest) {
        if !request.has_params {
            return;
        }
        if !self.served.contains_key(&id) {
            assert_eq!(request.keeps, self.rules.keeps);
            self.served.insert(id, Served::begin(self.stage, request));
        }
        let Some(served) = self.served.get_mut(&id) else { return };
        served.body.check(&request.stdin[served.body.done..]);
        let is_early = matches!(&*served.how, "Early" | "Rash");
        if request.has_stdin && served.next_at == Tick::NEVER {
            served.next_at = now();
        }
        if served.records.is_some() || !(request.has_stdin || is_early) {
            return;
        }
        if request.has_stdin {
            let length = request.param("CONTENT_LENGTH").map(String::from_utf8_lossy);
            assert_eq!(length.as_deref(), Some(&*request.stdin.len().to_string()), "{}", served.number);
        }
        served.begin_answer(id, self.stage);
    }

    /// Queues the records that are due.
    fn release(&mut self) {
        let now = now();
        let mut ended = Vec::new();
        let order = self.random(2) == 0;
        let mut due: Vec<u16> = self.served.keys().copied().collect();
        if order {
            due.reverse();
        }
        for id in due {
            let pause = if self.random(6) == 0 { self.random(40) } else { 0 };
            let Some(served) = self.served.get_mut(&id) else { continue };
            let Some(records) = &mut served.records else { continue };
            // An application that ends a request before its body refuses the rest.
            let is_last = records.len() == 1 && served.how == "Early";
            let request = self.script.requests.get(&id);
            let has_body = self.stage.faulty || request.is_none_or(|request| request.has_stdin);
            if served.next_at > now || self.out.bytes.len() > MOST_QUEUED || self.end.is_some() {
                continue;
            }
            if is_last && !has_body {
                served.next_at = Tick::NEVER;
                continue;
            }
            served.next_at = now.after(pause);
            match records.pop_front() {
                Some(record) => {
                    if record.get(1) == Some(&END_REQUEST) {
                        ended.push(id);
                    }
                    self.out.bytes.extend(record);
                }
                None => {
                    self.end = self.end.or(served.then);
                    served.next_at = Tick::NEVER;
                }
            }
        }
        for id in ended {
            self.script.requests.remove(&id);
            if let Some(served) = self.served.remove(&id) {
                let closes = (!self.rules.keeps).then_some(End::Close);
                self.end = self.end.or(served.then).or(closes);
            }
            if self.draws(10) {
                self.misbehave(id);
            }
        }
    }

    /// Writes records that a web server does not expect after the end of a request.
    fn misbehave(&mut self, id: u16) {
        match self.random(4) {
            0 => write_stdout(id, b"too late", &mut self.out.bytes),
            1 => write_end(id, 0, ProtocolStatus::RequestComplete, &mut self.out.bytes),
            2 => write_record(FcgiRecordKind::Unassigned(99), 7, b"unknown", 3, &mut self.out.bytes),
            _ => write_stderr(id, b"too late", &mut self.out.bytes),
        }
    }
}

impl Served {
    fn begin(stage: &Stage, request: &ApplicationRequest) -> Served {
        let param = |name| request.param(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let path = param("REQUEST_URI").expect("each request has it");
        let (number, how, length, delay_ms) =
            PlannedRequest::understood(&path).unwrap_or_else(|| panic!("nobody sent {path}"));
        assert_eq!(param("HTTP_X_ID"), Some(number.to_string()), "parameters of two requests");
        let method = param("REQUEST_METHOD").expect("each request has it");
        stage.arrived(number, &format!("{method} {path}"));
        Served {
            number,
            how,
            length,
            head_only: method == "HEAD",
            delay_ms,
            body: Pattern::new(number, Way::Up),
            records: None,
            next_at: now(),
            then: None,
        }
    }

    /// Makes the records of the answer.
    fn begin_answer(&mut self, id: u16, stage: &Stage) {
        let network = &stage.network;
        let draws = |one_in| network.random(one_in) == 0;
        let (number, length) = (self.number, self.length);
        let mut pattern = Pattern::new(number, Way::Down);
        let by_length = format!("Content-Length: {length}\n");
        let framing = match &*self.how {
            "Length" | "Last" | "Early" | "Rash" => by_length,
            "Truncated" | "Reset" => format!("Content-Length: {}\n", length + 1),
            "Chunked" => "Transfer-Encoding: chunked\n".to_owned(),
            _ => String::new(),
        };
        let status = if draws(2) { "Status: 200 OK\n" } else { "" };
        let mut output = format!("{status}X-From: server\nX-Id: {number}\n{framing}\n").into_bytes();
        match &*self.how {
            _ if self.head_only => {}
            "Chunked" => output.extend(plan::chunked(network, pattern, length)),
            _ => output.extend(pattern.make(length)),
        }
        let mut records = VecDeque::new();
        let mut rest = &output[..];
        while !rest.is_empty() {
            let size = (1 + network.random(1 << network.random(16)) as usize).min(rest.len());
            let padding = if draws(3) { network.random(256) as u8 } else { 0 };
            records.push_back(record(|out| {
                write_record(FcgiRecordKind::Stdout, id, &rest[..size], padding, out);
            }));
            rest = &rest[size..];
            if draws(8) {
                let line = format!("{ERROR}{number} {}.\n", records.len());
                records.push_back(record(|out| write_stderr(id, line.as_bytes(), out)));
            }
        }
        if draws(3) {
            records.push_back(record(|out| write_stdout(id, b"", out)));
        }
        let status = ProtocolStatus::RequestComplete;
        let end = record(|out| write_end(id, network.random(3) as u32, status, out));
        match &*self.how {
            "Silent" => records.clear(),
            "Mute" => {
                records = VecDeque::from([match network.random(3) {
                    0 => record(|out| write_end(id, 0, ProtocolStatus::Overloaded, out)),
                    1 => record(|out| write_end(id, 0, ProtocolStatus::CannotMultiplex, out)),
                    _ => end,
                }]);
            }
            "Garbage" => {
                records = VecDeque::from([b"HTTP/1.1 200 OK\r\n\r\n".to_vec()]);
                self.then = Some(End::Close);
            }
            "Vanish" => {
                records.truncate(network.random(3) as usize);
                self.then = Some(End::Vanish);
            }
            "Reset" => self.then = Some(End::Reset),
            "Rash" => {
                if draws(2) {
                    records.push_back(end);
                }
                self.then = Some(End::Close);
            }
            // The response is whole, and the request never ends.
            "Last" if stage.faulty && draws(4) => {}
            _ => records.push_back(end),
        }
        self.records = Some(records);
        self.next_at = now().after(self.delay_ms);
    }
}

fn record(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

/// Bytes that are queued before no more records are.
const MOST_QUEUED: usize = 100_000;
/// Checks the log lines of the error output: each is a line that an application wrote.
pub(crate) fn check_lines(stage: &Stage) {
    for line in stage.lines().iter().filter(|line| is_of_error_output(line)) {
        // A connection may end in a line that follows its response.
        let Some(whole) = line.strip_suffix('.') else { continue };
        let number = whole.strip_prefix(ERROR).and_then(|text| text.split(' ').next()?.parse().ok());
        let is_known = number.is_some_and(|number: u64| stage.ledger.borrow().contains_key(&number));
        assert!(is_known, "{line}");
    }
}

/// Whether a log line is of the error output, perhaps only its front.
pub(crate) fn is_of_error_output(line: &str) -> bool {
    line.starts_with(ERROR) || ERROR.starts_with(line)
}

/// The front of each line of the error output.
const ERROR: &str = "STDERR ";

/// The type of the record that ends a request, which is the second byte of its header.
const END_REQUEST: u8 = 3;
