//! Two instances that exchange messages, without any network.

use weir_expr::Value;
use weir_expr::table::{DataType, Declaration, KeyType, ServerKeyKind, Stored};
use weir_peers_protocol::message::MAX_LENGTH;
use weir_tables::{Key, LockedEntry, Table};

use super::*;

fn declaration(key: KeyType, expire_ms: u32) -> Declaration {
    let stored = |data, elements, period_ms| Stored { data, elements, period_ms };
    Declaration {
        name: "t".into(),
        key,
        size: 100_000,
        expire_ms,
        no_purge: false,
        bytes_rate_factor: 1,
        server_key: ServerKeyKind::Name,
        stored: vec![
            stored(DataType::ConnectionsCurrent, 1, 0),
            stored(DataType::RequestRate, 1, 10_000),
            stored(DataType::BytesInCount, 1, 0),
            stored(DataType::ServerKey, 1, 0),
            stored(DataType::Gpt, 2, 0),
            stored(DataType::Gpc, 3, 0),
        ],
    }
}

fn table_of(declaration: Declaration) -> Arc<Table> {
    Arc::new(Table::shared(declaration, 1))
}

fn shared(declaration: Declaration) -> Arc<[SharedTable]> {
    [SharedTable::new(table_of(declaration), "t", false, None)].into()
}

fn address(number: u32) -> Key {
    Key::of(Value::Ipv4(number.into()), KeyType::Ipv4).expect("an address")
}

fn text(key: &str) -> Key {
    Key::of(Value::str(key.as_bytes()), KeyType::Text(20)).expect("a string")
}

fn gpc(table: &Table, key: &Key, now_ms: u64) -> Option<u64> {
    table.look(key, now_ms, |row| row.get(DataType::Gpc, 1)).flatten()
}

/// An instance: its tables, and its session with the other one.
struct Instance {
    tables: Arc<[SharedTable]>,
    session: PeerSession,
    heard: Vec<ControlMessage>,
}

impl Instance {
    fn new(tables: Arc<[SharedTable]>) -> Instance {
        Instance { session: PeerSession::new(Arc::clone(&tables), Some(0)), tables, heard: Vec::new() }
    }

    fn table(&self) -> &Table {
        &self.tables[0].table
    }

    fn set(&self, key: &Key, then: impl FnOnce(&mut LockedEntry<'_>)) {
        self.table().store(key, 0, then).expect("room");
    }

    /// The instance's reply to these bytes, received in pieces of `piece` bytes.
    fn say(&mut self, bytes: &[u8], piece: usize, now_ms: u64) -> Result<Vec<u8>, SessionFault> {
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            self.session.hold(piece);
            let heard = &mut self.heard;
            while self.session.receive(now_ms, &mut out, |what| heard.push(what))? {}
        }
        while self.session.produce(200, true, now_ms, &mut out) {}
        Ok(out)
    }
}

/// Exchanges bytes until neither side has anything to send.
fn talk(one: &mut Instance, other: &mut Instance, piece: usize) {
    let mut said = one.say(&[], piece, 0).expect("nothing wrong");
    for _ in 0..10_000 {
        let answer = other.say(&said, piece, 0).expect("nothing wrong");
        said = one.say(&answer, piece, 0).expect("nothing wrong");
        if said.is_empty() && answer.is_empty() {
            return;
        }
    }
    panic!("they never stop");
}

fn pair(key: KeyType) -> (Instance, Instance) {
    let instance = || Instance::new(shared(declaration(key, 60_000)));
    (instance(), instance())
}

