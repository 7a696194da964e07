//! The dependency map: the floor (top-level folder) of each crate, and its permitted imports.
//!
//! Dependencies point to lower floors only. Within a floor, a crate may import only the neighbours in its row. The
//! three wings (sched, proto, language) never import each other.

use crate::{BrokenRule, Crate, Workspace};

/// A crate on the map: its folder, the neighbours on its floor that it may import, and the floors below that it may import.
#[derive(Debug, Clone, Copy)]
struct Room {
    name: &'static str,
    folder: &'static str,
    neighbours: &'static [&'static str],
    below: &'static [&'static str],
}

const NOTHING: &[&str] = &[];
/// `sched` may use everything in `foundation`: the kernel, threads, time.
const SCHED_BELOW: &[&str] = &["foundation"];
/// Pure crates (no sockets, no clock, no threads, no logging) may only use the formats of text.
const PURE_BELOW: &[&str] = &["foundation/formats"];
const DATA_BELOW: &[&str] = &["foundation", "sched", "proto", "language"];
const CONTROL_BELOW: &[&str] = &["foundation", "sched", "proto", "language", "data"];
const BIN_BELOW: &[&str] = &["foundation", "language", "data", "control"];

/// The crates of the floor `data` with live objects.
const ALL_DATA: &[&str] = &[
    "weir-backend",
    "weir-checks",
    "weir-client",
    "weir-logs",
    "weir-mail",
    "weir-mux",
    "weir-net",
    "weir-peers",
    "weir-resolvers",
    "weir-scripts",
    "weir-stream",
    "weir-tables",
    "weir-tls",
    "weir-vocabulary",
];

