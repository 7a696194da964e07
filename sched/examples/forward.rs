//! A TCP forwarder that parses nothing, to measure the cost of the executor above the kernel.
//!
//! `forward LISTEN_PORT ORIGIN_PORT [THREADS]`, on the loopback. Every client connection gets a connection of its own
//! to the origin. One task pumps both directions through the buffer that was released last, and copies only the bytes
//! that the receiver did not accept.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_containers::Buffer;
use weir_sched::{
    Class, Descriptor, ReceiveResult, Runtime, RuntimeSettings, SendResult, Tick, WorkKind, current, now,
    spawn, wait, yield_now,
};
use weir_sys::{Address, AddressFamily, Errno, Result, option, socket};

static ACCEPT: WorkKind = WorkKind::new("accept");
static FORWARD: WorkKind = WorkKind::new("forward");

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u16>());
    let mut next = || arguments.next().and_then(|number| number.ok());
    let (Some(listen), Some(origin)) = (next(), next()) else {
        writeln!(std::io::stderr(), "usage: forward LISTEN_PORT ORIGIN_PORT [THREADS]")?;
        std::process::exit(2);
    };
    let listener = Arc::new(listen_on(listen)?);
    let settings = RuntimeSettings { threads: next().map_or(1, usize::from), ..RuntimeSettings::default() };
    let runtime = Runtime::start(&settings, move |_| {
        let listener = weir_sys::process::duplicate(&*listener).expect("a free descriptor");
        spawn(&ACCEPT, Class::Urgent, async move {
            if let Err(error) = accept(listener, origin).await {
                let _ = writeln!(std::io::stderr(), "accept: {error}");
            }
        });
    })?;
    Ok(runtime.join()?)
}

fn listen_on(port: u16) -> Result<std::os::fd::OwnedFd> {
    let listener = socket::stream(AddressFamily::Inet)?;
    option::set_reuse_address(&listener)?;
    socket::bind(&listener, &Address::from((Ipv4Addr::LOCALHOST, port)))?;
    socket::listen(&listener, 4096)?;
    Ok(listener)
}

async fn accept(listener: std::os::fd::OwnedFd, origin: u16) -> Result<()> {
    let listener = Descriptor::register(listener)?;
    listener.set_owner(current());
    let origin = Address::from((Ipv4Addr::LOCALHOST, origin));
    loop {
        while let Some((client, _)) = listener.accept()? {
            option::set_no_delay(&client, true)?;
            let server = socket::stream(AddressFamily::Inet)?;
            option::set_no_delay(&server, true)?;
            let server = Descriptor::connect(server, &origin)?;
            let client = Descriptor::register(client)?;
            spawn(&FORWARD, Class::Normal, async move {
                // Either end may reset the connection at any time; both close with the task.
                let _ = forward(&client, &server).await;
            });
        }
        wait(Tick::NEVER).await;
    }
}

async fn forward(client: &Descriptor, server: &Descriptor) -> Result<()> {
    client.set_owner(current());
    server.set_owner(current());
    let (mut to_server, mut to_client) = (None, None);
    loop {
        let mut rounds = 0;
        while pump(client, server, &mut to_server)? | pump(server, client, &mut to_client)? {
            rounds += 1;
            if rounds % ROUNDS == 0 {
                yield_now().await;
            }
        }
        wait(now().after(TIMEOUT_MS)).await;
    }
}

/// Moves bytes once; returns whether more can be moved at once.
fn pump(from: &Descriptor, to: &Descriptor, left: &mut Option<Buffer>) -> Result<bool> {
    if let Some(buffer) = left {
        if !to.is_writable() || to.send_buffer(buffer, false)? == SendResult::Blocked || !buffer.is_empty() {
            return Ok(false);
        }
        *left = None;
    }
    if !from.is_readable() || !to.is_writable() {
        return Ok(false);
    }
    let mut buffer = Buffer::take_bulk().map_err(|_| Errno::NOBUFS)?;
    match from.receive_into(buffer.space())? {
        ReceiveResult::Bytes(count) => buffer.fill(count),
        ReceiveResult::Blocked | ReceiveResult::Full => return Ok(false),
        ReceiveResult::End => return Err(Errno::PIPE),
    }
    if to.send_buffer(&mut buffer, false)? == SendResult::Blocked || !buffer.is_empty() {
        *left = Some(buffer);
        return Ok(false);
    }
    Ok(from.is_readable())
}

/// How often one task moves bytes before the others have their turn.
const ROUNDS: u32 = 16;
const TIMEOUT_MS: u64 = 60_000;
