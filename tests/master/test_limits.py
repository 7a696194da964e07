"""Descriptor limits, starts within them, and settings beyond them."""
import os
import re
import resource

from lib.program import ANSWERING, Program, answering, ask, connects, free_port, request, run, wait_until
from master.support import IS_ROOT

# (soft, hard) limit, lines of `global`, listening sockets, whether it starts; 2.6 and 3.2 agree on every line without a
# reason.
TABLE = [
    ((200, 200), "maxconn 80", 1, True, ""),
    ((200, 200), "maxconn 80\n    nbthread 16", 1, False, ""),
    ((200, 200), "maxconn 60\n    nbthread 16", 1, True, ""),
    ((200, 200), "maxconn 86", 1, True, ""),
    ((200, 200), "maxconn 87", 1, False, ""),
    ((200, 200), "maxconn 80", 13, True, ""),
    ((200, 200), "maxconn 80", 14, False, ""),
    ((200, 1000), "maxconn 400", 1, True, ""),
    ((200, 1000), "maxconn 600", 1, False, ""),
    ((200, 200), "maxconn 150\n    no strict-limits", 1, True, ""),
    ((200, 1000), "maxconn 80\n    ulimit-n 500", 1, True, ""),
    ((200, 1000), "maxconn 80\n    ulimit-n 2000", 1, False, ""),
    ((200, 1000), "maxconn 80\n    ulimit-n 100", 1, True, ""),
    ((200, 1000), "maxconn 400\n    fd-hard-limit 300", 1, False, ""),
    ((1000, 1000), "maxconn 80\n    fd-hard-limit 100", 1, False, ""),
    ((200, 1000), "fd-hard-limit 300", 1, True, ""),
    ((200, 1000), "", 1, True, ""),
    ((200, 200), "", 1, True, "the references insist on 100 connections"),
    ((200, 1000), "ulimit-n 500", 1, True, "the references count what the hard limit allows, and refuse it"),
]


def test_weir_starts_under_the_same_descriptor_limits_as_haproxy(binary, folder):
    os.chmod(folder.path, 0o777)
    for number, ((soft, hard), words, sockets, starts, _) in enumerate(TABLE):
        port, cli = free_port(), os.path.join(folder.path, f"cli{number}")
        threads = "" if "nbthread" in words else "nbthread 2"
        binds = "\n    bind ".join(f"127.0.0.1:{free_port() if more else port}" for more in range(sockets))
        config = answering(folder, port, bind=binds, extra=f"stats socket {cli} level admin\n    {threads}\n    {words}")
        command = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"] if IS_ROOT else []
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with Program(*command, binary, "-db", "-f", config, preexec_fn=limit) as program:
            ended = lambda: program.process.poll() is not None
            assert wait_until(lambda: ended() or connects(port) and os.path.exists(cli)), (soft, hard, words)
            assert ended() != starts, (soft, hard, words, sockets)
            if starts:
                assert request(port).startswith(b"HTTP/1.1 200") and "Maxconn: " in ask(cli, "show info")
                with open(f"/proc/{program.pid}/limits") as limits:
                    now = next(line.split()[3:5] for line in limits if line.startswith("Max open files"))
                assert int(now[0]) >= soft and int(now[1]) == hard, (now, soft, hard, words)
            else:
                assert program.status() == 1 and "Cannot raise FD limit to " in program.process.stdout.read()


# An accepted setting that cannot be satisfied is an error with its line, or an error of the start: never a panic.
SIZES = ["ring r\n    size 9223372036854775807", "ring r\n    size 18446744073709551615", "ring r\n    size 1000000g",
         "global\n    tune.maxpollevents 1000001", "global\n    tune.maxpollevents 2147483647",
         "global\n    tune.bufsize 268435441",
         "global\n    maxconn 2147483647", "global\n    maxpipes 2147483647", "global\n    stats maxconn 2147483647",
         "global\n    ulimit-n 2147483647"]
# The setting that requires the descriptors is named with its number.
ASKS = re.compile(r"(?<!\.)\b((?:stats )?max\w+|ulimit-n) \d{10}")


def test_a_size_beyond_the_limits_of_the_machine_is_an_error(binary, folder):
    rings = [f"{size}\n    backing-file {folder.path}/ring" for size in SIZES[:3]]
    for text in SIZES + rings:
        config = folder.file("a.cfg", text + "\n" + ANSWERING.format(bind=f"127.0.0.1:{free_port()}", frontend="", text="x", extra=""))
        status, _, said = run(binary, "-db", "-f", config)
        assert status == 1 and "[ALERT]" in said and "panic" not in said, (text, status, said)
        asked = ASKS.search(text)
        assert f"'{asked[0]}' " in said and "[weir.main()] Cannot raise FD limit" in said if asked else "a.cfg:" in said, (text, said)
        assert os.listdir(folder.path) == ["a.cfg"], (text, os.listdir(folder.path))


def test_with_no_strict_limits_unreachable_limits_do_not_prevent_the_start(binary, folder):
    for words in ("maxconn 2147483647", "maxpipes 2147483647", "stats maxconn 2147483647", "ulimit-n 2147483647",
                  "maxconn 2147483647\n    maxpipes 2147483647\n    stats maxconn 2147483647", "tune.maxpollevents 1000000"):
        port = free_port()
        with Program(binary, "-db", "-f", answering(folder, port, extra=f"no strict-limits\n    {words}")) as program:
            program.ready(port)
            assert request(port).startswith(b"HTTP/1.1 200"), words
