"""One keyword on one line: the verdicts of both programs on its arguments, number by number, unit by unit, place by
place.

Each line has a configuration of its own. A difference in the exit status, or in whether there is a warning, is a finding,
unless `MEANT` has its reason. The reference is HAProxy 3.2 or later: 2.6 knows too little of the language.
"""
import collections
import concurrent.futures
import os
import re

from lib.program import Folder, run

# Continuations of first words that mean nothing alone.
SECONDS = {
    "balance": "roundrobin static-rr leastconn first source uri url_param hdr(a) random random(2) hash rdp-cookie rdp-cookie(a) log-hash sticky".split(),
    "capture": ["request header a len", "response header a len", "cookie a len", "cookie", "request header"],
    "declare": ["capture request len", "capture response len"],
    "hash-type": ["map-based", "consistent", "consistent sdbm", "map-based djb2 avalanche", "consistent crc32", "consistent none"],
    "log": ["global", "127.0.0.1", "127.0.0.1 local0", "127.0.0.1 len", "127.0.0.1 len 100 local0", "127.0.0.1 format", "127.0.0.1 format raw local0 info notice",
            "127.0.0.1 sample", "127.0.0.1 sample 1:2 local0", "stdout format raw local0", "ring@buf local0"],
    "monitor": ["fail", "fail if TRUE"],
    "profiling.tasks": [""],
    "rate-limit": ["sessions"],
    "redirect": ["location", "prefix", "scheme", "location /x code", "location /x if TRUE", "prefix /x drop-query", "prefix /x set-cookie", "scheme https clear-cookie"],
    "stats": ["enable", "admin", "admin if", "auth", "hide-version", "realm", "refresh", "scope", "show-desc", "show-legends", "show-modules", "show-node", "uri",
              "http-request", "http-request allow", "http-request auth realm"],
    "tcp-request": ["inspect-delay", "connection accept", "content accept", "session accept", "connection set-src", "content set-nice", "content set-log-level",
                    "content set-var(txn.a)", "content set-priority-class", "content set-priority-offset", "content capture src len", "content set-tos", "content set-mark"],
    "tcp-response": ["inspect-delay", "content accept", "content close", "content set-nice"],
    "timeout": "client client-fin client-hs connect http-keep-alive http-request queue server server-fin tarpit tunnel".split(),
    "http-request": ["allow", "deny", "deny deny_status", "deny status 403", "tarpit", "tarpit deny_status", "auth", "auth realm", "redirect location", "redirect location /x code",
                     "return", "return status", "return status 200 content-type", "return status 200 content-type text/plain string", "return status 200 content-type text/plain lf-string",
                     "return status 200 errorfile", "set-header", "set-header a", "add-header a", "del-header", "del-header a -m", "replace-header a", "replace-value a b",
                     "replace-path a", "replace-pathq a", "replace-uri a", "set-path", "set-pathq", "set-query", "set-uri", "set-method", "set-log-level", "set-nice", "set-tos", "set-mark",
                     "set-var(txn.a)", "set-var-fmt(txn.a)", "unset-var(txn.a)", "unset-var(txn.a) x", "set-src", "set-src-port", "set-dst", "set-dst-port", "set-timeout server",
                     "set-timeout client", "set-timeout tunnel", "set-retries", "set-priority-class", "set-priority-offset", "capture path len", "capture path id", "capture path",
                     "disable-l7-retry", "do-log", "early-hint a", "normalize-uri", "normalize-uri path-strip-dot", "normalize-uri percent-to-uppercase",
                     "normalize-uri path-strip-dotdot", "normalize-uri fragment-strip", "normalize-uri query-sort-by-name", "pause", "reject", "silent-drop", "silent-drop rst-ttl",
                     "strict-mode", "wait-for-body", "wait-for-body time", "wait-for-body time 1s at-least", "set-map(a)", "del-map(a)", "add-acl(a)", "del-acl(a)", "set-fc-mark", "set-bc-tos"],
    "http-response": ["allow", "deny", "deny status", "return status", "set-header a", "add-header", "del-header", "replace-header a b", "replace-value a", "set-status", "set-status 200 reason",
                      "set-log-level", "set-nice", "set-var(res.a)", "unset-var(res.a)", "capture status len", "capture status id", "pause", "redirect location", "wait-for-body time",
                      "set-timeout tunnel", "silent-drop", "strict-mode", "do-log"],
    "http-after-response": ["allow", "set-header a", "add-header a", "del-header", "replace-header a b", "replace-value a b", "set-status", "set-log-level", "set-var(res.a)", "capture status id",
                            "strict-mode", "do-log"],
    "acl": ["a", "a path", "a path -i", "a path -m", "a path -m len", "a path_len", "a path_reg", "a hdr_cnt(a)", "a src", "a dst_port", "a method", "a always_true", "a path -f", "a path -u", "a nonsense"],
    "cookie": ["a", "a insert", "a insert maxidle", "a insert maxlife", "a insert domain", "a insert attr", "a prefix", "a rewrite", "a insert dynamic", "a insert indirect"],
    "http-error": ["status", "status 404", "status 404 content-type", "status 404 content-type text/plain string", "status 404 errorfile"],
    "errorloc": ["404"], "errorloc302": ["404"], "errorloc303": ["404"], "errorfile": ["404"], "errorfiles": ["", "e"],
    "option": "abortonclose accept-invalid-http-request allbackups checkcache clitcpka contstats dontlog-normal dontlognull forwarded forwardfor http-buffer-request "
              "http-ignore-probes http-keep-alive http-no-delay http-pretend-keepalive http-restrict-req-hdr-names http-server-close http-use-proxy-header httpclose httplog "
              "idle-close-on-response independent-streams log-separate-errors logasap nolinger originalto persist prefer-last-server redispatch socket-stats splice-auto "
              "splice-request splice-response srvtcpka tcp-smart-accept tcp-smart-connect tcpka tcplog transparent http-drop-request-trailers http-drop-response-trailers "
              "accept-unsafe-violations-in-http-request h1-case-adjust-bogus-client".split()
              + ["forwardfor header", "forwardfor except", "forwardfor if-none", "originalto except", "httplog clf", "tcplog clf", "forwarded proto", "forwarded by", "forwarded for-expr",
                 "http-restrict-req-hdr-names reject", "redispatch -1"],
    "persist": ["rdp-cookie", "rdp-cookie(a)"],
    "force-persist": ["if", "if TRUE"], "ignore-persist": ["unless", "if TRUE"],
    "source": ["127.0.0.1", "127.0.0.1 usesrc", "127.0.0.1 interface", "127.0.0.1 usesrc clientip", "0.0.0.0 usesrc hdr_ip(a)"],
    "retry-on": ["none", "503", "all-retryable-errors"],
    "server": ["s1", "s1 127.0.0.1", "s1 127.0.0.1:1", "s1 127.0.0.1:+1", "s1 127.0.0.1:-1", "s1 :80", "s1 *:80", "s1 unix@/x", "s1 fd@1", "s1 127.0.0.1:1-5", "s1 [::1]:80", "s1 ::1:80"],
    "server-template": ["a", "a 1-3", "a 1-3 127.0.0.1:1", "a 3 127.0.0.1:1", "a 3-1 127.0.0.1:1", "a 0 127.0.0.1:1"],
    "bind": ["127.0.0.1", "127.0.0.1:1-5", ":5-1", "*:80", "::1:80", "[::1]:80", "unix@/x", "/x", "ipv4@127.0.0.1:1", "ipv6@::1:1", "fd@", "abns@x", ":1,:2", "127.0.0.1:0", ":99999", ":80 ,:81", "ipv4@::1:1", "ipv6@1.2.3.4:1", "udp@:1", "300.1.1.1:80", "1.2.3:80"],
    "use-server": ["s", "s if TRUE", "nobody if TRUE"], "use_backend": ["b", "b if TRUE", "nobody if TRUE", "%[path]", "%[path] if TRUE", "f"], "default_backend": ["b", "nobody", "f"],
    "unix-bind": ["mode", "user", "uid", "group", "gid", "prefix"],
    "stats socket": [""],
    "set-var": ["proc.a", "txn.a", "a"], "set-var-fmt": ["proc.a"], "setenv": ["A"], "presetenv": ["A"], "resetenv": ["A"], "unsetenv": ["A"],
    "cpu-map": ["1", "1/1", "auto:1/1", "auto:1/1-2", "all", "odd", "1/odd", "1-2", "1/1-", "1/all"],
    "unique-id-format": ["%[uuid()]"], "log-format": ["%ci"], "error-log-format": ["%ci"], "log-format-sd": ["%ci"],
    "guid": [""], "unique-id-header": [""],
    "load-server-state-from-file": ["global", "local", "none"],
    "mode": ["http", "tcp", "log", "health"],
    "http-reuse": ["never", "safe", "aggressive", "always"],
    "h1-case-adjust": ["host", "host Host"],
    "hash-preserve-affinity": ["always", "maxconn", "maxqueue"],
    "dynamic-cookie-key": [""],
}
GLOBAL_STATS = ["socket", "socket /tmp/weir-none.sock", "timeout", "maxconn", "socket /tmp/weir-none.sock level", "socket /tmp/weir-none.sock mode", "bind-process"]
# Arguments: none, too few, too many, numbers at their bounds, units, the wrong kind.
ARGUMENTS = ["", "x", "0", "1", "2", "-1", "10", "100", "65535", "65536", "1000000", "2147483647", "2147483648", "4294967295", "4294967296", "99999999999999999999", "0x10", "1.5", "+1", "007",
             "10s", "10ms", "1us", "5m", "30sec", "1h", "24d", "25d", "10S", "10k", "16k", "4g", "1kb", "50%", "10 20", "x y", "10 x", "on", "off", "auto", "none", "a,b", "a/b", "/x", "/nonexistent/x",
             "127.0.0.1", "127.0.0.1:80", "::1", "%[src]", "%[nonsense]", "%[path", "str(a)", "if TRUE", "x if TRUE", "10 if TRUE", "if nobody", "x if", "x unless { path /y }", "''", "x ''", "é", "1-3", "1-", "3-1", "all"]
