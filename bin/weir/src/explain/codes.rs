//! Termination codes of log lines (manual, 8.5): the cause, the phase, and the state of the persistence cookies.

use std::fmt::Write;

/// The meaning of a termination code with two or four letters. `None` if `code` is not a termination code.
pub(crate) fn explain(code: &str) -> Option<String> {
    let letters: Vec<char> = code.chars().collect();
    let (by, during) = match letters[..] {
        [by, during] | [by, during, _, _] => (meaning(&BY, by)?, meaning(&DURING, during)?),
        _ => return None,
    };
    let mut text = format!("\n{code}\n  Termination code of a log line.\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "  {}: {by}\n  {}: {during}", letters[0], letters[1]);
    if let [_, _, request, response] = letters[..] {
        let (request_means, response_means) =
            (meaning(&REQUEST_COOKIE, request)?, meaning(&RESPONSE_COOKIE, response)?);
        let _ = writeln!(text, "  {request}: {request_means}\n  {response}: {response_means}");
    }
    let pair: String = letters[..2].iter().collect();
    if let Some((_, advice)) = ADVICE.iter().find(|(known, _)| *known == pair) {
        let _ = writeln!(text, "  {advice}");
    }
    Some(text)
}

fn meaning(table: &[(char, &'static str)], letter: char) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == letter).map(|(_, meaning)| *meaning)
}

/// The meanings of each letter by position, with a heading.
#[cfg(test)]
pub(crate) fn letters() -> [(&'static str, &'static [(char, &'static str)]); 4] {
    [
        ("First letter: who ended it", &BY),
        ("Second letter: in which phase", &DURING),
        ("Third letter: the request's cookie", &REQUEST_COOKIE),
        ("Fourth letter: the response's cookie", &RESPONSE_COOKIE),
    ]
}

/// The first letter: the side that ended the stream.
static BY: [(char, &str); 12] = [
    ('-', "neither side: the stream ended normally"),
    ('C', "the client closed or reset its connection"),
    (
        'c',
        "the client was too slow: 'timeout client', 'timeout http-request' or 'timeout http-keep-alive' passed",
    ),
    ('S', "the server refused the connection, closed or reset it, or sent an invalid response"),
    ('s', "the server was too slow: 'timeout server', 'timeout connect' or 'timeout queue' passed"),
    ('P', "the proxy itself: a rule, a limit or an invalid message"),
    ('R', "a resource ran out on this machine: memory, descriptors, source ports"),
    ('I', "an internal error of the proxy: please report it"),
    ('L', "the proxy answered itself, as configured: a redirect, 'return', statistics, a service"),
    ('K', "an operator ended it with the runtime API"),
    ('D', "the server went down and 'on-marked-down shutdown-sessions' ends its streams"),
    (
        'U',
        "a backup server's stream, ended because another server is up again ('on-marked-up shutdown-backup-sessions')",
    ),
];

/// The second letter: the phase in which the stream ended.
static DURING: [(char, &str); 8] = [
    ('-', "after everything was transferred"),
    ('R', "while the request was awaited or received"),
    ('Q', "in a queue, before a server was free"),
    ('C', "while the connection to the server was made"),
    ('H', "while the head of the response was awaited or processed"),
    ('D', "while data was transferred"),
    ('L', "while the last data went to the client; the server had sent everything"),
    ('T', "while the request was held in a tarpit"),
];

/// The third letter: the persistence cookie of the request.
static REQUEST_COOKIE: [(char, &str); 8] = [
    ('-', "persistence by cookie does not apply"),
    ('N', "the client sent no persistence cookie"),
    ('I', "the client's cookie names a server that does not exist"),
    ('D', "the client's cookie names a server that is down"),
    ('V', "the client's cookie names a server that is up"),
    ('E', "the client's cookie was too old ('maxidle', 'maxlife')"),
    ('O', "the client's cookie lacked a required date, or was from the future"),
    ('U', "the client's cookie was not used: a rule chose the server"),
];

/// The fourth letter: the persistence cookie of the response.
static RESPONSE_COOKIE: [(char, &str); 7] = [
    ('-', "nothing was done with the response's cookie"),
    ('N', "the server set no cookie, and none was inserted"),
    ('I', "a cookie was inserted"),
    ('U', "the client's cookie was renewed"),
    ('P', "the server's cookie was passed on unchanged"),
    ('R', "the server's cookie was rewritten"),
    ('D', "the server's cookie was removed"),
];

/// Advice for common pairs of letters.
pub(crate) const ADVICE: [(&str, &str); 30] = [
    ("--", "Nothing to look at."),
    (
        "CC",
        "The client left before the server could be reached: look at the connect time (%Tc) and the server's load.",
    ),
    (
        "CD",
        "The client left during the transfer: a closed tab, a cancelled download, a lost network. Many at once point at a slow server.",
    ),
    (
        "cD",
        "The client stopped receiving or sending. If clients are only slow, 'timeout client' is too short.",
    ),
    (
        "CH",
        "The client left while the server prepared its response: compare the response time (%Tr) with the client's patience.",
    ),
    (
        "cH",
        "The client's side was silent for 'timeout client' while the response was awaited, often during an upload that stopped.",
    ),
    ("CL", "The client left when only buffered data was missing: usually harmless."),
    (
        "CQ",
        "The client left while it was queued: servers are full. Look at 'maxconn' of servers, at their response times and at 'timeout queue'.",
    ),
    (
        "CR",
        "The client left before its request was complete: port scans, browsers that open connections in advance, plain TCP checks.",
    ),
    (
        "cR",
        "No complete request within 'timeout http-request' or 'timeout client': slow or hostile clients, or large request heads on bad links.",
    ),
    ("CT", "The client left its tarpit before the time was over: the tarpit works."),
    ("LC", "Answered in place of connecting to a server."),
    ("LH", "Answered in place of the server's response."),
    ("LR", "Answered by a rule on the request: redirect, 'return', a service or the statistics page."),
    (
        "PC",
        "The connection to the server was not tried, or could not be prepared: look at source addresses, ports and 'maxconn' of the process.",
    ),
    ("PD", "A message's body broke the protocol, for example an invalid chunk: 'show errors' may have it."),
    (
        "PH",
        "The response was invalid or a rule on responses refused it, and the client got 502: see 'show errors' and http-response rules.",
    ),
    (
        "PR",
        "A rule refused the request, or it was invalid, and the client got an error page: see http-request rules and 'show errors'.",
    ),
    ("PT", "A 'tarpit' rule held the request and answered with an error."),
    (
        "RC",
        "No descriptor, port or memory for a connection to the server: look at 'ulimit -n', 'maxconn' and the range of source ports.",
    ),
    (
        "SC",
        "The server or the network refused the connection: is the service running and does its port accept?",
    ),
    (
        "sC",
        "The server did not accept within 'timeout connect': a lost host, a firewall that drops, a full backlog.",
    ),
    (
        "SD",
        "The server closed or reset during the transfer: crashes, restarts, or limits of the server. The client got a truncated response.",
    ),
    ("sD", "The server stopped sending or receiving for 'timeout server' during the transfer."),
    (
        "SH",
        "The server closed before its response head was complete: crashes, restarts, or a keep-alive connection that it closed at the same moment.",
    ),
    (
        "sH",
        "No complete response head within 'timeout server': the application is too slow, or the timeout is too short.",
    ),
    (
        "sQ",
        "The request waited longer than 'timeout queue' (or 'timeout connect' without it): servers are full.",
    ),
    (
        "SL",
        "The server answered completely, and closed before it had read the whole request. The client got the response; the rest of its upload is dropped.",
    ),
    (
        "SR",
        "An 'auth-request' rule got no verdict: look at its backend in 'show stat' and at the records of <SUBREQUEST> in 'show timeline'.",
    ),
    (
        "sR",
        "An 'auth-request' rule got no verdict in time: compare its 'timeout' with the response times of its backend.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_each_letter_of_a_termination_code() {
        let text = explain("sHNN").expect("a code");
        for part in [
            "s: the server was too slow",
            "H: while the head",
            "N: the client sent no",
            "N: the server set no",
            "'timeout server'",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(explain("--").is_some_and(|text| text.contains("ended normally")));
        assert!(explain("KD").is_some(), "also without advice");
        for wrong in ["", "s", "sHN", "sHNNN", "xH", "sX", "sHXN", "sHNX", "ßH"] {
            assert_eq!(explain(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn advice_exists_only_for_valid_termination_codes() {
        for (pair, _) in ADVICE {
            assert!(explain(pair).is_some(), "{pair}");
        }
    }

    /// All termination codes of the log are explained.
    #[test]
    fn every_termination_code_of_the_log_is_explained() {
        use weir_stream::ending::{By, During, Ending};
        for (by, during) in By::ALL.into_iter().flat_map(|by| During::ALL.map(|during| (by, during))) {
            let letters = Ending::new(by, during).letters();
            let code = str::from_utf8(&letters).expect("letters");
            assert!(explain(code).is_some(), "{code}");
        }
    }
}
