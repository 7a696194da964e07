"""Memory of large maps and ACL files, and its release."""
import os

from lib.program import Program, ask, free_port, request, wait_until

ENTRIES = 200_000


def with_lists(folder, port, keys, networks, setting=""):
    """A configuration with look-ups in a map and in a list of networks."""
    lists = {"large.map": "".join(f"key-{number:07}.example.com value-{number % 1000}\n" for number in range(keys)),
             "large.lst": "".join(f"{number >> 14 & 255}.{number >> 6 & 255}.{number & 63}.0/30\n" for number in range(networks))}
    paths = {name: folder.file(name, content) for name, content in lists.items()}
    text = (f"global\n    nbthread 2\n    stats socket {os.path.join(folder.path, 'cli')} level admin\n    {setting}\n"
            f"defaults\n    mode http\n    timeout connect 2s\n    timeout client 5s\n    timeout server 5s\n"
            f"frontend f\n    bind 127.0.0.1:{port}\n    http-request deny if {{ req.hdr_ip(x) -f {paths['large.lst']} }}\n"
            f"    http-request return status 200 hdr found %[req.hdr(host),map({paths['large.map']},none)]\n")
    return folder.file("lists.cfg", text), paths["large.map"], paths["large.lst"]


def resident(binary, folder, keys, networks, few=0):
    """The resident kilobytes of a program with such lists: the minimum over 1.5 s, or the first figure of at most
    `few`."""
    port = free_port()
    with Program(binary, "-db", "-f", with_lists(folder, port, keys, networks)[0]) as program:
        program.ready(port)
        least = [program.resident_kb()]
        # Memory for reading the files is released soon.
        wait_until(lambda: least.append(program.resident_kb()) or least[-1] <= few, 5 if few else 1.5)
        return min(least)


def test_map_and_acl_entries_take_little_memory(binary, folder):
    """An entry of a map takes at most 160 bytes with its strings, a network of an ACL file 170 (2.6: 290 and 190)."""
    if "haproxy" in os.path.basename(binary):
        return
    rest = resident(binary, folder, 0, 0)
    for what, lists, most in (("entry", (ENTRIES, 0), 160), ("network", (0, ENTRIES), 170)):
        each = (resident(binary, folder, *lists, few=rest + most * ENTRIES // 1024) - rest) * 1024 / ENTRIES
        print(f"       {each:.0f} bytes for each {what}")
        assert each <= most, f"{each:.0f} bytes for each {what}"


def test_cleared_and_replaced_maps_and_acls_return_their_memory(binary, folder):
    """A list that was cleared or replaced leaves less than 6 MB, and lookups go on."""
    rest, port, path = resident(binary, folder, 0, 0), free_port(), os.path.join(folder.path, "cli")
    file, keys, networks = with_lists(folder, port, ENTRIES, ENTRIES)
    with Program(binary, "-db", "-f", file) as program:
        program.ready(port)
        assert program.resident_kb() > rest + 20_000
        assert b"403" in request(port, b"GET / HTTP/1.1\r\nHost: a\r\nX: 0.1.2.3\r\n\r\n").split(b"\r\n")[0]
        assert b"found: value-7\r\n" in request(port, b"GET / HTTP/1.1\r\nHost: key-0000007.example.com\r\n\r\n")
        assert "New version created: 1" in ask(path, f"prepare map {keys}")
        ask(path, f"add map @1 {keys} new one")
        ask(path, f"commit map @1 {keys}")
        assert b"found: one\r\n" in request(port, b"GET / HTTP/1.1\r\nHost: new\r\n\r\n")
        assert b"found: none\r\n" in request(port, b"GET / HTTP/1.1\r\nHost: key-0000007.example.com\r\n\r\n")
        ask(path, f"clear acl {networks}")
        assert b"200" in request(port, b"GET / HTTP/1.1\r\nHost: a\r\nX: 0.1.2.3\r\n\r\n").split(b"\r\n")[0]
        assert wait_until(lambda: program.resident_kb() < rest + 6_000, 10), f"{program.resident_kb()} kB, {rest} kB at rest"


def test_no_memory_trimming_keeps_the_memory_of_cleared_maps(binary, folder):
    """`no-memory-trimming`: a list that was cleared is freed, but the process keeps the memory for itself."""
    rest, port, path = resident(binary, folder, 0, 0), free_port(), os.path.join(folder.path, "cli")
    file, keys, _ = with_lists(folder, port, ENTRIES, 0, "no-memory-trimming")
    with Program(binary, "-db", "-f", file) as program:
        program.ready(port)
        # A program that answers a request has opened all its sockets.
        assert b"found: value-7\r\n" in request(port, b"GET / HTTP/1.1\r\nHost: key-0000007.example.com\r\n\r\n")
        ask(path, f"clear map {keys}")
        assert b"found: none\r\n" in request(port, b"GET / HTTP/1.1\r\nHost: key-0000007.example.com\r\n\r\n")
        assert wait_until(lambda: f"PatternsFreed: {ENTRIES}\n" in ask(path, "show info"), 10), "it is not freed"
        assert not wait_until(lambda: program.resident_kb() < rest + 15_000, 2), f"{program.resident_kb()} kB, {rest} kB at rest"
