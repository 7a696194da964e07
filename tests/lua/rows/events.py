"""Events of servers, and the classes EventSub and ServerEvent."""
from lua.rows import Row


def events(name, families, change, want=None, on="core", fields="data.name, data.proxy_name, data.reference and data.reference:get_name()", server="s6", **options):
    """A row that subscribes, changes a server, waits and unsubscribes."""
    subject = "core.event_sub(" if on == "core" else "s:event_sub("
    return Row(name, f"(function() local t = {{}} local s = core.backends.spare.servers.{server} local sub = {subject}{{{families}}}, function(event, data, sub, when) "
               f"t[#t + 1] = table.pack(event, {fields}) t[#t].n = nil end) {change} core.msleep(30) sub:unsub() s:set_ready() core.msleep(10) return t end)()", want, since="3.2", **options)


ROWS = [
    Row("event_sub", "type(core.event_sub)", '"function"', since="3.2"),
    events("SERVER_DOWN by maintenance", "'SERVER_DOWN'", "s:set_maint()", '{[1]={[1]="SERVER_DOWN", [2]="s6", [3]="spare", [4]="s6"}}'),
    events("SERVER_UP", "'SERVER_UP'", "s:set_maint() core.msleep(5) s:set_ready()", '{[1]={[1]="SERVER_UP", [2]="s6", [3]="spare", [4]="s6"}}'),
    events("SERVER_DOWN of one server", "'SERVER_DOWN'", "s:set_maint()", '{[1]={[1]="SERVER_DOWN", [2]="s6", [3]="spare", [4]="s6"}}', on="server"),
    events("one server does not see another", "'SERVER_DOWN'", "core.backends.spare.servers.s1:set_maint() core.msleep(5) core.backends.spare.servers.s1:set_ready()", "{}", on="server"),
    events("SERVER_ADMIN", "'SERVER_ADMIN'", "s:set_drain()", fields="data.admin"),
    events("SERVER_ADMIN: maintenance", "'SERVER_ADMIN'", "s:set_maint()", fields="data.admin"),
    events("SERVER_STATE", "'SERVER_STATE'", "s:set_maint()", fields="data.state"),
    events("SERVER_STATE: up", "'SERVER_STATE'", "s:set_maint() core.msleep(5) s:set_ready()", fields="data.state.old_state, data.state.new_state, data.state.requeued"),
    events("SERVER_STATE: members", "'SERVER_STATE'", "s:set_maint()", '{[1]={[1]="SERVER_STATE", [2]=true, [3]="nil", [4]="string", [5]="RUNNING", [6]="STOPPED", [7]=0}}',
           fields="data.state.admin, type(data.state.check), type(data.state.cause), data.state.old_state, data.state.new_state, data.state.requeued"),
    events("SERVER_ADMIN: members", "'SERVER_ADMIN'", "s:set_maint()", fields="type(data.admin.cause), data.admin.old_admin, data.admin.new_admin, data.admin.requeued"),
    events("members of the data", "'SERVER_DOWN'", "s:set_maint()", '{[1]={[1]="SERVER_DOWN", [2]="s6", [3]="number", [4]="integer", [5]="spare", [6]="number", [7]="s6"}}',
           fields="data.name, type(data.puid), math.type(data.rid), data.proxy_name, type(data.proxy_uuid), data.reference:get_name()"),
    events("SERVER: all", "'SERVER'", "s:set_maint()", fields="1"),
    events("two families", "'SERVER_UP', 'SERVER_DOWN'", "s:set_maint() core.msleep(5) s:set_ready()", fields="1"),
    events("SERVER_CHECK by force", "'SERVER_CHECK'", "s:check_force_down() core.msleep(5) s:check_force_up()", fields="1", server="s4"),
    events("data", "'SERVER_DOWN'", "s:set_maint()", fields="data"),
    events("arguments", "'SERVER_DOWN'", "s:set_maint()", fields="type(data), type(sub), math.type(when), math.abs(when - os.time()) < 3"),
    Row("unsub in the handler", "(function() local n, s = 0, core.backends.spare.servers.s6 core.event_sub({'SERVER_DOWN', 'SERVER_UP'}, function(e, d, sub) n = n + 1 sub:unsub() end) "
        "s:set_maint() core.msleep(10) s:set_ready() core.msleep(20) return n end)()", "1", since="3.2"),
    Row("unsub twice", "(function() local sub = core.event_sub({'SERVER_DOWN'}, function() end) sub:unsub() return pcall(sub.unsub, sub) end)()", since="3.2"),
    Row("subscription: members", "(function() local sub = core.event_sub({'SERVER_DOWN'}, function() end) local n = {} for k, v in pairs(sub) do n[k] = type(v) end sub:unsub() return n end)()", since="3.2"),
    Row("a handler that fails", "(function() local s = core.backends.spare.servers.s6 local sub = core.event_sub({'SERVER_DOWN'}, function() error('broken') end) s:set_maint() core.msleep(20) sub:unsub() "
        "s:set_ready() end)()", since="3.2", see=("log",)),
    Row("a handler that pauses", "(function() local n, s = 0, core.backends.spare.servers.s6 local sub = core.event_sub({'SERVER_DOWN', 'SERVER_UP'}, function() core.msleep(10) n = n + 1 end) s:set_maint() s:set_ready() "
        "core.msleep(60) sub:unsub() return n end)()", "2", since="3.2"),
    *(Row(f"event_sub({arguments})", f"core.event_sub({arguments})", since="3.2") for arguments in ("", "{'NONE'}, function() end", "{}, function() end", "'SERVER_UP', function() end", "{'SERVER_UP'}", "{'SERVER_UP'}, 5",
                                                                                               "{5}, function() end", "{'SERVER_UP', 'PAT_REF_ADD'}, function() end")),
    Row("disable_legacy_mailers at run time", "pcall(core.disable_legacy_mailers)", since="3.2"),
    Row("disable_legacy_mailers in the body", "core.disable_legacy_mailers()", "nothing", place="body", since="3.2"),
    Row("CertCache: unknown file", "pcall(CertCache.set, {filename = 'none.pem', crt = 'x'})"),
    Row("CertCache: no filename", "pcall(CertCache.set, {crt = 'x'})"),
    Row("CertCache: no table", "pcall(CertCache.set)"),
    Row("ACME", "type(ACME)", since="3.5", manual="3.5 has ACME.challenge_ready."),
]
