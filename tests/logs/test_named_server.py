"""Log lines of a server's errors."""
from lib.program import request

CONFIGURATION = """
global
    log 127.0.0.1:{log} local0
defaults
    mode http
    log global
    option httplog
    option dontlognull
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    server s1 127.0.0.1:{server}
"""


def test_a_503_of_a_server_is_logged_with_its_name(start, origin, port, log):
    origin.answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    start(CONFIGURATION.format(port=port, log=log.port, server=origin.port), port)
    assert request(port).startswith(b"HTTP/1.1 503 ")
    log.wait_for(" f b/s1 .* 503 ")
