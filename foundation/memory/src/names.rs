//! Finds the call site in a stack trace: the first frame outside of the allocator and of libraries.

use crate::table::CallSite;

/// The caller in a printed trace: `function@file:line` of the first frame in this source tree.
pub(crate) fn caller(trace: &str) -> CallSite {
    let mut function = "";
    for line in trace.lines().map(str::trim) {
        match line.strip_prefix("at ") {
            Some(place) => {
                // The allocator's entry points are compiled into the program that declares it.
                let known = own_file(place).filter(|_| !function.contains("__rust"));
                if let Some((file, number)) = known {
                    return CallSite::Caller(format!("{}@{file}:{number}", short(function)));
                }
            }
            // `12: 0x55d0 - name`, or a name alone when several functions were inlined into one frame.
            None => {
                let (number, rest) = line.split_once(": ").unwrap_or(("", line));
                let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                let name = if numbered { rest } else { line };
                function = name.split_once(" - ").map_or(name, |(_, name)| name);
            }
        }
    }
    CallSite::Other
}

/// File relative to the root of the source tree, and line. `None` for foreign sources and for this crate.
fn own_file(place: &str) -> Option<(&str, &str)> {
    let mut parts = place.rsplitn(3, ':');
    let (_column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    if OTHERS.iter().any(|other| file.contains(other)) {
        return None;
    }
    // The path from one of our folders on. The compiler may have added a prefix.
    let from = |floor: &&str| match file.strip_prefix("./").unwrap_or(file) {
        relative if relative.starts_with(*floor) => Some(file.len() - relative.len()),
        _ => file.rfind(&format!("/{floor}")).map(|slash| slash + 1),
    };
    let start = FLOORS.iter().filter_map(from).min()?;
    Some((&file[start..], line))
}

/// The name of a function without its path and its generic arguments.
fn short(function: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_u32;
    for character in function.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    let hash = |part: &str| {
        part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts = plain.split("::").filter(|part| !part.is_empty() && !part.starts_with('{') && !hash(part));
    parts.last().unwrap_or(function).to_owned()
}

/// The folders of the source tree that hold the program.
const FLOORS: &[&str] =
    &["foundation/", "sched/", "proto/", "language/", "data/", "control/", "bin/", "tools/"];
/// Sources of the standard library, of dependencies, and of the measuring itself.
const OTHERS: &[&str] =
    &["/rustc/", "/.cargo/", "/rustlib/", "foundation/memory/src", "foundation/containers/src"];

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "   0: std::backtrace_rs::backtrace::libunwind::trace
             at /rustc/59807616/library/std/src/../../backtrace/src/backtrace/libunwind.rs:117:9
      std::backtrace::Backtrace::create
             at /rustc/59807616/library/std/src/backtrace.rs:331:13
   1:     0x55d044013f30 - weir_memory::table::Table::entry
             at ./foundation/memory/src/table.rs:120:41
   2: __rustc::__rust_alloc
             at /home/someone/weir/bin/weir/src/main.rs:24:5
   3: alloc::raw_vec::RawVecInner<A>::finish_grow
   3: <alloc::vec::Vec<T> as core::iter::Extend>::extend
             at /rustc/59807616/library/alloc/src/vec/mod.rs:3511:14
   4: smallvec::SmallVec<A>::grow
             at /root/.cargo/registry/src/index/smallvec-1.16.5/src/lib.rs:1:1
                               weir_stream::http::Phase<T>::run::{{closure}}
             at /home/someone/weir/data/stream/src/http.rs:77:9
   5: weir_stream::accept::serve
             at /home/someone/weir/data/stream/src/accept.rs:1:1
";

    #[test]
    fn the_first_stack_frame_of_this_source_tree_is_the_caller() {
        assert_eq!(caller(TRACE), CallSite::Caller("run@data/stream/src/http.rs:77".to_owned()));
        assert_eq!(
            caller(" 9:  0x12 - weir::main\n             at ./bin/weir/src/main.rs:3:5\n"),
            CallSite::Caller("main@bin/weir/src/main.rs:3".to_owned())
        );
    }

    /// R80, R177: a trace without a frame of this source tree counts as other.
    #[test]
    fn a_stack_trace_without_frames_of_this_source_tree_counts_as_other() {
        for trace in [
            "",
            "<unknown>",
            "0: <unknown>\n",
            "   0: core::ops::function::FnOnce::call_once\n at x\n at y:1:2",
        ] {
            assert_eq!(caller(trace), CallSite::Other, "{trace}");
        }
    }

    #[test]
    fn symbol_names_are_shortened_to_the_function() {
        for (long, expected) in [
            ("weir_h1::parser::Parser::feed", "feed"),
            ("<weir_cli::session::Session as core::fmt::Debug>::fmt", "fmt"),
            ("weir_sched::worker::Worker::run::{{closure}}::{{closure}}", "run"),
            ("main", "main"),
            ("weir_stream::reply::send::{async_fn#0}", "send"),
            ("weir_sched::worker::spawn::h2f8397d2372f7e3d", "spawn"),
            ("{async_fn#0}", "{async_fn#0}"),
        ] {
            assert_eq!(short(long), expected);
        }
    }
}
