//! Sends a query to all name servers concurrently and takes the first valid response.
//!
//! Each name server has its own task, which ends at its deadline. Responses from other sources are rejected: each socket is
//! connected and has its own port, and a response must have the identifier and the letter case of the query.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_dns::{Answer, AnswerRefusal, Name, Question, RecordKind, ResponseCode};
use weir_net::{ConnectError, Connection, ConnectionFault, Datagram, DatagramOutcome, ReceiveOutcome};
use weir_sched::{Class, TaskKey, Tick, WorkKind as TaskKind, now, wait};

use crate::course::ResolutionFailure;
use crate::query_counters::QueryCounter;
use crate::section::{NameServer, ResolversSection};

/// Queries all name servers of a section. Returns the first valid response and the index of its server, or the last failure.
pub(crate) async fn query(
    section: &Arc<ResolversSection>,
    name: &Name,
    kind: RecordKind,
) -> Result<(Answer, usize), ResolutionFailure> {
    let count = section.name_servers.len();
    let deadline = now().after(section.settings.retry_ms);
    let gathering = Rc::new(Gathering {
        waiter: weir_sched::current(),
        found: RefCell::new(None),
        failure: Cell::new(ResolutionFailure::NotSent),
        left: Cell::new(count),
    });
    for index in 0..count {
        let exchange =
            exchange(Arc::clone(section), index, name.clone(), kind, deadline, Rc::clone(&gathering));
        weir_sched::spawn(&EXCHANGE, Class::Normal, exchange);
    }
    // Slightly later than the tasks' deadline, in case a task ends without a report.
    let limit = deadline.after(GRACE_MS);
    while gathering.left.get() > 0 && now() < limit {
        wait(limit).await;
        if let Some(found) = gathering.found.take() {
            return Ok(found);
        }
    }
    gathering.found.take().ok_or(gathering.failure.get())
}

/// State shared by the exchanges of one question.
struct Gathering {
    waiter: TaskKey,
    found: RefCell<Option<(Answer, usize)>>,
    failure: Cell<ResolutionFailure>,
    left: Cell<usize>,
}

async fn exchange(
    section: Arc<ResolversSection>,
    index: usize,
    name: Name,
    kind: RecordKind,
    deadline: Tick,
    gathering: Rc<Gathering>,
) {
    let Some(server) = section.name_servers.get(index) else { return };
    let letters = if server.keeps_letters(now().as_ms()) { random() } else { 0 };
    let question = Question { name: name.with_case(letters), kind };
    let query = NameQuery { server, question, identifier: random() as u16, deadline };
    let result = match query.put(section.settings.payload_size).await {
        Ok(answer) => judge(answer, kind, server),
        Err(failure) => Err(failure),
    };
    // The response is late if another server's response was already taken.
    let is_late = gathering.left.get() == 0;
    match result {
        Ok(_) if is_late => server.counters.count(QueryCounter::Outdated),
        Ok(answer) => {
            *gathering.found.borrow_mut() = Some((answer, index));
            gathering.left.set(0);
            weir_sched::wake(gathering.waiter);
        }
        Err(_) if is_late => {}
        Err(failure) => {
            if failure != ResolutionFailure::NotSent {
                gathering.failure.set(failure);
            }
            gathering.left.set(gathering.left.get() - 1);
            if gathering.left.get() == 0 {
                weir_sched::wake(gathering.waiter);
            }
        }
    }
}

/// Interprets and counts a response.
fn judge(answer: Answer, kind: RecordKind, server: &NameServer) -> Result<Answer, ResolutionFailure> {
    let is_empty = match kind {
        RecordKind::A | RecordKind::Aaaa => answer.addresses.is_empty(),
        RecordKind::Srv => answer.services.is_empty(),
    };
    let (counter, failure) = match answer.code {
        ResponseCode::NoSuchName => (QueryCounter::NoSuchName, ResolutionFailure::NoSuchName),
        ResponseCode::Refused => (QueryCounter::Refused, ResolutionFailure::Refused),
        ResponseCode::Other(_) => (QueryCounter::Other, ResolutionFailure::Other),
        ResponseCode::NoError if answer.is_truncated => (QueryCounter::Truncated, ResolutionFailure::Other),
        ResponseCode::NoError if answer.aliases_fail => (QueryCounter::AliasErrors, ResolutionFailure::Other),
        ResponseCode::NoError if is_empty && answer.has_aliases => {
            (QueryCounter::Aliases, ResolutionFailure::Other)
        }
        ResponseCode::NoError if is_empty => (QueryCounter::Empty, ResolutionFailure::Other),
        ResponseCode::NoError => {
            server.counters.count(QueryCounter::Valid);
            return Ok(answer);
        }
    };
    server.counters.count(counter);
    Err(failure)
}

/// A query to one name server.
struct NameQuery<'q> {
    server: &'q NameServer,
    question: Question,
    identifier: u16,
    deadline: Tick,
}

