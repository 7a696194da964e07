//! What a line says about handshakes: versions, ciphers, curves, signatures, and whom to trust.

use std::sync::Arc;

use weir_config::model::{IgnoredErrors, Location, TlsOptions, TlsVerify, TlsVersion};
use weir_net::Clock;
use weir_tls::rustls::{NamedGroup, SignatureScheme, SupportedCipherSuite};
use weir_tls::verify::{Ignored, NameCheck, Verifier};
use weir_tls::{Settings, VerifyMode, ciphers};

use super::{TlsBuilder, based};

impl TlsBuilder {
    /// The settings of a line; none when no parameter is left, which is recorded.
    pub(super) fn settings(
        &mut self,
        options: &TlsOptions,
        subject: &str,
        at: &Location,
    ) -> Option<Settings> {
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
        // A line with an old minimum version may expect that version to work.
        if let Some(lowest) = options.min_version.filter(|lowest| *lowest < TlsVersion::Tls12) {
            let allowed = TlsVersion::ALL.iter().filter(|version| {
                (lowest..TlsVersion::Tls12).contains(version) && !options.refused_versions.contains(version)
            });
            never.extend(allowed.map(|version| version.name().to_owned()));
        }
        settings.ciphers = self.ciphers(options, &settings, &mut never, subject, at)?;
        settings.key_log.clone_from(&self.key_log);
        if let Some(curves) = &options.curves {
            let selection = ciphers::select_groups(curves);
            if selection.chosen.is_empty() {
                let message = format!(
                    "{subject} : no curve is left of '{curves}': X25519, P-256, P-384, P-521 and X25519MLKEM768 are supported."
                );
                self.refuse(at, message);
                return None;
            }
            never.extend(selection.without_effect.iter().map(ToString::to_string));
            settings.groups = selection.chosen;
        }
        let own = options.signatures.as_deref();
        settings.signatures = self.schemes(own, &mut never, subject, at)?;
        settings.verifier = self.verifier(options, &mut never, subject, at)?;
        self.warn_of_never(&never, subject, at);
        Some(settings)
    }

    /// The ciphers of a line, for the versions that it speaks. Where nothing is left of a list, that is recorded as a fault.
    fn ciphers(
        &mut self,
        options: &TlsOptions,
        settings: &Settings,
        never: &mut Vec<String>,
        subject: &str,
        at: &Location,
    ) -> Option<Vec<SupportedCipherSuite>> {
        let suites = options.ciphersuites.as_deref().map(|list| (list, ciphers::select_suites(list)));
        let older = options.ciphers.as_deref().map(|list| (list, ciphers::select_ciphers(list)));
        let mut chosen = Vec::new();
        for (selection, is_wanted, all, advice) in [
            (suites, settings.tls13, ciphers::all_suites(), "'TLS_AES_128_GCM_SHA256', for example"),
            (older, settings.tls12, ciphers::all_ciphers(), SOME_CIPHERS),
        ] {
            let Some((list, selection)) = selection else {
                chosen.extend(all);
                continue;
            };
            if is_wanted && selection.chosen.is_empty() {
                self.refuse(at, format!("{subject} : no cipher is left of '{list}': write {advice}."));
                return None;
            }
            never.extend(selection.without_effect.iter().map(ToString::to_string));
            chosen.extend(selection.chosen);
        }
        Some(chosen)
    }

    pub(super) fn warn_of_never(&mut self, never: &[String], subject: &str, at: &Location) {
        if !never.is_empty() {
            self.warn(at, &format!("{subject} : never negotiated, not supported: {}.", never.join(" ")));
        }
    }