HEAD = "defaults\n    mode http\n    timeout client 1s\n    timeout server 1s\n    timeout connect 1s\n"
FRONTEND, BACKEND = "frontend f\n    bind 127.0.0.1:1\n", "backend b\n    server s 127.0.0.1:2\n"
# Places for a line: the text before it, and the text after it.
PLACES = {
    "global": ("global\n", HEAD + FRONTEND + "    default_backend b\n" + BACKEND),
    "defaults": (HEAD, FRONTEND + "    default_backend b\n" + BACKEND),
    "named defaults": (HEAD.replace("defaults", "defaults d"), FRONTEND.replace("frontend f", "frontend f from d")),
    "frontend": (HEAD + FRONTEND, "    default_backend b\n" + BACKEND),
    "backend": (HEAD + FRONTEND + "    default_backend b\n" + BACKEND, ""),
    "listen": (HEAD + "listen l\n    bind 127.0.0.1:1\n    server s 127.0.0.1:2\n", BACKEND),
    "tcp": (HEAD.replace("http", "tcp") + "listen l\n    bind 127.0.0.1:1\n    server s 127.0.0.1:2\n", BACKEND),
    "bind": (HEAD + "frontend f\n    bind 127.0.0.1:1 ", BACKEND),
    "server": (HEAD + FRONTEND + "    default_backend b\nbackend b\n    server s 127.0.0.1:2 ", ""),
    "default-server": (HEAD + FRONTEND + "    default_backend b\nbackend b\n    default-server ", "    server s 127.0.0.1:2\n"),
    "userlist": (HEAD + FRONTEND + "    default_backend b\n" + BACKEND + "userlist u\n", "    user z insecure-password z\n"),
    "http-errors": (HEAD + FRONTEND + "    default_backend b\n" + BACKEND + "http-errors e\n", ""),
    "ring": (HEAD + FRONTEND + "    default_backend b\n" + BACKEND + "ring buf\n", ""),
    "log-forward": (HEAD + FRONTEND + "    default_backend b\n" + BACKEND + "log-forward lf\n    bind 127.0.0.1:3\n", ""),
    "traces": (HEAD + FRONTEND + "    default_backend b\n" + BACKEND + "traces\n", ""),
}
OTHER = {
    "userlist": ["user a", "user a password", "user a insecure-password", "user a insecure-password b groups", "user", "group", "group g", "group g users", "nonsense"],
    "http-errors": ["errorfile", "errorfile 404", "errorfile 404 /dev/null", "nonsense"],
    "ring": ["size", "format", "maxlen", "description", "timeout connect", "timeout server", "server s 127.0.0.1:514", "server s 127.0.0.1:514 log-proto", "nonsense"],
    "log-forward": ["bind", "bind 127.0.0.1:4", "dgram-bind", "dgram-bind 127.0.0.1:4", "log", "log 127.0.0.1 local0", "maxconn", "timeout client", "backlog", "option assume-rfc6587-ntf", "option dont-parse-log",
                    "option host", "nonsense", "timeout nonsense"],
    "traces": ["trace", "trace h1", "trace h1 sink", "trace h1 sink buf0", "trace h1 level", "trace h1 level user", "trace h1 verbosity", "trace h1 start", "trace h1 start now", "trace nonsense", "nonsense"],
}


