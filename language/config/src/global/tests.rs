//! Tests of the `global` section, read as whole files.

use std::time::Duration;

use super::*;
use crate::document::tests::{parse_text, parse_with};
use weir_expr::pattern::regex::limit::OnLimit;
use weir_model::{
    Account, Chroot, CloseSpread, ConnectionSharing, CoreDump, ExtraFiles, Global, Level, LineDefaults,
    Niceness, ScriptPrinting, SentHostName, Shards, TaskProfiling, TlsDefaults, TlsVersion,
};
use weir_syntax::Environment;

/// Reads the lines of a `global` section.
fn read(lines: &str) -> (Global, Vec<String>) {
    let outcome = parse_text(&format!("global\n{lines}\n"));
    (outcome.config.global, outcome.messages)
}

#[track_caller]
fn accept(lines: &str) -> Global {
    let (global, messages) = read(lines);
    assert!(messages.is_empty(), "{lines}: {messages:?}");
    global
}

#[track_caller]
fn refuse(line: &str, message: &str) {
    let (_, messages) = read(line);
    let tail = |prefix: &str| messages.first().and_then(|text| text.strip_prefix(prefix)).map(str::to_owned);
    let said = tail("parsing [test.cfg:2] : ").or_else(|| tail("parsing [test.cfg:2]: "));
    assert_eq!(said.as_deref(), Some(message), "{line}: {messages:?}");
    assert_eq!(messages.len(), 1, "{line}: {messages:?}");
}

/// Words with an example that needs a machine or a file.
const NEED_MORE: &[&str] = &["numa-cpu-mapping", "h1-case-adjust-file", "lua-load", "lua-load-per-thread"];

/// Every implemented row reads its own example, and has a help text.
#[test]
fn the_example_of_every_global_keyword_is_accepted() {
    for row in GLOBAL_KEYWORDS.rows() {
        assert!(!row.help.is_empty(), "{}", row.name);
        if row.is_ready() && !NEED_MORE.contains(&row.name) {
            let (_, messages) =
                read(&format!("expose-experimental-directives\n{} {}", row.name, row.example));
            let warns = |message: &String| {
                message.contains("no effect")
                    || message.contains("without effect")
                    || message.contains("is deprecated")
            };
            assert!(messages.iter().all(warns), "{}: {messages:?}", row.name);
            let is_idle = row.help.contains("no effect");
            assert!(!is_idle || !messages.is_empty(), "{} is idle without a warning", row.name);
        }
    }
}

