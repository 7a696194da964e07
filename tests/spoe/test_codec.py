"""The codec of the scripted agent: it must not agree with a wrong program by a fault of its own."""
import ipaddress

import pytest

from lib.spop import ACK, Frame, Malformed, Reader, Value, pairs, set_var, typed, unset_var, varint


@pytest.mark.parametrize("number, encoded", [
    (0, "00"), (239, "ef"), (240, "f0 00"), (241, "f1 00"), (256, "f0 01"), (2287, "ff 7f"), (2288, "f0 80 00"), (264431, "ff ff 7f"),
    (264432, "f0 80 80 00"), (16380, "fc f0 06"), (-5, "fb f0 fe fe fe fe fe fe fe 0e"), (2**64 - 1, "ff f0 fe fe fe fe fe fe fe 0e"),
])
def test_numbers(number, encoded):
    assert varint(number) == bytes.fromhex(encoded)
    assert Reader(varint(number)).varint() == number % 2**64


@pytest.mark.parametrize("value", [
    Value("null", None), Value("bool", True), Value("bool", False), Value("int32", -7), Value("uint32", 2**32 - 1), Value("int64", -2**63),
    Value("uint64", 2**64 - 1), Value("ipv4", ipaddress.IPv4Address("1.2.3.4")), Value("ipv6", ipaddress.IPv6Address("::1")), Value("string", "a"),
    Value("binary", b"\0\xff"), Value("string", "x" * 5000),
])
def test_values(value):
    assert Reader(typed(value)).typed() == value


def test_frames():
    frame = Frame(ACK, set_var("sess", "a", 1) + unset_var("res", "b"), stream=5, frame=300)
    encoded = frame.encode()
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    again = Frame.decode(encoded[4:])
    assert (again.kind, again.stream, again.frame, again.flags) == (ACK, 5, 300, 1)
    assert again.actions == [("set-var", "sess", "a", Value("int64", 1)), ("unset-var", "res", "b")]


def test_every_prefix_is_malformed():
    data = pairs({"version": "2.0", "max-frame-size": Value("uint32", 16380)})
    for end in range(1, len(data)):
        # The end of the first pair is valid.
        if end != len(pairs({"version": "2.0"})):
            with pytest.raises(Malformed):
                Reader(data[:end]).pairs()
