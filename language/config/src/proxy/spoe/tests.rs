//! Engines: the meaning of their files.

mod verdicts;

use crate::scripts::NoScripts;
use weir_expr::{EvaluationPoint, PatternStore, Registry, TokenKeys, VariableNames};
use weir_syntax::{Diagnostics, Environment, MemoryFiles, SourceMap, StaticFeatures};

use super::agent::SPOE_AGENT_KEYWORDS;
use super::message::{SPOE_GROUP_KEYWORDS, SPOE_MESSAGE_KEYWORDS};
use crate::testing::actions::SendGroup;
use crate::testing::{FETCHES, KEYWORDS};
use crate::{ConfigOutcome, Inputs, parse};
use weir_model::{Config, Mode, Proxy, RulesetKind, Severity, SpoeEngine, SpoeEvent, SpoeGroupUse};

/// A parsed configuration with the engine's file `s.conf`.
struct ReadEngine {
    config: Config,
    variables: VariableNames,
    diagnostics: Diagnostics,
    sources: SourceMap,
}

impl ReadEngine {
    /// The messages, but for that about a missing `timeout processing`, which most of the engines here lack.
    fn messages(&self) -> Vec<String> {
        self.all_messages().filter(|said| !said.contains(MISSING_TIMEOUT)).collect()
    }

    fn all_messages(&self) -> impl Iterator<Item = String> {
        self.diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&self.sources))
    }

    fn proxy(&self, name: &str) -> &Proxy {
        self.config.proxies.iter().find(|proxy| &*proxy.name == name).expect("a proxy")
    }

    fn engine(&self) -> &SpoeEngine {
        self.proxy("f").filters[0].facts().spoe.expect("an engine")
    }
}

const MISSING_TIMEOUT: &str = "missing 'processing' timeout for SPOE agent";

#[test]
fn an_agent_without_a_timeout_is_warned_about_as_in_haproxy() {
    let with = |words: &str| {
        let read = engine(&changed("  use-backend agents\n", &format!("  use-backend agents\n  {words}\n")));
        read.all_messages().filter(|said| said.contains(MISSING_TIMEOUT)).count()
    };
    assert_eq!([with(""), with("timeout processing 0"), with("timeout processing 1ms")], [1, 1, 0]);
}

fn read(configuration: &str, engine: &str) -> ReadEngine {
    let mut sources = SourceMap::new();
    sources.add("c.cfg", configuration.as_bytes().to_vec());
    let files: MemoryFiles = [("s.conf", engine)].into_iter().collect();
    let variables = VariableNames::new();
    let inputs = Inputs {
        sources: &sources,
        loader: &files,
        registry: &Registry::new(FETCHES),
        keywords: &KEYWORDS,
        patterns: &PatternStore::new(),
        token_keys: &TokenKeys::new(),
        variables: &variables,
        scripts: &NoScripts,
        conditions: &StaticFeatures::default(),
    };
    let ConfigOutcome { config, diagnostics, .. } = parse(inputs, Environment::new());
    ReadEngine { config, variables, diagnostics, sources }
}

/// A frontend `f` with these lines, a backend `b`, and the backend `agents` with these lines.
fn configuration(frontend: &str, backend: &str, agents: &str) -> String {
    format!(
        "global\n log 127.0.0.1:514 local0\ndefaults\n timeout connect 5s\n timeout client 5s\n timeout server 5s\nfrontend f\n \
         mode http\n bind 127.0.0.1:8080\n {frontend}\n default_backend b\nbackend b\n mode http\n {backend}\n server s \
         127.0.0.1:8081\nbackend agents\n {agents}\n server a 127.0.0.1:8082\n"
    )
}

const FILTER: &str = "filter spoe engine e config s.conf";
const GOOD: &str = "\
[e]
spoe-agent ag
  messages m
  option var-prefix p
  use-backend agents
spoe-message m
  args ip=src
  event on-frontend-http-request
";

/// Reads the usual configuration with this engine.
fn engine(file: &str) -> ReadEngine {
    read(&configuration(FILTER, "", "mode spop"), file)
}

/// Replaces a part of the usual file.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replace(from, to)
}