def words(binary):
    """The keywords that the program lists, by place: from `-dKcfg`."""
    _, out, _ = run(binary, "-dKcfg", "-q", "-c", "-f", "/dev/null")
    claimed, section = {place: [] for place in PLACES}, ""
    for line in out.splitlines():
        if not line.startswith("\t"):
            section = line.strip()
            continue
        text = line.strip()
        parts = text.split()
        if text.startswith("bind <addr>"):
            claimed["bind"].append(parts[2])
        elif text.startswith("server <name>"):
            claimed["server"].append(parts[3])
            claimed["default-server"].append(parts[3])
        elif section == "global" and len(parts) == 1:
            for second in GLOBAL_STATS if text == "stats" else SECONDS.get(text, [""]):
                claimed["global"].append(f"{text} {second}".strip())
        elif section == "listen" and len(parts) == 1:
            for place in ("defaults", "named defaults", "frontend", "backend", "listen", "tcp"):
                for second in SECONDS.get(text, [""]):
                    claimed[place].append(f"{text} {second}".strip())
    for place in ("defaults", "frontend", "backend", "listen", "tcp"):
        for option in SECONDS["option"]:
            claimed[place] += [f"option {option}", f"no option {option}", f"default option {option}"]
    for place, lines in OTHER.items():
        claimed[place] = lines
    return claimed


