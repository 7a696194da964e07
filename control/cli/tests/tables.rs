//! `show table`, `set table` and `clear table`. The output is exactly HAProxy 3.2's.

mod toy;

use std::sync::Arc;

use toy::{Toy, converse, toy};
use weir_cli::{CliSession, Level, SessionSettings, TransportAction};
use weir_expr::Value;
use weir_tables::{DataType, Declaration, Key, KeyType, ServerKeyKind, Stored, Table};

fn table(name: &str, key: KeyType, stored: &[(DataType, u16, u32)]) -> Arc<Table> {
    let stored = stored.iter();
    let stored = stored.map(|(data, elements, period_ms)| Stored {
        data: *data,
        elements: *elements,
        period_ms: *period_ms,
    });
    Arc::new(Table::new(Declaration {
        name: name.into(),
        key,
        size: 10_000,
        expire_ms: 60_000,
        no_purge: false,
        bytes_rate_factor: 1,
        server_key: ServerKeyKind::Name,
        stored: stored.collect(),
    }))
}

fn with_tables() -> Toy {
    let mut toy = toy();
    toy.tables = vec![
        table("a", KeyType::Ipv4, &[(DataType::Gpc0, 1, 0), (DataType::ConnectionRate, 1, 10_000)]),
        table("b", KeyType::Text(10), &[(DataType::Gpc, 2, 0), (DataType::GpcRate, 2, 5_000)]),
        table("c", KeyType::Binary(4), &[(DataType::ServerKey, 1, 0)]),
    ];
    toy
}

fn run_command(toy: &mut Toy, line: &str, room: usize) -> String {
    let settings = SessionSettings { level: Level::Admin, ..SessionSettings::default() };
    let answer = converse(toy, settings, format!("{line}\n").as_bytes(), usize::MAX, room);
    without_numbers(&answer)
}

