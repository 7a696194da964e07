//! `weir-tidy` updates generated files and prints reports about the project.
//!
//! The rules themselves are tests (`cargo test -p weir-tidy`), so that they run automatically. The commands here write or report:
//!
//! * `readme`: the words that are not implemented yet, from the rows of the language;
//! * `ratchets`: the counts that fell, in the tables of `tools/tidy/ratchets`; fails if a count would rise;
//! * `circles`: the modules of each crate that import each other;
//! * `requirements`: each requirement's number and the tests that name it.
//!
//! It changes only the files that it names, and uses only the library.

use std::process::ExitCode;

use weir_tidy::{Workspace, circles, english, methods, names, readme, requirements};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("circles") => {
            for (name, circle) in circles::report(&Workspace::load()) {
                println!("{name}\t{}\t{}", circle.len(), circle.join(" "));
            }
            ExitCode::SUCCESS
        }
        Some("requirements") => {
            let named = requirements::named(&Workspace::load());
            for number in 1..=requirements::LAST {
                println!(
                    "R{number}\t{}",
                    named.get(&number).map_or(String::from("-"), |files| files.join(" "))
                );
            }
            println!("{} of {} requirements are named by a test", named.len(), requirements::LAST);
            ExitCode::SUCCESS
        }
        Some("readme") => match readme::write(&Workspace::load()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("README.md: {error}");
                ExitCode::FAILURE
            }
        },
        Some("ratchets") => lower_ratchets(&Workspace::load()),
        _ => {
            eprintln!("usage: weir-tidy circles|ratchets|readme|requirements");
            ExitCode::from(2)
        }
    }
}

fn lower_ratchets(workspace: &Workspace) -> ExitCode {
    let ratchets = [
        (english::RATCHET, english::counts(workspace)),
        (methods::RATCHET, methods::counts(workspace)),
        (names::RATCHET, names::counts(workspace)),
    ];
    let mut status = ExitCode::SUCCESS;
    for (ratchet, counts) in ratchets {
        let why = match ratchet.lower(&workspace.root, &counts) {
            Ok(rises) if rises.is_empty() => continue,
            Ok(rises) => format!(
                "not raised; rewrite the code, or edit these rows by hand and explain them in the commit:\n{}",
                rises.join("\n")
            ),
            Err(error) => error.to_string(),
        };
        eprintln!("{}: {why}", ratchet.path);
        status = ExitCode::FAILURE;
    }
    status
}
