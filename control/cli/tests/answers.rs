//! The output of all commands, identical to HAProxy's where scripts may parse it.

mod toy;

use toy::{Toy, converse, toy};
use weir_cli::Level;
use weir_cli::{SessionSettings, SeverityOutput};

fn admin() -> SessionSettings {
    SessionSettings { level: Level::Admin, ..SessionSettings::default() }
}

fn run_command(toy: &mut Toy, line: &str) -> String {
    converse(toy, admin(), format!("{line}\n").as_bytes(), usize::MAX, usize::MAX)
}

/// Runs each line in its own session, on the same process.
fn check(dialogue: &[(&str, &str)]) {
    let mut toy = toy();
    for (line, expected) in dialogue {
        assert_eq!(run_command(&mut toy, line), *expected, "to {line:?}");
    }
}

#[test]
fn weight_commands_answer_like_haproxy() {
    check(&[
        ("get weight", "Require 'backend/server'.\n\n"),
        ("get weight be", "Require 'backend/server'.\n\n"),
        ("get weight be/", "Require 'backend/server'.\n\n"),
        ("get weight be/nope", "No such server.\n\n"),
        ("get weight nope/s1", "No such backend.\n\n"),
        ("get weight be/s1", "10 (initial 10)\n\n"),
        ("get weight #3/#1", "10 (initial 10)\n\n"),
        ("set weight be/s1", "Require <weight> or <weight%>.\n\n"),
        ("set weight be/s1 300", "Absolute weight can only be between 0 and 256 inclusive.\n\n"),
        ("set weight be/s1 50%", "\n"),
        ("get weight be/s1", "5 (initial 10)\n\n"),
        ("set server be/s1 weight 1000000%", "\n"),
        ("get weight be/s1", "256 (initial 10)\n\n"),
        (
            "set weight bs/s1 3",
            "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n\n",
        ),
        ("set weight bs/s1 0", "\n"),
        ("set weight bs/s1 100%", "\n"),
    ]);
}

#[test]
fn server_commands_answer_like_haproxy() {
    check(&[
        ("set server be/s1 state", "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n\n"),
        ("set server be/s1 state drain", "\n"),
        ("disable server be/s1", "\n"),
        ("enable server be/x", "No such server.\n\n"),
        ("enable server be/s1", "\n"),
        ("set server be/s1 addr", "set server <b>/<s> addr requires an address and optionally a port.\n\n"),
        ("set server be/s1 addr foo", "Invalid addr 'foo'\n\n"),
        (
            "set server be/s1 addr 127.0.0.2",
            "IP changed from '127.0.0.1' to '127.0.0.2' by 'stats socket command'\n\n",
        ),
        ("set server be/s1 addr 127.0.0.2 port x", "problem converting port 'x' to an int\n\n"),
        (
            "set server be/s1 addr 127.0.0.2 port 99",
            "port changed from '1' to '99' by 'stats socket command'\n\n",
        ),
        ("set server be/s1 addr 127.0.0.2 port 99", "nothing changed\n\n"),
        (
            "set server be/s1 addr ::1 port 1",
            "IP changed from '127.0.0.2' to '::1', port changed from '99' to '1' by 'stats socket command'\n\n",
        ),
        ("set server be/s1 health up", "\n"),
        ("set server be/s1 agent up", "agent checks are not enabled on this server.\n\n"),
        ("set server be/s1 fqdn", "set server <b>/<s> fqdn requires a FQDN.\n\n"),
        (
            "set server be/s1 fqdn a.test",
            "be/s1 changed its FQDN from (null) to a.test by 'stats socket command'\n\n",
        ),
        (
            "set server be/s1 fqdn b.test",
            "be/s1 changed its FQDN from a.test to b.test by 'stats socket command'\n\n",
        ),
        (
            "set server be/s1 foo",
            "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | check-addr | \
             check-port | fqdn | health | ssl | state | weight\n\n",
        ),
        ("set maxconn server be/s1", "Require <maxconn>.\n\n"),
        ("set maxconn server be/s1 7", "\n"),
        ("shutdown sessions server be/s1", "\n"),
        ("shutdown sessions server be/x", "No such server.\n\n"),
        ("add server be/s9", "'server' expects <name> and <addr>[:<port>] as arguments.\n\n"),
        ("add server be/s9 127.0.0.1:99", "New server registered.\n\n"),
        ("del server be/s1", "Only servers in maintenance mode can be deleted.\n\n"),
        ("disable server be/s1; del server be/s1", "\nServer deleted.\n\n"),
        ("enable health be/s1", "Health check was not configured on this server, cannot enable.\n\n"),
        ("disable health be/s1; disable agent be/s1", "\n\n"),
        ("set server be/s1 health no", "'set server <srv> health' expects 'up', 'stopping', or 'down'.\n\n"),
        ("unpublish backend be; publish backend be", "Backend unpublished.\n\nBackend published.\n\n"),
        ("publish backend nosuch", "No such backend.\n\n"),
        ("set dynamic-cookie-key backend be", "String value expected.\n\n"),
        ("add server help", "List of keywords supported for dynamic server:\nbackup\nweight\n\n"),
    ]);
}