/// Removes the entry numbers, which are unpredictable.
fn without_numbers(answer: &str) -> String {
    let lines = answer.lines().map(|line| match line.split_once(": ") {
        Some((number, rest)) if number.starts_with("0x") => format!("{rest}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

fn check(dialogue: &[(&str, &str)]) {
    let mut toy = with_tables();
    for (line, expected) in dialogue {
        assert_eq!(run_command(&mut toy, line, usize::MAX), *expected, "to {line:?}");
    }
}

#[test]
fn set_table_and_clear_table_change_the_entries_of_show_table() {
    check(&[
        (
            "show table",
            "# table: c, type: binary, size:10000, used:0\n# table: b, type: string, size:10000, used:0\n\
             # table: a, type: ip, size:10000, used:0\n\n",
        ),
        ("set table a key 1.2.3.4 data.gpc0 5 data.conn_rate 7", "\n"),
        (
            "show table a",
            "# table: a, type: ip, size:10000, used:1\n\
             key=1.2.3.4 use=0 exp=60000 shard=0 gpc0=5 conn_rate(10000)=7\n\n",
        ),
        (
            "show table a key 1.2.3.4",
            "# table: a, type: ip, size:10000, used:1\n\
             key=1.2.3.4 use=0 exp=60000 shard=0 gpc0=5 conn_rate(10000)=7\n\n",
        ),
        ("show table a key 1.2.3.5", "\n"),
        ("set table b key with\\ space data.gpc[1] 9", "\n"),
        (
            "show table b",
            "# table: b, type: string, size:10000, used:1\n\
             key=with\\ space use=0 exp=60000 shard=0 gpc0=0 gpc1=9 gpc0_rate(5000)=0 gpc1_rate(5000)=0\n\n",
        ),
        ("clear table a key 1.2.3.4", "\n"),
        ("show table a", "# table: a, type: ip, size:10000, used:0\n\n"),
    ]);
}

#[test]
fn data_filters_select_entries_of_a_table() {
    check(&[
        ("set table a key 1.0.0.1 data.gpc0 1", "\n"),
        ("set table a key 1.0.0.2 data.gpc0 2 data.conn_rate 5", "\n"),
        (
            "show table a data.gpc0 gt 1",
            "# table: a, type: ip, size:10000, used:2\n\
             key=1.0.0.2 use=0 exp=60000 shard=0 gpc0=2 conn_rate(10000)=5\n\n",
        ),
        ("show table a data.gpc0 gt 0 data.conn_rate gt 5", "# table: a, type: ip, size:10000, used:2\n\n"),
        ("clear table a data.gpc0 le 1", "\n"),
        (
            "show table a",
            "# table: a, type: ip, size:10000, used:1\n\
             key=1.0.0.2 use=0 exp=60000 shard=0 gpc0=2 conn_rate(10000)=5\n\n",
        ),
        ("clear table a", "\n"),
        ("show table a", "# table: a, type: ip, size:10000, used:0\n\n"),
    ]);
}

#[test]
fn invalid_table_arguments_give_haproxys_error_messages() {
    let usage_of_clear = "Required arguments: <table> \"data.<store_data_type>\" <operator> <value> or <table> key <key> \
                          or <table> ptr <ptr>\n\n";
    check(&[
        ("show table nope", "No such table\n\n"),
        (
            "show table a nope",
            "Optional argument only supports \"data.<store_data_type>\" <operator> <value> or key <key> or ptr <ptr>\n\n",
        ),
        ("show table a key", "Key value expected\n\n"),
        ("show table a key nope", "Invalid key\n\n"),
        ("show table a ptr zz", "Pointer expected (0xffff notation)\n\n"),
        ("show table a ptr 0x12", "No entry can be found matching ptr.\n\n"),
        ("show table a data.nope gt 1", "Filter entry #1: Unknown data type\n\n"),
        ("show table a data.gpc gt 1", "Filter entry #1: Data type not stored in this table\n\n"),
        (
            "show table a data.gpc0 xx 1",
            "Filter entry #1: Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"\n\n",
        ),
        (
            "show table a data.gpc0 gt a",
            "Filter entry #1: Require a valid integer value to compare against\n\n",
        ),
        ("set table b key k data.gpc[2] 1", "index out of range in this data array\n\n"),
        ("set table a key 1.1.1.1 data.gpc0", "Require a valid integer value to store\n\n"),
        (
            "set table c key abcd",
            "Inserting keys into tables of type other than ip, ipv6, string and integer is not supported\n\n",
        ),
        (
            "set table a data.gpc0 eq 1",
            "content-based lookup is only supported with the \"show\" and \"clear\" actions\n\n",
        ),
        ("clear table", usage_of_clear),
        ("clear table a nope", usage_of_clear),
    ]);
}

#[test]
fn clear_table_ptr_keeps_an_entry_while_it_is_tracked() {
    let mut toy = with_tables();
    let key = Key::of(Value::Int(1), KeyType::Ipv4).expect("a key");
    let (entry, ()) = toy.tables[0].track(&key, 1_000, |_| ()).expect("room");
    let number = format!("0x{:x}", entry.number());
    let shown = "# table: a, type: ip, size:10000, used:1\n\
                 key=0.0.0.1 use=1 exp=60000 shard=0 gpc0=0 conn_rate(10000)=0\n\n";
    assert_eq!(run_command(&mut toy, &format!("show table a ptr {number}"), usize::MAX), shown);
    let refused = "Entry currently in use, cannot remove\n\n";
    assert_eq!(run_command(&mut toy, &format!("clear table a ptr {number}"), usize::MAX), refused);
    assert_eq!(run_command(&mut toy, "clear table a key 0.0.0.1", usize::MAX), refused);
    toy.tables[0].untrack(entry, 1_000, |_| ());
    assert_eq!(run_command(&mut toy, &format!("clear table a ptr {number}"), usize::MAX), "\n");
    let gone = "No entry can be found matching ptr.\n\n";
    assert_eq!(run_command(&mut toy, &format!("clear table a ptr {number}"), usize::MAX), gone);
}

#[test]
fn show_table_sends_a_long_list_in_pieces_without_losses() {
    let mut toy = with_tables();
    for number in 0..5_000 {
        let key = Key::of(Value::Int(number), KeyType::Ipv4).expect("a key");
        toy.tables[0].store(&key, 1_000, |_| ());
    }
    let answer = run_command(&mut toy, "show table a", 100);
    let mut keys: Vec<&str> = answer.lines().filter_map(|line| line.split(' ').next()).collect();
    keys.retain(|word| word.starts_with("key="));
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5_000);
    assert_eq!(run_command(&mut toy, "clear table a", 100), "\n");
    assert_eq!(toy.tables[0].used(), 0);
}

#[test]
fn table_commands_yield_after_a_bounded_number_of_entries() {
    let mut toy = with_tables();
    let fill = |toy: &Toy| {
        for number in 0..5_000 {
            let key = Key::of(Value::Int(number), KeyType::Ipv4).expect("a key");
            toy.tables[0].store(&key, 1_000, |_| ());
        }
    };
    // Even without any output: nothing matches, but all entries are visited.
    for (line, most_removed, turns) in
        [("clear table a", 288, 18..=30), ("clear table a data.gpc0 gt 0", 0, 4..=8)]
    {
        fill(&toy);
        let settings = SessionSettings { level: Level::Admin, ..SessionSettings::default() };
        let mut session = CliSession::new(settings);
        session.feed(format!("{line}\n").as_bytes());
        let mut taken = 0;
        loop {
            let before = toy.tables[0].used();
            let status = session.run(&mut toy, 0, 1000, &mut Vec::new());
            let removed = before - toy.tables[0].used();
            assert!(removed <= most_removed, "{removed} in one turn of {line:?}");
            if status != TransportAction::More {
                break;
            }
            taken += 1;
        }
        assert!(turns.contains(&taken), "{taken} turns of {line:?}");
    }
}

/// Keys are client addresses and tokens. Every form of the command hides them from `level user`.
#[test]
fn level_user_hides_the_entries_of_a_table() {
    let mut toy = with_tables();
    run_command(&mut toy, "set table a key 10.0.0.1 data.gpc0 3", usize::MAX);
    let head = "# table: a, type: ip, size:10000, used:1\n";
    let concealed = format!("{head}# contents not dumped due to insufficient privileges\n\n");
    for (level, line, expected) in [
        (Level::User, "show table a", &*concealed),
        (Level::User, "show table a data.gpc0 gt 0", &concealed),
        (Level::User, "show table a key 10.0.0.1", "Permission denied\n\n"),
        (Level::User, "show table a ptr 0x1", "Permission denied\n\n"),
        (Level::User, "set table a key 10.0.0.1 data.gpc0 4", "Permission denied\n\n"),
        (Level::User, "clear table a", "Permission denied\n\n"),
        (Level::Operator, "set table a key 10.0.0.1 data.gpc0 4", "\n"),
        (
            Level::Operator,
            "show table a",
            &format!("{head}key=10.0.0.1 use=0 exp=60000 shard=0 gpc0=4 conn_rate(10000)=0\n\n"),
        ),
        (Level::Operator, "clear table a", "\n"),
        (Level::Operator, "show table a", "# table: a, type: ip, size:10000, used:0\n\n"),
    ] {
        let settings = SessionSettings { level, ..SessionSettings::default() };
        let answer = converse(&mut toy, settings, format!("{line}\n").as_bytes(), usize::MAX, usize::MAX);
        assert_eq!(without_numbers(&answer), expected, "{line} at {level:?}");
    }
}
