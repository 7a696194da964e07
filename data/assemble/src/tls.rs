//! Builds TLS listeners: reads files, maps OpenSSL's names, and prepares handshakes.
//!
//! Parameters that rustls does not support are not an error if others remain. One warning per line lists the ignored ones. A
//! required parameter without support is an error with a suggestion.

mod authorities;
mod defaults;
mod layers;
mod lists;
mod live;
mod renewals;
mod replaced;
mod servers;
mod settings;
mod stores;
#[cfg(test)]
mod tests;
mod unused;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use weir_config::CrtListLine;
use weir_model::{Bind, BindTls, CertificateFiles, CertificateSource, Location, TlsOptions, TlsVerify};
use weir_net::CertificateClock;
use weir_syntax::{FileKind, SharedFiles};
use weir_tls::clock::TimeProvider;
use weir_tls::forge::Forger;
use weir_tls::passphrase::Passphrases;
use weir_tls::resumption::{SessionCache, SessionScope, tickets};
use weir_tls::rustls::KeyLog;
use weir_tls::rustls::server::ProducesTickets;
use weir_tls::ticket_keys::TicketKeys;
use weir_tls::{
    Base, Certificate, CertificateLoader, CertificatePaths, CertificateScope, ListenerCertificate,
    ListenerCertificates, ListenerSettings, LiveListener, LiveUpstream, describe,
};

use super::BuildError;
use super::subjects;
use authorities::AuthorityFiles;
use defaults::{OrderedDefaults, issuer_chains};
use layers::{Layers, LineSide};
pub use live::LiveTls;
use live::{LiveBind, LiveServer};
use renewals::Renewals;
pub use renewals::{RenewalFault, RenewalSubject};

/// Builds TLS settings from a configuration, and rebuilds them after changes at run time.
pub struct TlsBuilder {
    defaults: OrderedDefaults,
    loader: CertificateLoader,
    /// Certificate names by configured path. A file has one, a folder or a bundle several.
    paths: HashMap<String, Vec<Box<str>>>,
    /// Certificates by name, shared by configuration lines. `None` for those that are still empty.
    certificates: BTreeMap<Box<str>, Option<Arc<Certificate>>>,
    /// The files of certificates that are named individually, by certificate name.
    files: HashMap<Box<str>, CertificatePaths>,
    authorities: AuthorityFiles,
    /// Certificate lists by name. A list file is one, and so is a folder.
    lists: BTreeMap<Box<str>, Vec<ListedLine>>,
    sessions: Option<Arc<SessionCache>>,
    /// The certificates with OCSP responses to update.
    renewals: Renewals,
    /// TLS settings of the internal HTTP client.
    client: Option<Arc<LiveUpstream>>,
    /// The settings of the sockets of scripts.
    sockets: Option<Arc<LiveUpstream>>,
    /// `tune.ssl.cachesize`.
    cache_size: usize,
    /// `tune.ssl.ssl-ctx-cache-size`.
    generated: usize,
    /// `tune.ssl.lifetime`, in seconds.
    lifetime: u64,
    /// The limit of early data from a client in bytes, where allowed.
    early_data: u32,
    /// `tune.ssl.capture-buffer-size`: the number of bytes kept of each ClientHello.
    captured: usize,
    /// `tune.ssl.keylog`: the log of session keys.
    key_log: Option<Arc<dyn KeyLog>>,
    /// Ticket keys by file, shared by configuration lines, the most recently named file first.
    ticket_keys: VecDeque<Arc<TicketKeys>>,
    /// The location of `ssl-dh-param-file`.
    dh_parameters: Option<Location>,
    /// Whether any listener or server uses TLS.
    speaks: bool,
    /// The built listeners, for runtime changes.
    binds: Vec<LiveBind>,
    servers: Vec<LiveServer>,
    /// Whether the builder must not read further files, only those already read. True at run time.
    keeps_to_known_files: bool,
    /// The `healthcheck` sections with a rule that connects by TLS, even if the server does not use it.
    secure_sections: Vec<Arc<str>>,
    pub warnings: Vec<Warning>,
    /// Faults that prevent the start.
    pub errors: Vec<BuildError>,
}

/// The first source (file, folder or list) of a line, to report that its sources contain no certificate.
fn empty_source(tls: &BindTls) -> Option<&str> {
    tls.certificates.first().map(|source| match source {
        CertificateSource::Path(path) | CertificateSource::List(path) => &**path,
    })
}

