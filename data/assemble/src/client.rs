//! The internal HTTP client, from its settings in the global section.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_client::{AnswerLimits, Client, ClientSettings, HostResolution};
use weir_model::{Config, HttpClient, OcspUpdates, Resolvers as Section};
use weir_resolvers::Resolvers;
use weir_tls::LiveUpstream;

use super::milliseconds;
use super::names::socket_address;
use super::{BuildError, Resolver};

/// The verified settings of the HTTP client, before the instance is built.
pub struct ClientPlan {
    said: HttpClient,
    /// When and how OCSP responses are updated.
    pub updates: OcspUpdates,
    /// `ocsp-update.httpproxy`.
    pub proxy: Option<SocketAddr>,
    /// The `resolvers` section to use, if host names are resolved.
    section: Option<Box<str>>,
    buffer_size: usize,
}

impl ClientPlan {
    /// The settings of a configuration.
    ///
    /// # Errors
    /// Host names that do not resolve, or contradictory delays.
    pub fn new(config: &Config, resolver: &dyn Resolver) -> Result<Self, Vec<BuildError>> {
        let mut errors = Vec::new();
        let (said, updates) = (config.global.client.clone(), config.global.ocsp_updates.clone());
        if let Some(at) = &updates.at
            && updates.least_delay >= updates.most_delay
        {
            let message = format!(
                "'ocsp-update.mindelay' ({}) must be lower than 'ocsp-update.maxdelay' ({}).",
                updates.least_delay, updates.most_delay
            );
            errors.push(BuildError { at: at.clone(), message });
        }
        let proxy = updates.proxy.as_ref().and_then(|(host, port, at)| {
            socket_address(host, *port, resolver)
                .map_err(|unknown| {
                    let message = format!("'ocsp-update.httpproxy' : invalid address: '{}'", unknown.0);
                    errors.push(BuildError { at: at.clone(), message });
                })
                .ok()
        });
        let is_known = |name: &str| config.resolvers.iter().any(|section| *section.name == *name);
        let section = match &said.resolvers {
            _ if said.resolves_nothing => None,
            Some((name, at)) if !is_known(name) => {
                let message =
                    format!("'httpclient.resolvers.id' : there is no 'resolvers' section '{name}'.");
                errors.push(BuildError { at: at.clone(), message });
                None
            }
            Some((name, _)) => Some(name.clone()),
            None => is_known(Section::DEFAULT).then(|| Section::DEFAULT.into()),
        };
        let buffer_size = config.global.tuning.buffer_size as usize;
        let plan = ClientPlan { said, updates, proxy, section, buffer_size };
        if errors.is_empty() { Ok(plan) } else { Err(errors) }
    }

    /// The bounds of responses to requests of the process itself and of operators.
    pub fn limits(&self) -> AnswerLimits {
        AnswerLimits::within(self.buffer_size, ANSWER_MS)
    }

    /// The client for these settings.
    pub fn client(&self, tls: Option<Arc<LiveUpstream>>, resolvers: Arc<Resolvers>) -> Client {
        let prefers_ipv4 = self.said.prefers_ipv4;
        Client::new(ClientSettings {
            retries: self.said.retries,
            connect_ms: milliseconds(self.said.connect_timeout),
            tls,
            naming: self.section.clone().map(|section| HostResolution { resolvers, section, prefers_ipv4 }),
        })
    }
}

/// Checks the client's settings in a configuration.
pub(super) fn verify(config: &Config, resolver: &dyn Resolver, errors: &mut Vec<BuildError>) {
    errors.extend(ClientPlan::new(config, resolver).err().into_iter().flatten());
}

/// The response timeout in milliseconds. It is not configurable.
const ANSWER_MS: u64 = 10_000;
