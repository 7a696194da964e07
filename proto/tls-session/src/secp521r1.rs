//! The key exchange over secp521r1 (P-521), which rustls lacks. It is used if a peer offers nothing faster, or `curves` names it.

use aws_lc_rs::agreement::{ECDH_P521, EphemeralPrivateKey, PublicKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

pub(crate) static SECP521R1: &dyn SupportedKxGroup = &Secp521r1;

#[derive(Debug)]
struct Secp521r1;

impl SupportedKxGroup for Secp521r1 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let secret =
            EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new()).map_err(|_| GetRandomFailed)?;
        let public = secret.compute_public_key().map_err(|_| GetRandomFailed)?;
        Ok(Box::new(KeyExchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct KeyExchange {
    secret: EphemeralPrivateKey,
    public: PublicKey,
}

impl ActiveKeyExchange for KeyExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        // aws-lc-rs accepts other encodings of a point, TLS does not (RFC 8446, 4.2.8.2; RFC 8422, 5.4). aws-lc-rs
        // checks that the point is on the curve.
        if peer.len() != POINT || peer[0] != UNCOMPRESSED {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        let peer = UnparsedPublicKey::new(&ECDH_P521, peer);
        let misbehaved = Error::from(PeerMisbehaved::InvalidKeyShare);
        agree_ephemeral(self.secret, peer, misbehaved, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

/// The first byte of a point with both coordinates (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;
/// The size of such a point in bytes: two coordinates of 521 bits.
const POINT: usize = 1 + 2 * 66;

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Box<dyn ActiveKeyExchange> {
        SECP521R1.start().expect("random bytes")
    }

    #[test]
    fn both_sides_compute_the_same_secp521r1_secret() {
        let (one, other) = (start(), start());
        let (first, second) = (one.pub_key().to_vec(), other.pub_key().to_vec());
        let secret = one.complete(&second).expect("a point");
        assert_eq!(secret.secret_bytes(), other.complete(&first).expect("a point").secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 66);
    }

    #[test]
    fn rejects_points_that_are_not_on_the_curve() {
        let public = start().pub_key().to_vec();
        let compressed = [&[2 + public[POINT - 1] % 2], &public[1..67]].concat();
        let mut beside = public.clone();
        beside[POINT - 1] ^= 1;
        for point in [&[][..], &public[..POINT - 1], &compressed, &beside, &[4; POINT]] {
            let refused = start().complete(point).err();
            assert_eq!(refused, Some(Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare)), "{point:?}");
        }
    }
}
