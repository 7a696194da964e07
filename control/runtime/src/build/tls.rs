//! TLS of listeners: files read, words of OpenSSL looked up, everything ready for handshakes.
//!
//! What rustls does not have is not a fault as long as something is left to agree on: one warning for each line says what will
//! never be negotiated. What is demanded and does not exist is an error that says what to write instead.

mod authorities;
mod defaults;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use weir_config::model::{
    self, Bind, BindTls, CertificateSource, IgnoredErrors, Location, TlsOptions, TlsVerify, TlsVersion,
};
use weir_net::Clock;
use weir_tls::resumption::{SessionCache, tickets};
use weir_tls::rustls::ServerConfig;
use weir_tls::rustls::pki_types::ServerName;
use weir_tls::settings::client_config;
use weir_tls::verify::{Authorities, Ignored, NameCheck, Verifier};
use weir_tls::{Certificate, Listener, Loader, ServerSettings, Settings, Upstream, VerifyMode, ciphers};

use super::BuildError;
use authorities::authorities;
use defaults::{Defaults, kept_number};

/// Makes what TLS needs from a configuration.
pub struct TlsBuilder<'g> {
    global: &'g model::Global,
    defaults: Defaults,
    loader: Loader,
    /// Certificates by path: lines share them.
    loaded: HashMap<String, Vec<Arc<Certificate>>>,
    sessions: Option<Arc<SessionCache>>,
    /// Somebody speaks TLS.
    speaks: bool,
    /// What is worth a warning.
    pub warnings: Vec<String>,
    /// What keeps the process from starting.
    pub errors: Vec<BuildError>,
}

impl<'g> TlsBuilder<'g> {
    /// A builder for a configuration with this global section.
    pub fn new(global: &'g model::Global) -> Self {
        let defaults = Defaults::of(global);
        TlsBuilder {
            global,
            loader: Loader { extra: defaults.extra_files, replaces_extension: defaults.replaces_extension },
            defaults,
            loaded: HashMap::new(),
            sessions: None,
            speaks: false,
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Everything of a configuration, only to find what is wrong with it.
    pub fn check(config: &'g model::Config) -> Self {
        let mut builder = TlsBuilder::new(&config.global);
        for proxy in config.proxies.iter().filter(|proxy| !proxy.settings.disabled) {
            for bind in &proxy.binds {
                let _ = builder.listener(bind);
            }
            let _ = builder.servers(proxy);
        }
        builder
    }

    /// What the global section says of TLS and has no effect yet is refused once somebody speaks it.
    fn refuse_unused_words(&mut self) {
        let global = self.global;
        if std::mem::replace(&mut self.speaks, true) {
            return;
        }
        for kept in global.kept.iter().filter(|kept| NOT_YET.contains(&kept.keyword)) {
            self.refuse(&kept.at, format!("'{}' is not implemented yet.", kept.keyword));
        }
    }

    fn refuse(&mut self, at: &Location, message: impl Into<String>) {
        self.errors.push(BuildError { at: at.clone(), message: message.into() });
    }

    /// What a `bind` line with `ssl` needs; none without, or when something is wrong, which is noted.
    pub fn listener(&mut self, bind: &Bind) -> Option<Arc<Listener>> {
        let tls = bind.options.tls.as_deref().filter(|tls| tls.enabled)?;
        self.refuse_unused_words();
        let before = self.errors.len();
        let strict = tls.strict_names.unwrap_or(self.defaults.strict_names);
        let mut listener = Listener::new(strict);
        for path in &tls.default_certificates {
            self.add_path(&mut listener, bind, tls, path, true);
        }
        for source in &tls.certificates {
            match source {
                CertificateSource::Path(path) => self.add_path(&mut listener, bind, tls, path, false),
                CertificateSource::List(path) => self.add_list(&mut listener, bind, tls, path),
            }
        }
        if self.errors.len() > before {
            return None;
        }
        listener.complete();
        if listener.is_empty() && !strict {
            let message = format!("no SSL certificate specified for bind '{}' (use 'crt').", bind.spelling);
            self.refuse(&bind.at, message);
            return None;
        }
        Some(Arc::new(listener))
    }

    fn add_path(
        &mut self,
        listener: &mut Listener,
        bind: &Bind,
        tls: &BindTls,
        path: &str,
        is_default: bool,
    ) {
        let subject = format!("'bind {}'", bind.spelling);
        let Some(certificates) = self.load(path, &subject, &bind.at) else { return };
        let Some(settings) = self.server_settings(&tls.options, &subject, &bind.at) else { return };
        for certificate in certificates {
            listener.add(&certificate, &settings, &[], is_default);
        }
    }

    fn add_list(&mut self, listener: &mut Listener, bind: &Bind, tls: &BindTls, path: &str) {
        let subject = format!("'bind {}'", bind.spelling);
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("{subject} : 'crt-list' : {}", cannot_open(path, &error));
                return self.refuse(&bind.at, message);
            }
        };
        let warnings = &mut self.warnings;
        let warn = |line: usize, text: String| warnings.push(format!("[{path}:{line}] : {text}"));
        let lines = match weir_config::parse_crt_list(&text, &tls.options, warn) {
            Ok(lines) => lines,
            Err((number, fault)) => {
                return self
                    .refuse(&bind.at, format!("{subject} : 'crt-list' : {path}, line {number}: {fault}."));
            }
        };
        for line in lines {
            let at = Location::new(path.into(), line.number as u32);
            let Some(certificates) = self.load(&line.path, &subject, &at) else { continue };
            let Some(settings) = self.server_settings(&line.options, &subject, &at) else { continue };
            for certificate in certificates {
                listener.add(&certificate, &settings, &line.filters, false);
            }
        }
    }

