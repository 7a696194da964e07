//! A log line costs no allocation once the buffer has grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use weir_events::calendar::utc;
use weir_events::{
    Facility, Level, LogAddress, LogIdentity, LogMessage, LogSink, LogTarget, Logger, SyslogFormat, WallTime,
};
use weir_sys::Address;

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`, and the pointer came from the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn sending_a_log_line_does_not_allocate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let unix = UnixDatagram::bind(&path).unwrap();
    let addresses = [Address::Inet(udp.local_addr().unwrap()), Address::Unix(path)];
    let sinks = addresses.map(|address| {
        let facility = Facility::from_name("local0").unwrap();
        let target = LogTarget {
            format: SyslogFormat::Rfc5424,
            ..LogTarget::new(LogAddress::Socket(address), facility)
        };
        LogSink::open(target, &weir_events::Sinks::default()).unwrap()
    });
    let mut logger = Logger::new(Arc::new(LogIdentity { hostname: Some("vm".into()), process_id: 1 }), utc());
    let message = LogMessage {
        level: Level::Info,
        tag: b"haproxy",
        structured_data: b"[a@1 b=\"c\"]",
        text: &[b'x'; 300],
    };
    let mut buffer = [0; 2000];
    let mut send_all = |seconds: i64| {
        for sink in &sinks {
            logger.send(sink, WallTime { seconds, micros: 7 }, &message);
        }
        udp.recv(&mut buffer).unwrap();
        unix.recv(&mut buffer).unwrap();
    };
    (0..3).for_each(&mut send_all);
    let before = ALLOCATIONS.with(Cell::get);
    (3..1000).for_each(&mut send_all);
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}
