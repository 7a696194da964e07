//! TLS for connections to servers: traffic, health checks, and log servers.

use std::sync::Arc;

use weir_expr::context::DetachedContext;
use weir_expr::{EvaluationPoint, SampleType, Value};
use weir_model::{Location, ServerTls, TlsOptions, TlsVerify};
use weir_net::LinkTls;
use weir_tls::settings::{SessionReuse, client_config};
use weir_tls::verify::{Authorities, IgnoredFaults, NameCheck, Verifier};
use weir_tls::{LiveUpstream, UpstreamTls, VerifyMode};

use super::layers::{Layers, LineSide, Never};
use super::live::LiveServer;
use super::settings::{SignatureList, groups_of};
use super::{TlsBuilder, based};

impl TlsBuilder {
    /// The TLS settings of a proxy's servers, in their order. Empty if none uses TLS.
    pub fn servers(&mut self, proxy: &weir_model::Proxy) -> Vec<Option<Arc<LiveUpstream>>> {
        let upstreams: Vec<_> = proxy.servers.iter().map(|server| self.server(proxy, server)).collect();
        if upstreams.iter().all(Option::is_none) { Vec::new() } else { upstreams }
    }

    /// The TLS settings of a server. `None` if neither traffic nor checks use TLS, or after a recorded fault.
    pub(super) fn server(
        &mut self,
        proxy: &weir_model::Proxy,
        server: &weir_model::Server,
    ) -> Option<Arc<LiveUpstream>> {
        let carries_traffic = server.settings.tls.as_ref().is_some_and(|tls| tls.enabled);
        let may_carry_traffic = server.settings.tls.as_ref().is_some_and(|tls| tls.may_be_enabled);
        let subject = format!("server '{}/{}'", proxy.name, server.name);
        if !carries_traffic && !may_carry_traffic && !self.checks_need_tls(proxy, server) {
            if let Some(tls) = &server.settings.tls {
                let _ = self.check_files(&tls.options, &subject, &server.at);
            }
            return None;
        }
        let tls = server.settings.tls.clone().unwrap_or_default();
        self.note_speaker();
        self.authorities.forget_used();
        let before = self.errors.len();
        let upstream = self.upstream(&subject, &tls, &server.at);
        if upstream.is_none() && !carries_traffic && !self.checks_need_tls(proxy, server) {
            // With `no-ssl` the settings are unused, so their faults are dropped.
            self.errors.truncate(before);
        }
        let live = Arc::new(LiveUpstream::new(upstream?, carries_traffic));
        let files = self.authorities.used();
        let at = server.at.clone();
        self.servers.push(LiveServer { subject, tls, at, live: Arc::clone(&live), files });
        Some(live)
    }

    /// The TLS settings of a log server. `None` without TLS, or after a recorded fault.
    pub fn log_server(
        &mut self,
        subject: String,
        settings: &weir_model::ServerSettings,
        at: &Location,
    ) -> Option<LinkTls> {
        let tls = Arc::clone(settings.tls.as_ref().filter(|tls| tls.enabled)?);
        self.note_speaker();
        let server_name = match &tls.server_name {
            None => None,
            Some(expression) if expression.points().contains(EvaluationPoint::ConfigParser) => {
                let mut context = DetachedContext::default();
                let value = expression.evaluate_as(&mut context, SampleType::Str);
                value.into_owned().sample().and_then(|sample| match sample.value {
                    Value::Str(name) => Some(name.into_owned()),
                    _ => None,
                })
            }
            Some(_) => {
                let message =
                    format!("{subject} : 'sni' : messages have no client to ask: write 'str(<name>)'.");
                self.refuse(at, message);
                return None;
            }
        };
        self.authorities.forget_used();
        let live = Arc::new(LiveUpstream::new(self.upstream(&subject, &tls, at)?, true));
        let files = self.authorities.used();
        self.servers.push(LiveServer { subject, tls, at: at.clone(), live: Arc::clone(&live), files });
        Some(LinkTls { upstream: live, server_name })
    }

    /// Whether any health check of a server uses TLS, by the server's line or by a rule.
    fn checks_need_tls(&self, proxy: &weir_model::Proxy, server: &weir_model::Server) -> bool {
        let said = &server.settings.check;
        let by_rule = match &said.section {
            Some(section) => self.secure_sections.contains(section),
            None => proxy.settings.checks.connects_over_tls(),
        };
        said.enabled && (by_rule || said.tls.enabled == Some(true))
    }

