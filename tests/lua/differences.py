"""Rows where weir deliberately differs from HAProxy 3.2, and rows that HAProxy itself does not repeat."""

# The row's key, what weir does (the lines of the observation), and the reason.
DIFFERENCES = {}

# Rows with an observation that differs from run to run with HAProxy, each with its reason. They run, but are not compared with the record.
UNSTABLE = {
    "sockets: receive: timeout with a part": "the script is resumed late or never",
    "sockets: receive: after a timeout": "as above",
    "sockets: settimeout(0), then receive": "nothing may have arrived yet",
    "channel: send: more than a buffer to the client": "the number of bytes depends on the client",
    "core: coroutine.yield outside a coroutine": "the script is resumed only by another event of the stream",
}
