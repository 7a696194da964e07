"""Answers of the runtime API, each to commands on objects that no other exchange touches."""
import re

from reference.exchanges import only

# The servers that commands change, one backend for each exchange that needs one.
BACKENDS = 56

CONFIGURATION = """
global
    stats socket ipv4@127.0.0.1:@admin@ level admin
    stats socket ipv4@127.0.0.1:@operator@ level operator
    stats socket ipv4@127.0.0.1:@user@ level user
    nbthread 1
defaults
    mode http
    timeout connect 300ms
    timeout client 300ms
    timeout server 300ms
frontend front
    bind 127.0.0.1:@front@ name first
    acl listed src -f @folder@/src.acl
    acl words hdr(x) -i -f @folder@/words.acl
    use_backend %[path,map_beg(@folder@/paths.map,b0)]
    http-request set-header x %[src,map_ip(@folder@/ips.map)]
    http-request set-header y %[fe_id,map_int(@folder@/ints.map)]
    http-request set-header z %[src,map(@folder@/add.map)]
    http-request set-header z %[src,map(@folder@/del.map)]
    http-request set-header z %[src,map(@folder@/clear.map)]
    http-request set-header z %[src,map(@folder@/version.map)]
    http-request set-header z %[src,map_reg(@folder@/regs.map)]
frontend toggled
    bind 127.0.0.1:@toggled@
    default_backend b0
frontend limited
    bind 127.0.0.1:@limited@
    default_backend b0
""" + "".join(f"""backend b{number}
    balance roundrobin
    server s1 127.0.0.1:9 weight 10 maxconn 30
    server s2 127.0.0.2:9 backup
    server s3 127.0.0.3:9 disabled
""" for number in range(BACKENDS)) + """
backend static
    balance static-rr
    server s1 127.0.0.1:9
backend hashed
    balance source
    server s1 127.0.0.1:9 weight 5
"""

FILES = {
    "src.acl": "10.0.0.0/8\n192.168.0.1\n",
    "words.acl": "one\ntwo words\n",
    "paths.map": "/a b1\n/b b2\n",
    "ips.map": "10.0.0.0/8 ten\n",
    "ints.map": "5 five\n",
    "add.map": "a 1\n",
    "del.map": "a 1\nb 2\na 3\n",
    "clear.map": "a 1\n",
    "version.map": "a 1\nb 2\n",
    "regs.map": "^a(.*)$ x\n",
}

