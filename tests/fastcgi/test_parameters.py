"""Parameters: the defaults, the headers, and those of the application's section (manual, 10.1.1 and 10.2)."""
import re
import socket
import ssl

import pytest

from lib.origin import read_all
from lib.program import connects, free_port, wait_until
from lib.tls import Authority

# The default parameters, of a request without a body to a configuration without index and path-info.
DEFAULTS = ["GATEWAY_INTERFACE", "DOCUMENT_ROOT", "SCRIPT_NAME", "REQUEST_URI", "REQUEST_METHOD", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL",
            "REMOTE_ADDR", "REMOTE_PORT", "SCRIPT_FILENAME", "CONTENT_LENGTH", "SERVER_SOFTWARE"]


def test_default_parameters(build):
    world = build().serve()
    with world.connect() as client:
        port = client.getsockname()[1]
        world.ask("/a/b.php?q=1&b=%20", connection=client)
    request = world.application.wait_for(1)[0]
    software = request.params.pop("SERVER_SOFTWARE")
    assert re.fullmatch(r"HAProxy \d+\.\d+\S*", software)
    want = {"HTTP_HOST": "shop.test", "GATEWAY_INTERFACE": "CGI/1.1", "DOCUMENT_ROOT": "/srv/www", "SCRIPT_NAME": "/a/b.php",
            "REQUEST_URI": "/a/b.php?q=1&b=%20", "REQUEST_METHOD": "GET", "QUERY_STRING": "q=1&b=%20", "SERVER_NAME": "shop.test",
            "SERVER_PORT": str(world.port), "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": str(port),
            "SCRIPT_FILENAME": "/srv/www/a/b.php", "CONTENT_LENGTH": "0", "SERVER_SOFTWARE": software}
    assert request.params == want
    assert len(request.items) == len(want), "no parameter twice"
    assert (request.role, request.flags) == (1, 1)


def test_parameters_of_a_request_with_a_body(build):
    world = build().serve()
    params = world.params("/f", "Content-Type: text/x; charset=y", "Content-Length: 5", method="POST", body=b"hello")
    assert (params["CONTENT_TYPE"], params["CONTENT_LENGTH"], params["REQUEST_METHOD"]) == ("text/x; charset=y", "5", "POST")
    # Neither is passed a second time, as a header.
    assert not {"HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"} & set(params)


def test_parameters_without_a_value_are_not_sent(build):
    params = build().serve().params("/x")
    assert not {"QUERY_STRING", "CONTENT_TYPE", "PATH_INFO", "PATH_TRANSLATED", "AUTH_TYPE", "REMOTE_USER", "HTTPS"} & set(params)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PURGE"])
def test_methods(build, method):
    params = build().serve().params("/x", method=method)
    assert (params["REQUEST_METHOD"], params["CONTENT_LENGTH"]) == (method, "0")


@pytest.mark.parametrize("host, name", [("shop.test", "shop.test"), ("shop.test:8080", "shop.test:8080"), ("[::1]:8080", "[::1]:8080"),
                                        ("SHOP.test", "SHOP.test")])
def test_server_name_is_the_host(build, host, name):
    params = build().serve().params("/x", host=host)
    assert (params["SERVER_NAME"], params["HTTP_HOST"]) == (name, host)


@pytest.mark.parametrize("text, protocol", [(b"GET /x HTTP/1.0\r\n\r\n", "HTTP/1.0"), (b"GET /x HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", "HTTP/1.1")])
def test_server_name_without_a_host_is_the_address_of_the_listener(build, text, protocol):
    world = build().serve()
    assert world.exchange(text).status == 200
    params = world.application.last.params
    assert (params["SERVER_NAME"], params["SERVER_PROTOCOL"]) == ("127.0.0.1", protocol)
    assert not params.get("HTTP_HOST")


def test_ipv6_client(build):
    world, port = build(), free_port()
    world.serve(frontend=f"bind ::1:{port}")
    client = socket.create_connection(("::1", port), 5)
    number = client.getsockname()[1]
    assert world.exchange(b"GET /x HTTP/1.0\r\n\r\n", connection=client).status == 200
    params = world.application.last.params
    assert [params[name] for name in ("REMOTE_ADDR", "REMOTE_PORT", "SERVER_NAME", "SERVER_PORT")] == ["::1", str(number), "::1", str(port)]


def test_client_of_a_unix_socket(build):
    world = build()
    world.serve(frontend="bind unix@{folder}/front mode 666")
    client = socket.socket(socket.AF_UNIX)
    client.connect(f"{world.folder.path}/front")
    params = world.params("/x", connection=client)
    assert [params[name] for name in ("REMOTE_ADDR", "REMOTE_PORT", "SERVER_NAME", "SERVER_PORT")] == ["unix", "0", "shop.test", "0"]


