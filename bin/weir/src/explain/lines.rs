//! The example of each entry as a configuration line, and the configurations in which tests put these lines.

use std::collections::BTreeMap;

use weir_config::vocabulary::{self, ConfigWord, WordPlace};
use weir_expr::args::{ArgKind, ArgSpec};
use weir_expr::pattern::MatchMethod;
use weir_expr::{EvaluationPoint, EvaluationPoints, FetchDecl, Registry, SampleType, converters};
use weir_stream::KEYWORDS;
use weir_vocabulary::fetch::FETCHES;

/// A configuration line, and its section.
#[derive(Clone, Debug)]
pub(crate) struct ConfigLine {
    #[cfg_attr(not(test), expect(dead_code, reason = "tests put the line there"))]
    /// The keyword of the section, or `tcp` for a `listen` section in TCP mode. Empty for a line that starts a section; `engine` if it
    /// does so in the file of an engine.
    pub place: &'static str,
    /// The text of the line.
    pub text: String,
}

/// The example of a configuration word.
pub(crate) fn of_word(word: &ConfigWord) -> ConfigLine {
    let space = if word.example.is_empty() || word.arguments.starts_with('(') { "" } else { " " };
    let written = format!("{}{space}{}", word.name, word.example);
    if let Some((.., place, text)) =
        SPECIAL.iter().find(|(known, name, ..)| (*known, *name) == (word.place, word.name))
    {
        return ConfigLine { place, text: (*text).to_owned() };
    }
    let valid = vocabulary::written_in(&KEYWORDS, word);
    let proxy = || {
        let sections = ["frontend", "listen", "backend", "defaults"];
        sections.into_iter().find(|section| valid.contains(section)).unwrap_or("listen")
    };
    let (place, text) = match word.place {
        WordPlace::Section if word.name.starts_with("spoe-") => ("engine", written),
        WordPlace::Section => ("", written),
        WordPlace::Proxy => (proxy(), written),
        WordPlace::Option => (proxy(), format!("option {written}")),
        WordPlace::Bind => ("frontend", format!("bind :8443 {written}")),
        WordPlace::Server => ("backend", format!("server app1 192.0.2.10:8080 {written}")),
        WordPlace::Action => {
            let rules = valid.iter().find(|rules| **rules == "http-request").or(valid.first());
            ("listen", format!("{} {written}", rules.copied().unwrap_or_default()))
        }
        WordPlace::Filter => ("listen", format!("filter {written}")),
        WordPlace::Load => ("crt-store", format!("load crt site.pem {written}")),
        other => (other.section().unwrap_or_default(), written),
    };
    ConfigLine { place, text }
}

/// Examples for fetches and converters, by name.
pub(crate) struct ExpressionExamples {
    fetches: BTreeMap<&'static str, ConfigLine>,
    converters: BTreeMap<&'static str, ConfigLine>,
    acls: BTreeMap<&'static str, ConfigLine>,
}

impl ExpressionExamples {
    pub(crate) fn all() -> Self {
        let registry = Registry::new(FETCHES.iter().map(|row| &row.decl));
        let fetches = registry.fetches();
        let acls = registry.acl_keywords().into_iter().filter(|row| row.name != row.fetch);
        let acls = acls.filter_map(|row| {
            let fetch = registry.fetch(row.fetch)?;
            let call = call(row.name, fetch.args, &[]);
            let value = if row.dotted { "3.1" } else { pattern(row.name, row.method) };
            let space = if value.is_empty() { "" } else { " " };
            Some((row.name, condition(fetch.valid, &format!("{call}{space}{value}"))?))
        });
        ExpressionExamples {
            acls: acls.collect(),
            fetches: fetches.into_iter().filter_map(|row| Some((row.name, of_fetch(row)?))).collect(),
            converters: converters::all()
                .iter()
                .filter_map(|row| {
                    let input = INPUTS.iter().find(|(kind, _)| *kind == row.input).map(|(_, text)| *text)?;
                    let expression = format!("{input},{}", call(row.name, row.args, OF_CONVERTERS));
                    Some((row.name, assignment(EvaluationPoints::ALL, &expression)?))
                })
                .collect(),
        }
    }

