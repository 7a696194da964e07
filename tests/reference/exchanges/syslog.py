"""Syslog: the output of a log-forward section for messages in every format. The comparison leaves out today's dates."""
from reference.exchanges import only

# 2.6 lacks `option host`: it keeps the host of the message.
SECTION = """
log-forward f
    dgram-bind 127.0.0.1:@datagrams@
    bind 127.0.0.1:@stream@
    timeout client 5s
"""
KEEP = "    option host keep\n"
FORMATS = ("", "local", "rfc3164", "rfc5424", "priority", "short", "timed", "iso", "raw")
# Settings of a target besides its format.
TARGETS = [f"{'format ' + name if name else ''} local3" for name in FORMATS]
TARGETS += ["local3 notice", "local3 debug err", "format rfc5424 local3 notice err", "len 80 format rfc3164 local3", "sample 1:1 local3"]

ISO = "2026-11-20T13:05:05.007181+00:00"
MESSAGES = {
    # RFC 3164.
    "3164": "<134>Nov 20 13:05:05 host prog[42]: text",
    "3164 day of one digit": "<134>Nov  5 01:02:03 host prog[42]: text",
    "3164 day with a zero": "<134>Nov 05 01:02:03 host prog[42]: text",
    "3164 no process": "<134>Nov 20 13:05:05 host prog: text",
    "3164 no program": "<134>Nov 20 13:05:05 host some text",
    "3164 no colon": "<134>Nov 20 13:05:05 host prog[42] text",
    "3164 no text": "<134>Nov 20 13:05:05 host prog: ",
    "3164 no text, no space": "<134>Nov 20 13:05:05 host prog[42]:",
    "3164 no space after the colon": "<134>Nov 20 13:05:05 host prog[42]:text",
    "3164 host alone": "<134>Nov 20 13:05:05 host ",
    "3164 host that ends it": "<134>Nov 20 13:05:05 host",
    "3164 date alone": "<134>Nov 20 13:05:05",
    "3164 date and space": "<134>Nov 20 13:05:05 ",
    "3164 no host": "<134>Nov 20 13:05:05 prog[42]: text",
    "3164 IPv6 host": "<134>Nov 20 13:05:05 ::1 prog[x1]: text",
    "3164 two spaces in the text": "<134>Nov 20 13:05:05 host prog[42]:  text",
    "3164 two spaces before the program": "<134>Nov 20 13:05:05 host  prog[42]: text",
    "3164 two spaces before the host": "<134>Nov 20 13:05:05  host prog[42]: text",
    "3164 space in the process": "<134>Nov 20 13:05:05 host prog[4 2]: text",
    "3164 program with a slash": "<134>Nov 20 13:05:05 host a/b: text",
    "3164 lower case month": "<134>nov 20 13:05:05 host prog[42]: text",
    "3164 no month": "<134>Xyz 20 13:05:05 host prog[42]: text",
    "3164 year before": "<134>2026 Nov 20 13:05:05 host prog[42]: text",
    "3164 year inside": "<134>Nov 20 2026 13:05:05 host prog[42]: text",
    "3164 milliseconds": "<134>Nov 20 13:05:05.123 host prog[42]: text",
    "3164 without priority": "Nov 20 13:05:05 host prog[42]: text",
    "3164 empty process": "<134>Nov 20 13:05:05 host prog[]: text",
    "3164 process without end": "<134>Nov 20 13:05:05 host prog[42: text",
    "3164 process without program": "<134>Nov 20 13:05:05 host [42]: text",
    "3164 day that cannot be": "<134>Nov 99 99:99:99 host prog[42]: text",
    # RFC 5424.
    "5424": f"<134>1 {ISO} host prog 42 ID47 [ex@1 a=\"b\"] text",
    "5424 two elements": f"<134>1 {ISO} host prog 42 ID47 [ex@1 a=\"b\"][ex@2 c=\"d\\]e\"] text",
    "5424 no date": "<134>1 - host prog 42 - - text",
    "5424 no host": f"<134>1 {ISO} - prog - - - text",
    "5424 host alone": f"<134>1 {ISO} host - - - - text",
    "5424 process alone": f"<134>1 {ISO} - - 42 - - text",
    "5424 identifier alone": f"<134>1 {ISO} - - - ID1 - text",
    "5424 data alone": f"<134>1 {ISO} - - - - [a@1 b=\"c\"] text",
    "5424 date alone": f"<134>1 {ISO} - - - - - text",
    "5424 byte order mark": f"<134>1 {ISO} host prog 42 - - \xef\xbb\xbftext",
    "5424 two spaces in the text": f"<134>1 {ISO} host prog 42 - -  text",
    "5424 other zone": "<134>1 2026-11-20T13:05:05+02:00 host prog 42 - - text",
    "5424 short fraction": "<134>1 2026-11-20T13:05:05.1Z host prog 42 - - text",
    "5424 version 2": f"<134>2 {ISO} host prog 42 - - text",
    "5424 without priority": f"1 {ISO} host prog 42 - - text",
    "5424 no text": f"<134>1 {ISO} host prog 42 - -",
    "5424 breaks off after the host": f"<134>1 {ISO} host",
    "5424 breaks off after the date": f"<134>1 {ISO}",
    "5424 data without end": f"<134>1 {ISO} host prog 42 - [a@1 b=\"c text",
    "5424 date that is none": "<134>1 bad host prog 42 - - text",
    "5424 date that cannot be": "<134>1 2026-13-40T99:99:99Z host prog 42 - - text",
    # Neither.
    "priority": "<134>text",
    "priority alone": "<134>",
    "level alone": "<6>text",
    "every level": "<128>text",
    "error": "<131>Nov 20 13:05:05 host prog[42]: text",
    "largest priority": "<191>text",
    "larger priority": "<192>text",
    "three digits": "<999>text",
    "no digits": "<>text",
    "four digits": "<1234>text",
    "a zero in front": "<0134>text",
    "letters": "<abc>text",
    "a space in front": "< 134>text",
    "a space behind": "<134> text",
    "nothing but text": "no header at all",
    "nothing": "",
    "a newline": "\n",
    "newline at the end": "<134>text\n",
    "newlines at the end": "<134>text\n\n",
    "newline inside": "<134>one\ntwo",
    "carriage return": "<134>text\r\n",
    "zero byte": "<134>one\0two",
    "ISO date": "<1>2026-11-20T13:05:05+00:00 text",
    "longer than a line": "<134>Nov 20 13:05:05 host prog[42]: " + "y" * 2000,
}
STREAMS = {
    "lines": "<134>one\n<134>two\n",
    "lines with carriage returns": "<134>one\r\n<134>two\r\n",
    "line without end": "<134>one\n<134>two",
    "counted": "8 <134>abc8 <134>def",
    "counted and lines": "8 <134>abc<134>line\n8 <134>def",
    "counted with newlines inside": "10 <134>a\nbc\n8 <134>def",
    "counted without header": "6 header<134>next\n",
    "counted blank": "1  <134>next\n",
    "count that lies": "20 <134>short\n",
    "count that lies much": "99999999 <134>short\n",
    "count of zero": "0 <134>x\n",
    "count with a zero in front": "08 <134>abc<134>x\n",
    "count without space": "5x<134>abc\n<134>x\n",
    "garbage": "garbage\n<134>after\n",
    "garbage after a message": "<134>first\ngarbage\n<134>after\n",
    "space in front": " <134>x\n",
    "zero bytes as ends": "<134>one\0<134>two\0",
    "counted and a newline": "8 <134>abc\n8 <134>def\n",
    "empty lines": "<134>one\n\n\n<134>two\n",
    "long line": "<134>" + "x" * 12000 + "\n<134>next\n",
    "line longer than a buffer": "<134>" + "x" * 20000 + "\n<134>next\n",
    "count longer than a buffer": "20005 <134>" + "x" * 20000 + "<134>next\n",
}
EXCHANGES = {f"datagram {name}": ("datagrams", text) for name, text in MESSAGES.items()}
EXCHANGES |= {f"stream {name}": ("stream", text) for name, text in STREAMS.items()}

