//! TLS objects at run time: certificates, authorities and lists, for the runtime API.
//!
//! ```text
//!   set ─────► pending ─────commit─────► held: its users are rebuilt, then published, one listener or server at a time
//!                 └──abort──► nothing       └──── a fault: nothing changes
//! ```
//!
//! A handshake uses the version that was current when it began. Workers take no lock. All changes are made under the lock in
//! [`LiveTls`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_model::{Bind, Location, Proxy, Server, ServerTls};
use weir_net::CertificateClock;
use weir_tls::clock::TimeProvider;
use weir_tls::ocsp::{CertId, OcspResponse};
use weir_tls::rustls::SignatureAlgorithm;
use weir_tls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use weir_tls::ticket_keys::{BadTicketKey, TicketKeys};
use weir_tls::views::{
    ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspView, ServedName, TicketKeyFile, TicketKeyRefusal,
    TlsFileKind, TlsFileName, TlsFileView, TlsRefusal,
};
use weir_tls::{
    Certificate, CertificateParts, ListenerCertificate, LiveListener, LiveUpstream, UpstreamTls, describe,
    pem,
};

use super::lists::CertificateLists;
use super::replaced::read_file;
use super::{TlsBuilder, based};

/// A `bind` line with TLS.
pub(super) struct LiveBind {
    pub frontend: Box<str>,
    pub bind: Bind,
    pub live: Arc<LiveListener>,
    /// The files of authorities and revocation lists that it uses.
    pub files: BTreeSet<Box<str>>,
}

/// A server with TLS.
pub(super) struct LiveServer {
    /// The server's name in messages.
    pub subject: String,
    pub tls: Arc<ServerTls>,
    pub at: Location,
    pub live: Arc<LiveUpstream>,
    /// The files of authorities and revocation lists that it uses.
    pub files: BTreeSet<Box<str>>,
}

/// All TLS objects that can change at run time.
pub struct LiveTls {
    state: Mutex<TlsState>,
    /// Called after certificates, lists or OCSP responses changed. Set once.
    on_change: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

pub(super) struct TlsState {
    pub(super) builder: TlsBuilder,
    certificate: Option<(Box<str>, CertificateParts)>,
    authorities: PendingChange<CertificateDer<'static>>,
    revocations: PendingChange<CertificateRevocationListDer<'static>>,
}

impl LiveTls {
    /// The objects built from a configuration.
    pub fn new(mut builder: TlsBuilder) -> LiveTls {
        builder.keeps_to_known_files = true;
        builder.loader.passphrases.use_known_only();
        let state = TlsState { builder, certificate: None, authorities: None, revocations: None };
        LiveTls { state: Mutex::new(state), on_change: OnceLock::new() }
    }

    /// Whether any listener or server uses TLS.
    pub fn speaks(&self) -> bool {
        self.state().builder.speaks()
    }

    /// Builds the TLS settings of a server added at run time, without reading files. `None` if neither its traffic nor its checks
    /// use TLS.
    ///
    /// # Errors
    /// A message for the operator, without newline.
    pub fn add_server(&self, proxy: &Proxy, server: &Server) -> Result<Option<Arc<LiveUpstream>>, String> {
        let mut state = self.state();
        let builder = &mut state.builder;
        let made = builder.server(proxy, server);
        builder.take_fault().map_or(Ok(made), Err)
    }

    /// Drops the settings of a server that was removed.
    pub fn forget_server(&self, upstream: &Arc<LiveUpstream>) {
        self.state().builder.servers.retain(|server| !Arc::ptr_eq(&server.live, upstream));
    }

