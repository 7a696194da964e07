"""Actions: where they can stand, their arguments, their results, and registration."""
from lua.rows import Row, request

CODES = ("CONTINUE", "STOP", "YIELD", "ERROR", "DONE", "DENY", "ABORT", "INVALID")
CLIENT = ("client", "log")

BAD_GATEWAY = (r"HTTP/1.1 502 Bad Gateway\ncache-control: no-cache\nconnection: close\ncontent-length: 107\ncontent-type: text/html\nx-backend-after: 1\nx-frontend-after: 1"
               r"\n\n<html><body><h1>502 Bad Gateway</h1>\nThe server returned an invalid or incomplete response.\n</body></html>\n")

# act.YIELD is tried with a wake time, and once, so that the row ends.
AGAIN = "if not again_{} then again_{} = true; show('first'); act.wake_time(20); return act.YIELD end show('second') return act.CONTINUE"

ROWS = [
    *(Row(f"act.{name}", f"act.{name}", str(value)) for value, name in enumerate(CODES)),
    Row("act: other names", "act.NOTHING", "nil"),
    Row("act:wake_time as a method", "act:wake_time(10)", "nothing", manual="The manual writes a colon; HAProxy takes the class for an argument too many."),
    Row("act.wake_time", "act.wake_time(10)"),
    Row("act.wake_time without argument", "act.wake_time()"),
    Row("act.wake_time with a text", 'act.wake_time("x")'),
    Row("act.wake_time with zero", "act.wake_time(0)"),
    Row("act.wake_time with a negative number", "act.wake_time(-5)"),
    Row("act.wake_time in a fetch", "act.wake_time(10)", place="fetch"),

    # The effect of each code, in each ruleset.
    *(Row(f"{place} returns act.{name}", f"return act.{name}", place=place, raw=True, see=("client", "server", "log"))
      for place in ("http-req", "http-res", "http-after-res", "tcp-req-http") for name in CODES if name != "YIELD" and (place, name) != ("http-res", "DENY")),
    Row("http-res returns act.DENY", "return act.DENY", [f"client: {BAD_GATEWAY}"], place="http-res", raw=True, see=CLIENT,
        manual="The manual says 502. HAProxy 3.2 answers 200 with its page `Service ready.`"),
    *(Row(f"{place} returns act.{name}", f"return act.{name}", place=place, raw=True, see=("client", "log"), sent=b"question\n",
          peer=(("read", 4), b"answer\n", "shut", "eof")) for place in ("tcp-req", "tcp-res") for name in CODES if name != "YIELD"),
    *(Row(f"{place} returns act.YIELD once", AGAIN.format(number, number), place=place, raw=True, see=("client", "log"))
      for number, place in enumerate(("http-req", "http-res", "http-after-res", "tcp-req-http"))),
    *(Row(f"{place} returns act.YIELD once", AGAIN.format(place[-3:], place[-3:]), place=place, raw=True, see=("client", "log"), sent=b"question\n",
          peer=(("read", 4), b"answer\n", "shut", "eof")) for place in ("tcp-req", "tcp-res")),
    *(Row(f"http-req returns {value}", f"return {value}", raw=True, see=CLIENT)
      for value in ("nil", '"text"', '"5"', "5.0", "5.5", "8", "-1", "100", "true", "false", "{}", "1, 5")),
    Row("the rest of the ruleset runs after act.CONTINUE", "return act.CONTINUE", raw=True, see=("server",)),

    # Arguments.
    Row("arguments", "a, b, c", '"one", "%[path]", nil', place="arguments"),
    Row("number of values", "select('#', ...)", "3", place="arguments"),
    Row("the first value is the transaction", "type(txn), type(txn.f)", '"table", "table"', place="arguments"),
    Row("without arguments", "select('#', ...)", "1"),
    Row("the same transaction object in both rules", "rawequal(txn, txn)"),
    # One name in several rulesets.
    Row("one name in several rulesets", "show('ran')", place="rules", raw=True, see=(), registration="""
core.register_action("several", {"http-req", "http-res", "tcp-req"}, function(txn) show("several") end)""",
        frontend="http-request lua.several {if}\nhttp-response lua.several {if}\ntcp-request content lua.several {if}"),
    Row("ten arguments", "0", place="rules", raw=True, see=(), registration="""
core.register_action("ten", {"http-req"}, function(txn, ...) show(...) end, 10)""",
        frontend="http-request lua.ten 1 2 3 4 5 6 7 8 9 10 {if}"),
    Row("optional arguments with a negative count", "pcall(core.register_action, 'negative', {'http-req'}, function() end, -1)", place="body"),

    # Registration.
    *(Row(f"register_action {arguments}", f"core.register_action({arguments})", place="body") for arguments in (
        "", '"a"', '"a", {"http-req"}', '"a1", {"http-req"}, function() end', '"a2", {}, function() end', '"a3", {"nowhere"}, function() end',
        '"a4", "http-req", function() end', '"a5", {"http-req"}, "text"', '"a6", {"http-req"}, nil', '5, {"http-req"}, function() end',
        '"a7", {"http-req"}, function() end, "x"', '"a8", {"http-req"}, function() end, 1, 2', '"a 9", {"http-req"}, function() end',
        '"", {"http-req"}, function() end', '"a10", {"http-req", "http-req"}, function() end', '"a11", {5}, function() end',
        '"a12", {"HTTP-REQ"}, function() end', 'nil, {"http-req"}, function() end', '"a13", {["x"] = "http-req"}, function() end',
        '"a14", {"http-req", "nowhere"}, function() end', '"a15", {"http-after-res"}, function() end', '"a16", {"quic-initial"}, function() end')),
    Row("register_action twice", 'core.register_action("twice", {"http-req"}, function() end)', place="body",
        registration='core.register_action("twice", {"http-req"}, function() end)'),
    *(Row(f"register_action in {place}", 'core.register_action("late", {"http-req"}, function() end)', place=place)
      for place in ("init", "task", "http-req", "fetch", "converter", "http-service")),

    # State.
    Row("globals last", "counter = (counter or 0) + 1; show(counter)", ["1", "2", "3"], raw=True, sent=[request()] * 3),
    Row("locals do not last", "local n = (n or 0) + 1; show(n)", ["1", "1"], raw=True, sent=[request()] * 2),
    Row("upvalues last", "closure = closure or (function() local n = 0 return function() n = n + 1 return n end end)(); show(closure())", ["1", "2"],
        raw=True, sent=[request()] * 2),
    Row("a transaction kept after its end", "if kept then show(pcall(function() return kept.f:path() end)) else kept = txn; show('kept') end", raw=True,
        sent=[request(path="/first"), request(path="/second")], manual="Not defined. weir gives a Lua error (an object must not outlive its stream)."),
    Row("an action in a backend's rules", "show(txn.f:be_name())", place="rules", raw=True, see=(), registration="""
core.register_action("in_backend", {"http-req"}, function(txn) show(txn.f:be_name(), txn.f:fe_name()) end)""", backend="http-request lua.in_backend {if}"),
]