def test_addresses_of_the_proxy_protocol(build):
    world, port = build(), free_port()
    world.serve(frontend=f"bind 127.0.0.1:{port} accept-proxy")
    answer = world.exchange(b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\nGET /x HTTP/1.0\r\n\r\n", connection=world.connect(port=port))
    params = world.application.last.params
    assert answer.status == 200 and "HTTPS" not in params
    assert [params[name] for name in ("REMOTE_ADDR", "REMOTE_PORT", "SERVER_NAME", "SERVER_PORT")] == ["192.0.2.1", "1000", "192.0.2.2", "443"]


def test_https(build):
    world, port = build(), free_port()
    authority = Authority(world.folder)
    world.serve(frontend=f"bind 127.0.0.1:{port} ssl crt {authority.issue('one.example')}")
    context = ssl.create_default_context(cafile=authority.certificate)
    with context.wrap_socket(world.connect(port=port), server_hostname="one.example") as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200")
    params = world.application.last.params
    assert (params["HTTPS"], params["SERVER_PORT"]) == ("on", str(port))


# Headers.

def test_headers_are_parameters_with_a_prefix(build):
    params = build().serve().params("/x", "User-Agent: u a", "accept: a, b", "X-Empty:", "X-Mixed-Case: V  v", "Cookie: a=b; c=d", "Referer: http://a/?b",
                                    "X-Latin: \xe9", "Trailer: x-t")
    assert {name: value for name, value in params.items() if name.startswith("HTTP_")} == {
        "HTTP_HOST": "shop.test", "HTTP_USER_AGENT": "u a", "HTTP_ACCEPT": "a, b", "HTTP_X_EMPTY": "", "HTTP_X_MIXED_CASE": "V  v",
        "HTTP_COOKIE": "a=b; c=d", "HTTP_REFERER": "http://a/?b", "HTTP_X_LATIN": "\xe9", "HTTP_TRAILER": "x-t"}


def test_duplicate_headers_are_passed_in_order(build):
    world = build().serve()
    world.params("/x", "X-Dup: 1", "X-Other: o", "X-Dup: 2", "Cookie: a=1", "Cookie: b=2")
    request = world.application.last
    assert request.named("HTTP_X_DUP") == ["1", "2"] and request.named("HTTP_COOKIE") == ["a=1", "b=2"]


HIDDEN = ["Authorization: Digest abc", "Proxy-Authorization: pa", "Keep-Alive: 5", "TE: trailers", "Upgrade: foo", "Proxy: http://evil/",
          "Proxy-Connection: close"]


def test_hidden_headers(build):
    params = build().serve().params("/x", *HIDDEN)
    assert {name for name in params if name.startswith("HTTP_")} <= {"HTTP_HOST", "HTTP_PROXY_CONNECTION"}


@pytest.mark.parametrize("spelling", ["Proxy", "proxy", "PROXY"])
def test_the_header_proxy_is_never_passed(build, spelling):
    """httpoxy: a script would take HTTP_PROXY for its own proxy."""
    assert "HTTP_PROXY" not in build().serve().params("/x", f"{spelling}: http://evil/")


def test_pass_header_does_not_pass_the_header_proxy(build):
    world = build().serve(app="pass-header Proxy")
    assert world.params("/x", "Proxy: http://evil/").get("HTTP_PROXY") == world.want(None, "http://evil/", "httpoxy")


@pytest.mark.parametrize("name, header, parameter", [
    ("Authorization", "Authorization: Digest abc", "HTTP_AUTHORIZATION"), ("authorization", "AUTHORIZATION: Digest abc", "HTTP_AUTHORIZATION"),
    ("Proxy-Authorization", "Proxy-Authorization: abc", "HTTP_PROXY_AUTHORIZATION"), ("Keep-Alive", "Keep-Alive: 5", "HTTP_KEEP_ALIVE"),
    ("TE", "TE: trailers", "HTTP_TE")])
def test_pass_header(build, name, header, parameter):
    assert build().serve(app=f"pass-header {name}").params("/x", header)[parameter] == header.partition(": ")[2]


def test_pass_header_with_a_condition(build):
    world = build().serve(app="acl blog path_beg /blog\n    pass-header Authorization if blog")
    assert world.params("/blog", "Authorization: Digest a").get("HTTP_AUTHORIZATION") == "Digest a"
    assert world.params("/shop", "Authorization: Digest a").get("HTTP_AUTHORIZATION") is None


def test_pass_header_never_passes_the_type_and_length_of_a_body(build):
    world = build().serve(app="pass-header Content-Type\n    pass-header Content-Length")
    params = world.params("/x", "Content-Type: a/b", "Content-Length: 2", method="POST", body=b"ab")
    assert not {"HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"} & set(params) and params["CONTENT_TYPE"] == "a/b"


@pytest.mark.parametrize("value, kind, user", [("Basic dTpw", "Basic", "u"), ("Basic dTo=", "Basic", "u"), ("Bearer abc", "Bearer", None),
                                               ("basic !!!!", None, None)])
def test_authentication(build, value, kind, user):
    params = build().serve().params("/x", f"Authorization: {value}")
    assert (params.get("AUTH_TYPE"), params.get("REMOTE_USER")) == (kind, user)
    assert "HTTP_AUTHORIZATION" not in params


ODD = ["X_Under: 1", "X.dot: 2", "X-Ok: 3", "X!a: 4", "X_Forwarded_For: evil", "X-Forwarded-For: 192.0.2.1"]


@pytest.mark.parametrize("option", ["", "option http-restrict-req-hdr-names delete"])
def test_headers_with_other_characters_are_not_passed(build, option):
    """Their parameter could be that of another header."""
    world = build().serve(backend=option)
    world.params("/x", *ODD)
    assert [(name, value) for name, value in world.application.last.items if name.startswith("HTTP_X")] == [
        ("HTTP_X_OK", "3"), ("HTTP_X_FORWARDED_FOR", "192.0.2.1")]


def test_restrict_names_preserve(build):
    world = build().serve(backend="option http-restrict-req-hdr-names preserve")
    params = world.params("/x", *ODD)
    assert [params[name] for name in ("HTTP_X_UNDER", "HTTP_X_DOT", "HTTP_X_OK", "HTTP_X_A")] == ["1", "2", "3", "4"]
    assert world.application.last.named("HTTP_X_FORWARDED_FOR") == ["evil", "192.0.2.1"]


def test_restrict_names_reject(build):
    world = build().serve(backend="option http-restrict-req-hdr-names reject")
    assert world.ask("/x", "X_Under: 1").status == 403 and not world.application.requests


def test_rules_of_the_backend_apply_first(build):
    world = build().serve(backend="http-request set-path /new%[path]\n    http-request set-query a=b\n    http-request set-header X-New n\n"
                                  "    http-request del-header X-Old\n    option forwardfor", app="set-param P %[path]")
    params = world.params("/x?z", "X-Old: 1")
    want = {"P": "/new/x", "SCRIPT_NAME": "/new/x", "SCRIPT_FILENAME": "/srv/www/new/x", "REQUEST_URI": "/new/x?a=b", "QUERY_STRING": "a=b",
            "HTTP_X_NEW": "n", "HTTP_X_FORWARDED_FOR": "127.0.0.1"}
    assert {name: params.get(name) for name in want} == want and "HTTP_X_OLD" not in params


# set-param.

def test_set_param_adds_parameters(build):
    app = 'set-param FOO bar\n    set-param lower-case x\n    set-param SPACES "a b  c"\n' \
          '    set-param MIXED "%ci|%HM|%[fcgi.docroot]|%[fcgi.index]|%f|%b|%[path,upper]"\n    index index.php'
    params = build().serve(app=app).params("/x")
    assert [params[name] for name in ("FOO", "LOWER_CASE", "SPACES")] == ["bar", "x", "a b  c"]
    assert params["MIXED"] == "127.0.0.1|GET|/srv/www|index.php|f|b|/X"


@pytest.mark.parametrize("name", sorted({*DEFAULTS, "QUERY_STRING", "PATH_INFO", "PATH_TRANSLATED", "AUTH_TYPE", "REMOTE_USER", "HTTPS",
                                         "CONTENT_TYPE"} - {"CONTENT_LENGTH", "REQUEST_METHOD", "REQUEST_URI"}))
def test_set_param_replaces_a_default(build, name):
    world = build().serve(app=f"set-param {name} mine")
    world.params("/x?q", "Authorization: Basic dTpw")
    assert world.application.last.named(name) == ["mine"]


def test_set_param_replaces_the_method(build):
    world = build().serve(app="set-param REQUEST_METHOD mine")
    world.params("/x")
    assert world.application.last.named("REQUEST_METHOD") == world.want(["mine"], ["mine", "GET"], "replaced parameters")


def test_set_param_replaces_the_target(build):
    """As front controllers need it behind a prefix."""
    world = build().serve(app="set-param REQUEST_URI /other%[path]")
    world.params("/x")
    assert world.application.last.named("REQUEST_URI") == ["/other/x"]


@pytest.mark.parametrize("value", ["7", "0", "99999"])
def test_set_param_cannot_change_the_length_of_a_body(build, value):
    """The application would wait for bytes that do not come, or take others for the next request."""
    world = build().serve(app=f"set-param CONTENT_LENGTH {value}")
    world.params("/x", "Content-Length: 5", method="POST", body=b"hello")
    named = world.application.last.named("CONTENT_LENGTH")
    assert named == world.want(["5"], ["5", value], "length of a body")


def test_set_param_of_a_header_wins(build):
    assert build().serve(app="set-param HTTP_HOST mine").params("/x")["HTTP_HOST"] == "mine"


def test_set_param_that_is_empty_keeps_the_default(build):
    params = build().serve(app="set-param DOCUMENT_ROOT %[str()]\n    set-param EMPTY %[str()]\n    set-param D %[req.hdr(nope)]").params("/x")
    assert params["DOCUMENT_ROOT"] == "/srv/www" and not {"EMPTY", "D"} & set(params)


def test_set_param_rules_apply_in_order(build):
    app = "set-param A one\n    set-param A two\n    set-param B one\n    set-param B two\n    set-param B %[str()]"
    world = build().serve(app=app)
    params = world.params("/x")
    assert world.application.last.named("A") == ["two"]
    assert params.get("B") == world.want("two", None, "empty parameter")


def test_set_param_with_conditions_of_the_application(build):
    app = """acl blog path_beg /blog
    acl old hdr(user-agent) -m sub old
    acl old path_end .old
    set-param A blog if blog
    set-param A shop unless blog
    set-param B both if blog old
    set-param C get if METH_GET
    set-param D anonymous if { path /blog/x } || { path /shop }"""
    world = build().serve(app=app)
    names = ("A", "B", "C", "D")
    assert [world.params("/blog/x.old").get(name) for name in names] == ["blog", "both", "get", None]
    assert [world.params("/shop", method="POST").get(name) for name in names] == ["shop", None, None, "anonymous"]
    assert [world.params("/blog/x", "User-Agent: very old").get(name) for name in names] == ["blog", "both", "get", "anonymous"]


def test_set_param_sees_hidden_headers(build):
    params = build().serve(app="set-param DIGEST %[req.hdr(Authorization)]").params("/x", "Authorization: Digest abc")
    assert params["DIGEST"] == "Digest abc" and "HTTP_AUTHORIZATION" not in params


# Sizes.

@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 255, 256, 12000])
def test_values_of_all_lengths(build, size):
    assert build().serve().params("/x", "X-Long: " + "v" * size)["HTTP_X_LONG"] == "v" * size


