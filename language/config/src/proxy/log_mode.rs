//! `mode log`: words that are valid in a log backend, and words that are valid only there.
//!
//! The mode may be set after the lines that depend on it, so lines are recorded, and checked at the end of the section. Settings from
//! `defaults` also serve other proxies, so they cause no warnings.

use weir_syntax::{Diagnostic, Diagnostics, Span};

use super::{Draft, DraftSection};
use crate::draft::log_notes::place;
use crate::server::is_for_logs;
use weir_model::{
    Balance, BalanceArgument, Framing, HashMethod, Mode, ProxySection, Server, ServerAddress, ServerPort,
    TransparentSource,
};

/// Checks a section with servers at its end.
pub(super) fn end_of_section(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    let DraftSection::Proxy(section) = draft.section else { return };
    match (section, draft.proxy.settings.mode) {
        (ProxySection::Backend, Mode::Log) => check_log_backend(draft, diagnostics),
        (ProxySection::Backend | ProxySection::Listen, _) => check_other(draft, diagnostics),
        (ProxySection::Frontend, _) => {}
    }
}

fn check_log_backend(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    let (logs, name) = (&draft.logs, draft.proxy.name.clone());
    let mut ignored = |what: String, span: Span| {
        let message = format!("'{what}' ignored because backend '{name}' is in log mode.");
        diagnostics.warning(span, message);
    };
    for (keyword, span) in logs.keywords.iter().filter(|(keyword, _)| !KEYWORDS.contains(keyword)) {
        ignored((*keyword).to_owned(), *span);
    }
    for (option, span) in logs.options.iter().filter(|(option, _)| !OPTIONS.contains(option)) {
        ignored(format!("option {option}"), *span);
    }
    for (word, span) in &logs.server_words {
        if !is_for_logs(word) && !word.starts_with("no-") {
            ignored((*word).to_owned(), *span);
        }
    }
    for (word, span) in &logs.idle_words {
        diagnostics.warning(*span, format!("'{word}' has no effect on a server that is sent datagrams."));
    }
    settle_balance(draft, diagnostics);
    for server in &draft.proxy.servers {
        if let Some(what) = cannot_take_logs(server) {
            let (at, server) = (&server.at, &server.name);
            let message = format!("[{at}] : 'server {name}/{server}' : {what}.");
            diagnostics.push(Diagnostic::alert(None, message));
        }
    }
}

/// Reports an algorithm that needs streams if a line of the section sets it. If it comes from `defaults`, the section uses round robin
/// instead.
fn settle_balance(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    let (own_balance, own_hash_type) = (draft.logs.keyword("balance"), draft.logs.keyword("hash-type"));
    let (settings, name) = (&mut draft.proxy.settings, &draft.proxy.name);
    if settings.balance.word.logs.is_none() {
        match own_balance {
            Some(span) => {
                let message =
                    "log messages can be balanced by 'roundrobin', 'random', 'log-hash' and 'sticky' only.";
                diagnostics.push(Diagnostic::alert(span, message));
            }
            None => {
                let message = format!(
                    "the 'balance' that backend '{name}' inherits cannot balance log messages: roundrobin is used."
                );
                diagnostics.warning(draft.span, message);
                settings.balance = Balance::round_robin();
            }
        }
    }
    let hashes = matches!(settings.balance.argument, BalanceArgument::LogMessage(_));
    if hashes && settings.hash_type.method == HashMethod::Consistent {
        match own_hash_type {
            Some(span) => {
                let message = "'balance log-hash' works with 'hash-type map-based' only.";
                diagnostics.push(Diagnostic::alert(span, message));
            }
            None => {
                let message = format!(
                    "the 'hash-type' that backend '{name}' inherits is not for 'balance log-hash': 'map-based' is used."
                );
                diagnostics.warning(draft.span, message);
                settings.hash_type.method = HashMethod::MapBased;
            }
        }
    }
}