    /// The listener of a `bind` line. `None` without TLS.
    pub fn listener(&self, bind: &Bind) -> Option<Arc<LiveListener>> {
        let state = self.state();
        let found = state.builder.binds.iter().find(|known| known.bind.at == bind.at);
        Some(Arc::clone(&found?.live))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, TlsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the callback for changes of certificates, lists and OCSP responses.
    pub fn watch(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_change.set(Box::new(wake));
    }

    pub(super) fn note_change(&self) {
        if let Some(wake) = self.on_change.get() {
            wake();
        }
    }

    /// The file with a pending change, and all files of a kind.
    pub fn files(&self, kind: TlsFileKind) -> (Option<TlsFileName>, Vec<TlsFileName>) {
        let state = self.state();
        let named = |name: &str, count| TlsFileName { name: name.to_owned(), count };
        let files = &state.builder.authorities;
        match kind {
            TlsFileKind::Certificate => {
                let held =
                    state.builder.certificates.iter().map(|(name, held)| named(name, held.iter().count()));
                (state.certificate.as_ref().map(|(name, _)| named(name, 1)), held.collect())
            }
            TlsFileKind::Authorities => {
                let held = files.certificates.iter().map(|(name, held)| named(name, held.len()));
                (state.authorities.as_ref().map(|(name, new)| named(name, new.len())), held.collect())
            }
            TlsFileKind::Revocations => {
                let held = files.lists.iter().map(|(name, held)| named(name, held.len()));
                (state.revocations.as_ref().map(|(name, new)| named(name, new.len())), held.collect())
            }
        }
    }

    /// The contents of a file, or of its pending change. `None` if it does not exist.
    pub fn file(&self, kind: TlsFileKind, name: &str, pending: bool) -> Option<TlsFileView> {
        let state = self.state();
        let used = state.is_used(kind, name);
        if kind == TlsFileKind::Certificate {
            let Some(parts) = state.parts(name, pending)? else {
                return Some(TlsFileView { used, ..TlsFileView::default() });
            };
            let mut certificates = parts.chain.iter().chain(&parts.issuer);
            let own = certificates.next().map(describe::certificate);
            let chain = certificates.map(describe::chain_certificate);
            let held = state.builder.certificates.get(name).and_then(Option::as_ref).filter(|_| !pending);
            let key = held.and_then(|held| Some(held.id().filter(|_| held.response().is_some())?.key()));
            let key = format!("OCSP Response Key: {}\n", key.unwrap_or_default());
            let file = held.and_then(|held| held.chain_path());
            let file = file.map(|path| format!("Chain Filename: {path}\n")).unwrap_or_default();
            return Some(TlsFileView {
                used,
                origin: state.origin(name, &parts),
                parts: own.into_iter().map(|own| format!("{file}{own}")).collect(),
                chain: chain.chain([key]).collect(),
            });
        }
        let files = &state.builder.authorities;
        let parts: Vec<String> = match (kind, pending) {
            (TlsFileKind::Authorities, true) => {
                of(&state.authorities, name)?.iter().map(describe::certificate).collect()
            }
            (TlsFileKind::Authorities, false) => {
                files.certificates.get(name)?.iter().map(describe::certificate).collect()
            }
            (_, true) => {
                of(&state.revocations, name)?.iter().map(|list| describe::revocation_list(list)).collect()
            }
            (_, false) => files.lists.get(name)?.iter().map(|list| describe::revocation_list(list)).collect(),
        };
        Some(TlsFileView { used, parts, ..TlsFileView::default() })
    }

    /// A certificate's key, leaf and chain, as PEM. `None` if it does not exist or is empty.
    pub fn pem(&self, name: &str, pending: bool) -> Option<String> {
        Some(self.state().parts(name, pending)??.to_pem())
    }

    /// Creates an empty file.
    pub fn create(&self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        let mut state = self.state();
        if state.holds(kind, name) {
            return Err(TlsRefusal::Exists);
        }
        let builder = &mut state.builder;
        match kind {
            TlsFileKind::Certificate => drop(builder.certificates.insert(name.into(), None)),
            TlsFileKind::Authorities => {
                drop(builder.authorities.certificates.insert(name.into(), Vec::new()))
            }
            TlsFileKind::Revocations => drop(builder.authorities.lists.insert(name.into(), Vec::new())),
        }
        Ok(())
    }

    /// Replaces or extends the pending contents of a file. True if this call began the change.
    pub fn set(&self, kind: TlsFileKind, name: &str, text: &str, add: bool) -> Result<bool, TlsRefusal> {
        let mut state = self.state();
        match kind {
            TlsFileKind::Certificate => state.set_certificate(name, text),
            TlsFileKind::Authorities => {
                let new = pem::certificates(text.as_bytes());
                let TlsState { builder, authorities, .. } = &mut *state;
                set_several(authorities, &builder.authorities.certificates, name, new, add)
            }
            TlsFileKind::Revocations => {
                let new = pem::revocation_lists(text.as_bytes());
                let TlsState { builder, revocations, .. } = &mut *state;
                set_several(revocations, &builder.authorities.lists, name, new, add)
            }
        }
    }

    /// Commits a pending change. Returns the number of uses: certificate entries of listeners, and servers.
    pub fn commit(&self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal> {
        let places = self.commit_change(kind, name)?;
        self.note_change();
        Ok(places)
    }

    fn commit_change(&self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal> {
        let mut state = self.state();
        state.expect_change(kind, name)?;
        match kind {
            TlsFileKind::Certificate => state.commit_certificate(name),
            TlsFileKind::Authorities => state.commit_several(name, |state| {
                (&mut state.authorities, &mut state.builder.authorities.certificates)
            }),
            TlsFileKind::Revocations => state
                .commit_several(name, |state| (&mut state.revocations, &mut state.builder.authorities.lists)),
        }
    }

    /// Discards a pending change.
    pub fn abort(&self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        let mut state = self.state();
        state.expect_change(kind, name)?;
        match kind {
            TlsFileKind::Certificate => state.certificate = None,
            TlsFileKind::Authorities => state.authorities = None,
            TlsFileKind::Revocations => state.revocations = None,
        }
        Ok(())
    }

    /// Deletes a file from memory, unless a line uses it.
    pub fn delete(&self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        let mut state = self.state();
        if !state.holds(kind, name) {
            return Err(TlsRefusal::Unknown);
        }
        if state.is_used(kind, name) {
            return Err(TlsRefusal::Used);
        }
        let builder = &mut state.builder;
        match kind {
            TlsFileKind::Certificate => {
                builder.forget_renewal(name);
                drop(builder.certificates.remove(name));
            }
            TlsFileKind::Authorities => drop(builder.authorities.certificates.remove(name)),
            TlsFileKind::Revocations => drop(builder.authorities.lists.remove(name)),
        }
        drop(state);
        self.note_change();
        Ok(())
    }

    /// The OCSP responses, each with the first certificate by name that it is about.
    pub fn responses(&self) -> Vec<OcspEntry> {
        let state = self.state();
        let mut first: BTreeMap<&CertId, &str> = BTreeMap::new();
        for (path, certificate) in &state.builder.certificates {
            let Some(certificate) = certificate else { continue };
            let Some(id) = certificate.id().filter(|_| certificate.response().is_some()) else { continue };
            first.entry(id).or_insert(path);
        }
        let entry = |(id, path): (&CertId, &str)| OcspEntry {
            key: id.key(),
            path: path.to_owned(),
            id: id.describe("   "),
        };
        let mut entries: Vec<OcspEntry> = first.into_iter().map(entry).collect();
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        entries
    }

    /// The OCSP response of a certificate's path, or of its pending change, or with this OCSP identifier.
    pub fn response(&self, name: &str, pending: bool) -> Option<OcspView> {
        let state = self.state();
        let view = |response: &OcspResponse| OcspView {
            text: response.describe(),
            base64: pem::encode_base64(response.der()),
        };
        if pending {
            let parts = state.parts(name, true)??;
            return OcspResponse::parse(&parts.ocsp?).ok().as_ref().map(view);
        }
        let by_path = state.builder.certificates.get(name).and_then(Option::as_ref);
        let by_key = || {
            let wanted = CertId::from_key(name)?;
            let mut all = state.builder.certificates.values().flatten();
            all.find(|certificate| certificate.response().is_some() && certificate.id() == Some(&wanted))
        };
        by_path.or_else(by_key)?.response().map(|response| view(response))
    }

    /// Sets an OCSP response. All certificates that the response is about staple it until it expires.
    pub fn set_response(&self, text: &str) -> Result<(), OcspRefusal> {
        let der = pem::decode_base64(text).ok_or(OcspRefusal::NotBase64)?;
        let unfit = |why: &str| OcspRefusal::Unfit(why.to_owned());
        let response = OcspResponse::parse(&der).map_err(unfit)?;
        let now = CertificateClock.current_time().ok_or_else(|| unfit("the clock cannot be read."))?;
        response.check(now).map_err(unfit)?;
        self.use_response(&response).map_err(OcspRefusal::Unfit)
    }

    /// Staples a response to the certificates that it is about.
    pub(super) fn use_response(&self, response: &OcspResponse) -> Result<(), String> {
        self.state().use_response(response)?;
        self.note_change();
        Ok(())
    }

    /// All ticket key files, with their keys.
    pub fn ticket_keys(&self) -> Vec<TicketKeyFile> {
        let view =
            |keys: &Arc<TicketKeys>| TicketKeyFile { file: keys.file().to_owned(), secrets: keys.secrets() };
        self.state().builder.ticket_keys.iter().map(view).collect()
    }

    /// Adds a key to a file of ticket keys.
    pub fn push_ticket_key(&self, file: &str, key: &str) -> Result<(), TicketKeyRefusal> {
        let state = self.state();
        let found = state.builder.ticket_keys.iter().find(|keys| keys.file() == file);
        found.ok_or(TicketKeyRefusal::UnknownFile)?.push(key).map_err(|fault| match fault {
            BadTicketKey::NotBase64 => TicketKeyRefusal::NotBase64,
            BadTicketKey::WrongSize => TicketKeyRefusal::WrongSize,
        })
    }

    /// The numbers of lookups and misses of the session cache.
    pub fn cache_lookups(&self) -> (u64, u64) {
        self.state().builder.sessions.as_ref().map(|cache| cache.lookups()).unwrap_or_default()
    }

    /// The lists of certificates, by name.
    pub fn lists(&self) -> Vec<String> {
        self.state().lists().names()
    }

    /// The lines of a certificate list, in order. `None` for an unknown list.
    pub fn list(&self, name: &str) -> Option<Vec<ListLine>> {
        self.state().lists().lines(name)
    }

    /// Adds a line to a list. Returns the path of its certificate.
    pub fn add_line(&self, list: &str, line: &str) -> Result<String, ListRefusal> {
        let added = self.state().lists().add_line(list, line)?;
        self.note_change();
        Ok(added)
    }

    /// Deletes a line of a list.
    pub fn delete_line(
        &self,
        list: &str,
        certificate: &str,
        number: Option<usize>,
    ) -> Result<(), ListRefusal> {
        self.state().lists().delete_line(list, certificate, number)
    }

    /// The server names that select certificates.
    pub fn names(&self, frontend: Option<&str>, ending_before: Option<i64>) -> Vec<ServedName> {
        let state = self.state();
        let binds = state.builder.binds.iter();
        let binds = binds.filter(|bind| frontend.is_none_or(|frontend| *bind.frontend == *frontend));
        binds.flat_map(|bind| names_of(bind, ending_before)).collect()
    }
}

/// The pending change, if it is for the file `name`.
fn of<'c, T>(change: &'c Option<(Box<str>, Vec<T>)>, name: &str) -> Option<&'c Vec<T>> {
    change.as_ref().filter(|(of, _)| **of == *name).map(|(_, new)| new)
}

/// The pending change: the name of a file, and its new contents.
type PendingChange<T> = Option<(Box<str>, Vec<T>)>;

/// The contents of files, by name.
type FileContents<T> = BTreeMap<Box<str>, Vec<T>>;

fn set_several<T: Clone>(
    change: &mut PendingChange<T>,
    held: &FileContents<T>,
    name: &str,
    new: Vec<T>,
    add: bool,
) -> Result<bool, TlsRefusal> {
    if let Some((other, _)) = change.as_ref().filter(|(of, _)| **of != *name) {
        return Err(TlsRefusal::Other(other.to_string()));
    }
    let known = held.get(name).ok_or(TlsRefusal::Unknown)?;
    if new.is_empty() {
        return Err(TlsRefusal::Unfit("Invalid payload".to_owned()));
    }
    let former = change.take();
    let begun = former.is_none();
    let before = if add { former.map_or_else(|| known.clone(), |(_, former)| former) } else { Vec::new() };
    *change = Some((name.into(), [before, new].concat()));
    Ok(begun)
}

impl TlsState {
    fn lists(&mut self) -> CertificateLists<'_> {
        CertificateLists::new(&mut self.builder)
    }

