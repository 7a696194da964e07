//! Measures the cost of parsing a head: `cargo run --release -p weir-h1 --example heads`.
//!
//! Prints nanoseconds for each kind of head, with a reused parser and a reused index, as a connection has them. For
//! instruction counts, give a name and a number of rounds, and run it under callgrind twice with different numbers:
//! the difference is the loop's.

use std::hint::black_box;
use std::time::Instant;

use weir_h1::{
    ChunkDecoder, HeadParser, HeadProgress, ParseOptions, connection, request_framing, response_framing,
};
use weir_http::{Head, Kind, Method};

const SMALL_REQUEST: &[u8] =
    b"GET /64 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n\r\n";

const BROWSER_REQUEST: &[u8] = b"GET /path/to/some/page.html?with=a&query=string HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Referer: https://www.example.com/\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; lang=en\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Priority: u=0, i\r\n\r\n";

const SMALL_RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Type: text/plain\r\nContent-Length: 64\r\n\r\n";

const CHUNKED_BODY: &[u8] = b"10\r\n0123456789abcdef\r\n20\r\n0123456789abcdef0123456789abcdef\r\n0\r\n\r\n";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2_000_000u32);
    let run = |name: &str, work: &mut dyn FnMut()| {
        if only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        let mut best = f64::MAX;
        for _ in 0..if only.is_some() { 1 } else { 7 } {
            let start = Instant::now();
            for _ in 0..rounds {
                work();
            }
            best = best.min(start.elapsed().as_nanos() as f64 / f64::from(rounds));
        }
        println!("{name:<16} {best:7.1} ns");
    };
    let (mut parser, mut head) = (HeadParser::default(), Head::new());
    let options = ParseOptions::default();
    for (name, kind, raw) in [
        ("small-request", Kind::Request, SMALL_REQUEST),
        ("browser-request", Kind::Request, BROWSER_REQUEST),
        ("small-response", Kind::Response, SMALL_RESPONSE),
    ] {
        run(name, &mut || {
            let raw = black_box(raw);
            let progress = match kind {
                Kind::Request => parser.request(raw, &options, &mut head),
                Kind::Response => parser.response(raw, &options, &mut head),
            };
            assert_eq!(progress, HeadProgress::Complete { head_len: raw.len() });
        });
    }
    let (mut request, mut response) = (Head::new(), Head::new());
    run("exchange", &mut || {
        let (sent, received) = (black_box(SMALL_REQUEST), black_box(SMALL_RESPONSE));
        parser.request(sent, &options, &mut request);
        black_box(request_framing(&request));
        let _ = connection::announce(&mut request, sent, connection::Announce::Nothing);
        parser.response(received, &options, &mut response);
        let framing = response_framing(&response, Method::Get);
        black_box(connection::client_persists(&request, framing, connection::PersistenceMode::KeepAlive));
        black_box(connection::server_persists(&response, framing, connection::PersistenceMode::KeepAlive));
        let _ = connection::announce(&mut response, received, connection::Announce::Nothing);
        black_box((request.is_edited(), response.is_edited()));
    });
    let mut out = Vec::new();
    run("edited", &mut || {
        let raw = black_box(SMALL_REQUEST);
        parser.request(raw, &options, &mut head);
        let _ = head.add(b"x-forwarded-for", b"192.168.100.200");
        out.clear();
        head.write(raw, &mut out);
        black_box(&out);
    });
    let mut body = CHUNKED_BODY.to_vec();
    run("chunked-body", &mut || {
        let advance = ChunkDecoder::new().validate(black_box(&mut body));
        assert!(advance.is_ok_and(|advance| advance.done));
    });
}
