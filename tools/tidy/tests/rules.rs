//! Every rule on the project itself.

use std::sync::LazyLock;

use weir_tidy::{
    BrokenRule, Workspace, circles, drawing, english, findings, house, licences, locks, methods, names,
    proofs, readme, rows, text,
};

/// Read once for all rules: cargo's metadata and every source take longer than most rules.
static WORKSPACE: LazyLock<Workspace> = LazyLock::new(Workspace::load);

fn check(rule: impl Fn(&Workspace) -> Vec<BrokenRule>) {
    let faults: Vec<String> = rule(&WORKSPACE).iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn arrows_between_crates_point_down() {
    check(house::edges);
}

#[test]
fn the_map_allows_no_edge_that_is_not_there() {
    check(house::unused);
}

#[test]
fn the_drawing_shows_the_arrows_of_cargo() {
    check(drawing::lies);
}

#[test]
fn mended_faults_have_tests() {
    check(findings::gaps);
}

#[test]
fn circles_of_modules_do_not_grow() {
    check(circles::grown);
}

#[test]
fn every_crate_has_its_opening_page() {
    check(text::opening_pages);
}

#[test]
fn public_types_and_functions_are_documented() {
    check(text::undocumented);
}

#[test]
fn unsafe_code_lives_in_foundation_and_sched() {
    check(text::unsafe_code);
}

#[test]
fn connections_are_opened_in_one_place() {
    check(text::own_connections);
}

#[test]
fn files_are_reached_through_files() {
    check(text::own_files);
}

#[test]
fn atomics_of_the_scheduler_are_counted() {
    check(text::uncounted_atomics);
}

#[test]
fn threads_drop_nothing_that_was_made_late() {
    check(text::dropped_by_threads);
}

#[test]
fn every_file_is_compiled() {
    check(text::orphans);
}

#[test]
fn no_file_is_past_reading() {
    check(text::long_files);
}

#[test]
fn the_readme_lists_every_missing_word() {
    check(readme::stale);
}

#[test]
fn no_promise_is_loose() {
    check(text::loose_ends);
}

#[test]
fn names_carry_information() {
    check(text::empty_names);
}

#[test]
fn every_dependency_is_allowed() {
    check(licences::denied);
}

#[test]
fn the_benchmark_s_lock_file_matches_the_manifests() {
    check(locks::apart);
}

#[test]
fn every_row_has_a_help_text() {
    check(rows::without_help);
}

#[test]
fn every_requirement_of_a_table_is_proven() {
    check(proofs::gaps);
}

#[test]
fn indirect_english_does_not_grow() {
    check(english::grown);
}

#[test]
fn types_do_not_gain_methods() {
    check(methods::grown);
}

#[test]
fn crates_share_no_more_type_names() {
    check(names::grown);
}
