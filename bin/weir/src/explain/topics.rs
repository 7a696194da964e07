//! Everyday words that are not keywords: a sentence, configuration lines, and related entries.

use std::fmt::Write;

/// The explanation of an everyday word.
pub(super) struct Topic {
    /// The everyday words, in lower case.
    names: &'static [&'static str],
    text: &'static str,
    /// Example lines. The first word of a section precedes lines outside of a frontend.
    lines: &'static [&'static str],
    /// Related entries of `weir explain`.
    see: &'static [&'static str],
    /// A keyword that is not implemented, if the topic needs one. Otherwise empty.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test looks whether it is still missing"))]
    missing: &'static str,
}

/// The text for an everyday word.
pub(super) fn explain(wanted: &str) -> Option<String> {
    let wanted = wanted.to_ascii_lowercase();
    let topic = TOPICS.iter().find(|topic| topic.names.contains(&wanted.as_str()))?;
    let mut text = format!("\n{wanted}\n  {}\n", topic.text);
    for line in topic.lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {line}");
    }
    if !topic.see.is_empty() {
        let _ = writeln!(text, "  See 'weir explain' for: {}.", topic.see.join(", "));
    }
    Some(text)
}

const fn topic(
    names: &'static [&'static str],
    text: &'static str,
    lines: &'static [&'static str],
    see: &'static [&'static str],
) -> Topic {
    Topic { names, text, lines, see, missing: "" }
}

/// A topic for a missing feature. The parser rejects `word`.
const fn missing(
    names: &'static [&'static str],
    word: &'static str,
    text: &'static str,
    see: &'static [&'static str],
) -> Topic {
    Topic { names, text, lines: &[], see, missing: word }
}

