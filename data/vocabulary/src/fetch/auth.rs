//! The credentials in a request (RFC 7617, RFC 6750).

use std::sync::Arc;

use weir_expr::SampleType::{Bool, Str};
use weir_expr::{ArgKind, ArgSpec, Args, FetchCursor, FetchDecl, FetchResult, Needs};
use weir_http::auth::{self, Credentials};
use weir_model::User;
use weir_model::password::PasswordHash;

use super::access::userlist_argument;
use super::values::{copied, made, text, truth};
use super::{FetchRow, row, valid};
use crate::view::{Absent, FetchView, MessageSide, Objects};

const fn request(name: &'static str, output: weir_expr::SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST)
}

const USERS: ArgSpec = ArgSpec::new(1, &[ArgKind::UserList]);
const HEADER: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

pub(super) const ROWS: &[FetchRow] = &[
    row(
        request("http_auth", Bool, "Whether user and password of the request are in a userlist").args(USERS),
        |view, args, _| match given(view) {
            Ok(credentials) => match user(view, &credentials, args) {
                Ok(_) => truth(true),
                Err(Absent::Missing) => truth(false),
                Err(Absent::Later) => FetchResult::Later,
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
        |view, args, _| {
            let header = args.str(0).filter(|header| !header.is_empty());
            bearer(view, header)
        },
    ),
    row(request("http_auth_user", Str, "The user of the request, not verified"), |view, _, _| {
        match given(view) {
            Ok(credentials) => made(credentials.user),
            Err(absent) => absent.into(),
        }
    }),
    row(
        request("http_auth_pass", Str, "The password of the request, not verified"),
        |view, _, _| match given(view) {
            Ok(credentials) => made(credentials.password),
            Err(absent) => absent.into(),
        },
    ),
    row(
        request("http_auth_type", Str, "The scheme of the request's credentials: Basic or Bearer"),
        |view, _, _| match given(view) {
            Ok(_) => text(b"Basic"),
            Err(Absent::Later) => FetchResult::Later,
            Err(Absent::Missing) => match bearer(view, None) {
                FetchResult::Sample(_) => text(b"Bearer"),
                other => other,
            },
        },
    ),
];

/// Whether the client sends proxy credentials with this target, because it uses the frontend as a proxy (`option
/// http-use-proxy-header`).
pub fn is_for_proxy(view: &dyn FetchView, target: &[u8]) -> bool {
    acts_as_proxy(view) && is_of_proxy(target)
}

fn acts_as_proxy(view: &dyn FetchView) -> bool {
    view.frontend().is_some_and(|frontend| frontend.config.settings.options.http_use_proxy_header)
}

fn is_of_proxy(target: &[u8]) -> bool {
    !matches!(target.first(), Some(b'/' | b'*'))
}

/// The value of the header field with credentials. A request to a proxy uses `Proxy-Authorization`.
fn value<'c>(view: &'c mut dyn FetchView, header: Option<&'c [u8]>) -> Result<&'c [u8], Absent> {
    let acts_as_proxy = acts_as_proxy(view);
    let (head, raw) = view.head(MessageSide::Request)?;
    let usual: &[u8] = match acts_as_proxy && is_of_proxy(head.uri(raw)) {
        true => b"proxy-authorization",
        false => b"authorization",
    };
    head.find_line(raw, header.unwrap_or(usual), 1).ok_or(Absent::Missing)
}

fn given(view: &mut dyn FetchView) -> Result<Credentials, Absent> {
    auth::basic(value(view, None)?).ok_or(Absent::Missing)
}

fn bearer<'c>(view: &'c mut dyn FetchView, header: Option<&'c [u8]>) -> FetchResult<'c> {
    match value(view, header) {
        Ok(value) => {
            let token = auth::scheme(value).filter(|(name, _)| name.eq_ignore_ascii_case(b"Bearer"));
            let token = token.map(|(_, token)| token).filter(|token| !token.is_empty());
            token.map_or(FetchResult::Missing, text)
        }
        Err(absent) => absent.into(),
    }
}

/// The costly password hash of the request's user in a userlist, and the password in the request. `None` unless both exist and the
/// hash is costly.
pub fn costly_password(view: &mut dyn FetchView, list: u32) -> Option<(Arc<PasswordHash>, Vec<u8>)> {
    let credentials = given(view).ok()?;
    let user = named(view.objects(), list, &credentials)?;
    let hash = Arc::clone(user.password.as_ref()?.costly()?);
    Some((hash, credentials.password))
}

/// The user with these credentials in the userlist at this index of the configuration.
fn named<'o>(objects: &'o dyn Objects, list: u32, credentials: &Credentials) -> Option<&'o User> {
    objects.userlist(list)?.user(std::str::from_utf8(&credentials.user).ok()?)
}

/// The user, if the credentials are valid.
fn user<'c>(view: &'c mut dyn FetchView, credentials: &Credentials, args: &Args) -> Result<&'c User, Absent> {
    let list = userlist_argument(args).ok_or(Absent::Missing)?;
    let user = named(view.objects(), list, credentials).ok_or(Absent::Missing)?;
    let password = user.password.as_ref().ok_or(Absent::Missing)?;
    let verdict = match password.costly().cloned() {
        Some(hash) => view.password_verdict(&hash, &credentials.password),
        None => Some(password.verify(&credentials.password)),
    };
    match verdict {
        Some(true) => named(view.objects(), list, credentials).ok_or(Absent::Missing),
        Some(false) => Err(Absent::Missing),
        None => Err(Absent::Later),
    }
}

/// The user's name. An ACL instead iterates over the user's groups.
fn group<'c>(view: &'c mut dyn FetchView, args: &'c Args, cursor: &mut FetchCursor) -> FetchResult<'c> {
    let credentials = match given(view) {
        Ok(credentials) => credentials,
        Err(absent) => return absent.into(),
    };
    let groups = match user(view, &credentials, args) {
        Ok(user) => &user.groups,
        Err(absent) => return absent.into(),
    };
    if !cursor.iterating {
        return made(credentials.user);
    }
    let Some(group) = groups.get(cursor.position[0]) else { return FetchResult::Missing };
    cursor.position[0] += 1;
    cursor.more = cursor.position[0] < groups.len();
    copied(group.as_bytes())
}
