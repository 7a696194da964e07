//! The options that select a dialogue: `httpchk`, `tcp-check`, and those with a built-in dialogue.

use std::sync::Arc;

use weir_expr::Location;
use weir_expr::pattern::regex::Regex;

use super::super::DEFAULTS;
use super::super::keywords::DEFAULTS_AND_BACKENDS;
use super::super::options::{OptionKind, OptionReader};
use super::{CheckRuleKind, format, own_rules, scripts};
use crate::proxy::LineContext;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{
    CheckAction, CheckMethod, CheckRule, CheckText, Expect, ExpectStatus, Expected, HttpRequest, OwnExpected,
};

macro_rules! check_option {
    ($name:literal, $arguments:literal, $example:literal, $help:literal, $read:expr) => {
        Row::ready(
            $name,
            $arguments,
            $example,
            $help,
            OptionReader {
                sections: DEFAULTS_AND_BACKENDS,
                http_only: false,
                kind: OptionKind::Positive($read),
            },
        )
        .default(Described("off"))
    };
}

pub(in crate::proxy) const OPTIONS: &[Row<OptionReader>] = &[
    check_option!(
        "httpchk",
        "[<method>] [<uri>] [<version> [<host>]]",
        "GET /health",
        "check servers with HTTP",
        read_http
    ),
    check_option!(
        "tcp-check",
        "",
        "",
        "check servers with a dialogue of 'tcp-check' rules",
        |context, words| {
            words.end("option tcp-check")?;
            scripts(context).method = CheckMethod::Tcp;
            Ok(())
        }
    ),
    check_option!("redis-check", "", "", "check servers with Redis", |context, words| {
        words.end("option redis-check")?;
        let pong = Expect::plain(Expected::Own(OwnExpected::RedisPong));
        own(context, vec![send(b"*1\r\n$4\r\nPING\r\n"), expecting(pong)])
    }),
    check_option!("smtpchk", "[<hello> <domain>]", "EHLO a.example", "check servers with SMTP", read_smtp),
    check_option!("ldap-check", "", "", "check servers with LDAP", |context, words| {
        words.end("option ldap-check")?;
        let bound = Expect { min_receive: Some(14), ..Expect::plain(Expected::Own(OwnExpected::LdapBind)) };
        own(
            context,
            vec![send(b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00"), expecting(bound)],
        )
    }),
    check_option!(
        "pgsql-check",
        "user <username>",
        "user a",
        "check servers with PostgreSQL",
        read_postgresql
    ),
    check_option!(
        "mysql-check",
        "[ user <username> [ { post-41 | pre-41 } ] ]",
        "user a",
        "check servers with MySQL",
        read_mysql
    ),
    check_option!("ssl-hello-chk", "", "", "check servers with a TLS hello", |context, words| {
        words.end("option ssl-hello-chk")?;
        let hello = Expect {
            min_receive: Some(5),
            ok_status: Some(ExpectStatus::L6Ok),
            error_status: Some(ExpectStatus::L6Response),
            timeout_status: Some(ExpectStatus::L6Timeout),
            ..Expect::plain(Expected::HexRegex(regex("^1[56]")))
        };
        own(context, vec![send(&client_hello()), expecting(hello)])
    }),
    check_option!("external-check", "", "", "check servers with a program", super::external::read_option),
    check_option!("spop-check", "", "", "check servers with SPOP", |context, words| {
        words.end("option spop-check")?;
        let hello = Expect { min_receive: Some(4), ..Expect::plain(Expected::Own(OwnExpected::SpopHello)) };
        let connect = CheckRule { comment: None, step: 0, action: CheckAction::Connect(Default::default()) };
        own(context, vec![connect, send(SPOP_HELLO), expecting(hello)])
    }),
];

fn own(context: &mut LineContext<'_>, mut rules: Vec<CheckRule>) -> Parsed {
    for (step, rule) in (1..).zip(&mut rules) {
        rule.step = step;
    }
    scripts(context).method = CheckMethod::Own(Arc::new(rules));
    Ok(())
}

fn send(bytes: &[u8]) -> CheckRule {
    CheckRule { comment: None, step: 0, action: CheckAction::Send(bytes.into()) }
}

fn expecting(expect: Expect) -> CheckRule {
    CheckRule { comment: None, step: 0, action: CheckAction::Expect(Arc::new(expect)) }
}

/// Compiles a constant regular expression, which is valid.
fn regex(pattern: &str) -> Arc<Regex> {
    Arc::new(
        Regex::new(pattern, true, &Location::new("option".into(), 0)).expect("a valid regular expression"),
    )
}

fn read_http(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let mut said = Vec::new();
    while let Some(word) = words.take() {
        if said.len() == 4 {
            return Err(fault(
                word.span(),
                format!("'option httpchk' cannot handle unexpected argument '{word}'."),
            ));
        }
        said.push(word);
    }
    let bytes = |at: usize| said.get(at).map(|word| Arc::from(word.bytes()));
    let mut request = HttpRequest::default();
    if said.len() == 1 {
        request.uri = bytes(0).map(CheckText::Fixed);
    } else {
        (request.method, request.uri) = (bytes(0), bytes(1).map(CheckText::Fixed));
        if let Some(version) = said.get(2).filter(|word| word.bytes().iter().any(u8::is_ascii_control)) {
            return Err(fault(
                version.span(),
                "'option httpchk' : hiding headers or body at the end of the version string is unsupported. Use \
                 'http-check send' directive instead.",
            ));
        }
        request.version = bytes(2);
    }
    if let Some(host) = said.get(3) {
        request.headers.push(((*b"host").into(), format(context, host)?));
    }
    // The option describes the whole check, so inherited `http-check` rules do not apply.
    own_rules(context, CheckRuleKind::Http);
    scripts(context).http_option = Some(context.draft.proxy.at.clone());
    scripts(context).method = CheckMethod::Http(Arc::new(request));
    Ok(())
}

fn read_smtp(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let (hello, domain) = match (words.take(), words.take()) {
        (Some(hello), Some(domain)) => {
            (if hello.is("EHLO") { "EHLO" } else { "HELO" }, domain.text().to_owned())
        }
        (Some(hello), None) => {
            return Err(fault(hello.span(), "'option smtpchk' expects <domain> after the hello command."));
        }
        _ => ("HELO", "localhost".to_owned()),
    };
    words.end("option smtpchk")?;
    let reply =
        || expecting(Expect { min_receive: Some(4), ..Expect::plain(Expected::Own(OwnExpected::SmtpReply)) });
    let greeting = format!("{hello} {domain}\r\n");
    let linger = weir_model::CheckConnect { lingers: true, ..Default::default() };
    let connect = CheckRule { comment: None, step: 0, action: CheckAction::Connect(linger) };
    let rules = vec![connect, reply(), send(greeting.as_bytes()), reply(), send(b"QUIT\r\n"), reply()];
    own(context, rules)
}

fn read_postgresql(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let expects = "'option pgsql-check' expects 'user <username>' as argument.";
    let word = words.expect(expects)?;
    if !word.is("user") {
        return Err(fault(word.span(), "'option pgsql-check' only supports optional values: 'user'."));
    }
    let user = words.expect(expects)?;
    words.end("option pgsql-check")?;
    // A startup message of protocol 3.0: its length, the version, the user, and the end.
    let mut startup = b"\0\x03\0\0user\0".to_vec();
    startup.extend_from_slice(user.bytes());
    startup.extend_from_slice(b"\0\0");
    let length = (startup.len() as u32 + 4).to_be_bytes();
    let startup = [&length[..], &startup].concat();
    let linger = weir_model::CheckConnect { lingers: true, ..Default::default() };
    let connect = CheckRule { comment: None, step: 0, action: CheckAction::Connect(linger) };
    let answer = expecting(Expect::plain(Expected::Own(OwnExpected::PostgresqlAnswer)));
    own(context, vec![connect, send(&startup), answer])
}

fn read_mysql(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let greeting = || expecting(Expect::plain(Expected::Own(OwnExpected::MysqlGreeting)));
    let linger = weir_model::CheckConnect { lingers: true, ..Default::default() };
    let connect = CheckRule { comment: None, step: 0, action: CheckAction::Connect(linger) };
    let Some(word) = words.take() else { return own(context, vec![connect, greeting()]) };
    if !word.is("user") {
        return Err(fault(
            word.span(),
            format!("'option mysql-check' only supports optional values: 'user' (got '{word}')."),
        ));
    }
    let user = words.expect("'option mysql-check user' expects <username> as argument.")?;
    if user.bytes().len() > MAX_MYSQL_USER {
        return Err(fault(
            user.span(),
            format!("'option mysql-check user' takes at most {MAX_MYSQL_USER} bytes."),
        ));
    }
    let old = match words.peek_text() {
        "" => false,
        text @ ("post-41" | "pre-41") => {
            words.take();
            text == "pre-41"
        }
        other => {
            return Err(
                words.fault(format!("keyword 'user' only supports 'post-41' and 'pre-41' (got '{other}')."))
            );
        }
    };
    words.end("option mysql-check")?;
    let login = if old { mysql_login_old(user.bytes()) } else { mysql_login(user.bytes()) };
    let answer = expecting(Expect::plain(Expected::Own(OwnExpected::MysqlAnswer)));
    // The login is sent at once. Servers answer it after their greeting.
    own(context, vec![connect, send(&login), greeting(), answer])
}

/// The longest user name in bytes: MySQL allows 32 characters.
const MAX_MYSQL_USER: usize = 128;

/// A client authentication packet of protocol 4.1 for a user without password, and a QUIT packet.
fn mysql_login(user: &[u8]) -> Vec<u8> {
    // Capabilities (protocol 4.1 and secure connections), the longest packet, and the character set UTF-8.
    let mut packet = Vec::new();
    packet.extend_from_slice(&0x0000_8200_u32.to_le_bytes());
    packet.extend_from_slice(&0x0100_8000_u32.to_le_bytes());
    packet.push(33);
    packet.extend_from_slice(&[0; 23]);
    packet.extend_from_slice(user);
    packet.extend_from_slice(&[0, 0]);
    with_quit(&packet)
}

/// The same packets before protocol 4.1.
fn mysql_login_old(user: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x00, 0x80, 0x00, 0x00, 0x01];
    packet.extend_from_slice(user);
    packet.extend_from_slice(&[0, 0]);
    with_quit(&packet)
}

/// A packet with its header (length, sequence number 1), and a QUIT packet.
fn with_quit(packet: &[u8]) -> Vec<u8> {
    let length = (packet.len() as u32).to_le_bytes();
    let mut bytes = vec![length[0], length[1], length[2], 1];
    bytes.extend_from_slice(packet);
    bytes.extend_from_slice(&[1, 0, 0, 0, 1]);
    bytes
}

/// An SSL 3.0 ClientHello that servers of any version answer: random bytes, no session, many ciphers, no compression.
fn client_hello() -> Vec<u8> {
    let ciphers: Vec<u8> = (0x01_u8..=0x1b).chain(0x2f..=0x3a).flat_map(|cipher| [0, cipher]).collect();
    let mut body = vec![0x03, 0x00];
    body.extend_from_slice(b"weir checks whether you are here");
    body.push(0);
    body.extend_from_slice(&(ciphers.len() as u16).to_be_bytes());
    body.extend_from_slice(&ciphers);
    body.extend_from_slice(&[1, 0]);
    let mut hello = vec![0x16, 0x03, 0x00];
    hello.extend_from_slice(&(body.len() as u16 + 4).to_be_bytes());
    hello.extend_from_slice(&[1, 0]);
    hello.extend_from_slice(&(body.len() as u16).to_be_bytes());
    hello.extend_from_slice(&body);
    hello
}

/// A HELLO frame for a health check, after its length. An agent responds and closes.
const SPOP_HELLO: &[u8] = b"\0\0\0\x4e\x01\0\0\0\x01\0\0\
    \x12supported-versions\x08\x032.0\
    \x0emax-frame-size\x03\xfc\xf0\x06\
    \x0ccapabilities\x08\0\
    \x0bhealthcheck\x11";

/// The `option` rows are valid in `defaults`, too.
const _: () = assert!(DEFAULTS_AND_BACKENDS.contains(DEFAULTS));
