//! `resolvers` sections: name servers and query settings (manual, section "The resolvers section").

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_expr::{AclTable, Loader};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Line, Span};

use crate::address::{is_multipath, name_server_address};
use crate::expressions::{ExpressionParser, Notes};
use crate::numbers::{delay_of, integer_in};
use crate::resources::Resources;
use crate::ring::needs_a_stream;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::server::{
    ServerLine, ServerLineKind, check_server_name, is_about_connecting, read_server_options,
};
use crate::words::{Parsed, Words, fault, is_name_character};
use weir_model::{Location, NameServer, Resolvers, ServerSettings};

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct ResolversReader {
    section: Resolvers,
    span: Span,
}

/// A line of the section during parsing.
pub(crate) struct ResolversLine<'l> {
    section: &'l mut Resolvers,
    at: Location,
    resources: Resources<'l>,
    diagnostics: &'l mut Diagnostics,
}

/// Reads one line of the section.
pub(crate) type ResolversKeyword = fn(&mut ResolversLine<'_>, &mut Words<'_>) -> Parsed;

/// Every word of the section.
pub(crate) static RESOLVERS_KEYWORDS: Table<ResolversKeyword> = Table::new(&[&[
    Row::<ResolversKeyword>::ready(
        "accepted_payload_size",
        "<nb>",
        "8192",
        "the largest answer in one datagram, in bytes",
        |line, words| {
            let word = words.expect("'accepted_payload_size' expects <nb> as argument.")?;
            line.section.payload_size =
                integer_in(word, "accepted_payload_size", SMALLEST_PAYLOAD..=u16::MAX)?;
            words.end("accepted_payload_size")
        },
    )
    .default(Written("512")),
    Row::<ResolversKeyword>::ready(
        "hold",
        "{ nx | refused | timeout | other | valid | obsolete } <period>",
        "nx 10s",
        "how long a result stays valid, by kind of response",
        |line, words| {
            let expects = "'hold' expects one of 'nx', 'refused', 'timeout', 'other', 'valid' or \
                           'obsolete', and a time.";
            let event = words.expect(expects)?;
            let hold = &mut line.section.hold;
            let period = match event.text() {
                "nx" => &mut hold.no_such_name,
                "refused" => &mut hold.refused,
                "timeout" => &mut hold.timeout,
                "other" => &mut hold.other,
                "valid" => &mut hold.valid,
                "obsolete" => &mut hold.obsolete,
                other => {
                    let message = format!(
                        "'hold' unknown event '{other}', expects 'nx', 'refused', 'timeout', 'other', \
                         'valid' or 'obsolete'."
                    );
                    return Err(fault(event.span(), message));
                }
            };
            let word = words.expect(expects)?;
            *period = delay_of(words, word, "hold")?;
            words.end("hold")
        },
    )
    .default(Described("`valid 10s`, `obsolete 0s`, and `30s` for the others")),
    Row::ready(
        "nameserver",
        "<name> <address>:<port> [param*]",
        "dns1 192.0.2.1:53",
        "a name server; over connections with 'tcp@', which take the words of servers about connecting \
         and TLS",
        |line, words| {
            let expects = "'nameserver' expects <name> and <addr>[:<port>] as arguments.";
            let name = words.expect(expects)?;
            let written = words.expect(expects)?;
            check_server_name(name)?;
            if let Some(twin) = line.section.name_servers.iter().find(|known| *known.name == *name.text()) {
                let message = format!(
                    "nameserver '{name}' has same name as another nameserver (declared at {}).",
                    twin.at
                );
                return Err(fault(name.span(), message));
            }
            let (address, over_tcp) = name_server_address(written, &format!("nameserver {name}"))?;
            let subject = format!("nameserver {name}");
            let mut settings = line.settings(words, over_tcp, &subject)?;
            settings.multipath |= is_multipath(written.text());
            // 0 means no limit, as for servers.
            let most_connections = Some(settings.maxconn).filter(|most| *most > 0);
            let (name_text, at, settings) = (name.text().into(), line.at.clone(), Arc::new(settings));
            line.add(NameServer { name: name_text, at, address, over_tcp, most_connections, settings })
                .map_err(|message| fault(name.span(), message))
        },
    ),
    Row::ready("parse-resolv-conf", "", "", "the name servers of /etc/resolv.conf as well", |line, words| {
        let known = line.resources.loader.read(RESOLV_CONF, MAX_RESOLV_CONF).map_err(|error| {
            words.fault(format!("'parse-resolv-conf' : cannot read {RESOLV_CONF}: {error}."))
        })?;
        for address in system_name_servers(&known) {
            // A name server with several lines is queried once.
            if !line.section.name_servers.iter().any(|server| server.address == address) {
                line.add(of_system(address, &line.at)).map_err(|message| words.fault(message))?;
            }
        }
        words.end("parse-resolv-conf")
    }),
    Row::<ResolversKeyword>::ready(
        "resolve_retries",
        "<nb>",
        "2",
        "number of tries of a query before it fails",
        |line, words| {
            let word = words.expect("'resolve_retries' expects <nb> as argument.")?;
            line.section.retries = integer_in(word, "resolve_retries", 0..=MOST_RETRIES)?.max(1);
            words.end("resolve_retries")
        },
    )
    .default(Written("3")),
    Row::<ResolversKeyword>::ready(
        "timeout",
        "{ resolve | retry } <time>",
        "retry 2s",
        "from one resolution to the next, or how long an answer is waited for",
        |line, words| {
            let expects = "'timeout' expects 'retry' or 'resolve' and <time> as arguments";
            let event = words.expect(&format!("{expects}."))?;
            let timeout = match event.text() {
                "resolve" => &mut line.section.resolve_timeout,
                "retry" => &mut line.section.retry_timeout,
                other => return Err(fault(event.span(), format!("{expects}, got '{other}'."))),
            };
            let word = words.expect(&format!("'timeout {event}' expects <time> as argument."))?;
            let time = delay_of(words, word, &format!("timeout {event}"))?;
            if time < SHORTEST_TIMEOUT {
                let message = format!("'timeout {event}' : '{word}' is too short, the shortest is 1ms.");
                return Err(fault(word.span(), message));
            }
            *timeout = time;
            words.end("timeout")
        },
    )
    .default(Described("`resolve 1s`, `retry 1s`")),
]]);