const HOUSE: &[Room] = &[
    room("weir-containers", "foundation/containers", NOTHING, NOTHING),
    // A separate crate, because a feature of another crate would rebuild all its dependents for tests.
    room("weir-counting", "foundation/counting", NOTHING, NOTHING),
    room("weir-formats", "foundation/formats", NOTHING, NOTHING),
    room("weir-lua", "foundation/lua", &["weir-sys"], NOTHING),
    room("weir-sys", "foundation/sys", NOTHING, NOTHING),
    room("weir-memory", "foundation/memory", &["weir-sys"], NOTHING),
    room("weir-sync", "foundation/sync", &["weir-sys"], NOTHING),
    room("weir-events", "foundation/events", &["weir-formats", "weir-sync", "weir-sys"], NOTHING),
    room("weir-sched", "sched", NOTHING, SCHED_BELOW),
    room("weir-http", "proto/http", NOTHING, PURE_BELOW),
    room("weir-h1", "proto/h1", &["weir-http"], PURE_BELOW),
    room("weir-hpack", "proto/hpack", &["weir-http"], PURE_BELOW),
    room("weir-h2", "proto/h2", &["weir-hpack", "weir-http"], PURE_BELOW),
    room("weir-proxy-protocol", "proto/proxy-protocol", NOTHING, PURE_BELOW),
    room("weir-syslog", "proto/syslog", NOTHING, PURE_BELOW),
    room("weir-dns", "proto/dns", NOTHING, PURE_BELOW),
    room("weir-acme", "proto/acme", NOTHING, PURE_BELOW),
    room("weir-peers-protocol", "proto/peers-protocol", NOTHING, PURE_BELOW),
    room("weir-spop", "proto/spop", &["weir-peers-protocol"], PURE_BELOW),
    room("weir-fcgi", "proto/fcgi", NOTHING, PURE_BELOW),
    room("weir-client-hello", "proto/client-hello", NOTHING, PURE_BELOW),
    room("weir-tls-session", "proto/tls-session", &["weir-client-hello"], PURE_BELOW),
    room("weir-syntax", "language/syntax", NOTHING, PURE_BELOW),
    room("weir-fingerprint-derive", "language/fingerprint-derive", NOTHING, PURE_BELOW),
    room("weir-fingerprint", "language/fingerprint", &["weir-fingerprint-derive"], PURE_BELOW),
    room("weir-expr", "language/expr", &["weir-fingerprint", "weir-syntax"], PURE_BELOW),
    room("weir-model", "language/model", &["weir-expr", "weir-fingerprint"], PURE_BELOW),
    room(
        "weir-config",
        "language/config",
        &["weir-expr", "weir-fingerprint", "weir-model", "weir-syntax"],
        PURE_BELOW,
    ),
    room("weir-tls", "data/tls", NOTHING, DATA_BELOW),
    room("weir-compression", "data/compression", NOTHING, DATA_BELOW),
    room("weir-scripts", "data/scripts", &["weir-client", "weir-net", "weir-tables", "weir-tls"], DATA_BELOW),
    room("weir-net", "data/net", &["weir-tls"], DATA_BELOW),
    room("weir-mux", "data/mux", &["weir-net", "weir-tls"], DATA_BELOW),
    room("weir-logs", "data/logs", &["weir-backend", "weir-net", "weir-tls"], DATA_BELOW),
    room("weir-mail", "data/mail", &["weir-net"], DATA_BELOW),
    room("weir-backend", "data/backend", NOTHING, DATA_BELOW),
    room("weir-tables", "data/tables", NOTHING, DATA_BELOW),
    room("weir-peers", "data/peers", &["weir-net", "weir-tables", "weir-tls"], DATA_BELOW),
    room(
        "weir-vocabulary",
        "data/vocabulary",
        &["weir-backend", "weir-mux", "weir-net", "weir-tables", "weir-tls"],
        DATA_BELOW,
    ),
    room(
        "weir-checks",
        "data/checks",
        &["weir-backend", "weir-mux", "weir-net", "weir-tables", "weir-tls", "weir-vocabulary"],
        DATA_BELOW,
    ),
    room(
        "weir-stream",
        "data/stream",
        &[
            "weir-backend",
            "weir-compression",
            "weir-mux",
            "weir-net",
            "weir-scripts",
            "weir-tables",
            "weir-tls",
            "weir-vocabulary",
        ],
        DATA_BELOW,
    ),
    room("weir-resolvers", "data/resolvers", &["weir-backend", "weir-net"], DATA_BELOW),
    room("weir-client", "data/client", &["weir-mux", "weir-net", "weir-resolvers", "weir-tls"], DATA_BELOW),
    // The only crate of its floor that may import all others, since it creates all live objects.
    room("weir-assemble", "data/assemble", ALL_DATA, DATA_BELOW),
    room("weir-stats", "control/stats", NOTHING, CONTROL_BELOW),
    room("weir-cli", "control/cli", &["weir-stats"], CONTROL_BELOW),
    // The views declare traits, which the live objects implement. Therefore the observer depends on its views.
    room("weir-observe", "control/observe", &["weir-cli", "weir-stats"], CONTROL_BELOW),
    room("weir-process", "control/process", &["weir-cli", "weir-observe"], CONTROL_BELOW),
    room("weir-master", "control/master", &["weir-cli", "weir-observe", "weir-process"], CONTROL_BELOW),
    room("weir", "bin/weir", NOTHING, BIN_BELOW),
    room("weir-ring", "bin/weir-ring", NOTHING, &["foundation"]),
    room("weir-top", "bin/weir-top", NOTHING, &["foundation"]),
];

/// Crates for the wire format of one HTTP version. Above `proto` only the multiplexer uses them. It hides the version from its users.
const WIRE: &[&str] = &["weir-h1", "weir-h2", "weir-hpack"];
const SPEAKS_WIRE: &str = "weir-mux";

/// Crates used by integration tests of `data` to build live objects, and the crates with those objects.
const TESTED_WITH: &[&str] = &["weir-assemble", "weir-stream"];

/// The development programs are outside the map: they may import everything, and nothing may import them.
const OUTSIDE: &str = "tools/";

const fn room(
    name: &'static str,
    folder: &'static str,
    neighbours: &'static [&'static str],
    below: &'static [&'static str],
) -> Room {
    Room { name, folder, neighbours, below }
}

