//! The engines that ask agents (`filter spoe`).

use std::sync::Arc;

use weir_stream::instance::engine::{AgentEngine, EngineParts};

use super::logs::{self, LogSinks};
use super::{BuildError, ProcessValues};

/// The engines of a proxy, in the order of their filters.
pub(super) fn of_proxy(
    config: &weir_model::Proxy,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    sinks: &mut LogSinks,
    errors: &mut Vec<BuildError>,
) -> Vec<AgentEngine> {
    let mut engines = Vec::new();
    for (filter, line) in config.filters.iter().enumerate() {
        let Some(engine) = line.facts().spoe else { continue };
        // An engine without a backend is an error of the configuration.
        let Some((backend, _)) = engine.agent.backend.target() else { continue };
        let targets = engine.agent.log_targets.iter();
        let log_sinks = logs::open_all(targets, &engine.agent.at, global, options, sinks, errors);
        engines.push(AgentEngine::new(EngineParts {
            filter,
            config: engine.clone(),
            backend: backend as usize,
            is_both: config.is_frontend() && config.is_backend(),
            buffer_size: global.tuning.buffer_size,
            log_sinks,
            log_tag: logs::tag(config, global),
            variables: Arc::clone(&options.variable_names),
            workers: options.workers,
        }));
    }
    engines
}