@pytest.mark.parametrize("size", [126, 127, 128, 200])
def test_names_of_all_lengths(build, size):
    assert build().serve().params("/x", "N" * size + ": v")["HTTP_" + "N" * size] == "v"


def test_ninety_headers(build):
    params = build().serve().params("/x", *[f"X-{number}: {'v' * 100}" for number in range(90)])
    assert sum(name.startswith("HTTP_X_") for name in params) == 90


@pytest.mark.parametrize("path, buffer", [("/" + "p" * 7000, 16384), ("/x?" + "q" * 14000, 16384), ("/x?" + "q" * 60000, 65536),
                                          ("/" + "p" * 60000, 65536)])
def test_parameters_above_a_buffer(build, path, buffer):
    """A path is in three parameters, a query in two."""
    world = build().serve(global_lines=f"tune.bufsize {buffer}")
    answer = world.ask(path)
    assert answer.status == world.want(200, 500, "parameters of any size")
    if answer.status == 200:
        request = world.application.last
        assert request.params["REQUEST_URI"] == path and max(request.sizes) <= 65535


def test_two_thousand_headers(build):
    world = build().serve(global_lines="tune.bufsize 65536\n    tune.http.maxhdr 3000")
    params = world.params("/x", *[f"X-{number}: {number}" for number in range(2000)])
    assert all(params[f"HTTP_X_{number}"] == str(number) for number in range(2000))


def test_set_param_above_a_buffer(build):
    world = build().serve(app="\n    ".join(f"set-param P{number} %[path]" for number in range(20)))
    answer = world.ask("/" + "p" * 2000)
    assert answer.status == world.want(200, 500, "parameters of any size")
    if answer.status == 200:
        assert all(world.application.last.params[f"P{number}"] == "/" + "p" * 2000 for number in range(20))


def test_a_unix_application(build, folder):
    from lib.fastcgi import Application
    world = build(Application(path=f"{folder.path}/app")).serve()
    assert world.params("/x")["REMOTE_ADDR"] == "127.0.0.1"


def test_an_application_over_tls(build):
    """FastCGI over TLS is only a transport of records."""
    world = build()
    port, authority = free_port(), Authority(world.folder)
    world.serve(sections=f"listen tls\n    mode tcp\n    bind 127.0.0.1:{port} ssl crt {authority.issue('app.example')}\n    server a {{address}}",
                servers=f"server s 127.0.0.1:{port} proto fcgi ssl verify none")
    assert wait_until(lambda: connects(port))
    assert world.params("/x")["SCRIPT_NAME"] == "/x"
