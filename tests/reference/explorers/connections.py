"""Random listeners that take PROXY headers, servers that get them, and rules on the bytes of a connection."""
from reference.explorers import Case, maybe, some, term

# Conditions of rules, on the received bytes and on their sender.
CONDITIONS = ("req.len gt 3", "req.len ge 12", "req.len 5", "req.len gt 2000", "req.payload(0,3) -m str bad", "req.payload(0,4) -m bin 47455420", "req.payload(2,3) -m found", "req.payload(0,0) -m sub x", "req.payload(0,0),length gt 9", "req.payload(1,200) -m found",
              "req.payload_lv(0,1) -m str ell", "req.payload_lv(0,1,2) -m found", "WAIT_END", "HTTP", "REQ_CONTENT", "req.proto_http", "req.ssl_hello_type 1", "req.ssl_ver ge 3", "src 10.0.0.0/8", "src 127.0.0.0/8", "src 2001:db8::/32", "dst 10.2.2.2",
              "src_port 1234", "dst_port 5678", "fc_rcvd_proxy", "fc_src 127.0.0.1", "fc_pp_authority -m found", "fc_pp_unique_id uid", "var(txn.a) -m found", "var(sess.a) -m str x", "always_true", "always_false", "payload(0,2) -m str he", "method GET", "path /a")
EARLY_CONDITIONS = ("src 10.0.0.0/8", "src 127.0.0.0/8", "src_port 1234", "dst_port 5678", "always_true", "always_false", "fc_rcvd_proxy", "var(sess.a) -m found")
ANSWER_CONDITIONS = ("res.len gt 3", "res.len gt 300", "res.payload(0,4) -m str HTTP", "res.payload(9,3) -m str 200", "res.payload(100,5) -m found", "WAIT_END", "always_true", "always_false", "var(txn.a) -m found", "res.payload_lv(0,1) -m found")
# Bytes in digits: 2.6 writes line ends into its log.
VALUES = ("req.len", "req.payload(0,4),hex", "req.payload(1,2),hex", "src", "dst_port", "req.payload_lv(0,1),hex", "fc_pp_authority", "str(x)", "req.payload(0,0),length")
SERVER_WORDS = ("", "", "send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options unique-id", "send-proxy-v2 proxy-v2-options authority", "send-proxy send-proxy-v2", "send-proxy-v2 send-proxy", "source 127.0.0.1 send-proxy")
PAYLOADS = ("hello", "h", "bad news", "\x03ell and more", "\x00\x00\x02ok", "GET / HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", "x" * 3000, "PROXY TCP4 10.9.9.9 10.8.8.8 1 2\r\n", "\r\n", "")

FOUR = "\x0a\x01\x01\x01\x0a\x02\x02\x02\x04\xd2\x16\x2e"
SIX = "\x20\x01\x0d\xb8" + "\0" * 11 + "\x01" + "\x20\x01\x0d\xb8" + "\0" * 11 + "\x02" + "\x04\xd2\x16\x2e"
TEXT_HEADERS = ("PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678\r\n", "PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678\r\n", "PROXY TCP6 2001:db8::1 2001:db8::2 1234 5678\r\n", "PROXY UNKNOWN\r\n", "PROXY TCP4 127.0.0.1 127.0.0.1 65535 1\r\n", "PROXY TCP6 ::ffff:10.1.1.1 ::1 1 2\r\n")
ODD_HEADERS = ("PROXY TCP4 10.1.1.1 10.2.2.2 1234\r\n", "PROXY TCP4 10.1.1.1  10.2.2.2 1234 5678\r\n", "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", "PROXY TCP6 10.1.1.1 10.2.2.2 1 2\r\n", "PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678 9\r\n", "PROXY TCP4 10.1.1.1 10.2.2.2 01234 5678\r\n",
               "PROXY TCP4 10.1.1.1 10.2.2.2 -1 5678\r\n", "PROXY TCP4 10.1.1.1 10.2.2.2 70000 5678\r\n", "PROXY TCP4 10.1.1.1.1 10.2.2.2 1 2\r\n", "PROXY TCP4 10.1.1.1 10.2.2.2 1 2\n", "PROXY TCP4 10.1.1.1 10.2.2.2 1 2\r", "PROXY TCP5 10.1.1.1 10.2.2.2 1 2\r\n", "PROXY\r\n", "PROXY \r\n", "PROXY UNKNOWN x\r\n",
               "proxy TCP4 10.1.1.1 10.2.2.2 1 2\r\n", "PROXY TCP4 10.1.1.1 10.2.2.2 1 \x00\r\n", "PROXY TCP4 " + "1" * 120 + "\r\n", " PROXY TCP4 10.1.1.1 10.2.2.2 1 2\r\n", "\r\n\r\n\0\r\nQUIX\n!\x11\x00\x0c" + FOUR)


def binary(command, family, addresses, values="", length=None):
    """A binary header, perhaps with a wrong length."""
    size = len(addresses) + len(values) if length is None else length
    return "\r\n\r\n\0\r\nQUIT\n" + chr(command) + chr(family) + chr(size >> 8) + chr(size & 255) + addresses + values