    pub(crate) fn of_fetch(&self, name: &str) -> Option<&ConfigLine> {
        self.fetches.get(name)
    }

    pub(crate) fn of_converter(&self, name: &str) -> Option<&ConfigLine> {
        self.converters.get(name)
    }

    pub(crate) fn of_acl_keyword(&self, name: &str) -> Option<&ConfigLine> {
        self.acls.get(name)
    }
}

/// The example of a log alias.
pub(crate) fn of_alias(name: &str) -> ConfigLine {
    ConfigLine { place: "frontend", text: format!("log-format \"%{name}\"") }
}

fn of_fetch(row: &FetchDecl) -> Option<ConfigLine> {
    let call = call(row.name, row.args, OF_FETCHES);
    match row.output {
        SampleType::Bool => condition(row.valid, &call),
        _ => assignment(row.valid, &call),
    }
}

/// A call with its required arguments. `special` contains arguments for names where the type alone is not sufficient.
fn call(name: &str, spec: ArgSpec, special: &[(&str, &str)]) -> String {
    if let Some((_, arguments)) = special.iter().find(|(row, _)| *row == name) {
        return format!("{name}{arguments}");
    }
    // The name is optional for these fetches, but an example without it would not be helpful.
    let named = NAMED
        .iter()
        .find(|(begin, _)| name.trim_start_matches("req.").trim_start_matches("res.").starts_with(begin));
    if let Some((_, argument)) =
        named.filter(|_| spec.kinds.first() == Some(&ArgKind::Str) && !name.ends_with("_names"))
    {
        return format!("{name}({argument})");
    }
    // A virtual name, so that these converters do not need a file.
    if name.starts_with("map") {
        return format!("{name}(virt@names)");
    }
    // The default is the proxy's own table, which differs from place to place.
    let named = spec.kinds.iter().skip(spec.required).take_while(|kind| **kind == ArgKind::Table).count();
    let kinds = spec.kinds.iter().take(spec.required + named);
    let values: Vec<&str> = kinds.map(|kind| argument(*kind)).collect();
    if values.is_empty() { name.to_owned() } else { format!("{name}({})", values.join(",")) }
}

fn argument(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Str => "name",
        ArgKind::Int => "1",
        ArgKind::Ipv4 => "192.0.2.1",
        ArgKind::Mask4 => "24",
        ArgKind::Ipv6 => "2001:db8::1",
        ArgKind::Mask6 => "64",
        ArgKind::Delay => "1s",
        ArgKind::Size => "1k",
        ArgKind::Frontend => "web",
        ArgKind::Backend | ArgKind::Table => "app",
        ArgKind::Server => "app/app1",
        ArgKind::UserList => "staff",
        ArgKind::Regex => "^a",
        ArgKind::Variable => "txn.name",
        ArgKind::FieldNumber => "1",
        ArgKind::Script => "",
    }
}

/// A pattern for a match method, suitable for an ACL keyword with this name.
fn pattern(name: &str, method: MatchMethod) -> &'static str {
    match method {
        MatchMethod::Found | MatchMethod::Bool => "",
        MatchMethod::Int => "1",
        MatchMethod::Ip => "192.0.2.0/24",
        MatchMethod::Bin => "16",
        MatchMethod::Len => "gt 100",
        MatchMethod::Reg => "^/v[0-9]+/",
        MatchMethod::Dom => "example",
        MatchMethod::End => ".png",
        MatchMethod::Beg | MatchMethod::Dir if name.contains("path") || name.contains("url") => "/static",
        MatchMethod::Str if name == "method" => "GET",
        MatchMethod::Beg if name.contains("hdr") => "www.",
        MatchMethod::Str | MatchMethod::Beg | MatchMethod::Sub | MatchMethod::Dir => "static",
    }
}