fn cannot_take_logs(server: &Server) -> Option<&'static str> {
    match &server.address {
        ServerAddress::Inet { port: ServerPort::Fixed(port), .. } if *port != 0 => {}
        ServerAddress::Inet { .. } => return Some("a log server needs a port"),
        ServerAddress::SocketPair(_) => {
            return Some("a log server needs an address other than 'sockpair@'");
        }
        ServerAddress::Unix(_) | ServerAddress::Abstract { .. } => {}
    }
    let transparent = server.settings.source.as_deref()?.transparent.as_ref()?;
    match transparent {
        TransparentSource::Address { .. } => None,
        _ => Some("'usesrc' needs the address of a client, which log messages lack"),
    }
}

/// Checks that a section in another mode has only words that are valid without `mode log`.
fn check_other(draft: &Draft, diagnostics: &mut Diagnostics) {
    let logs = &draft.logs;
    for (subject, span) in &logs.datagrams {
        let message =
            format!("'{subject}' : a server that is sent datagrams is for backends in 'mode log' only.");
        diagnostics.push(Diagnostic::alert(*span, message));
    }
    if let Some(span) = place(&logs.server_words, "log-bufsize") {
        let message = "'log-bufsize' is for servers of backends in 'mode log' only.";
        diagnostics.push(Diagnostic::alert(span, message));
    }
    let servers = draft.proxy.servers.iter().map(|server| &server.settings);
    let mut all = servers.chain([&*draft.proxy.settings.default_server]);
    if let Some(span) = place(&logs.server_words, "log-proto")
        && all.any(|settings| settings.framing != Framing::Legacy)
    {
        diagnostics.warning(span, "'log-proto' has no effect on a server that gets no log messages");
    }
    if matches!(draft.proxy.settings.balance.argument, BalanceArgument::LogMessage(_)) {
        let message = "'balance log-hash' is for backends in 'mode log' only; elsewhere 'balance hash' takes an expression.";
        diagnostics.push(Diagnostic::alert(logs.keyword("balance").unwrap_or(draft.span), message));
    }
}

/// The keywords that are valid in a log backend (manual, the contexts of each keyword).
const KEYWORDS: &[&str] = &[
    "balance",
    "default-server",
    "description",
    "disabled",
    "enabled",
    "guid",
    "hash-type",
    "id",
    "load-server-state-from-file",
    "log",
    "log-tag",
    "mode",
    "server",
    "server-state-file-name",
    "server-template",
    "srvtcpka-cnt",
    "srvtcpka-idle",
    "srvtcpka-intvl",
    "timeout connect",
    "timeout server",
];

/// The options that are valid in a log backend.
const OPTIONS: &[&str] = &["allbackups", "nolinger", "srvtcpka", "tcpka"];

#[cfg(test)]
mod tests {
    use crate::document::tests::{check, parse_text};
    use weir_model::{BalanceArgument, LogAddress, Mode};

    /// A misspelt name in these lists would never match.
    #[test]
    fn log_mode_lists_contain_only_known_keywords_and_options() {
        let ready = |name: &&&str| super::super::PROXY_KEYWORDS.find(name).is_some();
        assert_eq!(super::KEYWORDS.iter().find(|name| !ready(name)), None);
        let ready = |name: &&&str| super::super::OPTIONS.find(name).is_some();
        assert_eq!(super::OPTIONS.iter().find(|name| !ready(name)), None);
    }