#[test]
fn show_resolvers_prints_the_counters_of_each_name_server() {
    let counts = "  sent:        7\n  snd_error:   0\n  valid:       0\n  update:      0\n  cname:       0\n  cname_error: 0\n  \
                  any_err:     0\n  nx:          0\n  timeout:     0\n  refused:     0\n  other:       0\n  invalid:     0\n  \
                  too_big:     0\n  truncated:   0\n  outdated:    9\n";
    check(&[
        (
            "show resolvers",
            &format!("Resolvers section r1\n nameserver n1:\n{counts}Resolvers section r2\n\n"),
        ),
        ("show resolvers r2", "Resolvers section r2\n\n"),
        ("show resolvers r3", "Can't find that resolvers section\n\n"),
        (
            "show stat domain resolvers",
            "# id,pid,sent,send_error,valid,update,cname,cname_error,any_err,nx,timeout,refused,other,invalid,too_big,truncated,outdated,\n\
             n1,r1,7,0,0,0,0,0,0,0,0,0,0,0,0,0,9,\n\n",
        ),
    ]);
}

#[test]
fn show_servers_state_and_show_backend_list_the_servers() {
    check(&[
        (
            "show servers state bs",
            "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
             srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
             srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port \
             srv_check_addr srv_agent_addr srv_agent_port\n4 bs 1 s1 127.0.0.1 2 0 7 7 0 1 0 0 0 0 0 0 - 1 - 0 0 - - 0\n\n",
        ),
        (
            "show servers conn be",
            "# bkname/svname bkid/svid addr port - purge_delay served used_cur used_max need_est idle_sess unsafe_nb \
             safe_nb idle_lim idle_cur idle_per_thr[2]\nbe/s1 3/1 127.0.0.1 1 - 5000 0 0 0 0 0 0 0 -1 0 0 0\n\
             be/s2 3/2 127.0.0.1 1 - 5000 0 0 0 0 0 0 0 -1 0 0 0\n\n",
        ),
        ("show servers state nope", "Can't find backend.\n\n"),
        ("show backend", "# name\nbe\nbs\n\n"),
    ]);
}

