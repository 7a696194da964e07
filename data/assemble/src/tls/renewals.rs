//! Whose OCSP responses are renewed while the process runs (manual, "ocsp-update"), and what that takes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use weir_model::{Location, ServerTls, TlsOptions, TlsVerify};
use weir_net::Clock;
use weir_tls::clock::TimeProvider;
use weir_tls::ocsp::{CertId, Response};
use weir_tls::rustls::pki_types::CertificateDer;
use weir_tls::{Certificate, LiveUpstream};

use super::live::{LiveServer, LiveTls};
use super::{TlsBuilder, Warning};

/// Which certificates have their responses renewed.
pub(super) struct Renewals {
    /// `ocsp-update.mode`.
    of_all: bool,
    /// `ocsp-update.disable`.
    disabled: bool,
    /// By what certificates are called.
    known: BTreeMap<Box<str>, Renewal>,
}

/// What lines say of one certificate.
#[derive(Clone, Copy)]
struct Renewal {
    wanted: bool,
    /// A store says it: who uses it from there need not.
    by_store: bool,
}

impl Renewals {
    pub fn of(global: &weir_model::Global) -> Self {
        let said = &global.ocsp_updates;
        Renewals { of_all: said.of_all, disabled: said.disabled, known: BTreeMap::new() }
    }

    /// Whether weir renews the OCSP response of a certificate.
    pub fn wants(&self, name: &str) -> bool {
        !self.disabled && self.known.get(name).map_or(self.of_all, |said| said.wanted)
    }
}

/// A certificate whose status can be asked for.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What the runtime API calls its response.
    pub key: String,
    /// The first certificate that shows it.
    pub path: Box<str>,
    /// What OCSP calls the certificate.
    pub id: CertId,
    /// Who issued it.
    pub issuer: CertificateDer<'static>,
    /// Where to ask; none where the certificate does not say.
    pub responder: Option<String>,
    /// Until when the response is good that there is, in seconds since 1970.
    pub good_until: Option<u64>,
    /// It is renewed without being asked for.
    pub is_renewed: bool,
}

impl Subject {
    fn of(certificate: &Certificate, is_renewed: bool) -> Option<Subject> {
        let id = certificate.id()?.clone();
        Some(Subject {
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
    /// What a `load` line says of a certificate.
    pub(super) fn note_stored(&mut self, certificate: &Certificate, said: Option<bool>, at: &Location) {
        let Some(wanted) = said else { return };
        self.renewals.known.insert(certificate.path.clone(), Renewal { wanted, by_store: true });
        if wanted {
            self.warn_of_no_renewal(certificate, "'load'", at);
        }
    }

    /// What a line that uses a certificate says of it, or what it inherits. Lines that differ are a fault.
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

    /// The certificate is gone: whoever has its name next says anew what becomes of it.
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

    /// Makes what requests of the process itself need for TLS, where somebody may send some. Without a word about it, what cannot be
    /// loaded leaves them without TLS.
    pub fn prepare_client(&mut self, global: &weir_model::Global) {
        let said = &global.client;
        let is_wanted = said.tls_at.is_some() || self.renewals.known.values().any(|renewal| renewal.wanted);
        if !is_wanted {
            return;
        }
        let tls = ServerTls {
            enabled: true,
            options: TlsOptions {
                ca_file: Some(said.ca_file.clone().unwrap_or_else(|| "@system-ca".into())),
                verify: Some(said.verify.unwrap_or(TlsVerify::Required)),
                ..TlsOptions::default()
            },
            ..ServerTls::default()
        };
        let at = said.tls_at.clone().unwrap_or_else(|| Location::new("httpclient".into(), 0));
        let (errors, warnings) = (self.errors.len(), self.warnings.len());
        self.authorities.forget_used();
        let Some(upstream) = self.upstream("'httpclient'", &tls, &at) else {
            if said.tls_at.is_none() {
                self.errors.truncate(errors);
                self.warnings.truncate(warnings);
            }
            return;
        };
        let live = Arc::new(LiveUpstream::new(upstream, true));
        self.client = Some(Arc::clone(&live));
        let files = self.authorities.used();
        self.servers.push(LiveServer {
            subject: "httpclient".to_owned(),
            tls: Arc::new(tls),
            at,
            live,
            files,
        });
    }
}

impl LiveTls {
    /// What requests of the process itself need; none where they do without TLS.
    pub fn client(&self) -> Option<Arc<LiveUpstream>> {
        self.state().builder.client.clone()
    }

    /// The certificates whose responses are renewed, each response once.
    pub fn renewed(&self) -> Vec<Subject> {
        let state = self.state();
        let Renewals { disabled, known, .. } = &state.builder.renewals;
        let mut keys = HashSet::new();
        let wanted = |path: &str| !disabled && known.get(path).is_some_and(|renewal| renewal.wanted);
        let held = state.builder.certificates.iter().filter(|(path, _)| wanted(path));
        let subjects = held.filter_map(|(_, held)| Subject::of(held.as_ref()?, true));
        subjects.filter(|subject| subject.responder.is_some() && keys.insert(subject.key.clone())).collect()
    }

    /// The certificate of this name, if it can be asked about.
    ///
    /// # Errors
    /// Why not, without newline.
    pub fn subject(&self, path: &str) -> Result<Subject, &'static str> {
        let state = self.state();
        let held = state.builder.certificates.get(path).and_then(Option::as_ref);
        let held = held.ok_or("it is not known")?;
        let renewal = state.builder.renewals.known.get(path);
        let is_renewed = renewal.is_some_and(|renewal| renewal.wanted) && !state.builder.renewals.disabled;
        let subject = Subject::of(held, is_renewed).ok_or("who issued it is not known")?;
        if subject.responder.is_none() { Err("it names no responder of HTTP") } else { Ok(subject) }
    }

    /// Has a response that came from the network shown by all certificates that it is about.
    ///
    /// # Errors
    /// Why it is not believed, or why it cannot be shown.
    pub fn renew(&self, subject: &Subject, der: &[u8]) -> Result<Response, RenewalFault> {
        let response = Response::parse(der).map_err(RenewalFault::NotBelieved)?;
        let now = Clock.current_time().ok_or(RenewalFault::NotBelieved("the clock cannot be read."))?;
        if *response.id() != subject.id {
            return Err(RenewalFault::NotBelieved("OCSP single response: it is about another certificate."));
        }
        response.verify(&subject.issuer, now).map_err(RenewalFault::NotBelieved)?;
        response.check(now).map_err(RenewalFault::NotBelieved)?;
        // Whoever renews knows of it.
        self.state().use_response(&response).map_err(RenewalFault::NotShown)?;
        Ok(response)
    }
}

/// Why a response is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewalFault {
    /// It is damaged, not of the authority, or not of now.
    NotBelieved(&'static str),
    /// The certificate cannot take it.
    NotShown(String),
}