    fn holds(&self, kind: TlsFileKind, name: &str) -> bool {
        match kind {
            TlsFileKind::Certificate => self.builder.certificates.contains_key(name),
            TlsFileKind::Authorities => self.builder.authorities.certificates.contains_key(name),
            TlsFileKind::Revocations => self.builder.authorities.lists.contains_key(name),
        }
    }

    fn is_used(&self, kind: TlsFileKind, name: &str) -> bool {
        let TlsBuilder { binds, servers, .. } = &self.builder;
        if kind != TlsFileKind::Certificate {
            let mut files =
                binds.iter().map(|bind| &bind.files).chain(servers.iter().map(|server| &server.files));
            return files.any(|files| files.contains(name));
        }
        let shown = |bind: &LiveBind| bind.live.now().entries_of(name).next().is_some();
        binds.iter().any(shown) || servers.iter().any(|server| self.builder.shows(server, name))
    }

    fn expect_change(&self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        let changed = match kind {
            TlsFileKind::Certificate => self.certificate.as_ref().map(|change| &change.0),
            TlsFileKind::Authorities => self.authorities.as_ref().map(|change| &change.0),
            TlsFileKind::Revocations => self.revocations.as_ref().map(|change| &change.0),
        };
        match changed {
            None => Err(TlsRefusal::Idle),
            Some(changed) if **changed != *name => Err(TlsRefusal::Other(changed.to_string())),
            Some(_) => Ok(()),
        }
    }

