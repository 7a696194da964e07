"""The classes Proxy, Server and Listener."""
from lua.rows import Row

B, SPARE = "core.backends.b", "core.backends.spare"


def server(name, code, want=None, on="s6", **options):
    return Row(name, f"(function() local s = core.backends.spare.servers.{on} {code} end)()", want, **options)


def again(call, read="return r, s:get_stats().status"):
    """A server that is changed, read, and ready again."""
    return f"local r = table.pack(s:{call}) r.n = nil {read}"


STATES = ("set_drain", "set_maint", "set_ready", "check_enable", "check_disable", "check_force_up", "check_force_nolb", "check_force_down", "agent_enable", "agent_disable", "agent_force_up",
          "agent_force_down", "shut_sess")

ROWS = [
    # core's tables.
    *(Row(f"{table}: names", f"(function() local n = {{}} for k, v in pairs(core.{table}) do if k:match('^%a+$') then n[#n + 1] = k end end table.sort(n) return table.concat(n, ' ') end)()")
      for table in ("proxies", "backends", "frontends")),
    Row("backends: by name", "core.backends.b.name, core.backends['b'].name, core.backends.none", '"b", "b", nil'),
    Row("frontends and backends are apart", "core.backends.f, core.frontends.b, type(core.proxies.f), type(core.proxies.b)", 'nil, nil, "table", "table"'),
    Row("one object", "rawequal(core.backends.b, core.proxies.b), rawequal(core.backends.b, core.backends.b)"),
    Row("backends: length", "#core.backends"),
    Row("backends: assigned", "pcall(function() core.backends.b = 5 end)"),
    *(Row(f"backends in {place}", "type(core.backends.b)", place=place) for place in ("init", "task", "fetch", "converter", "http-service")),
    Row("backends in the body", "type(core.backends), core.backends and core.backends.b", place="body"),

    # Proxy.
    Row("proxy: class", f"tostring({B})"),
    Row("proxy: members", f"(function() local n = {{}} for k in pairs({B}) do n[#n + 1] = tostring(k) end table.sort(n) return table.concat(n, ' ') end)()"),
    Row("proxy: name", f"{B}.name", '"b"'),
    Row("proxy: uuid", f"{B}.uuid", '"52"'),
    Row("proxy: get_name", f"{B}:get_name()", '"b"', since="3.2"),
    Row("proxy: get_uuid", f"{B}:get_uuid()", '"52"', since="3.2"),
    Row("proxy: get_name with an argument", f"{B}:get_name(1)", since="3.2"),
    Row("proxy: get_cap", f"{B}:get_cap(), core.frontends.f:get_cap()", '"backend", "frontend"'),
    Row("proxy: get_mode", f"{B}:get_mode(), core.backends.tb:get_mode()", '"http", "tcp"'),
    Row("proxy: get_srv_act", f"{SPARE}:get_srv_act()", since="3.2"),
    Row("proxy: get_srv_bck", f"{SPARE}:get_srv_bck()", "1", since="3.2"),
    Row("proxy: get_mailers", f"({B}:get_mailers())", "nil", since="3.2"),
    Row("proxy: servers", f"(function() local n = {{}} for k in pairs({SPARE}.servers) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()", '"s1 s2 s3 s4 s5 s6"'),
    Row("proxy: servers of a frontend", "(function() local n = 0 for _ in pairs(core.frontends.f.servers) do n = n + 1 end return n end)()"),
    Row("proxy: listeners", "(function() local n = {} for k, v in pairs(core.frontends.f.listeners) do n[k] = tostring(v) end return n end)()"),
    Row("proxy: listeners without a name", "(function() local n = 0 for k in pairs(core.frontends.t.listeners) do n = n + 1 end return n end)()"),
    Row("proxy: listeners of a backend", f"(function() local n = 0 for _ in pairs({B}.listeners) do n = n + 1 end return n end)()"),
    Row("proxy: stktable", f"tostring({SPARE}.stktable), {B}.stktable"),
    Row("proxy: get_stats", f"(function() local t = {B}:get_stats() return t.pxname, t.svname, t.type, math.type(t.stot), t.status end)()"),
    Row("proxy: get_stats, names", f"(function() local n = {{}} for k, v in pairs({B}:get_stats()) do n[k] = math.type(v) or type(v) end return n end)()"),
    Row("proxy: get_stats of a frontend", "(function() local t = core.frontends.f:get_stats() return t.pxname, t.svname, t.status end)()"),
    Row("proxy: pause and resume", "(function() local p = core.frontends.lists local a = table.pack(p:pause()) local s = p:get_stats().status local b = table.pack(p:resume()) "
        "return a.n, s, b.n, p:get_stats().status end)()"),
    Row("proxy: shut_bcksess", f"{SPARE}:shut_bcksess()"),
    Row("proxy: unknown member", f"{B}.nothing"),
    Row("proxy: assigned", f"pcall(function() {B}.mine = 5 return {B}.mine end)"),
    *(Row(f"proxy: {name} with another object", f"pcall({B}.{name}, {{}})") for name in ("get_cap", "get_stats", "pause")),

    # Server.
    server("server: class", "return tostring(s)"),
    server("server: members", "local n = {} for k in pairs(s) do n[#n + 1] = tostring(k) end table.sort(n) return table.concat(n, ' ')"),
    server("server: name", "return s.name", '"s6"'),
    Row("server: puid", f"{B}.servers.s.puid", '"53"'),
    server("server: get_name", "return s:get_name()", '"s6"', since="3.2"),
    Row("server: get_puid", f"{B}.servers.s:get_puid()", '"53"', since="3.2"),
    server("server: get_rid", "return s:get_rid()", since="3.2"),
    server("server: get_proxy", "return s:get_proxy():get_name()", '"spare"', since="3.2"),
    server("server: is_backup", "return s:is_backup(), core.backends.spare.servers.s2:is_backup()", "false, true", since="3.2"),
    server("server: is_dynamic", "return s:is_dynamic()", "false", since="3.2"),
    server("server: is_draining", "return s:is_draining()", "false"),
    server("server: get_cur_sess", "return s:get_cur_sess(), s:get_pend_conn()", "0, 0", since="3.2"),
    server("server: tracking", "return core.backends.spare.servers.s3:tracking():get_name(), s:tracking()", '"s4", nil', since="3.2"),
    server("server: get_trackers", "local t = core.backends.spare.servers.s4:get_trackers() return #t, t[1] and t[1]:get_name(), #s:get_trackers()", '1, "s3", 0', since="3.2"),
    server("server: get_addr", "return (s:get_addr():gsub(':%d+$', ':PORT'))", '"127.0.0.6:PORT"'),
    server("server: get_weight", "return s:get_weight(), core.backends.spare.servers.s1:get_weight()", "1, 10"),
    server("server: get_maxconn", "return s:get_maxconn(), core.backends.spare.servers.s1:get_maxconn()", "0, 20"),
    *(server(f"server: set_weight({value})", f"local r = table.pack(pcall(s.set_weight, s, {value})) r.n = nil local w = s:get_weight() s:set_weight('1') return r, w")
      for value in ("'5'", "5", "'50%'", "'0'", "'256'", "'257'", "'-1'", "'x'", "''", "nil", "5.5", "{}")),
    *(server(f"server: set_maxconn({value})", f"local r = table.pack(pcall(s.set_maxconn, s, {value})) r.n = nil local m = s:get_maxconn() s:set_maxconn('0') return r, m")
      for value in ("'5'", "5", "'x'", "'-1'", "'0'", "nil")),
    *(server(f"server: set_addr({value})", f"local r = table.pack(pcall(s.set_addr, s, {value})) r.n = nil local a = s:get_addr() s:set_addr('127.0.0.6', settings.dead) return r, a")
      for value in ("'127.0.0.7'", "'127.0.0.7', 80", "'127.0.0.7', '81'", "'x'", "'127.0.0.7', 'x'", "'::1', 80", "nil", "'127.0.0.7:80'", "'127.0.0.7', 100000")),
    *(server(f"server: {name}", again(f"{name}()")) for name in STATES),
    *(server(f"server: {name} on a checked server", again(f"{name}()") , on="s4") for name in ("check_disable", "check_enable", "check_force_down", "check_force_up", "check_force_nolb")),
    server("server: ready again", again("set_ready()", "s:check_force_up() return s:get_stats().status"), on="s4"),
    server("server: drain and ready", "s:set_drain() local a, b = s:is_draining(), s:get_stats().status s:set_ready() return a, b, s:is_draining(), s:get_stats().status"),
    server("server: maint and ready", "s:set_maint() local a = s:get_stats().status s:set_ready() return a, s:get_stats().status", '"MAINT", "no check"'),
    server("server: get_stats", "local t = s:get_stats() return t.pxname, t.svname, t.status, t.weight, t.type, math.type(t.stot)"),
    server("server: get_stats of a disabled one", "return s:get_stats().status", '"MAINT"', on="s5"),
    server("server: get_stats, names", "local n = {} for k, v in pairs(s:get_stats()) do n[k] = math.type(v) or type(v) end return n"),
    server("server: unknown member", "return s.nothing"),
    *(server(f"server: {name} with an argument too many", f"return pcall(s.{name}, s, 1, 2, 3)") for name in ("get_weight", "set_drain", "get_stats", "is_draining")),
    *(server(f"server: {name} of another object", f"return pcall(s.{name}, {{}})") for name in ("get_weight", "set_maint")),
    server("server: in a fetch", "return s:get_weight()", "1", place="fetch"),

    # Listener.
    Row("listener: class", "tostring(core.frontends.f.listeners.plain)"),
    Row("listener: get_stats", "(function() local t = core.frontends.f.listeners.plain:get_stats() return t.pxname, t.svname, t.status, t.type end)()"),
    Row("listener: get_stats, names", "(function() local n = {} for k, v in pairs(core.frontends.f.listeners.plain:get_stats()) do n[k] = math.type(v) or type(v) end return n end)()"),
    Row("listener: get_stats with a dot", "core.frontends.f.listeners.plain.get_stats()"),
]