const SECTION: &str = "resolvers";
/// The payload size that every implementation accepts (RFC 6891, 6.2.3).
const SMALLEST_PAYLOAD: u16 = 512;
/// A plausibility limit.
const MOST_RETRIES: u32 = 1000;
/// Without a pause, name servers would be queried continuously.
const SHORTEST_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(1);
/// The limit of name servers in a section: every query is sent to each of them.
const MOST_NAME_SERVERS: usize = 64;
const RESOLV_CONF: &str = "/etc/resolv.conf";
const MAX_RESOLV_CONF: u64 = 1 << 16;
const DNS_PORT: u16 = 53;

impl ResolversLine<'_> {
    fn add(&mut self, server: NameServer) -> Result<(), String> {
        if self.section.name_servers.len() == MOST_NAME_SERVERS {
            return Err(format!("'nameserver' : more than {MOST_NAME_SERVERS} name servers in one section"));
        }
        self.section.name_servers.push(server);
        Ok(())
    }

    /// Reads the connection settings of a name server: the words of any server line. Most of them apply only to name servers over TCP (manual,
    /// "nameserver"). An unsupported word causes a warning.
    fn settings(&mut self, words: &mut Words<'_>, over_tcp: bool, subject: &str) -> Parsed<ServerSettings> {
        let (acls, notes) = (AclTable::new(), RefCell::new(Notes::default()));
        let mut line = ServerLine {
            kind: ServerLineKind::NameServer,
            settings: ServerSettings::default(),
            id: 0,
            guid: None,
            used: Vec::new(),
            expressions: ExpressionParser {
                resources: self.resources,
                acls: &acls,
                at: &self.at,
                notes: &notes,
            },
        };
        read_server_options(&mut line, words, Some(subject)).map_err(|mut fault| {
            fault.layout = Layout::default();
            fault
        })?;
        let ServerLine { settings, used, .. } = line;
        for (word, span) in used {
            match word {
                // Limits TCP connections, which any name server may need: a truncated response leads to a query over TCP.
                "maxconn" => {}
                "disabled" => {
                    let message =
                        format!("'{subject}' : 'disabled' is not possible here: leave the line out.");
                    return Err(fault(span, message));
                }
                _ if !is_about_connecting(word) => {
                    let message = format!("'{subject}' : '{word}' has no effect on a name server.");
                    self.diagnostics.warning(span, message);
                }
                _ if !over_tcp => {
                    let message = format!(
                        "'{subject}' : '{word}' is about connections, and this name server is queried by \
                         datagrams: write 'tcp@' before its address."
                    );
                    return Err(fault(span, message));
                }
                _ => {}
            }
        }
        if let Some(what) = needs_a_stream(&settings) {
            return Err(words.fault(format!("'{subject}' : {what} does not apply to a name server")));
        }
        notes.into_inner().warnings.into_iter().for_each(|warning| self.diagnostics.push(warning));
        Ok(settings)
    }
}

