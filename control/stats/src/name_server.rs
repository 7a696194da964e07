//! The counters of a name server.

/// A counter of a name server.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its label in `show resolvers`.
    pub label: &'static str,
    /// Its name in `show stat domain resolvers` and for Prometheus (management manual).
    pub name: &'static str,
    /// Its description in `show stat … desc`.
    pub description: &'static str,
    /// Its help text for Prometheus.
    pub help: &'static str,
}

const fn figure(name: &'static str, description: &'static str, help: &'static str) -> Figure {
    Figure { label: name, name, description, help }
}

/// The counters, in the order of all outputs.
pub const FIGURES: [Figure; 15] = [
    figure("sent", "Sent", "Queries sent"),
    Figure { label: "snd_error", ..figure("send_error", "Send error", "Queries that could not be sent") },
    figure("valid", "Valid", "Valid answers"),
    figure("update", "Update", "Answers that changed an address"),
    figure("cname", "CNAME", "Answers with an alias alone"),
    figure("cname_error", "CNAME error", "Answers with a broken chain of aliases"),
    figure("any_err", "Any errors", "Empty answers"),
    figure("nx", "NX", "Answers that the name does not exist"),
    figure("timeout", "Timeout", "Queries without an answer in time"),
    figure("refused", "Refused", "Refused queries"),
    figure("other", "Other", "Other errors"),
    figure("invalid", "Invalid", "Invalid answers"),
    figure("too_big", "Too big", "Answers that were too big"),
    figure("truncated", "Truncated", "Truncated answers"),
    figure("outdated", "Outdated", "Answers that came too late"),
];