/// Every dependency between two of our crates that the map does not permit, and every crate missing from the map.
pub fn edges(workspace: &Workspace) -> Vec<BrokenRule> {
    faults(&workspace.crates)
}

/// Unused permissions of the map: a neighbour that is not imported, or a floor not imported by any crate with the same floors.
pub fn unused(workspace: &Workspace) -> Vec<BrokenRule> {
    idle(&workspace.crates)
}

fn idle(crates: &[Crate]) -> Vec<BrokenRule> {
    let imports = |room: &Room| {
        let member = crates.iter().find(|member| member.name == room.name);
        let named = member.into_iter().flat_map(|member| &member.dependencies);
        Vec::from_iter(named.filter_map(|name| crates.iter().find(|member| member.name == *name)))
    };
    let mut faults = Vec::new();
    for room in HOUSE {
        for neighbour in room.neighbours {
            if !imports(room).iter().any(|import| import.name == *neighbour) {
                faults.push(BrokenRule::new(
                    room.name,
                    format!("may import {neighbour} and does not: take it off the map"),
                ));
            }
        }
        for floor in room.below {
            let alike = HOUSE.iter().filter(|other| other.below == room.below);
            if !alike.flat_map(imports).any(|import| is_on(import, floor)) {
                faults.push(BrokenRule::new(
                    room.name,
                    format!("may import {floor} and does not: take it off the map"),
                ));
            }
        }
    }
    faults
}

fn faults(crates: &[Crate]) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for member in crates.iter().filter(|member| !member.folder.starts_with(OUTSIDE)) {
        let Some(place) = HOUSE.iter().find(|room| room.name == member.name) else {
            let why =
                "has no place in the house: give it a row in tools/tidy/src/house.rs and in ARCHITECTURE.md";
            faults.push(BrokenRule::new(&member.folder, why));
            continue;
        };
        if place.folder != member.folder {
            faults
                .push(BrokenRule::new(&member.folder, format!("{} belongs in {}", place.name, place.folder)));
        }
        for import in member.dependencies.iter().filter_map(|name| crates.iter().find(|c| c.name == *name)) {
            // Scripted peers of tests may use the wire format, unlike the crate itself. Integration tests of `data` may build
            // live objects like the program.
            let name = import.name.as_str();
            let is_built = member.folder.starts_with("data/") && TESTED_WITH.contains(&name);
            let is_of_tests = member.of_tests.contains(&import.name) && (is_built || WIRE.contains(&name));
            if !is_of_tests && !place.may_import(import) {
                let why = format!("may not import {}: the arrow does not point down", import.name);
                faults.push(BrokenRule::new(&member.name, why));
            }
        }
    }
    faults
}

impl Room {
    fn may_import(&self, import: &Crate) -> bool {
        let import_name = import.name.as_str();
        let speaks_wire = self.name == SPEAKS_WIRE || self.folder.starts_with("proto/");
        if WIRE.contains(&import_name) && !speaks_wire {
            return false;
        }
        self.neighbours.contains(&import_name) || self.below.iter().any(|floor| is_on(import, floor))
    }
}

