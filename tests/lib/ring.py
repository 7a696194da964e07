"""A reader of ring files, written from the layout alone and not from the program: `process.py` checks files with it.

Size, header length, then tail and head (at 64 and 128 in the aligned layout), then the area; a message is a tag, a length
and its bytes, and a last tag ends them. See doc/design/rings.md.
"""
import struct

BUSY = 255


def length_at(area, at):
    """A length, and the size of its encoding."""
    value = area[at % len(area)]
    if value < 240:
        return value, 1
    shift = 4
    for count in range(1, 10):
        byte = area[(at + count) % len(area)]
        value += byte << shift
        if byte < 128:
            return value, count + 1
        shift += 7
    raise ValueError("a length without end")


def messages(path):
    """The complete messages of a file, oldest first."""
    with open(path, "rb") as file:
        data = file.read()
    size, header = struct.unpack_from("QQ", data, 0)
    assert header == 192 and header + size == len(data), (size, header, len(data))
    (tail,), (head,) = struct.unpack_from("Q", data, 64), struct.unpack_from("Q", data, 128)
    tail &= (1 << 63) - 1
    area, at, found = data[header:], head, []
    assert head < size and tail < size, (head, tail, size)
    while (at + 1) % size != tail:
        length, count = length_at(area, at + 1)
        start = at + 1 + count
        if area[at % size] != BUSY:
            found.append(bytes(area[(start + index) % size] for index in range(length)))
        at = (start + length) % size
    return found
