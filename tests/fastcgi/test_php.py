"""php-fpm behind the program: pages, forms, uploads, streaming, crashes, restarts of php-fpm and reloads of the program under load."""
import hashlib
import json
import os
import re
import signal
import threading
import time

import pytest

from lib.fcgi_world import World, read_answer
from lib.php import Fpm
from lib.program import wait_until
from master.support import Master

PAGES = {
    "server.php": "<?php header('Content-Type: application/json'); echo json_encode($_SERVER);",
    "form.php": "<?php echo json_encode(['post' => $_POST, 'get' => $_GET, 'files' => array_map(fn($f) => [$f['name'], $f['size'], "
                "md5_file($f['tmp_name'])], $_FILES), 'cookie' => $_COOKIE]);",
    "count.php": "<?php $in = fopen('php://input', 'r'); $h = hash_init('md5'); $n = 0; while (($d = fread($in, 1 << 20)) != '') "
                 "{ $n += strlen($d); hash_update($h, $d); } echo $n, ' ', hash_final($h);",
    "stream.php": "<?php for ($i = 0; $i < 5; $i++) { echo \"part$i\\n\"; flush(); while (!file_exists(__DIR__ . \"/../tmp/seen$i\")) "
                  "{ clearstatcache(); usleep(2000); } }",
    "die.php": "<?php if (isset($_GET['part'])) { header('Content-Type: text/plain'); echo 'part'; flush(); usleep(50000); } "
               "posix_kill(posix_getpid(), (int)($_GET['signal'] ?? 9)); sleep(5);",
    "status.php": "<?php http_response_code((int)$_GET['s']); if (!in_array($_GET['s'], [204, 304])) echo 'body';",
    "redirect.php": "<?php header('Location: /server.php');",
    "session.php": "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n'];",
    "exit.php": "<?php echo 'before'; exit(3);",
    "error.php": "<?php error_log('said by the page'); throw new Exception('thrown by the page');",
    "large.php": "<?php for ($i = 0; $i < 640; $i++) { echo str_repeat('x', 16384); }",
    "length.php": "<?php header('Content-Length: 5'); echo 'hello';",
    "gzip.php": "<?php ini_set('zlib.output_compression', 'On'); echo str_repeat('gzip ', 20000);",
    "slow.php": "<?php usleep((int)$_GET['ms'] * 1000); echo 'slow ', $_GET['n'] ?? '';",
    "begun.php": "<?php file_put_contents(__DIR__ . '/../tmp/begun', $_GET['n'] . \"\\n\", FILE_APPEND | LOCK_EX); usleep(30000); echo $_GET['n'];",
    "dir/index.php": "<?php echo 'index of dir';",
}
# A worker of php-fpm belongs to a connection until the connection closes: idle connections that no other client may use would occupy all workers.
ALWAYS = "http-reuse always"
APP = r"""index index.php
    path-info ^(/.+\.php)(/.*)?$"""


@pytest.fixture(scope="module", params=["unix", "tcp"])
def fpm(request):
    """php-fpm with all pages, for the tests of this module."""
    from lib.program import Folder
    with Folder() as folder, Fpm(folder, PAGES, tcp=request.param == "tcp", children=8) as made:
        yield made


@pytest.fixture
def site(request, fpm):
    """Starts the program in front of php-fpm. Returns the world."""
    haproxy = request.config.getoption("haproxy")
    binary = os.path.abspath(haproxy or request.getfixturevalue("binary"))
    worlds = []

    def start(app=APP, **places):
        shared = type("Shared", (), {"address": fpm.address, "cut": lambda self: None})()
        worlds.append(World(binary, bool(haproxy), shared).__enter__())
        places["backend"] = f"{ALWAYS}\n    {places.get('backend', '')}"
        return worlds[-1].serve(docroot=fpm.root, app=app, server_timeout="30s", **places)
    yield start
    for world in worlds:
        world.__exit__()


