//! The files of a certificate, and their replacement at once.

use weir_tls::ocsp::OcspResponse;
use weir_tls::passphrase::Passphrases;
use weir_tls::views::TlsRefusal;
use weir_tls::{CertificateParts, pem};

use super::LiveTls;

impl LiveTls {
    /// Replaces files of a certificate at once, as a change and its commit do: pairs of the end of their names (`.key` and such, or none) and
    /// their contents. Returns the number of uses. A change of an operator that is pending stays so.
    ///
    /// # Errors
    /// If the certificate is unknown, or a file does not fit. Nothing has changed then.
    pub fn replace(&self, name: &str, files: &[(&str, &str)]) -> Result<usize, TlsRefusal> {
        let mut state = self.state();
        let mut parts = state.parts(name, false).ok_or(TlsRefusal::Unknown)?.unwrap_or_default();
        for (end, text) in files {
            read_file(&mut parts, &state.builder.loader.passphrases, name, end, text)?;
        }
        let places = state.install(name, parts)?;
        drop(state);
        self.note_change();
        Ok(places)
    }
}

/// Replaces the part of a certificate that a file has. `end` is the end of the name of an additional file (`.key` and such).
///
/// # Errors
/// If the text is not such a file.
pub(super) fn read_file(
    parts: &mut CertificateParts,
    passphrases: &Passphrases,
    path: &str,
    end: &str,
    text: &str,
) -> Result<(), TlsRefusal> {
    let unfit = |fault: String| TlsRefusal::Unfit(fault);
    let no_start = || unfit(format!("unable to load certificate from file '{path}': no start line."));
    match end {
        ".ocsp" => {
            let der = pem::decode_base64(text);
            let der = der.ok_or_else(|| unfit("'.ocsp' must be base64 encoded".to_owned()))?;
            OcspResponse::parse(&der).map_err(|why| unfit(why.to_owned()))?;
            parts.ocsp = Some(der);
        }
        ".sctl" => return Err(unfit("'.sctl' is not implemented yet.".to_owned())),
        end => {
            let mut new = CertificateParts::default();
            new.read(text.as_bytes(), path, passphrases).map_err(unfit)?;
            match end {
                ".issuer" if new.chain.is_empty() => return Err(no_start()),
                ".issuer" => parts.issuer = new.chain,
                ".key" => parts.key = Some(new.key.ok_or_else(no_start)?),
                _ if new.chain.is_empty() => return Err(no_start()),
                _ => {
                    parts.chain = new.chain;
                    parts.key = new.key.or_else(|| parts.key.take());
                }
            }
        }
    }
    Ok(())
}
