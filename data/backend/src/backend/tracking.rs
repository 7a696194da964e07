//! Which servers follow which (`track`), and which followers are not updated yet.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::Backend;
use crate::notice::Followers;
use crate::server_key::ServerKey;

/// A server that tracks another one's state (`track`) or is tracked.
#[derive(Clone, Debug)]
pub struct TrackMember {
    pub backend: Weak<Backend>,
    pub server: ServerKey,
}

impl TrackMember {
    /// Whether this is the given server of the given backend.
    fn is(&self, backend: &Weak<Backend>, server: ServerKey) -> bool {
        self.server == server && Weak::ptr_eq(&self.backend, backend)
    }
}

/// The servers that follow others, and their leaders.
#[derive(Default)]
pub(super) struct ServerTracking {
    /// Followers by their leader, a server of this backend.
    followers: HashMap<ServerKey, ServerFollowers>,
    /// Leaders by their follower, a server of this backend.
    leaders: HashMap<ServerKey, TrackMember>,
}

impl ServerTracking {
    pub(super) fn leader(&self, follower: ServerKey) -> Option<&TrackMember> {
        self.leaders.get(&follower)
    }

    pub(super) fn set_leader(&mut self, follower: ServerKey, leader: TrackMember) {
        self.leaders.insert(follower, leader);
    }

    pub(super) fn take_leader(&mut self, follower: ServerKey) -> Option<TrackMember> {
        self.leaders.remove(&follower)
    }

    pub(super) fn is_followed(&self, leader: ServerKey) -> bool {
        self.followers.contains_key(&leader)
    }

    pub(super) fn add(&mut self, leader: ServerKey, follower: TrackMember) {
        self.followers.entry(leader).or_default().add(follower);
    }

    pub(super) fn remove(&mut self, leader: ServerKey, backend: &Weak<Backend>, server: ServerKey) {
        let Some(led) = self.followers.get_mut(&leader) else { return };
        led.remove(|follower| follower.is(backend, server));
        if led.list.is_empty() {
            self.followers.remove(&leader);
        }
    }

    /// Starts a pass over all followers after a change of the leader. False without followers.
    pub(super) fn begin(&mut self, leader: ServerKey) -> bool {
        self.followers.get_mut(&leader).map(ServerFollowers::begin).is_some()
    }

    /// The next follower to update.
    pub(super) fn next(&mut self, leader: ServerKey) -> Option<TrackMember> {
        self.followers.get_mut(&leader)?.next()
    }

    /// The remaining followers of the pass. `None` if the pass is complete or another task continues it.
    pub(super) fn rest(&mut self, leader: ServerKey, backend: &Weak<Backend>) -> Option<Followers> {
        let held = self.followers.get_mut(&leader)?.rest()?;
        Some(Followers::new(Weak::clone(backend) as _, leader, held))
    }
}

/// The followers of one server. A change updates all, the last one first, as HAProxy does. If the server changes again
/// during the pass, the pass continues from its position until all were updated again, so frequent changes starve no
/// follower.
#[derive(Default)]
struct ServerFollowers {
    /// The followers, in the order in which they were added.
    list: Vec<TrackMember>,
    /// The index of the follower that was updated last. The followers below it come next.
    next: usize,
    /// How many followers remain: from `next` down, then from the end of the list down.
    left: usize,
    /// Held by the task that continues the pass.
    held: Weak<()>,
}

impl ServerFollowers {
    /// Adds a follower. It already has its leader's state or is updated in the current pass.
    fn add(&mut self, follower: TrackMember) {
        if self.left > self.next {
            self.left += 1;
        }
        self.list.push(follower);
    }

    fn remove(&mut self, is: impl Fn(&TrackMember) -> bool) {
        let Some(place) = self.list.iter().position(is) else { return };
        let count = self.list.len();
        // How many updates come before the update of this follower.
        let turn = (self.next + count - 1 - place) % count;
        self.left -= usize::from(turn < self.left);
        self.next -= usize::from(place < self.next);
        self.list.remove(place);
    }

