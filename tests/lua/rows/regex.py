"""The class Regex."""
from lua.rows import Row

MANUAL = 'Regex.new("needle (..) (...)", true)'


def regex(name, pattern, code, want=None, case="true"):
    return Row(name, f"(function() local ok, r = Regex.new({pattern}, {case}) {code} end)()", want)


ROWS = [
    Row("members of the class", "type(Regex.new), type(Regex.exec), type(Regex.match)"),
    regex("new", '"a"', "return ok, type(r), tostring(r)"),
    regex("exec", '"needle (..) (...)"', 'return r:exec("Looking for a needle in the haystack"), r:exec("Lokking for a cat in the haystack")', "true, false"),
    regex("match: the example of the manual", '"needle (..) (...)"', 'return r:match("Looking for a needle in the haystack")', 'true, {[1]="needle in the", [2]="in", [3]="the"}'),
    regex("match: no match", '"x"', 'return r:match("a")'),
    regex("match: no groups", '"a+"', 'return r:match("baac")', 'true, {[1]="aa"}'),
    regex("match: an unused group", '"a(x)?(b)"', 'return r:match("ab")'),
    regex("match: an unused last group", '"a(x)?"', 'return r:match("a")'),
    regex("match: 25 groups", '("(a)"):rep(25)', 'local ok, t = r:match(("a"):rep(25)) return ok, #t'),
    regex("match: an empty text", '"^$"', 'return r:match("")'),
    regex("match: binary", '"a"', 'return r:match("\\0a\\255")'),
    regex("exec: a NUL", '"b"', 'return r:exec("a\\0b")'),
    regex("case: insensitive", '"ABC"', 'return r:exec("abc")', "true", case="false"),
    regex("case: sensitive", '"ABC"', 'return r:exec("abc")', "false"),
    regex("case: nil", '"ABC"', 'return r:exec("abc")', case="nil"),
    regex("case: a number", '"ABC"', 'return r:exec("abc")', case="0"),
    regex("a bad expression", '"("', "return ok, r"),
    regex("an empty expression", '""', 'return ok, r:exec("a")'),
    regex("PCRE: lookahead", '"a(?=b)"', 'return r:match("ab")'),
    regex("PCRE: UTF-8", '"^.$"', 'return r:exec("\\195\\169")'),
    regex("PCRE: named group", '"(?<x>a)"', 'return r:match("a")'),
    regex("a long text", '"x$"', 'return r:exec(("a"):rep(20000) .. "x")'),
    *(Row(f"new({arguments})", f"Regex.new({arguments})") for arguments in ("", '"a"', "nil, true", "5, true", "{}, true", '"a", true, 1')),
    *(regex(f"exec({arguments})", '"a"', f"return r:exec({arguments})") for arguments in ("", "nil", "5", "{}", '"a", 1')),
    *(regex(f"match({arguments})", '"a"', f"return r:match({arguments})") for arguments in ("", "nil", "5", '"a", 1')),
    *(Row(f"new in {place}", '(function() local ok, r = Regex.new("a", true) return ok, r:exec("a") end)()', "true, true", place=place) for place in ("body", "init", "fetch", "converter", "task")),
    Row("collected", 'true', "true", registration='for i = 1, 100 do Regex.new("a" .. i, true) end collectgarbage()'),
]