    /// The files and settings of a certificate, one per line.
    fn origin(&self, name: &str, parts: &CertificateParts) -> String {
        let mut text = String::new();
        if let Some(files) = &parts.files {
            let lines = [
                ("Crt", Some(&files.certificate)),
                ("Key", files.key.as_ref()),
                ("OCSP", files.ocsp.as_ref()),
            ];
            let lines = lines.into_iter().filter_map(|(what, path)| Some((what, path?)));
            lines.for_each(|(what, path)| text += &format!("{what} filename: {path}\n"));
        }
        let updates = if self.builder.renewals.wants(name) { "on" } else { "off" };
        // Certificates are used only for TLS, never for JWT.
        text + &format!("Option: ocsp-update {updates}\nOption: jwt off\n")
    }

    /// The parts of a certificate, or of its pending change. The inner `None` means an empty certificate.
    pub(super) fn parts(&self, name: &str, pending: bool) -> Option<Option<CertificateParts>> {
        if pending {
            let (_, parts) = self.certificate.as_ref().filter(|(changed, _)| **changed == *name)?;
            return Some(Some(parts.clone()));
        }
        let held = self.builder.certificates.get(name)?;
        Some(held.as_ref().map(|certificate| certificate.parts()))
    }

    fn set_certificate(&mut self, path: &str, text: &str) -> Result<bool, TlsRefusal> {
        // An additional file (`.key` and similar) changes the certificate that it belongs to.
        let beside = BESIDE.iter().find_map(|end| Some((path.strip_suffix(end)?, *end)));
        let known = |name: &str| self.builder.certificates.contains_key(name);
        // If additional files replace the extension, the certificate ends in `.crt`.
        let replaced =
            |stem: &str| Some(format!("{stem}.crt")).filter(|_| self.builder.loader.replaces_extension);
        let beside = beside.and_then(|(stem, end)| match known(stem) {
            true => Some((stem.to_owned(), end)),
            false => replaced(stem).filter(|name| known(name)).map(|name| (name, end)),
        });
        let (name, end) = beside.unwrap_or_else(|| (path.to_owned(), ""));
        let name = &*name;
        if let Some((other, _)) = self.certificate.as_ref().filter(|(changed, _)| **changed != *name) {
            return Err(TlsRefusal::Other(other.to_string()));
        }
        let held = self.builder.certificates.get(name).ok_or(TlsRefusal::Unknown)?;
        let held = || held.as_ref().map(|certificate| certificate.parts()).unwrap_or_default();
        let mut parts = self.certificate.as_ref().map_or_else(held, |(_, parts)| parts.clone());
        read_file(&mut parts, &self.builder.loader.passphrases, path, end, text)?;
        Ok(self.certificate.replace((name.into(), parts)).is_none())
    }

