"""Error reports for a wrong configuration: on a terminal, in a pipe, and their length."""
import os
import pty
import re
import subprocess
import time

from lib.program import Program, run

HEAD = "defaults\n    mode http\n    timeout client 1s\n    timeout server 1s\n    timeout connect 1s\n"


def said(binary, folder, text, *options):
    """The exit status and the stderr of a check (`-c`)."""
    path = folder.file("a.cfg", text)
    status, _, messages = run(binary, "-c", "-f", path, *options)
    return status, messages.replace(path, "a.cfg")


def on_terminal(binary, path, options=("-c",), **environment):
    """The output of a check, or of a start that fails, on a terminal. Variables without a value are taken away."""
    ours, theirs = pty.openpty()
    known = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    process = subprocess.Popen([binary, *options, "-f", path], stdin=theirs, stdout=theirs, stderr=theirs, env=known)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:
        pass  # the other side is closed
    os.close(ours)
    assert process.wait(10) == 1
    return text.decode(errors="replace").replace("\r\n", "\n")


def test_a_terminal_shows_each_configuration_error_once_with_its_line(binary, folder):
    path = folder.file("a.cfg", HEAD + "frontend f\n    bind 127.0.0.1:1\n    maxcon 5\n    default_backend nobody\n")
    plain = on_terminal(binary, path, NO_COLOR="1", TERM="xterm")
    assert plain.count("unknown keyword 'maxcon'") == 1, plain
    assert plain.count("unable to find required default_backend") == 1, plain
    assert "    maxcon 5" in plain and "^^^^^^" in plain and "did you mean 'maxconn'?" in plain, plain
    assert "a.cfg:8:5" in plain and "a.cfg:9:" in plain, plain
    assert "\x1b" not in plain, plain
    assert "\x1b" not in on_terminal(binary, path, NO_COLOR=None, TERM="dumb")
    assert "\x1b[" in on_terminal(binary, path, NO_COLOR=None, TERM="xterm")
    # An empty variable is ignored (no-color.org).
    assert "\x1b[" in on_terminal(binary, path, NO_COLOR="", TERM="xterm")


