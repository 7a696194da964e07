//! The counters of a name server.

/// A counter of a name server, with its name in each output.
#[derive(Debug, Clone, Copy)]
pub struct NameServerCounter {
    /// The label in `show resolvers`.
    pub label: &'static str,
    /// The name in `show stat domain resolvers` and in Prometheus metrics (management manual).
    pub name: &'static str,
    /// The description in `show stat … desc`.
    pub description: &'static str,
    /// The help text in Prometheus metrics.
    pub help: &'static str,
}

const fn counter(name: &'static str, description: &'static str, help: &'static str) -> NameServerCounter {
    NameServerCounter { label: name, name, description, help }
}

/// The counters, in output order.
pub const COUNTERS: [NameServerCounter; 15] = [
    counter("sent", "Sent", "Queries sent"),
    NameServerCounter {
        label: "snd_error",
        ..counter("send_error", "Send error", "Queries that could not be sent")
    },
    counter("valid", "Valid", "Valid answers"),
    counter("update", "Update", "Answers that changed an address"),
    counter("cname", "CNAME", "Answers with an alias alone"),
    counter("cname_error", "CNAME error", "Answers with a broken chain of aliases"),
    counter("any_err", "Any errors", "Empty answers"),
    counter("nx", "NX", "Answers that the name does not exist"),
    counter("timeout", "Timeout", "Queries without an answer in time"),
    counter("refused", "Refused", "Refused queries"),
    counter("other", "Other", "Other errors"),
    counter("invalid", "Invalid", "Invalid answers"),
    counter("too_big", "Too big", "Answers that were too big"),
    counter("truncated", "Truncated", "Truncated answers"),
    counter("outdated", "Outdated", "Answers that came too late"),
];
