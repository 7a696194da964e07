"""`CertCache.set`: certificates that scripts replace while traffic runs."""
import re
import socket
import ssl
import threading

import pytest

from lib.program import free_port, wait_until
from lib.tls import Authority

RETURN = "http-request return status 200 content-type text/plain lf-string "
UNKNOWN = "Can't replace a certificate which is not referenced by the configuration!"
SLURP = """
local function slurp(path) local file = io.open(path) local text = file:read("a") file:close() return text end
local function set(certificate) local done, why = pcall(CertCache.set, certificate) return done and "done" or why end
"""


class Certificates:
    """A used certificate, and others beside it as files of scripts."""

    def __init__(self, world):
        self.authority = Authority(world.folder)
        self.used, self.two, self.three = (self.authority.issue(f"{name}.example") for name in ("one", "two", "three"))
        self.tls = f"bind 127.0.0.1:{{}} ssl crt {self.used}"

    def field(self, path, kind):
        """A text of Lua with the certificate or the key of a file."""
        pattern = r"-----BEGIN CERTIFICATE.*?END CERTIFICATE-----\n" if kind == "crt" else r"-----BEGIN [A-Z ]*PRIVATE KEY.*?PRIVATE KEY-----\n"
        return f"[[{''.join(re.findall(pattern, open(path).read(), re.S))}]]"


def shown(port, authority):
    """The common name of the certificate of a new connection."""
    context = ssl.create_default_context(cafile=authority.certificate)
    context.check_hostname = False
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 8)) as connection:
        return dict(pair[0] for pair in connection.getpeercert()["subject"])["commonName"]


@pytest.fixture
def certificates(world):
    return Certificates(world)


def secured(world, certificates, script, rules):
    """Starts a script with a second listener, which encrypts. Returns its port."""
    port = free_port()
    world.serve(SLURP + script, f"{certificates.tls.format(port)}\n    {rules}")
    return port


def test_a_task_an_action_and_a_service_replace_certificates(world, certificates):
    port = secured(world, certificates, f"""
local used, two, three = "{certificates.used}", slurp("{certificates.two}"), slurp("{certificates.three}")
core.register_action("two", {{"http-req"}}, function(txn) txn:set_var("txn.said", set{{filename = used, crt = two}}) end)
core.register_service("three", "http", function(applet)
    local said = set{{filename = used, crt = {certificates.field(certificates.three, "crt")}, key = {certificates.field(certificates.three, "key")}}}
    applet:start_response()
    applet:send(said)
end)
core.register_action("later", {{"http-req"}}, function(txn)
    core.register_task(function() core.msleep(20) set{{filename = used, crt = slurp(used)}} end)
end)""", f"""http-request use-service lua.three if {{ path /three }}
    http-request lua.two if {{ path /two }}
    http-request lua.later if {{ path /later }}
    {RETURN}"%[var(txn.said)]" """)
    assert shown(port, certificates.authority) == "one.example"
    if world.haproxy:
        pytest.skip("HAProxy 3.2 refuses the field crt, which the manual has")
    assert world.ask("/two").endswith("done")
    assert shown(port, certificates.authority) == "two.example"
    assert "done" in world.ask("/three")
    assert shown(port, certificates.authority) == "three.example"
    world.ask("/later")
    assert wait_until(lambda: shown(port, certificates.authority) == "one.example")


def test_errors_change_nothing(world, certificates):
    script = f"""
local used, two = "{certificates.used}", slurp("{certificates.two}")
local key = {certificates.field(certificates.three, "key")}
core.register_action("try", {{"http-req"}}, function(txn)
    local said = {{}}
    for _, bad in ipairs{{{{}}, {{crt = two}}, {{filename = 5, crt = two}}, {{filename = "none.pem", crt = two}}, {{filename = used, what = "x"}}, {{filename = used, crt = "junk"}},
                         {{filename = used, key = key}}, {{filename = used, crt = two, key = key}}, {{filename = used, crt = two, ocsp = "###"}},
                         {{filename = used, crt = two, issuer = "junk"}}, {{filename = used, crt = {{}}}}, {{two, filename = used}}}} do
        said[#said + 1] = set(bad)
    end
    said[#said + 1] = set("x")
    txn:set_var("txn.said", table.concat(said, "|"):gsub("\\n", " "))
end)
core.register_fetches("fetch", function(txn) return set{{filename = used, crt = two}} end)
core.register_converters("convert", function(text) return set{{filename = used, crt = two}} end)"""
    port = secured(world, certificates, script, f"""http-request lua.try if {{ path /try }}
    {RETURN}"%[var(txn.said)]|%[lua.fetch]|%[path,lua.convert]" """)
    if world.haproxy:
        pytest.skip("HAProxy 3.2 keeps its lock after some of these errors")
    said = world.ask("/try").partition("\r\n\r\n")[2].split("|")
    expected = ["No filename specified!", "No filename specified!", "No filename specified!", UNKNOWN, "Unsupported field 'what'", "no start line", "does not belong", "does not belong",
                "base64", "no start line", "Field 'crt' must be a string", "Unsupported field '1'", "'CertCache.set' needs a table as argument",
                "Cannot use CertCache.set from a non-yield capable runtime context", "Cannot use CertCache.set from a non-yield capable runtime context"]
    assert len(said) == len(expected) and all(part in text for part, text in zip(expected, said)), said
    assert shown(port, certificates.authority) == "one.example"


def test_certificates_are_replaced_before_the_process_serves(world, certificates):
    port = secured(world, certificates, f"""
local used, two = "{certificates.used}", slurp("{certificates.two}")
said = set{{filename = used, crt = two}}
core.register_init(function() said = said .. "|" .. set{{filename = used, crt = {certificates.field(certificates.two, "crt")}, key = {certificates.field(certificates.two, "key")}}} end)
core.register_fetches("said", function() return said end)""", f'{RETURN}"%[lua.said]"')
    if world.haproxy:
        pytest.skip("HAProxy 3.2 refuses the field crt, which the manual has")
    # No certificate has been loaded while the file of the script is.
    assert world.ask().endswith(f"{UNKNOWN}|done")
    assert shown(port, certificates.authority) == "two.example"


def test_traffic_goes_on_while_certificates_are_replaced(world, certificates):
    port = secured(world, certificates, f"""
local used, one, two = "{certificates.used}", slurp("{certificates.used}"), slurp("{certificates.two}")
core.register_action("turn", {{"http-req"}}, function(txn)
    for i = 1, 100 do
        CertCache.set{{filename = used, crt = i % 2 == 1 and two or one}}
        core.yield()
    end
    txn:set_var("txn.said", "turned")
end)""", f'http-request lua.turn if {{ path /turn }}\n    {RETURN}"%[var(txn.said)]"')
    if world.haproxy:
        pytest.skip("HAProxy 3.2 refuses the field crt, which the manual has")
    answers = []
    turning = threading.Thread(target=lambda: answers.append(world.ask("/turn", seconds=60)))
    turning.start()
    seen = set()
    while turning.is_alive() or len(seen) < 1:
        # A handshake has one of both, never a mixture: the signature is verified.
        seen.add(shown(port, certificates.authority))
    turning.join()
    assert answers[0].endswith("turned") and seen <= {"one.example", "two.example"}
    assert shown(port, certificates.authority) == "one.example"