CUT = "the reference cuts bytes off the end of a message with an incomplete RFC 5424 header; weir loses no byte"
KEPT = "in the manual, the format is kept; the reference changes it without a host"
TEXT = "bytes outside a valid header are text, unchanged"
ENDS = "line ends between messages are nothing; the reference closes the connection"
DIFFERENT = {f"datagram 5424 {name}": CUT for name in (
    "no text", "breaks off after the host", "breaks off after the date", "data without end", "date that is none")}
DIFFERENT |= {f"datagram 5424 {name}": KEPT for name in ("no host", "process alone", "identifier alone", "data alone", "date alone")}
DIFFERENT |= {f"datagram {name}": TEXT for name in (
    "no digits", "four digits", "a zero in front", "5424 date that cannot be", "3164 day that cannot be", "3164 empty process",
    "3164 process without end", "3164 process without program")}
EMPTY = only("3.2", "it drops messages without text, against the manual")
DIFFERENT |= {f"datagram {name}": EMPTY for name in ("3164 no text", "3164 host alone", "priority alone", "nothing")}
LENGTH = only("2.6", "since 3.2, the newline is part of the length")
DIFFERENT |= {name: LENGTH for name in ("datagram 5424 version 2", "datagram 5424 without priority", "datagram longer than a line", "stream long line")}
DIFFERENT |= {f"stream {name}": ENDS for name in ("counted and a newline", "empty lines")}
