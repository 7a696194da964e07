"""The bytes that checks send and expect over their connections, and their timing."""
from checks.support import Scene
from lib.origin import Server
from lib.program import wait_until


def test_checks_read_a_server_banner_without_delay(binary, folder):
    """The last ACK of the TCP handshake leaves at once, not with the first data of the check. Otherwise servers and agents that send first get it
    late, and a check takes 200 ms."""
    def greet(connection):
        connection.sendall(b"220 up\r\n")
        connection.recv(100)
    server = Server(greet)
    sections = f"""
backend greeting
    option tcp-check
    tcp-check expect string 220
    server s 127.0.0.1:{server.port} check inter 200ms
backend agent
    server s 127.0.0.1:{server.port} agent-check agent-port {server.port} agent-inter 200ms
"""
    with Scene(binary, folder, sections) as scene:
        for backend, column in (("greeting", "check_duration"), ("agent", "agent_duration")):
            # One quick check is enough: the machine may be busy.
            in_time = wait_until(lambda: scene.stat(backend, "s", column)[0] not in ("", *map(str, range(100, 400))), 5)
            assert in_time, (backend, scene.stat(backend, "s", column))


def test_consecutive_http_checks_each_use_a_new_connection(binary, folder):
    """An HTTP check sends, receives and resets its connection; the next check uses the same socket for a new connection."""
    seen = []

    def answer(connection):
        request = connection.recv(1000)
        seen.append((connection.getpeername()[1], request))
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        connection.settimeout(2)
        # The check has its result, and closes with a reset.
        assert connection.recv(100) == b""
    server = Server(answer)
    sections = f"backend b\n    option httpchk GET /up\n    server s 127.0.0.1:{server.port} check inter 100ms\n"
    with Scene(binary, folder, sections) as scene:
        assert wait_until(lambda: len(seen) >= 20, 10), seen
        scene.expect("b", "s", status="UP", check_status="L7OK", check_code="200")
    assert all(request == b"GET /up HTTP/1.0\r\n\r\n" for _, request in seen), seen
    assert len({port for port, _ in seen}) > 10, seen


def checksum(data):
    """CRC32c (RFC 3720, B.4)."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_proxy_headers_of_checks_carry_the_tlvs_of_the_server_line(binary, folder):
    """The LOCAL header of PROXY version 2 has the TLVs of the server line that need no client, as in HAProxy 3.2."""
    seen = {}
    head = b"\r\n\r\n\0\r\nQUIT\n\x20\0"

    def serving(name):
        def note(connection):
            text = b""
            while not text.endswith(b"\r\n\r\n") or text == head[:4]:
                text += connection.recv(1000) or b"\r\n\r\n"
            length = int.from_bytes(text[14:16], "big")
            if text.startswith(head):
                seen[name] = (text[:16 + length], text[16 + length:])
        return Server(note)
    empty_of_tls = b"\x20\0\5\0\0\0\0\0"
    cases = {
        "plain": ("send-proxy-v2", b""),
        "other": ("send-proxy-v2 check-send-proxy port {port}", b""),
        "tls": ("send-proxy-v2-ssl-cn", empty_of_tls),
        "fields": ('send-proxy-v2 set-proxy-v2-tlv-fmt(0xE1) "%[str(foo)] %[srv_name]" set-proxy-v2-tlv-fmt(0xE2) %[src]', b"\xe1\0\x0afoo fields\xe2\0\0"),
        "client": ("send-proxy-v2 proxy-v2-options authority,unique-id", b""),
        "sum": ("send-proxy-v2 proxy-v2-options crc32c,ssl", empty_of_tls + b"\3\0\4"),
    }
    servers = {name: serving(name) for name in cases}
    lines = [f"    server {name} 127.0.0.1:{servers[name].port} check inter 200ms {words.format(port=servers[name].port)}\n"
             for name, (words, _) in cases.items()]
    with Scene(binary, folder, "backend b\n    option httpchk GET /up\n" + "".join(lines)):
        assert wait_until(lambda: len(seen) == len(cases), 10), seen
    for name, (_, fields) in cases.items():
        header, request = seen[name]
        end = 4 * (name == "sum")
        assert header[16:len(header) - end] == fields and request.startswith(b"GET /up "), (name, header, request)
    header = seen["sum"][0]
    assert checksum(header[:-4] + b"\0\0\0\0") == int.from_bytes(header[-4:], "big"), header


ENDS = "%[src]|%[src_port]|%[dst]|%[dst_port]|%[src_is_local]|%ci|%fp"


def test_checks_have_the_addresses_of_their_connection_but_no_client_address(binary, folder):
    """HAProxy 2.6 and 3.2 accept fetches about a client in rules of checks, without a value there: a check does not
    have a client. bc_src, bc_dst, their ports, %bi, %bp, %si and %sp describe the server's connection."""
    seen = {}

    def note(connection):
        text = connection.recv(1000).decode().strip()
        near, far = ("{0[0]}|{0[1]}".format(end) for end in (connection.getpeername(), connection.getsockname()))
        seen.setdefault(text.split(" ")[0], []).append((text.partition(" ")[2].strip(), near, far))
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nok")
    server, six = Server(note), Server(note, host="::1")
    talk = "\n    option tcp-check\n    tcp-check connect"
    own = "    tcp-check send-lf \"fetches %[bc_src]|%[bc_src_port] %[bc_dst]|%[bc_dst_port]\"\n    tcp-check expect string ok\n    tcp-check connect"
    sections = f"""
backend client{talk}
    tcp-check send-lf "client {ENDS}"
    tcp-check expect string ok
    server s 127.0.0.1:{server.port} check inter 200ms
backend early
    option tcp-check
    tcp-check set-var-fmt(check.early) "%[src]%bi"
    tcp-check connect
    tcp-check send-lf "early <%[var(check.early)]>"
    tcp-check expect string ok
    server s 127.0.0.1:{server.port} check inter 200ms
backend aliases{talk}
{own}
    tcp-check send-lf "aliases %bi|%bp %si|%sp"
    tcp-check expect string ok
    server s 127.0.0.1:{server.port} check inter 200ms source 127.0.0.3
backend six{talk}
    tcp-check send-lf "six %bi|%bp %si|%sp"
    tcp-check expect string ok
    server s [::1]:{six.port} check inter 200ms
backend http
    option httpchk GET /
    http-check send hdr x "%[src]%[dst_port]<%bi|%bp>"
    server s 127.0.0.1:{server.port} check inter 200ms
"""
    with Scene(binary, folder, sections):
        expected = {"client", "early", "aliases", "fetches", "six", "GET"}
        assert wait_until(lambda: expected <= seen.keys()), seen.keys()
    for text, near, far in seen["aliases"] + seen["six"] + seen["fetches"]:
        assert text == f"{near} {far}", (text, near, far)
    assert {near.split("|")[0] for _, near, _ in seen["aliases"]} == {"127.0.0.3"}
    assert {text for text, *_ in seen["client"]} == {"||||||"}, seen["client"]
    assert {text for text, *_ in seen["early"]} == {"<>"}, seen["early"]
    for text, near, _ in seen["GET"]:
        assert f"x: <{near}>" in text, (text, near)
