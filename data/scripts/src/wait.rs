//! What scripts ask their stream for.

use std::time::Duration;

/// A wait that a script asks its stream to do.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptWait {
    /// `core.sleep`, `core.msleep`.
    Sleep(Duration),
    /// `core.yield`: other tasks run first.
    Others,
    /// `txn:done`: the function does not go on.
    Done(Option<Box<ScriptReply>>),
}

/// A reply that a script made (`txn:reply`).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScriptReply {
    pub status: u16,
    pub reason: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
}
