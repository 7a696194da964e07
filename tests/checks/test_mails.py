"""Mail alerts: the messages at a mail server, and the server changes that cause them."""
import re

from checks.support import Scene
from lib.origin import Server
from lib.program import TERM, free_port, run, wait_until

SECTIONS = """
mailers staff
    mailer one 127.0.0.1:{mail}
    timeout mail 2s
backend b
    email-alert mailers staff
    email-alert from weir@a.example
    email-alert to staff@b.example
    {level}
    server s 127.0.0.1:{server} check inter 200ms fall 1 rise 1
"""
ANSWERS = [b"220 ready\r\n", b"250-hello\r\n250 SIZE\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go on\r\n", b"250 queued\r\n", b"221 bye\r\n"]


class MailServer(Server):
    """A mail server that records the lines of each dialogue."""

    def __init__(self):
        self.mails = []
        super().__init__()

    def serve(self, connection):
        """One dialogue."""
        heard = []
        with connection.makefile("rb") as lines:
            for answer in ANSWERS:
                connection.sendall(answer)
                if answer.startswith(b"221"):
                    break
                heard.append(lines.readline())
                while answer.startswith(b"354") and heard[-1] != b".\r\n":
                    heard.append(lines.readline())
        self.mails.append(b"".join(heard).decode())

    def subjects(self):
        """The subjects of all mails."""
        return [re.search("Subject: (.*)\r\n", mail).group(1) for mail in self.mails]

    def wait_for(self, pattern):
        """Waits until there is a mail with such a subject."""
        assert wait_until(lambda: any(re.search(pattern, subject) for subject in self.subjects()), 8), \
            f"no mail about {pattern!r} in {self.subjects()}"


def test_an_email_alert_reports_a_server_that_is_down(binary, folder):
    mail, server = MailServer(), Server()
    sections = SECTIONS.format(mail=mail.port, server=server.port, level="email-alert myhostname lb1.example")
    with Scene(binary, folder, sections) as scene:
        scene.expect("b", "s", check_status="L4OK")
        server.close()
        mail.wait_for("Server b/s is DOWN")
        text = r'Server b/s is DOWN, reason: Layer4 connection problem, info: "ECONNREFUSED returned by OS \(Connection refused\)", check duration: \d+ms\. 0 active and 0 ' \
            r'backup servers left\. 0 sessions active, 0 requeued, 0 remaining in queue'
        date = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4} \([^)]+\)"
        expected = "HELO lb1.example\r\nMAIL FROM:<weir@a.example>\r\nRCPT TO:<staff@b.example>\r\nDATA\r\n" \
            f"From: weir@a.example\r\nTo: staff@b.example\r\nDate: {date}\r\nSubject: \\[HAProxy Alert\\] {text}\r\n\r\n{text}\r\n\r\n" \
            r"\." "\r\nQUIT\r\n"
        assert re.fullmatch(expected, mail.mails[0]), mail.mails
        # Less urgent changes are not mailed.
        server.listen()
        scene.expect("b", "s", status="UP")
        scene.ask("disable server b/s")
        assert not wait_until(lambda: len(mail.mails) > 1, 0.5), mail.subjects()


def test_email_alert_level_selects_the_reported_changes(binary, folder):
    mail, server = MailServer(), Server()
    sections = SECTIONS.format(mail=mail.port, server=server.port, level="email-alert level info\n    option log-health-checks")
    with Scene(binary, folder, sections) as scene:
        mail.wait_for("Health check for server b/s succeeded, reason: Layer4 check passed, check duration: .*, status: 1/1 UP$")
        for change, expected in [("drain", "Server b/s enters drain state"), ("ready", "Server b/s is UP .leaving forced drain.$"),
                                 ("maint", "Server b/s is going DOWN for maintenance"),
                                 ("ready", "Server b/s is UP/READY .leaving forced maintenance.$")]:
            scene.ask(f"set server b/s state {change}")
            mail.wait_for(expected)
        server.close()
        mail.wait_for("Health check for server b/s failed, reason: Layer4 connection problem")
        mail.wait_for("Server b/s is DOWN")
        server.listen()
        mail.wait_for("Server b/s is UP")
        assert not any("has no server available" in subject for subject in mail.subjects()), mail.subjects()


def test_an_unreachable_mailer_is_logged_once(binary, folder):
    server = Server()
    sections = SECTIONS.format(mail=free_port(), server=server.port, level="email-alert level notice")
    with Scene(binary, folder, sections) as scene:
        for _ in range(3):
            server.close()
            scene.expect("b", "s", status="DOWN")
            server.listen()
            scene.expect("b", "s", status="UP")
        scene.program.send(TERM)
        said = scene.program.process.communicate(timeout=5)[0]
    complaints = [line for line in said.splitlines() if "Mailer staff/one" in line]
    assert len(complaints) == 1 and "a mail was not delivered: Connection refused" in complaints[0], said


def test_missing_email_alert_settings_are_reported(binary, folder):
    def check(text, status, *expected):
        found, out, err = run(binary, "-c", "-f", folder.file("c.cfg", text))
        for line in expected:
            assert line in out + err, f"{line!r} is not in {out + err}"
        assert found == status, (found, out + err)
    defaults = "defaults\n timeout connect 1s\n timeout server 1s\n timeout client 1s\nfrontend f\n bind 127.0.0.1:1\n"
    staff = "mailers staff\n mailer one 127.0.0.1:25\n"
    ends = " email-alert from a\n email-alert to b\n"
    check(f"{defaults}backend b\n email-alert mailers none\n{ends}", 1, "Proxy 'b': unable to find mailers 'none'")
    check(f"{defaults}{ends} email-alert mailers staff\n{staff}", 0)
    check(f"{defaults}{staff}backend b\n email-alert mailers staff\n", 0, "'email-alert' will be ignored for backend 'b' (the presence any of")
    check(f"{defaults}{staff}mailers staff\n", 1, "mailers section 'staff' has the same name as another mailers section declared at")
    check(f"{defaults}mailers m\n mailer x 127.0.0.1\n mailer\n mailer y /s\n timeout mail x\n timeout z\n mailer n nonexistent.invalid:25\n", 1,
          "'mailer x' : missing port specification in '127.0.0.1'", "'mailer' expects <name> and <addr>[:<port>] as arguments.",
          "'mailer y' : TCP not supported for this address family.", "'timeout' expects 'mail' and <time> as arguments got 'z'.")
    check(f"{defaults}mailers m\n mailer n nonexistent.invalid:25\n", 1, "'mailer n' : invalid address: 'nonexistent.invalid'")
