//! A stream's entry: lets other tasks list and kill a stream in progress.
//!
//! A [`ClientSession`] is a client's connection. Its streams are sequential in HTTP/1 and concurrent in HTTP/2. So each stream has its
//! own entry and number, whether it runs in the connection's task or in its own. Entries belong to the worker and are reused for other
//! streams: the holder of an entry must compare the number.
//!
//! ```text
//!   Stream::new ──► not listed (rules of a connection) ──► dropped
//!                       │ begin
//!                       ▼
//!                   listed: `show sess`, `shutdown session` ──end──► not listed ──► dropped
//! ```

use std::cell::{Cell, Ref, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use weir_mux::{CarrierRef, StreamConnector};
use weir_sched::{Class, TaskKey, WorkKind};
use weir_sys::Address;

use crate::addresses::StreamAddresses;
use crate::ending::{By, During};
use crate::process_counters;
use crate::recycle::LARGE;
use crate::session::ClientSession;

/// The entry of one stream, for listing and killing it. Written with plain stores, read on the same worker.
#[derive(Default)]
pub struct StreamEntry {
    /// The stream's number, 0 while it is not listed.
    pub id: Cell<u64>,
    session: Cell<Option<Rc<ClientSession>>>,
    /// The task that runs the stream, or [`TaskKey::NONE`].
    pub task: Cell<TaskKey>,
    /// The cause, once the stream is killed. The stream ends at its next step, or its task is killed.
    killed_by: Cell<Option<By>>,
    /// The stream's current phase.
    pub phase: Cell<During>,
    /// When the stream began, in milliseconds of the worker's clock.
    pub since_ms: Cell<u64>,
    /// The backend's index in the instance, or `u32::MAX`.
    pub backend: Cell<u32>,
    /// The server's key in the backend, or `u32::MAX`.
    pub server: Cell<u32>,
    /// The server's descriptor number, or -1.
    pub server_descriptor: Cell<i32>,
    /// How often the stream's task was resumed.
    pub calls: Cell<u32>,
    pub retries: Cell<u16>,
    /// State that other tasks may borrow briefly.
    shown: RefCell<EntryDetails>,
    /// The connections that carry the stream beside others: the client's, the server's. Boxed for the size, and kept for the next stream.
    carriers: RefCell<Option<Box<[CarrierRef; 2]>>>,
    /// Whether one of `carriers` is set.
    is_carried: Cell<bool>,
}

/// State of a stream for its log line and for lists of streams.
#[derive(Default)]
struct EntryDetails {
    /// The request line, kept after the message was sent if a log format uses it. Empty for none.
    request_line: Vec<u8>,
    /// The client's addresses. `None` until a rule of this stream replaces one.
    addresses: Option<Box<StreamAddresses>>,
}

// Every stream has an entry, in a block of 128 bytes that includes the two counts of the `Rc`.
const _: () = assert!(size_of::<StreamEntry>() <= 128 - 16);

impl StreamEntry {
    /// Counts a resumption of the task.
    #[inline]
    pub(crate) fn resumed(&self) {
        self.calls.set(self.calls.get().wrapping_add(1));
    }

    /// Whether the stream was killed.
    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.killed_by.get().is_some()
    }

    /// The cause of the kill. `None` if the stream was not killed.
    #[inline]
    pub(crate) fn killed_by(&self) -> Option<By> {
        self.killed_by.get()
    }

    /// Marks the stream as killed and wakes its task.
    fn request_end(&self, by: By) {
        self.killed_by.set(Some(by));
        if let Some(task) = self.task() {
            weir_sched::wake(task);
        }
    }

    /// The client's address: the stream's, if a rule set one, else the session's.
    pub(crate) fn source<'s>(&'s self, session: &'s ClientSession) -> Ref<'s, Address> {
        match self.own_addresses() {
            Some(own) => Ref::map(own, StreamAddresses::source),
            None => session.source(),
        }
    }

    /// The destination: the stream's, if a rule set one, else the session's.
    pub(crate) fn destination<'s>(&'s self, session: &'s ClientSession) -> Ref<'s, Address> {
        match self.own_addresses() {
            Some(own) => Ref::map(own, StreamAddresses::destination),
            None => session.destination(),
        }
    }

    fn own_addresses(&self) -> Option<Ref<'_, StreamAddresses>> {
        Ref::filter_map(self.shown.borrow(), |shown| shown.addresses.as_deref()).ok()
    }

    /// Replaces one of the client's addresses for this stream.
    pub(crate) fn set_address(&self, session: &ClientSession, is_source: bool, address: Address) {
        let mut shown = self.shown.borrow_mut();
        shown.addresses.get_or_insert_with(|| Box::new(session.addresses())).set(is_source, address);
    }

    /// Records the connection that carries one side, if it carries other streams, too. Clears it for one that does not.
    #[inline]
    pub(crate) fn note_carrier(&self, side: StreamSide, connector: &StreamConnector) {
        let carrier = CarrierRef::from(connector);
        if carrier.is_some() || self.is_carried.get() {
            self.is_carried.set(true);
            self.carriers.borrow_mut().get_or_insert_default()[side as usize] = carrier;
        }
    }

    /// Describes one side's connection and this stream on it. `None` if the connection carries only this stream.
    pub fn describe(&self, side: StreamSide) -> Option<String> {
        self.carriers.borrow().as_ref()?[side as usize].describe(self.task()?)
    }

    /// The kept request line. Empty for none.
    pub fn request_line(&self) -> Ref<'_, Vec<u8>> {
        Ref::map(self.shown.borrow(), |shown| &shown.request_line)
    }

    /// Replaces the kept request line with the output of `write`.
    pub(crate) fn keep_request_line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let line = &mut self.shown.borrow_mut().request_line;
        line.clear();
        write(line);
    }

    /// Shrinks the memory of the request line to its length.
    pub(crate) fn shrink_request_line(&self) {
        self.shown.borrow_mut().request_line.shrink_to_fit();
    }

    /// Clears the request line. Memory of up to [`LARGE`] bytes is kept for the next one.
    fn forget_request_line(&self) {
        let line = &mut self.shown.borrow_mut().request_line;
        line.clear();
        if line.capacity() > LARGE {
            *line = Vec::new();
        }
    }

    /// The task that runs the stream.
    pub fn task(&self) -> Option<TaskKey> {
        Some(self.task.get()).filter(|task| !task.is_none())
    }

    /// The listed stream of this entry. `None` while the entry is not listed.
    fn listed(self: Rc<Self>) -> Option<ListedStream> {
        if self.id.get() == 0 {
            return None;
        }
        let session = self.session.take()?;
        self.session.set(Some(Rc::clone(&session)));
        Some(ListedStream { session, entry: self })
    }
}

