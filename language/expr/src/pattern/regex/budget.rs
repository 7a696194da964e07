//! The time budget of all regular expressions of one request.
//!
//! One match has its own limit, but a request may pass hundreds of rules, or a `regsub` thousands of matches, and the client chooses the
//! subject. So each request has a time budget. Further matches are not tried, and count as if they had exceeded a limit
//! ([`limit`](super::limit)).
//!
//! The process supplies the clock and the current connection: see [`set_budget`]. Without them, matches are not charged. The first match
//! of a request opens its account, so requests without regular expressions cost nothing.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The functions that the process supplies.
#[derive(Debug, Clone, Copy)]
pub struct BudgetContext {
    /// A monotonic clock in nanoseconds.
    pub clock_ns: fn() -> u64,
    /// A number that identifies the connection that this thread serves now.
    pub owner: fn() -> u64,
}

/// Sets the budget of each request in nanoseconds, 0 for no limit. Only the `context` of the first call is kept.
pub fn set_budget(budget_ns: u64, context: BudgetContext) {
    let _ = CONTEXT.set(context);
    BUDGET_NS.store(budget_ns, Ordering::Relaxed);
}

/// Starts a request on the current connection: its budget is full again.
#[inline]
pub fn begin_request() {
    ACCOUNTS.with_borrow_mut(|accounts| {
        if !accounts.is_empty()
            && let Some(context) = CONTEXT.get()
        {
            accounts.close((context.owner)());
        }
    });
}

/// The number of requests of the process that spent their budget.
pub fn exhausted() -> u64 {
    EXHAUSTED.load(Ordering::Relaxed)
}

/// Runs `search` on the budget of the current request. None if the budget is spent.
pub(super) fn charged<R>(search: impl FnOnce() -> R) -> Option<R> {
    let budget_ns = BUDGET_NS.load(Ordering::Relaxed);
    let (1.., Some(context)) = (budget_ns, CONTEXT.get()) else { return Some(search()) };
    let owner = (context.owner)();
    let entered = ACCOUNTS.with_borrow_mut(|accounts| accounts.enter(owner, budget_ns));
    if let Err(Overspend { first_time }) = entered {
        EXHAUSTED.fetch_add(u64::from(first_time), Ordering::Relaxed);
        return None;
    }
    let began_ns = (context.clock_ns)();
    let found = search();
    let took_ns = (context.clock_ns)().saturating_sub(began_ns);
    ACCOUNTS.with_borrow_mut(|accounts| accounts.charge(took_ns));
    Some(found)
}

/// The budget is spent.
#[derive(Debug, PartialEq, Eq)]
struct Overspend {
    /// Whether the request exceeded its budget for the first time.
    first_time: bool,
}

/// The accounts of the requests of this thread.
#[derive(Debug, Default)]
struct Accounts {
    last: RequestAccount,
    /// Accounts of interrupted requests that spent much time, for example while they wait for more bytes. Accounts with little spent time
    /// are dropped.
    others: Vec<RequestAccount>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RequestAccount {
    /// 0 without an owner.
    owner: u64,
    spent_ns: u64,
    is_reported: bool,
}

impl Accounts {
    const fn new() -> Self {
        Accounts { last: RequestAccount { owner: 0, spent_ns: 0, is_reported: false }, others: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.last.owner == 0 && self.others.is_empty()
    }

    fn enter(&mut self, owner: u64, budget_ns: u64) -> Result<(), Overspend> {
        if self.last.owner != owner {
            self.turn_to(owner);
        }
        if self.last.spent_ns < budget_ns {
            return Ok(());
        }
        let first_time = !std::mem::replace(&mut self.last.is_reported, true);
        Err(Overspend { first_time })
    }

    fn charge(&mut self, took_ns: u64) {
        self.last.spent_ns = self.last.spent_ns.saturating_add(took_ns);
    }

    fn turn_to(&mut self, owner: u64) {
        if self.last.spent_ns >= MUCH_NS {
            if self.others.len() == MOST_OTHERS {
                self.others.remove(0);
            }
            self.others.push(self.last);
        }
        let known = self.others.iter().position(|account| account.owner == owner);
        self.last = match known {
            Some(at) => self.others.remove(at),
            None => RequestAccount { owner, ..RequestAccount::default() },
        };
    }

    fn close(&mut self, owner: u64) {
        if self.last.owner == owner {
            self.last = RequestAccount::default();
        }
        self.others.retain(|account| account.owner != owner);
    }
}

/// Accounts that spent at least this are kept while other requests run.
const MUCH_NS: u64 = 1_000_000;
/// The limit of such accounts. Each request spent a millisecond or more, so there are few.
const MOST_OTHERS: usize = 64;

static CONTEXT: OnceLock<BudgetContext> = OnceLock::new();
static BUDGET_NS: AtomicU64 = AtomicU64::new(0);
static EXHAUSTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static ACCOUNTS: RefCell<ManuallyDrop<Accounts>> = const { RefCell::new(ManuallyDrop::new(Accounts::new())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET_NS: u64 = 10 * MUCH_NS;

    fn spend(accounts: &mut Accounts, owner: u64, took_ns: u64) -> Result<(), Overspend> {
        accounts.enter(owner, BUDGET_NS)?;
        accounts.charge(took_ns);
        Ok(())
    }

    #[test]
    fn each_request_has_its_own_regex_budget() {
        let mut accounts = Accounts::new();
        assert!(accounts.is_empty());
        // The last match may start while any budget is left.
        for _ in 0..3 {
            assert_eq!(spend(&mut accounts, 1, 4 * MUCH_NS), Ok(()));
        }
        assert_eq!(spend(&mut accounts, 1, 0), Err(Overspend { first_time: true }));
        assert_eq!(spend(&mut accounts, 1, 0), Err(Overspend { first_time: false }));
        assert_eq!(spend(&mut accounts, 2, MUCH_NS - 1), Ok(()), "another one has its own");
        assert_eq!(
            spend(&mut accounts, 1, 0),
            Err(Overspend { first_time: false }),
            "it waited, and is remembered"
        );
        accounts.close(1);
        assert!(accounts.is_empty(), "the second spent too little to be remembered");
        assert_eq!(spend(&mut accounts, 1, BUDGET_NS), Ok(()), "its next request begins anew");
        assert_eq!(spend(&mut accounts, 1, 0), Err(Overspend { first_time: true }));
    }

    #[test]
    fn the_number_of_regex_budget_accounts_is_limited() {
        let mut accounts = Accounts::new();
        for owner in 1..=MOST_OTHERS as u64 + 10 {
            assert_eq!(spend(&mut accounts, owner, BUDGET_NS), Ok(()));
        }
        assert_eq!(accounts.others.len(), MOST_OTHERS);
        assert!(spend(&mut accounts, 20, 0).is_err());
        assert!(spend(&mut accounts, 1, 0).is_ok(), "the oldest are forgotten");
    }

    /// Without a clock from the process, matches are not charged.
    #[test]
    fn regex_matches_are_not_charged_without_a_budget() {
        assert_eq!(charged(|| 5), Some(5));
        begin_request();
        assert!(ACCOUNTS.with_borrow(|accounts| accounts.is_empty()));
    }
}