#[test]
fn table_changes_of_one_peer_reach_the_other() {
    for piece in [1, 3, 1000] {
        let (mut one, mut other) = pair(KeyType::Text(20));
        one.set(&text("/first"), |row| {
            row.set(DataType::Gpc, 1, 300);
            row.set(DataType::Gpt, 0, 7);
            row.add(DataType::BytesInCount, 0, 1 << 40);
            row.add(DataType::ConnectionsCurrent, 0, 1);
            row.set_server_key("s1");
        });
        other.set(&text("/second"), |row| {
            row.add(DataType::RequestRate, 0, 9);
        });
        talk(&mut one, &mut other, piece);
        let first = other.table().look(&text("/first"), 0, |row| {
            let get = |data, element| row.get(data, element).expect("stored");
            let counts = [get(DataType::Gpc, 1), get(DataType::Gpt, 0), get(DataType::BytesInCount, 0)];
            (counts, get(DataType::ConnectionsCurrent, 0), row.server_key())
        });
        let (counts, current, server) = first.expect("it is there");
        assert_eq!(counts, [300, 7, 1 << 40]);
        assert_eq!(current, 0, "what is open here is open nowhere else");
        assert_eq!(server.as_deref(), Some("s1"));
        let rate = one.table().look(&text("/second"), 0, |row| row.get(DataType::RequestRate, 0));
        assert_eq!(rate.flatten(), Some(9));
        assert_eq!((one.heard.len(), other.heard.len()), (0, 0));
    }
}

#[test]
fn entries_learned_from_a_peer_are_not_sent_back() {
    let (mut one, mut other) = pair(KeyType::Ipv4);
    (0..1000).for_each(|number| one.set(&address(number), |row| _ = row.set(DataType::Gpc, 1, 1)));
    talk(&mut one, &mut other, 1000);
    assert_eq!(other.table().used(), 1000);
    let mut out = Vec::new();
    assert!(!other.session.produce(200, true, 0, &mut out));
    assert_eq!(out, []);
}

#[test]
fn unacknowledged_updates_are_resent_in_the_next_session() {
    let (mut one, mut other) = pair(KeyType::Ipv4);
    (0..700).for_each(|number| one.set(&address(number), |row| _ = row.set(DataType::Gpc, 1, 1)));
    let lost = one.say(&[], 1000, 0).expect("nothing wrong");
    // The other side received the first bytes, and its acknowledgement was lost.
    other.say(&lost[..lost.len() / 3], 1000, 0).expect("nothing wrong");
    let got = other.table().used();
    assert!(got > 100 && got < 600, "{got}");
    one.session.end();
    other.session.end();
    one.session = PeerSession::new(Arc::clone(&one.tables), Some(0));
    other.session = PeerSession::new(Arc::clone(&other.tables), Some(0));
    talk(&mut one, &mut other, 1000);
    assert_eq!(other.table().used(), 700);
}

#[test]
fn the_number_of_unacknowledged_updates_is_limited() {
    let (mut one, _) = pair(KeyType::Ipv4);
    (0..20_000).for_each(|number| one.set(&address(number), |row| _ = row.set(DataType::Gpc, 1, 1)));
    let said = one.say(&[], 1000, 0).expect("nothing wrong");
    assert!(said.len() < 32 * 200 * 40, "{}", said.len());
    assert_eq!(one.say(&[], 1000, 0), Ok(Vec::new()));
}

#[test]
fn a_full_resync_sends_all_entries_with_their_remaining_time() {
    let (mut one, mut other) = pair(KeyType::Ipv4);
    (0..3000)
        .for_each(|number| one.set(&address(number), |row| _ = row.set(DataType::Gpc, 1, u64::from(number))));
    let mut question = Vec::new();
    other.session.request_all(&mut question);
    let lesson = one.say(&question, 1000, 20_000).expect("nothing wrong");
    let answer = other.say(&lesson, 1000, 500_000).expect("nothing wrong");
    assert_eq!(other.table().used(), 3000);
    assert_eq!(other.heard, [ControlMessage::Finished]);
    one.say(&answer, 1000, 20_000).expect("nothing wrong");
    assert_eq!(one.heard, [ControlMessage::Confirmed]);
    assert_eq!(gpc(other.table(), &address(77), 539_999), Some(77));
    assert_eq!(gpc(other.table(), &address(77), 540_000), None, "40 seconds were left");
}