#[test]
fn an_engine_has_its_agent_messages_and_groups() {
    let read = engine(
        "[other]\nnosuch\nspoe-agent x\n[e]\nspoe-agent ag\n messages m n\n groups g\n option var-prefix p.q\n option \
         set-on-error err\n option set-process-time pt\n option set-total-time tt\n register-var-names score\n log global\n log \
         /dev/log local1 notice\n no option pipelining\n option continue-on-error\n option force-set-var\n option dontlog-normal\n \
         max-frame-size 256\n timeout processing 10ms\n use-backend agents # them\nspoe-message unused\n args dst\nspoe-message n\n \
         acl local src 127.0.0.1\n args src \"m=path\" =dst\n event on-client-session\n event on-http-response if local\n acl \
         local src 127.0.0.2\nspoe-message m\n args x=req.body y=req.hdr(a)\n event on-frontend-http-request unless { req.hdr(b) 1 \
         }\nspoe-group g\n messages k\nspoe-message k\n[e2]\nspoe-agent y\n"
            .replace("m=path", "m=dst")
            .as_str(),
    );
    assert_eq!(read.messages(), [""; 0]);
    let SpoeEngine { name, file, agent, messages, groups } = read.engine();
    assert_eq!((&**name, &**file, &*agent.name), ("e", "s.conf", "ag"));
    assert_eq!(agent.at.to_string(), "s.conf:5");
    let backend = agent.backend.target().expect("a resolved backend").0;
    assert_eq!(&*read.config.proxies[backend as usize].name, "agents");
    let variable = |variable: Option<_>| read.variables.text(variable.expect("a variable"));
    assert_eq!(variable(agent.set_on_error), "txn.p.q.err");
    assert_eq!(variable(agent.set_process_time), "txn.p.q.pt");
    assert_eq!(variable(agent.set_total_time), "txn.p.q.tt");
    assert_eq!(agent.registered_names, ["p.q.score".into()]);
    assert!(read.variables.find("sess.p.q.score").is_some());
    assert!(!agent.pipelining && agent.continue_on_error && agent.force_set_variables);
    assert!(agent.dont_log_normal);
    assert_eq!(agent.max_frame_size, Some(256));
    assert_eq!(agent.processing_timeout.map(|time| time.as_millis()), Some(10));
    assert_eq!(
        agent.log_targets.iter().map(|target| target.level).collect::<Vec<_>>(),
        [Severity::Debug, Severity::Notice]
    );
    assert_eq!(messages.iter().map(|message| &*message.name).collect::<Vec<_>>(), ["m", "n", "k"]);
    assert_eq!(agent.events.of(SpoeEvent::FrontendHttpRequest), [0]);
    assert_eq!(agent.events.of(SpoeEvent::HttpResponse), [1]);
    assert!(agent.events.of(SpoeEvent::ClientSession).is_empty(), "the last event counts");
    let names = messages[1].arguments.iter().map(|argument| (&*argument.name, argument.value.decl().name));
    assert_eq!(names.collect::<Vec<_>>(), [("", "src"), ("m", "dst"), ("", "dst")]);
    assert_eq!(messages[2].event, None);
    assert!(messages[1].condition.is_some());
    assert_eq!((&*groups[0].name, &*groups[0].messages), ("g", &[2][..]));
    assert!(read.engine().reads_request_body() && !read.engine().reads_response_body());
    assert!(messages[0].reads_request_body() && !messages[1].reads_request_body());
}

#[test]
fn an_agent_has_the_defaults_of_the_manual() {
    let read = read(
        &configuration("filter spoe config s.conf", "", "mode tcp"),
        "spoe-agent ag\n use-backend agents\n messages m\nspoe-message m\n event on-tcp-response\n",
    );
    assert_eq!(read.messages(), [""; 0]);
    let SpoeEngine { name, agent, .. } = read.engine();
    assert_eq!((&**name, &*agent.variable_prefix), ("ag", "ag"));
    assert!(agent.pipelining);
    assert!(!agent.continue_on_error && !agent.force_set_variables && !agent.dont_log_normal);
    assert_eq!((agent.processing_timeout, agent.max_frame_size, agent.set_on_error), (None, None, None));
    assert_eq!(agent.log_targets.len(), 0);
}

/// A file may have conditional blocks and environment variables, as in a configuration.
#[test]
fn the_file_of_an_engine_has_the_syntax_of_configurations() {
    let file = changed(
        "  use-backend agents\n",
        ".if 0\n  nosuch\n.else\n  use-backend \"${NOSUCH}agents\" # a comment\n.endif\n",
    );
    assert_eq!(engine(&file.replace('\n', "\r\n")).messages(), [""; 0]);
    let broken = engine(&changed("use-backend agents", "use-backend \"agents"));
    assert!(
        broken.messages()[0].starts_with("parsing [s.conf:5]: unmatched quote"),
        "{:?}",
        broken.messages()
    );
}