impl ResolversReader {
    /// Starts the section of a section line.
    pub(crate) fn begin(line: &Line, at: Location, known: &[Resolvers]) -> Parsed<Self> {
        let mut words = Words::new(line, 1);
        let name = words.expect("missing name for resolvers section.")?;
        if let Some(stranger) = name.text().chars().find(|character| !is_name_character(*character)) {
            let message = format!("character '{stranger}' is not permitted in 'resolvers' name '{name}'.");
            return Err(fault(name.span(), message));
        }
        words.end(SECTION)?;
        if let Some(twin) = known.iter().find(|other| *other.name == *name.text()) {
            let message =
                format!("resolvers '{name}' has same name as another resolvers (declared at {}).", twin.at);
            return Err(fault(name.span(), message));
        }
        Ok(ResolversReader { section: Resolvers::new(name.text(), at), span: line.span() })
    }

    /// Reads one line.
    pub(crate) fn line(
        &mut self,
        line: &Line,
        at: Location,
        resources: Resources<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        let keyword = line.keyword();
        let Some(row) = RESOLVERS_KEYWORDS.find(keyword.text()) else {
            let message = format!("unknown keyword '{keyword}' in '{SECTION}' section");
            let nearest = nearest_phrase(&RESOLVERS_KEYWORDS, keyword.text());
            diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
            return;
        };
        let Handler::Ready(read) = row.handler else { return };
        let mut context = ResolversLine { section: &mut self.section, at, resources, diagnostics };
        if let Err(fault) = read(&mut context, &mut Words::new(line, 1)) {
            diagnostics.push(*fault);
        }
    }

    /// Ends the section.
    pub(crate) fn end(self, diagnostics: &mut Diagnostics) -> Resolvers {
        let section = self.section;
        if section.name_servers.is_empty() {
            let message =
                format!("resolvers '{}' [{}] has no nameservers configured!", section.name, section.at);
            diagnostics.push(Diagnostic::warning(self.span, message).layout(Layout::Location));
        }
        section
    }
}

/// The section `default` from the system's configuration. None if that names no name server (manual, "The resolvers section").
pub(crate) fn default_section(loader: &dyn Loader) -> Option<Resolvers> {
    let known = loader.read(RESOLV_CONF, MAX_RESOLV_CONF).ok()?;
    let at = Location::new(RESOLV_CONF.into(), 0);
    let mut section = Resolvers::new(Resolvers::DEFAULT, at.clone());
    for address in system_name_servers(&known).take(MOST_NAME_SERVERS) {
        if !section.name_servers.iter().any(|server| server.address == address) {
            section.name_servers.push(of_system(address, &at));
        }
    }
    (!section.name_servers.is_empty()).then_some(section)
}

fn of_system(address: SocketAddr, at: &Location) -> NameServer {
    NameServer {
        name: address.ip().to_string().into(),
        at: at.clone(),
        address,
        over_tcp: false,
        most_connections: None,
        settings: Arc::default(),
    }
}