fn is_on(import: &Crate, floor: &str) -> bool {
    import.folder == floor || import.folder.strip_prefix(floor).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house() -> Vec<Crate> {
        let member = |room: &Room| Crate {
            name: room.name.into(),
            folder: room.folder.into(),
            dependencies: Vec::new(),
            of_tests: Vec::new(),
            roots: Vec::new(),
        };
        HOUSE.iter().map(member).collect()
    }

    fn check(name: &str, imports: &[&str], expected: &[&str]) {
        let mut crates = house();
        let member = crates.iter_mut().find(|member| member.name == name).expect("a crate of the house");
        member.dependencies = imports.iter().map(|&import| import.to_owned()).collect();
        let refused: Vec<String> = faults(&crates).into_iter().map(|fault| fault.why).collect();
        assert_eq!(refused.len(), expected.len(), "{name}: {refused:?}");
        for (why, import) in refused.iter().zip(expected) {
            assert!(why.contains(&format!("{import}:")), "{why}");
        }
    }

    #[test]
    fn crates_may_depend_only_on_lower_floors() {
        check("weir-events", &["weir-sync", "weir-formats", "weir-sys", "libc"], &[]);
        check("weir-sync", &["weir-events", "weir-containers"], &["weir-events", "weir-containers"]);
        check("weir-containers", &["weir-sys"], &["weir-sys"]);
        check("weir-sched", &["weir-sync", "weir-http", "weir-net"], &["weir-http", "weir-net"]);
        check("weir-h1", &["weir-http", "weir-formats"], &[]);
        check("weir-proxy-protocol", &["weir-http"], &["weir-http"]);
        check("weir-stream", &["weir-backend", "weir-config", "weir-http", "weir-sched"], &[]);
        check("weir-backend", &["weir-stream"], &["weir-stream"]);
        check("weir-observe", &["weir-cli", "weir-stats", "weir-stream", "weir-assemble"], &[]);
        check("weir-observe", &["weir-process"], &["weir-process"]);
        check("weir-process", &["weir-observe", "weir-assemble"], &[]);
        check("weir-cli", &["weir-stats", "weir-observe"], &["weir-observe"]);
        check("weir-stream", &["weir-assemble"], &["weir-assemble"]);
    }

    #[test]
    fn only_the_multiplexer_may_depend_on_http_version_crates() {
        check("weir-mux", &["weir-h1", "weir-http"], &[]);
        check("weir-stream", &["weir-h1"], &["weir-h1"]);
        check("weir-backend", &["weir-h1"], &["weir-h1"]);
        check("weir-process", &["weir-h1"], &["weir-h1"]);
    }

    #[test]
    fn parsers_and_language_crates_may_not_depend_on_system_crates() {
        check(
            "weir-h1",
            &["weir-sys", "weir-sync", "weir-events", "weir-containers"],
            &["weir-sys", "weir-sync", "weir-events", "weir-containers"],
        );
        check("weir-config", &["weir-sys", "weir-sched"], &["weir-sys", "weir-sched"]);
    }

    #[test]
    fn an_allowed_dependency_that_is_unused_is_reported() {
        let mut crates = house();
        for (member, room) in crates.iter_mut().zip(HOUSE) {
            let neighbours = room.neighbours.iter().copied();
            let below =
                HOUSE.iter().filter(|other| room.below.iter().any(|floor| other.folder.starts_with(floor)));
            member.dependencies =
                neighbours.chain(below.map(|other| other.name)).map(str::to_owned).collect();
        }
        assert_eq!(idle(&crates), []);
        let places = |crates: &[Crate]| -> Vec<String> {
            let why = |fault: BrokenRule| format!("{}: {}", fault.place, fault.why);
            idle(crates).into_iter().map(why).collect()
        };
        let of = |crates: &mut [Crate], name: &str, gone: &str| {
            let member = crates.iter_mut().find(|member| member.name == name).expect("a crate of the house");
            member.dependencies.retain(|import| !import.starts_with(gone));
        };
        of(&mut crates, "weir-mux", "weir-net");
        assert_eq!(places(&crates), ["weir-mux: may import weir-net and does not: take it off the map"]);
        of(&mut crates, "weir-top", "weir-");
        of(&mut crates, "weir-ring", "weir-");
        assert_eq!(places(&crates).len(), 1, "weir-sched, with the same floors, imports foundation");
        of(&mut crates, "weir-sched", "weir-");
        assert_eq!(places(&crates).len(), 4);
    }

    #[test]
    fn a_crate_without_a_floor_is_reported() {
        let stranger = Crate {
            name: "weir-attic".into(),
            folder: "data/attic".into(),
            dependencies: Vec::new(),
            of_tests: Vec::new(),
            roots: Vec::new(),
        };
        assert_eq!(faults(&[stranger]).len(), 1);
    }
}