#[test]
fn a_resync_from_a_peer_still_learning_ends_as_partial() {
    let (mut one, mut other) = pair(KeyType::Ipv4);
    one.session.teach();
    let mut lesson = Vec::new();
    while one.session.produce(10, false, 0, &mut lesson) {}
    other.say(&lesson, 1000, 0).expect("nothing wrong");
    assert_eq!(other.heard, [ControlMessage::Partial]);
}

#[test]
fn a_table_with_another_key_type_at_the_peer_is_skipped() {
    let mut one = Instance::new(shared(declaration(KeyType::Ipv4, 0)));
    let mut other = Instance::new(shared(declaration(KeyType::Ipv6, 0)));
    one.set(&address(1), |row| _ = row.set(DataType::Gpc, 1, 1));
    talk(&mut one, &mut other, 1000);
    assert_eq!(other.heard, [ControlMessage::OtherTable { table: 0, mismatch: Mismatch::Keys }]);
    assert_eq!(other.table().used(), 0);
}

#[test]
fn a_rate_with_another_period_at_the_peer_is_skipped_and_reported_once() {
    let mut one = Instance::new(shared(declaration(KeyType::Ipv4, 0)));
    let mut longer = declaration(KeyType::Ipv4, 0);
    longer.stored[1].period_ms = 60_000;
    let mut other = Instance::new(shared(longer));
    for key in 1..3 {
        one.set(&address(key), |row| {
            row.count(DataType::RequestCount, DataType::RequestRate, 7);
            let _ = row.set(DataType::Gpc, 1, 5);
        });
        // A table is defined again in each session, and may be at any time.
        talk(&mut one, &mut other, 1000);
        one.session.teach();
        talk(&mut one, &mut other, 1000);
    }
    let mismatch = Mismatch::Period { data: DataType::RequestRate, theirs_ms: 10_000, ours_ms: 60_000 };
    let reports = other.heard.iter().filter(|heard| matches!(heard, ControlMessage::OtherTable { .. }));
    assert_eq!(Vec::from_iter(reports), [&ControlMessage::OtherTable { table: 0, mismatch }]);
    let rate =
        |of: &Instance| of.table().look(&address(1), 0, |row| row.get(DataType::RequestRate, 0)).flatten();
    assert_eq!((rate(&one), rate(&other)), (Some(7), Some(0)));
    assert_eq!(gpc(other.table(), &address(2), 0), Some(5), "what else there is counts");
}

/// The mismatches that the other instance reports after a change of the declaration, and the counter that it learns.
fn differing(change: impl FnOnce(&mut Declaration)) -> (Vec<ControlMessage>, Option<u64>) {
    let mut one = Instance::new(shared(declaration(KeyType::Ipv4, 0)));
    let mut changed = declaration(KeyType::Ipv4, 0);
    change(&mut changed);
    let mut other = Instance::new(shared(changed));
    one.set(&address(1), |row| _ = row.set(DataType::Gpc, 1, 5));
    talk(&mut one, &mut other, 1000);
    (other.heard, gpc(&other.tables[0].table, &address(1), 0))
}

