"""How the path becomes script, path info and file: `index`, `path-info`, and paths that try to leave the document root."""
import pytest

PATH_INFO = r"path-info ^(/.+\.php)(/.*)?$"


def parts(params):
    """Script, path info, file and translated path."""
    return tuple(params.get(name) for name in ("SCRIPT_NAME", "PATH_INFO", "SCRIPT_FILENAME", "PATH_TRANSLATED"))


# path: script, path info.
SPLIT = [
    ("/a.php", "/a.php", None),
    ("/a.php?x=/b.php/c", "/a.php", None),
    ("/a.php?", "/a.php", None),
    ("/a.php/", "/a.php", "/"),
    ("/a.php/x/y", "/a.php", "/x/y"),
    ("/a.php//x", "/a.php", "//x"),
    ("/a.php/x.php", "/a.php/x.php", None),
    ("/a.php/x.php/y", "/a.php/x.php", "/y"),
    ("//a.php", "//a.php", None),
    ("/dir/a.php/x?q", "/dir/a.php", "/x"),
    ("/x.txt", "/x.txt", None),
    ("/dir", "/dir", None),
    ("/dir/", "/dir/index.php", None),
    ("/", "/index.php", None),
    ("/a.phpx", "/a.phpx", None),
    # Decoded once, before the match.
    ("/a%2fb.php", "/a/b.php", None),
    ("/a.php%2fx", "/a.php", "/x"),
    ("/a%2ephp/x", "/a.php", "/x"),
    ("/a.php/%252f", "/a.php", "/%2f"),
    ("/a.php/%41%c3%a9", "/a.php", "/A\xc3\xa9"),
    ("/a%20b.php/c%20d", "/a b.php", "/c d"),
    ("/a+b.php", "/a+b.php", None),
    ("/a%0d.php", "/a\r.php", None),
    ("/a.php/x?%00%0a", "/a.php", "/x"),
    # Segments of dots are the application's matter, as for HTTP servers.
    ("/a.php/../b", "/a.php", "/../b"),
    ("/../a.php/x", "/../a.php", "/x"),
    ("/..%2fa.php", "/../a.php", None),
]


@pytest.mark.parametrize("path, script, info", SPLIT)
def test_path_info_splits_the_path(build, path, script, info):
    world = build().serve(app=f"index index.php\n    {PATH_INFO}")
    params = world.params(path)
    assert parts(params) == (script, info, "/srv/www" + script, info and "/srv/www" + info)
    # The request target stays as received.
    assert params["REQUEST_URI"] == path


@pytest.mark.parametrize("path", ["/%00", "/a.php%00.jpg", "/a.php/%00", "/a.php/%0a", "/%0aa.php", "/a.php/x%0Ay"])
def test_path_info_refuses_nul_and_line_ends(build, path):
    """The expression would not see the bytes after them."""
    world = build().serve(app=PATH_INFO)
    status = world.ask(path).status
    assert status in world.want({400, 500}, {500}, "path error")
    assert not any(request.items for request in world.application.requests)
    # The next request is not affected.
    assert world.params("/a.php/x")["PATH_INFO"] == "/x"


@pytest.mark.parametrize("path", ["/a.php/%zz", "/%", "/a.php/%4"])
def test_invalid_percent_encodings_are_refused(build, path):
    world = build().serve(app=PATH_INFO)
    assert world.ask(path).status in world.want({400, 500}, {500}, "path error")
    assert not any(request.items for request in world.application.requests)


@pytest.mark.parametrize("path", ["/a.php%00", "/a.php%00.txt", "/%00", "/a%zz", "/%"])
def test_paths_that_applications_would_read_differently_are_refused(build, path):
    """An application takes a NUL for the end of the path: rules would have seen another one."""
    world = build().serve()
    assert world.ask(path).status in world.want({400}, {500}, "path error")
    assert not any(request.items for request in world.application.requests)


def test_the_log_line_of_a_refused_path(build):
    world = build().serve(app=PATH_INFO)
    status = world.ask("/a.php/%00").status
    logged = world.logged()
    assert (logged.status, logged.flags) in world.want({(400, "PR--"), (400, "PH--"), (500, "PR--"), (500, "IH--")}, {(500, "IH--")}, "path error")
    assert logged.status == status


WITHOUT = [("/a.php/x", "/a.php/x"), ("/dir/", "/dir/index.php"), ("/", "/index.php"), ("/a%2fb%20c", "/a/b c"), ("/x?y", "/x")]


@pytest.mark.parametrize("path, script", WITHOUT)
def test_without_path_info_the_script_is_the_path(build, path, script):
    assert parts(build().serve(app="index index.php").params(path)) == (script, None, "/srv/www" + script, None)


@pytest.mark.parametrize("path", ["/", "/dir/"])
def test_without_index_a_directory_stays(build, path):
    assert parts(build().serve().params(path)) == (path, None, "/srv/www" + path, None)


@pytest.mark.parametrize("root", ["/", "/srv/www/", "relative/dir"])
def test_the_document_root_is_only_a_prefix(build, root):
    params = build().serve(docroot=root).params("/a.php")
    assert (params["DOCUMENT_ROOT"], params["SCRIPT_FILENAME"]) == (root, root + "/a.php")


def test_an_expression_with_one_group_ignores_the_rest(build):
    world = build().serve(app=r"path-info ^(/.+\.php)")
    assert parts(world.params("/a.php/x/y")) == ("/a.php", None, "/srv/www/a.php", None)


def test_an_expression_that_matches_inside_the_path(build):
    world = build().serve(app=r"path-info (/[a-z]+\.php)(/.*)?$")
    assert parts(world.params("/UP/a.php/x")) == ("/a.php", "/x", "/srv/www/a.php", "/srv/www/x")


def test_a_script_set_by_the_application_section(build):
    """A front controller: all paths lead to one script."""
    world = build().serve(app="set-param SCRIPT_NAME /index.php\n    set-param SCRIPT_FILENAME %[fcgi.docroot]/index.php\n    set-param PATH_INFO %[path]")
    params = world.params("/shop/7?x=1")
    assert parts(params)[:3] == ("/index.php", "/shop/7", "/srv/www/index.php")
    assert params["REQUEST_URI"] == "/shop/7?x=1"