    pub(super) fn use_response(&mut self, response: &OcspResponse) -> Result<(), String> {
        let held = self.builder.certificates.iter();
        let about =
            held.filter(|(_, held)| held.as_ref().is_some_and(|held| held.id() == Some(response.id())));
        let names: Vec<Box<str>> = about.map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            let why = "OCSP single response: Certificate ID does not match any certificate or issuer.";
            return Err(why.to_owned());
        }
        let refused = |refusal| match refusal {
            TlsRefusal::Unfit(why) => why,
            _ => "the certificate cannot be changed now.".to_owned(),
        };
        for name in names {
            let Some(mut parts) = self.parts(&name, false).flatten() else { continue };
            parts.ocsp = Some(response.der().to_vec());
            let made = self.builder.loader.assemble(&name, parts)?;
            self.use_certificate(&name, &made).map_err(refused)?;
            self.builder.certificates.insert(name, Some(made));
        }
        Ok(())
    }

    fn commit_certificate(&mut self, name: &str) -> Result<usize, TlsRefusal> {
        let Some((_, parts)) = &self.certificate else { return Err(TlsRefusal::Idle) };
        let places = self.install(name, parts.clone())?;
        self.certificate = None;
        Ok(places)
    }

    /// Replaces a certificate that is in use. Returns the number of its users. A failure changes nothing.
    pub(super) fn install(&mut self, name: &str, parts: CertificateParts) -> Result<usize, TlsRefusal> {
        let made = self.builder.loader.assemble(name, parts).map_err(TlsRefusal::Unfit)?;
        let former = self.builder.certificates.insert(name.into(), Some(Arc::clone(&made)));
        let used = self.use_certificate(name, &made);
        if used.is_err() {
            self.builder.certificates.insert(name.into(), former.flatten());
        }
        used
    }

