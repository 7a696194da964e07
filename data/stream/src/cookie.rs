//! Persistence by a cookie: which server the request's cookie designates, and what the response tells the client.

use std::sync::Arc;

use weir_backend::Server;

use crate::exchange::Exchange;

/// The server that the request's cookie designates.
pub(crate) fn designated(exchange: &mut Exchange) -> Option<Arc<Server>> {
    let _ = exchange;
    None
}

/// What the response tells the client about its server.
pub(crate) fn on_response(exchange: &mut Exchange) {
    let _ = exchange;
}