    /// What connections to the servers of a proxy need; empty where none speaks TLS.
    pub fn servers(&mut self, proxy: &model::Proxy) -> Vec<Option<Upstream>> {
        let speaks = |server: &model::Server| server.settings.tls.as_ref().is_some_and(|tls| tls.enabled);
        if !proxy.servers.iter().any(speaks) {
            return Vec::new();
        }
        proxy
            .servers
            .iter()
            .map(|server| speaks(server).then(|| self.upstream(proxy, server)).flatten())
            .collect()
    }

    fn upstream(&mut self, proxy: &model::Proxy, server: &model::Server) -> Option<Upstream> {
        let tls = server.settings.tls.as_deref()?;
        self.refuse_unused_words();
        let subject = format!("server '{}/{}'", proxy.name, server.name);
        if proxy.mode() == model::Mode::Log {
            self.refuse(&server.at, format!("{subject} : 'ssl' of a log server is not implemented yet."));
            return None;
        }
        let options = self.defaults.server.under(&tls.options);
        let certificate = match &tls.certificate {
            Some(path) => Some(self.load(path, &subject, &server.at)?.into_iter().next()?),
            None => None,
        };
        let mut settings =
            self.settings(&TlsOptions { verify: None, ..options.clone() }, &subject, &server.at)?;
        let protocols = options.protocols.iter().flatten();
        settings.protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        let name = match tls.verify_host.as_deref().map(|name| ServerName::try_from(name.to_owned())) {
            None => None,
            Some(Ok(name)) => Some(NameCheck::This(name)),
            Some(Err(_)) => {
                self.refuse(&server.at, format!("{subject} : 'verifyhost' needs the name of a host."));
                return None;
            }
        };
        let authorities = self.authorities_of_server(&options, &subject, &server.at)?;
        let config = |name: NameCheck, sends_name: bool| {
            let verifier = Verifier {
                mode: VerifyMode::Required,
                name: if authorities.is_some() { name } else { NameCheck::Any },
                authorities: authorities.clone(),
                ignored: Ignored::default(),
                ignored_of_authorities: Ignored::default(),
                silent: true,
                algorithms: weir_tls::verify::algorithms(),
            };
            client_config(&settings, Arc::new(verifier), certificate.as_deref(), sends_name, !tls.no_reuse)
        };
        let named = config(name.clone().unwrap_or(NameCheck::Asked), true);
        let nameless = config(name.unwrap_or_default(), false);
        match (named, nameless) {
            (Ok(named), Ok(nameless)) => Some(Upstream { named, nameless }),
            (Err(error), _) | (_, Err(error)) => {
                let message = format!("{subject} : these TLS settings cannot work together: {error}.");
                self.refuse(&server.at, message);
                None
            }
        }
    }

