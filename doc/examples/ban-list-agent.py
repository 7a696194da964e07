#!/usr/bin/env python3
"""An agent of SPOE that bans addresses: those of a file, and those that send too many requests.

    ban-list-agent.py [--listen 127.0.0.1:12345] [--file /etc/weir/banned] [--limit 100] [--window 10] [--ban 600]

The file has an address or a network in each line; `#` begins a comment. SIGHUP reads it again, SIGTERM ends the agent. The message
`check-client` has the argument `address`. The answer sets `blocked` to true or false, and `reason` to `listed` or `rate`.

It needs Python 3.9 or later, and nothing else. SPOP is described in HAProxy's doc/SPOE.txt, section 3.
"""
import argparse
import asyncio
import collections
import ipaddress
import signal
import sys
import time

HAPROXY_HELLO, HAPROXY_DISCONNECT, NOTIFY, AGENT_HELLO, AGENT_DISCONNECT, ACK = 1, 2, 3, 101, 102, 103
FIN = b"\0\0\0\1"
SET_VAR, TRANSACTION = 1, 2
STRING = b"\x08"
FRAME_SIZE = 4096  # The largest frame of this agent, in bytes. Larger messages are an error on the other side.
MOST = 100_000  # Addresses that are counted, and addresses that are banned. The oldest one makes room.


class Malformed(Exception):
    """Bytes that are not valid SPOP. The arguments: a status code and a text for DISCONNECT."""


class BanList:
    """The addresses of the file, and those that exceed `limit` requests within `window` seconds, for `ban` seconds."""

    def __init__(self, path, limit, window, ban):
        self.path, self.limit, self.window, self.ban = path, limit, window, ban
        self.listed, self.counts, self.until = set(), collections.OrderedDict(), collections.OrderedDict()
        self.load()

    def load(self):
        """Reads the file. A mistake in it raises ValueError and changes nothing."""
        if self.path:
            with open(self.path, encoding="utf-8") as file:
                lines = (line.partition("#")[0].strip() for line in file)
                self.listed = {ipaddress.ip_network(line, strict=False) for line in lines if line}

    def reason(self, address, now):
        """Counts a request. Returns why the address is banned, or None."""
        address = getattr(address, "ipv4_mapped", None) or address
        lengths = {network.prefixlen for network in self.listed if network.version == address.version}
        if any(ipaddress.ip_network((address, length), strict=False) in self.listed for length in lengths):
            return "listed"
        # A client of IPv6 usually has a whole /64.
        key = address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False)
        if self.until.get(key, 0) > now:
            return "rate"
        begin, count = self.counts.pop(key, (now, 0))
        begin, count = (begin, count + 1) if now - begin < self.window else (now, 1)
        remember(self.counts, key, (begin, count))
        if count <= self.limit:
            return None
        remember(self.until, key, now + self.ban)
        return "rate"


def remember(table, key, value):
    table.pop(key, None)
    table[key] = value
    if len(table) > MOST:
        table.popitem(last=False)


