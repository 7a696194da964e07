//! Status codes of weir's own responses, with the reason and where to look next.

/// The meaning of a status.
pub(crate) fn explain(status: &str) -> Option<String> {
    let number = status.parse().ok().filter(|number| (200..600).contains(number))?;
    let Some((_, why, look)) = STATUSES.iter().find(|(known, ..)| *known == number) else {
        return Some(format!(
            "\n{status}\n  Status of a response. The server sent it, or a rule like 'http-request return status {status}'.\n"
        ));
    };
    Some(format!(
        "\n{status}\n  Status of a response. Where the termination code in the log is '--' the server sent it.\n  weir itself answers with it when {why}.\n  {look}\n"
    ))
}

/// Status code, reason, and where to look next.
pub(crate) static STATUSES: [(u16, &str, &str); 11] = [
    (
        400,
        "a request is not valid, its head is larger than a buffer, or the client closed in the middle of it",
        "'show errors' on the runtime API has the bytes and the place; 'tune.bufsize' and 'tune.http.maxhdr' are the limits.",
    ),
    (
        401,
        "a rule 'http-request auth' or the statistics page requests credentials",
        "Look at the 'userlist', and at 'stats auth'.",
    ),
    (
        403,
        "a rule denies the request ('http-request deny'), or an option does",
        "'show timeline' names the rule; 'weir explain -f FILE LINE' explains a line.",
    ),
    (
        407,
        "a rule 'http-request auth' asks a client that uses it as a proxy ('option http-use-proxy-header')",
        "Look at the 'userlist'.",
    ),
    (
        408,
        "a request is not complete in time",
        "Look at 'timeout http-request'; the termination code is cR. Browsers that open connections in advance are usual: 'option http-ignore-probes'.",
    ),
    (
        413,
        "a GET, HEAD or DELETE of HTTP/1.0 has a body, which servers may take for a next request",
        "'show errors' on the runtime API has it.",
    ),
    (422, "a request has a transfer coding other than chunked", "'show errors' on the runtime API has it."),
    (
        500,
        "a rule 'http-request tarpit' holds a client, or memory for a request runs out",
        "The termination code distinguishes them: PT is the tarpit, R a resource. Look at '-m' and 'tune.buffers.limit'.",
    ),
    (
        502,
        "a server's response is not valid or ends in its head, or a rule denies it",
        "The termination code distinguishes them: SH is the server, PH a rule or the protocol. 'show errors' on the runtime API has the bytes.",
    ),
    (
        503,
        "no server takes the request: all are down or full, none accepts, or no rule chose a backend",
        "The termination code distinguishes them: SC refused or no server, sC no answer to the connection, sQ too long in the queue. 'show servers state' has the states, 'show stat' the last checks.",
    ),
    (
        504,
        "a server sends no complete response head within 'timeout server'",
        "The termination code is sH. 'show latency BACKEND/SERVER' has how long others take.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_statuses_are_explained_as_set_by_servers_or_rules() {
        assert!(STATUSES.is_sorted_by_key(|(status, ..)| status));
        let text = explain("503").expect("a status");
        assert!(
            text.contains("no server takes the request") && text.contains("sQ too long in the queue"),
            "{text}"
        );
        let text = explain("429").expect("a status");
        assert!(text.contains("or a rule like 'http-request return status 429'"), "{text}");
        assert_eq!(["101", "600", "x"].map(explain), [None, None, None]);
    }
}
