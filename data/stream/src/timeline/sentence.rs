//! The ending of a stream as a sentence: the meaning of the termination code, and more detail.

use crate::ending::{By, During, Ending};

/// A stream that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndedStream {
    pub ending: Ending,
    /// The status sent to the client. 0 for none.
    pub status: u16,
    /// Whether the stream was in HTTP mode.
    pub http: bool,
    /// Whether the request's head was complete.
    pub has_request: bool,
    /// Whether a rule stopped the stream or failed to apply.
    pub by_rule: bool,
    /// The option that refused the message. `None` if none did.
    pub option: Option<&'static str>,
    /// Whether a backend was chosen.
    pub has_backend: bool,
    /// Whether a server was chosen.
    pub has_server: bool,
}

impl EndedStream {
    /// The sentence, without a full stop.
    pub(super) fn sentence(&self) -> String {
        let Ending { by, during } = self.ending;
        match by {
            By::Nobody if self.status >= 500 => format!("complete; the server answered {}", self.status),
            By::Nobody => "complete".to_owned(),
            By::Client => self.client(during),
            By::ClientTimeout => self.client_timeout(during),
            By::Server => self.server(during),
            By::ServerTimeout if self.by_rule && during == During::Request => {
                "an 'auth-request' rule got no verdict in time".to_owned()
            }
            By::ServerTimeout => Self::server_timeout(during),
            By::Proxy => self.proxy(during),
            By::Resource => format!("weir ran out of memory, file descriptors or ports{}", when(during)),
            By::Internal if self.by_rule => "a rule could not be applied ('strict-mode on')".to_owned(),
            By::Internal => format!("internal error of weir{}", when(during)),
            By::Local if self.by_rule => "a rule answered the request".to_owned(),
            By::Local => "weir answered the request without a server".to_owned(),
            By::Killed => format!("an operator ended the stream{}", when(during)),
            By::Down => format!("the server went down ('on-marked-down'){}", when(during)),
            By::Up => format!("an active server came back ('on-marked-up'){}", when(during)),
        }
    }

    fn client(&self, during: During) -> String {
        let closed = "the client closed the connection";
        match during {
            During::Request if self.has_request => format!("{closed} before its request was processed"),
            During::Request if self.http => format!("{closed} before its request was complete"),
            During::Headers if self.status == 400 => format!("{closed} before its request body was complete"),
            _ => format!("{closed}{}", when(during)),
        }
    }

    fn client_timeout(&self, during: During) -> String {
        match during {
            During::Request if self.has_request => {
                "the client sent no complete request body in time".to_owned()
            }
            During::Request if self.http => {
                "the client sent no complete request in time ('timeout http-request' or 'timeout client')"
                    .to_owned()
            }
            During::Headers => {
                "the client sent no complete request body in time ('timeout client')".to_owned()
            }
            During::Data if self.status == 408 => {
                "the client sent no complete request body in time ('timeout client')".to_owned()
            }
            _ => format!("the client was idle for too long ('timeout client'){}", when(during)),
        }
    }

    fn server(&self, during: During) -> String {
        match during {
            During::Request if self.by_rule => "an 'auth-request' rule got no verdict".to_owned(),
            During::Connect if !self.has_backend => "no backend was found for the request".to_owned(),
            During::Connect if !self.has_server => "no server was available".to_owned(),
            During::Connect => "the connection to the server failed".to_owned(),
            During::Headers if self.status == 0 || self.status == 502 => {
                "the server closed the connection without a complete response".to_owned()
            }
            During::Headers => format!("the server kept answering {} ('retry-on')", self.status),
            During::Last if self.http => {
                "the server answered, and closed the connection before it had read the whole request"
                    .to_owned()
            }
            _ => format!("the server closed the connection{}", when(during)),
        }
    }

    fn server_timeout(during: During) -> String {
        match during {
            During::Queue => "no server had a free slot in time ('timeout queue')".to_owned(),
            During::Connect => {
                "the server did not accept the connection in time ('timeout connect')".to_owned()
            }
            During::Headers => "the server sent no response in time ('timeout server')".to_owned(),
            _ => format!("the server was idle for too long ('timeout server'){}", when(during)),
        }
    }