def test_a_page_sees_its_request(site, fpm):
    answer = site().ask("/server.php/more/path?a=1&b=%20", "X-Custom: value", "Cookie: c=1")
    server = json.loads(answer.body)
    want = {"SCRIPT_NAME": "/server.php", "PATH_INFO": "/more/path", "SCRIPT_FILENAME": f"{fpm.root}/server.php", "QUERY_STRING": "a=1&b=%20",
            "REQUEST_URI": "/server.php/more/path?a=1&b=%20", "REQUEST_METHOD": "GET", "HTTP_HOST": "shop.test", "HTTP_X_CUSTOM": "value",
            "HTTP_COOKIE": "c=1", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "PHP_SELF": "/server.php/more/path",
            "DOCUMENT_ROOT": fpm.root, "CONTENT_LENGTH": "0"}
    assert {name: server.get(name) for name in want} == want
    assert (answer.status, answer.field("content-type")) == (200, "application/json")


def test_index(site):
    assert site().ask("/dir/").body == b"index of dir"


def test_a_page_that_does_not_exist(site):
    answer = site().ask("/nope.php")
    assert (answer.status, answer.body) == (404, b"File not found.\n")


def test_a_form(site):
    body = b"a=1&b%5B%5D=x&b%5B%5D=%C3%A9"
    answer = site().ask("/form.php?q=1", "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}", method="POST", body=body)
    assert json.loads(answer.body) == {"post": {"a": "1", "b": ["x", "\xe9"]}, "get": {"q": "1"}, "files": [], "cookie": []}


def test_a_form_of_unknown_length(site):
    answer = site().ask("/form.php", "Content-Type: application/x-www-form-urlencoded", "Transfer-Encoding: chunked", method="POST",
                        body=b"3\r\na=1\r\n4\r\n&b=2\r\n0\r\n\r\n")
    assert json.loads(answer.body)["post"] == {"a": "1", "b": "2"}


def test_an_upload_of_files(site):
    content = os.urandom(300_000)
    body = b"".join(b'--B\r\nContent-Disposition: form-data; name="f%d"; filename="n%d"\r\n\r\n%s\r\n' % (at, at, content) for at in range(2)) + b"--B--\r\n"
    answer = site().ask("/form.php", "Content-Type: multipart/form-data; boundary=B", f"Content-Length: {len(body)}", method="POST", body=body)
    digest = hashlib.md5(content).hexdigest()
    assert json.loads(answer.body)["files"] == {"f0": ["n0", 300_000, digest], "f1": ["n1", 300_000, digest]}


@pytest.mark.parametrize("megabytes", [64, pytest.param(1024, marks=pytest.mark.timeout(120))])
def test_a_large_upload_needs_no_memory(site, fpm, megabytes):
    """A body of known length is streamed: it is never held as a whole."""
    world = site()
    world.ask("/length.php")
    before, most, piece = world.program.resident_kb(), 0, os.urandom(1 << 20)
    digest = hashlib.md5()
    began = time.monotonic()
    with world.connect() as client:
        client.settimeout(60)
        client.sendall(f"POST /count.php HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {megabytes << 20}\r\n\r\n".encode())
        for number in range(megabytes):
            client.sendall(piece)
            digest.update(piece)
            if number % 16 == 0:
                most = max(most, world.program.resident_kb())
        answer = read_answer(client, seconds=60)
    assert answer.body.decode() == f"{megabytes << 20} {digest.hexdigest()}"
    assert most - before < 8000, f"{most - before} kB"
    assert time.monotonic() - began < 40


def test_a_large_response(site):
    world = site()
    answer = world.ask("/large.php")
    assert len(answer.body) == 640 * 16384 and answer.complete