    /// Records a warning about a line, once: settings are made again while certificates change.
    pub(super) fn warn(&mut self, at: &Location, text: &str) {
        let warning = format!("[{at}] : {text}");
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The signature schemes of a list, the inner none for a line without one; the outer none when none is left, which is recorded.
    pub(super) fn schemes(
        &mut self,
        list: Option<&str>,
        never: &mut Vec<String>,
        subject: &str,
        at: &Location,
    ) -> Option<Option<Arc<[SignatureScheme]>>> {
        let Some(list) = list else { return Some(None) };
        let selection = ciphers::select_signatures(list);
        if selection.chosen.is_empty() {
            let message = format!(
                "{subject} : no signature algorithm is left of '{list}': RSA-PSS, RSA and ECDSA with SHA256, SHA384 or SHA512, and ed25519 are supported."
            );
            self.refuse(at, message);
            return None;
        }
        never.extend(selection.without_effect.iter().map(ToString::to_string));
        Some(Some(selection.chosen.into()))
    }

    /// Whether the files of authorities and revocations can be read, even if they are not used: a missing file is a mistake. Faults are
    /// recorded.
    pub(super) fn check_files(&mut self, options: &TlsOptions, subject: &str, at: &Location) -> bool {
        let base = self.defaults.authority_base.clone();
        let named = |file: &Option<Box<str>>| file.as_deref().map(|file| based(file, base.as_deref()));
        let (files, lists) =
            ([&options.ca_file, &options.ca_verify_file].map(named), named(&options.crl_file));
        for file in files.iter().flatten().chain(&lists) {
            let is_known = self.authorities.knows(file);
            let is_list = lists.as_ref() == Some(file);
            let checked = match (is_known, self.keeps_to_known_files, is_list) {
                (true, _, _) => Ok(()),
                (false, true, _) => Err(format!("unable to load {file}.")),
                (false, false, true) => self.authorities.read_lists(file),
                (false, false, false) => self.authorities.read_certificates(file),
            };
            if let Err(fault) = checked {
                self.refuse(at, format!("{subject} : {fault}"));
                return false;
            }
        }
        true
    }

    /// The verifier of the peer's certificate; the outer none for a fault, which is recorded.
    fn verifier(
        &mut self,
        options: &TlsOptions,
        never: &mut Vec<String>,
        subject: &str,
        at: &Location,
    ) -> Option<Option<Arc<Verifier>>> {
        let mode = match options.verify {
            None | Some(TlsVerify::None) => {
                self.schemes(options.client_signatures.as_deref(), never, subject, at)?;
                return self.check_files(options, subject, at).then_some(None);
            }
            Some(TlsVerify::Optional) => VerifyMode::Optional,
            Some(TlsVerify::Required) => VerifyMode::Required,
        };
        if !self.check_files(options, subject, at) {
            return None;
        }
        let Some(file) = options.ca_file.as_deref().or(options.ca_verify_file.as_deref()) else {
            self.refuse(
                at,
                format!("{subject} : 'verify' needs to know whom to trust: add 'ca-file <file>'."),
            );
            return None;
        };
        // The default of `client-sigalgs` is `sigalgs`.
        let list = options.client_signatures.as_deref().or(options.signatures.as_deref());
        let schemes = self.schemes(list, never, subject, at)?;
        let base = self.defaults.authority_base.as_deref();
        let files = [Some(file), options.ca_verify_file.as_deref()];
        let files: Vec<String> = files.into_iter().flatten().map(|file| based(file, base)).collect();
        let lists: Vec<String> = options.crl_file.iter().map(|file| based(file, base)).collect();
        match self.authorities.make(&files, &lists) {
            Ok(authorities) => Some(Some(Arc::new(Verifier {
                mode,
                authorities: Some(Arc::new(authorities)),
                ignored: ignored(&options.crt_ignored),
                ignored_of_authorities: ignored(&options.ca_ignored),
                silent: options.no_ca_names,
                name: NameCheck::Any,
                algorithms: weir_tls::verify::algorithms(),
                schemes,
                groups: groups_of(options),
            }))),
            Err(fault) => {
                self.refuse(at, format!("{subject} : {fault}"));
                None
            }
        }
    }
}

/// The curves of peers' keys in TLS 1.2: where a line has `curves`, those.
pub(super) fn groups_of(options: &TlsOptions) -> Option<Arc<[NamedGroup]>> {
    let chosen = ciphers::select_groups(options.curves.as_deref()?).chosen;
    Some(chosen.iter().map(|group| group.name()).collect())
}

pub(super) fn ignored(errors: &IgnoredErrors) -> Ignored {
    Ignored { all: errors.all, codes: errors.codes.iter().copied().collect() }
}

const SOME_CIPHERS: &str = "some with ECDHE and GCM or CHACHA20, as 'ECDHE+AESGCM:ECDHE+CHACHA20'";