    fn proxy(&self, during: During) -> String {
        let refused = if self.http { "request" } else { "connection" };
        match (during, self.option) {
            (During::Tarpit, _) => "a rule held the request in the tarpit, then refused it".to_owned(),
            (During::Headers, Some(option)) => format!("the response was refused by '{option}'"),
            (_, Some(option)) => format!("the {refused} was refused by '{option}'"),
            (During::Request, None) if self.by_rule => format!("a rule refused the {refused}"),
            (During::Headers, None) if self.by_rule => "a rule refused the response".to_owned(),
            (_, None) if self.by_rule => format!("a rule closed the connection{}", when(during)),
            (During::Request, None) if self.http => match self.status {
                501 | 505 => "the request asks for something that is not supported".to_owned(),
                0 | 400 | 413 | 414 | 431 => "the request was malformed or too large".to_owned(),
                _ => "the request was refused".to_owned(),
            },
            (During::Headers, None) if self.status == 400 => "the request body was malformed".to_owned(),
            (During::Headers, None) => "the response was malformed or too large".to_owned(),
            (During::Data, None) if self.http => "a message body was malformed".to_owned(),
            _ => format!("weir refused the {refused}{}", when(during)),
        }
    }
}

/// The phase as text, with a leading blank.
fn when(during: During) -> &'static str {
    match during {
        During::End => "",
        During::Request => " before a complete request arrived",
        During::Queue => " in the queue",
        During::Connect => " while connecting to the server",
        During::Headers => " while waiting for the response",
        During::Data => " during the transfer",
        During::Last => " while the last data were sent to the client",
        During::Tarpit => " in the tarpit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(by: By, during: During) -> EndedStream {
        let ending = Ending::new(by, during);
        let early = during == During::Request;
        EndedStream {
            ending,
            http: true,
            has_request: !early,
            has_backend: !early,
            has_server: true,
            ..EndedStream::default()
        }
    }

    fn check(ended: EndedStream, expected: &str) {
        assert_eq!(ended.sentence(), expected, "{ended:?}");
    }

    /// Every ending that the code creates, with the facts that distinguish endings of the same code.
    #[test]
    fn the_sentence_of_an_ending_names_its_cause() {
        use During::*;
        let none = ended;
        let status = |status, of: EndedStream| EndedStream { status, ..of };
        let rule = |of: EndedStream| EndedStream { by_rule: true, ..of };
        let tcp = |of: EndedStream| EndedStream { http: false, ..of };
        check(none(By::Nobody, End), "complete");
        check(status(503, none(By::Nobody, End)), "complete; the server answered 503");
        check(none(By::Client, Request), "the client closed the connection before its request was complete");
        let inspected = EndedStream { has_request: true, ..none(By::Client, Request) };
        check(inspected, "the client closed the connection before its request was processed");
        check(
            tcp(none(By::Client, Request)),
            "the client closed the connection before a complete request arrived",
        );
        check(none(By::Client, Queue), "the client closed the connection in the queue");
        check(none(By::Client, Connect), "the client closed the connection while connecting to the server");
        check(none(By::Client, Headers), "the client closed the connection while waiting for the response");
        check(
            status(400, none(By::Client, Headers)),
            "the client closed the connection before its request body was complete",
        );
        check(none(By::Client, Data), "the client closed the connection during the transfer");
        check(rule(none(By::Server, Request)), "an 'auth-request' rule got no verdict");
        check(rule(none(By::ServerTimeout, Request)), "an 'auth-request' rule got no verdict in time");
        check(none(By::Client, Tarpit), "the client closed the connection in the tarpit");
        check(
            status(408, none(By::ClientTimeout, Request)),
            "the client sent no complete request in time ('timeout http-request' or 'timeout client')",
        );
        check(
            none(By::ClientTimeout, Headers),
            "the client sent no complete request body in time ('timeout client')",
        );
        check(
            none(By::ClientTimeout, Data),
            "the client was idle for too long ('timeout client') during the transfer",
        );
        let unrouted = EndedStream { has_backend: false, has_server: false, ..none(By::Server, Connect) };
        check(unrouted, "no backend was found for the request");
        check(EndedStream { has_backend: true, ..unrouted }, "no server was available");
        check(none(By::Server, Connect), "the connection to the server failed");
        check(
            status(502, none(By::Server, Headers)),
            "the server closed the connection without a complete response",
        );
        check(status(429, none(By::Server, Headers)), "the server kept answering 429 ('retry-on')");
        check(
            none(By::Server, Last),
            "the server answered, and closed the connection before it had read the whole request",
        );
        check(none(By::Server, Data), "the server closed the connection during the transfer");
        check(none(By::ServerTimeout, Queue), "no server had a free slot in time ('timeout queue')");
        check(
            none(By::ServerTimeout, Connect),
            "the server did not accept the connection in time ('timeout connect')",
        );
        check(none(By::ServerTimeout, Headers), "the server sent no response in time ('timeout server')");
        check(
            none(By::ServerTimeout, Data),
            "the server was idle for too long ('timeout server') during the transfer",
        );
        check(rule(status(403, none(By::Proxy, Request))), "a rule refused the request");
        check(rule(tcp(none(By::Proxy, Request))), "a rule refused the connection");
        check(status(400, none(By::Proxy, Request)), "the request was malformed or too large");
        check(status(431, none(By::Proxy, Request)), "the request was malformed or too large");
        check(status(505, none(By::Proxy, Request)), "the request asks for something that is not supported");
        check(status(401, none(By::Proxy, Request)), "the request was refused");
        let option = EndedStream { option: Some("option x"), ..none(By::Proxy, Request) };
        check(status(403, option), "the request was refused by 'option x'");
        let option = EndedStream { option: Some("option checkcache"), ..none(By::Proxy, Headers) };
        check(status(502, option), "the response was refused by 'option checkcache'");
        check(rule(status(502, none(By::Proxy, Headers))), "a rule refused the response");
        check(status(502, none(By::Proxy, Headers)), "the response was malformed or too large");
        check(status(400, none(By::Proxy, Headers)), "the request body was malformed");
        check(status(200, none(By::Proxy, Data)), "a message body was malformed");
        check(rule(none(By::Proxy, Data)), "a rule closed the connection during the transfer");
        check(none(By::Proxy, Tarpit), "a rule held the request in the tarpit, then refused it");
        check(
            none(By::Resource, Connect),
            "weir ran out of memory, file descriptors or ports while connecting to the server",
        );
        check(none(By::Internal, Data), "internal error of weir during the transfer");
        check(rule(none(By::Internal, Request)), "a rule could not be applied ('strict-mode on')");
        check(rule(none(By::Local, Request)), "a rule answered the request");
        check(none(By::Local, Request), "weir answered the request without a server");
        check(none(By::Killed, Data), "an operator ended the stream during the transfer");
        check(none(By::Killed, End), "an operator ended the stream");
        check(none(By::Down, Data), "the server went down ('on-marked-down') during the transfer");
        check(none(By::Up, Data), "an active server came back ('on-marked-up') during the transfer");
    }

    /// Combinations that the code does not create today have a readable sentence, too.
    #[test]
    fn every_combination_of_ending_facts_has_a_sentence() {
        for by in By::ALL {
            for during in During::ALL {
                for bits in 0..32 {
                    let bit = |index: u32| bits >> index & 1 == 1;
                    let sentence = EndedStream {
                        http: bit(0),
                        has_request: bit(1),
                        by_rule: bit(2),
                        has_server: bit(3),
                        option: bit(4).then_some("option x"),
                        ..ended(by, during)
                    }
                    .sentence();
                    assert!(sentence.len() > 7 && !sentence.contains("  "), "{sentence}");
                    // The word "refused" is only used for the side that refuses.
                    assert!(
                        !sentence.contains("refused") || by == By::Proxy,
                        "{by:?} {during:?}: {sentence}"
                    );
                    assert!(
                        !sentence.contains("rule") || bit(2) || during == During::Tarpit,
                        "{by:?} {during:?}: {sentence}"
                    );
                }
            }
        }
    }
}