# Commands that change nothing, or only something that other exchanges cannot see: their answers are compared.
ANSWERS = """
nonsense|show|set|show nonsense|set server|set server b0|set server b0/s1|set server b0/s1 nonsense|set server nobody/s1 state ready|set server b0/nobody state ready|set server b0/s1 state|set server b0/s1 state nonsense
set server b0/s1 weight|set server b0/s1 weight x|set server b0/s1 weight 257|set server b0/s1 weight 50000%|set server b0/s1 weight -1|set server b0/s1 health nonsense|set server b0/s1 addr|set server b0/s1 addr nonsense|set server b0/s1 addr 10.0.0.1 port x
set server b0/s1 fqdn x|get weight|get weight b0|get weight b0/s1|get weight b0/nobody|get weight nobody/s1|set weight|set weight b0/s1|set weight b0/s1 x|set maxconn|set maxconn server|set maxconn server b0/s1|set maxconn server b0/s1 x|set maxconn frontend|set maxconn frontend nobody 3|set maxconn frontend front
set maxconn global|set maxconn global x|set maxconn nonsense|set rate-limit|set rate-limit connections|set rate-limit connections global|set rate-limit connections global x|set rate-limit connections nonsense 3|set rate-limit nonsense global 3|set timeout|set timeout cli|set timeout cli x|set timeout cli 60|set timeout nonsense 3
enable|enable server|enable server b0|enable server b0/nobody|enable frontend|enable frontend nobody|enable nonsense|disable|disable server|disable server nobody/s1|disable frontend|disable frontend nobody|shutdown|shutdown frontend nobody|shutdown session|shutdown session 0x1|shutdown session x|shutdown sessions|shutdown sessions server|shutdown sessions server b0|shutdown sessions server b0/s1
add|add map|add acl|add map nonsense a b|add acl nonsense a|add map #999 a b|add acl #x a|del map|del acl|del map nonsense a|del acl nonsense a|clear map|clear acl|clear map nonsense|clear acl nonsense|clear|clear nonsense|clear counters nonsense|get map|get acl|get map nonsense a|get acl nonsense a|set map|set map nonsense a b|prepare map|prepare map nonsense|prepare acl|commit map|commit map @1 nonsense|commit acl
show map nonsense|show acl nonsense|show map #999|get map @folder@/paths.map|get map @folder@/paths.map /a/x|get map @folder@/paths.map /none|get acl @folder@/src.acl 10.1.1.1|get acl @folder@/src.acl 11.1.1.1|get acl @folder@/src.acl|get acl @folder@/words.acl ONE|get map @folder@/ips.map 10.1.1.1|get map @folder@/ips.map nonsense|get map @folder@/ints.map 5|get map @folder@/regs.map abc|add map @folder@/ips.map nonsense x|add map @folder@/ints.map nonsense x|add map @folder@/regs.map ( x|add acl @folder@/src.acl nonsense|set map @folder@/paths.map /none x|del map @folder@/paths.map /none|del acl @folder@/src.acl 1.1.1.1|add map @folder@/paths.map|add map @folder@/paths.map a
show servers state nobody|show servers conn nobody|show backend|show errors x|show cli level|show cli sockets nonsense|show schema nonsense|show env HAPROXY_NOBODY
get var|get var nonsense|get var proc.none|set var|set var proc.x|set var nonsense str(a)|add server|add server b0|add server b0/|add server b0/s1|add server b0/s1 127.0.0.1|add server nobody/s1 127.0.0.1:1|add server b0/s9|add server static/s9 127.0.0.1:1|add server hashed/s9 127.0.0.1:1|add server b0/s9 nonsense:x|add server b0/s9 127.0.0.1:80 nonsense|add server b0/s9 127.0.0.1:80 redir http://x|add server b0/s9 127.0.0.1:80 id 0|add server b0/s*9 127.0.0.1:80|enable dynamic-cookie backend nobody|enable dynamic-cookie backend static|disable dynamic-cookie backend static|set dynamic-cookie-key backend static|set dynamic-cookie-key backend static k|set server b0/s1 agent down|set server b0/s1 agent-addr 1.1.1.1|set server b0/s1 agent-port 3|set server b0/s1 agent-send x|set server b0/s1 check-port 3|set server b0/s1 check-addr 1.1.1.1|del server|del server b0|del server nobody/s1|del server b0/nobody|del server b0/s1|del|del nonsense|abort|expert-mode|expert-mode x|experimental-mode|experimental-mode on|prompt x|user|operator|user;show cli level|operator;show cli level|operator;set maxconn global 1|quit|help nonsense|help set server|  get weight b0/s1  |get weight b0/s1 ; get weight b0/s1|get weight static/s1;;get weight hashed/s1|;|show cli level;
""".replace("\n", "|").strip("|").split("|")

EXCHANGES = {f"answer to {command}": ("admin", [command.replace("@folder@", "%FOLDER%") + "\n", None]) for command in ANSWERS}
for level in ("operator", "user"):
    EXCHANGES |= {f"level {level}: {command}": (level, [command + "\n", None]) for command in (
        "show cli level", "set weight b0/s1 10", "get weight b0/s1", "set maxconn global 10", "disable frontend front", "clear counters", "clear counters all", "add map x y z", "shutdown sessions server b0/s1",
        "set server b0/s1 state ready", "show errors", "expert-mode on", "add server b0/s9 127.0.0.1:1", "operator;show cli level", "set timeout cli 10", "set rate-limit connections global 1",
        "enable server b0/s1", "show servers state b9", "show env HAPROXY_LOCALPEER", "set var proc.a int(1)")}

