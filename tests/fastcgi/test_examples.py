"""The example of a PHP site: doc/examples/php-site.cfg with its pool and its page, php-fpm and a web server."""
import os
import re

import pytest

from language.test_examples import EXAMPLES, configuration, get, trusting, web_server
from lib.fcgi_world import dechunk
from lib.php import Fpm
from lib.program import Folder, Program, free_port, wait_until
from lib.tls import Authority


def pool():
    """The example's pool, with the places of the tests for its address and user, and the log of php-fpm."""
    text = open(os.path.join(EXAMPLES, "php-site-pool.conf")).read()
    for old, new in {"user = www-data\n": "{user}\n", "group = www-data\n": "", "listen = 192.0.2.11:9000": "listen = {listen}",
                     "listen.allowed_clients = 192.0.2.1\n": "listen.allowed_clients = 127.0.0.1\n"}.items():
        assert old in text, old
        text = text.replace(old, new)
    assert "192.0.2." not in text
    return "[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n" + text


def page_of(port, path, **options):
    """As `get`, with the body without its chunked coding."""
    status, fields, body = get(port, path, **options)
    if fields.get("transfer-encoding") == "chunked":
        body = dechunk(body.encode())[0].decode()
    return status, fields, body


@pytest.fixture
def site(request, folder):
    """Starts the program with the example, and two php-fpm. Returns a function that asks over TLS, and both php-fpm."""
    program = os.path.abspath(request.config.getoption("haproxy") or request.getfixturevalue("binary"))
    page = open(os.path.join(EXAMPLES, "php-site.php")).read()
    with (Folder() as one, Folder() as two, Fpm(one, {"index.php": page}, tcp=True, text=pool()) as first,
          Fpm(two, tcp=True, text=pool()) as second):
        plain, secure, files = free_port(), free_port(), web_server()
        authority = Authority(folder)
        # Both have the same document root.
        text = configuration(folder, "php-site.cfg", {
            "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
            "192.0.2.11:9000": first.address, "192.0.2.12:9000": second.address, "192.0.2.21:8080": f"127.0.0.1:{files.port}",
            "docroot /srv/site": f"docroot {first.root}"})
        context = trusting(authority)
        with Program(program, "-db", "-f", folder.file("site.cfg", re.sub(r" check( |$)", r" check inter 300ms\1", text, flags=re.M))) as running:
            running.ready(plain)
            assert wait_until(lambda: get(secure, context=context)[0] == 200)
            yield lambda path="/", **options: page_of(secure, path, context=context, **options), first, second, plain, files


def test_example_php_site(site):
    ask, first, second, plain, files = site
    assert get(plain, "/x")[0] == 301
    assert ask()[2] == "Hello, 127.0.0.1. Your connection is encrypted.\n"
    # The front controller, with and without a script in the path.
    assert ask("/item/7")[2] == "item 7\n"
    assert ask("/nope")[2] == ask("/index.php/item/7")[2] == "There is no such page.\n"
    assert ask("/nope.php")[0] == 404
    os.makedirs(f"{first.root}/pictures")
    first.pages({"pictures/a.gif": "<?php echo 'ran';"})
    assert ask("/pictures/a.gif/x.php")[0] in (403, 404)
    # Files, and paths that must not run.
    assert ask("/style.css")[2] == str(files.port)
    assert [ask(path)[0] for path in ("/ping", "/status", "/uploads/x.php", "/uploads/x%2Ephp", "/uploads/x.php/a")] == [403] * 5


def test_example_php_site_survives_a_server(site):
    ask, first, second, _, _ = site
    first.stop()
    assert wait_until(lambda: all(ask("/item/1")[0] == 200 for _ in range(5)))
    first.start()
    second.stop()
    assert wait_until(lambda: all(ask("/item/1")[0] == 200 for _ in range(5)))