/// Each word is in the table once.
#[test]
fn global_keywords_have_unique_names() {
    let mut names: Vec<&str> = GLOBAL_KEYWORDS.rows().map(|row| row.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn reports_global_keywords_that_are_not_implemented_yet() {
    refuse("stats-file x", "'stats-file' is not implemented yet");
    refuse("busy-polling", "'busy-polling' is not implemented yet");
    refuse("no busy-polling", "'busy-polling' is not implemented yet");
    refuse("nbproc 2", "'nbproc' is not supported any more; threads do what processes did, see 'nbthread'");
}

#[test]
fn suggests_a_known_keyword_for_an_unknown_one() {
    refuse("maxcon 100", "unknown keyword 'maxcon' in 'global' section; did you mean 'maxconn' maybe ?");
    refuse("frontent x", "unknown keyword 'frontent' in 'global' section; did you mean 'frontend' maybe ?");
    refuse("bogus", "unknown keyword 'bogus' in 'global' section");
    refuse("stats foo", "'stats' only supports 'socket', 'maxconn' and 'timeout' (got 'foo')");
}

#[test]
fn sets_haproxy_cli_to_the_addresses_of_the_runtime_api() {
    let lines = "stats socket /run/a.sock level admin\nstats socket 127.0.0.1:99\nstats socket abns@x\n\
                 stats socket ipv6@[::1]:98\ndescription \"$HAPROXY_CLI\"";
    let expected = "unix@/run/a.sock;ipv4@127.0.0.1:99;abns@x;ipv6@[::1]:98";
    assert_eq!(accept(lines).description.as_deref(), Some(expected));
    // A worker has one more socket, for its master.
    let mut environment = Environment::new();
    environment.set("HAPROXY_CLI", "sockpair@4");
    for (sockets, expected) in
        [("", "sockpair@4"), ("stats socket /run/a.sock\n", "unix@/run/a.sock;sockpair@4")]
    {
        let text = format!("global\n{sockets}description \"$HAPROXY_CLI\"\n");
        let outcome = parse_with(&text, environment.clone());
        assert_eq!(outcome.config.global.description.as_deref(), Some(expected));
    }
}

#[test]
fn accepts_infinite_close_spread_time() {
    assert_eq!(accept("close-spread-time infinite").close_spread, CloseSpread::Never);
    refuse("close-spread-time", "'close-spread-time' expects <time> as argument.");
    refuse("close-spread-time soon", "unexpected character 's' in 'close-spread-time'");
}

#[test]
fn parses_process_and_user_keywords() {
    let global = accept(
        "daemon\nquiet\npidfile /run/x.pid\nchroot auto\nuser nobody\ngid 33\nset-dumpable\nhard-stop-after 5m\n\
         close-spread-time 20s\n         grace 10s\nnode lb_1.a\ndescription a b  c\nno numa-cpu-mapping",
    );
    assert!(global.daemon && global.quiet);
    assert_eq!(global.core_dump, CoreDump::Always);
    assert_eq!(global.pidfile.as_deref(), Some("/run/x.pid".as_ref()));
    assert_eq!(global.chroot, Some(Chroot::Auto));
    assert_eq!(global.user, Some(Account::Name("nobody".into())));
    assert_eq!(global.group, Some(Account::Id(33)));
    assert_eq!(global.hard_stop_after, Some(Duration::from_secs(300)));
    assert_eq!(global.close_spread, CloseSpread::Over(Duration::from_secs(20)));
    assert_eq!(global.description.as_deref(), Some("a b c"));
    assert_eq!(accept("set-dumpable on\nno set-dumpable").core_dump, CoreDump::AsAllowed);
    assert_eq!(accept("set-dumpable\nset-dumpable off").core_dump, CoreDump::AsAllowed);
    assert_eq!(accept("set-dumpable libs").core_dump, CoreDump::WithLibraries);
    refuse("set-dumpable yes", "'set-dumpable' expects either 'on', 'off' or 'libs' but got 'yes'.");
}

#[test]
fn parses_nbthread_and_cpu_map() {
    let global = accept("nbthread 4\ncpu-map auto:1/1-4 0-1 6-7\ncpu-map 1/3 2,5\ncpu-map 2/1-4 9");
    assert_eq!(global.threads, Some(4));
    assert_eq!(global.cpu_map.cpus(1), Some(&[0][..]));
    assert_eq!(global.cpu_map.cpus(2), Some(&[1][..]));
    assert_eq!(global.cpu_map.cpus(3), Some(&[2, 5][..]));
    assert_eq!(global.cpu_map.cpus(4), Some(&[7][..]));
    assert_eq!(global.cpu_map.cpus(5), None);
    assert_eq!(accept("cpu-map 1 0-3").cpu_map.cpus(64), Some(&[0, 1, 2, 3][..]));
    assert_eq!(accept("cpu-map odd/even 3").cpu_map.cpus(2), Some(&[3][..]));
    refuse("nbthread 2x", "'nbthread' passed a missing or unparsable integer value in '2x'");
    refuse("nbthread", "'nbthread' passed a missing or unparsable integer value in ''");
    refuse("nbthread 65", "'nbthread' value must be between 1 and 64 (was 65)");
    refuse("nbthread 2 x", "'nbthread' cannot handle unexpected argument 'x'.");
    refuse("cpu-map foo 1", "cpu-map : 'foo' is not a valid number/range.");
    refuse("cpu-map 1/65 1", "cpu-map : '65' is not a valid number/range. It supports numbers from 1 to 64.");
    refuse("cpu-map 1 foo", "cpu-map : 'foo' is not a CPU range.");
    refuse(
        "cpu-map auto:1/1-4 0-2",
        "cpu-map : thread range and CPU sets must have the same size to be automatically bound",
    );
}

/// R155: words about threads must come before any proxy section.
#[test]
fn thread_keywords_are_rejected_after_other_sections() {
    let outcome = parse_text("global\n nbthread 2\nuserlist u\nglobal\n nbthread 3\n maxconn 5\n");
    assert_eq!(outcome.config.global.threads, Some(2));
    assert_eq!(outcome.config.global.limits.maxconn, Some(5));
    assert_eq!(
        outcome.messages,
        [
            "parsing [test.cfg:5] : 'nbthread' not allowed if a non-global section was previously defined. This \
             parameter must be set in the first global section"
        ]
    );
}

#[test]
fn parses_connection_and_file_limits() {
    let global = accept("maxconn 100\nmaxconnrate 5\nulimit-n 300\nfd-hard-limit 50000\nno strict-limits");
    assert_eq!(global.limits.maxconn, Some(100));
    assert_eq!(global.limits.connection_rate, 5);
    assert_eq!(global.limits.open_files, Some(300));
    assert_eq!(global.limits.open_files_hard, Some(50000));
    assert!(!global.limits.strict);
    refuse("maxconn 1 2", "'maxconn' cannot handle unexpected argument '2'.");
    refuse("maxconn", "'maxconn' expects an integer argument.");
    refuse(
        "no maxconn",
        "negation/default currently supported only for options, log, busy-polling, set-dumpable, strict-limits, \
         insecure-fork-wanted and numa-cpu-mapping.",
    );
    let (global, messages) = read("maxconn 100\nmaxconn 200");
    assert_eq!(global.limits.maxconn, Some(100));
    assert_eq!(messages, ["parsing [test.cfg:3] : 'maxconn' already specified. Continuing."]);
}

#[test]
fn parses_http2_websocket_workaround_and_log_errors() {
    let word = "h2-workaround-bogus-websocket-clients";
    assert!(accept(word).no_websocket_over_http2);
    assert!(!accept(&format!("{word}\nno {word}")).no_websocket_over_http2);
    refuse(&format!("{word} x"), &format!("'{word}' cannot handle unexpected argument 'x'."));
    accept("tune.h2.log-errors connection");
    refuse(
        "tune.h2.log-errors all",
        "'tune.h2.log-errors' expects either 'none', 'connection' or 'stream' but got 'all'.",
    );
}

#[test]
fn setenv_and_unsetenv_apply_to_later_lines() {
    let outcome = parse_with(
        "global\n setenv A 1\n presetenv A 2\n presetenv B 3\n description \"$A$B$C\"\n resetenv A\n node \
         \"n$A${B-x}\"\n unsetenv A\n localpeer me\n log-tag \"${HAPROXY_LOCALPEER}${A-y}\"\n",
        Environment::from_iter([("C", "4")]),
    );
    assert!(outcome.messages.is_empty(), "{:?}", outcome.messages);
    assert_eq!(outcome.config.global.description.as_deref(), Some("134"));
    assert_eq!(outcome.config.global.node.as_deref(), Some("n1x"));
    assert_eq!(outcome.config.global.log_tag.as_deref(), Some("mey"));
    assert_eq!(outcome.environment, Environment::from_iter([("HAPROXY_LOCALPEER", "me")]));
    refuse("setenv A", "'setenv' expects a name and a value.");
    refuse("unsetenv", "'unsetenv' expects at least one variable name.");
}

#[test]
fn parses_node_description_log_tag_and_log_send_hostname() {
    refuse(
        "node a/b",
        "'node' requires valid node name - non-empty string with digits(0-9), letters(A-Z, a-z), dot(.), hyphen(-) or \
         underscode(_).",
    );
    refuse("description", "'description' expects a string argument.");
    assert_eq!(accept("log-send-hostname").log_host_name, Some(SentHostName::Own));
    assert_eq!(accept("log-send-hostname x").log_host_name, Some(SentHostName::Named("x".into())));
    refuse("log-tag", "'log-tag' expects a tag for use in syslog.");
}

/// As with HAProxy 3.2.
#[test]
fn a_repeated_global_keyword_keeps_its_first_value() {
    let check = |word: &str, shown: fn(&Global) -> String, expected: &str| {
        let (global, messages) = read(&format!("{word} 1\n{word} 2"));
        assert_eq!(messages, [format!("parsing [test.cfg:3] : '{word}' already specified. Continuing.")]);
        assert_eq!(shown(&global), expected, "{word}");
    };
    check("server-state-file", |global| format!("{:?}", global.server_state_file), "Some(\"1\")");
    check("server-state-base", |global| format!("{:?}", global.server_state_base), "Some(\"1\")");
    check("log-send-hostname", |global| format!("{:?}", global.log_host_name), "Some(Named(\"1\"))");
    check("maxconnrate", |global| global.limits.connection_rate.to_string(), "1");
    check("maxsessrate", |global| global.limits.session_rate.to_string(), "1");
    check("maxsslrate", |global| global.limits.tls_rate.to_string(), "1");
}

#[test]
fn a_repeated_ca_base_or_crt_base_keeps_its_first_value() {
    for word in ["ca-base", "crt-base", "key-base"] {
        accept(&format!("{word} /a"));
        let (global, messages) = read(&format!("{word} /a\n{word} /b"));
        let tls = &global.tls;
        let bases = [&tls.authority_base, &tls.certificate_base, &tls.key_base];
        assert_eq!(bases.map(|base| base.as_deref()).into_iter().flatten().collect::<Vec<_>>(), ["/a"]);
        assert_eq!(messages, [format!("parsing [test.cfg:3] : '{word}' already specified.")]);
    }
}

#[test]
fn parses_stats_socket_lines() {
    let global = accept(
        "stats socket /run/x level admin mode 660\nstats socket 127.0.0.1:9\nstats timeout 2m\nstats maxconn 7",
    );
    assert_eq!(global.sockets.len(), 2);
    assert_eq!(global.sockets[0].options.level, Some(Level::Admin));
    assert_eq!(global.sockets[0].options.ownership.mode, Some(0o660));
    assert_eq!(global.stats_timeout, Duration::from_secs(120));
    assert_eq!(global.stats_maxconn, 7);
    refuse("stats socket", "'stats socket' in global section expects an address or a path to a UNIX socket");
    refuse("stats timeout 10y", "unexpected character 'y' in 'stats timeout'");
    let global = accept("unix-bind prefix /run/w mode 600 user x gid 5");
    assert_eq!(global.unix_bind.prefix.as_deref(), Some("/run/w".as_ref()));
    assert_eq!(global.unix_bind.ownership.group, Some(Account::Id(5)));
    let (global, messages) = read("unix-bind prefix /run/w\nunix-bind mode 600 prefix /run/x");
    assert_eq!(global.unix_bind.prefix.as_deref(), Some("/run/w".as_ref()));
    assert_eq!(global.unix_bind.ownership.mode, Some(0o600));
    assert_eq!(messages, ["parsing [test.cfg:3] : unix-bind 'prefix' already specified. Continuing."]);
    refuse(
        "unix-bind foo",
        "'unix-bind' only supports the 'prefix', 'mode', 'uid', 'gid', 'user' and 'group' options.",
    );
}

#[test]
fn parses_tune_keywords() {
    let tuning = accept(
        "tune.bufsize 16k\ntune.maxrewrite 9000\ntune.http.maxhdr 50\ntune.maxaccept -1\ntune.idle-pool.shared full\n\
         tune.rcvbuf.client 64k\ntune.listener.default-shards by-thread\ntune.sched.low-latency on\ntune.peers.max-updates-at-once 3",
    )
    .tuning;
    assert_eq!(tuning.buffer_size, 16384);
    assert_eq!(tuning.rewrite_room(), 8192);
    assert_eq!(tuning.headers_max, 50);
    assert_eq!(tuning.accept_max, Some(u32::MAX));
    assert_eq!(tuning.idle_connections, ConnectionSharing::Full);
    assert_eq!(tuning.receive_buffers.client, Some(65536));
    assert_eq!(tuning.listener_shards, Shards::ByThread);
    assert!(tuning.low_latency);
    assert_eq!(tuning.peer_updates_max, Some(3));
    let niceness = accept("tune.renice.startup 19\ntune.renice.runtime -20").tuning.niceness;
    assert_eq!(niceness, Niceness { startup: Some(19), runtime: Some(-20) });
    refuse("tune.renice.startup 20", "'tune.renice.startup' : invalid value '20', allowed range is -20..19.");
    refuse(
        "tune.idle-pool.shared abc",
        "'tune.idle-pool.shared' expects either 'on', 'full' or 'off' but got 'abc'.",
    );
    assert_eq!(accept("tune.bufsize 16k").tuning.regex_on_limit, OnLimit::NoMatch);
    assert_eq!(accept("tune.regex.on-limit match").tuning.regex_on_limit, OnLimit::Match);
    assert_eq!(accept("tune.regex.on-limit no-match").tuning.regex_on_limit, OnLimit::NoMatch);
    refuse(
        "tune.regex.on-limit fail",
        "'tune.regex.on-limit' expects either 'no-match' or 'match' but got 'fail'.",
    );
    refuse("tune.sched.low-latency", "'tune.sched.low-latency' expects either 'on' or 'off' but got ''.");
    accept("tune.h2.header-table-size 4096\ntune.h2.header-table-size 65536");
    for outside in ["4095", "65537"] {
        let message =
            format!("'tune.h2.header-table-size' : invalid value '{outside}', allowed range is 4096..65536.");
        refuse(&format!("tune.h2.header-table-size {outside}"), &message);
    }
    refuse("tune.max-rules-at-once 2", "'tune.max-rules-at-once' is not implemented yet");
    // A setting without effect must still be valid.
    let (_, messages) = read("tune.idletimer 2sec");
    assert!(messages[0].contains("unexpected character 'e' after the timer value '2sec'"), "{messages:?}");
    assert!(
        messages[1].contains("'tune.idletimer' is without effect") && messages.len() == 2,
        "{messages:?}"
    );
    refuse(
        "tune.h1.zero-copy-fwd-recv maybe",
        "'tune.h1.zero-copy-fwd-recv' expects either 'on' or 'off' but got 'maybe'.",
    );
    assert_eq!(accept("tune.pattern.cache-size 100").tuning.pattern_cache_size, 100);
    assert_eq!(accept("tune.bufsize 16k").tuning.pattern_cache_size, 10_000);
    refuse(
        "tune.pattern.cache-size 1048577",
        "'tune.pattern.cache-size' : invalid value '1048577', allowed range is 0..1048576.",
    );
    refuse("tune.bufsize 100", "'tune.bufsize' expects a size between 1024 and 268435440.");
    refuse("tune.bufsize 256m", "'tune.bufsize' expects a size between 1024 and 268435440.");
    refuse("tune.bufsize 16kB", "unexpected character 'B' in size argument '16kB' of 'tune.bufsize'");
}

/// R74: the initial state, which `set profiling` changes later. Words of one line add up, and so do lines.
#[test]
fn parses_profiling_keywords() {
    let profiling = accept("").profiling;
    assert_eq!(profiling.tasks, TaskProfiling::Auto);
    assert_eq!(profiling.warn_blocked_after, Duration::from_millis(100));
    assert!(!profiling.memory && !profiling.memory_time && !profiling.locks);
    let profiling = accept(
        "profiling.tasks on memory lock\nprofiling.tasks no-lock\nprofiling.memory on\nwarn-blocked-traffic-after 50ms",
    )
    .profiling;
    assert_eq!(profiling.tasks, TaskProfiling::On);
    assert!(profiling.memory && profiling.memory_time && !profiling.locks);
    assert_eq!(profiling.warn_blocked_after, Duration::from_millis(50));
    let expected = "'profiling.tasks' expects any of 'auto', 'on', 'off', 'lock', 'no-lock', 'memory' and 'no-memory' but got";
    refuse("profiling.tasks", &format!("{expected} ''."));
    refuse("profiling.tasks on foo", &format!("{expected} 'foo'."));
    refuse("profiling.memory auto", "'profiling.memory' expects either 'on' or 'off' but got 'auto'.");
    refuse("warn-blocked-traffic-after", "'warn-blocked-traffic-after' expects a time of 1 to 1000 ms.");
    refuse(
        "warn-blocked-traffic-after 2s",
        "'warn-blocked-traffic-after' expects a time of 1 to 1000 ms but got '2s'.",
    );
}

/// Accepts the built-in behaviour, warns about weaker settings, and refuses stricter ones.
#[test]
fn openssl_keywords_warn_if_weaker_and_fail_if_stricter_than_the_library() {
    accept(
        "noktls\ntune.ssl.certificate-compression auto\ntune.ssl.certificate-compression off\nssl-security-level 2",
    );
    for (line, expected) in [
        ("ssl-mode-async", "engines are not supported"),
        ("ssl-propquery ?provider=x,?fips=yes", "nothing here has properties"),
        ("ssl-provider base", "its algorithms are always there"),
        ("ssl-provider-path /x", "providers are not loaded"),
        ("ssl-security-level 0", "level 2 is"),
    ] {
        let (_, messages) = read(line);
        assert!(messages.len() == 1 && messages[0].contains(expected), "{messages:?}");
    }
    let (global, messages) = read("tune.ssl.capture-cipherlist-size 100");
    assert!(messages[0].ends_with("is deprecated. Please use 'tune.ssl.capture-buffer-size' instead."));
    assert_eq!(global.tls.captured_hello, 100);
    for (line, expected) in [
        ("ssl-engine rdrand", "engines are of OpenSSL"),
        ("ssl-propquery ?provider=x,fips=yes", "nothing has 'fips=yes'"),
        ("ssl-provider legacy", "unknown provider 'legacy'"),
        ("ssl-security-level 3", "levels above 2 are not implemented yet"),
        ("ssl-security-level 6", "expects a value between 0 and 5"),
        ("ssl-security-level", "missing value"),
        ("tune.ssl.certificate-compression on", "expects either 'auto' or 'off' but got 'on'."),
    ] {
        let (_, messages) = read(line);
        assert!(messages.len() == 1 && messages[0].contains(expected), "{messages:?}");
    }
}

#[test]
fn ssl_default_options_apply_to_later_lines() {
    let global = accept(
        "ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets strict-sni no-strict-sni\n\
         ssl-default-server-options force-tlsv13\nssl-load-extra-files key\nssl-default-bind-ciphers A\n\
         ssl-default-bind-options no-tlsv11 no-alpn strict-sni no-tlsv11\nssl-load-extra-del-ext",
    );
    let lines = &global.tls.line_defaults;
    assert_eq!(lines.iter().map(|(at, _)| at.line).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
    assert_eq!(*global.tls.defaults_below(0), TlsDefaults::default());
    let first = global.tls.defaults_below(1);
    assert_eq!(first.listener.options.min_version, Some(TlsVersion::Tls12));
    assert_eq!((first.listener.options.no_tickets, first.strict_names), (Some(true), false));
    assert_eq!((&first.server, first.extra_files), (&LineDefaults::default(), ExtraFiles::default()));
    let last = global.tls.defaults_below(6);
    let versions = (last.server.options.min_version, last.server.options.max_version);
    assert_eq!(versions, (Some(TlsVersion::Tls13), Some(TlsVersion::Tls13)));
    assert_eq!(last.listener.options.refused_versions, [TlsVersion::Tls11]);
    assert_eq!(last.listener.options.min_version, Some(TlsVersion::Tls12), "kept");
    assert!(last.listener.name_protocols() && last.strict_names && last.replaces_extension);
    let only_keys = ExtraFiles { bundle: false, ocsp: false, issuer: false, key: true, sctl: false };
    assert_eq!(last.extra_files, only_keys);
    let place = |options| last.listener.place(options).map(|(keyword, at)| (*keyword, at.line));
    assert_eq!(place("options"), Some(("ssl-default-bind-options", 6)));
    assert_eq!((place("ciphers"), place("curves")), (Some(("ssl-default-bind-ciphers", 5)), None));
    refuse(
        "ssl-default-bind-options no-tlsv1",
        "unknown option 'no-tlsv1' on global statement 'ssl-default-bind-options'; did you mean 'no-tlsv10' maybe ?",
    );
    refuse("ssl-default-bind-options ssl-min-ver 9", "'ssl-min-ver' : unknown TLS version '9'");
    refuse("ssl-default-bind-ciphers", "'ssl-default-bind-ciphers' expects a cipher suite as an argument.");
}

#[test]
fn parses_set_var_of_process_variables() {
    let global = accept("set-var proc.a str(x),upper\nset-var-fmt proc.b \"a-%[str(b)]\"");
    assert_eq!(global.variables.len(), 2);
    refuse(
        "set-var proc.a",
        "'set-var' requires a process-wide variable name ('proc.<name>') and a sample expression.",
    );
    refuse(
        "set-var txn.a str(x)",
        "'set-var': cannot set variable 'txn.a', only scope 'proc' is permitted in the global section.",
    );
}

#[test]
fn parses_h1_case_adjust() {
    let names = |lines: &str| accept(lines).http1.adjusted_names;
    assert_eq!(
        names("h1-case-adjust content-length Content-Length\nh1-case-adjust host HOST"),
        [Box::from("Content-Length"), Box::from("HOST")]
    );
    refuse("h1-case-adjust host", "'h1-case-adjust' expects <from> and <to> as argument.");
    refuse("h1-case-adjust host hosts", "<from> and <to> must not differ except the case");
    refuse("h1-case-adjust host HOST x", "'h1-case-adjust' cannot handle unexpected argument 'x'.");
    refuse(
        "h1-case-adjust-file missing",
        "'h1-case-adjust-file' : 'missing' : failed to open file (entity not found).",
    );
    let (_, twice) = read("h1-case-adjust host HOST\nh1-case-adjust host Host");
    assert_eq!(twice, ["parsing [test.cfg:3] : duplicate entry 'host'"]);
}

#[test]
fn parses_h1_case_adjust_file() {
    let of_file = |text: &str| read(&format!("h1-case-adjust-file 'text:{text}'"));
    let (global, messages) = of_file("# two;;  host HOST ;content-length Content-Length");
    assert_eq!(global.http1.adjusted_names.join(" "), "HOST Content-Length");
    assert!(messages.is_empty(), "{messages:?}");
    let complains = |text: &str, what: &str| {
        let at = format!("parsing [test.cfg:2] : 'h1-case-adjust-file' : 'text:{text}' : ");
        assert_eq!(of_file(text).1, [format!("{at}{what}")]);
    };
    complains("host HOST;host", "expect <to> at line 2.");
    complains("host HOST x", "expect <from> and <to> only at line 1.");
    complains("host HOST;host Host", "duplicate entry 'host' at line 2.");
    complains("host HOSTS", "<from> and <to> must not differ except the case at line 1.");
}

/// HAProxy 3.2 warns and stays root.
#[test]
fn uid_and_gid_accept_names_with_a_warning() {
    let (global, messages) = read("uid nobody\ngid nogroup");
    assert_eq!(
        messages,
        [
            "parsing [test.cfg:2] : 'uid' : string 'nobody' is not a number; it is read as 'user nobody'.",
            "parsing [test.cfg:3] : 'gid' : string 'nogroup' is not a number; it is read as 'group nogroup'.",
        ]
    );
    assert_eq!(
        (global.user, global.group),
        (Some(Account::Name("nobody".into())), Some(Account::Name("nogroup".into())))
    );
    refuse("uid 3x", "'uid' expects an integer argument, which '3x' is not.");
    refuse("uid -1", "'uid' : invalid value '-1', allowed range is 0..4294967294.");
}

/// Manual, 3.1, "cpu-map": a range without an end extends to the last number.
#[test]
fn cpu_map_ranges_may_omit_the_end() {
    let cpus = |line: &str| accept(line).cpu_map.threads;
    let open = cpus("cpu-map 1/1 1020-");
    assert_eq!(open[&1], [1020, 1021, 1022, 1023]);
    assert_eq!(cpus("cpu-map 1/1 0-1,1022-")[&1], [0, 1, 1022, 1023]);
    let last = weir_model::MAX_THREADS;
    let threads: Vec<u16> = cpus(&format!("cpu-map 1/{}- 0", last - 1)).keys().copied().collect();
    assert_eq!(threads, [last - 1, last]);
    refuse("cpu-map 1/1 -3", "cpu-map : '-3' is not a CPU range.");
    refuse("cpu-map 1/1 -", "cpu-map : '-' is not a CPU range.");
    refuse("cpu-map 1/1 1024-", "cpu-map : '1024-' is not a CPU range.");
}

#[test]
fn experimental_keywords_require_expose_experimental_directives() {
    for word in ["tune.fd.edge-triggered on", "tune.disable-fast-forward"] {
        let name = word.split(' ').next().unwrap_or_default();
        let message = format!(
            "'{name}' directive is experimental, must be allowed via a global 'expose-experimental-directives' on a line before it."
        );
        refuse(word, &message);
        refuse(&format!("{word}\nexpose-experimental-directives"), &message);
        let (_, messages) = read(&format!("expose-experimental-directives\n{word}"));
        assert!(messages.iter().all(|message| message.contains("without effect")), "{messages:?}");
    }
}

#[test]
fn global_keywords_reject_excess_arguments_and_values_out_of_range() {
    refuse(
        "expose-experimental-directives x",
        "'expose-experimental-directives' cannot handle unexpected argument 'x'.",
    );
    refuse(
        "expose-deprecated-directives on",
        "'expose-deprecated-directives' cannot handle unexpected argument 'on'.",
    );
    refuse("setenv A b c", "'setenv' cannot handle unexpected argument 'c'.");
    refuse("presetenv A b c", "'presetenv' cannot handle unexpected argument 'c'.");
    refuse(
        "tune.maxpollevents 1000001",
        "'tune.maxpollevents' : invalid value '1000001', allowed range is 1..1000000.",
    );
    accept("tune.maxpollevents 1000000");
}

/// One word represents all words with a time, since they share a reader.
#[test]
fn warns_about_text_after_a_global_time_unit() {
    let (global, messages) = read("hard-stop-after 30sec");
    assert_eq!(global.hard_stop_after, Some(Duration::from_secs(30)));
    assert_eq!(
        messages,
        [
            "parsing [test.cfg:2] : unexpected character 'e' after the timer value '30sec' of 'hard-stop-after': '30s' is \
             used. The units are us, ms, s, m, h and d."
        ]
    );
}

#[test]
fn scripts_run_when_their_line_is_read() {
    for word in ["lua-load", "lua-load-per-thread"] {
        let (_, messages) = read(&format!("{word} text:x a b\ntune.lua.openlibs math\n{word} text:y"));
        let ran = |at, what| format!("parsing [test.cfg:{at}] : ran text:{what}");
        assert_eq!(messages, [ran(2, "x with 'a b', 8 libraries"), ran(4, "y with '', 1 libraries")]);
        refuse(word, &format!("'{word}' expects a file name as parameter."));
        refuse(&format!("{word} text:fail"), "Lua runtime error: it fails");
        let message = "error in Lua file '/none.lua': cannot open /none.lua: entity not found";
        refuse(&format!("{word} /none.lua"), message);
    }
    refuse("lua-prepend-path", "'lua-prepend-path' expects to receive a <path> as argument");
    refuse("lua-prepend-path a b", "'lua-prepend-path' expects <type> to either be 'path' or 'cpath'");
    accept("lua-prepend-path a path\nlua-prepend-path b cpath\nlua-prepend-path c");
}

#[test]
fn settings_of_scripts_are_read() {
    let defaults = accept("").scripts;
    assert_eq!(
        (defaults.burst, defaults.session),
        (Some(Duration::from_secs(1)), Some(Duration::from_secs(4)))
    );
    assert_eq!((defaults.task, defaults.slice, defaults.megabytes), (None, None, 0));
    for (word, field) in [
        (
            "tune.lua.burst-timeout",
            (|global: &Global| global.scripts.burst) as fn(&Global) -> Option<Duration>,
        ),
        ("tune.lua.session-timeout", |global| global.scripts.session),
        ("tune.lua.service-timeout", |global| global.scripts.service),
        ("tune.lua.task-timeout", |global| global.scripts.task),
    ] {
        assert_eq!(field(&accept(&format!("{word} 2s"))), Some(Duration::from_secs(2)), "{word}");
        assert_eq!(field(&accept(&format!("{word} 0"))), None, "{word}");
        refuse(word, &format!("{word}: invalid timeout"));
        refuse(&format!("{word} zz"), &format!("{word}: invalid timeout"));
    }
    let scripts = accept(
        "tune.lua.forced-yield 50\ntune.lua.maxmem 8\ntune.lua.log.loggers off\ntune.lua.log.stderr on\n\
         tune.lua.bool-sample-conversion pre-3.1-bug",
    )
    .scripts;
    assert_eq!((scripts.slice, scripts.megabytes, scripts.logs), (Some(50), 8, false));
    assert_eq!((scripts.prints, scripts.keeps_booleans), (ScriptPrinting::On, Some(false)));
    assert_eq!(accept("tune.lua.bool-sample-conversion normal").scripts.keeps_booleans, Some(true));
    assert_eq!(accept("tune.lua.forced-yield").scripts.slice, None);
    refuse("tune.lua.forced-yield zz", "tune.lua.forced-yield: invalid number");
    refuse("tune.lua.maxmem", "'tune.lua.maxmem' expects an integer argument (Lua memory size in MB).");
    refuse("tune.lua.maxmem zz", "tune.lua.maxmem: invalid number zz");
    refuse("tune.lua.log.loggers zz", "'tune.lua.log.loggers' expects either 'on' or 'off' but got 'zz'.");
    refuse(
        "tune.lua.log.stderr zz",
        "'tune.lua.log.stderr' expects either 'on', 'auto' or 'off' but got 'zz'.",
    );
    assert_eq!(accept("tune.lua.openlibs none").scripts.libraries, Vec::<&str>::new());
    assert_eq!(accept("tune.lua.openlibs string,math").scripts.libraries, ["string", "math"]);
    let unknown = "'tune.lua.openlibs' does not know 'nothing': it knows table, io, os, string, math, utf8, package, debug.";
    refuse("tune.lua.openlibs nothing", unknown);
}
