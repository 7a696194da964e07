//! The mail servers of a section, each with a queue and a delivering task.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use weir_sched::{Class, WorkKind, caught};

use crate::smtp::{self, DeliveryFailure, Mail};

/// The mail servers of a section.
pub struct Mailers {
    mailers: Vec<Arc<Mailer>>,
}

/// A mail server.
pub struct Mailer {
    /// Section and name: `section/name`.
    pub name: Box<str>,
    pub address: SocketAddr,
    /// The timeout of a delivery, in milliseconds.
    pub timeout_ms: u64,
    report: MailerReport,
    waiting: Mutex<MailQueue>,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// Called with messages for operators about a mailer.
type MailerReport = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct MailQueue {
    mails: VecDeque<Arc<Mail>>,
    /// Whether a task is delivering the queue.
    is_served: bool,
    /// Whether the last mail failed or was dropped. The failure has been reported, so it is not reported again.
    is_failing: bool,
}

/// The limit of queued mails per mailer.
const MOST_WAITING: usize = 128;

impl std::fmt::Debug for Mailers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(&self.mailers).finish()
    }
}

impl std::fmt::Debug for Mailer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mailer { name, address, .. } = self;
        formatter.debug_struct("Mailer").field("name", name).field("address", address).finish_non_exhaustive()
    }
}

impl Mailers {
    /// These mail servers.
    pub fn new(mailers: Vec<Mailer>) -> Self {
        Mailers { mailers: mailers.into_iter().map(Arc::new).collect() }
    }

    /// The mail servers.
    pub fn all(&self) -> impl Iterator<Item = &Mailer> {
        self.mailers.iter().map(|mailer| &**mailer)
    }

    /// The counts of each mailer: mails delivered, failed, and dropped because the queue was full.
    pub fn counts(&self) -> Vec<[u64; 3]> {
        self.mailers.iter().map(|mailer| mailer.counts()).collect()
    }

    /// Queues a mail for each mailer. Call it on a worker. It starts a delivering task unless one already runs.
    pub fn send(&self, mail: Mail) {
        let mail = Arc::new(mail);
        for mailer in &self.mailers {
            if mailer.enqueue(Arc::clone(&mail)) {
                let mailer = Arc::clone(mailer);
                weir_sched::spawn(&DELIVERY, Class::Bulk, async move { mailer.deliver_all().await });
            }
        }
    }
}

impl Mailer {
    /// A mail server with an empty queue. `report` is called when deliveries begin to fail.
    pub fn new(
        name: &str,
        address: SocketAddr,
        timeout_ms: u64,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Mailer {
            name: name.into(),
            address,
            timeout_ms,
            report: Box::new(report),
            waiting: Mutex::default(),
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn counts(&self) -> [u64; 3] {
        [&self.sent, &self.failed, &self.dropped].map(|count| count.load(Relaxed))
    }

    /// Queues a mail. True if the caller must start a delivering task.
    fn enqueue(&self, mail: Arc<Mail>) -> bool {
        let mut waiting = self.waiting();
        if waiting.mails.len() >= MOST_WAITING {
            self.dropped.fetch_add(1, Relaxed);
            let is_new = !std::mem::replace(&mut waiting.is_failing, true);
            drop(waiting);
            if is_new {
                self.say(&format!("more than {MOST_WAITING} mails wait, others are dropped"));
            }
            return false;
        }
        waiting.mails.push_back(mail);
        !std::mem::replace(&mut waiting.is_served, true)
    }

    /// Delivers until the queue is empty.
    async fn deliver_all(&self) {
        while let Some(mail) = self.next() {
            let outcome = caught(smtp::deliver(&mail, self.address, self.timeout_ms)).await;
            match outcome.unwrap_or(Err(DeliveryFailure::OurOwn)) {
                Ok(()) => {
                    self.sent.fetch_add(1, Relaxed);
                    self.waiting().is_failing = false;
                }
                Err(failure) => {
                    self.failed.fetch_add(1, Relaxed);
                    let is_new = !std::mem::replace(&mut self.waiting().is_failing, true);
                    if is_new {
                        self.say(&format!("a mail was not delivered: {failure}"));
                    }
                }
            }
        }
    }

    /// The next mail. `None` ends the task, and the next [`Mailer::enqueue`] requests a new one.
    fn next(&self) -> Option<Arc<Mail>> {
        let mut waiting = self.waiting();
        let mail = waiting.mails.pop_front();
        waiting.is_served = mail.is_some();
        mail
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, MailQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, what: &str) {
        (self.report)(&format!("Mailer {} ({}): {what}.", self.name, self.address));
    }
}

static DELIVERY: WorkKind = WorkKind::new("mail");
