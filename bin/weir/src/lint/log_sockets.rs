//! Unreachable log sockets on this machine.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use weir_model::{LogAddress, LogTarget};

use super::{LintSubject, finding_at};
use crate::findings::Finding;

/// UNIX sockets of `log` lines that do not exist, or without a listening daemon.
pub(super) fn unreachable(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    subject.config.log_targets().filter_map(|target| finding(target, &mut seen)).collect()
}

fn finding<'t>(target: &'t LogTarget, seen: &mut BTreeSet<&'t Path>) -> Option<Finding> {
    let (LogAddress::Unix(path), Some(at)) = (&target.address, &target.at) else { return None };
    let error = UnixDatagram::unbound().and_then(|socket| socket.connect(path)).err()?;
    // Report each socket once, however many sections log to it.
    seen.insert(path).then(|| {
        finding_at("C717", at, format!("log target '{}' cannot be reached: {error}.", path.display()))
    })
}