/// The caret points into the file of the engine.
#[test]
fn faults_are_shown_with_their_columns_in_the_file() {
    let read = engine(&changed("ip=src", "ip=sorce"));
    let pretty = read.diagnostics.pretty(&read.sources, false, false);
    assert!(pretty.contains("--> s.conf:7:11"), "{pretty}");
    assert!(pretty.contains("args ip=sorce"), "{pretty}");
    assert!(pretty.contains("^^^^^"), "{pretty}");
}

#[test]
fn a_group_of_a_rule_is_resolved_whatever_the_order_of_lines() {
    let file = changed("messages m", "groups h g").replace("[e]", "[e]\nspoe-group h\n messages\n")
        + "spoe-group g\n messages m\n";
    let lines = format!("http-request send-spoe-group e g\n filter trace\n {FILTER}");
    let read = read(&configuration(&lines, "", "mode spop"), &file);
    assert_eq!(read.messages(), [""; 0]);
    let rule = read.proxy("f").rules(RulesetKind::HttpRequest).next().expect("a rule");
    let SendGroup(used) = rule.action.arguments::<SendGroup>().expect("the group");
    assert_eq!(used.target(), Some((1, 1)));
    assert_eq!(SpoeGroupUse::new("e", "g").target(), None);
}

#[test]
fn every_word_of_an_engine_reads_its_example_and_has_help() {
    let rows = |first: &str, name: &str, arguments: &str| format!("{first}{name} {arguments}");
    for row in SPOE_AGENT_KEYWORDS.rows() {
        assert!(!row.help.is_empty());
        let line = match row.name {
            "groups" | "messages" | "use-backend" => continue,
            name => rows("", name, row.example),
        };
        let messages = engine(&changed("messages m", &format!("messages m\n  {line}"))).messages();
        let ignored = row.help == "accepted for compatibility, no effect";
        let expected = format!("parsing [s.conf:4] : '{}' is deprecated and ignored.", row.name);
        assert_eq!(messages, Vec::from_iter(ignored.then_some(expected)), "{line}");
    }
    for row in SPOE_MESSAGE_KEYWORDS.rows() {
        let line = rows("\n  ", row.name, row.example);
        assert_eq!(engine(&changed("ip=src", &format!("ip=src{line}"))).messages(), [""; 0], "{line}");
    }
    assert_eq!(SPOE_GROUP_KEYWORDS.rows().count(), 1);
}

/// Each word that SPOE 1.2 calls deprecated is accepted, as 3.2 accepts it, also after `no`. 3.2 prints no warning.
#[test]
fn deprecated_words_are_ignored_with_a_warning() {
    for (line, word) in [
        ("maxconnrate 5", "maxconnrate"),
        ("maxconnrate 5 6", "maxconnrate"),
        ("maxerrrate x", "maxerrrate"),
        ("max-waiting-frames 5", "max-waiting-frames"),
        ("option async", "option async"),
        ("no option async", "no option async"),
        ("option send-frag-payload", "option send-frag-payload"),
        ("no option send-frag-payload", "no option send-frag-payload"),
        ("timeout hello 2s", "timeout hello"),
        ("timeout hello", "timeout hello"),
        ("timeout idle 2s", "timeout idle"),
    ] {
        let read = engine(&changed("messages m", &format!("messages m\n  {line}")));
        let expected = format!("parsing [s.conf:4] : '{word}' is deprecated and ignored.");
        assert_eq!(read.messages(), [expected], "{line}");
        assert!(!read.diagnostics.has_alerts());
    }
}

/// 3.2 checks arguments at these points (`haproxy -c` with `be_id`, `path`, `res.hdr` and `srv_id` at each event).
#[test]
fn arguments_are_checked_at_the_point_of_their_event() {
    use EvaluationPoint::*;
    let points = SpoeEvent::ALL.map(|event| (event.point(true), event.point(false)));
    assert_eq!(
        points[1..],
        [
            (FrontendRequestContent, FrontendRequestContent),
            (FrontendRequestContent, BackendRequestContent),
            (FrontendRequestHeader, FrontendRequestHeader),
            (FrontendRequestHeader, BackendRequestHeader),
            (ServerSource, ServerSource),
            (FrontendResponseContent, BackendResponseContent),
            (FrontendResponseHeader, BackendResponseHeader),
        ]
    );
}

