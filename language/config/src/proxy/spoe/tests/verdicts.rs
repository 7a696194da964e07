//! The verdicts on faults of engines beside those of HAProxy 3.2 (`haproxy -c`).

use weir_model::SpoeEvent;

use super::{FILTER, GOOD, ReadEngine, changed, configuration, engine, read};

/// What 3.2 says about a fault.
enum Witness {
    /// Its error.
    Refuses(&'static str),
    /// Its warning.
    Warns(&'static str),
    /// It accepts the file. The reason for another verdict here.
    Accepts(&'static str),
}
use Witness::{Accepts, Refuses, Warns};

/// Checks the first message on an engine's file, and that the severity is that of 3.2 unless a reason is given.
#[track_caller]
fn verdict(read: &ReadEngine, witness: &Witness, expected: &str) {
    let messages = read.messages();
    let (Refuses(said) | Warns(said) | Accepts(said)) = witness;
    assert_eq!(messages.first().map(String::as_str), Some(expected), "all: {messages:#?}, 3.2: {said}");
    match witness {
        Refuses(_) => assert!(read.diagnostics.has_alerts()),
        Warns(_) => assert!(!read.diagnostics.has_alerts()),
        Accepts(_) => {}
    }
}

const UNKNOWN_WORDS: &str = "3.2 ignores unknown words in a message, so a typo would go unnoticed";

#[test]
fn faults_of_an_agent_have_the_verdicts_of_haproxy() {
    for (line, witness, expected) in [
        (
            "max-frame-size 255",
            Refuses("'max-frame-size' expects a positive integer argument in the range [256, 16380]."),
            "parsing [s.conf:4] : 'max-frame-size' expects a positive integer argument in the range [256, 16380].",
        ),
        (
            "max-frame-size 16381",
            Refuses("'max-frame-size' expects a positive integer argument in the range [256, 16380]."),
            "parsing [s.conf:4] : 'max-frame-size' expects a positive integer argument in the range [256, 16380].",
        ),
        (
            "max-frame-size",
            Refuses("'max-frame-size' expects an integer argument."),
            "parsing [s.conf:4] : 'max-frame-size' expects an integer argument.",
        ),
        (
            "max-frame-size 300 4",
            Refuses("'max-frame-size' cannot handle unexpected argument '4'."),
            "parsing [s.conf:4] : 'max-frame-size' cannot handle unexpected argument '4'.",
        ),
        (
            "maxconnrate",
            Refuses("'maxconnrate' expects an integer argument."),
            "parsing [s.conf:4] : 'maxconnrate' expects an integer argument.",
        ),
        (
            "timeout",
            Refuses("'timeout' expects 'hello', 'idle' and 'processing'."),
            "parsing [s.conf:4] : 'timeout' supports 'processing' (got '').",
        ),
        (
            "timeout procesing 5s",
            Refuses("'timeout' supports 'processing' (got procesing)."),
            "parsing [s.conf:4] : 'timeout' supports 'processing' (got 'procesing'); did you mean 'processing' maybe ?",
        ),
        (
            "timeout processing",
            Refuses("'timeout processing' expects an integer value (in milliseconds)."),
            "parsing [s.conf:4] : 'timeout processing' expects an integer value (in milliseconds).",
        ),
        (
            "timeout processing 5s 6s",
            Refuses("'timeout' cannot handle unexpected argument '6s'."),
            "parsing [s.conf:4] : 'timeout processing' cannot handle unexpected argument '6s'.",
        ),
        (
            "option",
            Refuses("'option' expects an option name."),
            "parsing [s.conf:4] : 'option' expects an option name.",
        ),
        (
            "option pipelinig",
            Refuses("option 'pipelinig' is not supported."),
            "parsing [s.conf:4] : option 'pipelinig' is not supported; did you mean 'pipelining' maybe ?",
        ),
        (
            "option pipelining x",
            Refuses("'option' cannot handle unexpected argument 'x'."),
            "parsing [s.conf:4] : 'option pipelining' cannot handle unexpected argument 'x'.",
        ),
        (
            "no option continue-on-error",
            Refuses("negation is not supported for option 'continue-on-error'."),
            "parsing [s.conf:4]: negation is not supported for option 'continue-on-error'.",
        ),
        (
            "no option set-on-error x",
            Refuses("negation is not supported for option 'set-on-error'."),
            "parsing [s.conf:4]: negation is not supported for option 'set-on-error'.",
        ),
        (
            "no maxconnrate",
            Refuses("negation/default currently supported only for options, log, ..."),
            "parsing [s.conf:4]: negation is supported for options and log only.",
        ),
        (
            "no",
            Refuses("negation/default currently supported only for options, log, ..."),
            "parsing [s.conf:4]: 'no' expects an option or 'log'.",
        ),
        (
            "option var-prefix",
            Refuses("'option var-prefix' expects a value."),
            "parsing [s.conf:4] : 'option var-prefix' expects a value.",
        ),
        (
            "option var-prefix a-b",
            Refuses("'option var-prefix' only supports [a-zA-Z0-9_.] chars."),
            "parsing [s.conf:4]: 'option var-prefix' only supports [a-zA-Z0-9_.] chars.",
        ),
        (
            "option set-on-error a b",
            Refuses("'option' cannot handle unexpected argument 'b'."),
            "parsing [s.conf:4] : 'option set-on-error' cannot handle unexpected argument 'b'.",
        ),
        (
            "option set-total-time a:b",
            Refuses("'option set-total-time' only supports [a-zA-Z0-9_.] chars."),
            "parsing [s.conf:4]: 'option set-total-time' only supports [a-zA-Z0-9_.] chars.",
        ),
        (
            "register-var-names",
            Refuses("'register-var-names' expects one or more variable names."),
            "parsing [s.conf:4] : 'register-var-names' expects one or more variable names.",
        ),
        (
            "register-var-names a-b",
            Refuses("SPOE agent 'ag': failed to register variable p.a-b (invalid syntax at char '-')"),
            "parsing [s.conf:4] : SPOE agent 'ag': failed to register variable p.a-b (invalid syntax at char '-b').",
        ),
        (
            "log",
            Refuses("log : expects <address> and <facility> or global as arguments"),
            "parsing [s.conf:4] : log : expects <address> and <facility> or global as arguments",
        ),
        (
            "log global x",
            Refuses("log : unknown log facility 'x'"),
            "parsing [s.conf:4] : log : unknown log facility 'x'",
        ),
        (
            "log ring@nosuch local0",
            Refuses(
                "log directive declared in SPOE agent section 'ag' in file 's.conf' at line 4 uses unknown ring named 'nosuch'.",
            ),
            "parsing [s.conf:4] : log : unknown ring 'nosuch'",
        ),
        (
            "log backend@nosuch local0",
            Refuses("... uses unknown log backend 'nosuch'."),
            "parsing [s.conf:4] : log : unknown backend 'nosuch'",
        ),
        (
            "mesages n",
            Refuses("unknown keyword 'mesages' in spoe-agent section."),
            "parsing [s.conf:4] : unknown keyword 'mesages' in spoe-agent section; did you mean 'messages' maybe ?",
        ),
        (
            "acl x src 1.2.3.4",
            Refuses("unknown keyword 'acl' in spoe-agent section."),
            "parsing [s.conf:4] : unknown keyword 'acl' in spoe-agent section.",
        ),
        (
            "messages n",
            Refuses("SPOE agent 'ag' try to use undefined SPOE message 'n' at s.conf:2"),
            "parsing [s.conf:4] : SPOE agent 'ag' uses the undefined SPOE message 'n'.",
        ),
        (
            "messages m",
            Refuses("spoe-message 'm' already used."),
            "parsing [s.conf:4] : spoe-message 'm' already used.",
        ),
        (
            "groups g",
            Refuses("SPOE agent 'ag' try to use undefined SPOE group 'g' at s.conf:2"),
            "parsing [s.conf:4] : SPOE agent 'ag' uses the undefined SPOE group 'g'.",
        ),
        (
            "use-backend",
            Refuses("'use-backend' expects a backend name."),
            "parsing [s.conf:4] : 'use-backend' expects a backend name.",
        ),
        (
            "use-backend agents x",
            Refuses("'use-backend' cannot handle unexpected argument 'x'."),
            "parsing [s.conf:4] : 'use-backend' cannot handle unexpected argument 'x'.",
        ),
    ] {
        verdict(&engine(&changed("messages m", &format!("messages m\n  {line}"))), &witness, expected);
    }
}

#[test]
fn faults_of_sections_and_scopes_have_the_verdicts_of_haproxy() {
    let with = |end: &str| format!("{GOOD}{end}\n");
    for (file, witness, expected) in [
        (
            GOOD.replace("[e]", "[f]"),
            Refuses("No SPOE agent found in file s.conf"),
            "parsing [c.cfg:10] : 'filter' : No SPOE agent found in file s.conf",
        ),
        (
            GOOD.replace("[e]\n", ""),
            Refuses("No SPOE agent found in file s.conf"),
            "parsing [c.cfg:10] : 'filter' : No SPOE agent found in file s.conf",
        ),
        (
            String::new(),
            Refuses("No SPOE agent found in file s.conf"),
            "parsing [c.cfg:10] : 'filter' : No SPOE agent found in file s.conf",
        ),
        (
            with("spoe-agent b"),
            Refuses("another spoe-agent section previously defined."),
            "parsing [s.conf:9] : another spoe-agent section was declared at s.conf:2.",
        ),
        (
            with("spoe-agent"),
            Refuses("missing name for spoe-agent section."),
            "parsing [s.conf:9] : missing name for spoe-agent section.",
        ),
        (
            with("spoe-message"),
            Refuses("missing name for spoe-message section."),
            "parsing [s.conf:9] : missing name for spoe-message section.",
        ),
        (
            with("spoe-group a b"),
            Refuses("'spoe-group' cannot handle unexpected argument 'b'."),
            "parsing [s.conf:9] : 'spoe-group' cannot handle unexpected argument 'b'.",
        ),
        (
            with("spoe-message m"),
            Refuses("spoe-message section 'm' has the same name as another one declared at s.conf:6."),
            "parsing [s.conf:9] : spoe-message section 'm' has the same name as another one declared at s.conf:6.",
        ),
        (
            with("spoe-group g\nspoe-group g"),
            Refuses("spoe-group section 'g' has the same name as another one declared at s.conf:9."),
            "parsing [s.conf:10] : spoe-group section 'g' has the same name as another one declared at s.conf:9.",
        ),
        (
            with("spoe-group g\n nosuch"),
            Refuses("unknown keyword 'nosuch' in spoe-group section."),
            "parsing [s.conf:10] : unknown keyword 'nosuch' in spoe-group section.",
        ),
        (
            with("spoe-group g\n messages m m"),
            Refuses("spoe-message 'm' already used."),
            "parsing [s.conf:10] : spoe-message 'm' already used.",
        ),
        (
            changed("messages m", "groups g") + "spoe-group g\n messages n\n",
            Refuses("SPOE group 'g' try to use undefined SPOE message 'n' at s.conf:2"),
            "parsing [s.conf:10] : SPOE group 'g' uses the undefined SPOE message 'n'.",
        ),
        (
            changed("messages m", "groups g h") + "spoe-group g\n messages m\nspoe-group h\n messages m\n",
            Refuses("SPOE message 'm' already belongs to the SPOE group 'g' declare at s.conf:9"),
            "parsing [s.conf:12] : SPOE message 'm' already belongs to the SPOE group 'g' declared at s.conf:9.",
        ),
        (
            GOOD.replace("[e]", "[e]\nnosuch"),
            Refuses("unknown keyword 'nosuch' out of section."),
            "parsing [s.conf:2]: unknown keyword 'nosuch' out of section.",
        ),
        (
            GOOD.replace("[e]", "[e] x"),
            Refuses("character 'x' is not permitted after scope declaration."),
            "parsing [s.conf:1] : 'x' is not permitted after the scope declaration '[e]'.",
        ),
        (
            GOOD.replace("[e]", "[e#]").replace('#', "\\#"),
            Refuses("character '#' is not permitted in a scope name."),
            "parsing [s.conf:1] : character '#' is not permitted in a scope name.",
        ),
        (
            GOOD.replace("[e]", "[]"),
            Refuses("empty scope name is forbidden."),
            "parsing [s.conf:1] : empty scope name is forbidden.",
        ),
        (
            GOOD.replace("[e]", "[e"),
            Refuses("empty scope name is forbidden."),
            "parsing [s.conf:1] : a scope declaration ends with ']'.",
        ),
        (
            changed("  use-backend agents\n", ""),
            Refuses("No backend declared for SPOE agent 'ag' declared at s.conf:2"),
            "parsing [s.conf:2] : No backend declared for SPOE agent 'ag'.",
        ),
        (
            changed("  option var-prefix p\n", "").replace("agent ag", "agent a-g"),
            Refuses(
                "Invalid variable prefix 'a-g' for SPOE agent 'a-g' declared at s.conf:2. Use 'option var-prefix' to set it. Only [a-zA-Z0-9_.] chars are supported.",
            ),
            "parsing [s.conf:2] : Invalid variable prefix 'a-g' for SPOE agent 'a-g'. Use 'option var-prefix' to set it. Only [a-zA-Z0-9_.] chars are supported.",
        ),
        (
            changed("  messages m\n", ""),
            Warns("Proxy 'f': No message/group used by SPOE agent 'ag' declared at s.conf:2."),
            "Proxy 'f': No message/group used by SPOE agent 'ag' declared at s.conf:2.",
        ),
        (
            changed("  event on-frontend-http-request\n", ""),
            Warns("Proxy 'f': Ignore SPOE message 'm' without event at s.conf:6."),
            "Proxy 'f': Ignore SPOE message 'm' without event at s.conf:6.",
        ),
        (
            GOOD.trim_end().to_owned(),
            Refuses("Missing LF on last line, file might have been truncated at position 33."),
            "parsing [s.conf:8]: Missing LF on last line, file might have been truncated at position 33.",
        ),
        (
            with("frontend x"),
            Accepts(UNKNOWN_WORDS),
            "parsing [s.conf:9] : unknown keyword 'frontend' in spoe-message section.",
        ),
    ] {
        verdict(&engine(&file), &witness, expected);
    }
}

#[test]
fn faults_of_a_message_have_the_verdicts_of_haproxy() {
    let args = |text: &str| changed("args ip=src", text);
    let event = |text: &str| changed("event on-frontend-http-request", text);
    for (file, witness, expected) in [
        (
            args("arg ip=src"),
            Accepts(UNKNOWN_WORDS),
            "parsing [s.conf:7] : unknown keyword 'arg' in spoe-message section; did you mean 'args' maybe ?",
        ),
        (
            args("args x=nosuch"),
            Refuses("'args': unknown fetch method 'nosuch'."),
            "parsing [s.conf:7] : 'args': unknown fetch method 'nosuch'.",
        ),
        (
            args("args ip=src,nosuch"),
            Refuses("'args': unknown converter 'nosuch'."),
            "parsing [s.conf:7] : 'args': unknown converter 'nosuch'.",
        ),
        (
            args("args x= src"),
            Refuses("'args': missing fetch method."),
            "parsing [s.conf:7] : 'args': missing fetch method.",
        ),
        (
            args("args str(a=b)"),
            Refuses("'args': unknown fetch method 'b'."),
            "parsing [s.conf:7] : 'args': unknown fetch method 'b'.",
        ),
        (event("event"), Refuses("missing event name."), "parsing [s.conf:8] : missing event name."),
        (
            event("event on-clientsession"),
            Refuses("unknown event 'on-clientsession'."),
            "parsing [s.conf:8] : unknown event 'on-clientsession'; did you mean 'on-client-session' maybe ?",
        ),
        (
            event("event on-client-session foo"),
            Refuses(
                "'event on-client-session' expects either 'if' or 'unless' followed by a condition but found 'foo'.",
            ),
            "parsing [s.conf:8]: 'event on-client-session' expects either 'if' or 'unless' followed by a condition but found 'foo'.",
        ),
        (
            event("event on-client-session if nosuch"),
            Refuses(
                "error detected while parsing an 'event on-client-session' condition : no such ACL : 'nosuch'.",
            ),
            "parsing [s.conf:8] : error detected while parsing an 'event on-client-session' condition : no such ACL : 'nosuch'.",
        ),
        (
            event("event on-client-session if a\n  acl a src 1.1.1.1"),
            Refuses("... no such ACL : 'a'."),
            "parsing [s.conf:8] : error detected while parsing an 'event on-client-session' condition : no such ACL : 'a'.",
        ),
        (
            event("event on-client-session if a\nspoe-message n\n  acl a src 1.1.1.1"),
            Refuses("... no such ACL : 'a'."),
            "parsing [s.conf:8] : error detected while parsing an 'event on-client-session' condition : no such ACL : 'a'.",
        ),
        (
            args("acl a nosuch x"),
            Refuses(
                "error detected while parsing ACL 'a' : unknown fetch method 'nosuch' in ACL expression 'nosuch'.",
            ),
            "parsing [s.conf:7] : error detected while parsing ACL 'a' : unknown fetch method 'nosuch' in ACL expression 'nosuch'.",
        ),
        (
            args("args x=res.hdr(a)"),
            Refuses(
                "Ignore SPOE message 'm' at s.conf:6: some args extract information from 'frontend http-response header rule' ... ('frontend http-request header rule')",
            ),
            "parsing [s.conf:7] : argument 'res.hdr' of SPOE message 'm' is not available at 'on-frontend-http-request' ('frontend http-request header rule').",
        ),
        (
            event("event on-client-session if { path /x }"),
            Accepts("the message would never be sent"),
            "parsing [s.conf:8] : anonymous acl will never match at 'on-client-session' because it uses keyword 'path' which is incompatible with 'frontend tcp-request connection rule'",
        ),
    ] {
        verdict(&engine(&file), &witness, expected);
    }
    // A named ACL of the proxy is not visible.
    let lines = format!("acl a src 1.1.1.1\n {FILTER}");
    let with_acl = read(&configuration(&lines, "", "mode spop"), &event("event on-client-session if a"));
    verdict(
        &with_acl,
        &Refuses("... no such ACL : 'a'."),
        "parsing [s.conf:8] : error detected while parsing an 'event on-client-session' condition : no such ACL : 'a'.",
    );
}

#[test]
fn an_event_of_frontends_is_left_out_in_a_backend() {
    let text = configuration("", FILTER, "mode spop");
    for event in SpoeEvent::ALL {
        let read = read(&text, &changed("on-frontend-http-request", event.name()));
        let engine = read.proxy("b").filters[0].facts().spoe.expect("an engine");
        let warning = "Proxy 'b': frontend event used on a backend proxy at s.conf:6.";
        let expected = Vec::from_iter(event.is_of_frontend().then_some(warning));
        assert_eq!(read.messages(), expected, "{}", event.name());
        assert_eq!(engine.agent.events.of(event).is_empty(), event.is_of_frontend());
    }
}

#[test]
fn faults_of_filter_lines_have_the_verdicts_of_haproxy() {
    for (line, witness, expected) in [
        (
            "filter spoe",
            Refuses("'spoe' : missing config file"),
            "parsing [c.cfg:10] : 'filter' : 'spoe' : missing config file",
        ),
        (
            "filter spoe engine e",
            Refuses("'spoe' : missing config file"),
            "parsing [c.cfg:10] : 'filter' : 'spoe' : missing config file",
        ),
        (
            "filter spoe config",
            Refuses("'spoe' : 'config' option without value"),
            "parsing [c.cfg:10] : 'filter' : 'spoe' : 'config' option without value",
        ),
        (
            "filter spoe config nosuch.conf",
            Refuses("stat() failed for configuration file nosuch.conf : No such file or directory"),
            "parsing [c.cfg:10] : 'filter' : 'spoe' : error opening file 'nosuch.conf': entity not found.",
        ),
        (
            "filter spoe confg s.conf",
            Refuses("unknown keyword 'confg'"),
            "parsing [c.cfg:10] : 'filter' : unknown keyword 'confg'; did you mean 'config' maybe ?",
        ),
        (
            "filter spoe config s.conf",
            Refuses("No SPOE agent found in file s.conf"),
            "parsing [c.cfg:10] : 'filter' : No SPOE agent found in file s.conf",
        ),
        (
            "filter spoe engine e config s.conf\n filter spoe engine e config s.conf",
            Refuses("Proxy f : duplicated name for SPOE engine 'e'."),
            "Proxy 'f': duplicated name for SPOE engine 'e'.",
        ),
        (
            "filter spoe engine e config s.conf\n http-request send-spoe-group x g",
            Refuses("Proxy 'f': unable to find SPOE engine 'x' used by the send-spoe-group 'g'."),
            "Proxy 'f': unable to find SPOE engine 'x' used by the send-spoe-group 'g'.",
        ),
        (
            "filter spoe engine e config s.conf\n http-request send-spoe-group e x",
            Refuses("Proxy 'f': unable to find SPOE group 'x' into SPOE engine 'e' configuration."),
            "Proxy 'f': unable to find SPOE group 'x' into SPOE engine 'e' configuration.",
        ),
        (
            "filter spoe engine e config s.conf\n http-request send-spoe-group e",
            Refuses(
                "error detected in frontend 'f' while parsing 'http-request send-spoe-group' rule : expects 2 arguments: <engine-id> <group-id>.",
            ),
            "parsing [c.cfg:11] : error detected in frontend 'f' while parsing 'http-request send-spoe-group' rule : expects 2 arguments: <engine-id> <group-id>.",
        ),
        (
            "http-request send-spoe-group e g",
            Refuses("Proxy 'f': unable to find SPOE engine 'e' used by the send-spoe-group 'g'."),
            "Proxy 'f': unable to find SPOE engine 'e' used by the send-spoe-group 'g'.",
        ),
    ] {
        verdict(&read(&configuration(line, "", "mode spop"), GOOD), &witness, expected);
    }
    // 3.2: "Proxy 'f': Invalid SPOE message 'm' used by SPOE group 'g' at s.conf:6: some args extract information from [...]".
    let file =
        changed("messages m", "groups g").replace("ip=src", "x=res.hdr(a)") + "spoe-group g\n messages m\n";
    let text = configuration(&format!("{FILTER}\n http-request send-spoe-group e g"), "", "mode spop");
    assert_eq!(
        read(&text, &file).messages(),
        [
            "Proxy 'f': Invalid SPOE message 'm' used by SPOE group 'g' at s.conf:6: its argument 'res.hdr' is not available in this rule."
        ]
    );
    let text = configuration(&format!("{FILTER}\n http-response send-spoe-group e g"), "", "mode spop");
    assert_eq!(read(&text, &file).messages(), [""; 0]);
    // As in 3.2, an engine belongs to one proxy, and a rule of a `defaults` section cannot name one.
    let text = configuration(FILTER, "http-request send-spoe-group e g", "mode spop");
    assert_eq!(
        read(&text, GOOD).messages(),
        ["Proxy 'b': unable to find SPOE engine 'e' used by the send-spoe-group 'g'."]
    );
    let text = configuration(FILTER, "", "mode spop")
        .replace("defaults\n", "defaults d\n http-request send-spoe-group e g\n");
    let messages = read(&text, GOOD).messages();
    assert!(
        messages.iter().any(|message| message.starts_with("Proxy 'd': unable to find SPOE engine 'e'")),
        "{messages:?}"
    );
}

#[test]
fn faults_of_the_backend_have_the_verdicts_of_haproxy() {
    for (agents, backend, witness, expected) in [
        (
            "mode http",
            "agents",
            Refuses(
                "Proxy f : backend 'agents' used by SPOE agent 'ag' declared at s.conf:2 must use SPOP mode.",
            ),
            "Proxy 'f': backend 'agents' used by SPOE agent 'ag' declared at s.conf:2 must use SPOP mode.",
        ),
        (
            "mode spop",
            "agent",
            Refuses("Proxy f : unknown backend 'agent' used by SPOE agent 'ag' declared at s.conf:2."),
            "Proxy 'f': unknown backend 'agent' used by SPOE agent 'ag' declared at s.conf:2; did you mean 'agents' maybe ?",
        ),
        (
            "mode spop",
            "f",
            Refuses("Proxy f : unknown backend 'f' used by SPOE agent 'ag' declared at s.conf:2."),
            "Proxy 'f': unknown backend 'f' used by SPOE agent 'ag' declared at s.conf:2.",
        ),
    ] {
        let file = changed("use-backend agents", &format!("use-backend {backend}"));
        verdict(&read(&configuration(FILTER, "", agents), &file), &witness, expected);
    }
}
