//! Automatic updates of OCSP responses (manual, "ocsp-update"): the certificates and the HTTP client.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use weir_model::{Location, ServerTls, TlsOptions, TlsVerify};
use weir_net::CertificateClock;
use weir_tls::clock::TimeProvider;
use weir_tls::ocsp::{CertId, OcspResponse};
use weir_tls::rustls::pki_types::CertificateDer;
use weir_tls::{Certificate, LiveUpstream};

use super::live::{LiveServer, LiveTls};
use super::{TlsBuilder, Warning};

/// The certificates with OCSP responses to update.
pub(super) struct Renewals {
    /// `ocsp-update.mode`.
    of_all: bool,
    /// `ocsp-update.disable`.
    disabled: bool,
    /// Settings by certificate name.
    known: BTreeMap<Box<str>, Renewal>,
}

/// The setting of one certificate.
#[derive(Clone, Copy)]
struct Renewal {
    wanted: bool,
    /// Whether a `crt-store` set it, so that lines with the certificate need not repeat it.
    by_store: bool,
}

impl Renewals {
    pub(super) fn of(global: &weir_model::Global) -> Self {
        let said = &global.ocsp_updates;
        Renewals { of_all: said.of_all, disabled: said.disabled, known: BTreeMap::new() }
    }

    /// Whether the OCSP response of a certificate is updated automatically.
    pub(super) fn wants(&self, name: &str) -> bool {
        !self.disabled && self.known.get(name).map_or(self.of_all, |said| said.wanted)
    }
}

/// A certificate that OCSP requests can be sent about.
#[derive(Clone, Debug)]
pub struct RenewalSubject {
    /// The key of its response in the runtime API.
    pub key: String,
    /// The path of the first certificate that staples the response.
    pub path: Box<str>,
    /// The OCSP identifier of the certificate.
    pub id: CertId,
    pub issuer: CertificateDer<'static>,
    /// The URI of the OCSP responder, if the certificate has one.
    pub responder: Option<String>,
    /// The expiry of the current response, in seconds since 1970.
    pub good_until: Option<u64>,
    /// The response is updated automatically.
    pub is_renewed: bool,
}

impl RenewalSubject {
    fn of(certificate: &Certificate, is_renewed: bool) -> Option<RenewalSubject> {
        let id = certificate.id()?.clone();
        Some(RenewalSubject {
            key: id.key(),
            path: certificate.path.clone(),
            id,
            issuer: certificate.issuer()?.clone(),
            responder: certificate.responder().map(str::to_owned),
            good_until: certificate.response().map(|response| response.good_until()),
            is_renewed,
        })
    }
}

impl TlsBuilder {
    /// Records the `ocsp-update` option of a `load` line.
    pub(super) fn note_stored(&mut self, certificate: &Certificate, said: Option<bool>, at: &Location) {
        let Some(wanted) = said else { return };
        self.renewals.known.insert(certificate.path.clone(), Renewal { wanted, by_store: true });
        if wanted {
            self.warn_of_no_renewal(certificate, "'load'", at);
        }
    }

    /// Records the `ocsp-update` option of a line that uses a certificate. Conflicting options are a fault.
    pub(super) fn note_renewal(
        &mut self,
        certificate: &Certificate,
        said: Option<bool>,
        subject: &str,
        at: &Location,
    ) {
        let wanted = said.unwrap_or(self.renewals.of_all);
        match self.renewals.known.get(&certificate.path) {
            Some(known) if said.is_none() && known.by_store => return,
            Some(known) if known.wanted != wanted => {
                let (here, there) = if wanted { ("on", "off") } else { ("off", "on") };
                let message = format!(
                    "{subject} : 'ocsp-update' of '{}' is '{here}' here, and '{there}' where it is used before.",
                    certificate.path
                );
                return self.refuse(at, message);
            }
            Some(_) => return,
            None => {}
        }
        self.renewals.known.insert(certificate.path.clone(), Renewal { wanted, by_store: false });
        if said == Some(true) {
            self.warn_of_no_renewal(certificate, subject, at);
        }
    }

    /// Forgets a deleted certificate. A later certificate with the same name sets the option again.
    pub(super) fn forget_renewal(&mut self, name: &str) {
        self.renewals.known.remove(name);
    }

    fn warn_of_no_renewal(&mut self, certificate: &Certificate, subject: &str, at: &Location) {
        let why = match (certificate.issuer(), certificate.responder()) {
            (None, _) => {
                "who issued it is not known: add that certificate to the file, or name it by 'issuer'"
            }
            (_, None) => "it names no responder of HTTP",
            _ => return,
        };
        let path = &certificate.path;
        let text = format!("[{at}] : {subject} : 'ocsp-update on' has no effect for '{path}': {why}.");
        self.warnings.push(Warning::new(text));
    }