/// A warning or notice about the built objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub text: String,
    /// Whether `zero-warning` treats it as a notice, so that it does not prevent the start.
    pub is_borne: bool,
}

impl Warning {
    /// A warning that prevents the start with `zero-warning`.
    fn new(text: String) -> Warning {
        Warning { text, is_borne: false }
    }
}

/// An unparsed line of a certificate list. Its options depend on the `bind` line.
#[derive(Clone, Debug)]
struct ListedLine {
    number: usize,
    text: Box<str>,
    /// Whether the text is only a certificate path, as for the files of a folder.
    is_path: bool,
}

impl TlsBuilder {
    /// A builder for a configuration with this global section.
    pub fn new(
        global: &weir_model::Global,
        health_checks: &[weir_model::HealthCheck],
        files: SharedFiles,
    ) -> Self {
        let defaults = OrderedDefaults::of(global);
        let (mut remarks, mut errors) = (Vec::new(), Vec::new());
        TlsBuilder {
            authorities: AuthorityFiles::new(files.clone()),
            loader: CertificateLoader {
                issuers: Arc::new(issuer_chains(global, &files, &mut remarks, &mut errors)),
                files,
                extra: defaults.extra_files,
                replaces_extension: defaults.replaces_extension,
                skips_self_issued: global.tls.skips_self_issued,
                passphrases: Arc::new(defaults::passphrases(global)),
            },
            defaults,
            paths: HashMap::new(),
            certificates: BTreeMap::new(),
            files: HashMap::new(),
            lists: BTreeMap::new(),
            sessions: None,
            renewals: Renewals::of(global),
            client: None,
            sockets: None,
            cache_size: global.tls.sessions as usize,
            generated: global.tls.generated_certificates as usize,
            lifetime: global.tls.session_lifetime.as_secs(),
            early_data: early_data(global),
            captured: (global.tls.captured_hello as usize).min(MOST_CAPTURED),
            key_log: global.tls.logs_keys.then(weir_tls::keep_keys),
            ticket_keys: VecDeque::new(),
            dh_parameters: global.tls.dh_parameters.clone(),
            speaks: false,
            binds: Vec::new(),
            servers: Vec::new(),
            keeps_to_known_files: false,
            secure_sections: health_checks
                .iter()
                .filter(|section| section.scripts.connects_over_tls())
                .map(|section| Arc::clone(&section.name))
                .collect(),
            warnings: remarks.into_iter().map(Warning::new).collect(),
            errors,
        }
    }

    /// Builds all TLS objects of a configuration to find its faults.
    pub fn check(config: &weir_model::Config, files: SharedFiles) -> Self {
        let mut builder = TlsBuilder::new(&config.global, &config.health_checks, files);
        builder.load_stores(&config.certificate_stores);
        for proxy in config.proxies.iter().filter(|proxy| !proxy.settings.disabled) {
            builder.declare_certificates(proxy);
            for bind in &proxy.binds {
                let _ = builder.listener(&proxy.name, bind, proxy.mode() == weir_model::Mode::Http);
            }
            let _ = builder.servers(proxy);
            for server in proxy.servers.iter().filter(|_| proxy.mode() == weir_model::Mode::Log) {
                let _ = builder.log_server(
                    subjects::server(&proxy.name, &server.name),
                    &server.settings,
                    &server.at,
                );
            }
        }
        builder.other_listeners(&config.global.sockets, &config.log_forwards);
        builder.prepare_client(&config.global);
        for section in config.peers.iter().filter(|section| section.is_shared()) {
            let bind = section.bind.iter();
            bind.for_each(|bind| _ = builder.listener(&section.name, bind, false));
            for peer in &section.peers {
                let _ = builder.log_server(subjects::peer(section, peer), &peer.settings, &peer.at);
            }
        }
        for section in &config.resolvers {
            for server in &section.name_servers {
                let _ =
                    builder.log_server(subjects::name_server(section, server), &server.settings, &server.at);
            }
        }
        for section in &config.rings {
            for server in section.servers.iter().filter(|server| !server.settings.disabled) {
                let _ = builder.log_server(
                    subjects::server(&section.name, &server.name),
                    &server.settings,
                    &section.at,
                );
            }
        }
        builder
    }

    /// Whether any listener or server built so far uses TLS.
    pub fn speaks(&self) -> bool {
        self.speaks
    }

