//! `show timeline`: entries of all workers, in the order in which the streams began.

mod toy;

use toy::{converse, toy};
use weir_cli::SessionSettings;
use weir_events::timeline::{StreamRecord, StreamText};

#[test]
fn show_timeline_merges_the_streams_of_all_workers_by_time() {
    let mut toy = toy();
    for (worker, began_us, status) in [(0, 30, 503), (1, 10, 504), (1, 20, 200)] {
        let mut entry = StreamRecord { began_us, status, number: began_us, ..StreamRecord::default() };
        entry.set_word(StreamText::Frontend, "web");
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        toy.timelines[worker].write(worker, &[&bytes]);
    }
    let mut run_command = |line: &[u8]| converse(&mut toy, SessionSettings::default(), line, usize::MAX, 1);
    let numbers = |heard: &str| -> Vec<String> {
        heard.split('#').skip(1).filter_map(|rest| rest.split(' ').next()).map(str::to_owned).collect()
    };
    assert_eq!(numbers(&run_command(b"show timeline\n")), ["10", "20", "30"]);
    assert_eq!(numbers(&run_command(b"show timeline status 5xx\n")), ["10", "30"]);
    assert_eq!(numbers(&run_command(b"show timeline last 1\n")), ["30"]);
    assert_eq!(run_command(b"show timeline proxy x json\n"), "[]\n\n");
    let json = run_command(b"show timeline json\n");
    assert!(
        json.starts_with("[{") && json.ends_with("}]\n\n") && json.matches("\"began_us\"").count() == 3,
        "{json}"
    );
    assert!(run_command(b"show timeline foo\n").starts_with("'foo' is not known"));
}
