//! Handshake settings of a line: versions, ciphers, curves, signatures, and trusted authorities.

use std::sync::Arc;

use weir_model::{IgnoredErrors, Location, TlsOptions, TlsVerify, TlsVersion};
use weir_net::CertificateClock;
use weir_tls::rustls::{NamedGroup, SignatureScheme, SupportedCipherSuite};
use weir_tls::verify::{IgnoredFaults, NameCheck, Verifier};
use weir_tls::{TlsSettings, VerifyMode, ciphers};

use super::layers::{Layers, Never};
use super::{TlsBuilder, Warning, based};

impl TlsBuilder {
    /// The settings of a line with these options. `None` after a recorded fault: no parameter is left.
    pub(super) fn settings(&mut self, options: &TlsOptions, layers: &Layers<'_>) -> Option<TlsSettings> {
        let (subject, at) = (layers.subject, layers.here());
        let mut settings = TlsSettings::new(Arc::new(CertificateClock));
        let mut never = Never::default();
        (settings.tls12, settings.tls13) = self.versions(options, layers)?;
        settings.ciphers = self.ciphers(options, &settings, &mut never, layers)?;
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
            let place = layers.place(&self.defaults, "curves", |options| options.curves.clone());
            never.add(place, &selection.without_effect);
            settings.groups = selection.chosen;
        }
        settings.signatures =
            self.schemes(options.signatures.as_deref(), SignatureList::Own, &mut never, layers)?;
        settings.verifier = self.verifier(options, &mut never, layers)?;
        self.warn_of_never(never);
        Some(settings)
    }

    /// Whether a line enables TLS 1.2 and TLS 1.3. `None` after a recorded fault: it enables neither.
    fn versions(&mut self, options: &TlsOptions, layers: &Layers<'_>) -> Option<(bool, bool)> {
        let (lowest, highest) = (options.min_version, options.max_version);
        if let Some((at, subject)) = layers.ignored_versions(&self.defaults) {
            let text = format!(
                "{subject} : 'no-sslv3' and 'no-tlsv1x' are ignored beside 'ssl-min-ver', 'ssl-max-ver' and 'force-tlsv1x'. Use only 'ssl-min-ver' and 'ssl-max-ver'."
            );
            self.warn(&at, &text);
        }
        let speaks = |version| {
            lowest.is_none_or(|lowest| lowest <= version) && highest.is_none_or(|highest| version <= highest)
        };
        let spoken = (speaks(TlsVersion::Tls12), speaks(TlsVersion::Tls13));
        if spoken == (false, false) {
            let message = format!(
                "{} : no TLS version is left: write 'ssl-min-ver TLSv1.2' for TLSv1.2 and TLSv1.3, which are all that are supported.",
                layers.subject
            );
            self.refuse(layers.here(), message);
            return None;
        }
        // An operator who sets an old minimum version may expect it to work.
        if let Some(lowest) = lowest.filter(|lowest| *lowest < TlsVersion::Tls12) {
            let (at, subject) = layers.place(&self.defaults, "options", |options| options.min_version);
            let allowed =
                TlsVersion::ALL.iter().filter(|version| (lowest..TlsVersion::Tls12).contains(version));
            let names: Vec<&str> = allowed.map(|version| version.name()).collect();
            self.warn(&at, &format!("{subject} : never negotiated, not supported: {}.", names.join(" ")));
        }
        Some(spoken)
    }

    /// The ciphers of a line for its versions. A list without a supported cipher is recorded as a fault.
    fn ciphers(
        &mut self,
        options: &TlsOptions,
        settings: &TlsSettings,
        never: &mut Never,
        layers: &Layers<'_>,
    ) -> Option<Vec<SupportedCipherSuite>> {
        let suites = options.ciphersuites.as_deref().map(|list| (list, ciphers::select_suites(list)));
        let older = options.ciphers.as_deref().map(|list| (list, ciphers::select_ciphers(list)));
        let mut chosen = Vec::new();
        let of_line =
            |keyword, of: fn(&TlsOptions) -> Option<Box<str>>| layers.place(&self.defaults, keyword, of);
        let suites_place = of_line("ciphersuites", |options| options.ciphersuites.clone());
        let older_place = of_line("ciphers", |options| options.ciphers.clone());
        for (selection, place, is_wanted, all, advice) in [
            (suites, suites_place, settings.tls13, ciphers::all_suites(), SOME_SUITE),
            (older, older_place, settings.tls12, ciphers::all_ciphers(), SOME_CIPHERS),
        ] {
            let Some((list, selection)) = selection else {
                chosen.extend(all);
                continue;
            };
            if is_wanted && selection.chosen.is_empty() {
                let message = format!("{} : no cipher is left of '{list}': write {advice}.", layers.subject);
                self.refuse(layers.here(), message);
                return None;
            }
            never.add(place, &selection.without_effect);
            chosen.extend(selection.chosen);
        }
        Some(chosen)
    }

    /// Warns about unsupported names in lists that also have supported ones. Lists are shared between programs, so this does not
    /// prevent the start.
    pub(super) fn warn_of_never(&mut self, never: Never) {
        for ((at, subject), names) in never {
            let text = format!("[{at}] : {subject} : never negotiated, not supported: {}.", names.join(" "));
            self.record(Warning { text, is_borne: true });
        }
    }

    /// Records a warning about a line.
    pub(super) fn warn(&mut self, at: &Location, text: &str) {
        self.record(Warning { text: format!("[{at}] : {text}"), is_borne: false });
    }

    /// Records a warning once, because settings are rebuilt when certificates change.
    pub(super) fn record(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The signature schemes of a list. The inner `None` means no list. The outer one is a recorded fault: no scheme is left.
    pub(super) fn schemes(
        &mut self,
        list: Option<&str>,
        whose: SignatureList,
        never: &mut Never,
        layers: &Layers<'_>,
    ) -> Option<Option<Arc<[SignatureScheme]>>> {
        let Some(list) = list else { return Some(None) };
        let selection = ciphers::select_signatures(list);
        if selection.chosen.is_empty() {
            let message = format!(
                "{} : no signature algorithm is left of '{list}': RSA-PSS, RSA and ECDSA with SHA256, SHA384 or SHA512, and ed25519 are supported.",
                layers.subject
            );
            self.refuse(layers.here(), message);
            return None;
        }
        let place = match whose {
            SignatureList::Own => {
                layers.place(&self.defaults, "sigalgs", |options| options.signatures.clone())
            }
            SignatureList::Clients => {
                layers.place(&self.defaults, "client-sigalgs", |options| options.client_signatures.clone())
            }
        };
        never.add(place, &selection.without_effect);
        Some(Some(selection.chosen.into()))
    }

    /// Whether the files of authorities and revocation lists can be read, even if unused: a missing file is a mistake. Faults are
    /// recorded.
    pub(super) fn check_files(&mut self, options: &TlsOptions, subject: &str, at: &Location) -> bool {
        let base = self.defaults.global.authority_base.clone();
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

    /// The verifier of the peer's certificate. The outer `None` means a recorded fault.
    fn verifier(
        &mut self,
        options: &TlsOptions,
        never: &mut Never,
        layers: &Layers<'_>,
    ) -> Option<Option<Arc<Verifier>>> {
        let (subject, at) = (layers.subject, layers.here());
        let mode = match options.verify {
            None | Some(TlsVerify::None) => {
                self.schemes(options.client_signatures.as_deref(), SignatureList::Clients, never, layers)?;
                return self.check_files(options, subject, at).then_some(None);
            }
            Some(TlsVerify::Optional) => VerifyMode::Optional,
            Some(TlsVerify::Required) => VerifyMode::Required,
        };
        if !self.check_files(options, subject, at) {
            return None;
        }
        let Some(file) = options.ca_file.as_deref().or(options.ca_verify_file.as_deref()) else {
            self.refuse(at, format!("{subject} : 'verify' needs a trust anchor: add 'ca-file <file>'."));
            return None;
        };
        // The default of `client-sigalgs` is `sigalgs`.
        let (list, whose) = match options.client_signatures.as_deref() {
            None => (options.signatures.as_deref(), SignatureList::Own),
            list => (list, SignatureList::Clients),
        };
        let schemes = self.schemes(list, whose, never, layers)?;
        let base = self.defaults.global.authority_base.as_deref();
        let files = [Some(file), options.ca_verify_file.as_deref()];
        let files: Vec<String> = files.into_iter().flatten().map(|file| based(file, base)).collect();
        let lists: Vec<String> = options.crl_file.iter().map(|file| based(file, base)).collect();
        match self.authorities.make(&files, &lists) {
            Ok(authorities) => {
                let remarks = self.authorities.remarks(&files, subject, at);
                remarks.into_iter().for_each(|remark| self.record(remark));
                Some(Some(Arc::new(Verifier {
                    mode,
                    authorities: Some(Arc::new(authorities)),
                    ignored: ignored(&options.crt_ignored),
                    ignored_of_authorities: ignored(&options.ca_ignored),
                    silent: options.no_ca_names,
                    name: NameCheck::Any,
                    algorithms: weir_tls::verify::algorithms(),
                    schemes,
                    groups: groups_of(options),
                })))
            }
            Err(fault) => {
                self.refuse(at, format!("{subject} : {fault}"));
                None
            }
        }
    }
}

/// The groups allowed for the keys of peers in TLS 1.2, if the line has `curves`.
pub(super) fn groups_of(options: &TlsOptions) -> Option<Arc<[NamedGroup]>> {
    let chosen = ciphers::select_groups(options.curves.as_deref()?).chosen;
    Some(chosen.iter().map(|group| group.name()).collect())
}

pub(super) fn ignored(errors: &IgnoredErrors) -> IgnoredFaults {
    IgnoredFaults { all: errors.all, codes: errors.codes.iter().copied().collect() }
}

/// The list of signature algorithms to use.
#[derive(Clone, Copy)]
pub(super) enum SignatureList {
    /// `sigalgs`.
    Own,
    /// `client-sigalgs`.
    Clients,
}

const SOME_SUITE: &str = "'TLS_AES_128_GCM_SHA256', for example";
const SOME_CIPHERS: &str = "some with ECDHE and GCM or CHACHA20, as 'ECDHE+AESGCM:ECDHE+CHACHA20'";