    /// Records that TLS is used. The first call warns about options of the global section without effect.
    fn note_speaker(&mut self) {
        weir_tls::set_capture(self.captured);
        if std::mem::replace(&mut self.speaks, true) {
            return;
        }
        if let Some(at) = self.dh_parameters.take() {
            let text = "'ssl-dh-param-file' has no effect: DHE is never negotiated, ECDHE is.";
            self.warnings.push(Warning::new(format!("[{at}] : {text}")));
        }
    }

    fn refuse(&mut self, at: &Location, message: impl Into<String>) {
        self.errors.push(BuildError { at: at.clone(), message: message.into() });
    }

    /// Builds the listener of a `bind` line with `ssl`. `None` without `ssl`, or after a recorded fault. With `http`, ALPN offers
    /// the HTTP versions unless the line has `alpn`.
    pub fn listener(&mut self, frontend: &str, bind: &Bind, http: bool) -> Option<Arc<LiveListener>> {
        self.authorities.forget_used();
        self.defaults.enter(&bind.at, &mut self.loader);
        let bind = self.with_protocols(bind, http);
        let live = Arc::new(LiveListener::new(self.make_listener(&bind)?));
        let files = self.authorities.used();
        self.binds.push(LiveBind { frontend: frontend.into(), bind, live: Arc::clone(&live), files });
        Some(live)
    }

    /// The line with a default `alpn` list of HTTP versions. Certificate lists may override it.
    fn with_protocols(&self, bind: &Bind, http: bool) -> Bind {
        let mut bind = bind.clone();
        if let Some(tls) = bind.options.tls.as_deref_mut()
            && http
            && !self.defaults.listener.name_protocols()
        {
            tls.options.protocols.get_or_insert_with(|| ["h2", "http/1.1"].map(Into::into).into());
        }
        bind
    }

    /// Builds the listeners that do not carry traffic: those of the runtime API and of `log-forward` sections.
    pub fn other_listeners(&mut self, sockets: &[Bind], log_forwards: &[weir_model::LogForward]) {
        for bind in sockets {
            let _ = self.listener(OPERATORS, bind, false);
        }
        for section in log_forwards {
            for bind in &section.binds {
                let _ = self.listener(&section.name, bind, false);
            }
        }
    }

    fn make_listener(&mut self, bind: &Bind) -> Option<ListenerCertificates> {
        self.defaults.enter(&bind.at, &mut self.loader);
        let tls = bind.options.tls.as_deref()?;
        if !tls.enabled {
            self.check_unused(bind, tls);
            return None;
        }
        self.note_speaker();
        let before = self.errors.len();
        let strict = tls.strict_names.unwrap_or(self.defaults.strict_names);
        let mut entries = Vec::new();
        for path in &tls.default_certificates {
            self.add_path(&mut entries, bind, tls, path, true);
        }
        for source in &tls.certificates {
            match source {
                CertificateSource::Path(path) => self.add_path(&mut entries, bind, tls, path, false),
                CertificateSource::List(path) => self.add_list(&mut entries, bind, tls, path),
            }
        }
        if self.errors.len() > before {
            return None;
        }
        if entries.is_empty() && !strict {
            let message = match empty_source(tls) {
                None => format!("no SSL certificate specified for bind '{}' (use 'crt').", bind.spelling),
                Some(source) => format!(
                    "'bind {}' : there is no certificate in '{source}' yet. Add one, or 'strict-sni' to the line: weir then starts, \
                     and refuses handshakes until a reload finds one.",
                    bind.spelling
                ),
            };
            self.refuse(&bind.at, message);
            return None;
        }
        let forger = self.forger(bind, tls)?;
        if entries.is_empty() && forger.is_none() {
            let text = format!(
                "'bind {}' has 'strict-sni' and no certificate: each handshake fails until one is added. 'crt' names some.",
                bind.spelling
            );
            self.warn(&bind.at, &text);
        }
        Some(ListenerCertificates::new(strict, entries).with_forger(forger))
    }

    fn refuse_line(&mut self, bind: &Bind, path: &str, line: &ListedLine, fault: &str) {
        let text = format!("'bind {}' : 'crt-list' : {path}, line {}: {fault}.", bind.spelling, line.number);
        self.refuse(&bind.at, text);
    }

