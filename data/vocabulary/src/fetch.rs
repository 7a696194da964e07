//! The fetches: one row each, next to the function that evaluates it.
//!
//! A row consists of a declaration (name, arguments, output type, validity, help) and a function of the view. The submodules group
//! the rows by the object that they read. [`FETCHES`] contains all of them. A row's position there is its index in the language
//! ([`declarations`]).
//!
//! A fetch has three results: a sample, `Missing` (there will never be one), and `Later` (more bytes may bring one). Only content
//! inspection waits, so `Later` needs [`FetchView::may_wait`].

mod access;
pub mod auth;
mod body;
mod certificates;
mod connection;
mod cookies;
mod headers;
mod hello;
mod identity;
mod local;
mod objects;
mod parameters;
mod payload;
pub mod rdp;
mod request;
mod response;
mod secure;
mod state;
mod streams;
mod tables;
mod timers;
mod tls;
mod values;

use weir_expr::{Args, Fetch, FetchCursor, FetchDecl, FetchResult};

use crate::view::FetchView;

/// The function that evaluates a fetch.
pub type FetchFunction =
    for<'c> fn(&'c mut (dyn FetchView + 'c), &'c Args, &mut FetchCursor) -> FetchResult<'c>;

/// A fetch of this crate.
pub type FetchRow = Fetch<FetchFunction>;

/// All fetches, by index.
pub static FETCHES: &[FetchRow] = &ALL;

/// The declarations for the language, by index.
pub fn declarations() -> impl Iterator<Item = &'static FetchDecl> {
    FETCHES.iter().map(|row| &row.decl)
}

const PARTS: &[&[FetchRow]] = &[
    state::ROWS,
    objects::ROWS,
    connection::ROWS,
    streams::FRONT,
    streams::BACK,
    timers::ROWS,
    payload::ROWS,
    tls::ROWS,
    secure::AGREED_WITH_CLIENT,
    secure::AGREED_WITH_SERVER,
    secure::ROWS,
    certificates::BY_CLIENT,
    certificates::TO_CLIENT,
    certificates::BY_SERVER,
    certificates::ROWS,
    hello::ROWS,
    hello::KEYS_WITH_CLIENT,
    hello::KEYS_WITH_SERVER,
    identity::WITH_CLIENT,
    identity::WITH_SERVER,
    request::ROWS,
    headers::ROWS,
    cookies::ROWS,
    parameters::ROWS,
    body::ROWS,
    auth::ROWS,
    response::ROWS,
    tables::ROWS,
    tables::SCALARS,
    tables::ELEMENTS,
    tables::COUNTERS,
];

static ALL: [FetchRow; count(PARTS)] = join(PARTS);

const fn count(parts: &[&[FetchRow]]) -> usize {
    let (mut part, mut total) = (0, 0);
    while part < parts.len() {
        total += parts[part].len();
        part += 1;
    }
    total
}

const fn join<const N: usize>(parts: &[&[FetchRow]]) -> [FetchRow; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            all[at] = parts[part][row];
            (at, row) = (at + 1, row + 1);
        }
        part += 1;
    }
    all
}

const fn row(decl: FetchDecl, run: FetchFunction) -> FetchRow {
    Fetch { decl, run }
}

/// Masks of the evaluation points where fetches are valid. Rows share them. Each is named after the object that must exist.
mod valid {
    /// Everywhere except in the configuration parser.
    pub(super) const RUNNING: &str = "YYYYYYYYYYYYYYYYYYYY.Y";
    /// Wherever there is a client, or a health check.
    pub(super) const CLIENT: &str = "YYYYYYYYYYYYYYYYYYYY..";
    /// Wherever there is a frontend.
    pub(super) const FRONTEND: &str = "YYYYYYYYYYYYYYYYYYY...";
    /// From the client session on.
    pub(super) const SESSION: &str = ".YYYYYYYYYYYYYYYYYY...";
    /// From the start of the stream to its log line.
    pub(super) const STREAM: &str = "..YYYYYYYYYYYYYYYYY...";
    /// After the backend was selected.
    pub(super) const BACKEND: &str = "......YYYYYYYYYYYYYY..";
    /// From the selection of a server to the log line.
    pub(super) const CHOICE: &str = ".........YYYYYYYYYY...";
    /// After the connect to the server began.
    pub(super) const SERVER: &str = "..........YYYYYYYYYY..";
    /// After the first byte of the response.
    pub(super) const ANSWERED: &str = "...........YYYYYYYYY..";
    /// While the request is available.
    pub(super) const REQUEST: &str = "..YYYYYYYYY...........";
    /// While the response is available.
    pub(super) const RESPONSE: &str = "...........YYYYYYY.Y..";
    /// While either message is available.
    pub(super) const MESSAGE: &str = "..YYYYYYYYYYYYYYYY.Y..";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_fetch_is_documented_and_declared_once() {
        let mut seen = HashSet::new();
        for decl in declarations() {
            assert!(
                weir_expr::fetch::names().contains(&decl.name),
                "{} is no word of the language",
                decl.name
            );
            assert!(seen.insert(decl.name), "{} is declared twice", decl.name);
            assert!(!decl.help.is_empty(), "{} has no help", decl.name);
        }
        for row in weir_expr::internal::FETCHES {
            assert!(!seen.contains(row.decl.name), "{} is answered without the traffic", row.decl.name);
        }
    }
}