impl NameQuery<'_> {
    /// Queries over UDP, unless the server is configured for TCP. Repeats the query over TCP if the response is
    /// truncated.
    async fn put(&self, payload_size: u16) -> Result<Answer, ResolutionFailure> {
        let mut message = Vec::new();
        self.question.write(self.identifier, payload_size, &mut message);
        if self.server.over_tcp {
            return self.over_connection(&message).await;
        }
        let answer = self.over_datagrams(&message, usize::from(payload_size)).await?;
        if !answer.is_truncated {
            return Ok(answer);
        }
        self.count(QueryCounter::Truncated);
        self.over_connection(&message).await
    }

    async fn over_datagrams(&self, message: &[u8], payload_size: usize) -> Result<Answer, ResolutionFailure> {
        let socket = match Datagram::to(self.server.address) {
            Ok(socket) if socket.send(message).is_ok() => socket,
            Ok(_) => return Err(self.unsent(ResolutionFailure::Timeout).await),
            Err(fault) => {
                let lacks = fault.is_lack_of_descriptors() || fault == ConnectionFault::Shortage;
                return Err(self
                    .unsent(if lacks { ResolutionFailure::NotSent } else { ResolutionFailure::Timeout })
                    .await);
            }
        };
        self.count(QueryCounter::Sent);
        // One byte more than allowed, to detect oversized responses.
        let mut space = vec![0; payload_size + 1];
        let mut lies = 0;
        loop {
            match socket.receive(&mut space) {
                Ok(DatagramOutcome::Bytes(count)) if count > payload_size => {
                    self.count(QueryCounter::TooBig);
                    return Err(ResolutionFailure::Other);
                }
                Ok(DatagramOutcome::Bytes(count)) => {
                    match self.read(space.get(..count).unwrap_or_default()) {
                        Ok(answer) => return Ok(answer),
                        Err(_) if lies < MOST_LIES => lies += 1,
                        Err(_) => return Err(ResolutionFailure::Other),
                    }
                }
                Ok(DatagramOutcome::Unreachable) => self.count(QueryCounter::SendErrors),
                Ok(DatagramOutcome::Nothing) => {
                    if now() >= self.deadline {
                        self.count(QueryCounter::Timeouts);
                        return Err(ResolutionFailure::Timeout);
                    }
                    wait(self.deadline).await;
                }
                Err(_) => return Err(self.unsent(ResolutionFailure::Timeout).await),
            }
        }
    }

    async fn over_connection(&self, message: &[u8]) -> Result<Answer, ResolutionFailure> {
        let turn = match &self.server.connections {
            None => None,
            Some(turns) => match turns.turn(self.deadline).await {
                None => return Err(self.unsent(ResolutionFailure::Timeout).await),
                turn => turn,
            },
        };
        let answer = self.over_own_connection(message).await;
        drop(turn);
        answer
    }

    async fn over_own_connection(&self, message: &[u8]) -> Result<Answer, ResolutionFailure> {
        // Each message is preceded by a two-byte length (RFC 1035, 4.2.2).
        let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
        let framed = [&length.to_be_bytes(), message].concat();
        let mut connection = match self.server.link.open(&framed, self.deadline).await {
            Ok(connection) => connection,
            Err(ConnectError::Failed(fault))
                if fault.is_lack_of_descriptors() || fault == ConnectionFault::Shortage =>
            {
                return Err(self.unsent(ResolutionFailure::NotSent).await);
            }
            Err(_) => return Err(self.unsent(ResolutionFailure::Timeout).await),
        };
        self.count(QueryCounter::Sent);
        let Some(answer) = self.receive_message(&mut connection).await else {
            self.count(QueryCounter::Timeouts);
            return Err(ResolutionFailure::Timeout);
        };
        self.read(&answer).map_err(|_| ResolutionFailure::Other)
    }

    /// Receives the message on a connection. `None` if it does not arrive in time.
    async fn receive_message(&self, connection: &mut Connection) -> Option<Vec<u8>> {
        let mut message: Vec<u8> = Vec::new();
        loop {
            let received = connection.receive(usize::MAX);
            let there = connection.input();
            message.extend_from_slice(there);
            connection.consume(there.len());
            if let Some((head, rest)) = message.split_first_chunk::<2>()
                && rest.len() >= usize::from(u16::from_be_bytes(*head))
            {
                let length = usize::from(u16::from_be_bytes(*head));
                return Some(rest[..length].to_vec());
            }
            match received {
                ReceiveOutcome::End | ReceiveOutcome::Failed(_) => {
                    // After an early close, the server is not queried before the next round.
                    weir_sched::sleep_until(self.deadline).await;
                    return None;
                }
                ReceiveOutcome::Nothing if now() >= self.deadline => return None,
                ReceiveOutcome::Nothing => _ = wait(self.deadline).await,
                _ => {}
            }
        }
    }

    fn read(&self, message: &[u8]) -> Result<Answer, AnswerRefusal> {
        let read = Answer::read(message, self.identifier, &self.question);
        if let Err(refusal) = read {
            self.count(QueryCounter::Invalid);
            if refusal == AnswerRefusal::OtherLetters {
                self.server.changes_letters(now().as_ms());
            }
        }
        read
    }

    /// Handles a query that could not be sent. It is repeated only in the next round.
    async fn unsent(&self, failure: ResolutionFailure) -> ResolutionFailure {
        self.count(QueryCounter::SendErrors);
        weir_sched::sleep_until(self.deadline).await;
        failure
    }

    fn count(&self, counter: QueryCounter) {
        self.server.counters.count(counter);
    }
}

/// An unpredictable number. Falls back to a weaker generator if the system's randomness fails.
fn random() -> u64 {
    weir_sys::random::number().unwrap_or_else(|_| weir_sched::random())
}

/// Maximum number of invalid messages skipped per query.
const MOST_LIES: u32 = 64;
/// Time between the deadline of the exchanges and the caller's deadline, in milliseconds.
const GRACE_MS: u64 = 100;

static EXCHANGE: TaskKind = TaskKind::new("DNS query");
