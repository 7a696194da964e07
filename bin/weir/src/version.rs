//! The output of `-v` and `-vv`, in a format that scripts for HAProxy can parse.

use std::fmt::Write;

use weir_config::features::FEATURES;
use weir_observe::{LANGUAGE, VERSION};
use weir_sys::users;
use weir_tls::library;

use crate::arguments::VersionForm;

const BRANCH: &str = "3.5";

/// The output of `-v` and its variants.
pub(crate) fn text(form: VersionForm) -> String {
    match form {
        VersionForm::Usual => short(),
        VersionForm::Long => long(),
        VersionForm::Version => format!("{LANGUAGE}-weir{VERSION}\n"),
        VersionForm::Short => format!("{LANGUAGE}\n"),
        VersionForm::Branch => format!("{BRANCH}\n"),
    }
}

/// Two lines: the version and the system. Scripts look for the words of the first line.
pub(crate) fn short() -> String {
    let [system, release, version, machine] = users::system_name();
    format!(
        "HAProxy version {LANGUAGE}-weir{VERSION} - this is weir {VERSION}, which speaks the language of {BRANCH}\n\
         Running on: {system} {release} {version} {machine}\n"
    )
}

fn long() -> String {
    let mut text = short();
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let features: Vec<String> = FEATURES
        .iter()
        .map(|(name, present)| format!("{}{name}", if *present { '+' } else { '-' }))
        .collect();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "Build options : \n  TARGET  = linux-glibc\n  CC      = rustc\n  CFLAGS  = {profile}\n  OPTIONS = \n  DEBUG   = \n\n\
         Feature list : {}\n\n\
         Default settings :\n  bufsize = 16384, maxrewrite = 1024, maxpollevents = 200\n\n\
         Built with multi-threading support (MAX_TGROUPS=1, MAX_THREADS={}, default={}).\n\
         Built with SSL library version : {}\n\
         Running on SSL library version : {}\n\
         SSL library supports TLS extensions : yes\n\
         SSL library supports SNI : yes\n\
         SSL library FIPS mode : no\n\
         SSL library supports : TLSv1.2 TLSv1.3\n\
         Built with Lua version : {}\n\
         Built with the Prometheus exporter as a service\n\
         Built with zlib-rs, brotli and zstd, inside the program\n\
         Compression algorithms supported : {}\n\
         Built with transparent proxy support using: IP_TRANSPARENT IPV6_TRANSPARENT IP_FREEBIND\n\
         Built with PCRE2, with JIT, inside the program\n\
         Encrypted password support via crypt(3): yes\n\n\
         Available polling systems :\n      epoll : pref=300,  test result OK\nTotal: 1 (1 usable), will use epoll.\n\n\
         Available multiplexer protocols :\n\
         (protocols marked as <default> cannot be specified using 'proto' keyword)\n         \
         h2 : mode=HTTP  side=FE|BE  mux=H2    flags=HOL_RISK|NO_UPG\n  \
         <default> : mode=HTTP  side=FE|BE  mux=H1    flags=\n         \
         h1 : mode=HTTP  side=FE|BE  mux=H1    flags=NO_UPG\n  \
         <default> : mode=TCP   side=FE|BE  mux=PASS  flags=\n       \
         none : mode=TCP   side=FE|BE  mux=PASS  flags=NO_UPG\n\n\
         Available services : {}\n\
         Available filters :\n{}",
        features.join(" "),
        weir_model::MAX_THREADS,
        weir_sys::process::processors().map_or(1, |processors| processors.len()),
        library::BUILT,
        *library::RUNNING,
        weir_lua::release(),
        weir_model::CompressionAlgorithm::ALL
            .map(|algorithm| format!("{}(\"{}\")", algorithm.word(), algorithm.coding()))
            .join(", "),
        Vec::from_iter(weir_stream::actions::services()).join(" "),
        weir_config::vocabulary::filters(&weir_stream::KEYWORDS)
            .map(|(name, family)| format!("\t{:>7} {name}\n", format!("[{family}]")))
            .collect::<String>(),
    );
    text
}

/// The output of `-dt help`.
pub(crate) const TRACES_HELP: &str = "\
-dt [<source>[:<level>[:<verbosity>]],...] traces to standard error from the start on.\n\
'all', or no source, is every source; without a level only errors are traced.\n\
\n\
\x20 -dt                        errors of every source\n\
\x20 -dt all:user               every source, at level user\n\
\x20 -dt h1:data,stream::clean  HTTP/1 at level data; errors of streams, with another verbosity\n\
\n\
The runtime API lists what there is: 'trace', 'trace h1 level', 'trace h1 verbosity'.\n";

/// The output of `-dMhelp`.
pub(crate) const MEMORY_HELP: &str = "\
-dM and its options are accepted and change nothing: memory that is used after its end or before its beginning does not\n\
pass the compiler, and the few places that it cannot judge are run under other tools.\n";
