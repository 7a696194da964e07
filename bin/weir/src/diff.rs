//! `weir diff`: the objects with different meanings in two configurations.
//!
//! Comments, the order of sections and the spelling of values are ignored. Inherited settings, the content of maps and the values of
//! environment variables are compared, by `weir_model::fingerprints`.

use weir_model::fingerprints::{ChangeKind, Object, ObjectChange, differences};
use weir_observe::messages::Messages;

use crate::arguments::Arguments;
use crate::configuration;

/// Prints a line for each differing object. Returns 0 if none differs, 1 if any differs, 2 if a configuration is unusable.
pub(crate) fn diff(old: &str, new: &str, messages: &Messages) -> u8 {
    // Read both first, so that one run reports the errors of both.
    let (old, new) = (objects(old, messages), objects(new, messages));
    let (Some(old), Some(new)) = (old, new) else { return 2 };
    let changes = differences(&old, &new);
    crate::say(&changes.iter().map(line).collect::<String>());
    u8::from(!changes.is_empty())
}

fn objects(path: &str, messages: &Messages) -> Option<Vec<Object>> {
    let arguments = Arguments { check: true, files: vec![path.to_owned()], ..Arguments::default() };
    configuration::objects(&arguments, messages)
}

/// A change as one line: `FILE:LINE: changed server app/app1: weight, maxconn`.
fn line(change: &ObjectChange) -> String {
    let at = match change.at.file.is_empty() {
        true => String::new(),
        false => format!("{}: ", change.at),
    };
    let (verb, parts) = match &change.kind {
        ChangeKind::Added => ("added", String::new()),
        ChangeKind::Removed => ("removed", String::new()),
        ChangeKind::Changed(parts) if parts.is_empty() => ("changed", String::new()),
        ChangeKind::Changed(parts) => ("changed", format!(": {}", parts.join(", "))),
    };
    format!("{at}{verb} {}{parts}\n", change.object)
}

#[cfg(test)]
mod tests;
