//! Connections to FastCGI applications: servers with `proto fcgi`.

use std::rc::Rc;
use std::sync::Arc;

use weir_fcgi::ConnectionOptions;
use weir_mux::ApplicationMultiplexer;
use weir_mux::trace::ConnectionIdentity;
use weir_net::Connection;
use weir_sched::WorkKind;

use super::carrier::Carrier;
use super::connect::ServerConnectError;
use super::retry::AttemptFailure;
use super::served;
use super::shared::{self, FirstUse};
use crate::fastcgi::ErrorLog;
use crate::instance::application::Application;
use crate::stream::Stream;
use crate::upstream::Upstream;

/// Turns a new connection into one that carries requests to the backend's application, with this stream's as the first. With
/// `option get-values` it waits for the application's limits.
pub(super) async fn begin(
    stream: &mut Stream,
    connection: Connection,
    first: FirstUse,
) -> Result<Upstream, ServerConnectError> {
    let Some(application) = application_of(stream) else {
        // The configuration refuses such a server.
        return Err(ServerConnectError::Failed(AttemptFailure::Refused(None)));
    };
    let options = application.connection_options();
    let connection = ApplicationMultiplexer::new(
        connection,
        options,
        ErrorLog::of(&application),
        stream.trace().server_identity(),
    );
    // Without `keeps` the application closes the connection after one response.
    let private = first.private || !options.keeps || shared::are_private(stream);
    let first = FirstUse { private, ..first };
    let upstream = served::open(
        stream,
        &connection,
        (Carrier::Application, connection.stream().into()),
        first,
        (&CONNECTION, |_, _| {}),
    );
    if options.get_values {
        served::await_greeting(stream, &connection, |_, _| {}).await?;
    }
    Ok(upstream)
}

/// How many requests a connection that is being established will carry at once. The answer to `option get-values` may set another number
/// later.
pub(super) fn places(stream: &Stream) -> u32 {
    application_of(stream).map_or(1, |application| {
        let options = application.connection_options();
        if options.multiplexes && options.keeps { u32::from(options.max_requests) } else { 1 }
    })
}

/// Turns the connection of a check into one that carries its requests to the application. A check sends one request at a time, for which the
/// limits of the application do not matter.
pub fn connect_check(application: &Arc<Application>, connection: Connection) -> Rc<ApplicationMultiplexer> {
    let options = ConnectionOptions { get_values: false, ..application.connection_options() };
    let identity = ConnectionIdentity::of_server(0, 0, "<check>".into());
    ApplicationMultiplexer::new(connection, options, ErrorLog::of(application), identity)
}

fn application_of(stream: &Stream) -> Option<Arc<Application>> {
    stream.backend.application.clone()
}

static CONNECTION: WorkKind = WorkKind::new("connection to an application");