    pub(super) fn upstream(&mut self, subject: &str, tls: &ServerTls, at: &Location) -> Option<UpstreamTls> {
        self.defaults.enter(at, &mut self.loader);
        let layers = Layers { subject, at, line: &tls.options, listed: None, side: LineSide::Server };
        let options = layers.options(&self.defaults);
        let certificate = match &tls.certificate {
            Some(path) => Some(self.load(path, subject, at)?.into_iter().next()?),
            None => None,
        };
        let mut settings = self.settings(
            &TlsOptions {
                verify: None,
                ca_file: None,
                ca_verify_file: None,
                crl_file: None,
                ..options.clone()
            },
            &layers,
        )?;
        // `sigalgs` limits the server's signatures. `client-sigalgs` limits the signatures of our key.
        let schemes = settings.signatures.take();
        let mut never = Never::default();
        settings.signatures = match options.client_signatures.as_deref() {
            Some(list) => self.schemes(Some(list), SignatureList::Clients, &mut never, &layers)?,
            None => schemes.clone(),
        };
        self.warn_of_never(never);
        let protocols = options.protocols.iter().flatten();
        settings.protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        let authorities = self.authorities_of_server(&options, subject, at)?;
        let reuse = match (tls.no_reuse, options.no_tickets) {
            (true, _) => SessionReuse::Never,
            (false, Some(true)) => SessionReuse::SessionIds,
            (false, _) => SessionReuse::Tickets,
        };
        let config = |name: NameCheck, sends_name: bool| {
            let verifier = Verifier {
                mode: VerifyMode::Required,
                name: if authorities.is_some() { name } else { NameCheck::Any },
                authorities: authorities.clone(),
                ignored: IgnoredFaults::default(),
                ignored_of_authorities: IgnoredFaults::default(),
                silent: true,
                algorithms: weir_tls::verify::algorithms(),
                schemes: schemes.clone(),
                groups: groups_of(&options),
            };
            client_config(&settings, Arc::new(verifier), certificate.as_deref(), sends_name, reuse)
        };
        // The server's certificate must match the SNI. Without an SNI, it must match `verifyhost`.
        let named = config(NameCheck::Sni, true);
        let nameless = config(tls.verify_host.clone().map(NameCheck::This).unwrap_or_default(), false);
        match (named, nameless) {
            (Ok(named), Ok(nameless)) => {
                Some(UpstreamTls { named, nameless, early_data: options.allow_early_data })
            }
            (Err(error), _) | (_, Err(error)) => {
                let message = format!("{subject} : these TLS settings cannot work together: {error}.");
                self.refuse(at, message);
                None
            }
        }
    }

    /// The trusted authorities for a server. The inner `None` accepts every certificate. The outer one means a recorded fault.
    fn authorities_of_server(
        &mut self,
        options: &TlsOptions,
        subject: &str,
        at: &Location,
    ) -> Option<Option<Arc<Authorities>>> {
        let verify = options.verify.or(self.defaults.global.server_verify).unwrap_or(TlsVerify::Required);
        if verify == TlsVerify::None {
            return self.check_files(options, subject, at).then_some(None);
        }
        let Some(file) = options.ca_file.as_deref() else {
            let message = format!(
                "{subject} : no trust anchor: add 'ca-file <file>' (or 'ca-file @system-ca'), or 'verify none' if the network is trusted."
            );
            self.refuse(at, message);
            return None;
        };
        let base = self.defaults.global.authority_base.as_deref();
        let lists: Vec<String> = options.crl_file.iter().map(|file| based(file, base)).collect();
        if self.keeps_to_known_files
            && let Some((word, file)) = self.authorities.unknown(&based(file, base), &lists)
        {
            self.refuse(at, format!("'{word}' : unable to load {file}."));
            return None;
        }
        let files = [based(file, base)];
        match self.authorities.make(&files, &lists) {
            Ok(authorities) => {
                let remarks = self.authorities.remarks(&files, subject, at);
                remarks.into_iter().for_each(|remark| self.record(remark));
                Some(Some(Arc::new(authorities)))
            }
            Err(fault) => {
                self.refuse(at, format!("{subject} : {fault}"));
                None
            }
        }
    }
}