    /// Publishes all users of this certificate. Returns their number: certificate entries of listeners, and servers.
    fn use_certificate(&mut self, name: &str, made: &Arc<Certificate>) -> Result<usize, TlsRefusal> {
        // Operations that may fail come first, so that a failure changes nothing.
        let servers = self.builder.remade_servers(|builder, server| builder.shows(server, name))?;
        let mut places = servers.len();
        for bind in &self.builder.binds {
            let now = bind.live.now();
            let shows = |entry: &ListenerCertificate| *entry.certificate().path == *name;
            let showing = now.entries_of(name).count();
            if showing > 0 {
                let changed = |entry: &ListenerCertificate| {
                    if shows(entry) { entry.with_certificate(made) } else { entry.clone() }
                };
                bind.live.publish(now.with_entries(now.entries().iter().map(changed)));
                places += showing;
            }
        }
        publish_servers(servers);
        Ok(places)
    }

    /// Commits the pending contents of an authority or revocation file. On failure nothing changes, and the change is pending
    /// again.
    fn commit_several<T>(
        &mut self,
        name: &str,
        of: fn(&mut TlsState) -> (&mut PendingChange<T>, &mut FileContents<T>),
    ) -> Result<usize, TlsRefusal> {
        let (change, held) = of(self);
        let Some((_, new)) = change.take() else { return Err(TlsRefusal::Idle) };
        let former = held.insert(name.into(), new);
        let made = self.remake(name);
        if made.is_err()
            && let Some(former) = former
        {
            let (change, held) = of(self);
            *change = held.insert(name.into(), former).map(|refused| (name.into(), refused));
        }
        made
    }

    /// Rebuilds all users of an authority or revocation file, and publishes them unless there is a fault. Returns the number of
    /// certificate entries and servers.
    fn remake(&mut self, file: &str) -> Result<usize, TlsRefusal> {
        let servers = self.builder.remade_servers(|_, server| server.files.contains(file))?;
        let mut binds = std::mem::take(&mut self.builder.binds);
        let using = binds.iter_mut().filter(|bind| bind.files.contains(file));
        let remade = |bind| {
            let bind: &mut LiveBind = bind;
            self.builder.authorities.forget_used();
            let listener = self.builder.make_listener(&bind.bind);
            (bind, listener, self.builder.authorities.used())
        };
        let made: Vec<_> = using.map(remade).collect();
        let fault = self.builder.take_fault();
        let mut places = servers.len();
        if fault.is_none() {
            for (bind, listener, files) in made {
                let Some(listener) = listener else { continue };
                places += listener.entries().len();
                bind.live.publish(listener);
                bind.files = files;
            }
        }
        self.builder.binds = binds;
        match fault {
            None => {
                publish_servers(servers);
                Ok(places)
            }
            Some(fault) => Err(TlsRefusal::Unfit(fault)),
        }
    }
}