    /// The generator for unknown names, with `generate-certificates`. The outer `None` means a recorded fault.
    fn forger(&mut self, bind: &Bind, tls: &BindTls) -> Option<Option<Arc<Forger>>> {
        if !tls.generates {
            return Some(None);
        }
        let made = match &tls.signer {
            None => Err("'generate-certificates' needs an authority that signs: add 'ca-sign-file <file>'."
                .to_owned()),
            Some(file) => {
                let file = based(file, self.defaults.global.authority_base.as_deref());
                let files = CertificatePaths { certificate: file.clone(), ..Default::default() };
                let size = self.generated;
                let loaded = match &tls.signer_passphrase {
                    None => self.loader.load_files(&file, &files),
                    Some(passphrase) => {
                        let passphrases = Arc::new(Passphrases::of(passphrase));
                        let loader = CertificateLoader { passphrases, ..self.loader.clone() };
                        let loaded = loader.load_files(&file, &files);
                        loaded.map_err(|fault| format!("'ca-sign-pass' : {fault}"))
                    }
                };
                loaded.and_then(|authority| {
                    Forger::new(authority, size).map_err(|why| format!("'ca-sign-file' : '{file}' : {why}"))
                })
            }
        };
        match made {
            Ok(forger) => Some(Some(Arc::new(forger))),
            Err(fault) => {
                self.refuse(&bind.at, format!("'bind {}' : {fault}", bind.spelling));
                None
            }
        }
    }

    fn add_path(
        &mut self,
        entries: &mut Vec<ListenerCertificate>,
        bind: &Bind,
        tls: &BindTls,
        path: &str,
        is_default: bool,
    ) {
        // A folder becomes a list, so that the runtime API can change it like one.
        let folder = based(path, self.defaults.global.certificate_base.as_deref());
        if self.lists.contains_key(&*folder) {
            return self.add_list(entries, bind, tls, &folder);
        }
        let subject = format!("'bind {}'", bind.spelling);
        let Some(certificates) = self.load(path, &subject, &bind.at) else { return };
        if self.loader.files.kind(&folder).is_ok_and(|kind| kind == FileKind::Folder) {
            let lines = certificates.iter().enumerate();
            let lines = lines.map(|(at, found)| ListedLine {
                number: at + 1,
                text: found.path.clone(),
                is_path: true,
            });
            self.lists.insert(folder.as_str().into(), lines.collect());
            return self.add_list(entries, bind, tls, &folder);
        }
        let layers = Layers {
            subject: &subject,
            at: &bind.at,
            line: &tls.options,
            listed: None,
            side: LineSide::Listener,
        };
        let Some(base) = self.server_settings(&layers) else { return };
        let base = Arc::new(base);
        for certificate in &certificates {
            self.note_renewal(certificate, None, &subject, &bind.at);
        }
        let part = CertificateScope { is_default, ..CertificateScope::default() };
        entries.extend(
            certificates.iter().map(|certificate| ListenerCertificate::new(certificate, &base, part.clone())),
        );
    }

    fn add_list(&mut self, entries: &mut Vec<ListenerCertificate>, bind: &Bind, tls: &BindTls, path: &str) {
        if let Err(fault) = self.read_list(path) {
            return self.refuse(&bind.at, format!("'bind {}' : 'crt-list' : {fault}", bind.spelling));
        }
        let lines = self.lists.get(path).cloned().unwrap_or_default();
        let mut same: Option<Arc<Base>> = None;
        for line in lines {
            match self.listed(bind, &tls.options, path, &line, &mut same) {
                Ok(found) => entries.extend(found),
                Err(Some(fault)) => return self.refuse_line(bind, path, &line, &fault),
                // The fault is already recorded.
                Err(None) => {}
            }
        }
    }

    /// Reads a list unless it was read before.
    fn read_list(&mut self, path: &str) -> Result<(), String> {
        if self.lists.contains_key(path) {
            return Ok(());
        }
        let text = self.loader.files.read_text(path).map_err(|error| weir_tls::cannot_open(path, &error))?;
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let lines = lines.map(|(number, text)| ListedLine { number, text: text.into(), is_path: false });
        self.lists.insert(path.into(), lines.collect());
        Ok(())
    }