static TOPICS: &[Topic] = &[
    topic(
        &["sticky", "sticky session", "sticky sessions", "session affinity", "affinity", "persistence"],
        "To keep each client at one server: by a cookie (each 'server' line needs a 'cookie' value), by a stick-table, or by a hash of \
         the client's address.",
        &["cookie SRV insert indirect nocache", "stick on src", "balance source"],
        &["cookie", "stick on", "balance", "stick-table"],
    ),
    topic(
        &["https", "tls"],
        "A 'bind' line with 'ssl' and 'crt' takes HTTPS from clients; a 'server' line with 'ssl' speaks it to the server. A rule sends \
         clients of plain HTTP to HTTPS.",
        &["bind :443 ssl crt /etc/weir/site.pem", "http-request redirect scheme https unless { ssl_fc }"],
        &["ssl", "crt", "redirect", "ssl_fc", "verify"],
    ),
    missing(
        &["acme", "let's encrypt", "letsencrypt", "certbot"],
        "acme",
        "weir does not order certificates itself yet. Certbot does, and a hook puts renewed ones into a running weir: see 'Tools around \
         weir' in the manual.",
        &["crt", "set ssl cert", "strict-sni"],
    ),
    topic(
        &["gzip", "compress", "deflate", "brotli", "zstd", "breach"],
        "Responses are compressed for clients that accept it: list the algorithms, and the media types that become smaller. Pages with \
         secrets beside text from the request should not be compressed for requests from other sites (BREACH).",
        &[
            "compression algo zstd br gzip",
            "compression type text/ application/json application/javascript image/svg+xml",
            "http-request del-header accept-encoding if { req.hdr(sec-fetch-site) -m str cross-site }",
        ],
        &[
            "compression algo",
            "compression type",
            "filter comp-res",
            "res.comp_algo",
            "maxzlibmem",
            "tune.comp.maxlevel",
        ],
    ),
    missing(
        &["cache", "caching"],
        "cache",
        "weir does not keep answers yet: a section 'cache' is refused.",
        &["cache-use"],
    ),
    topic(
        &["lua", "script", "scripting", "plugin", "plug-in", "wasm"],
        "A Lua script adds actions, fetches, converters, services and tasks. 'lua-load-per-thread' runs it in each thread, 'lua-load' once for \
         all. Filters and commands of scripts are not there yet. Maps, variables and converters do much without a script.",
        &[],
        &[
            "lua-load-per-thread",
            "use-service",
            "lua-load",
            "tune.lua.bool-sample-conversion",
            "map",
            "set-var",
        ],
    ),
    missing(
        &["http/3", "http3", "h3", "quic"],
        "tune.quic.be.max-idle-timeout",
        "weir does not speak HTTP/3 yet: addresses that begin with 'quic4@' are refused. HTTP/2 is negotiated by default.",
        &["alpn"],
    ),
    topic(
        &["http/2", "http2", "h2"],
        "With TLS, HTTP/2 is negotiated by default; 'alpn' sets the protocols on offer. 'proto h2' speaks it without TLS.",
        &["bind :443 ssl crt /etc/weir/site.pem alpn h2,http/1.1", "bind :8080 proto h2"],
        &["alpn", "proto"],
    ),
    topic(
        &["fastcgi", "fcgi", "php", "php-fpm", "cgi"],
        "A section 'fcgi-app' describes the application: where its scripts are, and which parameters it gets. 'use-fcgi-app' names it in a \
         backend, and 'proto fcgi' marks the servers that speak FastCGI.",
        &["use-fcgi-app php"],
        &["fcgi-app", "use-fcgi-app", "docroot", "path-info", "set-param", "proto"],
    ),
    topic(
        &[
            "rate limit",
            "rate limiting",
            "ratelimit",
            "rate-limiting",
            "throttle",
            "throttling",
            "too many requests",
        ],
        "A stick-table counts the requests of each client, a rule tracks the client, and another one refuses above a number.",
        &[
            "stick-table type ipv6 size 100k expire 10m store http_req_rate(10s)",
            "http-request track-sc0 src",
            "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 100 }",
        ],
        &["stick-table", "track-sc0", "sc_http_req_rate", "429", "rate-limit sessions", "bwlim-out"],
    ),
    topic(
        &["x-forwarded-for", "xff", "client ip", "client address", "real ip", "x-real-ip"],
        "'option forwardfor' adds the client's address for servers. Behind another proxy, 'hdr_ip(x-forwarded-for,-1)' is the last \
         address of the field, and 'http-request set-src' makes it the client's. Believe it from that proxy only.",
        &["option forwardfor", "http-request set-src hdr_ip(x-forwarded-for,-1) if { src 192.0.2.0/24 }"],
        &["option forwardfor", "option forwarded", "src", "set-src", "accept-proxy"],
    ),
    topic(
        &["proxy protocol"],
        "It carries the client's address in front of a connection, whatever its protocol.",
        &["bind :8080 accept-proxy"],
        &["accept-proxy", "send-proxy-v2"],
    ),
    topic(
        &["websocket", "websockets"],
        "They work without a setting. 'timeout tunnel' limits how long one may be quiet; it replaces 'timeout client' and 'timeout server'.",
        &["timeout tunnel 1h"],
        &["timeout tunnel"],
    ),
    topic(
        &["path routing", "routing", "route", "location", "virtual host", "vhost"],
        "'use_backend' sends what meets a condition to a backend: the first that matches wins, 'default_backend' takes the rest. For many \
         names or paths, a map chooses.",
        &["use_backend app if { path_beg /api/ }", "use_backend app if { hdr(host) -i app.example }"],
        &["use_backend", "default_backend", "path_beg", "hdr", "map"],
    ),
    topic(
        &["canary", "blue/green", "blue-green", "traffic split"],
        "Weights share requests out and can be changed at run time; a share by chance, or a map that is changed at run time, chooses a \
         backend.",
        &["use_backend app if { rand(100) lt 5 }"],
        &["weight", "set weight", "use_backend", "map", "set map"],
    ),
    topic(
        &["basic auth", "authentication", "password", "login"],
        "A section 'userlist' has users and passwords; a rule asks who is not known.",
        &["http-request auth unless { http_auth(staff) }"],
        &["userlist", "auth", "http_auth"],
    ),
    topic(
        &["mtls", "client certificate", "client certificates"],
        "'verify required' with 'ca-file' on a 'bind' line refuses clients without a certificate of these authorities.",
        &["bind :443 ssl crt /etc/weir/site.pem ca-file /etc/weir/ca.pem verify required"],
        &["verify", "ca-file", "ssl_c_s_dn"],
    ),
    topic(
        &["health check", "health checks", "healthcheck http"],
        "'check' on a 'server' line connects to the server every 2 seconds; 'option httpchk' sends it a request.",
        &["option httpchk GET /health", "http-check expect status 200"],
        &["check", "option httpchk", "http-check expect", "inter"],
    ),
    topic(
        &["drain", "maintenance"],
        "The runtime API takes a server out: 'drain' lets its clients finish, 'maint' ends checks, too.",
        &[],
        &["set server", "disable server", "option redispatch"],
    ),
    topic(
        &["log", "logs", "logging", "access log"],
        "'log' names the target, 'option httplog' gives the usual line of a request, 'log-format' one of your own.",
        &["log stdout format raw local0", "option httplog"],
        &["log", "option httplog", "log-format", "option dontlognull"],
    ),
    topic(
        &["json log", "json logs"],
        "A log format with '%{+json}o' is an object; an item has its name in parentheses.",
        &["log-format \"%{+json}o%(client)ci%(status)ST%(time)Ta\""],
        &["log-format", "ST"],
    ),
    topic(
        &["metrics", "prometheus", "monitoring"],
        "A service answers Prometheus; the statistics page and the runtime API show the same counters.",
        &["http-request use-service prometheus-exporter if { path /metrics }"],
        &["use-service", "stats enable", "show stat", "show info"],
    ),
    topic(
        &["hsts", "strict-transport-security", "security headers"],
        "A rule on answers adds the header.",
        &["http-response set-header Strict-Transport-Security max-age=31536000 if { ssl_fc }"],
        &["http-response", "set-header"],
    ),
    topic(
        &["cors", "access-control-allow-origin"],
        "Rules on answers add the headers; a rule answers OPTIONS.",
        &["http-response set-header Access-Control-Allow-Origin https://app.example"],
        &["set-header", "return", "method"],
    ),
    topic(
        &["load balancing", "algorithm", "algorithms"],
        "'balance' names the algorithm, 'weight' the share of a server.",
        &["balance leastconn"],
        &["balance", "hash-type", "weight"],
    ),
    topic(
        &["waf", "web application firewall", "coraza", "modsecurity", "agent", "agents", "spop"],
        "An agent of 'filter spoe' examines requests and sets variables; rules decide by them. The engine's file names its messages and its \
         backend of agents ('mode spop'). Without a rule about errors the engine fails open (C720).",
        &[
            "filter spoe engine waf config /etc/weir/waf.cfg",
            "http-request deny status 503 if { var(txn.waf.error) -m found }",
            "http-request deny if { var(txn.waf.action) -m str deny }",
        ],
        &["spoe", "spoe-agent", "spoe-message", "option set-on-error", "send-spoe-group", "mode"],
    ),
    topic(
        &["file descriptors", "open files", "ulimit"],
        "Each connection takes two. 'maxconn' of 'global' bounds them, and weir lowers it to the limit of the process.",
        &[],
        &["maxconn", "ulimit-n", "fd-hard-limit"],
    ),
    topic(
        &["if", "unless", "condition", "conditions", "and", "or"],
        "A rule ends with 'if' or 'unless' and conditions: names of ACLs, or tests in braces with blanks around them. All of them have to \
         hold; 'or' begins the next group, '!' reverses one.",
        &["http-request deny if { path_beg /admin } !{ src 192.0.2.0/24 }"],
        &["acl", "path_beg", "src"],
    ),
];