#[test]
fn frontend_maxconn_and_rate_limit_commands_answer_like_haproxy() {
    check(&[
        ("disable frontend", "A frontend name is expected.\n\n"),
        ("disable frontend x", "No such frontend.\n\n"),
        ("disable frontend fe", "\n"),
        ("disable frontend fe", "All sockets are already disabled.\n\n"),
        ("enable frontend #2", "\n"),
        ("enable frontend fe", "All sockets are already enabled.\n\n"),
        ("shutdown frontend fe", "\n"),
        ("set maxconn frontend fe", "Integer value expected.\n\n"),
        ("set maxconn frontend fe -1", "Value out of range.\n\n"),
        ("set maxconn frontend fe 100", "\n"),
        ("set maxconn global", "Expects an integer value.\n\n"),
        ("set maxconn global 5000", "Value out of range.\n\n"),
        ("set maxconn global 500", "\n"),
        ("set rate-limit sessions global", "Expects an integer value.\n\n"),
        ("set rate-limit sessions global 10", "\n"),
        ("set rate-limit ssl-sessions global 10", "\n"),
        ("set rate-limit http-compression global 10", "\n"),
        ("clear counters", "\n"),
        ("clear counters all", "\n"),
        ("clear counters server be/s1", "Server counters cleared.\n\n"),
        ("clear counters server be/s1 force", "Server counters cleared.\n\n"),
    ]);
    let mut toy = toy();
    assert!(
        run_command(&mut toy, "set rate-limit")
            .starts_with("'set rate-limit' only supports :\n   - 'connections global' ")
    );
}

#[test]
fn map_commands_answer_like_haproxy() {
    check(&[
        (
            "show map",
            "# id (file) description\n5 (m.map) pattern loaded from file 'm.map' used by map at file 'h.cfg' line 19. \
             curr_ver=0 next_ver=0 entry_cnt=0\n\n",
        ),
        ("show map foo", "Unknown map identifier. Please use #<id> or <file>.\n\n"),
        ("show map #0", "Unknown map identifier. Please use #<id> or <file>.\n\n"),
        ("add map m.map c.com three", "\n"),
        ("add map #5 d.com four five", "\n"),
        ("add map m.map <<\ne.com five\n\tf.com  six seven\n", "\n"),
        ("add map m.map <<EOF\ng.com x\n\nh.com y\nEOF", "\n"),
        ("add map m.map <<\nbad\n", "Missing value for key 'bad'.\n\n"),
        (
            "add map m.map c.com",
            "'add map' expects three parameters (map identifier, key and value) or one parameter (map identifier) and a \
             payload\n\n",
        ),
        (
            "show map m.map",
            "0x000000001001 c.com three\n0x000000001002 d.com four\n0x000000001003 e.com five\n\
             0x000000001004 f.com six seven\n0x000000001005 g.com x\n0x000000001006 h.com y\n\n",
        ),
        ("get map m.map", "Missing map identifier and/or key.\n\n"),
        (
            "get map m.map c.com",
            "type=str, case=sensitive, found=yes, idx=tree, key=\"c.com\", value=\"three\", type=\"str\"\n\n",
        ),
        ("get map m.map C.com", "type=str, case=sensitive, found=no\n\n"),
        ("set map m.map c.com", "'set map' expects three parameters: map identifier, key and value.\n\n"),
        ("set map m.map nope tri", "entry not found.\n\n"),
        ("set map m.map #0x1 tri", "key or pattern not found.\n\n"),
        ("set map m.map c.com tri", "\n"),
        ("set map m.map #0x1002 vier", "\n"),
        ("del map m.map", "This command expects two parameters: map identifier and key.\n\n"),
        ("del map m.map nope", "Key not found.\n\n"),
        ("del map m.map e.com", "\n"),
        ("del map m.map #0x1004", "\n"),
        ("del map m.map g.com; del map m.map h.com", "\n\n"),
        ("show map m.map", "0x000000001001 c.com tri\n0x000000001002 d.com vier\n\n"),
        ("add map @1 m.map x y", "Version number in the future, please use 'prepare map' before.\n\n"),
        ("prepare map m.map", "New version created: 1\n\n"),
        ("add map @1 m.map x y", "\n"),
        ("show map @1 m.map", "0x000000001007 x y\n\n"),
        ("commit map m.map", "Missing version number.\n\n"),
        ("commit map @9 m.map", "Version number out of range.\n\n"),
        ("commit map @1 foo", "Unknown map identifier. Please use #<id> or <file>.\n\n"),
        ("commit map @1 m.map", "\n"),
        ("commit map @1 m.map", "Version number out of range.\n\n"),
        ("show map m.map", "0x000000001007 x y\n\n"),
        ("clear map", "Missing map identifier.\n\n"),
        ("clear map m.map", "\n"),
        ("show map m.map", "\n"),
    ]);
}

