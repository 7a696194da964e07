//! The verdicts of a stream on passwords with a costly hash, and the next password to verify.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use weir_model::password::PasswordHash;

/// A password to verify.
pub(crate) struct PasswordQuestion {
    pub(crate) hash: Arc<PasswordHash>,
    pub(crate) candidate: Box<[u8]>,
}

/// The pending question and the verdicts of a stream. Verdicts hold a keyed hash of the candidate, not the password.
#[derive(Default)]
pub(crate) struct PasswordVerdicts {
    pending: Option<PasswordQuestion>,
    verdicts: Vec<PasswordVerdict>,
    key: RandomState,
}

struct PasswordVerdict {
    hash: Arc<PasswordHash>,
    candidate: u64,
    is_right: bool,
}

impl PasswordVerdicts {
    /// Whether `candidate` matches this hash. `None` before the verification: the question is then stored for
    /// [`PasswordVerdicts::take_pending`] if the evaluation can be suspended.
    pub(crate) fn verdict(
        &mut self,
        hash: &Arc<PasswordHash>,
        candidate: &[u8],
        may_suspend: bool,
    ) -> Option<bool> {
        let known = self.find(hash, candidate);
        if known.is_none() && may_suspend {
            self.pending = Some(PasswordQuestion { hash: Arc::clone(hash), candidate: candidate.into() });
        }
        known
    }

    /// The verification to run. `None` if the verdict is known.
    pub(crate) fn question(&self, hash: Arc<PasswordHash>, candidate: Vec<u8>) -> Option<PasswordQuestion> {
        let is_known = self.find(&hash, &candidate).is_some();
        (!is_known).then(|| PasswordQuestion { hash, candidate: candidate.into() })
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn take_pending(&mut self) -> Option<PasswordQuestion> {
        self.pending.take()
    }

    /// Stores a verdict. At [`KEPT_VERDICTS`] it replaces the oldest.
    pub(crate) fn keep(&mut self, question: &PasswordQuestion, is_right: bool) {
        if self.verdicts.len() == KEPT_VERDICTS {
            self.verdicts.remove(0);
        }
        let candidate = self.key.hash_one(&*question.candidate);
        self.verdicts.push(PasswordVerdict { hash: Arc::clone(&question.hash), candidate, is_right });
    }

    fn find(&self, hash: &Arc<PasswordHash>, candidate: &[u8]) -> Option<bool> {
        let mut verdicts = self.verdicts.iter().filter(|verdict| Arc::ptr_eq(&verdict.hash, hash)).peekable();
        verdicts.peek()?;
        let candidate = self.key.hash_one(candidate);
        verdicts.find(|verdict| verdict.candidate == candidate).map(|verdict| verdict.is_right)
    }
}

/// Does not print passwords.
impl fmt::Debug for PasswordVerdicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PasswordVerdicts").finish_non_exhaustive()
    }
}

/// Maximum number of verdicts per stream. Streams rarely need more than one.
pub(crate) const KEPT_VERDICTS: usize = 16;