#[test]
fn the_backend_of_an_agent_is_in_spop_mode() {
    for mode in ["mode spop", "mode tcp", ""] {
        let read = read(&configuration(FILTER, "", mode), GOOD);
        assert_eq!(read.messages(), [""; 0], "{mode}");
        assert_eq!(read.proxy("agents").mode(), Mode::Spop, "{mode}");
    }
}

/// 3.2 converts the backend when it checks the proxy of the engine: it accepts such a frontend above that proxy, and refuses one below.
#[test]
fn only_engines_use_a_backend_of_agents() {
    let agents = |mode: &str| format!("backend agents\n mode {mode}\n server a 127.0.0.1:1\n");
    let timeouts = "defaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n";
    let other = "frontend t\n mode tcp\n bind 127.0.0.1:2\n default_backend agents\n";
    let main = format!("frontend f\n mode http\n bind 127.0.0.1:1\n {FILTER}\n");
    let refused = |text: String| {
        let messages = read(&format!("{timeouts}{text}"), GOOD).messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].contains("tries to use incompatible spop backend 'agents' (c.cfg:"),
            "{messages:?}"
        );
    };
    refused(format!("{main}{other}{}", agents("spop")));
    refused(format!("{main}{other}{}", agents("tcp")));
    refused(format!("{other}{main}{}", agents("tcp")));
    refused(format!("{main} use_backend agents if TRUE\n{}", agents("spop")));
}

#[test]
fn mode_spop_is_for_backends_only() {
    let check = |text: &str, expected: &[&str]| {
        let timeouts = "defaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n";
        assert_eq!(read(&format!("{timeouts}{text}"), "").messages(), expected, "{text}");
    };
    // 3.2: "unknown proxy mode 'spop'."
    check("frontend f\n mode spop\n bind :80\n", &["parsing [c.cfg:6] : 'mode spop' is for backends only."]);
    // 3.2 accepts both, and serves no client there.
    check(
        "defaults\n mode spop\nfrontend f\n bind :80\n",
        &["frontend 'f' cannot have the 'mode spop' that it inherits: it is for backends only."],
    );
    check(
        "listen f\n mode spop\n bind :80\n server a 127.0.0.1:1\n",
        &[
            "proxy 'f' cannot have 'bind' lines: its servers are agents, which speak to engines only ('mode spop').",
        ],
    );
    check(
        "backend b\n mode spo\n",
        &["parsing [c.cfg:6] : unknown proxy mode 'spo'; did you mean 'spop' maybe ?"],
    );
    // 3.2 has these warnings too.
    check(
        "backend b\n mode spop\n http-request deny\n cookie x\n option forwardfor\n balance uri\n server a 127.0.0.1:1 cookie c\n",
        &[
            "'http-request' rules ignored for backend 'b' as they require HTTP mode.",
            "cookie will be ignored for backend 'b' (needs 'mode http').",
            "Layer 7 hash not possible for backend 'b' (needs 'mode http'). Falling back to round robin.",
            "'option forwardfor' ignored for backend 'b' as it requires HTTP mode.",
            "backend 'b' : ignoring cookie for server 'a' as HTTP mode is disabled.",
        ],
    );
    // Checks of HTTP, and agents without timeouts, are valid.
    check("backend b\n mode spop\n option httpchk\n option spop-check\n server a 127.0.0.1:1\n", &[]);
    check("defaults\nbackend b\n mode spop\n server a 127.0.0.1:1\n", &[]);
}

#[test]
fn proto_spop_is_for_servers_in_spop_mode() {
    let read = |mode: &str, proto: &str| {
        let text = format!(
            "backend b\n mode {mode}\n timeout connect 1s\n timeout server 1s\n server s 127.0.0.1:1 proto {proto}\n"
        );
        read(&text, "").messages()
    };
    assert_eq!(read("spop", "spop"), [""; 0]);
    for (mode, proto) in [("http", "spop"), ("tcp", "spop"), ("spop", "h1"), ("spop", "h2"), ("spop", "none")]
    {
        // The message of 3.2.
        let expected =
            format!("backend 'b' : MUX protocol '{proto}' is not usable for server 's' at [c.cfg:5].");
        assert_eq!(read(mode, proto), [expected], "{mode}");
    }
}