/// One visit fills a whole piece of the output, so a list is locked only once for hundreds of entries.
#[test]
fn show_map_locks_a_map_once_for_each_piece_of_output() {
    const PIECE: usize = 16_384;
    let mut toy = toy();
    let entry =
        |number: u64| (0, 0xabcd_ef01_2345_0000 + number, format!("key{number}"), Some("v".to_owned()));
    toy.sets[1].entries = (0..5_000).map(entry).collect();
    let answer = converse(&mut toy, admin(), b"show map m.map\n", usize::MAX, PIECE);
    let expected = (0..5_000).map(|number| format!("0xabcdef0123450000 key{number} v\n"));
    let expected = expected.enumerate().map(|(at, line)| line.replace("0000 ", &format!("{at:04x} ")));
    assert_eq!(answer, expected.collect::<String>() + "\n");
    assert_eq!(toy.visits.get(), answer.len().div_ceil(PIECE) + 1);
}

#[test]
fn acl_commands_answer_like_haproxy() {
    check(&[
        (
            "show acl",
            "# id (file) description\n0 () acl 'path' file 'h.cfg' line 23. curr_ver=0 next_ver=0 entry_cnt=0\n\n",
        ),
        ("add acl", "'add acl' expects two parameters: ACL identifier and pattern.\n\n"),
        ("add acl #0", "'add acl' expects two parameters: ACL identifier and pattern.\n\n"),
        (r"add acl #0 Mon\ User\ Agent\;", "\n"),
        ("show acl #0", "0x000000001001 Mon User Agent;\n\n"),
        (
            r"get acl #0 Mon\ User\ Agent\;",
            "type=str, case=sensitive, match=yes, idx=tree, pattern=\"Mon User Agent;\"\n\n",
        ),
        (r"del acl #0 Mon\ User\ Agent\;", "\n"),
        ("del acl #0 x", "Key not found.\n\n"),
        ("show acl foo", "Unknown ACL identifier. Please use #<id> or <file>.\n\n"),
        (
            "add acl m.map a",
            "This ACL is shared with a map containing samples. You must use the command 'add map' to add values.\n\n",
        ),
        ("add acl @5 #0 a", "Version number in the future, please use 'prepare acl' before.\n\n"),
        ("prepare acl #0", "New version created: 1\n\n"),
        ("add acl @1 #0 a", "\n"),
        ("commit acl @1 #0", "\n"),
        ("clear acl", "Missing ACL identifier.\n\n"),
        ("clear acl #0", "\n"),
    ]);
}

#[test]
fn variable_commands_require_a_process_wide_variable() {
    check(&[
        ("get var", "Missing process-wide variable identifier.\n\n"),
        ("get var proc.nope", "Variable not found.\n\n"),
        ("get var proc.foo", "proc.foo: type=str value=<bar>\n\n"),
        ("set var proc.x str(a)", "This command is restricted to experimental mode only.\n\n"),
        (
            r"experimental-mode on; set var proc.x fmt a\ b; get var proc.x",
            "\n\nproc.x: type=str value=<fmt a b>\n\n",
        ),
        (
            "experimental-mode on; set var proc.x expr int(1); get var proc.x",
            "\n\nproc.x: type=str value=<expr int(1)>\n\n",
        ),
        (
            "experimental-mode on; set var proc.x str(a); get var proc.x",
            "\n\nproc.x: type=str value=<expr str(a)>\n\n",
        ),
        ("experimental-mode on; set var proc.x", "\nMissing either 'expr', 'fmt' or expression.\n\n"),
        (
            "experimental-mode on; set var req.x str(a)",
            "\n'set var': cannot set variable 'req.x', only scope 'proc' is permitted here.\n\n",
        ),
    ]);
}

