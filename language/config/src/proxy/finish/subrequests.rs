//! The backends to which rules send requests of their own: `auth-request`, `mirror`.

use weir_syntax::{Diagnostic, Diagnostics, Layout};

use super::super::ProxyParser;
use super::super::resolve::ProxyPositions;
use super::noun;
use crate::draft::SubrequestTarget;
use weir_model::{Mode, ProxyIndex};

impl ProxyParser<'_> {
    /// Resolves the backends to which rules send requests of their own.
    pub(super) fn settle_subrequests(&self, names: &ProxyPositions, diagnostics: &mut Diagnostics) {
        let defaults = self.defaults.iter().map(|defaults| (None, &defaults.finished));
        let proxies = self.finished.iter().enumerate().map(|(index, proxy)| (Some(index), proxy));
        for (own, finished) in defaults.chain(proxies) {
            for target in &finished.pending.subrequests {
                match self.subrequest_backend(own, target, names) {
                    Ok(backend) => target.backend.resolve((backend.0, 0)),
                    Err((message, nearest)) => {
                        let noun = own.map_or("defaults", |_| noun(&finished.proxy));
                        let subject = format!("{noun} '{}'", finished.proxy.name);
                        let alert = Diagnostic::alert(target.span, format!("{subject}: {message}"));
                        diagnostics.push(alert.layout(Layout::Bare).suggestion(nearest));
                    }
                }
            }
        }
    }

    /// The backend of a rule of the proxy `own`, or the error message and a similar name.
    fn subrequest_backend(
        &self,
        own: Option<usize>,
        target: &SubrequestTarget,
        names: &ProxyPositions,
    ) -> Result<ProxyIndex, (String, Option<String>)> {
        let action = &target.action;
        let name = target.backend.name.as_deref().unwrap_or_default();
        let Some(backend) = names.backend(name) else {
            let message = match names.frontend(name) {
                Some(_) => format!("'{action}' expects a backend, but '{name}' is a frontend."),
                None => format!("unable to find the backend '{name}' of '{action}'."),
            };
            return Err((message, names.nearest_backend(name)));
        };
        if own == Some(backend.get()) {
            return Err((format!("'{action}' of '{name}' sends requests to its own section."), None));
        }
        let proxy = &self.finished[backend.get()].proxy;
        if proxy.mode() != Mode::Http {
            let message =
                format!("'{action}' expects a backend in mode http, which '{name}' ({}) is not.", proxy.at);
            return Err((message, None));
        }
        Ok(backend)
    }
}
