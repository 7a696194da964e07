//! The HTTP/1 engine: heads, framing and chunked coding to RFC 9112.