def view(binary, text, folder, name):
    """The exit status, whether there are warnings, and the messages."""
    path = folder.file(name, text)
    status, _, said = run(binary, "-c", "-f", path, seconds=30)
    said = "\n".join(line for line in said.splitlines() if line.startswith(("[ALERT]", "[WARNING]")))
    said = re.sub(r"\(\d+\) : |" + re.escape(folder.path) + "/", "", said)
    refused = status not in (0, 2)
    return status, not refused and "[WARNING]" in said, said


def lines(binary):
    """Every line with its place."""
    return [(place, f"{word} {argument}".strip()) for place, listed in words(binary).items() for word in listed for argument in ARGUMENTS]


def written(place, line):
    """The configuration that contains a line."""
    before, after = PLACES[place]
    return before + ("" if before.endswith(" ") else "    ") + line + "\n" + after


def differences(reference, binary, chosen):
    """The differences: the place, the line, both views."""
    with Folder() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def both(numbered):
            number, (place, line) = numbered
            text = written(place, line)
            return place, line, *(view(program, text, folder, f"{number}-{which}.cfg") for which, program in enumerate((reference, binary)))
        return [(place, line, theirs, ours) for place, line, theirs, ours in pool.map(both, enumerate(chosen)) if theirs[:2] != ours[:2]]


