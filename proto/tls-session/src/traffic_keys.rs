//! Cache of the traffic keys of a handshake. rustls derives each key when it installs it, and the application data keys
//! again when it exports them. A session keeps the newest keys until then, so that the export needs no hashing
//! (`key_schedule.rs`).
//!
//! A key schedule does not know its session. So the session's keys are moved to a thread-local before a step, and back to the session after it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use rustls::crypto::tls13::OkmBlock;

/// The keys of the two newest secrets. At the end of a handshake, these are the application traffic secrets.
#[derive(Default)]
pub(crate) struct TrafficKeys([Option<DerivedValues>; 2]);

/// The values derived from a secret (RFC 8446, 7.3). All of them are wiped on drop.
struct DerivedValues {
    secret: OkmBlock,
    key: Option<OkmBlock>,
    iv: Option<OkmBlock>,
}

/// The kinds of values derived from a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DerivedKind {
    Key,
    Iv,
}

impl DerivedValues {
    fn part(&mut self, purpose: DerivedKind) -> &mut Option<OkmBlock> {
        match purpose {
            DerivedKind::Key => &mut self.key,
            DerivedKind::Iv => &mut self.iv,
        }
    }
}

impl TrafficKeys {
    fn of(&mut self, secret: &[u8]) -> Option<&mut DerivedValues> {
        let is_it =
            |derived: &&mut DerivedValues| verify_slices_are_equal(derived.secret.as_ref(), secret).is_ok();
        self.0.iter_mut().flatten().find(is_it)
    }

    fn keep(&mut self, secret: &OkmBlock, purpose: DerivedKind, value: &[u8]) {
        if self.of(secret.as_ref()).is_none() {
            self.0.swap(0, 1);
            self.0[0] = Some(DerivedValues { secret: secret.clone(), key: None, iv: None });
        }
        if let Some(derived) = self.of(secret.as_ref()) {
            *derived.part(purpose) = Some(OkmBlock::new(value));
        }
    }
}

/// Runs one step of the handshake that owns the keys `kept`.
pub(crate) fn with_kept<T>(kept: &mut Option<Box<TrafficKeys>>, step: impl FnOnce() -> T) -> T {
    CURRENT.with_borrow_mut(|current| **current = Some(kept.take()));
    let made = step();
    *kept = CURRENT.with_borrow_mut(|current| current.take()).flatten();
    made
}

/// Copies a value derived earlier from a secret into `output`; false if it is unknown, or outside a step of a session.
pub(crate) fn recall(secret: &OkmBlock, purpose: DerivedKind, output: &mut [u8]) -> bool {
    CURRENT.with_borrow_mut(|current| {
        let derived = current.as_mut().and_then(Option::as_mut).and_then(|keys| keys.of(secret.as_ref()));
        let Some(value) = derived.and_then(|derived| derived.part(purpose).as_ref()) else { return false };
        let is_as_long = value.as_ref().len() == output.len();
        if is_as_long {
            output.copy_from_slice(value.as_ref());
        }
        is_as_long
    })
}

/// Keeps a value derived from a secret, during a step of a session.
pub(crate) fn keep(secret: &OkmBlock, purpose: DerivedKind, value: &[u8]) {
    if value.len() <= OkmBlock::MAX_LEN {
        CURRENT.with_borrow_mut(|current| {
            if let Some(keys) = &mut **current {
                keys.get_or_insert_default().keep(secret, purpose, value);
            }
        });
    }
}

thread_local! {
    /// The keys of the session that makes a step, once it has some; `None` between steps.
    static CURRENT: RefCell<ManuallyDrop<Option<Option<Box<TrafficKeys>>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_two_newest_traffic_secrets_are_kept() {
        let secrets = [1, 2, 3].map(|byte| OkmBlock::new(&[byte; 48]));
        let recalled = |secret: &OkmBlock, purpose: DerivedKind, length: usize| {
            let mut output = vec![0; length];
            recall(secret, purpose, &mut output).then_some(output)
        };
        keep(&secrets[0], DerivedKind::Key, &[9; 32]);
        assert_eq!(recalled(&secrets[0], DerivedKind::Key, 32), None, "outside of a session nothing is kept");
        let mut kept = None;
        with_kept(&mut kept, || {
            for (number, secret) in (0..).zip(&secrets) {
                keep(secret, DerivedKind::Key, &[number; 32]);
                keep(secret, DerivedKind::Iv, &[number + 10; 12]);
            }
            assert_eq!(recalled(&secrets[0], DerivedKind::Key, 32), None, "the oldest has gone");
        });
        assert_eq!(recalled(&secrets[2], DerivedKind::Key, 32), None, "they are the session's");
        with_kept(&mut None, || {
            assert_eq!(recalled(&secrets[2], DerivedKind::Key, 32), None, "another has none")
        });
        with_kept(&mut kept, || {
            assert_eq!(recalled(&secrets[1], DerivedKind::Key, 32), Some(vec![1; 32]));
            assert_eq!(recalled(&secrets[2], DerivedKind::Key, 32), Some(vec![2; 32]));
            assert_eq!(recalled(&secrets[2], DerivedKind::Iv, 12), Some(vec![12; 12]));
            assert_eq!(
                recalled(&secrets[2], DerivedKind::Key, 16),
                None,
                "of another length it is another value"
            );
        });
    }
}