#[test]
fn data_types_stored_by_only_one_peer_are_reported_and_skipped() {
    let reports = |mismatch| vec![ControlMessage::OtherTable { table: 0, mismatch }];
    let bit = |data: DataType| 1 << data as u32;
    assert_eq!(differing(|_| ()), (vec![], Some(5)));
    assert_eq!(
        differing(|changed| {
            changed.stored.retain(|stored| stored.data != DataType::Gpt);
            changed.stored.push(Stored { data: DataType::GlitchCount, elements: 1, period_ms: 0 });
        }),
        (
            reports(Mismatch::Data {
                only_theirs: bit(DataType::Gpt),
                only_ours: bit(DataType::GlitchCount)
            }),
            Some(5)
        )
    );
    let length = |changed: &mut Declaration| {
        let gpc = changed.stored.iter_mut().find(|stored| stored.data == DataType::Gpc);
        gpc.expect("stored").elements += 3;
    };
    let plain = declaration(KeyType::Ipv4, 0);
    let theirs = plain.stored.iter().find(|stored| stored.data == DataType::Gpc).expect("stored").elements;
    let mismatch = Mismatch::Elements { data: DataType::Gpc, theirs, ours: theirs + 3 };
    assert_eq!(differing(length), (reports(mismatch), Some(5)));
    let words = Mismatch::Data { only_theirs: bit(DataType::Gpt), only_ours: bit(DataType::GlitchCount) };
    assert_eq!(
        words.in_words("t"),
        "has another table 't': it stores what this instance does not: 'gpt', and does not store what this instance does: \
         'glitch_cnt'; that is not shared"
    );
}

#[test]
fn repeated_updates_count_once_and_the_last_one_is_acknowledged() {
    let (mut one, mut other) = pair(KeyType::Ipv4);
    let mut batches = Vec::new();
    for count in 1..=3 {
        one.set(&address(1), |row| _ = row.set(DataType::Gpc, 1, count));
        batches.push(one.say(&[], 1000, 0).expect("nothing wrong"));
    }
    // Each update has a number. Updates may be repeated, reordered or lost.
    let mut answers = Vec::new();
    for number in [0, 1, 2, 2, 0, 1, 2] {
        answers.push(other.say(&batches[number], 1000, 0).expect("nothing wrong"));
        let mut acknowledgement = Vec::new();
        write::acknowledgement(1, number as u32 + 1, &mut acknowledgement);
        assert_eq!(*answers.last().expect("one"), acknowledgement, "of the number that came");
        assert_eq!(gpc(other.table(), &address(1), 0), Some(number as u64 + 1), "the last word counts");
    }
    assert_eq!(other.table().used(), 1);
    // Acknowledgements that are duplicate, premature or for an unknown table change nothing.
    for answer in &answers {
        assert_eq!(one.say(answer, 1000, 0).expect("nothing wrong"), b"");
    }
    let mut early = Vec::new();
    write::acknowledgement(1, 1_000, &mut early);
    write::acknowledgement(77, u32::MAX, &mut early);
    assert_eq!(one.say(&early, 1000, 0).expect("nothing wrong"), b"");
    one.set(&address(1), |row| _ = row.set(DataType::Gpc, 1, 9));
    talk(&mut one, &mut other, 1000);
    assert_eq!(gpc(other.table(), &address(1), 0), Some(9));
}

#[test]
fn peers_with_different_or_jumping_clocks_exchange_rates() {
    let (mut one, mut other) = pair(KeyType::Ipv4);
    // One process has just started. The other one's 32-bit milliseconds wrap in a second. Clocks are not
    // transmitted.
    let (here, mut there) = (5_000, (1_u64 << 32) - 1_000);
    let counted = one.table().store(&address(1), here, |row| row.add(DataType::RequestRate, 0, 8));
    assert_eq!(counted.flatten(), Some(8));
    let exchange = |one: &mut Instance, other: &mut Instance, here, there| {
        let batch = one.say(&[], 1000, here).expect("nothing wrong");
        let answer = other.say(&batch, 1000, there).expect("nothing wrong");
        one.say(&answer, 1000, here).expect("nothing wrong");
    };
    exchange(&mut one, &mut other, here, there);
    let rate = |of: &Instance, at| {
        of.table().look(&address(1), at, |row| row.get(DataType::RequestRate, 0)).flatten()
    };
    assert_eq!(rate(&other, there), Some(8));
    // The period of 10 s began 5 s before it was sent.
    there += 10_000;
    assert_eq!(rate(&other, there), Some(4), "half a period after it ended");
    assert_eq!(rate(&other, there + 49_000), Some(0), "a second before the entry expires");
    assert_eq!(rate(&other, there + 51_000), None);
    // After a day of sleep the entry has expired until it is sent again.
    there += 86_400_000;
    assert_eq!(rate(&other, there), None);
    one.table().store(&address(1), here + 1, |row| row.add(DataType::RequestRate, 0, 1));
    exchange(&mut one, &mut other, here + 1, there);
    assert_eq!(rate(&other, there), Some(9));
}