    /// Whom to trust about a server, none for everybody; the outer none when that cannot be, which is noted.
    fn authorities_of_server(
        &mut self,
        options: &TlsOptions,
        subject: &str,
        at: &Location,
    ) -> Option<Option<Arc<Authorities>>> {
        let verify = options.verify.unwrap_or(self.defaults.server_verify);
        if verify == TlsVerify::None {
            return Some(None);
        }
        let Some(file) = options.ca_file.as_deref() else {
            let message = format!(
                "{subject} : whom to trust is not said: add 'ca-file <file>' (or 'ca-file @system-ca'), or 'verify none' where the network is trusted."
            );
            self.refuse(at, message);
            return None;
        };
        let base = self.defaults.authority_base.as_deref();
        let lists: Vec<String> = options.crl_file.iter().map(|file| based(file, base)).collect();
        match authorities(&[based(file, base)], &lists) {
            Ok(authorities) => Some(Some(Arc::new(authorities))),
            Err(fault) => {
                self.refuse(at, format!("{subject} : {fault}"));
                None
            }
        }
    }

    fn load(&mut self, path: &str, subject: &str, at: &Location) -> Option<Vec<Arc<Certificate>>> {
        let path = based(path, self.defaults.certificate_base.as_deref());
        if let Some(loaded) = self.loaded.get(&path) {
            return Some(loaded.clone());
        }
        match self.loader.load(&path) {
            Ok(loaded) => {
                self.loaded.insert(path, loaded.clone());
                Some(loaded)
            }
            Err(faults) => {
                faults.into_iter().for_each(|fault| self.refuse(at, format!("{subject} : {fault}")));
                None
            }
        }
    }