# Each on its own backend: the answers of the commands, and the resulting state.
CHANGES = """
set weight B/s1 5;get weight B/s1|set weight B/s1 50%;get weight B/s1|set weight B/s1 0;get weight B/s1|set weight B/s1 0%;get weight B/s1|set weight B/s1 300%;get weight B/s1|set weight B/s1 2560%;get weight B/s1|set server B/s1 weight 7;get weight B/s1
set server B/s1 state drain|set server B/s1 state maint|set server B/s1 state maint;set server B/s1 state ready|set server B/s1 state drain;set server B/s1 state maint|set server B/s1 state drain;set server B/s1 state ready|set server B/s3 state ready|disable server B/s1|disable server B/s1;enable server B/s1|enable server B/s3|enable server B/s1
set server B/s1 health down|set server B/s1 health stopping|set server B/s1 health down;set server B/s1 health up|set server B/s1 addr 10.0.0.1|set server B/s1 addr 10.0.0.1 port 80|set server B/s1 addr 127.0.0.1|set server B/s1 addr 127.0.0.1 port 9|set server B/s1 addr 127.0.0.1 port +1|set server B/s1 addr ::1|set server B/s1 addr ::1 port 99|set server B/s1 addr 10.0.0.1 port 70000
set maxconn server B/s1 5|set maxconn server B/s1 0|set server B/s1 state maint;disable server B/s1;enable server B/s1|set weight B/s2 0|set server B/s3 weight 3|set server B/s1 state drain;set weight B/s1 3;set server B/s1 state ready|disable server B/s1;set weight B/s1 7;enable server B/s1|shutdown sessions server B/s1
add server B/s4 127.0.0.4:80|add server B/s4 127.0.0.4:80;add server B/s4 127.0.0.4:80|add server B/s4 127.0.0.4:80 weight 20 maxconn 7;get weight B/s4|add server B/s4 127.0.0.4:80;enable server B/s4|add server B/s4 127.0.0.4:80;del server B/s4|add server B/s4 127.0.0.4:80;enable server B/s4;del server B/s4|disable server B/s2;del server B/s2
disable server B/s1;del server B/s1|add server B/s4 127.0.0.4:80 id 1|add server B/s4 127.0.0.4:80 id 9|add server B/s4 127.0.0.4:80 disabled|add server B/s4 127.0.0.4:80 backup weight 5|disable server B/s1;del server B/s1;add server B/s4 127.0.0.4:80;del server B/s3;add server B/s5 127.0.0.5:80;enable server B/s5
enable health B/s1|disable health B/s1|enable agent B/s1|disable agent B/s1
""".replace("\n", "|").strip("|").split("|")
assert len(CHANGES) < BACKENDS
EXCHANGES |= {f"change {change}": ("admin", [f"{change};show servers state B\n".replace("B/", f"b{number}/").replace("state B\n", f"state b{number}\n"), None])
              for number, change in enumerate(CHANGES, 1)}
# 3.2 changes a server's address after the command returns: the state is queried a moment later.
EXCHANGES |= {f"change {change}": ("admin", [f"prompt\n{change}\n".replace("B/", f"b{number}/"), 0.2, f"show servers state b{number}\n", None])
              for number, change in enumerate(CHANGES, 1) if " addr " in change}

MAP = "%FOLDER%/"
EXCHANGES |= {name: ("admin", [text.replace("M/", MAP) + "\n", None]) for name, text in {
    "map added": "add map M/add.map b 2;add map M/add.map b 3;add map M/add.map a 4;set map M/add.map b 5;get map M/add.map b",
    "map added as a payload": "add map M/regs.map <<\n^b y\n^c two words\n",
    "map deleted": "del map M/del.map a;del map M/del.map a;get map M/del.map b",
    "map cleared": "clear map M/clear.map;show map M/clear.map;get map M/clear.map a",
    "map versions": "prepare map M/version.map;add map @1 M/version.map c 3;get map M/version.map c;show map @1 M/version.map;commit map @1 M/version.map;get map M/version.map c;get map M/version.map a;commit map @9 M/version.map",
    "acl changed": "add acl M/words.acl three;get acl M/words.acl Three;add acl M/words.acl one;del acl M/words.acl one;get acl M/words.acl one;clear acl M/words.acl;show acl M/words.acl",
    "frontend paused": "disable frontend toggled;disable frontend toggled;enable frontend toggled;enable frontend toggled",
    "frontend limited": "set maxconn frontend limited 5;set maxconn frontend limited 0;set maxconn frontend limited x",
    "variables": "experimental-mode on;set var proc.mine int(5);get var proc.mine;set var proc.mine str(abc);get var proc.mine;set var proc.mine fmt %[nbproc]x;get var proc.mine;set var sess.mine int(1)",
    "timeout": "set timeout cli 3;set timeout cli 0;show cli level",
    "lines without a prompt": "show cli level\nshow cli level",
    "escapes": "get map M/paths.map /a\\;b;get map M/paths.map /a\\ b",
}.items()}