    #[test]
    fn parses_a_log_backend_with_all_keywords() {
        let read = parse_text(
            "global\n log backend@b len 200 format rfc5424 sample 1:2 local0 info notice\nbackend b\n mode log\n \
             balance log-hash 'field(-2,\\\")'\n hash-type map-based crc32\n timeout connect 5s\n timeout server 10s\n option \
             srvtcpka\n option nolinger\n option allbackups\n server u udp@127.0.0.1:514 source 127.0.0.2\n server t \
             127.0.0.1:514 log-proto octet-count log-bufsize 64k backup\n server d uxdg@/dev/log\n server x \
             unix@/run/x disabled\n server-template y 1-2 udp4@127.0.0.1:515\n",
        );
        assert_eq!(read.messages, [""; 0]);
        assert_eq!(read.config.global.logs[0].address, LogAddress::Backend("b".into()));
        let backend = &read.config.proxies[0];
        assert_eq!(backend.mode(), Mode::Log);
        assert!(matches!(backend.settings.balance.argument, BalanceArgument::LogMessage(_)));
        let datagrams: Vec<_> = backend.servers.iter().map(|server| server.datagrams).collect();
        assert_eq!(datagrams, [true, false, true, false, true, true]);
        assert_eq!(backend.servers[1].settings.log_buffer, Some(65_536));
    }

    #[test]
    fn log_targets_may_name_only_log_backends() {
        check(
            "global\n log backend@logz local0\n log backend@web local0\n log backend@ local0\n log backend@off local0\n\
             frontend f\n mode http\n log backend@nosuch local0\n timeout client 1s\n bind :80\nbackend logs\n mode log\n\
             backend web\n mode http\nbackend off\n mode log\n disabled\nlog-forward r\n dgram-bind :514\n log backend@f local0\n",
            &[
                "parsing [test.cfg:4] : log : a backend's name is expected after 'backend@'",
                "parsing [test.cfg:2] : log : unknown backend 'logz'; did you mean 'logs' maybe ?",
                "parsing [test.cfg:3] : log : backend 'web' (declared at test.cfg:13) is not in 'mode log'",
                "parsing [test.cfg:5] : log : backend 'off' is disabled: messages for it are lost",
                "parsing [test.cfg:8] : log : unknown backend 'nosuch'",
                "parsing [test.cfg:20] : log : unknown backend 'f'",
            ],
        );
    }

    #[test]
    fn mode_log_is_valid_only_in_backends() {
        check(
            "frontend f\n mode log\n bind :80\n timeout client 1s\nlisten l\n mode log\n bind :81\n timeout client 1s\n",
            &[
                "parsing [test.cfg:2] : 'mode log' is for backends only.",
                "parsing [test.cfg:6] : 'mode log' is for backends only.",
            ],
        );
        check(
            "defaults\n mode log\n timeout client 1s\nfrontend f\n bind :80\nbackend b\n server s udp@127.0.0.1:514\n",
            &["frontend 'f' cannot have the 'mode log' that it inherits: it is for backends only."],
        );
        check(
            "frontend f\n mode tcp\n bind :80\n timeout client 1s\n default_backend b\nbackend b\n mode log\n",
            &[
                "frontend 'f' (test.cfg:1) tries to send its traffic to log backend 'b' (test.cfg:6) in a 'default_backend' rule (see 'mode').",
            ],
        );
    }

    #[test]
    fn warns_about_traffic_keywords_in_a_log_backend() {
        check(
            "backend b\n server s 127.0.0.1:514 weight 5 maxconn 3 send-proxy\n cookie c\n http-request deny\n option redispatch\n \
             retries 3\n server t 127.0.0.1:515 weight 6\n mode log\n timeout queue 5s\n",
            &[
                "parsing [test.cfg:3] : 'cookie' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:4] : 'http-request' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:6] : 'retries' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:9] : 'timeout queue' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:5] : 'option redispatch' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:2] : 'weight' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:2] : 'maxconn' ignored because backend 'b' is in log mode.",
                "parsing [test.cfg:2] : 'send-proxy' ignored because backend 'b' is in log mode.",
            ],
        );
        check(
            "defaults\n mode http\n option redispatch\n retries 3\n timeout queue 5s\n default-server weight 5\nbackend b\n mode log\n \
             server s udp@127.0.0.1:514\n",
            &[],
        );
        check(
            "backend b\n mode log\n server s udp@127.0.0.1:514 log-bufsize 64k\n",
            &["parsing [test.cfg:3] : 'log-bufsize' has no effect on a server that is sent datagrams."],
        );
    }

