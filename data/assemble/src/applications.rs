//! The FastCGI applications of backends (`use-fcgi-app`).

use std::sync::Arc;

use weir_stream::instance::application::Application;

use super::logs::{self, LogSinks};
use super::{BuildError, ProcessValues};

/// The application of a proxy's servers.
pub(super) fn of_proxy(
    config: &weir_model::Proxy,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    sinks: &mut LogSinks,
    errors: &mut Vec<BuildError>,
) -> Option<Arc<Application>> {
    let application = config.settings.application.as_ref()?;
    let targets = application.log_targets.iter();
    let log_sinks = logs::open_all(targets, &application.at, global, options, sinks, errors);
    Some(Arc::new(Application::new(Arc::clone(application), log_sinks, application.name.as_bytes().into())))
}