    /// Builds the entries that a list's line adds to a `bind` line. Lines without options share those in `same`.
    fn listed(
        &mut self,
        bind: &Bind,
        inherited: &TlsOptions,
        list: &str,
        line: &ListedLine,
        same: &mut Option<Arc<Base>>,
    ) -> Result<Vec<ListenerCertificate>, Option<String>> {
        let parsed = self.parse_line(list, line, inherited)?;
        let subject = format!("'bind {}'", bind.spelling);
        // A folder does not have lines. Faults of its certificates are reported at the line that names the folder.
        let at = match line.is_path {
            true => bind.at.clone(),
            false => Location::new(list.into(), line.number as u32),
        };
        let certificates = self.load_listed(&parsed, &subject, &at).ok_or(None::<String>)?;
        for certificate in &certificates {
            self.note_renewal(certificate, parsed.files.ocsp_update, &subject, &at);
        }
        let base = match same {
            Some(base) if parsed.written.is_empty() => Arc::clone(base),
            _ => {
                let listed = Some((&at, &parsed.options)).filter(|_| !parsed.written.is_empty());
                let layers = Layers {
                    subject: &subject,
                    at: &bind.at,
                    line: inherited,
                    listed,
                    side: LineSide::Listener,
                };
                Arc::new(self.server_settings(&layers).ok_or(None::<String>)?)
            }
        };
        if parsed.written.is_empty() {
            *same = Some(Arc::clone(&base));
        }
        let part = CertificateScope {
            filters: parsed.filters,
            is_default: false,
            line: Some((list.into(), line.number)),
        };
        Ok(certificates
            .iter()
            .map(|certificate| ListenerCertificate::new(certificate, &base, part.clone()))
            .collect())
    }

    fn parse_line(
        &mut self,
        list: &str,
        line: &ListedLine,
        inherited: &TlsOptions,
    ) -> Result<CrtListLine, String> {
        if line.is_path {
            let (number, path, options) = (line.number, line.text.clone(), inherited.clone());
            return Ok(CrtListLine {
                number,
                path,
                options,
                files: CertificateFiles::default(),
                written: Box::default(),
                filters: Vec::new(),
            });
        }
        let warnings = &mut self.warnings;
        let warn = |text: String| warnings.push(Warning::new(format!("[{list}:{}] : {text}", line.number)));
        weir_config::parse_crt_list_line(line.number, &line.text, inherited, warn)
    }

    fn load(&mut self, path: &str, subject: &str, at: &Location) -> Option<Vec<Arc<Certificate>>> {
        // A certificate created by the runtime API keeps the name that it was given there.
        if let Some(Some(made)) = self.certificates.get(path) {
            return Some(vec![Arc::clone(made)]);
        }
        let path = based(path, self.defaults.global.certificate_base.as_deref());
        if let Some(Some(stored)) = self.certificates.get(&*path).filter(|_| self.files.contains_key(&*path))
        {
            return Some(vec![Arc::clone(stored)]);
        }
        if path.starts_with('@') {
            self.refuse(at, format!("{subject} : no 'crt-store' section has a certificate '{path}'."));
            return None;
        }
        if let Some(names) = self.paths.get(&path) {
            let known = names.iter().filter_map(|name| self.certificates.get(name)?.clone());
            return Some(known.collect());
        }
        if self.keeps_to_known_files {
            self.refuse(at, format!("unable to stat SSL certificate '{path}'."));
            return None;
        }
        match self.loader.load(&path) {
            Ok(loaded) => {
                loaded.iter().for_each(|certificate| self.note_remarks(certificate, subject, at));
                self.paths.insert(path, loaded.iter().map(|certificate| certificate.path.clone()).collect());
                for certificate in &loaded {
                    let known = self.certificates.entry(certificate.path.clone());
                    known.or_insert_with(|| Some(Arc::clone(certificate)));
                }
                Some(loaded)
            }
            Err(faults) => {
                faults.into_iter().for_each(|fault| self.refuse(at, format!("{subject} : {fault}")));
                None
            }
        }
    }

    /// Warns about faults of a certificate that do not prevent its use.
    fn note_remarks(&mut self, certificate: &Certificate, subject: &str, at: &Location) {
        let now = CertificateClock.current_time();
        let seconds = now.and_then(|now| i64::try_from(now.as_secs()).ok());
        if let Some(why) = seconds.and_then(|now| describe::out_of_validity(certificate.own(), now)) {
            let text = format!(
                "[{at}] : {subject} : the certificate '{}' {why}: clients refuse it.",
                certificate.path
            );
            // A restart with an expired certificate is better than none.
            self.record(Warning { text, is_borne: true });
        }
        let late = certificate.response().zip(now).and_then(|(response, now)| response.check(now).err());
        let late = late.map(|why| format!("the OCSP response of '{}' is not shown: {why}", certificate.path));
        for remark in certificate.remarks.iter().cloned().chain(late) {
            self.warn(at, &format!("{subject} : {remark}"));
        }
    }

