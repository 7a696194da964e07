"""The timeout of each phase, and the side reported as its cause (manual, "timeout client" and others, 8.5)."""
from phases import case

# Both: the client's shorter, the server's shorter.
_CLIENT = "timeout client 300ms; timeout server 700ms"
_SERVER = "timeout client 700ms; timeout server 300ms"
_TCP = "mode tcp; "
_EXPECTS = ":POST\\x20/\\x20HTTP/1.1\\r\\nHost:x\\r\\nExpect:100-continue\\r\\nContent-Length:10\\r\\n\\r\\n"

CASES = [
    # The request's head.
    case("no_request", "timeout http-request 200ms", "head", "rest", "233 FIN", "", "408 cR-- 0 <NOSRV> 0", 0.2),
    case("half_a_head", "timeout http-request 200ms", "head", ":GET rest", "233 FIN", "", "408 cR-- 0 <NOSRV> 0", 0.2),
    case("keep_alive", "timeout http-keep-alive 200ms", "head ok fin rest", "get answer rest", "200 2 FIN", "GET FIN", "200 ---- 0 s 51", 0.2),
    case("keep_alive_then_half_a_head", "timeout http-request 300ms; timeout http-keep-alive 100ms", "head ok fin rest", "get answer :GET rest",
         "200 2 233 FIN", "GET FIN", "200 ---- 0 s 51 / 408 cR-- 0 <NOSRV> 0", 0.3),
    # The request's body, before a server is chosen.
    case("buffered_body_stops", "timeout http-request 200ms; option http-buffer-request", "head", "post three answer rest", "408 FIN", "", "408 cR-- 0 <NOSRV> 232", 0.2),
    case("waited_body_stops", "http-request wait-for-body time 200ms", "head", "post three answer rest", "408 FIN", "", "408 cR-- 0 <NOSRV> 232", 0.2),
    case("tarpit", "timeout tarpit 200ms; http-request tarpit", "head", "get answer rest", "500 FIN", "", "500 PT-- 0 <NOSRV> 208", 0.2),
    case("tarpit_connect", "timeout connect 200ms; http-request tarpit", "head", "get answer rest", "500 FIN", "", "500 PT-- 0 <NOSRV> 208", 0.2),
    # The server has the request.
    case("no_response", _SERVER, "head rest", "get answer rest", "504 FIN", "GET FIN", "504 sH-- 0 s 198", 0.3),
    case("no_response_client_shorter", _CLIENT, "head rest", "get answer rest", "504 FIN", "GET FIN", "504 sH-- 0 s 198", 0.7),
    case("no_response_to_body", _SERVER, "head bytes=10 rest", "post ten answer rest", "504 FIN", "POST 10 FIN", "504 sH-- 0 s 198", 0.3),
    case("half_a_response", _SERVER, "head cut rest", "get answer rest", "504 FIN", "GET FIN", "504 sH-- 0 s 198", 0.3),
    case("continue_then_nothing", _SERVER, "head continue rest", "post ten answer rest", "100 504 FIN", "POST 10 FIN", "504 sH-- 0 s 238", 0.3),
    # The server does not have the request, so its timeout has not started.
    case("upload_slower_than_server", _SERVER, "head bytes=10 ok fin rest", "post pause=450 ten answer rest", "200 2 FIN", "POST 10 FIN", "200 ---- 0 s 51", 0.4),
    case("upload_trickles", _SERVER.replace("300", "150"), "head bytes=10 ok fin rest", "post slow=10 answer rest", "200 2 FIN", "POST 10 FIN", "200 ---- 0 s 51", 1.0),
    case("upload_then_nothing", _SERVER, "head bytes=10 rest", "post pause=450 ten answer rest", "504 FIN", "POST 10 FIN", "504 sH-- 0 s 198", 0.75),
    case("upload_stops", _SERVER, "head bytes=3 rest", "post three answer rest", "408 FIN", "POST 3 FIN", "408 cH-- 0 s 232", 0.7),
    case("upload_stops_client_shorter", _CLIENT, "head bytes=3 rest", "post three answer rest", "408 FIN", "POST 3 FIN", "408 cH-- 0 s 232", 0.3),
    case("upload_stops_in_chunks", _SERVER, "head rest", "postchunked answer rest", "408 FIN", "POST FIN", "408 cH-- 0 s 232", 0.7),
    # Unless the client waits for the server.
    case("expectation_unanswered", _SERVER, "head rest", f"{_EXPECTS} answer rest", "504 FIN", "POST FIN", "504 sH-- 0 s 198", 0.3),
    case("expectation_unanswered_client_shorter", _CLIENT, "head rest", f"{_EXPECTS} answer rest", "504 FIN", "POST FIN", "504 sH-- 0 s 198", 0.7),
    case("expectation_answered", _SERVER, "head continue rest", f"{_EXPECTS} answer rest", "100 408 FIN", "POST FIN", "408 cH-- 0 s 272", 0.7),
    case("expectation_not_waited_for", _SERVER, "head bytes=3 rest", f"{_EXPECTS} three answer rest", "408 FIN", "POST 3 FIN", "408 cH-- 0 s 232", 0.7),
    case("upload_not_taken", _SERVER, "small pause=4000", "postlong long answer rest", "*", "", "504 sH-- 0 s 198", 0.3),
    # The response.
    case("response_stops", _SERVER, "head okten three rest", "get answer rest", "200 3 FIN", "GET FIN", "200 sD-- 0 s 53", 0.3),
    case("response_stops_client_shorter", _CLIENT, "head okten three rest", "get answer rest", "200 3 FIN", "GET FIN", "200 sD-- 0 s 53", 0.7),
    case("response_trickles", _SERVER, "head okten slow=10 fin rest", "get answer rest", "200 10 FIN", "GET FIN", "200 ---- 0 s 60", 1.0),
    case("response_stops_upload_stops", _SERVER, "head bytes=3 okten three rest", "post three answer rest", "200 3 FIN", "POST 3 FIN", "200 cD-- 0 s 53", 0.7),
    case("response_stops_upload_goes_on", _SERVER, "head okten three rest", "post slow=9 answer rest", "200 3 FIN", "POST 9 FIN", "200 cD-- 0 s 53", 1.6),
    case("upload_stops_response_goes_on", _CLIENT, "head bytes=3 okten slow=10 rest", "post three answer rest", "200 10 FIN", "POST 3 FIN", "200 cL-- 0 s 60", 1.3),
    case("response_over_upload_stops", _SERVER, "head bytes=3 ok rest", "post three answer rest", "200 2 FIN", "POST 3 FIN", "200 cL-- 0 s 51", 0.7),
    # Tunnels: one timeout for both, the client is blamed if both are silent; half-closed ones have their own.
    case("tunnel_silent", "timeout tunnel 250ms", "head switch rest", "upgrade answer rest", "101 FIN", "GET FIN", "101 cD-- 0 s 76", 0.25),
    case("tunnel_silent_without_timeout_tunnel", _SERVER, "head switch rest", "upgrade answer rest", "101 FIN", "GET FIN", "101 sD-- 0 s 76", 0.3),
    case("tunnel_client_talks", "timeout tunnel 250ms", "head switch rest", "upgrade answer slow=6 rest", "101 FIN", "GET 6 FIN", "101 cD-- 0 s 76", 0.85),
    case("tunnel_server_talks", "timeout tunnel 250ms", "head switch slow=6 rest", "upgrade answer rest", "101 6 FIN", "GET FIN", "101 cD-- 0 s 82", 0.85),
    case("tunnel_client_closes", "timeout server-fin 200ms", "head switch rest pause=3000", "upgrade answer fin rest", "101 FIN", "GET FIN", "101 sD-- 0 s 76", 0.2),
    case("tunnel_server_closes", "timeout client-fin 200ms", "head switch fin rest", "upgrade answer rest pause=3000", "101 FIN", "GET FIN", "101 cD-- 0 s 76", 0.2),
    case("tcp_silent", _TCP + _SERVER, "rest", "three rest", "FIN", "3 FIN", "-1 sD-- 0 s 0", 0.3),
    case("tcp_silent_client_shorter", _TCP + _CLIENT, "rest", "three rest", "FIN", "3 FIN", "-1 cD-- 0 s 0", 0.3),
    case("tcp_client_talks", _TCP + _SERVER, "rest", "slow=5 rest", "FIN", "5 FIN", "-1 sD-- 0 s 0", 0.8),
    case("tcp_server_talks", _TCP + _CLIENT, "slow=5 rest", "rest", "5 FIN", "FIN", "-1 cD-- 0 s 5", 0.8),
    case("tcp_client_closes", _TCP + _SERVER, "rest pause=3000", "three fin rest", "FIN", "3 FIN", "-1 sD-- 0 s 0", 0.3),
    case("tcp_client_closes_client_fin", _TCP + _SERVER + "; timeout client-fin 100ms", "rest pause=3000", "three fin rest", "FIN", "3 FIN", "-1 sD-- 0 s 0", 0.3),
    case("tcp_client_closes_server_fin", _TCP + "timeout server-fin 150ms", "rest pause=3000", "three fin rest", "FIN", "3 FIN", "-1 sD-- 0 s 0", 0.15),
    case("tcp_server_closes", _TCP + _CLIENT, "three fin rest", "rest pause=1000", "3 FIN", "FIN", "-1 cD-- 0 s 3", 0.3),
    case("tcp_server_closes_client_fin", _TCP + "timeout client-fin 150ms", "three fin rest", "rest pause=1000", "3 FIN", "FIN", "-1 cD-- 0 s 3", 0.15),
]
