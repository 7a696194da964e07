//! Words about the runtime API's sockets and about unix sockets in general.

use std::path::PathBuf;

use super::context::GlobalReader;
use crate::bind::read_bind;
use crate::numbers::integer_in;
use crate::rows::DefaultValue::Written;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{Account, Bind, Host, ListenAddress, UnixBind};
use weir_syntax::Word;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready(
        "stats socket",
        "[<address:port>|<path>] [param*]",
        "/run/weir.sock mode 600 level admin",
        "socket of the runtime API",
        |line, words| {
            if words.peek_text().is_empty() {
                let message =
                    "'stats socket' in global section expects an address or a path to a UNIX socket";
                return Err(words.fault(message));
            }
            let socket = read_bind(words, "stats socket", "global", line.at.clone())?;
            line.global.sockets.push(socket);
            line.world.set_variable("HAPROXY_CLI", reached(&line.global.sockets, line.world.channel()));
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "stats timeout",
        "<timeout>",
        "30s",
        "how long an idle client of the runtime API is kept",
        |line, words| {
            let timeout = line.delay(words)?;
            if timeout.is_zero() {
                return Err(fault(words.line().span(), "'stats timeout' expects a positive value"));
            }
            line.global.stats_timeout = timeout;
            Ok(())
        },
    )
    .default(Written("10s")),
    Row::<GlobalReader>::ready(
        "stats maxconn",
        "<connections>",
        "20",
        "clients of the runtime API at once",
        |line, words| {
            line.global.stats_maxconn = line.number(words, 1..=i32::MAX as u32)?;
            Ok(())
        },
    )
    .default(Written("10")),
    Row::ready(
        "unix-bind",
        "[ prefix <prefix> ] [ mode <mode> ] [ user <user> ] [ uid <uid> ] [ group <group> ] [ gid <gid> ]",
        "prefix /run/weir mode 660",
        "common settings of unix sockets",
        |line, words| {
            while let Some(word) = words.take() {
                let given = line.global.unix_bind.prefix.clone().filter(|_| word.is("prefix"));
                read_unix_bind(&mut line.global.unix_bind, word, words)?;
                if given.is_some() {
                    line.global.unix_bind.prefix = given;
                    let message = "unix-bind 'prefix' already specified. Continuing.";
                    line.diagnostics.warning(words.line().span(), message);
                }
            }
            Ok(())
        },
    ),
];

/// The addresses of the runtime API known so far (`HAPROXY_CLI`).
fn reached(sockets: &[Bind], channel: Option<&str>) -> String {
    let spelled = |socket: &Bind| match socket.addresses.first() {
        Some(ListenAddress::Unix(path)) => format!("unix@{}", path.display()),
        Some(ListenAddress::Inet { host: Host::Ip(ip), .. }) if !socket.spelling.contains('@') => {
            format!("ipv{}@{}", if ip.is_ipv4() { 4 } else { 6 }, socket.spelling)
        }
        _ => socket.spelling.to_string(),
    };
    sockets.iter().map(spelled).chain(channel.map(str::to_owned)).collect::<Vec<_>>().join(";")
}

fn read_unix_bind(unix: &mut UnixBind, option: &Word, words: &mut Words<'_>) -> Parsed {
    let name = option.text();
    let known = ["prefix", "mode", "user", "uid", "group", "gid"];
    if !known.contains(&name) {
        let message =
            "'unix-bind' only supports the 'prefix', 'mode', 'uid', 'gid', 'user' and 'group' options.";
        return Err(fault(option.span(), message));
    }
    let value = words.expect(&format!("unix_bind '{name}' expects a value as an argument."))?;
    let ownership = &mut unix.ownership;
    match name {
        "prefix" => unix.prefix = Some(PathBuf::from(value.text())),
        "mode" => {
            let mode = u32::from_str_radix(value.text(), 8).ok().filter(|mode| *mode <= 0o7777);
            let message = || format!("'unix-bind' : mode '{value}' is not an octal integer");
            ownership.mode = Some(mode.ok_or_else(|| fault(value.span(), message()))?);
        }
        "user" => ownership.user = Some(Account::Name(value.text().into())),
        "group" => ownership.group = Some(Account::Name(value.text().into())),
        "uid" => ownership.user = Some(Account::Id(integer_in(value, "unix-bind uid", 0..=u32::MAX - 1)?)),
        _ => ownership.group = Some(Account::Id(integer_in(value, "unix-bind gid", 0..=u32::MAX - 1)?)),
    }
    Ok(())
}
