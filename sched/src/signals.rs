//! Signals as events for a task.

use crate::descriptor::Descriptor;
use crate::tick::Tick;
use crate::waiting::wait;
use crate::worker::current;
use weir_sys::Result;
use weir_sys::signal::{Signal, SignalReader, next_signal};

/// Signals that arrive at one task. Make the [`SignalReader`] in the main thread before the runtime starts, and
/// hand it to a task of worker 0.
#[derive(Debug)]
pub struct Signals {
    descriptor: Descriptor,
}

impl Signals {
    /// Registers `reader` with the current worker.
    pub fn new(reader: SignalReader) -> Result<Self> {
        Descriptor::register(reader.into()).map(|descriptor| Self { descriptor })
    }

    /// The next pending signal. `None` without one.
    pub fn arrived(&self) -> Result<Option<Signal>> {
        next_signal(&self.descriptor)
    }

    /// Waits for the next signal.
    pub async fn next(&self) -> Result<Signal> {
        self.descriptor.set_owner(current());
        loop {
            if let Some(signal) = next_signal(&self.descriptor)? {
                return Ok(signal);
            }
            self.descriptor.clear_readable();
            wait(Tick::NEVER).await;
        }
    }
}