/// A rule with this condition, in the first ruleset where the condition is valid.
fn condition(valid: EvaluationPoints, condition: &str) -> Option<ConfigLine> {
    let (place, rule, action) = rule(valid)?;
    let action = if rule.starts_with("tcp-re") { "reject" } else { action };
    Some(match rule {
        "http-check" | "log" => return assignment(valid, condition),
        // An `acl` line shows the test without an action.
        "http-request" => ConfigLine { place, text: format!("acl example {condition}") },
        _ => ConfigLine { place, text: format!("{rule} {action} if {{ {condition} }}") },
    })
}

/// A line that stores the value of an expression, in the first ruleset where the expression is valid.
fn assignment(valid: EvaluationPoints, expression: &str) -> Option<ConfigLine> {
    let (place, rule, _) = rule(valid)?;
    Some(ConfigLine {
        place,
        text: match rule {
            "log" => format!("log-format \"%[{expression}]\""),
            "http-check" => format!("http-check set-var(check.value) {expression}"),
            _ => format!("{rule} set-var(txn.value) {expression}"),
        },
    })
}

/// The section, ruleset and action for an example.
fn rule(valid: EvaluationPoints) -> Option<(&'static str, &'static str, &'static str)> {
    let rules = [
        (EvaluationPoint::FrontendRequestHeader, ("frontend", "http-request", "deny")),
        (EvaluationPoint::BackendRequestHeader, ("backend", "http-request", "deny")),
        (EvaluationPoint::BackendResponseHeader, ("backend", "http-response", "deny")),
        (EvaluationPoint::FrontendRequestContent, ("tcp", "tcp-request content", "reject")),
        (EvaluationPoint::BackendRequestContent, ("tcp", "tcp-request content", "reject")),
        (EvaluationPoint::BackendResponseContent, ("tcp", "tcp-response content", "reject")),
        (EvaluationPoint::Check, ("backend", "http-check", "")),
        (EvaluationPoint::Log, ("frontend", "log", "")),
    ];
    rules.into_iter().find(|(point, _)| valid.contains(*point)).map(|(_, rule)| rule)
}

/// A complete, valid configuration with the line. `before` precedes the line in its section.
#[cfg(test)]
pub(crate) fn configuration(line: &ConfigLine, before: &str) -> String {
    let written = format!("{before}    {}\n", line.text);
    let at = |place| if line.place == place { written.as_str() } else { "" };
    if line.place.is_empty() {
        let mandatory = if line.text.starts_with("fcgi-app ") { "    docroot /srv\n" } else { "" };
        return format!("{}\n{mandatory}", line.text);
    }
    let around = AROUND.replace("@global@", at("global")).replace("@defaults@", at("defaults"));
    let mut text = format!(
        "{around}frontend web\n    bind 127.0.0.1:1\n{}    default_backend app\n\
         backend app\n    option httpchk\n    stick-table type ipv4 size 1k store gpc0,gpc1,gpt0,conn_cur,http_req_rate(1m)\n{}",
        at("frontend"),
        at("backend")
    );
    // The line may define the server itself.
    if !line.text.starts_with("server app1 ") || matches!(line.place, "log" | "spop" | "fcgi") {
        text.push_str("    server app1 127.0.0.1:2\n");
    }
    let header = match line.place {
        "global" | "defaults" | "frontend" | "backend" => return text,
        "listen" if written.contains("spoe") => return text + &engine(line, &written),
        "listen" if written.contains("fcgi-app") => of_application(line),
        "listen" => "listen all\n    bind 127.0.0.1:3\n    stick-table type ipv4 size 1k\n".to_owned(),
        "tcp" => "listen all\n    mode tcp\n    bind 127.0.0.1:3\n".to_owned(),
        "log" => "backend logs\n    mode log\n".to_owned(),
        "fcgi" => "fcgi-app php\n    docroot /srv\nbackend scripts\n    use-fcgi-app php\n".to_owned(),
        "spop" => "backend agents\n    mode spop\n".to_owned(),
        "engine" | "spoe-agent" | "spoe-message" | "spoe-group" => return text + &engine(line, &written),
        "fcgi-app" => "fcgi-app example\n    docroot /srv\n".to_owned(),
        place @ ("crt-store" | "traces") => format!("{place}\n"),
        place => format!("{place} example\n"),
    };
    text + &header + &written
}

