//! Forwards commands to workers, and their output to the client.

use std::os::fd::OwnedFd;

use weir_cli::{Level, Severity, SeverityOutput};
use weir_net::{Connection, ReceiveOutcome};
use weir_process::handover::knock;
use weir_sched::{Descriptor, Tick, wait};

use super::{CommandPayload, SessionFlow, Talk, patience};

/// Forwards one command with its payload, then the output. `None` if the client disconnected.
pub(super) async fn command(
    talk: &mut Talk,
    pid: u32,
    text: &[u8],
    payload: Option<CommandPayload>,
) -> Option<()> {
    let mut said = prepared(talk);
    said.extend_from_slice(text);
    said.push(b'\n');
    if let Some(payload) = payload {
        said.extend_from_slice(&payload.lines);
        said.extend_from_slice(payload.end.as_bytes());
        said.push(b'\n');
    }
    let Some(mut worker) = reach(talk, pid) else {
        return talk.say(Severity::Error, "The process cannot be reached.\n").await.map(drop);
    };
    if worker.send_all(&said, patience()).await.is_none() {
        return talk.say(Severity::Error, "The process does not answer.\n").await.map(drop);
    }
    answer(talk, &mut worker).await
}

/// Forwards all bytes in both directions, until one side closes.
pub(super) async fn everything(talk: &mut Talk, pid: u32, text: &[u8]) -> Option<SessionFlow> {
    let Some(mut worker) = reach(talk, pid) else {
        talk.say(Severity::Error, "The process cannot be reached.\n").await?;
        return Some(SessionFlow::Over);
    };
    let mut said = prepared(talk);
    if !text.is_empty() {
        said.extend_from_slice(text);
    }
    if !said.is_empty() {
        said.push(b'\n');
        worker.send_all(&said, patience()).await?;
    }
    loop {
        let from_client = shovel(&mut talk.connection, &mut worker, |_| ()).await?;
        let from_worker = from_worker(talk, &mut worker).await?;
        match (from_client, from_worker) {
            (_, CopyResult::Over) => {
                talk.leave().await;
                return Some(SessionFlow::Over);
            }
            // The client has half-closed. The worker answers the commands received, then closes.
            (CopyResult::Over, _) => {
                worker.shut_write();
                answer(talk, &mut worker).await?;
                talk.leave().await;
                return Some(SessionFlow::Over);
            }
            (CopyResult::Nothing, CopyResult::Nothing) => {
                wait(Tick::NEVER).await;
            }
            _ => {}
        }
    }
}

/// Forwards the worker's output up to its end.
async fn answer(talk: &mut Talk, worker: &mut Connection) -> Option<()> {
    loop {
        match from_worker(talk, worker).await? {
            CopyResult::Some => {}
            CopyResult::Over => return Some(()),
            CopyResult::Nothing if talk.connection.is_broken() => return None,
            CopyResult::Nothing => {
                wait(Tick::NEVER).await;
            }
        }
    }
}

async fn from_worker(talk: &mut Talk, worker: &mut Connection) -> Option<CopyResult> {
    let own = &talk.master.own;
    shovel(worker, &mut talk.connection, |bytes| own.sent(bytes)).await
}

enum CopyResult {
    Some,
    Nothing,
    Over,
}

/// Moves the available bytes and passes their number to `moved`. `None` if the receiver disconnected.
async fn shovel(from: &mut Connection, to: &mut Connection, moved: impl FnOnce(usize)) -> Option<CopyResult> {
    let what = match from.receive(usize::MAX) {
        ReceiveOutcome::Bytes(_) | ReceiveOutcome::Full => CopyResult::Some,
        ReceiveOutcome::Nothing => CopyResult::Nothing,
        ReceiveOutcome::End | ReceiveOutcome::Failed(_) => CopyResult::Over,
    };
    if from.input().is_empty() {
        return Some(what);
    }
    to.send_all(from.input(), patience()).await?;
    moved(from.input().len());
    from.consume(usize::MAX);
    Some(what)
}

/// Commands that precede a forwarded command, so that the worker uses the client's modes and at most its level.
fn prepared(talk: &Talk) -> Vec<u8> {
    let modes = &talk.modes;
    let mut text = String::new();
    if modes.severity_output != SeverityOutput::None {
        text.push_str(&format!("set severity-output {} -;", modes.severity_output.name()));
    }
    if modes.expert {
        text.push_str("expert-mode on -;");
    }
    if modes.experimental {
        text.push_str("experimental-mode on -;");
    }
    if modes.level < Level::Admin {
        text.push_str(&format!("{} -;", modes.level.name()));
    }
    text.into_bytes()
}

/// Opens a connection to a worker.
fn reach(talk: &Talk, pid: u32) -> Option<Connection> {
    let processes = talk.master.processes.borrow();
    let near = knock(processes.find(pid)?.channel.as_ref()?).ok()?;
    near.set_nonblocking(true).ok()?;
    let descriptor = Descriptor::register(OwnedFd::from(near)).ok()?;
    descriptor.set_owner(weir_sched::current());
    Some(Connection::new(descriptor))
}