    #[test]
    fn accepts_only_balance_algorithms_for_log_messages() {
        for algorithm in ["roundrobin", "random", "random(3)", "log-hash", "log-hash upper,lower", "sticky"] {
            check(&format!("backend b\n mode log\n balance {algorithm}\n"), &[]);
        }
        check(
            "backend b\n mode log\n balance leastconn\n",
            &[
                "parsing [test.cfg:3] : log messages can be balanced by 'roundrobin', 'random', 'log-hash' and 'sticky' only.",
            ],
        );
        let read = parse_text("defaults\n balance source\n hash-type consistent\nbackend b\n mode log\n");
        assert_eq!(
            read.messages,
            [
                "parsing [test.cfg:4] : the 'balance' that backend 'b' inherits cannot balance log messages: roundrobin is used."
            ]
        );
        assert_eq!(read.config.proxies[0].settings.balance.word.name, "roundrobin");
        check(
            "backend b\n mode log\n balance log-hash uper\n balance log-hash upper lower\n balance log-hash set-var(txn.a)\n",
            &[
                "parsing [test.cfg:3] : unknown converter 'uper'; did you mean 'upper' maybe ?",
                "parsing [test.cfg:4] : 'balance' cannot handle unexpected argument 'lower'.",
                "parsing [test.cfg:5] : converter 'set-var' needs a stream and cannot be used here.",
            ],
        );
        check(
            "backend b\n mode log\n balance log-hash\n hash-type consistent\n",
            &["parsing [test.cfg:4] : 'balance log-hash' works with 'hash-type map-based' only."],
        );
        check(
            "backend b\n mode tcp\n balance sticky\nbackend c\n mode http\n balance log-hash\n",
            &[
                "parsing [test.cfg:6] : 'balance log-hash' is for backends in 'mode log' only; elsewhere 'balance hash' takes an expression.",
            ],
        );
    }

    #[test]
    fn rejects_log_servers_without_a_usable_address() {
        check(
            "backend b\n mode log\n server s 127.0.0.1\n server t udp@127.0.0.1:+5\n server u sockpair@3\n server v \
             127.0.0.1:514 source 0.0.0.0 usesrc client\n server w upd@127.0.0.1:514\n server x 127.0.0.1:514 log-bufsize 0\n",
            &[
                "[test.cfg:7] : 'server b/w' : invalid address: 'upd@' in 'upd@127.0.0.1:514'",
                "[test.cfg:8] : 'server b/x' : 'log-bufsize' : invalid size '0'.",
                "[test.cfg:3] : 'server b/s' : a log server needs a port.",
                "[test.cfg:4] : 'server b/t' : a log server needs a port.",
                "[test.cfg:5] : 'server b/u' : a log server needs an address other than 'sockpair@'.",
                "[test.cfg:6] : 'server b/v' : 'usesrc' needs the address of a client, which log messages lack.",
            ],
        );
    }

    #[test]
    fn rejects_log_settings_in_backends_without_mode_log() {
        check(
            "defaults\n timeout connect 1s\n timeout server 1s\nbackend b\n server s udp@127.0.0.1:514 log-bufsize 5k\n server t \
             127.0.0.1:1 log-proto octet-count\n",
            &[
                "parsing [test.cfg:5] : 'server b/s' : a server that is sent datagrams is for backends in 'mode log' only.",
                "parsing [test.cfg:5] : 'log-bufsize' is for servers of backends in 'mode log' only.",
                "parsing [test.cfg:6] : 'log-proto' has no effect on a server that gets no log messages",
            ],
        );
        check(
            "ring r\n server s 127.0.0.1:1 log-bufsize 5k\n server t udp@127.0.0.1:1\n",
            &[
                "parsing [test.cfg:2] : 'server r/s' : 'log-bufsize' has no effect on a server of a ring: the section's 'size' is used",
                "parsing [test.cfg:3] : 'server' : dgram-type address not acceptable in 'udp@127.0.0.1:1'",
            ],
        );
    }
}