/// The beginning of a proxy with a FastCGI server, which a line gives its application.
#[cfg(test)]
fn of_application(line: &ConfigLine) -> String {
    let used = if line.text.starts_with("filter ") { "    use-fcgi-app php\n" } else { "" };
    format!(
        "fcgi-app php\n    docroot /srv\nlisten all\n    bind 127.0.0.1:3\n    server php1 127.0.0.1:4 proto fcgi\n{used}"
    )
}

/// A proxy with an engine, the backends of its agents, and its file. `written` is the line, in the proxy or in the file.
#[cfg(test)]
fn engine(line: &ConfigLine, written: &str) -> String {
    let at = |place| if line.place == place { written } else { "" };
    let section = |usual| {
        let is_same = line.place == "engine" && line.text.split(' ').next() == str::split(usual, ' ').next();
        if is_same { line.text.as_str() } else { usual }
    };
    let of_proxy = match line.place {
        "listen" => written,
        _ => "    filter spoe engine check config engine.cfg\n",
    };
    format!(
        "listen all\n    bind 127.0.0.1:3\n{of_proxy}backend agents\n    mode spop\n    server agent1 127.0.0.1:4\n\
         backend others\n    mode spop\n    server agent2 127.0.0.1:5\n{}\
         [check]\n{}\n    use-backend others\n    timeout processing 1s\n    messages example\n    groups addresses\n{}\
         spoe-message example\n    event on-frontend-http-request\n{}\
         {}\n    event on-backend-http-request\n\
         spoe-message check-source\n    args ip=src\n\
         spoe-group addresses\n    messages check-source\n{}\
         {}\n",
        crate::memory_files::ENGINE_FOLLOWS,
        section("spoe-agent example"),
        at("spoe-agent"),
        at("spoe-message"),
        section("spoe-message check-request"),
        at("spoe-group"),
        section("spoe-group late-checks"),
    )
}

/// The sections before the proxies.
#[cfg(test)]
const AROUND: &str = "\
global
    external-check
@global@
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
@defaults@
userlist staff
    user anna insecure-password secret
http-errors pages
    errorfile 503 /dev/null
resolvers dns
    nameserver ns1 192.0.2.53:53
healthcheck web
    type tcp-check
";

/// Words that need a special example.
const SPECIAL: &[(WordPlace, &str, &str, &str)] = &[
    (WordPlace::Global, "numa-cpu-mapping", "global", "no numa-cpu-mapping"),
    (WordPlace::Bind, "ssl", "frontend", "bind :8443 ssl crt site.pem"),
    (WordPlace::Server, "ssl", "backend", "server app1 192.0.2.10:8443 ssl verify none"),
    // This word can only follow another word.
    (WordPlace::Server, "usesrc", "backend", "server app1 192.0.2.10:8080 source 0.0.0.0 usesrc clientip"),
    (WordPlace::Server, "log-bufsize", "log", "server app1 192.0.2.10:514 log-bufsize 64k"),
    (WordPlace::Load, "crt", "crt-store", "load crt site.pem"),
    (WordPlace::Proxy, "use_backend", "frontend", "use_backend app if { path_beg /api/ }"),
    (WordPlace::Proxy, "errorfile", "frontend", "errorfile 503 /etc/weir/503.http"),
    (WordPlace::HttpErrors, "errorfile", "http-errors", "errorfile 503 /etc/weir/503.http"),
    (WordPlace::Proxy, "http-request", "frontend", "http-request deny if { path_beg /admin }"),
    (WordPlace::Proxy, "redirect", "frontend", "redirect scheme https code 301 unless { ssl_fc }"),
    (WordPlace::Action, "deny", "listen", "http-request deny deny_status 429 if { path_beg /admin }"),
    (WordPlace::Action, "set-var", "listen", "http-request set-var(txn.name) req.hdr(x-name)"),
];

