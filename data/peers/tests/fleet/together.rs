//! Instances with aggregated tables (`aggregate`): each reads the sum, even across failures.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

const PERIOD_MS: u32 = 10_000;

/// An instance with an aggregated table.
fn member(name: &str, has_predecessor: bool) -> Instance {
    let mut declaration = declaration();
    let stored = |data, period_ms| Stored { data, elements: 1, period_ms };
    declaration.stored.push(stored(DataType::Gpc0Rate, PERIOD_MS));
    declaration.stored.push(stored(DataType::Gpt0, 0));
    Instance::of_table(name, has_predecessor, Table::aggregate(declaration, NAMES.len() - 1))
}

impl Instance {
    /// Counts one event of a key. Returns the sum over all instances that this one currently knows.
    fn add(self, number: u32) -> u64 {
        let added = self.table.store(&key(number), now().as_ms(), |row| {
            row.add(DataType::Gpc0Rate, 0, 1);
            row.add(DataType::Gpc0, 0, 1)
        });
        added.flatten().expect("room")
    }

    fn rate(self, number: u32) -> u64 {
        let rate = self.table.look(&key(number), now().as_ms(), |row| row.get(DataType::Gpc0Rate, 0));
        rate.flatten().unwrap_or(0)
    }
}

/// Asserts that all instances read the same counts.
#[track_caller]
fn assert_all_read(fleet: &[Instance], counts: &[u64], what: &str) {
    for instance in fleet {
        let read: Vec<_> =
            (0..counts.len() as u32).map(|number| instance.counted(number).unwrap_or(0)).collect();
        assert_eq!(read, counts, "{} {what}", instance.section.local);
    }
}

#[test]
fn all_instances_read_the_same_sum_of_counts() {
    for seed in 0..10 {
        simulate(seed, SLOW, |network| async move {
            let fleet = NAMES.map(|name| member(name, false).start(&network));
            // Counting begins before the instances are connected.
            let mut counts = [0; 20];
            for step in 0..3000 {
                let number = network.random(20) as u32;
                fleet[network.random(3) as usize].add(number);
                counts[number as usize] += 1;
                if step % 100 == 0 {
                    pass(network.random(500)).await;
                }
            }
            pass(15_000).await;
            assert_all_read(&fleet, &counts, "");
            for number in 0..300 {
                fleet[number % 3].add(3);
                pass(network.random(20)).await;
            }
            pass(100).await;
            let rates = fleet.map(|instance| instance.rate(3));
            assert!(rates.iter().all(|rate| rate.abs_diff(rates[0]) <= 2), "{rates:?}");
            assert!((295..=301).contains(&rates[0]), "{rates:?}");
            pass(2 * u64::from(PERIOD_MS)).await;
            assert_eq!(
                fleet.map(|instance| instance.rate(3)),
                [0; 3],
                "rates are decayed where they are read"
            );
        });
    }
}

#[test]
fn connection_failures_neither_lose_nor_repeat_counts() {
    for seed in 0..30 {
        simulate(seed, ROUGH, move |network| async move {
            let fleet = NAMES.map(|name| member(name, false).start(&network));
            let (mut counts, mut own) = ([0; 20], [[0; 20]; 3]);
            for _ in 0..600 {
                let (number, who) = (network.random(20) as u32, network.random(3) as usize);
                let sum = fleet[who].add(number);
                counts[number as usize] += 1;
                own[who][number as usize] += 1;
                // Counts of other instances may still be in transit. Our own are included.
                let all = own[who][number as usize]..=counts[number as usize];
                assert!(all.contains(&sum), "{sum} is not in {all:?}, seed {seed}");
                pass(network.random(80)).await;
            }
            network.change(|conditions| conditions.resets = 0);
            pass(30_000).await;
            assert_all_read(&fleet, &counts, &format!("seed {seed}"));
        });
    }
}

#[test]
fn a_rate_limit_holds_for_the_sum_of_three_instances() {
    const LIMIT: u64 = 500;
    for seed in 0..5 {
        simulate(seed, SLOW, move |network| async move {
            let fleet = NAMES.map(|name| member(name, false).start(&network));
            pass(10_000).await;
            let periods = 6;
            let mut passed = 0;
            // Five times as many requests arrive as the limit allows.
            for _ in 0..periods * u64::from(PERIOD_MS) / 4 {
                let instance = fleet[network.random(3) as usize];
                if instance.rate(1) < LIMIT {
                    instance.add(1);
                    passed += 1;
                }
                pass(4).await;
            }
            let offered = LIMIT * periods;
            assert!(passed * 10 <= offered * 11, "{passed} of {offered}, seed {seed}");
            assert!(passed * 10 >= offered * 8, "{passed} of {offered}, seed {seed}");
        });
    }
}

#[test]
fn a_restarted_instance_recovers_its_counts_and_continues() {
    for seed in 0..10 {
        simulate(seed, Conditions { latency_us: 2000, ..Conditions::CALM }, |network| async move {
            let [former, b, c] = NAMES.map(|name| member(name, false).start(&network));
            pass(10_000).await;
            let mut counts = [0; 20];
            let all = Rc::new(RefCell::new(vec![former, b, c]));
            let count = |turns: u32, counts: &mut [u64; 20]| {
                for _ in 0..turns {
                    let number = network.random(20) as u32;
                    let fleet = all.borrow();
                    fleet[network.random(fleet.len() as u64) as usize].add(number);
                    counts[number as usize] += 1;
                }
            };
            count(300, &mut counts);
            pass(500).await;
            former.section.stop();
            pass(2_000).await;
            all.borrow_mut().remove(0);
            count(50, &mut counts);
            let a = member("A", false).start(&network);
            // The instance counts before it has learned anything.
            all.borrow_mut().push(a);
            count(50, &mut counts);
            pass(20_000).await;
            count(50, &mut counts);
            pass(1_000).await;
            assert_all_read(&all.borrow(), &counts, "");
        });
    }
}

#[test]
fn a_stopping_process_passes_its_counts_to_its_successor() {
    simulate(1, Conditions::CALM, |network| async move {
        let b = member("B", false).start(&network);
        let former = member("A", false);
        former.section.start();
        pass(10_000).await;
        (0..5).for_each(|_| _ = former.add(0));
        (0..3).for_each(|_| _ = b.add(0));
        pass(500).await;
        assert_all_read(&[former, b], &[8], "");
        let next = member("A", true).start(&network);
        next.add(0);
        former.section.stop();
        former.section.teach_successor().await;
        assert_eq!(next.counted(0), Some(9));
        pass(20_000).await;
        assert_all_read(&[next, b], &[9], "");
        next.add(0);
        pass(500).await;
        assert_all_read(&[next, b], &[10], "");
    });
}

#[test]
fn an_update_of_a_peer_that_does_not_sum_sets_the_total() {
    simulate(1, Conditions::CALM, |network| async move {
        let [a, b] = ["A", "B"].map(|name| member(name, false).start(&network));
        let plain = Instance::new("C", false).start(&network);
        pass(10_000).await;
        (0..5).for_each(|_| _ = a.add(0));
        pass(500).await;
        (0..3).for_each(|_| _ = b.add(0));
        pass(500).await;
        assert_all_read(&[a, b, plain], &[8], "");
        plain.count(0, 10);
        pass(500).await;
        assert_all_read(&[a, b, plain], &[10], "");
        a.add(0);
        pass(500).await;
        assert_all_read(&[a, b, plain], &[11], "");
    });
}