def test_parts_arrive_when_the_page_flushes_them(site, fpm):
    """The page makes the next part once the client has the one before."""
    tmp = f"{fpm.folder.path}/tmp"
    for name in os.listdir(tmp):
        if name.startswith("seen"):
            os.unlink(f"{tmp}/{name}")
    with site().connect() as client:
        client.sendall(b"GET /stream.php HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        client.settimeout(5)
        raw, seen = b"", 0
        while more := client.recv(65536):
            raw += more
            while seen < 5 and b"part%d" % seen in raw:
                open(f"{tmp}/seen{seen}", "w").close()
                seen += 1
    assert seen == 5 and raw.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("status", [200, 201, 204, 301, 304, 400, 403, 404, 418, 500, 503])
def test_statuses_of_pages(site, status):
    answer = site().ask(f"/status.php?s={status}")
    assert (answer.status, answer.complete) == (status, True)


def test_a_redirect(site):
    answer = site().ask("/redirect.php")
    assert (answer.status, answer.field("location")) == (302, "/server.php")


@pytest.mark.parametrize("path", ["/server.php", "/large.php", "/length.php"])
def test_head(site, path):
    """php-fpm sends no body."""
    answer = site().ask(path, method="HEAD")
    assert (answer.status, answer.complete) == (200, True)


def test_a_session(site):
    world = site()
    answer = world.ask("/session.php")
    cookie = answer.field("set-cookie").split(";")[0]
    assert [world.ask("/session.php", f"Cookie: {cookie}").body for _ in range(3)] == [b"2", b"3", b"4"]


def test_an_exit_code_does_not_fail_the_request(site):
    assert (answer := site().ask("/exit.php")).status == 200 and answer.body == b"before"


def test_errors_are_logged(site, log):
    world = site(app=f"{APP}\n    log-stderr 127.0.0.1:{log.port} local1")
    assert world.ask("/error.php").status == 500
    assert "said by the page" in log.wait_for("said by the page")
    assert log.wait_for("thrown by the page")


def test_compressed_by_the_page(site):
    """The length of php's own compression is not known at the head."""
    import gzip
    answer = site().ask("/gzip.php", "Accept-Encoding: gzip")
    body = gzip.decompress(answer.body) if answer.field("content-encoding") == "gzip" else answer.body
    assert answer.complete and body == b"gzip " * 20000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies(site, number):
    world = site()
    answer = world.ask(f"/die.php?signal={int(number)}")
    assert answer.status == 502 and world.logged().flags == "SH--"
    answer = world.ask(f"/die.php?part&signal={int(number)}")
    assert (answer.status, answer.body, answer.complete) == (200, b"part", False) and world.logged(2).flags == "SD--"
    assert world.ask("/length.php").body == b"hello"


def test_ping_and_status_checks(site, fpm):
    # The paths of the pool are compared with SCRIPT_NAME.
    world = site(server="check inter 100ms fall 1", backend="option httpchk GET /ping\n    http-check expect string pong")
    assert wait_until(lambda: world.stat("b", "s", "check_status") == "L7OK")
    assert world.ask("/ping").body == b"pong"
    assert json.loads(world.ask("/status?json").body)["pool"] == "www"


def test_one_worker_for_many_pages(site, fpm):
    """keep-conn: one connection, so one worker."""
    fpm.pages({"pid.php": "<?php echo posix_getpid();"})
    world = site()
    assert len({world.ask("/pid.php").body for _ in range(20)}) == 1


def test_without_keep_conn_workers_take_turns(site, fpm):
    fpm.pages({"pid.php": "<?php echo posix_getpid();"})
    world = site(app=f"{APP}\n    no option keep-conn")
    assert all(world.ask("/pid.php").status == 200 for _ in range(30))


def test_more_clients_than_workers(site):
    world = site(server="maxconn 8", backend="timeout queue 20s")
    answers = {}

    def one(number):
        answers[number] = world.ask(f"/slow.php?ms=20&n={number}").body
    threads = [threading.Thread(target=one, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"slow {number}".encode() for number in range(60)}


def test_clients_that_leave_free_their_workers(site):
    world = site(backend="option abortonclose", server="maxconn 8")
    for number in range(16):
        with world.connect() as client:
            client.sendall(b"GET /slow.php?ms=500 HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.01)
    assert wait_until(lambda: world.ask("/length.php").body == b"hello", 5)


# Restarts of php-fpm, which have a php-fpm of their own.

class Load:
    """Clients that ask one page after the other, each with a number of its own. `failed` lists numbers and answers."""

    def __init__(self, ask, count=4):
        self.ask, self.count, self.failed, self.done, self.stopped, self.lock = ask, count, [], 0, False, threading.Lock()

    def run(self, index):
        for number in range(index, 1_000_000, self.count):
            if self.stopped:
                return
            try:
                answer = self.ask(f"/begun.php?n={number}")
                good = answer.status == 200 and answer.body == str(number).encode()
            except OSError as error:
                answer, good = error, False
            with self.lock:
                self.done += 1
                if not good:
                    self.failed.append((number, answer))

    def __enter__(self):
        self.threads = [threading.Thread(target=self.run, args=(index,)) for index in range(self.count)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        for thread in self.threads:
            thread.join(30)


def own_site(build, folder, **places):
    """A world and its own php-fpm with four workers."""
    # On TCP, as php-fpm removes its UNIX socket while it restarts, which no program takes for a refused connection.
    fpm = Fpm(folder, PAGES, tcp=True)
    places["backend"] = f"{ALWAYS}\n    {places.get('backend', '')}"
    return build(fpm).serve(docroot=fpm.root, app=APP, **places), fpm


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_restart_of_php_fpm_harms_only_requests_that_had_begun(build, folder, number):
    world, fpm = own_site(build, folder, backend="retries 10\n    timeout connect 500ms", server="maxconn 4")
    with Load(world.ask) as load:
        for _ in range(2):
            done = load.done
            assert wait_until(lambda: load.done > done + 20, 10)
            fpm.restart(number)
    # Those in its workers when it stopped, and those that it had not accepted yet: of each restart not more than two for each client.
    assert load.done > 40 and len(load.failed) <= 2 * 2 * 4, load.failed
    # 0 is a connection closed without an answer, as for HTTP servers with a kept connection that dies under a request.
    assert all(answer.status in (0, 502) for _, answer in load.failed), load.failed


def test_a_restart_of_php_fpm_harms_nothing_with_retry_on(build, folder):
    """A request for a page without output may be repeated if `retry-on` allows it."""
    world, fpm = own_site(build, folder, server="maxconn 4",
                          backend="retries 10\n    retry-on conn-failure empty-response response-timeout 502\n    timeout connect 500ms")
    with Load(world.ask) as load:
        for _ in range(2):
            done = load.done
            assert wait_until(lambda: load.done > done + 20, 10)
            fpm.restart()
    assert load.done > 40 and len(load.failed) <= world.want(0, 2 * 2 * 4, "retries on kept connections"), load.failed
    assert all(answer.status == 0 for _, answer in load.failed)


def test_redispatch_to_another_php_fpm(build, folder):
    from lib.program import Folder
    with Folder() as other, Fpm(other, PAGES) as second:
        world, fpm = own_site(build, folder)
        world.program.__exit__()
        world.serve(docroot=fpm.root, app=APP, backend=f"{ALWAYS}\n    option redispatch 1\n    retries 3\n    balance roundrobin",
                    servers=f"server s {{address}} proto fcgi\n    server t {second.address} proto fcgi")
        with Load(world.ask) as load:
            assert wait_until(lambda: load.done > 20)
            fpm.stop(signal.SIGQUIT)
            assert wait_until(lambda: load.done > 200 or not load.threads[0].is_alive(), 20)
    assert load.done > 100 and len(load.failed) <= 4, load.failed


# Reloads of the program.

def test_reloads_under_load(request, build, folder):
    world, fpm = own_site(build, folder)
    world.program.__exit__()
    world.program = None
    path = f"{world.folder.path}/weir.cfg"
    text = re.sub(r"stats socket .*\n", "", open(path).read())
    if world.haproxy:
        pytest.skip("a copy of HAProxy outside its package finds its libraries only at its first start; 2.6 crashes")
    with Master(world.binary, world.folder, world.folder.file("weir.cfg", text)) as master:
        master.served()
        with Load(world.ask) as load:
            for count in range(2, 5):
                assert wait_until(lambda: load.done > count * 20)
                os.kill(master.pid, signal.SIGUSR2)
                master.served(count)
            assert wait_until(lambda: len(master.workers()) == 1, 10)
    assert not load.failed and load.done > 80