#[cfg(test)]
mod tests {
    use weir_config::vocabulary;
    use weir_stream::KEYWORDS;

    use super::super::lines::{ConfigLine, configuration};
    use super::super::statuses;
    use super::*;

    #[test]
    fn each_topic_refers_to_existing_entries() {
        let entries = super::super::entries();
        for topic in TOPICS {
            for name in topic.names {
                let text = super::super::explain(&[name]).expect(name);
                assert!(text.contains(topic.text), "{name}: {text}");
            }
            for name in topic.see {
                let is_known = entries.iter().any(|entry| entry.answers(name));
                assert!(is_known || statuses::explain(name).is_some(), "{name}");
            }
        }
    }

    /// Fails when a keyword becomes implemented: its topic must then describe its use.
    #[test]
    fn keywords_of_missing_topics_are_not_implemented_yet() {
        for topic in TOPICS.iter().filter(|topic| !topic.missing.is_empty()) {
            assert!(
                vocabulary::not_yet(&KEYWORDS).any(|word| word.name == topic.missing),
                "{}",
                topic.missing
            );
        }
    }

    #[test]
    fn configuration_lines_of_topics_are_valid() {
        for text in TOPICS.iter().flat_map(|topic| topic.lines) {
            let verdicts = ["listen", "backend", "frontend"].map(|place| {
                let line = ConfigLine { place, text: (*text).to_owned() };
                let (verdict, said) = crate::manual::read(&configuration(&line, ""));
                // The files in these lines do not exist on any machine. Everything else must be valid.
                let faults: Vec<&str> = said
                    .lines()
                    .filter(|said| said.starts_with("[ALERT]"))
                    .filter(|said| {
                        !["No such file", "Fatal errors", "Error(s) found"]
                            .iter()
                            .any(|part| said.contains(part))
                    })
                    .collect();
                (verdict != "error" || faults.is_empty(), said)
            });
            assert!(verdicts.iter().any(|(is_fine, _)| *is_fine), "{text}: {verdicts:?}");
        }
    }
}