# A line, the messages of the reference and of weir (regular expressions that have to be found), and the reason for the
# difference.
MEANT = [
    ("", "", "is not implemented yet", "not there yet"),
    ("", r"unknown keyword '[a-z0-9.-]+' in 'global'|did you mean", "^$", "a word that this reference does not have"),
    ("", "", r"is empty and marks the end", "3.4 and later refuse empty arguments"),
    ("", "", r"which '.*' is not\.|allowed range is|is not a valid|expects a (size|type) |in size argument|invalid size|value must be between|has to be|expects an integer"
             r"|CPU range|time of 1 to|fewer than|more than \d|integer/hex|expects <address>|'-u' must|argument of -u|number of|is too long|invalid character|unparsable",
     "what is no number, or too much, is refused"),
    ("", "", r"cannot handle unexpected argument|unexpected extra argument|only accepts 'if' or 'unless'|expects either 'if'", "what has no meaning is refused, not passed over"),
    ("", "", r"^\[WARNING\].*ignored because (frontend|backend|proxy) '.' has no", "what has no effect here is warned of, not read"),
    ("", r"CPUs via cpu-map|mapped to (a|any) CPU", "", "depends on the machine"),
    (r"^(ssl-|tune\.ssl|tune\.h2|ca-base|crt-base|key-base)", "", "", "words of TLS and HTTP/2 are kept for later, their values are not used"),
    (r"^unix-bind (user|group)|^(user|group) ", "unknown (user|group)", "", "names of users are looked up at the start"),
    (r"^log-bufsize", "", "mode log", "a word of log servers"),
    (r"^balance (log-)?hash", "", "unknown (converter|fetch)", "refused in every mode"),
    (r"option (http|tcp)log", "", "is ignored in backends", "what has no effect here is warned of, not read"),
    (r"^stats realm", "^$", "takes one word", "what has no meaning is warned of"),
    (r"^acl a path(_len| -m len)", "^$", "is not a number", "what is no number, or too much, is refused"),
    (r"^acl a path(_len| -m len) \+1", "is not a number", "^$", "a number may have a plus sign"),
    (r"set-(fc|bc)?-?(mark|tos|nice) -", "^$", "unknown fetch", "what is no number, or too much, is refused"),
    (r"^trace .*sink", "", "No such sink", "a sink that is not there is refused"),
    (r"^log ring@", "", "unknown ring", "a ring that is not there is refused"),
    (r"^ring|^size ", "", "ignoring new size", "a ring that is too small is warned of"),
    (r"if$", "", "empty alternative", "an empty condition is warned of"),
    (r"^acl a path -u", "", "no pattern to match", "an ACL without patterns never matches"),
    (r"^user .* password", "", "kind of hash", "a password that nobody can have is refused"),
    (r"(map|acl)\(a\)", "", "failed to open pattern file", "a file that is not there"),
    (r"^(uid|gid) ", "is not a number", "cannot find", "a name is looked up as one, not read as 0, which is root"),
    (r"^unix-bind mode", "", "mode", "what is no mode is refused"),
    (r"^errorfile .* /dev/zero", "", "not a regular file", "a device is no error message"),
    (r"normalize-uri", "is experimental", "^$", "no experiment here"),
    (r"^tune\.vars", "is an invalid size", "^$", "3.5 takes units"),
    (r"^profiling.tasks", "", "^$", "3.5 takes several words"),
    (r"^default-path origin", "", "^$", "a folder is looked for when a file is"),
    (r"^server-state-file", "Can't get version", "^$", "read at the start"),
    (r"^(default-server )?(id|guid)|^default-server id", "option is not accepted", "^", "3.2 complains and goes on"),
    (r"^source 127.0.0.1:1-5", "port range", "^$", "the ports of a backend may be a range, as those of a server"),
    (r"^(no|default) option (forwarded|http-keep-alive|http-server-close|httpclose|accept-invalid)", "negation", "", "the opposite is known, so it may be said"),
    (r"no-sni-auto", "unknown keyword", "^$", "a word that this reference does not have"),
    (r"^stats show-desc$", "requires a parameter", "^$", "the description may come later"),
    (r"^(thread|init-addr|http-request set-var-fmt.txn.a.|bind|dgram-bind|user .*|group .*)( password| insecure-password| groups| users)?$", "^$", "expects|missing", "an argument that is missing is missed"),
    (r"^user a (insecure-)?password", "^$", "expects", "an argument that is missing is missed"),
    (r"^server s 127.0.0.1:514", "missing timeouts", "^$", "a ring has timeouts of its own"),
    (r"^trace", "Supported", "expects a source", "a list of what there is is no answer to a line"),
    (r"fail unless$", "", "empty alternative", "an empty condition is warned of"),
    (r"at-least", "unexpected character", "", "sizes of 4 GB and more can be had"),
    (r"^capture cookie|^option forwarded", "requires HTTP mode", "expects|unknown fetch", "refused in every mode"),
    (r"capture path id|capture status id", "unable to find capture id", "^$", "slots are those of the frontend that inherits"),
]


def meant(line, theirs, ours):
    """The reason why the line may differ; None if the difference is not intended."""
    for about, reference, weir, reason in MEANT:
        if re.search(about, line) and re.search(reference, theirs[2], re.M) and re.search(weir, ours[2], re.M):
            return reason
    if theirs[0] < 0:
        return "the reference dies of it"
    return None


def explore(chance, title, options, count=300):
    """Checks `count` lines; returns the number of findings, the number of lines, and the reasons of the intended
    differences."""
    known = lines(options.bin)
    chosen = chance.sample(known, min(count, len(known)))
    findings, reasons = 0, collections.Counter()
    for place, line, theirs, ours in differences(options.reference, options.bin, chosen):
        why = meant(line, theirs, ours)
        if why:
            reasons[why] += 1
            continue
        findings += 1
        print(f"DIFFERS  {title}: in {place}: {line}")
        for who, (status, _, said) in (("reference", theirs), ("weir", ours)):
            print(f"    {who}: exit status {status} {' '.join(said.split())[:300]}", flush=True)
    return findings, len(chosen), reasons