#[test]
fn a_peer_table_with_an_unknown_name_is_ignored() {
    let mut one = Instance::new(shared(declaration(KeyType::Ipv4, 0)));
    let stranger = SharedTable::new(table_of(declaration(KeyType::Ipv4, 0)), "u", false, None);
    let mut other = Instance::new([stranger].into());
    one.set(&address(1), |row| _ = row.set(DataType::Gpc, 1, 1));
    talk(&mut one, &mut other, 1000);
    assert_eq!((other.heard.len(), other.table().used()), (0, 0));
}

#[test]
fn a_receive_only_table_learns_the_local_data_of_peers() {
    let mut one = Instance::new(shared(declaration(KeyType::Ipv4, 0)));
    let written = table_of(declaration(KeyType::Ipv4, 0));
    let table = table_of(declaration(KeyType::Ipv4, 0));
    let mut other =
        Instance::new([SharedTable::new(Arc::clone(&table), "t", true, Some(Arc::clone(&written)))].into());
    one.set(&address(1), |row| {
        row.add(DataType::ConnectionsCurrent, 0, 3);
        row.set(DataType::Gpc, 1, 5);
        row.set(DataType::Gpt, 0, 6);
        row.set_server_key("s1");
    });
    talk(&mut one, &mut other, 1000);
    let get =
        |table: &Table, data, element| table.look(&address(1), 0, |row| row.get(data, element)).flatten();
    assert_eq!(get(&table, DataType::ConnectionsCurrent, 0), Some(3));
    // Counts are not written to the other table ('write-to').
    assert_eq!(get(&written, DataType::Gpc, 1), Some(0));
    assert_eq!(get(&written, DataType::Gpt, 0), Some(6));
    let server = written.look(&address(1), 0, |row| row.server_key()).flatten();
    assert_eq!(server.as_deref(), Some("s1"));
}

#[test]
fn a_malformed_message_ends_the_peer_session_with_an_error_message() {
    let (mut one, _) = pair(KeyType::Ipv4);
    let mut out = Vec::new();
    one.session.hold(&[10, 128, 2, 0, 0]);
    assert_eq!(one.session.receive(0, &mut out, |_| ()), Err(SessionFault::Malformed));
    assert_eq!(out, [1, 0]);
    let (mut one, _) = pair(KeyType::Ipv4);
    out.clear();
    // An entry of 16 megabytes.
    one.session.hold(&[10, 128, 0xf0, 0xf1, 0xfe, 0xfe, 0x3e]);
    assert_eq!(one.session.receive(0, &mut out, |_| ()), Err(SessionFault::TooLong));
    assert_eq!(out, [1, 1]);
}

#[test]
fn the_bytes_held_of_an_incomplete_peer_message_are_limited() {
    let (mut one, _) = pair(KeyType::Ipv4);
    let mut out = Vec::new();
    // A length of 32,000 bytes, and then as many bytes as the session takes.
    let mut length = Vec::new();
    weir_peers_protocol::integer::write(32_000, &mut length);
    one.session.hold(&[&[77, 200], &length[..]].concat());
    for _ in 0..100 {
        one.session.hold(&[0; 1000]);
        while one.session.receive(0, &mut out, |_| ()).expect("control messages of no meaning") {}
        assert!(one.session.held.len() <= MAX_LENGTH);
    }
}