def binary_header(chance):
    """Most are in order."""
    values = "".join(some(chance, ("\x02\x00\x05a.com", "\x05\x00\x03uid", "\x01\x00\x02h2", "\x04\x00\x04\0\0\0\0", "\xe0\x00\x01x"), 2))
    kind = chance.random()
    if kind < 0.4:
        return binary(0x21, 0x11, FOUR, values)
    if kind < 0.6:
        return binary(0x21, 0x21, SIX, values)
    if kind < 0.7:
        return binary(0x20, 0, "")
    return chance.choice((binary(0x20, 0x11, FOUR, values), binary(0x31, 0x11, FOUR), binary(0x11, 0x11, FOUR), binary(0x22, 0x11, FOUR), binary(0x2f, 0x11, FOUR), binary(0x21, 0x11, FOUR[:8]), binary(0x21, 0x21, FOUR), binary(0x21, 0x41, FOUR),
                          binary(0x21, 0x11, FOUR, "\x02\x00\x09a"), binary(0x21, 0x11, FOUR, "\x02"), binary(0x21, 0x11, FOUR, length=5000), binary(0x21, 0x11, FOUR, "\xe1\x03\xe8" + "v" * 1000), binary(0x21, 0x1f, FOUR)))


def header(chance):
    """A PROXY header, or something similar, or none."""
    kind = chance.random()
    if kind < 0.4:
        return chance.choice(TEXT_HEADERS)
    if kind < 0.55:
        return chance.choice(ODD_HEADERS)
    return binary_header(chance) if kind < 0.9 else ""


def pieces(chance, text):
    """The text cut at random offsets, with pauses. It may be truncated, and the client may half-close."""
    if maybe(chance, 0.06) and text:
        text = text[:chance.randrange(len(text))]
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.choice((0, 0, 0, 1, 1, 2))))
    made = []
    for start, end in zip([0, *cuts], [*cuts, len(text)]):
        if start < end:
            made += [text[start:end]] + ([0.03] if maybe(chance, 0.3) else [])
    return made + ([0.05, None] if maybe(chance, 0.3) or not made else [])


def when(chance, conditions):
    """A condition, or none."""
    if maybe(chance, 0.15):
        return ""
    return " if " + " ".join(term(chance, conditions) for _ in range(chance.choice((1, 1, 1, 2))))


def rule(chance):
    """A rule for a connection before a server is selected."""
    kind = chance.random()
    if kind < 0.12:
        return "tcp-request connection " + chance.choice(("accept", "reject", "expect-proxy layer4", "set-var(sess.a) str(x)", "silent-drop")) + (when(chance, EARLY_CONDITIONS) or " if { always_false }")
    if kind < 0.22:
        return "tcp-request session " + chance.choice(("accept", "reject", "set-var(sess.a) str(x)", "set-var(sess.a) src,length")) + (when(chance, EARLY_CONDITIONS) or " if { always_false }")
    action = chance.choice(("accept", "accept", "reject", "reject", f"set-var(txn.a) {chance.choice(VALUES)}", f"set-var(txn.a) {chance.choice(VALUES)}", f"capture {chance.choice(VALUES)} len 12", "set-src str(10.7.7.7)", "set-dst-port int(99)", "set-src-port int(7)"))
    return f"tcp-request content {action}{when(chance, CONDITIONS)}"


def answer_rule(chance):
    """A rule for the server's data."""
    action = chance.choice(("accept", "reject", "close", "set-var(txn.b) res.len", "set-var(txn.b) res.payload(0,5),hex"))
    return f"tcp-response content {action}{when(chance, ANSWER_CONDITIONS)}"


def proxy(chance, number):
    """A frontend with its backend."""
    lines = [f"frontend f{number}", f"    bind 127.0.0.1:@f{number}@" + (" accept-proxy" if maybe(chance, 0.6) else "")]
    # The log identifies a client by its own port, whatever address a header claims.
    lines.append("    log-format '127.0.0.1:%[fc_src_port] = %ci %[dst] %b/%s %ts %rc [%[var(txn.a)]] [%[var(txn.b)]] [%[fc_pp_authority]] [%[fc_pp_unique_id]]'")
    if maybe(chance, 0.7):
        lines.append(f"    tcp-request inspect-delay {chance.choice((20, 60, 150))}ms")
    lines += [f"    {rule(chance)}" for _ in range(chance.choice((0, 1, 1, 2, 3, 4)))]
    lines.append("    unique-id-format u-1")
    if maybe(chance, 0.2):
        lines.append(f"    use_backend other if {{ {chance.choice(CONDITIONS[:12])} }}")
    lines += [f"    default_backend b{number}", f"backend b{number}"]
    if maybe(chance, 0.25):
        lines.append(f"    tcp-request inspect-delay {chance.choice((20, 60))}ms")
        lines += [f"    {rule(chance).replace('connection', 'content').replace('session', 'content').replace('expect-proxy layer4', 'accept')}" for _ in range(chance.randint(1, 2))]
    if maybe(chance, 0.3):
        lines.append(f"    tcp-response inspect-delay {chance.choice((20, 60))}ms")
        lines += [f"    {answer_rule(chance)}" for _ in range(chance.randint(1, 2))]
    lines.append(f"    server one 127.0.0.1:@bytes@ {chance.choice(SERVER_WORDS)}")
    return "\n".join(lines)


def case(chance):
    """Some proxies and a hundred connections."""
    count = 6
    text = """
global
    log 127.0.0.1:@log@ local0
    nbthread 1
    expose-experimental-directives
defaults
    mode tcp
    log global
    timeout connect 300ms
    timeout client 400ms
    timeout server 400ms
backend other
    server s1 127.0.0.1:@bytes@
""" + "\n".join(proxy(chance, number) for number in range(count)) + "\n"
    exchanges = {f"e{number}": (f"f{number % count}", pieces(chance, header(chance) + chance.choice(PAYLOADS) + (chance.choice(PAYLOADS) if maybe(chance, 0.2) else "")))
                 for number in range(90)}
    return Case(text, exchanges, {}, RECORD=False)
