"""What `fcgi-app` sections, `use-fcgi-app` and `proto fcgi` accept, by `-c`."""
import pytest

from lib.program import run

BASE = """defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend f
    bind 127.0.0.1:1
    default_backend b
"""
BACKEND = """backend b
    use-fcgi-app app
    server s 127.0.0.1:9 proto fcgi
"""
SECTION = """fcgi-app app
    docroot /srv/www
"""


def status(request, folder, text):
    """The exit status and the output of `-c`."""
    program = request.config.getoption("haproxy") or request.getfixturevalue("binary")
    code, output, errors = run(program, "-c", "-f", folder.file("a.cfg", text))
    return code, output + errors


def app(*lines):
    """A configuration with these lines in the section."""
    return BASE + BACKEND + SECTION + "".join(f"    {line}\n" for line in lines)


ACCEPTED = {
    "the_section_after_its_use": app(), "the_section_before_its_use": SECTION + BASE + BACKEND, "a_section_without_use": app() + "fcgi-app z\n    docroot /e\n",
    "the_last_docroot": app("docroot /e"), "a_relative_docroot": BASE + BACKEND + "fcgi-app app\n    docroot d\n",
    "index_with_slashes": app("index /a/b.php"), "path_info_with_three_groups": app("path-info ^(/.)(.)(.)"),
    "path_info_with_names": app("path-info ^(?<script>/.+)(?<info>/.*)$"), "max_reqs_of_one": app("option max-reqs 1"),
    "many_max_reqs": app("option mpxs-conns", "option max-reqs 99999"),
    "no_options": app("no option keep-conn", "no option mpxs-conns", "no option get-values"),
    "options": app("option keep-conn", "option mpxs-conns", "option get-values", "option max-reqs 100"),
    "a_predefined_acl": app("set-param X y if METH_GET"), "anonymous_acls": app("set-param X y if { path /a }", "pass-header Authorization unless { path /b }"),
    "an_acl_of_the_section": app("acl a path /a", "set-param X y if a !a || a"), "a_set_param_of_a_log_format": app('set-param X "%ci:%cp %[path] %H"'),
    "log_stderr": app("log-stderr 127.0.0.1:9 len 2000 format rfc5424 sample 1:2 local0 err"), "log_stderr_global": app("log-stderr global"),
    "a_listen_section": SECTION + BASE.replace("frontend f", "listen f").replace("default_backend b", "use-fcgi-app app\n    server s 127.0.0.1:9 proto fcgi"),
    "default_server": BASE + "backend b\n    use-fcgi-app app\n    default-server proto fcgi\n    server s 127.0.0.1:9\n" + SECTION,
    "a_filter_that_names_the_application": BASE + BACKEND + "    filter fcgi-app app\n" + SECTION,
    "a_filter_without_use": BASE + "backend b\n    filter fcgi-app app\n    server s 127.0.0.1:9 proto fcgi\n" + SECTION,
    "compression": BASE + BACKEND + "    filter compression\n    compression algo gzip\n" + SECTION,
    "tls_to_the_application": app().replace("proto fcgi", "proto fcgi ssl verify none"),
    "mixed_servers": app().replace("proto fcgi\n", "proto fcgi\n    server h 127.0.0.1:8\n"),
}

REFUSED = {
    "no_docroot": (BASE + BACKEND + "fcgi-app app\n    index x\n", "docroot"), "an_unknown_application": (BASE + BACKEND, "app"),
    "a_server_without_an_application": (BASE + "backend b\n    server s 127.0.0.1:9 proto fcgi\n" + SECTION, "s"),
    "an_application_without_a_server": (BASE + "backend b\n    use-fcgi-app app\n    server s 127.0.0.1:9\n" + SECTION, "app"),
    "two_applications": (app().replace("use-fcgi-app app", "use-fcgi-app app\n    use-fcgi-app z") + "fcgi-app z\n    docroot /e\n", "use-fcgi-app"),
    "a_name_twice": (app() + SECTION, "app"), "docroot_without_a_path": (app("docroot"), "docroot"), "index_without_a_name": (app("index"), "index"),
    "path_info_without_an_expression": (app("path-info"), "path-info"), "path_info_of_an_invalid_expression": (app("path-info ^(/.+"), "^(/.+"),
    "max_reqs_of_zero": (app("option mpxs-conns", "option max-reqs 0"), "max-reqs"),
    "max_reqs_of_letters": (app("option mpxs-conns", "option max-reqs abc"), "max-reqs"), "no_max_reqs": (app("no option max-reqs 3"), "max-reqs"),
    "an_unknown_option": (app("option foo"), "foo"), "an_unknown_word": (app("foo bar"), "foo"),
    "an_acl_of_a_proxy": (app("set-param X y if p").replace("    bind", "    acl p path /a\n    bind"), "p"),
    "an_acl_of_the_section_in_a_proxy": (app("acl a path /a").replace("proto fcgi\n", "proto fcgi\n    http-request deny if a\n"), "a"),
    "an_unknown_acl": (app("set-param X y if nope"), "nope"), "an_unknown_fetch": (app("set-param X %[foo]"), "foo"),
    "a_fetch_of_responses": (app("set-param X %[res.hdr(a)]"), "res.hdr"), "set_param_without_a_value": (app("set-param X"), "set-param"),
    "pass_header_without_a_name": (app("pass-header"), "pass-header"),
    "use_in_a_frontend": (app().replace("    bind", "    use-fcgi-app app\n    bind"), "use-fcgi-app"),
    "use_in_defaults": (app().replace("frontend f", "    use-fcgi-app app\nfrontend f"), "use-fcgi-app"),
    "tcp": (app().replace("mode http", "mode tcp"), "fcgi"), "a_listener_of_fastcgi": (app().replace("127.0.0.1:1", "127.0.0.1:1 proto fcgi"), "fcgi"),
    "no_log_stderr": (app("no log-stderr"), "negation"), "a_filter_of_another_application": (
        BASE + BACKEND + "    filter fcgi-app z\n" + SECTION + "fcgi-app z\n    docroot /e\n", "fcgi-app"),
    "a_filter_of_an_unknown_application": (BASE + BACKEND + "    filter fcgi-app nope\n" + SECTION, "fcgi-app"),
    "another_filter_without_an_order": (BASE + BACKEND + "    filter trace\n" + SECTION, "filter"),
    "a_section_without_a_name": (BASE + BACKEND + "fcgi-app\n    docroot /d\n", "fcgi-app"),
    "a_name_with_a_slash": (app().replace("-app app", "-app a/b"), "a/b"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(request, folder, name):
    code, output = status(request, folder, ACCEPTED[name])
    assert code == 0, output


@pytest.mark.parametrize("name", REFUSED)
def test_refused(request, folder, name):
    """HAProxy also crashes on the two invalid names."""
    text, word = REFUSED[name]
    code, output = status(request, folder, text)
    assert code != 0 and word in output, output
    assert request.config.getoption("haproxy") or code == 1


def test_max_reqs_without_multiplexing_is_ignored(request, folder):
    code, output = status(request, folder, app("option max-reqs 4"))
    assert "ignore the option 'max-reqs'" in output
    # "max-reqs" of differences.py.
    assert code == (1 if request.config.getoption("haproxy") else 0)