    /// Builds the TLS settings of the internal HTTP client and of the sockets of scripts, if they may be used. If the default
    /// authorities cannot be loaded, the client works without TLS. With explicit TLS options, that is a fault.
    pub fn prepare_client(&mut self, global: &weir_model::Global) {
        let said = &global.client;
        let has_scripts = !global.scripts.files.is_empty();
        let is_wanted = has_scripts
            || said.tls_at.is_some()
            || self.renewals.known.values().any(|renewal| renewal.wanted);
        if !is_wanted {
            return;
        }
        let options = TlsOptions {
            ca_file: Some(said.ca_file.clone().unwrap_or_else(|| "@system-ca".into())),
            verify: Some(said.verify.unwrap_or(TlsVerify::Required)),
            ..TlsOptions::default()
        };
        let (errors, warnings) = (self.errors.len(), self.warnings.len());
        self.client = own_upstream(self, "httpclient", options, said.tls_at.as_ref());
        if self.client.is_none() && said.tls_at.is_none() {
            self.errors.truncate(errors);
            self.warnings.truncate(warnings);
        }
        if has_scripts {
            let options = TlsOptions { verify: Some(TlsVerify::None), ..TlsOptions::default() };
            self.sockets = own_upstream(self, "core.tcp", options, None);
        }
    }
}

/// The TLS settings of connections of the process itself.
fn own_upstream(
    builder: &mut TlsBuilder,
    subject: &str,
    options: TlsOptions,
    at: Option<&Location>,
) -> Option<Arc<LiveUpstream>> {
    let tls = ServerTls { enabled: true, options, ..ServerTls::default() };
    let at = at.cloned().unwrap_or_else(|| Location::new(subject.into(), 0));
    builder.authorities.forget_used();
    let upstream = builder.upstream(&format!("'{subject}'"), &tls, &at)?;
    let live = Arc::new(LiveUpstream::new(upstream, true));
    let (tls, files) = (Arc::new(tls), builder.authorities.used());
    let (subject, shared) = (subject.to_owned(), Arc::clone(&live));
    builder.servers.push(LiveServer { subject, tls, at, live: shared, files });
    Some(live)
}

impl LiveTls {
    /// The TLS settings of the internal HTTP client. `None` if it cannot use TLS.
    pub fn client(&self) -> Option<Arc<LiveUpstream>> {
        self.state().builder.client.clone()
    }

    /// The TLS settings of the sockets of scripts, which do not verify certificates. `None` without scripts.
    pub fn sockets(&self) -> Option<Arc<LiveUpstream>> {
        self.state().builder.sockets.clone()
    }

    /// The certificates with OCSP responses to update, one per response.
    pub fn renewed(&self) -> Vec<RenewalSubject> {
        let state = self.state();
        let Renewals { disabled, known, .. } = &state.builder.renewals;
        let mut keys = HashSet::new();
        let wanted = |path: &str| !disabled && known.get(path).is_some_and(|renewal| renewal.wanted);
        let held = state.builder.certificates.iter().filter(|(path, _)| wanted(path));
        let subjects = held.filter_map(|(_, held)| RenewalSubject::of(held.as_ref()?, true));
        subjects.filter(|subject| subject.responder.is_some() && keys.insert(subject.key.clone())).collect()
    }

    /// The certificate with this path, if OCSP requests can be sent about it.
    ///
    /// # Errors
    /// The reason against it, without newline.
    pub fn subject(&self, path: &str) -> Result<RenewalSubject, &'static str> {
        let state = self.state();
        let held = state.builder.certificates.get(path).and_then(Option::as_ref);
        let held = held.ok_or("it is not known")?;
        let renewal = state.builder.renewals.known.get(path);
        let is_renewed = renewal.is_some_and(|renewal| renewal.wanted) && !state.builder.renewals.disabled;
        let subject = RenewalSubject::of(held, is_renewed).ok_or("who issued it is not known")?;
        if subject.responder.is_none() { Err("it names no responder of HTTP") } else { Ok(subject) }
    }

    /// Verifies a response from the network and staples it to all certificates that it is about.
    ///
    /// # Errors
    /// The reason why the response is invalid or cannot be stapled.
    pub fn renew(&self, subject: &RenewalSubject, der: &[u8]) -> Result<OcspResponse, RenewalFault> {
        let response = OcspResponse::parse(der).map_err(RenewalFault::NotBelieved)?;
        let now =
            CertificateClock.current_time().ok_or(RenewalFault::NotBelieved("the clock cannot be read."))?;
        if *response.id() != subject.id {
            return Err(RenewalFault::NotBelieved("OCSP single response: it is about another certificate."));
        }
        response.verify(&subject.issuer, now).map_err(RenewalFault::NotBelieved)?;
        response.check(now).map_err(RenewalFault::NotBelieved)?;
        // The caller is the renewal task, so it is not woken.
        self.state().use_response(&response).map_err(RenewalFault::NotShown)?;
        Ok(response)
    }
}

/// Why a response is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewalFault {
    /// The response is damaged, not signed by the authority, or not valid now.
    NotBelieved(&'static str),
    /// The response cannot be stapled to the certificate.
    NotShown(String),
}