    fn server_settings(&mut self, layers: &Layers<'_>) -> Option<Base> {
        let (subject, at) = (layers.subject, layers.here());
        let options = layers.options(&self.defaults);
        let mut settings = self.settings(&options, layers)?;
        settings.protocols = match &options.protocols {
            Some(protocols) => protocols.iter().map(|name| name.as_bytes().to_vec()).collect(),
            None => vec![b"http/1.1".to_vec()],
        };
        let sessions = self.sessions();
        if options.allow_early_data && options.ticket_keys.is_some() {
            let text = "'tls-ticket-keys' has no effect beside 'allow-0rtt': early data need tickets that are good once.";
            self.warn(at, &format!("{subject} : {text}"));
        }
        let tickets = match options.no_tickets {
            // Early data can be replayed. Only a session in the server-side cache is safe, because resumption removes it.
            _ if options.allow_early_data => None,
            Some(true) => None,
            _ => Some(self.tickets(&options, subject, at)?),
        };
        let settings = ListenerSettings {
            settings,
            client_order: options.client_order,
            tickets,
            sessions: Some(sessions.of_listener()),
            early_data: if options.allow_early_data { self.early_data } else { 0 },
        };
        match settings.build() {
            Ok(config) => Some(config),
            Err(error) => {
                self.refuse(at, format!("{subject} : these TLS settings cannot work together: {error}."));
                None
            }
        }
    }

    fn sessions(&mut self) -> Arc<SessionCache> {
        let made = || Arc::new(SessionCache::new(self.cache_size, self.lifetime, Arc::new(CertificateClock)));
        Arc::clone(self.sessions.get_or_insert_with(made))
    }

    /// The session tickets of a line. `None` after a recorded fault of the key file.
    fn tickets(
        &mut self,
        options: &TlsOptions,
        subject: &str,
        at: &Location,
    ) -> Option<Arc<dyn ProducesTickets>> {
        let keys = match options.ticket_keys.as_deref() {
            None => None,
            Some(file) => match self.keys_of_tickets(file) {
                Ok(keys) => Some(keys),
                Err(fault) => {
                    self.refuse(at, format!("{subject} : 'tls-ticket-keys' : {fault}"));
                    return None;
                }
            },
        };
        // A session with fewer requirements must not be resumed where more apply.
        let mode = match options.verify {
            None | Some(TlsVerify::None) => "",
            Some(TlsVerify::Optional) => "optional",
            Some(TlsVerify::Required) => "required",
        };
        let files = [&options.ca_file, &options.ca_verify_file, &options.crl_file];
        let [authorities, verified, revoked] = files.map(|file| file.as_deref().unwrap_or_default());
        let scope = if mode.is_empty() {
            SessionScope::of(&[])
        } else {
            SessionScope::of(&[mode, authorities, verified, revoked])
        };
        let lifetime = u32::try_from(self.lifetime).unwrap_or(u32::MAX);
        Some(tickets(keys, lifetime, Arc::new(CertificateClock), scope))
    }

    fn keys_of_tickets(&mut self, file: &str) -> Result<Arc<TicketKeys>, String> {
        if let Some(known) = self.ticket_keys.iter().find(|keys| keys.file() == file) {
            return Ok(Arc::clone(known));
        }
        let keys = Arc::new(TicketKeys::read(&self.loader.files, file)?);
        self.ticket_keys.push_front(Arc::clone(&keys));
        Ok(keys)
    }
}

/// A path, relative to `base` unless absolute.
fn based(path: &str, base: Option<&str>) -> String {
    match base {
        Some(base) if !Path::new(path).is_absolute() && !path.starts_with('@') => format!("{base}/{path}"),
        _ => path.to_owned(),
    }
}

/// The limit of early data in bytes. It is the limit of a message head and smaller than a buffer, so that excess bytes are
/// detected.
fn early_data(global: &weir_model::Global) -> u32 {
    let tuning = &global.tuning;
    tuning.buffer_size.saturating_sub(tuning.rewrite_room().max(LEAST_REWRITE))
}

/// The name of the runtime API's sockets in statistics and messages.
const OPERATORS: &str = "GLOBAL";
/// The limit of a ClientHello capture, in bytes. No list in a ClientHello is longer.
const MOST_CAPTURED: usize = 1 << 16;
/// The minimum of buffer space that early data leaves free, in bytes.
const LEAST_REWRITE: u32 = 256;
