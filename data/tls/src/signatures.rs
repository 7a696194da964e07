//! Keys limited to some signature schemes (`sigalgs`, `client-sigalgs`).

use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// A certificate with its key limited to these signature schemes, the preferred first.
pub(crate) fn limited(
    certified: &Arc<CertifiedKey>,
    schemes: Option<&Arc<[SignatureScheme]>>,
) -> Arc<CertifiedKey> {
    let Some(schemes) = schemes else { return Arc::clone(certified) };
    let mut limited = CertifiedKey::clone(certified);
    limited.key =
        Arc::new(LimitedSignatures { key: Arc::clone(&certified.key), schemes: Arc::clone(schemes) });
    Arc::new(limited)
}

#[derive(Debug)]
struct LimitedSignatures {
    key: Arc<dyn SigningKey>,
    schemes: Arc<[SignatureScheme]>,
}

impl SigningKey for LimitedSignatures {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let both = self.schemes.iter().filter(|scheme| offered.contains(scheme));
        both.into_iter().find_map(|scheme| self.key.choose_scheme(&[*scheme]))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}