    fn server_settings(
        &mut self,
        options: &TlsOptions,
        subject: &str,
        at: &Location,
    ) -> Option<ServerConfig> {
        let options = self.defaults.listener.under(options);
        let mut settings = self.settings(&options, subject, at)?;
        settings.protocols = match &options.protocols {
            Some(protocols) => protocols.iter().map(|name| name.as_bytes().to_vec()).collect(),
            None => vec![b"http/1.1".to_vec()],
        };
        let sessions = self.sessions();
        let settings = ServerSettings {
            settings,
            client_order: options.client_order,
            tickets: if options.no_tickets == Some(true) { None } else { tickets() },
            sessions: Some(sessions.of_listener()),
            key_log: None,
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
        let size = kept_number(self.global, "tune.ssl.cachesize").unwrap_or(SESSIONS);
        Arc::clone(self.sessions.get_or_insert_with(|| Arc::new(SessionCache::new(size))))
    }

    /// What may be agreed on; none when nothing is left, which is noted.
    fn settings(&mut self, options: &TlsOptions, subject: &str, at: &Location) -> Option<Settings> {
        let mut settings = Settings::new(Arc::new(Clock));
        let mut never: Vec<String> = Vec::new();
        let speaks = |version| {
            options.min_version.is_none_or(|lowest| lowest <= version)
                && options.max_version.is_none_or(|highest| version <= highest)
                && !options.refused_versions.contains(&version)
        };
        settings.tls12 = speaks(TlsVersion::Tls12);
        settings.tls13 = speaks(TlsVersion::Tls13);
        if !settings.tls12 && !settings.tls13 {
            let message = format!(
                "{subject} : no TLS version is left: write 'ssl-min-ver TLSv1.2' for TLSv1.2 and TLSv1.3, which are all that are supported."
            );
            self.refuse(at, message);
            return None;
        }
        // Who names an old version as the lowest one may expect to see it.
        if let Some(lowest) = options.min_version.filter(|lowest| *lowest < TlsVersion::Tls12) {
            let allowed = TlsVersion::ALL.iter().filter(|version| {
                (lowest..TlsVersion::Tls12).contains(version) && !options.refused_versions.contains(version)
            });
            never.extend(allowed.map(|version| version.name().to_owned()));
        }
        let mut chosen = Vec::new();
        match options.ciphersuites.as_deref() {
            Some(list) => {
                let selection = ciphers::select_suites(list);
                settings.tls13 &= !selection.chosen.is_empty();
                never.extend(selection.without_effect.iter().map(ToString::to_string));
                chosen.extend(selection.chosen);
            }
            None => chosen.extend(ciphers::all_suites()),
        }
        match options.ciphers.as_deref() {
            Some(list) => {
                let selection = ciphers::select_ciphers(list);
                settings.tls12 &= !selection.chosen.is_empty();
                never.extend(selection.without_effect.iter().map(ToString::to_string));
                chosen.extend(selection.chosen);
            }
            None => chosen.extend(ciphers::all_ciphers()),
        }
        if !settings.tls12 && !settings.tls13 {
            let message = format!(
                "{subject} : no cipher is left of '{}': write some with ECDHE and GCM or CHACHA20, as 'ECDHE+AESGCM:ECDHE+CHACHA20'.",
                options.ciphers.as_deref().or(options.ciphersuites.as_deref()).unwrap_or_default()
            );
            self.refuse(at, message);
            return None;
        }
        settings.ciphers = chosen;
        if let Some(curves) = &options.curves {
            let selection = ciphers::select_groups(curves);
            if selection.chosen.is_empty() {
                let message = format!(
                    "{subject} : no curve is left of '{curves}': X25519, P-256, P-384 and X25519MLKEM768 are supported."
                );
                self.refuse(at, message);
                return None;
            }
            never.extend(selection.without_effect.iter().map(ToString::to_string));
            settings.groups = selection.chosen;
        }
        settings.verifier = self.verifier(options, subject, at)?;
        if !never.is_empty() {
            let warning =
                format!("[{at}] : {subject} : never negotiated, not supported: {}.", never.join(" "));
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        Some(settings)
    }

    /// Who checks the peer's certificate; the outer none when that cannot be, which is noted.
    fn verifier(
        &mut self,
        options: &TlsOptions,
        subject: &str,
        at: &Location,
    ) -> Option<Option<Arc<Verifier>>> {
        let mode = match options.verify {
            None | Some(TlsVerify::None) => return Some(None),
            Some(TlsVerify::Optional) => VerifyMode::Optional,
            Some(TlsVerify::Required) => VerifyMode::Required,
        };
        let Some(file) = options.ca_file.as_deref().or(options.ca_verify_file.as_deref()) else {
            self.refuse(
                at,
                format!("{subject} : 'verify' needs to know whom to trust: add 'ca-file <file>'."),
            );
            return None;
        };
        let base = self.defaults.authority_base.as_deref();
        let files = [Some(file), options.ca_verify_file.as_deref()];
        let files: Vec<String> = files.into_iter().flatten().map(|file| based(file, base)).collect();
        let lists: Vec<String> = options.crl_file.iter().map(|file| based(file, base)).collect();
        match authorities(&files, &lists) {
            Ok(authorities) => Some(Some(Arc::new(Verifier {
                mode,
                authorities: Some(Arc::new(authorities)),
                ignored: ignored(&options.crt_ignored),
                ignored_of_authorities: ignored(&options.ca_ignored),
                silent: options.no_ca_names,
                name: NameCheck::Any,
                algorithms: weir_tls::verify::algorithms(),
            }))),
            Err(fault) => {
                self.refuse(at, format!("{subject} : {fault}"));
                None
            }
        }
    }
}

fn ignored(errors: &IgnoredErrors) -> Ignored {
    Ignored { all: errors.all, codes: errors.codes.iter().copied().collect() }
}

/// A path, below `base` unless it is absolute.
fn based(path: &str, base: Option<&str>) -> String {
    match base {
        Some(base) if !Path::new(path).is_absolute() && !path.starts_with('@') => format!("{base}/{path}"),
        _ => path.to_owned(),
    }
}

fn cannot_open(path: &str, error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("unable to read '{path}': {text}.")
}

/// How many bytes a record that is sent carries at most (`tune.ssl.maxrecord`, `tune.ssl.hard-maxrecord`); none for as many as fit.
pub(crate) fn largest_record(global: &model::Global) -> Option<usize> {
    let words = ["tune.ssl.maxrecord", "tune.ssl.hard-maxrecord"];
    words.iter().filter_map(|word| kept_number(global, word)).filter(|bytes| *bytes > 0).min()
}

/// Words of the global section that would change what is agreed on, or with how many, and do not yet.
const NOT_YET: [&str; 7] = [
    "maxsslconn",
    "maxsslrate",
    "ssl-default-bind-client-sigalgs",
    "ssl-default-bind-sigalgs",
    "ssl-default-server-client-sigalgs",
    "ssl-default-server-sigalgs",
    "tune.ssl.lifetime",
];

/// How many sessions are remembered unless `tune.ssl.cachesize` says otherwise (manual).
const SESSIONS: usize = 20_000;