#[test]
fn version_environment_and_wait_commands_answer_like_haproxy() {
    check(&[
        ("show version", "3.5-weir\n\n"),
        ("show cli level", "admin\n\n"),
        (
            "show cli sockets",
            "# socket lvl processes\nsockpair@5 admin all\nunix@/etc/weir/stats.sock admin all\n\n",
        ),
        ("show env HOME", "HOME=/root\n\n"),
        ("show env HOM", "Variable not found\n\n"),
        ("show env", "HAPROXY_LOCALPEER=vm\nHOME=/root\n\n"),
        ("show errors", "Total events captured on [20/Nov/2026:11:27:22.010] : 0\n\n"),
        ("show errors nope", "No such proxy.\n\n"),
        ("show startup-logs", "[NOTICE]   (1) : started\n\n"),
        ("echo hello   world", "hello world\n\n"),
        (r"echo a\;b\\c", "a;b\\c\n\n"),
        ("set timeout", "'set timeout' only supports 'cli'.\n\n"),
        ("set timeout cli x", "Invalid timeout value.\n\n"),
        ("set timeout cli 10", "\n"),
        ("set severity-output foo", "one of 'none', 'number', 'string' is a required argument\n\n"),
        (
            "set severity-output number; show version; get weight be/x",
            "\n[6]: 3.5-weir\n\n[3]: No such server.\n\n",
        ),
        ("set severity-output string; set server be/s1 addr 127.0.0.1", "\n[warning]: nothing changed\n\n"),
        ("expert-mode", "expert-mode is OFF\n\n"),
        ("expert-mode on; expert-mode", "\nexpert-mode is ON\n\n"),
        ("debug dev exit", "This command is restricted to expert mode only.\n\n"),
        ("show version;quit;show version", "3.5-weir\n\n"),
        ("quit", ""),
        ("show ssl jwt x", "'show ssl jwt' is not implemented yet.\n\n"),
        (
            "operator; show cli level; operator; user; show cli level; operator; clear counters; show env",
            "\noperator\n\n\n\nuser\n\nPermission denied\n\nPermission denied\n\nPermission denied\n\n",
        ),
        (
            "expert-mode on; operator; debug dev exit",
            "\n\nThis command is restricted to expert mode only.\n\n",
        ),
        (
            "show activity",
            "thread_id: 1 (1..2)\ndate_now: 1795174042.010000\nuptime_now: 30.388822\nctxsw: 71 [ 42 29 ]\n\
             tasksw: 39 [ 22 17 ]\n\n",
        ),
        (
            "show activity 2",
            "thread_id: 1 (1..2)\ndate_now: 1795174042.010000\nuptime_now: 30.388822\nctxsw: 29\ntasksw: 17\n\n",
        ),
        (
            "show tasks",
            "Running tasks: 4 (2 threads)\n  function                     places     %    lat_tot   lat_avg  calls_tot  \
             calls_avg calls%\n  connection                        3  75.0    4.500us   1.500us          9          3  \
             100.0\n\n",
        ),
        (
            "show pools",
            "Dumping pools usage. Use SIGQUIT to flush them.\n\
             \x20 - Pool buffer (100 bytes) : 7 allocated (700 bytes), 5 used (~2 by thread caches), needed_avg 2, 3 failures, 1 users\n\
             \x20 - Pool block_64 (64 bytes) : 0 allocated (0 bytes), 0 used (~0 by thread caches), needed_avg 0, 0 failures, 1 users\n\
             \x20 - Pool block_96 (96 bytes) : 11 allocated (1056 bytes), 9 used (~2 by thread caches), needed_avg 4, 3 failures, 1 users\n\
             \x20 - Pool block_9000 (9000 bytes) : 2 allocated (18000 bytes), 0 used (~2 by thread caches), needed_avg 0, 3 failures, 1 users\n\
             Total: 4 pools, 19756 bytes allocated, 1364 used (~18392 by thread caches).\n\n",
        ),
        (
            "show pools match buf detailed",
            "Dumping pools usage. Use SIGQUIT to flush them.\n\
             \x20 - Pool buffer (100 bytes) : 7 allocated (700 bytes), 5 used (~2 by thread caches), needed_avg 2, 3 failures, 1 users\n\
             \x20     >  thread 1 : 6 allocated (600 bytes), 5 used (~1 by thread caches), needed_avg 2, 3 failures, 1 users\n\
             \x20     >  thread 2 : 1 allocated (100 bytes), 0 used (~1 by thread caches), needed_avg 0, 0 failures, 1 users\n\
             Total: 1 pools, 700 bytes allocated, 500 used (~200 by thread caches).\n\n",
        ),
        (
            "show pools match zz 0",
            "Dumping pools usage. Use SIGQUIT to flush them.\n\
             Total: 0 pools, 0 bytes allocated, 0 used (~0 by thread caches).\n\n",
        ),
        // R4: the exact queue lengths, by class.
        (
            "show threads",
            "* Thread 1 : act=1 wq=1 rq=1 tl=1 tlsz=13 rqsz=16\n      1/1    loops=22 ctxsw=69 stuck=0 prof=1 harmless=0\n\
             \x20            queued: urgent=1 normal=3 bulk=5 heavy=7 timers=2 tasks=20\n             cpu_ns: now=82670363\n\
             \x20            curr_task=cli session@cli_server.rs:202\n\
             \x20 Thread 2 : act=0 wq=0 rq=0 tl=0 tlsz=0 rqsz=0\n      1/2    loops=0 ctxsw=0 stuck=0 prof=0 harmless=1\n\
             \x20            queued: urgent=0 normal=0 bulk=0 heavy=0 timers=0 tasks=0\n             cpu_ns: now=0\n\
             \x20            curr_task=0\n\n",
        ),
        ("wait 10; show version", "Done.\n\n3.5-weir\n\n"),
        ("wait", "Expects a duration in milliseconds.\n\n"),
        ("wait x", "Invalid duration.\n\n"),
        ("wait 0", "Invalid duration.\n\n"),
        ("wait 10 srv-removable", "Missing server name (<backend>/<server>).\n\n"),
        ("wait 10 srv-removable be", "Require 'backend/server'.\n\n"),
        ("wait 10 srv-removable be/none", "Failed. No such server.\n\n"),
        ("disable server be/s1; wait 50ms srv-removable be/s1", "\nDone.\n\n"),
        ("enable server be/s1; wait 50ms srv-removable be/s1", "\nFailed.\n\n"),
    ]);
}

