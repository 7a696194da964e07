//! HAProxy commands that weir does not implement yet. Their output says this, instead of "unknown command".
//!
//! Remove a command from this table when it is implemented. The README lists the remaining ones.

use crate::command::{Command, EXPERT, WORKER};
use crate::level::Level;

macro_rules! later {
    ($($flags:expr => { $($name:literal, $syntax:literal, $help:literal;)* })*) => {
        &[$($(Command { name: $name, syntax: $syntax, level: Level::Admin, flags: $flags, help: $help, run: None },)*)*]
    };
}

pub(super) static COMMANDS: &[Command] = later! {
    WORKER => {
        "acme challenge_ready", "acme challenge_ready <certfile> domain <domain>", "report that a challenge can be verified";
        "acme renew", "acme renew <certfile>", "renew a certificate with ACME";
        "acme status", "acme status", "show the certificates that ACME keeps";
        "add backend", "add backend <backend>", "add a backend";
        "add ssl jwt", "add ssl jwt <certfile>", "allow a certificate to verify tokens";
        "debug counters", "debug counters [?|all|bug|cnt|chk|glt]*", "show or reset counters of rare events";
        "debug dev hash", "debug dev hash   [msg]", "show a text as anonymized output would";
        "del backend", "del backend <backend>", "remove a backend that was added";
        "del ssl jwt", "del ssl jwt <certfile>", "no longer allow a certificate to verify tokens";
        "dump stats-file", "dump stats-file", "print counters in a form that a new process can load";
        "set anon global-key", "set anon global-key <value>", "choose the key of anonymized output for everybody";
        "set anon off", "set anon off", "show names unchanged";
        "set anon on", "set anon on [value]", "show hashes instead of names";
        "show anon", "show anon", "print whether output is anonymized";
        "show cache", "show cache", "list the caches and their objects";
        "show default-server", "show default-server [<backend>]", "list the default-server settings";
        "show defaults", "show defaults", "list the defaults sections";
        "show dev", "show dev", "print the data that developers need";
        "show libs", "show libs", "list the loaded objects";
        "show quic", "show quic [help|<format>] [<filter>]", "list the QUIC connections";
        "show ssl jwt", "show ssl jwt", "list the certificates that verify tokens";
    }
    WORKER | EXPERT => {
        "debug dev abort", "debug dev abort", "end the process at once";
        "debug dev bug", "debug dev bug", "fail an assertion";
        "debug dev check", "debug dev check", "fail a soft assertion";
        "debug dev close", "debug dev close <fd> [hard]", "close a descriptor";
        "debug dev deadlock", "debug dev deadlock [nbtask]", "lock tasks up";
        "debug dev delay", "debug dev delay [inter]", "slow the process down";
        "debug dev exit", "debug dev exit [code]", "end the process with a code";
        "debug dev fd", "debug dev fd", "show descriptors without an owner";
        "debug dev hex", "debug dev hex <addr> [len]", "show memory";
        "debug dev log", "debug dev log [msg] ...", "log a message";
        "debug dev panic", "debug dev panic", "panic";
        "debug dev sched", "debug dev sched {task|tasklet} [k=v]*", "load the scheduler";
        "debug dev stream", "debug dev stream [k=v]*", "change a session's state";
        "debug dev sym", "debug dev sym <addr>", "name the function at an address";
        "debug dev task", "debug dev task <ptr>", "wake or kill a task";
        "debug dev tkill", "debug dev tkill [thr] [sig]", "signal a worker";
        "debug dev warn", "debug dev warn", "fail a warning";
        "debug dev write", "debug dev write [size]", "answer with so many bytes";
    }
};
