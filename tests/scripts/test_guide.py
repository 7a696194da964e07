"""The guide of a first script: its blocks are one configuration and one script."""
import os
import re
import time

from lib.program import ROOT, Program, connects, free_port, run, wait_until
from scripts.test_services import exchange

PAGE = os.path.join(ROOT, "doc", "manual", "src", "lua-first-script.md")


def blocks():
    """The blocks of the page: the configuration, and the parts of the script."""
    found = re.findall(r"^```\n(.*?)^```$", open(PAGE).read(), re.M | re.S)
    return found[0], [block for block in found if block.startswith("core.register")]


def prepared(folder):
    """The port, and the path of the configuration."""
    configuration, parts = blocks()
    port = free_port()
    script = folder.file("first.lua", "\n".join(parts))
    text = configuration.replace("/etc/weir/first.lua", script).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    return port, folder.file("first.cfg", text)


def test_the_first_script_gives_the_answers_of_the_page(folder, binary):
    assert len(blocks()[1]) == 3
    port, path = prepared(folder)
    code, out, errors = run(binary, "-c", "-V", "-f", path)
    assert code == 0 and "Configuration file is valid" in out + errors, out + errors
    with Program(binary, "-db", "-f", path):
        assert wait_until(lambda: connects(port))
        greeting = exchange(port, b"GET /?name=Ada HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert greeting.endswith(f"Hello Ada {time.strftime('%A', time.gmtime())}"), greeting
        sent = exchange(port, b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\n12345")
        assert sent.endswith("You sent 5 bytes to /hello\n"), sent
