//! Access to the objects that a fetch's arguments refer to, and to the counters of a stream.

use std::sync::Arc;

use weir_backend::{Server, ServerKey};
use weir_expr::{Args, FetchResult};

use crate::view::{FetchView, StreamProgress, ViewedProxy, server_by_name};

/// Evaluates a fetch about a stream. Missing for a health check.
pub(super) fn of_stream<'c>(
    view: &dyn FetchView,
    then: impl FnOnce(StreamProgress) -> FetchResult<'c>,
) -> FetchResult<'c> {
    view.progress().map_or(FetchResult::Missing, then)
}

/// The backend in an argument, or the current one.
pub(super) fn backend_argument<'v>(view: &'v dyn FetchView, args: &Args) -> Option<ViewedProxy<'v>> {
    let named = args.reference(0);
    match named.and_then(|reference| reference.target()) {
        Some((position, _)) => view.objects().proxy(position as usize),
        None => match named.and_then(|reference| reference.name.as_deref()) {
            Some(name) => view.objects().backend_by_name(name),
            None => view.backend(),
        },
    }
}

/// The frontend in an argument, or the current one.
pub(super) fn frontend_argument<'v>(view: &'v dyn FetchView, args: &Args) -> Option<ViewedProxy<'v>> {
    let named = args.reference(0);
    match named.and_then(|reference| reference.target()) {
        Some((position, _)) => view.objects().proxy(position as usize),
        None => match named.and_then(|reference| reference.name.as_deref()) {
            Some(name) => view.objects().frontend_by_name(name),
            None => view.frontend(),
        },
    }
}

/// The server in an argument, with its backend.
pub(super) fn server_argument<'v>(
    view: &'v dyn FetchView,
    args: &Args,
) -> Option<(ViewedProxy<'v>, Arc<Server>)> {
    let reference = args.reference(0)?;
    let Some((position, rank)) = reference.target() else {
        return server_by_name(view.objects(), view.backend(), reference.name.as_deref()?.as_bytes());
    };
    let proxy = view.objects().proxy(position as usize)?;
    let server = proxy.backend?.server(ServerKey::configured(rank))?;
    Some((proxy, server))
}

/// The index of the userlist in an argument.
pub(super) fn userlist_argument(args: &Args) -> Option<u32> {
    args.reference(0)?.target().map(|(position, _)| position)
}
