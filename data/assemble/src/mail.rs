//! Builds mail servers from `mailers` sections.

use std::collections::HashMap;
use std::sync::Arc;

use weir_mail::{Mailer, Mailers};
use weir_model::Config;

use super::milliseconds;
use super::names::socket_address;
use super::{BuildError, Resolver};

/// The mailers of each section, by section name. Host names are resolved once, here.
pub fn mailers(
    config: &Config,
    resolver: &dyn Resolver,
    report: impl Fn(&str) + Clone + Send + Sync + 'static,
) -> Result<HashMap<Arc<str>, Mailers>, Vec<BuildError>> {
    let (mut sections, mut errors) = (HashMap::new(), Vec::new());
    for section in &config.mailers {
        let mut mailers = Vec::new();
        for mailer in &section.mailers {
            match socket_address(&mailer.host, mailer.port, resolver) {
                Ok(address) => {
                    let name = format!("{}/{}", section.name, mailer.name);
                    mailers.push(Mailer::new(&name, address, milliseconds(section.timeout), report.clone()));
                }
                Err(unknown) => {
                    let message = format!("'mailer {}' : invalid address: '{}'", mailer.name, unknown.0);
                    errors.push(BuildError { at: section.at.clone(), message });
                }
            }
        }
        sections.insert(Arc::clone(&section.name), Mailers::new(mailers));
    }
    if errors.is_empty() { Ok(sections) } else { Err(errors) }
}

/// Checks the host names of mail servers.
pub(super) fn verify(config: &Config, resolver: &dyn Resolver, errors: &mut Vec<BuildError>) {
    for section in &config.mailers {
        for mailer in &section.mailers {
            if let Err(unknown) = socket_address(&mailer.host, mailer.port, resolver) {
                let message = format!("'mailer {}' : invalid address: '{}'", mailer.name, unknown.0);
                errors.push(BuildError { at: section.at.clone(), message });
            }
        }
    }
}