def test_a_terminal_shows_the_line_of_errors_found_after_parsing(binary, folder):
    """Certificates, authorities, users and names that cannot be used: the line, a caret and the reason, of a check and of a start."""
    missing = os.path.join(folder.path, "missing.pem")
    for lines, options, number, word, reason in [
            (HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {missing}\n", ("-c",), 7, missing, "No such file or directory"),
            (HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {missing}\n", (), 7, missing, "No such file or directory"),
            (HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {folder.path}/a.cfg\n", (), 7, f"{folder.path}/a.cfg", "holds no certificate"),
            (HEAD + f"listen l\n    bind 127.0.0.1:1\n    server s 127.0.0.1:2 ssl ca-file {missing}\n", (), 8, missing, "No such file"),
            ("global\n    user nobodyhere\n" + HEAD + "frontend f\n    bind 127.0.0.1:1\n", ("-c",), 2, "nobodyhere", "cannot find user id"),
            (HEAD + "listen l\n    bind 127.0.0.1:1\n    server s nowhere.invalid:1\n", (), 8, "nowhere.invalid", "could not resolve"),
            (HEAD + f"frontend f\n    bind 127.0.0.1:1\n    errorfile 503 {missing}\n", (), 8, missing, "No such file or directory"),
            (HEAD + f"frontend f\n    bind 127.0.0.1:1\n    use_backend %[path,map({missing})]\n", (), 8, f"({missing})", "No such file or directory")]:
        path = folder.file("a.cfg", lines)
        text = on_terminal(binary, path, options, NO_COLOR="1", TERM="xterm")
        raw = lines.splitlines()[number - 1]
        assert reason in text and f"a.cfg:{number}:{raw.index(word) + 1}\n" in text, (options, text)
        shown = text.split("\n")
        at = next(index for index, line in enumerate(shown) if line.endswith(f"| {raw}"))
        assert shown[at + 1].endswith("| " + " " * raw.index(word) + "^" * len(word)), text
    # A pipe gets the usual line.
    assert "[a.cfg:8] : 'server l/s' : could not resolve address 'nowhere.invalid'." in said(
        binary, folder, HEAD + "listen l\n    bind 127.0.0.1:1\n    server s nowhere.invalid:1\n")[1]


def test_common_mistakes_have_advice(binary, folder):
    """Words of other languages in conditions, no-break spaces, a byte order mark, a word of another section."""
    site = HEAD + "frontend f\n    bind 127.0.0.1:1\n    acl a path /\n    http-request return status 200\n"
    for text, advice in [
            (site + "    http-request deny if a and a\n", "all conditions of a rule have to hold"),
            (site + "    http-request deny if not a\n", "'!' in front of a condition reverses it"),
            (site + "    http-request deny if {path_beg /a }\n", "a blank follows the opening brace"),
            (site + "    http-request deny if { hdr_cnt(x) > 1 }\n", "an operator is one of gt, ge, eq, le, lt"),
            (site + "    http-request deny if { src 10.0.0.0/33 }\n", "a mask of IPv4 has 32 bits at most"),
            (site + "    bind\u00a0127.0.0.1:2\n", "a no-break space does not separate words"),
            (site + "    reqrep a b\n", "use 'http-request replace-path' or 'http-request replace-uri' for the request line"),
            (site + "    daemon\n", "it is a word of the section 'global'"),
            ("\ufeff" + site, "the file begins with a byte order mark")]:
        shown = on_terminal(binary, folder.file("a.cfg", text), NO_COLOR="1", TERM="xterm")
        assert advice in shown, (text, shown)


def test_a_pipe_gets_one_line_with_file_and_line_number_per_error(binary, folder):
    status, text = said(binary, folder, HEAD + "frontend f\n    bind 127.0.0.1:1\n    default_backend nobody\n    maxcon 5\n")
    alerts = [line for line in text.split("\n") if line.startswith("[ALERT]") and "rror" not in line]
    assert status == 1 and len(alerts) == 2, text
    assert all(re.search(r"a\.cfg:\d+", line) for line in alerts), alerts
    assert "(a.cfg:8)" in text and "[a.cfg:9]" in text, text
    status, text = said(binary, folder, "frontend f\n    mode http\n    bind 127.0.0.1:1\n")
    assert status == 0 and "missing timeouts for frontend 'f' (a.cfg:1)." in text, text


def test_repeated_errors_are_reported_once_with_their_count(binary, folder):
    servers = "".join(f"    server s{number} 127.0.0.1:{number} cc reno tcp-md5sig x weight 3 namespace x\n" for number in range(1, 801))
    status, text = said(binary, folder, HEAD + "backend b\n" + servers)
    alerts = [line for line in text.split("\n") if line.startswith("[ALERT]")]
    assert status == 1 and len(alerts) == 5, text[:2000]
    for word in ("cc", "tcp-md5sig", "namespace"):
        line = f"config : parsing [a.cfg:7] : '{word}' is not implemented yet: 800 times, first at lines 7, 8, 9, 10, 11"
        assert line in text, text[:2000]
    assert "no more" not in text and "more messages" not in text, text[:2000]
    # The number of different messages is bounded.
    unknown = "".join(f"    nonsense{number} x\n" for number in range(5000))
    status, text = said(binary, folder, HEAD + "backend b\n" + unknown)
    assert status == 1 and text.count("unknown keyword") == 200 and "4800 more messages are not shown." in text, text[-2000:]


def test_warnings_are_hidden_while_there_are_errors(binary, folder):
    text = "frontend f\n    mode http\n    bind 127.0.0.1:1\n.warning mine\n{}"
    status, messages = said(binary, folder, text.format(""))
    assert status == 0 and "missing timeouts" in messages and "'mine'" in messages, messages
    status, messages = said(binary, folder, text.format("    foo\n"))
    assert status == 1 and "missing timeouts" not in messages and "'mine'" in messages, messages
    assert "1 warning is not shown before the errors are gone." in messages, messages


def test_invalid_state_files_are_reported_by_a_check(binary, folder):
    """A missing or empty state file is normal at a first start; a file in another format is a warning, so `-dW` stops."""
    text = "global\n    server-state-file {}\n" + HEAD + "    load-server-state-from-file global\nfrontend f\n    bind 127.0.0.1:1\n    default_backend b\nbackend b\n    server s 127.0.0.1:2\n"
    for name, severity, expected in ((folder.path + "/missing", "NOTICE", "Can't open global server state file"),
                                     (folder.file("empty", ""), "NOTICE", "Empty global server state file"),
                                     (folder.file("other", "something\n"), "WARNING", "Can't get version of the global server state file"),
                                     (folder.file("damaged", "1\nx\n"), "WARNING", "corrupted global server state file"),
                                     (folder.path, "WARNING", "Can't open global server state file")):
        config = folder.file("states.cfg", text.format(name))
        status, _, messages = run(binary, "-c", "-f", config)
        assert status == 0 and re.search(rf"^\[{severity}\] .*: {expected} '{name}'", messages, re.M), (name, messages)
        assert run(binary, "-dW", "-c", "-f", config)[0] == (severity == "WARNING"), name
    assert run(binary, "-dW", "-db", "-f", config)[0] == 1


def test_servers_down_in_the_state_file_are_reported_at_startup(binary, folder, port):
    """The messages after a reload explain the missing servers; `zero-warning` does not stop the start."""
    # Only root may use chroot.
    jail = "    chroot /\n" if os.getuid() == 0 else ""
    states = folder.file("states", "1\n3 b 1 one 127.0.0.1 0 0 1 1 5 8 2 0 6 0 0 0 - 2 - 0 0 - - 0\n3 b 2 two 127.0.0.1 2 0 1 1 5 1 0 2 0 0 0 0 - 2 - 0 0 - - 0\n")
    text = (f"global\n    zero-warning\n{jail}    uid {os.getuid()}\n    server-state-file {states}\n" + HEAD + "    load-server-state-from-file global\n"
            + f"frontend f\n    bind 127.0.0.1:{port}\n    default_backend b\nbackend b\n    server one 127.0.0.1:2 check inter 60s\n    server two 127.0.0.1:2\n")
    with Program(binary, "-db", "-f", folder.file("a.cfg", text)) as program:
        program.ready(port)
        program.process.terminate()
        messages = program.process.stdout.read()
    expected = "Server b/one is DOWN, changed from server-state after a reload. 1 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 remaining in queue."
    assert expected in messages and "b/two" not in messages, messages


def test_tls_files_of_lines_without_ssl_have_to_exist(binary, folder):
    """Files named by lines without `ssl`, or by servers without verification, have to exist all the same."""
    text = HEAD + "frontend f\n    bind 127.0.0.1:1 {}\n    default_backend b\nbackend b\n    server s 127.0.0.1:2 {}\n"
    for word in ("crt", "default-crt", "crt-list", "ca-file", "ca-verify-file", "crl-file", "tls-ticket-keys"):
        status, messages = said(binary, folder, text.format(f"{word} /nonexistent/x", ""))
        assert status == 1 and "'bind 127.0.0.1:1' : " in messages and "unable to read '/nonexistent/x'" in messages, (word, messages)
    for words in ("ca-file", "crl-file", "ssl verify none ca-file", "ssl verify none crl-file", "ssl verify none crt"):
        status, messages = said(binary, folder, text.format("", f"{words} /nonexistent/x"))
        assert status == 1 and "server 'b/s' : " in messages and "unable to read '/nonexistent/x'" in messages, (words, messages)
    # A certificate is only needed with TLS.
    assert said(binary, folder, text.format("", "crt /nonexistent/x"))[0] == 0


def test_crt_lists_of_bind_lines_without_ssl_are_checked(binary, folder):
    """Each line of a `crt-list` on a `bind` line without `ssl`, the files that it names included, as HAProxy 3.2 does."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=x",
                    "-keyout", f"{folder.path}/a.pem.key", "-out", f"{folder.path}/a.pem"], check=True, capture_output=True)
    good = f"# listed\n{folder.path}/a.pem [alpn h2] x.example\n"
    check = lambda line: said(binary, folder, HEAD + f"frontend f\n    bind 127.0.0.1:1 crt-list {folder.file('list', good + line)}\n")
    assert check("")[0] == 0
    for line, fault in (("/nonexistent/x", "unable to read '/nonexistent/x'"), (f"{folder.path}/a.pem [ca-file /nonexistent/x verify required]", "unable to read '/nonexistent/x'"),
                        (f"{folder.path}/a.pem [nonsense x]", f"{folder.path}/list, line 3: unknown keyword 'nonsense'")):
        status, messages = check(line)
        assert status == 1 and "'bind 127.0.0.1:1' : " in messages and messages.count(fault) == 1, (line, messages)


def test_only_configuration_files_with_errors_are_named(binary, folder):
    good, bad = folder.file("good.cfg", HEAD), folder.file("bad.cfg", "frontend f\n    bind :1\n    foo\n")
    status, _, messages = run(binary, "-c", "-f", good, "-f", bad)
    named = re.findall(r"Error\(s\) found in configuration file : (\S+)", messages)
    assert status == 1 and named == [bad], messages


def test_unresolvable_addresses_are_reported_beside_other_errors(binary, folder):
    status, text = said(binary, folder, HEAD + "frontend f\n    bind nobody.invalid:80\n    bind 300.1.1.1:80\n    foo\n")
    assert status == 1, text
    for line in (7, 8, 9):
        assert f"[a.cfg:{line}]" in text, text


def test_endless_files_are_refused_without_delay(binary, folder):
    """Devices, pipes, folders and files of any size, wherever the configuration names a file."""
    pipe, large = os.path.join(folder.path, "pipe"), os.path.join(folder.path, "large")
    os.mkfifo(pipe)
    with open(large, "wb") as file:
        file.truncate(8 << 30)
    lines = ["frontend|errorfile 404 {}", "frontend|http-request return status 200 content-type a file {}",
             "frontend|http-request return status 200 content-type a lf-file {}", "frontend|http-request deny if {{ path -f {} }}",
             "frontend|use_backend %[path,map({})]", "global|h1-case-adjust-file {}", "frontend|http-error status 404 content-type a file {}"]
    began = time.monotonic()
    for place, line in (line.split("|") for line in lines):
        for path in ("/dev/zero", pipe, folder.path, large):
            line_with = line.format(path)
            head = f"global\n    {line_with}\n" if place == "global" else ""
            rest = "" if place == "global" else f"    {line_with}\n"
            path_of = folder.file("a.cfg", head + HEAD + "frontend f\n    bind 127.0.0.1:1\n" + rest)
            status, _, text = run(binary, "-c", "-f", path_of, seconds=5)
            assert status == 1 and "a.cfg:" in text, (line_with, text)
    assert time.monotonic() - began < 10
    # A configuration itself may come from a pipe, but has an end too.
    status, _, text = run(binary, "-c", "-f", "/dev/zero", seconds=10)
    assert status == 1 and "larger than" in text, text
    comment = folder.file("comment.cfg", "# " + "x" * (10 << 20) + "\n" + HEAD + "frontend f\n    bind 127.0.0.1:1\n")
    assert run(binary, "-c", "-f", comment)[0] == 0