class Payload:
    """Reads values in their order."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Malformed(4, "invalid frame received")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self):
        value = self.take(1)[0]
        shift = 4
        while value >= 240 and shift <= 60:
            byte = self.take(1)[0]
            value, shift = value + (byte << shift), shift + 7
            if byte < 128:
                break
        return value

    def text(self):
        return self.take(self.number())

    def value(self):
        kind = self.take(1)[0]
        if kind & 15 in (2, 3, 4, 5):
            return self.number()
        if kind & 15 in (6, 7):
            return ipaddress.ip_address(self.take(4 if kind & 15 == 6 else 16))
        if kind & 15 in (8, 9):
            return self.text()
        return bool(kind & 16) if kind & 15 == 1 else None

    def pairs(self, count=None):
        found = {}
        while self.at < len(self.data) if count is None else count > 0:
            name = self.text()
            found[name] = self.value()
            count = None if count is None else count - 1
        return found


def varint(value):
    if value < 240:
        return bytes([value])
    encoded, value = [value & 255 | 240], (value - 240) >> 4
    while value >= 128:
        encoded.append(value & 255 | 128)
        value = (value - 128) >> 7
    return bytes([*encoded, value])


def string(text):
    return varint(len(text)) + text


def frame(kind, stream, number, payload):
    data = bytes([kind]) + FIN + varint(stream) + varint(number) + payload
    return len(data).to_bytes(4, "big") + data


def disconnect(code, text):
    return frame(AGENT_DISCONNECT, 0, 0, string(b"status-code") + b"\x03" + varint(code) + string(b"message") + STRING + string(text.encode()))


def hello(payload):
    """The answer to HAPROXY-HELLO, and whether it is a health check."""
    items = payload.pairs()
    versions = [version.strip() for version in (items.get(b"supported-versions") or b"").split(b",")]
    if b"2.0" not in versions:
        raise Malformed(8, "unsupported version")
    size = min(items.get(b"max-frame-size") or 0, FRAME_SIZE)
    answer = string(b"version") + STRING + string(b"2.0") + string(b"max-frame-size") + b"\x03" + varint(size)
    return frame(AGENT_HELLO, 0, 0, answer + string(b"capabilities") + STRING + string(b"pipelining")), bool(items.get(b"healthcheck"))


def actions(payload, bans):
    """The actions for the messages of a NOTIFY. A message without an address gets none: rules find `blocked` unset."""
    found = b""
    while payload.at < len(payload.data):
        payload.text()
        address = payload.pairs(payload.take(1)[0]).get(b"address")
        if isinstance(address, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
            reason = bans.reason(address, time.monotonic())
            found += bytes([SET_VAR, 3, TRANSACTION]) + string(b"blocked") + bytes([0x11 if reason else 0x01])
            found += bytes([SET_VAR, 3, TRANSACTION]) + string(b"reason") + STRING + string((reason or "").encode())
    return found


async def converse(reader, writer, bans):
    """One connection: HELLO, then NOTIFY after NOTIFY, until one side ends it."""
    greeted = False
    while True:
        length = int.from_bytes(await reader.readexactly(4), "big")
        if not 7 <= length <= (FRAME_SIZE if greeted else 1 << 16):
            raise Malformed(3, "frame is too big")
        payload = Payload(await reader.readexactly(length))
        kind, flags, stream, number = payload.take(1)[0], payload.take(4), payload.number(), payload.number()
        if flags != FIN:
            raise Malformed(10, "fragmentation not supported")
        if kind == HAPROXY_DISCONNECT:
            return writer.write(disconnect(0, "normal"))
        if kind == HAPROXY_HELLO and not greeted:
            answer, is_check = hello(payload)
            greeted = True
            writer.write(answer)
            if is_check:
                return None
        elif kind == NOTIFY and greeted:
            writer.write(frame(ACK, stream, number, actions(payload, bans)))
        else:
            raise Malformed(4, "invalid frame received")
        # Waits while the other side does not read.
        await writer.drain()


async def serve(reader, writer, bans, open_connections):
    task = asyncio.current_task()
    open_connections[task] = writer
    try:
        await converse(reader, writer, bans)
    except Malformed as why:
        writer.write(disconnect(*why.args))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        del open_connections[task]
        writer.close()


def reload(bans):
    try:
        bans.load()
        print(f"{len(bans.listed)} entries", file=sys.stderr)
    except (OSError, ValueError) as why:
        print(f"the list stays: {why}", file=sys.stderr)


async def main(options):
    bans = BanList(options.file, options.limit, options.window, options.ban)
    open_connections, stop, loop = {}, asyncio.Event(), asyncio.get_running_loop()
    host, _, port = options.listen.rpartition(":")
    server = await asyncio.start_server(lambda reader, writer: serve(reader, writer, bans, open_connections), host, int(port))
    loop.add_signal_handler(signal.SIGHUP, reload, bans)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    server.close()
    # After DISCONNECT the other side opens new connections elsewhere.
    for writer in open_connections.values():
        writer.write(disconnect(0, "normal"))
        writer.close()
    if open_connections:
        await asyncio.wait(open_connections, timeout=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent of SPOE that bans addresses.")
    parser.add_argument("--listen", default="127.0.0.1:12345", help="address and port")
    parser.add_argument("--file", help="addresses and networks to ban")
    parser.add_argument("--limit", type=int, default=100, help="requests of an address within the window")
    parser.add_argument("--window", type=float, default=10, help="seconds")
    parser.add_argument("--ban", type=float, default=600, help="seconds")
    asyncio.run(main(parser.parse_args()))