/// R73, R74: profiling can be enabled, and its state is shown.
#[test]
fn profiling_commands_change_and_show_the_profiling_state() {
    let status = |tasks: &str, memory: &str| {
        format!(
            "Per-task CPU profiling              : {tasks:<14}# set profiling tasks {{on|auto|off}}\n\
             Memory usage profiling              : {memory:<14}# set profiling memory {{on|off}}\n\n"
        )
    };
    check(&[
        ("show profiling status", &status("off", "off")),
        ("set profiling", "Expects either 'tasks' or 'memory'.\n\n"),
        (
            "set profiling tasks",
            "Expects 'on', 'auto', 'off', 'lock', 'no-lock', 'memory' or 'no-memory'.\n\n",
        ),
        ("set profiling memory auto", "Expects either 'on' or 'off'.\n\n"),
        ("set profiling tasks auto", "\n"),
        ("show profiling status", &status("auto-off", "off")),
        ("set profiling memory on; set profiling tasks on", "\n\n"),
        ("show profiling status", &status("on", "on")),
        ("set profiling tasks no-lock", "\n"),
        (
            "show profiling tasks",
            "Tasks activity over 0.000 sec till 0.000 sec ago:\n  function                      calls   cpu_tot   cpu_avg   \
             lkw_avg   lkd_avg   mem_avg   lat_avg\n\n",
        ),
        (
            "show profiling foo",
            "Expects any of 'all', 'status', 'tasks', 'memory', 'byaddr', 'bytime', 'byctx', 'aggr' and a max number of \
             output lines.\n\n",
        ),
    ]);
}

