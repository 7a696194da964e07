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
fn crates_depend_only_on_lower_floors() {
    check(house::edges);
}

#[test]
fn every_allowed_dependency_between_crates_is_used() {
    check(house::unused);
}

#[test]
fn the_architecture_drawing_shows_cargos_dependencies() {
    check(drawing::lies);
}

#[test]
fn every_fixed_finding_has_a_test() {
    check(findings::gaps);
}

#[test]
fn import_circles_of_modules_do_not_grow() {
    check(circles::grown);
}

#[test]
fn every_crate_has_documentation_of_its_root() {
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
fn server_connections_are_opened_only_in_data_net() {
    check(text::own_connections);
}

#[test]
fn configuration_files_are_read_only_through_the_files_trait() {
    check(text::own_files);
}

#[test]
fn atomics_of_the_scheduler_are_counted() {
    check(text::uncounted_atomics);
}

#[test]
fn thread_local_values_lack_late_destructors() {
    check(text::dropped_by_threads);
}

#[test]
fn every_source_file_is_in_the_module_tree() {
    check(text::orphans);
}

#[test]
fn source_files_stay_below_the_line_limit() {
    check(text::long_files);
}

#[test]
fn the_readme_lists_every_unimplemented_keyword() {
    check(readme::stale);
}

#[test]
fn todo_comments_name_an_issue() {
    check(text::loose_ends);
}

#[test]
fn file_and_item_names_are_informative() {
    check(text::empty_names);
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    check(licences::denied);
}

#[test]
fn the_benchmarks_lock_file_matches_the_manifests() {
    check(locks::apart);
}

#[test]
fn every_keyword_row_has_a_help_text() {
    check(rows::without_help);
}

#[test]
fn every_requirement_has_a_test_or_a_reason() {
    check(proofs::gaps);
}

#[test]
fn indirect_english_does_not_grow() {
    check(english::grown);
}

#[test]
fn the_number_of_methods_per_type_does_not_grow() {
    check(methods::grown);
}

#[test]
fn the_number_of_shared_type_names_does_not_grow() {
    check(names::grown);
}
