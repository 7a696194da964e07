//! The poller thread: owns the connection, polls, sends commands, and reports the answers.
//!
//! Only this thread blocks on the network, so the screen always responds to keys. Both channels are bounded.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::{AnswerFailure, ApiAnswer, ApiConnection};
use crate::model::info::Info;
use crate::model::row::ObjectRow;
use crate::model::{MOST_ROWS, Picture, refusal};
use crate::target::ApiAddress;

/// A request to the poller thread.
#[derive(Debug, PartialEq)]
pub(crate) enum PollerOrder {
    /// Send this command immediately, once.
    Command(String),
    /// The additional answers to poll from now on.
    Watch(WatchedAnswers),
    Interval(Duration),
    Pause(bool),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchedAnswers {
    pub errors: bool,
    pub sessions: bool,
}

/// A message from the poller thread.
#[derive(Debug)]
pub(crate) enum PollerNews {
    Picture(Box<Picture>),
    Latencies(String),
    Errors(ApiAnswer),
    Streams(ApiAnswer),
    /// A command with its answer, or the reason why the answer is missing.
    Done(String, Result<String, String>),
    Lost(String),
}

/// Starts the thread. It exits when the other ends of its channels are dropped.
pub(crate) fn start(
    target: ApiAddress,
    interval: Duration,
    watch: WatchedAnswers,
    orders: Receiver<PollerOrder>,
    news: SyncSender<PollerNews>,
) {
    let poller = ApiPoller {
        target,
        interval,
        news,
        began: Instant::now(),
        connection: None,
        watch,
        paused: false,
        rounds: 0,
        knows_latency: true,
    };
    thread::Builder::new()
        .name("poller".to_owned())
        .spawn(move || poller.run(&orders))
        .expect("a thread can be started");
}

struct ApiPoller {
    target: ApiAddress,
    interval: Duration,
    news: SyncSender<PollerNews>,
    began: Instant,
    connection: Option<ApiConnection>,
    watch: WatchedAnswers,
    paused: bool,
    /// Number of polls since the connection was opened.
    rounds: u64,
    knows_latency: bool,
}

/// The screen has dropped its ends of the channels.
struct Over;

impl ApiPoller {
    fn run(mut self, orders: &Receiver<PollerOrder>) {
        let mut next = Instant::now();
        loop {
            let done = match orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(PollerOrder::Command(command)) => {
                    // Poll immediately, to show the effect.
                    next = Instant::now();
                    self.command(command)
                }
                Ok(PollerOrder::Watch(watch)) => {
                    self.watch = watch;
                    next = Instant::now();
                    Ok(())
                }
                Ok(PollerOrder::Interval(interval)) => {
                    self.interval = interval;
                    next = next.min(Instant::now() + interval);
                    Ok(())
                }
                Ok(PollerOrder::Pause(paused)) => {
                    self.paused = paused;
                    Ok(())
                }
                Err(RecvTimeoutError::Timeout) => {
                    next = Instant::now() + self.interval;
                    if self.paused { Ok(()) } else { self.round() }
                }
                Err(RecvTimeoutError::Disconnected) => Err(Over),
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Sends a command. Never retries it: a failed command may or may not have been executed.
    fn command(&mut self, command: String) -> Result<(), Over> {
        let answer = match self.connected() {
            Err(failure) => Err(format!("not sent: {failure}")),
            Ok(connection) => match connection.request(&command, LONGEST_ANSWER) {
                Ok(answer) => Ok(answer.text),
                Err(failure) => {
                    self.connection = None;
                    Err(format!("{failure}; whether it was done is not known"))
                }
            },
        };
        self.send(PollerNews::Done(command, answer))
    }

    fn round(&mut self) -> Result<(), Over> {
        match self.request_all() {
            Ok(news) => news.into_iter().try_for_each(|news| self.send(news)),
            Err(why) => {
                self.connection = None;
                self.send(PollerNews::Lost(why))
            }
        }
    }

    fn request_all(&mut self) -> Result<Vec<PollerNews>, String> {
        let mut picture = self.picture()?;
        // A stopping process keeps its connections open, but its successor owns the socket. Reconnect.
        if picture.info.is_stopping() && self.rounds > 0 {
            self.connection = None;
            picture = self.picture()?;
        }
        let mut news = vec![PollerNews::Picture(Box::new(picture))];
        // Latency histograms change slowly, and there is one for each server.
        if self.knows_latency && self.rounds.is_multiple_of(LATENCY_ROUNDS) {
            let answer = self.request("show latency", LONGEST_STATISTICS)?;
            self.knows_latency = answer.text.trim_start().starts_with('#') || answer.text.trim().is_empty();
            news.push(PollerNews::Latencies(answer.text));
        }
        if self.watch.errors {
            news.push(PollerNews::Errors(self.request("show errors", LONGEST_LISTING)?));
        }
        if self.watch.sessions {
            news.push(PollerNews::Streams(self.request("show sess", LONGEST_LISTING)?));
        }
        self.rounds += 1;
        Ok(news)
    }

    fn picture(&mut self) -> Result<Picture, String> {
        let info = self.request("show info", LONGEST_ANSWER)?;
        let info = Info::read(&info.text)
            .ok_or_else(|| format!("'show info' was answered: {}", refusal(&info.text)))?;
        let answer = self.request("show stat", LONGEST_STATISTICS)?;
        let (rows, more) = ObjectRow::read_all(&answer.text, MOST_ROWS)
            .ok_or_else(|| format!("'show stat' was answered: {}", refusal(&answer.text)))?;
        Ok(Picture { info, rows, more: more || answer.cut, at: self.began.elapsed() })
    }

    fn request(&mut self, command: &str, limit: usize) -> Result<ApiAnswer, String> {
        let answered = self.connected().and_then(|connection| connection.request(command, limit));
        let answer = answered.map_err(|failure| failure.to_string())?;
        if answer.cut {
            self.connection = None;
        }
        Ok(answer)
    }

    /// The connection. Reconnects if the peer closed it, for example after the idle timeout.
    fn connected(&mut self) -> Result<&mut ApiConnection, AnswerFailure> {
        if !self.connection.as_mut().is_some_and(ApiConnection::is_ready) {
            self.connection = None;
            let connection = ApiConnection::open(&self.target, DEADLINE)?;
            self.rounds = 0;
            self.knows_latency = true;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it was just opened"))
    }

    fn send(&self, news: PollerNews) -> Result<(), Over> {
        self.news.send(news).map_err(|_| Over)
    }
}

/// Time limit for one command, from its first byte to the last byte of its answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
const LATENCY_ROUNDS: u64 = 5;
/// Maximum size of `show stat`, in bytes. 20,000 rows take about 10 MB.
const LONGEST_STATISTICS: usize = 32 << 20;
/// Maximum size of `show sess`, in bytes. A stream takes about 300 bytes.
const LONGEST_LISTING: usize = 4 << 20;
const LONGEST_ANSWER: usize = 256 << 10;