/// The symbol names of allocating callers may take time to resolve. The command waits, and its output is complete.
#[test]
fn a_memory_profile_waits_until_its_symbol_names_are_resolved() {
    let mut toy = toy();
    toy.pending = 2;
    let profile = run_command(&mut toy, "show profiling");
    assert_eq!(toy.pending, 0);
    assert!(profile.starts_with("Per-task CPU profiling ") && profile.contains("\nAlloc/Free statistics "));
    toy.pending = 2;
    assert!(run_command(&mut toy, "show profiling tasks").starts_with("Tasks activity "));
    assert_eq!(toy.pending, 2, "does not wait for data that is not shown");
}

#[test]
fn show_sess_and_shutdown_session_answer_like_haproxy() {
    check(&[
        (
            "show sess",
            "0x55aa: proto=tcpv4 src=127.0.0.1:4000 fe=fe be=<NONE> srv=<none> ts=00 epoch=0 age=0s calls=0 rate=0 cpu=0 \
             lat=0 rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=,wex=] \
             scb=[8,1h,fd=1/-1,rex=,wex=] exp= rc=0 c_exp=\n\n",
        ),
        ("show sess 0x1234", "Session not found.\n\n"),
        ("show sess susp", "\n"),
        ("show sess foo", "Unsupported option 'foo', try 'help' for more info.\n\n"),
        ("show sess older", "Expects a minimum age (in seconds by default).\n\n"),
        ("show sess older x", "Invalid age.\n\n"),
        ("show sess older 5x", "Invalid age.\n\n"),
        ("show sess frontend", "Missing frontend name.\n\n"),
        ("show sess frontend none", "No such frontend.\n\n"),
        ("show sess backend", "Missing backend name.\n\n"),
        ("show sess backend none", "No such backend.\n\n"),
        ("show sess server", "Missing server name (<backend>/<server>).\n\n"),
        ("show sess server be", "Require 'backend/server'.\n\n"),
        ("show sess server be/none", "No such server.\n\n"),
        ("shutdown session", "Session pointer expected (use 'show sess').\n\n"),
        ("shutdown session foo", "Session pointer expected (use 'show sess').\n\n"),
        ("shutdown session 0x1", "No such session (use 'show sess').\n\n"),
        ("shutdown session 0x55aa", "\n"),
        ("show sess", "\n"),
    ]);
    let mut toy = toy();
    assert!(run_command(&mut toy, "show sess 0x55aa").starts_with(
        "0x55aa: [20/Nov/2026:11:27:22.010000] id=7 proto=tcpv4 source=127.0.0.1:4000\n  phase="
    ));
    toy.pending = 3;
    assert!(run_command(&mut toy, "show sess all").contains("frontend=fe\n"));
    // Each phase shows the server state and the remaining time.
    for (phase, shown) in [
        (
            "request",
            "rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=9s,wex=] scb=[0,1h,fd=1/-1,rex=,wex=] exp=9s rc=2 c_exp=",
        ),
        (
            "tarpit",
            "rq[f=00h,i=0,an=00h,ax=9s] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=,wex=] scb=[0,1h,fd=1/-1,rex=,wex=] exp=9s rc=2 c_exp=",
        ),
        (
            "queue",
            "rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=,wex=] scb=[2,1h,fd=1/-1,rex=,wex=] exp=9s rc=2 c_exp=9s",
        ),
        (
            "connect",
            "rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=,wex=] scb=[5,1h,fd=1/-1,rex=,wex=] exp=9s rc=2 c_exp=9s",
        ),
        (
            "headers",
            "rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=,wex=] scb=[8,1h,fd=1/-1,rex=9s,wex=] exp=9s rc=2 c_exp=",
        ),
        (
            "data",
            "rq[f=00h,i=0,an=00h,ax=] rp[f=00h,i=0,an=00h,ax=] scf=[8,0h,fd=1/-1,rex=,wex=] scb=[8,1h,fd=1/-1,rex=,wex=] exp=9s rc=2 c_exp=",
        ),
    ] {
        let view = &mut toy.sessions[0];
        (view.phase, view.expires_ms, view.retries) = (phase, Some(9000), 2);
        let line = run_command(&mut toy, "show sess");
        assert_eq!(line[line.find("rq[").unwrap()..].trim_end(), shown, "{phase}");
    }
    // The request line is shown only on request, and cannot end its quotes or the line.
    assert!(!run_command(&mut toy, "show sess show-uri").contains("uri="));
    toy.sessions[0].request_line = Some("GET /a\"b\\\n\u{e9} HTTP/1.1".to_owned());
    assert!(!run_command(&mut toy, "show sess").contains("uri="));
    let shown = " uri=\"GET /a\\x22b\\x5c\\x0a\\xe9 HTTP/1.1\"\n";
    assert!(run_command(&mut toy, "show sess show-uri").ends_with(&format!("c_exp={shown}\n")));
    assert!(
        run_command(&mut toy, "show sess all show-uri").contains(&format!("conn_retries=2, exp=9s{shown}"))
    );
    assert!(run_command(&mut toy, "show sess show-uri older 0 frontend fe").contains("uri="));
    // A stream without a client: the connection of a ring to its server.
    (toy.sessions[0].protocol, toy.sessions[0].source) = ("?", None);
    assert!(run_command(&mut toy, "show sess").starts_with("0x55aa: proto=? ts=00 epoch=0 age=0s calls=0 "));
    assert!(
        run_command(&mut toy, "show sess all")
            .starts_with("0x55aa: [20/Nov/2026:11:27:22.010000] id=7 proto=?\n  phase=")
    );
}