/// The `nameserver` lines of a `resolv.conf` (resolv.conf(5)). Skips invalid addresses, as the system does.
fn system_name_servers(text: &[u8]) -> impl Iterator<Item = SocketAddr> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then_some(())?;
            let address: IpAddr = words.next()?.parse().ok()?;
            Some(SocketAddr::new(address, DNS_PORT))
        })
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::document::tests::{check, parse_text};

    #[test]
    fn parses_a_resolvers_section_with_all_keywords() {
        let read = parse_text(
            "resolvers r\n nameserver a 192.0.2.1:53\n nameserver b tcp@[2001:db8::1]:5353 maxconn 4\n nameserver c udp@192.0.2.2:53 maxconn 0\n \
             accepted_payload_size 4096\n resolve_retries 0\n timeout resolve 5s\n timeout retry 300\n hold nx 1s\n hold refused 2s\n \
             hold timeout 3s\n hold other 4s\n hold valid 5s\n hold obsolete 6s\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.resolvers[0];
        let servers: Vec<_> =
            section.name_servers.iter().map(|known| (known.address.to_string(), known.over_tcp)).collect();
        let expected = [("192.0.2.1:53", false), ("[2001:db8::1]:5353", true), ("192.0.2.2:53", false)];
        assert_eq!(servers, expected.map(|(address, over_tcp)| (address.to_owned(), over_tcp)));
        let most: Vec<_> = section.name_servers.iter().map(|known| known.most_connections).collect();
        assert_eq!(most, [None, Some(4), None]);
        assert_eq!((section.payload_size, section.retries), (4096, 1));
        let times = (section.resolve_timeout, section.retry_timeout);
        assert_eq!(times, (Duration::from_secs(5), Duration::from_millis(300)));
        let hold = section.hold;
        let all = [hold.no_such_name, hold.refused, hold.timeout, hold.other, hold.valid, hold.obsolete];
        assert_eq!(all.map(|time| time.as_secs()), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn tcp_name_servers_accept_server_keywords() {
        let read = parse_text(
            "resolvers r\n nameserver a tcp@192.0.2.1:853 ssl verify none sni str(dns.test) source 192.0.2.9 weight 3 check\n",
        );
        let warned = ["weight", "check"].map(|word| {
            format!("parsing [test.cfg:2] : 'nameserver a' : '{word}' has no effect on a name server.")
        });
        assert_eq!(read.messages, warned);
        let settings = &read.config.resolvers[0].name_servers[0].settings;
        let tls = settings.tls.as_ref().expect("TLS");
        assert!(tls.enabled && tls.server_name.is_some() && settings.source.is_some());
    }

    #[test]
    fn parses_the_name_servers_of_resolv_conf() {
        let text = b"# nameserver 192.0.2.9\nsearch x\nnameserver 192.0.2.1\nnameserver 2001:db8::1 # x\n nameserver\nnameserver y\n";
        let found: Vec<_> = system_name_servers(text).map(|address| address.to_string()).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53"]);
    }

    #[test]
    fn resolvers_errors_have_haproxys_messages() {
        check("resolvers\n", &["parsing [test.cfg:1] : missing name for resolvers section."]);
        check(
            "resolvers a/b\n",
            &["parsing [test.cfg:1] : character '/' is not permitted in 'resolvers' name 'a/b'."],
        );
        check(
            "resolvers r\n nameserver a 192.0.2.1:53\nresolvers r\n",
            &[
                "parsing [test.cfg:3] : resolvers 'r' has same name as another resolvers (declared at test.cfg:1).",
            ],
        );
        check(
            "resolvers r\n nameserver a 192.0.2.1:53\n nameserver\n nameserver b\n nameserver a 192.0.2.2:53\n nameserver c x.test:53\n \
             nameserver d 192.0.2.1\n nameserver e 192.0.2.1:0\n nameserver f 192.0.2.1:53-54\n nameserver g 192.0.2.1:+1\n foo\n \
             nameserver h 192.0.2.1:53 maxconn 3 ssl\n nameserver i tcp@192.0.2.1:53 maxconn\n \
             nameserver j tcp@192.0.2.1:53 ssl foo\n nameserver k tcp@192.0.2.1:53 source 0.0.0.0 usesrc client\n \
             nameserver l tcp@192.0.2.1:53 ssl sni\n nameserver m tcp@192.0.2.1:53 disabled\n",
            &[
                "parsing [test.cfg:3] : 'nameserver' expects <name> and <addr>[:<port>] as arguments.",
                "parsing [test.cfg:4] : 'nameserver' expects <name> and <addr>[:<port>] as arguments.",
                "parsing [test.cfg:5] : nameserver 'a' has same name as another nameserver (declared at test.cfg:2).",
                "parsing [test.cfg:6] : 'nameserver c' : invalid address: 'x.test' in 'x.test:53'",
                "parsing [test.cfg:7] : 'nameserver d' : missing port specification in '192.0.2.1'",
                "parsing [test.cfg:8] : 'nameserver e' : invalid port '0'",
                "parsing [test.cfg:9] : 'nameserver f' : port range not permitted here in '192.0.2.1:53-54'",
                "parsing [test.cfg:10] : 'nameserver g' : port offset not permitted here in '192.0.2.1:+1'",
                "parsing [test.cfg:11] : unknown keyword 'foo' in 'resolvers' section",
                "parsing [test.cfg:12] : 'nameserver h' : 'ssl' is about connections, and this name server is queried by datagrams: write 'tcp@' before its address.",
                "parsing [test.cfg:13] : 'nameserver i' : 'maxconn' expects an integer argument.",
                "parsing [test.cfg:14] : 'nameserver j' : unknown keyword 'foo'",
                "parsing [test.cfg:15] : 'nameserver k' : the address of a client ('usesrc') does not apply to a name server",
                "parsing [test.cfg:16] : 'nameserver l' : missing fetch method.",
                "parsing [test.cfg:17] : 'nameserver m' : 'disabled' is not possible here: leave the line out.",
            ],
        );
        check(
            "resolvers r\n nameserver a 192.0.2.1:53\n timeout\n timeout resolve\n timeout foo 1s\n timeout retry 0\n hold\n hold nx\n \
             hold foo 1s\n resolve_retries\n accepted_payload_size 511\n",
            &[
                "parsing [test.cfg:3] : 'timeout' expects 'retry' or 'resolve' and <time> as arguments.",
                "parsing [test.cfg:4] : 'timeout resolve' expects <time> as argument.",
                "parsing [test.cfg:5] : 'timeout' expects 'retry' or 'resolve' and <time> as arguments, got 'foo'.",
                "parsing [test.cfg:6] : 'timeout retry' : '0' is too short, the shortest is 1ms.",
                "parsing [test.cfg:7] : 'hold' expects one of 'nx', 'refused', 'timeout', 'other', 'valid' or 'obsolete', and a time.",
                "parsing [test.cfg:8] : 'hold' expects one of 'nx', 'refused', 'timeout', 'other', 'valid' or 'obsolete', and a time.",
                "parsing [test.cfg:9] : 'hold' unknown event 'foo', expects 'nx', 'refused', 'timeout', 'other', 'valid' or 'obsolete'.",
                "parsing [test.cfg:10] : 'resolve_retries' expects <nb> as argument.",
                "parsing [test.cfg:11] : 'accepted_payload_size' : invalid value '511', allowed range is 512..65535.",
            ],
        );
    }

    #[test]
    fn servers_must_name_existing_resolvers_sections() {
        let text = "defaults\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nresolvers r\n nameserver a 192.0.2.1:53\nbackend b\n server s a.test:80 resolvers r init-addr none resolve-prefer \
                    ipv4 resolve-net 10.0.0.0/8,192.0.2.1 resolve-opts allow-dup-ip,ignore-weight\n server t a.test:80\n";
        let read = parse_text(text);
        assert_eq!(read.messages, [""; 0]);
        let resolution = &read.config.proxies[0].servers[0].settings.resolution;
        assert_eq!(resolution.section.as_deref(), Some("r"));
        assert!(resolution.prefers_ipv4 && resolution.allows_duplicates && resolution.ignores_weight);
        assert_eq!(resolution.networks.len(), 2);
        check(
            "defaults\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nbackend b\n server s a.test:80 resolvers zz init-addr none\n",
            &["[test.cfg:6] : 'server b/s' : unable to find required resolvers 'zz'."],
        );
        check(
            "defaults\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nresolvers docker\n nameserver a 192.0.2.1:53\n\
             backend b\n server s a.test:80 resolvers dokcer init-addr none\n",
            &[
                "[test.cfg:8] : 'server b/s' : unable to find required resolvers 'dokcer'; did you mean 'docker' maybe ?",
            ],
        );
        check(
            "backend b\n server s a.test:80 resolve-prefer ipv5\n server t a.test:80 resolve-net x\n server u a.test:80 resolve-opts foo\n",
            &[
                "[test.cfg:2] : 'server b/s' : 'resolve-prefer' expects either ipv4 or ipv6 as argument.",
                "[test.cfg:3] : 'server b/t' : 'resolve-net' invalid network 'x'.",
                "[test.cfg:4] : 'server b/u' : 'resolve-opts' : unknown resolve-opts option 'foo', supported methods are 'allow-dup-ip', 'ignore-weight', and 'prevent-dup-ip'.",
            ],
        );
    }
}
