"""HTTP/2 servers, right and wrong, in each phase: the views of the HTTP/1 client and of the server, and the log."""
from phases import case

_H2 = "server s @server@ proto h2 pool-max-conn 0"
_POST = r":POST\x20/\x20HTTP/1.1\r\nHost:\x20x\r\nContent-Length:\x2010\r\n\r\n0123456789"
_CHUNKS = r":POST\x20/\x20HTTP/1.1\r\nHost:\x20x\r\nTransfer-Encoding:\x20chunked\r\n\r\n3\r\nabc\r\n0\r\nA:\x20b\r\n\r\n"


def _one(name, server, client_sees, server_sees, logged, client="get answer rest", lines="", **more):
    return case(f"h2_{name}", "; ".join(filter(None, ["option httpclose", lines, _H2])), server, client, client_sees, server_sees, logged, **more)


CASES = [
    _one("length", "h2 req okay frames", "200 2 FIN", "1. goaway:0 FIN", "200 ---- 0 s 51"),
    _one("chunks", "h2 req status=200 data=3 data=3,end frames", "200 16 FIN", "1. goaway:0 FIN", "200 ---- 0 s 40"),
    _one("trailers", "h2 req status=200 data=3 trailers frames", "200 23 FIN", "1. goaway:0 FIN", "200 ---- 0 s 37"),
    _one("empty", "h2 req status=200,end frames", "200 5 FIN", "1. goaway:0 FIN", "200 ---- 0 s 34"),
    _one("no_body", "h2 req status=204,end frames", "204 FIN", "1. goaway:0 FIN", "204 ---- 0 s 42"),
    _one("interim", "h2 req interims=3 okay frames", "103 103 103 200 2 FIN", "1. goaway:0 FIN", "200 ---- 0 s 195"),
    _one("interims_without_end", "h2 req interims=300 frames", "*", "1. rst1:11 goaway:0 FIN", "*"),
    _one("post", "h2 req body okay frames", "200 2 FIN", "1 10 goaway:0 FIN", "200 ---- 0 s 51", client="post ten answer rest"),
    _one("post_chunked", "h2 req body okay frames", "200 2 FIN", "1 3+trailers goaway:0 FIN", "200 ---- 0 s 51", client=r"postchunked :3\r\nabc\r\n0\r\nA:\x20b\r\n\r\n answer rest"),
    _one("reset_before_response", "h2 req reset=2 frames", "502 FIN", "1. goaway:0 FIN", "502 SH-- 0 s 209"),
    _one("cancel_before_response", "h2 req reset=8 frames", "502 FIN", "1. goaway:0 FIN", "502 SH-- 0 s 209"),
    _one("refused", "h2 req reset=7 req okay frames | h2 req okay frames", "200 2 FIN", "1. goaway FIN | 1. goaway:0 FIN", "200 ---- 1 s 51"),
    _one("refused_twice", "h2 req reset=7 req reset=7 req reset=7 frames | h2 req reset=7 frames", "502 FIN", "1. goaway FIN | 1. goaway:0 FIN", "502 SH-- 1 s 209"),
    _one("refused_post", "h2 req body reset=7 req body okay frames | h2 req body okay frames", "502 FIN", "1 10 goaway FIN", "502 SH-- 0 s 209", client="post pause=100 ten answer rest"),
    # A body received with its head is kept only for this retry.
    _one("refused_post_at_once", "h2 req body reset=7 frames | h2 req body okay frames", "200 2 FIN", "1 10 goaway:0 FIN | 1 10 goaway:0 FIN", "200 ---- 1 s 51", client=f"{_POST} answer rest"),
    _one("refused_chunks_at_once", "h2 req body reset=7 frames | h2 req body okay frames", "200 2 FIN", "1 3+trailers goaway:0 FIN | 1 3+trailers goaway:0 FIN", "200 ---- 1 s 51", client=f"{_CHUNKS} answer rest"),
    _one("reset_post_at_once", "h2 req body reset=2 frames | h2 req body okay frames", "502 FIN", "1 10 goaway:0 FIN", "502 SH-- 0 s 209", client=f"{_POST} answer rest"),
    _one("closed_post_at_once", "h2 req body close | h2 req body okay frames", "502 FIN", "1 10", "502 SH-- 0 s 209", client=f"{_POST} answer rest"),
    _one("goaway_without_the_stream", "h2 req goaway=0,0 frames | h2 req okay frames", "200 2 FIN", "1. FIN | 1. goaway:0 FIN", "200 ---- 1 s 51"),
    _one("goaway_with_the_stream", "h2 req goaway=1,0 okay frames", "200 2 FIN", "1. FIN", "200 ---- 0 s 51"),
    _one("goaways_without_end", "h2 req many=30000,7,0,0,0000000100000000 frames", "502 FIN", "1. goaway:11 FIN", "502 SH-- 0 s 209"),
    _one("settings_without_end", "h2 req many=30000,4,0,0, frames", "502 FIN", "*", "502 SH-- 0 s 209"),
    _one("pings_without_end", "h2 req many=30000,6,0,0,0000000000000000 frames", "502 FIN", "*", "502 SH-- 0 s 209"),
    _one("data_without_end", "h2 req status=200 many=30000,0,0,s, frames", "200 FIN", "1. goaway:11 FIN", "200 SD-- 0 s 34"),
    _one("goaway_then_close", "h2 req goaway=0,0 fin frames | h2 req okay frames", "200 2 FIN", "1. FIN | 1. goaway:0 FIN", "200 ---- 1 s 51"),
    _one("reset_in_head", "h2 req status=200,content-length:10 reset=2 frames", "200 0 FIN", "1. goaway:0 FIN", "200 SD-- 0 s 50"),
    _one("reset_in_body", "h2 req status=200,content-length:10 data=5 reset=2 frames", "200 5 FIN", "1. goaway:0 FIN", "200 SD-- 0 s 55"),
    _one("reset_in_chunks", "h2 req status=200 data=5 pause=200 reset=2 frames", "200 10 FIN", "1. goaway:0 FIN", "200 SD-- 0 s 39"),
    _one("early_empty_response", "h2 req status=200,end reset=0 frames", "200 5 FIN", "1 goaway:0 FIN", "200 SL-- 0 s 34", client="post answer rest"),
    _one("early_response_with_body", "h2 req status=200 data=3,end reset=0 frames", "200 13 FIN", "1 goaway:0 FIN", "200 SL-- 0 s 37", client="post answer rest"),
    _one("early_response_before_upload_ends", "h2 req okay body frames", "200 2 FIN", "1 10 goaway:0 FIN", "200 ---- 0 s 51", client="post answer ten rest"),
    _one("close_before_response", "h2 req close", "502 FIN", "1.", "502 SH-- 0 s 209"),
    _one("close_before_request", "h2 close", "502 FIN", "", "502 SH-- 0 s 209"),
    _one("close_in_body", "h2 req status=200,content-length:10 data=5 pause=200 close", "200 5 FIN", "1.", "200 SD-- 0 s 55"),
    _one("close_in_chunks", "h2 req status=200 data=5 pause=200 close", "200 10 FIN", "1.", "200 SD-- 0 s 39"),
    _one("silent_server", "h2 req frames", "504 FIN", "1. rst1:8 goaway:0 FIN", "504 sH-- 0 s 198", lines="timeout server 300ms"),
    _one("silent_body", "h2 req status=200 data=5 frames", "200 10 FIN", "1. rst1:8 goaway:0 FIN", "200 sD-- 0 s 39", lines="timeout server 300ms"),
    _one("no_server_preface", "preface frames", "502 FIN", "late1 goaway:1 FIN", "502 SH-- 0 s 209", lines="timeout server 300ms"),
    _one("http1", ":HTTP/1.1\\x20400\\x20Bad\\r\\n\\r\\n rest", "502 FIN", "77 FIN", "502 SH-- 0 s 209"),
    _one("data_first", "h2 req data=5 frames", "502 FIN", "1. rst1:1 goaway:0 FIN", "502 SH-- 0 s 209"),
    _one("two_heads", "h2 req status=200 status=200 frames", "200 FIN", "1. rst1:1 goaway:0 FIN", "200 SD-- 0 s 34"),
    _one("no_status", "h2 req frame=1,4,s,0001610162 frames", "502 FIN", "1. rst1:1 goaway:0 FIN", "502 PH-- 0 s 209"),
    _one("status_101", "h2 req status=101 frames", "502 FIN", "1. rst1:1 goaway:0 FIN", "502 PH-- 0 s 209"),
    _one("interim_with_end_stream", "h2 req status=103,end frames", "502 FIN", "1. rst1:1 goaway:0 FIN", "502 PH-- 0 s 209"),
    _one("upper_case_field", "h2 req frame=1,4,s,00073a737461747573033230300001410162 frames", "502 FIN", "1. rst1:1 goaway:0 FIN", "502 PH-- 0 s 209"),
    _one("forbidden_field", "h2 req status=200,connection:close,end frames", "502 FIN", "1. rst1:1 goaway:0 FIN", "502 PH-- 0 s 209"),
    _one("body_too_long", "h2 req status=200,content-length:3 data=5,end frames", "200 0 FIN", "1. rst1:1 goaway:0 FIN", "200 SD-- 0 s 49"),
    _one("body_too_short", "h2 req status=200,content-length:7 data=5,end frames", "200 0 FIN", "1. rst1:1 goaway:0 FIN", "200 SD-- 0 s 49"),
    _one("body_of_204", "h2 req status=204 data=5,end frames", "204 FIN", "*", "204 ---- 0 s 42"),
    _one("push_promise", "h2 req frame=5,4,s,00000002 frames", "502 FIN", "1. goaway:1 FIN", "502 SH-- 0 s 209"),
    _one("server_opens_stream", "h2 req frame=1,5,2,88 frames", "502 FIN", "1. goaway:1 FIN", "502 SH-- 0 s 209"),
    _one("bad_header_block", "h2 req frame=1,5,s,80 frames", "502 FIN", "1. goaway:9 FIN", "502 SH-- 0 s 209"),
    _one("window_overflow", "h2 req frame=8,0,s,7fffffff frames", "502 FIN", "1. rst1:3 goaway:0 FIN", "502 SH-- 0 s 209"),
    _one("connection_window_overflow", "h2 req frame=8,0,0,7fffffff frames", "502 FIN", "1. goaway:3 FIN", "502 SH-- 0 s 209"),
    _one("huge_frame", "h2 req frame=99,0,0,00 okay frames", "200 2 FIN", "1. goaway:0 FIN", "200 ---- 0 s 51"),
    _one("no_streams", "h2=3:0 pause=200 req okay frames", "200 2 FIN", "1. goaway:0 FIN", "200 ---- 0 s 51", lines="timeout server 500ms; timeout connect 500ms"),
    _one("closed_window", "h2=4:0 req pause=200 frame=8,0,s,00000003 pause=100 settings=4:65535 body okay frames", "200 2 FIN", "1 10 goaway:0 FIN", "200 ---- 0 s 51", client="post ten answer rest"),
    _one("window_stays_closed", "h2=4:0 req frames", "504 FIN", "1 rst1:8 goaway:0 FIN", "504 sH-- 0 s 198", client="post ten answer rest", lines="timeout server 300ms"),
    _one("client_closes", "h2 req tell frames", "", "1. rst1:8 goaway:0 FIN", "400 CH-- 0 s 206", client="get told close"),
    _one("client_resets_in_body", "h2 req status=200 data=5 told frames", "200 10", "1. rst1:8 goaway:0 FIN", "200 CD-- 0 s 39", client="get head bytes=10 tell rst"),
    # A connection without streams gets a ping, and is closed without an answer.
    case("h2_idle_ping", "option httpclose; server s @server@ proto h2 idle-ping 200ms", "h2 req okay frames", "get answer rest",
         "200 2 FIN", "1. ping FIN", "200 ---- 0 s 51"),
    # Two clients, one connection; a connection with as many requests as allowed is closed.
    case("h2_max_reuse", "http-reuse always; server s @server@ proto h2 max-reuse 1", "h2 req okay req okay frames | h2 req okay told",
         "get answer get answer get answer tell fin rest", "200 2 200 2 200 2 FIN", "1. 3. goaway:0 FIN | 1.", "200 ---- 0 s 51 / 200 ---- 0 s 51 / 200 ---- 0 s 51"),
    case("h2_reuse_never", "http-reuse never; server s @server@ proto h2", "h2 req okay req okay frames", "get answer get answer fin rest",
         "200 2 200 2 FIN", "1. 3. goaway:0 FIN", "200 ---- 0 s 51 / 200 ---- 0 s 51"),
]
