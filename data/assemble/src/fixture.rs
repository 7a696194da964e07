//! Configurations and instances for tests.

use std::net::IpAddr;
use std::sync::Arc;

use weir_expr::TimeZone;
use weir_model::Config;
use weir_stream::instance::InstanceIdentity;
use weir_syntax::{Environment, NoFiles, SharedFiles, SourceMap, StaticFeatures};

use crate::{
    BuildError, BuiltInstance, LoadedConfiguration, NameServersPlan, PeersPlan, ProcessValues,
    RelayListeners, Resolver, SavedStates,
};

struct NoNames;

impl Resolver for NoNames {
    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// A parsed configuration.
pub(crate) fn config(text: &str) -> Config {
    let mut sources = SourceMap::new();
    sources.add("t.cfg", text.as_bytes().to_vec());
    let outcome = LoadedConfiguration::read(
        &sources,
        Arc::new(NoFiles),
        &StaticFeatures::default(),
        Environment::new(),
    )
    .outcome;
    let faults: Vec<_> = outcome.diagnostics.iter().map(|fault| fault.classic_message(&sources)).collect();
    assert!(faults.is_empty(), "{faults:?}");
    outcome.config
}

/// The instance of a configuration, or the errors of its start.
pub(crate) fn built(
    text: &str,
    resolver: &dyn Resolver,
    ignore_unknown: bool,
) -> Result<BuiltInstance, Vec<String>> {
    with_relays(text, resolver, ignore_unknown).map(|(built, _)| built)
}

/// The `log-forward` sections of a configuration, or the errors of its start.
pub(crate) fn relays(text: &str, resolver: &dyn Resolver) -> Result<RelayListeners, Vec<String>> {
    with_relays(text, resolver, false).map(|(_, relays)| relays)
}

fn with_relays(
    text: &str,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<(BuiltInstance, RelayListeners), Vec<String>> {
    let config = config(text);
    let events = crate::events(&config, &NoNames, false).map_err(said)?;
    let states = SavedStates::default();
    let options = ProcessValues {
        files: SharedFiles::new(NoFiles),
        variable_names: Arc::default(),
        workers: 1,
        connections: 1000,
        open_files: 2000,
        pipes: 0,
        frontend_connections: None,
        events: &events,
        resolver,
        states: &states,
        ignore_unknown_names,
        identity: InstanceIdentity {
            hostname: "vm".to_owned(),
            node: "vm".to_owned(),
            process_id: 7,
            started_us: 1_000_000,
            time_zone: TimeZone::fixed(0, "UTC"),
        },
        warn: &|_| {},
        notice: &|_| {},
    };
    let relays = crate::relays(&config, &options).map_err(said)?;
    let (mut peers, mut name_servers) = (PeersPlan::default(), NameServersPlan::default());
    let built = crate::instance(config, options, &mut peers, &mut name_servers).map_err(said)?;
    events.attach(&built.instance).map_err(said)?;
    let relays = relays.publish(&built.instance, &built.tls);
    Ok((built, relays))
}

fn said(errors: Vec<BuildError>) -> Vec<String> {
    errors.into_iter().map(|error| error.message).collect()
}
