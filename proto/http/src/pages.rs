//! Built-in responses of the proxy, used if the configuration lacks a file for them.

use crate::message;
use crate::version::Version;

/// A built-in response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuiltInResponse {
    pub status: u16,
    pub reason: &'static str,
    /// The sentence in its body.
    pub text: &'static str,
    /// Whether it closes the connection, because the end of the client's message is uncertain.
    pub closes: bool,
}

impl BuiltInResponse {
    /// The response for a status code, if there is one.
    pub fn of(status: u16) -> Option<&'static BuiltInResponse> {
        PAGES.iter().find(|page| page.status == status)
    }

    /// Appends the body.
    pub fn write_body(&self, out: &mut Vec<u8>) {
        for piece in ["<html><body><h1>", &self.status_text(), " ", self.reason, "</h1>\n", self.text, END] {
            out.extend_from_slice(piece.as_bytes());
        }
    }

    /// Appends the whole message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.write_body(&mut body);
        let fields: &[(&[u8], &[u8])] =
            &[(b"cache-control", b"no-cache"), (b"content-type", b"text/html"), (b"connection", b"close")];
        let fields = if self.closes { fields } else { &fields[..2] };
        let reason = self.reason.as_bytes();
        message::write_response(out, Version::HTTP_11, self.status, reason, fields, Some(&body));
    }

    fn status_text(&self) -> String {
        self.status.to_string()
    }
}

const END: &str = "\n</body></html>\n";

const fn page(status: u16, reason: &'static str, text: &'static str) -> BuiltInResponse {
    BuiltInResponse { status, reason, text, closes: matches!(status, 400 | 408) }
}

/// Every status with a built-in response: those that `errorfile` may replace.
pub const PAGES: &[BuiltInResponse] = &[
    page(200, "OK", "Service ready."),
    page(400, "Bad request", "Your browser sent an invalid request."),
    page(401, "Unauthorized", "You need a valid user and password to access this content."),
    page(403, "Forbidden", "Request forbidden by administrative rules."),
    page(404, "Not Found", "The resource could not be found."),
    page(
        405,
        "Method Not Allowed",
        "A request was made of a resource using a request method not supported by that resource.",
    ),
    page(407, "Unauthorized", "You need a valid user and password to access this content."),
    page(408, "Request Time-out", "Your browser didn't send a complete request in time."),
    page(410, "Gone", "The resource is no longer available and will not be available again."),
    page(411, "Length Required", "The length of the request body is unknown, and it exceeds a buffer."),
    page(413, "Payload Too Large", "The request entity exceeds the maximum allowed."),
    page(414, "URI Too Long", "The URI provided was too long for the server to process."),
    page(421, "Misdirected Request", "Request sent to a non-authoritative server."),
    page(422, "Unprocessable Content", "The server cannot process the contained instructions."),
    page(425, "Too Early", "Your browser sent early data."),
    page(429, "Too Many Requests", "You have sent too many requests in a given amount of time."),
    page(431, "Request Header Fields Too Large", "Request Header Fields Too Large."),
    page(500, "Internal Server Error", "An internal server error occurred."),
    page(
        501,
        "Not Implemented",
        "The server does not support the functionality required to fulfill the request.",
    ),
    page(502, "Bad Gateway", "The server returned an invalid or incomplete response."),
    page(503, "Service Unavailable", "No server is available to handle this request."),
    page(504, "Gateway Time-out", "The server didn't respond in time."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, want: &str) {
        let mut out = Vec::new();
        BuiltInResponse::of(status).unwrap().write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn built_in_error_pages_equal_haproxys() {
        check(
            503,
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 107\r\ncache-control: no-cache\r\n\
             content-type: text/html\r\n\r\n<html><body><h1>503 Service Unavailable</h1>\n\
             No server is available to handle this request.\n</body></html>\n",
        );
        check(
            400,
            "HTTP/1.1 400 Bad request\r\ncontent-length: 90\r\ncache-control: no-cache\r\n\
             content-type: text/html\r\nconnection: close\r\n\r\n<html><body><h1>400 Bad request</h1>\n\
             Your browser sent an invalid request.\n</body></html>\n",
        );
        assert!(BuiltInResponse::of(299).is_none());
    }
}
