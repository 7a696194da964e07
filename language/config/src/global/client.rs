//! Words about requests of the process itself: the HTTP client, and OCSP updates, which use it.

use super::context::{GlobalContext, GlobalReader};
use crate::address::{refuse_multipath, server_address};
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{ServerAddress, ServerPort, TlsVerify};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "httpclient.resolvers.disabled",
        "<on|off>",
        "off",
        "HTTP client: resolve no names",
        |line, words| {
            line.global.client.resolves_nothing = line.switch(words)?;
            Ok(())
        },
    )
    .default(Written("off")),
    Row::<GlobalReader>::ready(
        "httpclient.resolvers.id",
        "<resolvers id>",
        "default",
        "HTTP client: section of the name servers that it asks",
        |line, words| {
            let name = line.word(words, "the name of a 'resolvers' section as argument")?;
            line.global.client.resolvers = Some((name.text().into(), line.at.clone()));
            Ok(())
        },
    )
    .default(Described("`default`")),
    Row::<GlobalReader>::ready(
        "httpclient.resolvers.prefer",
        "<ipv4|ipv6>",
        "ipv6",
        "HTTP client: address family to query first",
        |line, words| {
            line.global.client.prefers_ipv4 = line.choice(words, &["ipv4", "ipv6"])? == "ipv4";
            Ok(())
        },
    )
    .default(Written("ipv6")),
    Row::<GlobalReader>::ready(
        "httpclient.retries",
        "<number>",
        "3",
        "HTTP client: how often a connection is tried again",
        |line, words| {
            line.global.client.retries = line.number(words, 0..=MOST_RETRIES)?;
            Ok(())
        },
    )
    .default(Written("3")),
    Row::<GlobalReader>::ready(
        "httpclient.ssl.ca-file",
        "<cafile>",
        "@system-ca",
        "HTTP client: authorities of servers",
        |line, words| {
            let file = line.word(words, "a file of authorities as argument")?;
            line.global.client.ca_file = Some(file.text().into());
            line.global.client.tls_at = Some(line.at.clone());
            Ok(())
        },
    )
    .default(Described("the system's certificate authorities")),
    Row::<GlobalReader>::ready(
        "httpclient.ssl.verify",
        "[none|required]",
        "required",
        "HTTP client: whether certificates of servers are checked",
        |line, words| {
            let none = line.choice(words, &["none", "required"])? == "none";
            line.global.client.verify = Some(if none { TlsVerify::None } else { TlsVerify::Required });
            line.global.client.tls_at = Some(line.at.clone());
            Ok(())
        },
    )
    .default(Described("`required`")),
    Row::<GlobalReader>::ready(
        "httpclient.timeout.connect",
        "<timeout>",
        "5s",
        "HTTP client: how long a connection may take to stand",
        |line, words| {
            line.global.client.connect_timeout = line.delay(words)?;
            Ok(())
        },
    )
    .default(Written("5s")),
    Row::<GlobalReader>::ready(
        "ocsp-update.disable",
        "[ on | off ]",
        "off",
        "renew no OCSP responses",
        |line, words| {
            line.global.ocsp_updates.disabled = line.switch(words)?;
            Ok(())
        },
    )
    .default(Written("off")),
    Row::ready(
        "ocsp-update.httpproxy",
        "<address>[:port]",
        "192.0.2.1:3128",
        "HTTP proxy for OCSP requests",
        read_proxy,
    ),
    Row::<GlobalReader>::ready(
        "ocsp-update.maxdelay",
        "<number>",
        "3600",
        "seconds between two updates of an OCSP response, at most",
        read_most_delay,
    )
    .default(Described("`3600`")),
    Row::<GlobalReader>::ready(
        "ocsp-update.mindelay",
        "<number>",
        "300",
        "seconds between two updates of an OCSP response, at least",
        read_least_delay,
    )
    .default(Described("`300`")),
    Row::<GlobalReader>::ready(
        "ocsp-update.mode",
        "[ on | off ]",
        "off",
        "renew the OCSP responses of all certificates",
        |line, words| {
            line.global.ocsp_updates.of_all = line.switch(words)?;
            Ok(())
        },
    )
    .default(Written("off")),
    Row::<GlobalReader>::ready(
        "tune.ssl.ocsp-update.maxdelay",
        "<number>",
        "3600",
        "old name of 'ocsp-update.maxdelay'",
        read_most_delay,
    )
    .default(Described("`3600`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.ocsp-update.mindelay",
        "<number>",
        "300",
        "old name of 'ocsp-update.mindelay'",
        read_least_delay,
    )
    .default(Described("`300`")),
];

fn read_most_delay(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    line.global.ocsp_updates.most_delay = line.number(words, 1..=LONGEST_DELAY)?;
    line.global.ocsp_updates.at = Some(line.at.clone());
    Ok(())
}

fn read_least_delay(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    line.global.ocsp_updates.least_delay = line.number(words, 1..=LONGEST_DELAY)?;
    line.global.ocsp_updates.at = Some(line.at.clone());
    Ok(())
}

fn read_proxy(line: &mut GlobalContext<'_>, words: &mut Words<'_>) -> Parsed {
    let word = line.word(words, "<address>[:port] as argument")?;
    refuse_multipath(word, line.keyword)?;
    let (host, port) = match server_address(word, line.keyword)? {
        ServerAddress::Inet { host, port: ServerPort::Fixed(port) } => (host, port),
        ServerAddress::Inet { host, .. } if !word.text().contains(['+', '-']) => (host, HTTP),
        _ => {
            let message = format!("'{}' : '{word}' is not an address with a port or without.", line.keyword);
            return Err(fault(word.span(), message));
        }
    };
    line.global.ocsp_updates.proxy = Some((host, port, line.at.clone()));
    Ok(())
}

/// The default port of an HTTP proxy.
const HTTP: u16 = 80;
/// The limit of retries: each try may take its full timeout.
const MOST_RETRIES: u32 = 100;
/// The longest time between two updates, in seconds: a year.
const LONGEST_DELAY: u32 = 366 * 86_400;