def plain(text):
    """Without the parts that differ from version to version and from run to run: the lists of commands, the empty lines
    and the stop at the end of a message, the health of unchecked servers, dates and addresses in memory."""
    lines = [line for line in text.split("\n") if not re.match(r"  \S.*: \w", line)]
    text = "\n".join(line.removesuffix(".") for line in lines).rstrip("\n")
    # Since 3.2 the answer names the word.
    text = re.sub(r"^Unknown command: '[^']*', but", "Unknown command, but", text, flags=re.M | re.I)
    text = re.sub(r"^(\d+ \S+ \d+ \S+ \S+(?: \d+){7}) \d", r"\1 N", text, flags=re.M)
    text = re.sub(r"^(\d+ \S+ \d+ \S+ \S+ \d+ \d+ \d+ \d+) \d+", r"\1 N", text, flags=re.M)
    text = re.sub(r"-(reference|weir)\.cfg", ".cfg", text)
    text = re.sub(r"\[\d\d/\w+/[^]]*\]", "[DATE]", text)
    return re.sub(r"^0x[0-9a-f]+", "0xN", text, flags=re.M)


STRICT = "an invalid number is not taken for 0"
ADDRESS = only("2.6", "since 3.2, only changes are reported, and an error changes nothing")
EMPTY = only("2.6", "since 3.2, an empty command does nothing; it was an unknown one")
LAST = only("2.6", "since 3.2, an empty line ends this answer too")
LEVELS = "since 3.5 only administrators change patterns"
DIFFERENT = {
    "level operator: add map x y z": LEVELS,
    "level user: add map x y z": LEVELS,
    "answer to set maxconn global x": STRICT,
    "answer to set rate-limit connections global x": STRICT,
    "answer to del acl nonsense a": only("2.6", "it is an ACL that is not found"),
    "answer to prompt x": {"2.6": "3.5 has several prompts", "3.2": "a timed prompt shows the uptime"},
    "answer to get weight static/s1;;get weight hashed/s1": EMPTY,
    "answer to ;": EMPTY,
    "answer to set server b0/s1 addr nonsense": ADDRESS,
    "answer to set server b0/s1 addr 10.0.0.1 port x": ADDRESS,
    "change set server B/s1 addr 127.0.0.1": ADDRESS,
    "change set server B/s1 addr 127.0.0.1 port 9": ADDRESS,
    "change set server B/s1 addr 127.0.0.1 port +1": "only an actual change of the port is reported",
    "change add server B/s4 127.0.0.4:80;del server B/s4": LAST,
    "change add server B/s4 127.0.0.4:80;enable server B/s4;del server B/s4": LAST,
    "change disable server B/s2;del server B/s2": LAST,
    "change disable server B/s1;del server B/s1": LAST,
    "change disable server B/s1;del server B/s1;add server B/s4 127.0.0.4:80;del server B/s3;add server B/s5 127.0.0.5:80;enable server B/s5": LAST,
    "variables": LAST,
    "answer to show cli level;": EMPTY,
    "lines without a prompt": only("2.6", "since 3.2, one line is answered unless there is a prompt"),
    "change set server B/s1 addr 10.0.0.1 port 70000": "a port has 16 bits",
    "frontend limited": "0 is a limit as well, an invalid number is not",
}