impl TlsBuilder {
    /// Whether connections to a server use this certificate.
    fn shows(&self, server: &LiveServer, name: &str) -> bool {
        let Some(path) = &server.tls.certificate else { return false };
        let based = based(path, self.defaults.global.certificate_base.as_deref());
        **path == *name
            || self.paths.get(&based).and_then(|names| names.first()).is_some_and(|first| **first == *name)
    }

    /// Rebuilds the TLS settings of the servers that `wanted` selects.
    fn remade_servers(
        &mut self,
        wanted: impl Fn(&TlsBuilder, &LiveServer) -> bool,
    ) -> Result<Vec<(Arc<LiveUpstream>, UpstreamTls)>, TlsRefusal> {
        let servers = std::mem::take(&mut self.servers);
        let mut made = Vec::new();
        let chosen: Vec<&LiveServer> = servers.iter().filter(|server| wanted(self, server)).collect();
        for server in chosen {
            if let Some(upstream) = self.upstream(&server.subject, &server.tls, &server.at) {
                made.push((Arc::clone(&server.live), upstream));
            }
        }
        self.servers = servers;
        self.take_fault().map_or(Ok(made), |fault| Err(TlsRefusal::Unfit(fault)))
    }

    /// Removes all recorded faults and returns them, joined by newlines. `None` without any.
    pub(super) fn take_fault(&mut self) -> Option<String> {
        self.warnings.clear();
        let faults: Vec<String> = self.errors.drain(..).map(|error| error.message).collect();
        (!faults.is_empty()).then(|| faults.join("\n"))
    }
}

fn publish_servers(servers: Vec<(Arc<LiveUpstream>, UpstreamTls)>) {
    for (live, upstream) in servers {
        live.publish(upstream);
    }
}

/// The server names of a `bind` line: exact names, the default, wildcards.
fn names_of(bind: &LiveBind, ending_before: Option<i64>) -> Vec<ServedName> {
    let now = bind.live.now();
    let served = |entry: &ListenerCertificate, name: &str| {
        let own = entry.certificate().own();
        let (not_before, not_after) = describe::validity(own).unwrap_or_default();
        let except = entry.part().filters.iter().filter(|filter| filter.starts_with('!'));
        let except =
            if name.starts_with("*.") { except.map(ToString::to_string).collect() } else { Vec::new() };
        ServedName {
            place: format!("{}/{}", bind.frontend, bind.bind.at),
            name: name.to_owned(),
            except,
            algorithm: match entry.certificate().algorithm {
                SignatureAlgorithm::RSA => "rsa",
                SignatureAlgorithm::DSA => "dsa",
                _ => "ecdsa",
            },
            certificate: entry.certificate().path.to_string(),
            not_before,
            not_after,
        }
    };
    let ends = |entry: &&ListenerCertificate| {
        ending_before
            .is_none_or(|before| describe::ends(entry.certificate().own()).is_some_and(|end| end < before))
    };
    let entries = || now.entries().iter().filter(ends);
    let all = || entries().flat_map(|entry| entry.names().map(move |name| (entry, name)));
    let mut plain: Vec<ServedName> =
        all().filter(|(_, name)| !name.starts_with('*')).map(|(entry, name)| served(entry, name)).collect();
    let mut wild: Vec<ServedName> =
        all().filter(|(_, name)| name.starts_with("*.")).map(|(entry, name)| served(entry, name)).collect();
    plain.sort_by(|one, other| one.name.cmp(&other.name));
    wild.sort_by(|one, other| one.name.cmp(&other.name));
    let defaults = now.defaults().filter(ends).map(|entry| served(entry, "*"));
    plain.into_iter().chain(defaults).chain(wild).collect()
}

/// The extensions of additional files of a certificate.
const BESIDE: [&str; 4] = [".key", ".issuer", ".ocsp", ".sctl"];
