"""A receiver of datagrams."""
import socket

import pytest


@pytest.fixture
def heard():
    """A UDP socket that receives the messages of weir."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        yield receiver
