//! The credentials that a request carries (RFC 7617, RFC 6750).

use std::sync::Arc;

use weir_config::model::User;
use weir_config::password::PasswordHash;
use weir_expr::SampleType::{Bool, Str};
use weir_expr::{ArgKind, ArgSpec, Args, Cursor, FetchDecl, Fetched, Needs};
use weir_http::auth::{self, Credentials};

use super::access::{Absent, Side, userlist_argument};
use super::values::{copied, made, text, truth};
use super::{Row, row, valid};
use crate::instance::Instance;
use crate::stream::Stream;

const fn request(name: &'static str, output: weir_expr::SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST)
}

const USERS: ArgSpec = ArgSpec::new(1, &[ArgKind::UserList]);
const HEADER: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

pub(super) const ROWS: &[Row] = &[
    row(
        request("http_auth", Bool, "Whether user and password of the request are in a userlist").args(USERS),
        |stream, args, _| match given(stream) {
            Ok(credentials) => match user(stream, &credentials, args) {
                Ok(_) => truth(true),
                Err(Absent::Missing) => truth(false),
                Err(Absent::Later) => Fetched::Later,
            },
            Err(absent) => absent.into(),
        },
    ),
    row(
        request(
            "http_auth_group",
            Str,
            "The user of the request, if a userlist has user and password; ACLs see its groups",
        )
        .args(USERS),
        group,
    ),
    row(
        request(
            "http_auth_bearer",
            Str,
            "The bearer token of the request, in Authorization or another header",
        )
        .args(HEADER),
        |stream, args, _| {
            let header = args.str(0).filter(|header| !header.is_empty());
            bearer(stream, header)
        },
    ),
    row(request("http_auth_user", Str, "The user of the request, not verified"), |stream, _, _| match given(
        stream,
    ) {
        Ok(credentials) => made(credentials.user),
        Err(absent) => absent.into(),
    }),
    row(request("http_auth_pass", Str, "The password of the request, not verified"), |stream, _, _| {
        match given(stream) {
            Ok(credentials) => made(credentials.password),
            Err(absent) => absent.into(),
        }
    }),
    row(
        request("http_auth_type", Str, "The scheme of the request's credentials: Basic or Bearer"),
        |stream, _, _| match given(stream) {
            Ok(_) => text(b"Basic"),
            Err(Absent::Later) => Fetched::Later,
            Err(Absent::Missing) => match bearer(stream, None) {
                Fetched::Sample(_) => text(b"Bearer"),
                other => other,
            },
        },
    ),
];

/// Whether the client takes the frontend for its proxy and is asked for credentials as by one (`option http-use-proxy-header`).
pub(crate) fn is_for_proxy(stream: &Stream, target: &[u8]) -> bool {
    let to_proxy = !matches!(target.first(), Some(b'/' | b'*'));
    to_proxy && stream.frontend.config.settings.options.http_use_proxy_header
}

/// The field of the credentials: a request to a proxy has them in a field of its own.
fn field(stream: &Stream, target: &[u8]) -> &'static [u8] {
    if is_for_proxy(stream, target) { b"proxy-authorization" } else { b"authorization" }
}

/// The value of the credentials' field.
fn value<'c>(stream: &'c mut Stream, header: Option<&'c [u8]>) -> Result<&'c [u8], Absent> {
    stream.head(Side::Request)?;
    let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
    let field = header.unwrap_or_else(|| field(stream, head.uri(raw)));
    head.find_line(raw, field, 1).ok_or(Absent::Missing)
}

fn given(stream: &mut Stream) -> Result<Credentials, Absent> {
    auth::basic(value(stream, None)?).ok_or(Absent::Missing)
}

fn bearer<'c>(stream: &'c mut Stream, header: Option<&'c [u8]>) -> Fetched<'c> {
    match value(stream, header) {
        Ok(value) => {
            let token = auth::scheme(value).filter(|(name, _)| name.eq_ignore_ascii_case(b"Bearer"));
            let token = token.map(|(_, token)| token).filter(|token| !token.is_empty());
            token.map_or(Fetched::Missing, text)
        }
        Err(absent) => absent.into(),
    }
}

/// The hash that a userlist has for the request's user, and the password of the request.
pub(crate) fn costly_password(stream: &mut Stream, list: u32) -> Option<(Arc<PasswordHash>, Vec<u8>)> {
    let credentials = given(stream).ok()?;
    let user = named(stream.frontend.instance(), list, &credentials)?;
    let hash = Arc::clone(user.password.as_ref()?.costly()?);
    Some((hash, credentials.password))
}

/// The user of the credentials in the list at this position of the configuration.
fn named<'i>(instance: &'i Instance, list: u32, credentials: &Credentials) -> Option<&'i User> {
    instance.userlists.get(list as usize)?.user(std::str::from_utf8(&credentials.user).ok()?)
}

/// The groups of the user whose credentials are valid.
fn user<'c>(
    stream: &'c mut Stream,
    credentials: &Credentials,
    args: &Args,
) -> Result<&'c [Box<str>], Absent> {
    let list = userlist_argument(args).ok_or(Absent::Missing)?;
    let user = named(stream.frontend.instance(), list, credentials).ok_or(Absent::Missing)?;
    let password = user.password.as_ref().ok_or(Absent::Missing)?;
    let candidate = &credentials.password;
    let may_suspend = stream.rules.may_suspend;
    let verdict = match password.costly() {
        Some(hash) => stream.captures.passwords_mut().verdict(hash, candidate, may_suspend),
        None => Some(password.verify(candidate)),
    };
    match verdict {
        Some(true) => Ok(&user.groups),
        Some(false) => Err(Absent::Missing),
        None => Err(Absent::Later),
    }
}

/// The user's name; an ACL compares its patterns with each of the user's groups instead.
fn group<'c>(stream: &'c mut Stream, args: &'c Args, cursor: &mut Cursor) -> Fetched<'c> {
    let credentials = match given(stream) {
        Ok(credentials) => credentials,
        Err(absent) => return absent.into(),
    };
    let groups = match user(stream, &credentials, args) {
        Ok(groups) => groups,
        Err(absent) => return absent.into(),
    };
    if !cursor.iterating {
        return made(credentials.user);
    }
    let Some(group) = groups.get(cursor.position[0]) else { return Fetched::Missing };
    cursor.position[0] += 1;
    cursor.more = cursor.position[0] < groups.len();
    copied(group.as_bytes())
}
