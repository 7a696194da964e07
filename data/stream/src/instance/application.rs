//! The FastCGI application of a backend, shared by all workers.

use std::sync::Arc;

use weir_events::LogSink;
use weir_fcgi::ConnectionOptions;
use weir_fcgi::params::parameter_byte;
use weir_model::{FcgiApplication, SetParameter};

/// An application (`use-fcgi-app`) with its log targets.
pub struct Application {
    pub config: Arc<FcgiApplication>,
    /// The names of the parameters of `set-param` lines as applications see them, in the order of the lines.
    names: Box<[Box<[u8]>]>,
    /// The targets of `log-stderr`.
    pub log_sinks: Vec<Arc<LogSink>>,
    /// The tag of its log lines.
    pub log_tag: Box<[u8]>,
}

impl Application {
    /// An application with its open log targets.
    pub fn new(config: Arc<FcgiApplication>, log_sinks: Vec<Arc<LogSink>>, log_tag: Box<[u8]>) -> Self {
        let names = config.parameters.iter().map(|line| name_of(line.name.as_bytes())).collect();
        Application { config, names, log_sinks, log_tag }
    }

    /// The `set-param` lines with the names of their parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&[u8], &SetParameter)> {
        self.names.iter().map(|name| &**name).zip(&self.config.parameters)
    }

    /// How connections to the application begin.
    pub(crate) fn connection_options(&self) -> ConnectionOptions {
        let config = &self.config;
        ConnectionOptions {
            get_values: config.get_values,
            keeps: config.keeps_connections,
            multiplexes: config.multiplexes,
            max_requests: u16::try_from(config.max_requests).unwrap_or(u16::MAX),
        }
    }
}

/// The name of a parameter: in upper case, with underscores in place of other characters, as HAProxy writes it.
fn name_of(written: &[u8]) -> Box<[u8]> {
    written.iter().map(|byte| parameter_byte(*byte)).collect()
}