/// One of the two sides of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamSide {
    Client,
    Server,
}

/// The stream's owning handle of its entry. Dropping it removes the stream from the list.
pub(crate) struct OwnEntry(Rc<StreamEntry>);

impl OwnEntry {
    /// An unlisted entry for a stream of `session`.
    pub(crate) fn new(session: &Rc<ClientSession>) -> Self {
        let entry = ENTRIES.with_borrow_mut(|entries| entries.take());
        entry.session.set(Some(Rc::clone(session)));
        OwnEntry(entry)
    }

    /// Lists the stream as `id` and counts it as in progress. Must be called in the task that runs the stream.
    pub(crate) fn begin(&self, id: u64) {
        let entry = &self.0;
        entry.task.set(weir_sched::current());
        entry.killed_by.set(None);
        entry.since_ms.set(weir_sched::now().as_ms());
        entry.backend.set(u32::MAX);
        entry.server.set(u32::MAX);
        entry.server_descriptor.set(-1);
        entry.calls.set(1);
        entry.retries.set(0);
        entry.id.set(id);
        process_counters::count(|counters| counters.streams_now.increment());
    }

    /// Removes the stream from the list.
    pub(crate) fn end(&self) {
        if self.0.id.replace(0) != 0 {
            process_counters::count(|counters| counters.streams_now.decrement());
        }
    }
}

impl OwnEntry {
    /// A handle for another task that ends the stream `id`, once listed.
    pub(crate) fn handle(&self, id: u64) -> StreamHandle {
        StreamHandle { entry: Rc::clone(&self.0), id }
    }
}

/// Ends a stream of another task.
pub(crate) struct StreamHandle {
    entry: Rc<StreamEntry>,
    id: u64,
}

impl StreamHandle {
    /// Requests the end of the stream. Does nothing if the stream is not listed.
    pub(crate) fn end(&self, by: By) {
        if self.entry.id.get() == self.id {
            self.entry.request_end(by);
        }
    }
}

impl Deref for OwnEntry {
    type Target = StreamEntry;

    #[inline]
    fn deref(&self) -> &StreamEntry {
        &self.0
    }
}