#[test]
fn show_stat_selects_rows_and_formats() {
    let mut toy = toy();
    let names = |text: &str| -> Vec<String> {
        text.lines().skip(1).filter_map(|line| Some(line.split(',').nth(1)?.to_owned())).collect()
    };
    assert_eq!(names(&run_command(&mut toy, "show stat")), ["FRONTEND", "s1", "s2", "BACKEND"]);
    assert_eq!(names(&run_command(&mut toy, "show stat be 4 2")), ["s2"]);
    assert_eq!(names(&run_command(&mut toy, "show stat -1 2 -1 up")), ["BACKEND"]);
    assert_eq!(names(&run_command(&mut toy, "show stat domain proxy 2 -1 -1")), ["FRONTEND"]);
    assert_eq!(run_command(&mut toy, "show stat nope 1 1"), "No such proxy.\n\n");
    assert_eq!(run_command(&mut toy, "show stat domain foo"), "Invalid statistics domain.\n\n");
    assert!(
        run_command(&mut toy, "show stat be 4 1 typed desc")
            .starts_with("S.3.1.0.pxname.1:KNSV:str:be:\"Proxy name\"\n")
    );
    assert!(run_command(&mut toy, "show stat json").ends_with("}]]\n\n"));
    assert!(run_command(&mut toy, "show info").starts_with("Name: HAProxy\nNbthread: 2\n"));
    assert!(run_command(&mut toy, "show info typed").starts_with("0.Name.1:POSV:str:HAProxy\n"));
    assert!(run_command(&mut toy, "show schema json").starts_with("{\"$schema\""));

    let user = SessionSettings { level: Level::User, ..admin() };
    assert!(!converse(&mut toy, user, b"show stat\n", 99, usize::MAX).contains("127.0.0.1:1"));
    assert!(run_command(&mut toy, "show stat").contains("127.0.0.1:1"));
}

#[test]
fn the_socket_can_set_the_severity_output() {
    let settings = SessionSettings { severity_output: SeverityOutput::Text, ..admin() };
    let found = converse(&mut toy(), settings, b"show version;get weight x/y\n", 99, usize::MAX);
    assert_eq!(found, "[info]: 3.5-weir\n\n[err]: No such backend.\n\n");
}