    fn begin(&mut self) {
        if self.left == 0 {
            self.next = self.list.len();
        }
        self.left = self.list.len();
    }

    fn next(&mut self) -> Option<TrackMember> {
        self.left = self.left.checked_sub(1)?;
        if self.next == 0 {
            self.next = self.list.len();
        }
        self.next -= 1;
        self.list.get(self.next).cloned()
    }

    fn rest(&mut self) -> Option<Arc<()>> {
        if self.left == 0 {
            // The previous holder is done, even if it did not drop `held` yet.
            self.held = Weak::new();
            return None;
        }
        if self.held.strong_count() > 0 {
            return None;
        }
        let held = Arc::new(());
        self.held = Arc::downgrade(&held);
        Some(held)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn follower(rank: u32) -> TrackMember {
        TrackMember { backend: Weak::new(), server: ServerKey::configured(rank) }
    }

    fn led(count: u32) -> ServerFollowers {
        let mut led = ServerFollowers::default();
        (0..count).for_each(|rank| led.add(follower(rank)));
        led
    }

    /// The next followers to update, at most `most`.
    fn notified(led: &mut ServerFollowers, most: usize) -> Vec<usize> {
        std::iter::from_fn(|| led.next()).take(most).map(|follower| follower.server.index()).collect()
    }

    #[test]
    fn updates_the_newest_follower_first() {
        let mut led = led(4);
        assert_eq!(notified(&mut led, 9), [], "nothing changed yet");
        led.begin();
        assert_eq!(notified(&mut led, 9), [3, 2, 1, 0]);
        led.begin();
        assert_eq!(notified(&mut led, 2), [3, 2]);
        led.begin();
        assert_eq!(notified(&mut led, 9), [1, 0, 3, 2], "all once more, and nobody is left out");
        led.begin();
        assert_eq!(notified(&mut led, 9), [3, 2, 1, 0]);
    }

    #[test]
    fn followers_added_or_removed_during_a_pass_are_updated_once() {
        let gone = |rank: u32| move |other: &TrackMember| other.server == ServerKey::configured(rank);
        let check = |change: &dyn Fn(&mut ServerFollowers), expected: &[usize]| {
            let mut led = led(6);
            led.begin();
            assert_eq!(notified(&mut led, 2), [5, 4]);
            change(&mut led);
            assert_eq!(notified(&mut led, 9), expected);
        };
        check(&|led| led.remove(gone(5)), &[3, 2, 1, 0]);
        check(&|led| led.remove(gone(4)), &[3, 2, 1, 0]);
        check(&|led| led.remove(gone(3)), &[2, 1, 0]);
        check(&|led| led.remove(gone(0)), &[3, 2, 1]);
        check(&|led| led.remove(gone(9)), &[3, 2, 1, 0]);
        check(&|led| led.add(follower(6)), &[3, 2, 1, 0]);
        let again = |led: &mut ServerFollowers, change: &dyn Fn(&mut ServerFollowers)| {
            led.begin();
            change(led);
        };
        check(&|led| again(led, &|_| ()), &[3, 2, 1, 0, 5, 4]);
        check(&|led| again(led, &|led| led.add(follower(6))), &[3, 2, 1, 0, 6, 5, 4]);
        check(&|led| again(led, &|led| led.remove(gone(5))), &[3, 2, 1, 0, 4]);
        check(&|led| again(led, &|led| led.remove(gone(1))), &[3, 2, 0, 5, 4]);
    }

    #[test]
    fn only_one_task_at_a_time_continues_a_pass_over_followers() {
        let mut led = led(3);
        led.begin();
        drop(led.next());
        let held = led.rest();
        assert!(held.is_some() && led.rest().is_none());
        assert_eq!(notified(&mut led, 9), [1, 0]);
        assert!(led.rest().is_none(), "all were notified");
        led.begin();
        let next = led.rest();
        assert!(next.is_some(), "who was done may still hold something");
        drop((held, next));
        assert!(led.rest().is_some(), "nobody went on");
    }
}