impl Drop for OwnEntry {
    fn drop(&mut self) {
        self.end();
        // This may drop the connection with its last stream, and the drop may access the list.
        drop(self.0.session.take());
        if self.0.shown.borrow().addresses.is_some() {
            self.0.shown.borrow_mut().addresses = None;
        }
        if self.0.is_carried.replace(false)
            && let Some(carriers) = self.0.carriers.borrow_mut().as_deref_mut()
        {
            *carriers = Default::default();
        }
        self.0.forget_request_line();
        ENTRIES.with_borrow_mut(|entries| {
            if entries.free.len() < KEPT {
                entries.free.push(Rc::clone(&self.0));
            }
        });
    }
}

/// A listed stream, and the client's connection that carries it.
#[derive(Clone)]
pub struct ListedStream {
    pub session: Rc<ClientSession>,
    pub entry: Rc<StreamEntry>,
}

impl ListedStream {
    /// The client's address: the stream's if a rule set one, else the session's.
    pub fn source(&self) -> Ref<'_, Address> {
        self.entry.source(&self.session)
    }

    /// The deadline of the stream's current wait. `None` without one.
    pub fn deadline(&self) -> Option<weir_sched::Tick> {
        weir_sched::deadline(self.entry.task()?)
    }
}

/// The streams in progress on this worker, in arbitrary order.
pub fn streams() -> Vec<ListedStream> {
    ENTRIES.with_borrow(|entries| {
        entries.all.iter().filter_map(Weak::upgrade).filter_map(StreamEntry::listed).collect()
    })
}

/// Kills the streams in progress on this worker that `which` selects. Returns their number (`shutdown session`, `shutdown sessions
/// server`).
///
/// Streams first get a request to end, so that they log the cause. The task of a stream that still exists after [`LAST_WORDS_MS`] is
/// killed, even in a wait that does not check for the request (R67). Other streams on the connection are not affected, unless they
/// share its task.
pub fn end_streams(by: By, which: impl Fn(&ListedStream) -> bool) -> usize {
    let ending: Vec<(u64, Weak<StreamEntry>)> = streams()
        .into_iter()
        .filter(|stream| which(stream))
        .map(|stream| {
            stream.entry.request_end(by);
            (stream.entry.id.get(), Rc::downgrade(&stream.entry))
        })
        .collect();
    let count = ending.len();
    if count > 0 {
        weir_sched::spawn(&ENDING, Class::Urgent, async move {
            weir_sched::sleep_until(weir_sched::now().after(LAST_WORDS_MS)).await;
            for (id, entry) in ending {
                let stays = entry.upgrade().filter(|entry| entry.id.get() == id);
                if let Some(task) = stays.and_then(|entry| entry.task()) {
                    weir_sched::kill(task);
                }
            }
        });
    }
    count
}

struct WorkerEntries {
    all: Vec<Weak<StreamEntry>>,
    free: Vec<Rc<StreamEntry>>,
}

impl WorkerEntries {
    #[inline]
    fn take(&mut self) -> Rc<StreamEntry> {
        self.free.pop().unwrap_or_else(|| self.create())
    }

    #[cold]
    fn create(&mut self) -> Rc<StreamEntry> {
        // Dead entries are removed when the list is full. So its length stays within twice the number of live entries.
        if self.all.len() == self.all.capacity() {
            self.all.retain(|entry| entry.strong_count() > 0);
        }
        let entry = Rc::new(StreamEntry::default());
        self.all.push(Rc::downgrade(&entry));
        entry
    }
}

thread_local! {
    static ENTRIES: RefCell<ManuallyDrop<WorkerEntries>> = const { RefCell::new(ManuallyDrop::new(WorkerEntries { all: Vec::new(), free: Vec::new() })) };
}

/// Frees the entries that the worker keeps for later streams.
pub fn trim() {
    ENTRIES.with_borrow_mut(|entries| entries.free = Vec::new());
}

static ENDING: WorkKind = WorkKind::new("streams to end");
/// How long a killed stream may take to respond and write its log line before its task is killed, in milliseconds.
const LAST_WORDS_MS: u64 = 100;
/// Maximum number of unused entries kept for reuse.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_short_request_line_is_reused() {
        let entry = StreamEntry::default();
        let keep = |text: &[u8]| {
            entry.keep_request_line(|line| line.extend_from_slice(text));
            entry.request_line().as_ptr()
        };
        let place = keep(b"GET / HTTP/1.1");
        assert_eq!(keep(b"PUT / HTTP/1.1"), place);
        assert_eq!(**entry.request_line(), *b"PUT / HTTP/1.1");
        entry.forget_request_line();
        assert!(entry.request_line().is_empty());
        assert_eq!(keep(b"GET / HTTP/1.0"), place);
        keep(&[b'x'; LARGE + 1]);
        entry.forget_request_line();
        assert_eq!(entry.request_line().capacity(), 0);
    }
}