/// Lines that must precede an example in its section.
#[cfg(test)]
pub(crate) const BEFORE: &[(WordPlace, &str, &str)] = &[
    (
        WordPlace::Global,
        "tune.disable-fast-forward",
        "    expose-experimental-directives
",
    ),
    (
        WordPlace::Global,
        "tune.fd.edge-triggered",
        "    expose-experimental-directives
",
    ),
    (
        WordPlace::Proxy,
        "filter-sequence",
        "    filter trace
",
    ),
    (
        WordPlace::Option,
        "external-check",
        "    external-check command /bin/true
",
    ),
    (
        WordPlace::Server,
        "track",
        "    server tracked 192.0.2.11:8080 check
",
    ),
    (
        WordPlace::Userlist,
        "user",
        "    group g
",
    ),
    (
        WordPlace::Userlist,
        "group",
        "    user a insecure-password z
    user b insecure-password z
",
    ),
    (
        WordPlace::FcgiApp,
        "option max-reqs",
        "    option mpxs-conns
",
    ),
    (
        WordPlace::Action,
        "send-spoe-group",
        "    filter spoe engine check config engine.cfg
",
    ),
    (
        WordPlace::Action,
        "set-bandwidth-limit",
        "    filter bwlim-in a default-limit 1k default-period 1s
",
    ),
];

/// A value of each input type of converters.
const INPUTS: [(SampleType, &str); 9] = [
    (SampleType::Any, "src"),
    (SampleType::Same, "src"),
    (SampleType::Bool, "always_true"),
    (SampleType::Int, "int(5)"),
    (SampleType::Addr, "src"),
    (SampleType::Ipv4, "src"),
    (SampleType::Ipv6, "src"),
    (SampleType::Str, "path"),
    (SampleType::Bin, "path"),
];

/// Prefixes of fetches that take a field name, each with a common name.
const NAMED: [(&str, &str); 7] = [
    ("hdr_ip", "x-forwarded-for"),
    ("hdr", "host"),
    ("fhdr", "user-agent"),
    ("shdr", "server"),
    ("cook", "SRV"),
    ("scook", "SRV"),
    ("urlp", "id"),
];

/// Arguments of fetches for which arguments derived from the types are unsuitable.
const OF_FETCHES: &[(&str, &str)] = &[
    ("acl", "(METH_GET,!HTTP_1.0)"),
    ("bin", "(0a0d)"),
    ("bool", "(true)"),
    ("fc_pp_tlv", "(0x04)"),
    ("var", "(txn.name)"),
];

/// Arguments of converters for which arguments derived from the types are invalid or poor examples.
const OF_CONVERTERS: &[(&str, &str)] = &[
    ("add", "(1)"),
    ("add_item", "(\",\",txn.name)"),
    ("and", "(255)"),
    ("be2dec", "(\".\",2)"),
    ("be2hex", "(\":\",1)"),
    ("bytes", "(0,10)"),
    ("digest", "(sha256)"),
    ("div", "(2)"),
    ("fix_tag_value", "(MsgType)"),
    ("hmac", "(sha256,c2VjcmV0)"),
    ("jwt_verify", "(ES256,/etc/weir/tokens.pem)"),
    ("json", "(utf8)"),
    ("le2dec", "(\".\",2)"),
    ("mod", "(10)"),
    ("mqtt_field_value", "(connect,client_identifier)"),
    ("mul", "(1000)"),
    ("or", "(1)"),
    ("rfc7239_field", "(for)"),
    ("secure_memcmp", "(txn.name)"),
    ("set-var", "(txn.name)"),
    ("strcmp", "(txn.name)"),
    ("sub", "(1)"),
    ("unset-var", "(txn.name)"),
    ("url_enc", "(query)"),
    ("xor", "(1)"),
];
