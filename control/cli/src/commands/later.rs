//! Commands of the reference that weir knows and cannot do yet: each answers so, instead of being unknown.
//!
//! A command leaves this table when it gets a function; the README lists what is still here.

use crate::command::{Command, EXPERT, WORKER};
use crate::level::Level;

macro_rules! later {
    ($($flags:expr => { $($name:literal, $syntax:literal, $help:literal;)* })*) => {
        &[$($(Command { name: $name, syntax: $syntax, level: Level::User, flags: $flags, help: $help, run: None },)*)*]
    };
}

pub(super) static COMMANDS: &[Command] = later! {
    WORKER => {
        "abort ssl ca-file", "abort ssl ca-file <cafile>", "give up a change of a CA file";
        "abort ssl cert", "abort ssl cert <certfile>", "give up a change of a certificate";
        "abort ssl crl-file", "abort ssl crl-file <crlfile>", "give up a change of a revocation list";
        "acme challenge_ready", "acme challenge_ready <certfile> domain <domain>", "say that a challenge can be verified";
        "acme renew", "acme renew <certfile>", "renew a certificate with ACME";
        "acme status", "acme status", "show the certificates that ACME keeps";
        "add backend", "add backend <backend>", "add a backend";
        "add ssl ca-file", "add ssl ca-file <cafile> <payload>", "add certificates to a CA file";
        "add ssl crt-list", "add ssl crt-list <list> <cert> [opts]*", "add a line to a list of certificates";
        "add ssl jwt", "add ssl jwt <certfile>", "allow a certificate to verify tokens";
        "clear table", "clear table <table> [<filter>]*", "delete entries of a stick-table";
        "commit ssl ca-file", "commit ssl ca-file <cafile>", "use a changed CA file";
        "commit ssl cert", "commit ssl cert <certfile>", "use a changed certificate";
        "commit ssl crl-file", "commit ssl crl-file <crlfile>", "use a changed revocation list";
        "debug counters", "debug counters [?|all|bug|cnt|chk|glt]*", "show or reset counters of rare events";
        "debug dev hash", "debug dev hash   [msg]", "show a text as anonymized output would";
        "del backend", "del backend <backend>", "remove a backend that was added";
        "del ssl ca-file", "del ssl ca-file <cafile>", "forget an unused CA file";
        "del ssl cert", "del ssl cert <certfile>", "forget an unused certificate";
        "del ssl crl-file", "del ssl crl-file <crlfile>", "forget an unused revocation list";
        "del ssl crt-list", "del ssl crt-list <list> <cert[:line]>", "delete a line of a list of certificates";
        "del ssl jwt", "del ssl jwt <certfile>", "no longer allow a certificate to verify tokens";
        "dump ssl cert", "dump ssl cert <certfile>", "print a certificate in PEM form";
        "dump stats-file", "dump stats-file", "print counters in a form that a new process can load";
        "new ssl ca-file", "new ssl ca-file <cafile>", "make an empty CA file";
        "new ssl cert", "new ssl cert <certfile>", "make an empty certificate";
        "new ssl crl-file", "new ssl crl-file <crlfile>", "make an empty revocation list";
        "set anon global-key", "set anon global-key <value>", "choose the key of anonymized output for everybody";
        "set anon off", "set anon off", "show names as they are";
        "set anon on", "set anon on [value]", "show hashes instead of names";
        "set ssl ca-file", "set ssl ca-file <cafile> <payload>", "give a CA file new contents";
        "set ssl cert", "set ssl cert <certfile> <payload>", "give a certificate new contents";
        "set ssl crl-file", "set ssl crl-file <crlfile> <payload>", "give a revocation list new contents";
        "set ssl ocsp-response", "set ssl ocsp-response <resp|payload>", "give a certificate a new OCSP response";
        "set ssl tls-key", "set ssl tls-key [id|file] <key>", "choose the next key for session tickets";
        "set table", "set table <table> key <k> [data.* <v>]*", "make or change an entry of a stick-table";
        "show anon", "show anon", "say whether output is anonymized";
        "show cache", "show cache", "list the caches and what they hold";
        "show default-server", "show default-server [<backend>]", "list the default-server settings";
        "show defaults", "show defaults", "list the defaults sections";
        "show dev", "show dev", "print what developers ask for";
        "show fd", "show fd [-!plcfbs]* [num]", "list the file descriptors in use";
        "show libs", "show libs", "list the loaded objects";
        "show peers", "show peers [dict|-] [section]", "show the peers and what they exchanged";
        "show quic", "show quic [help|<format>] [<filter>]", "list the QUIC connections";
        "show resolvers", "show resolvers [id]", "show the counters of name servers";
        "show ssl ca-file", "show ssl ca-file [<cafile>[:<index>]]", "list the CA files, or show one";
        "show ssl cert", "show ssl cert [<certfile>]", "list the certificates, or show one";
        "show ssl crl-file", "show ssl crl-file [<crlfile[:<index>>]]", "list the revocation lists, or show one";
        "show ssl crt-list", "show ssl crt-list [-n] [<list>]", "list the lists of certificates, or show one";
        "show ssl jwt", "show ssl jwt", "list the certificates that verify tokens";
        "show ssl ocsp-response", "show ssl ocsp-response [[text|base64] id]", "list the OCSP responses, or show one";
        "show ssl ocsp-updates", "show ssl ocsp-updates", "list the OCSP responses that are renewed by themselves";
        "show ssl providers", "show ssl providers", "list the providers of the TLS library";
        "show ssl sni", "show ssl sni [-f <frontend>] [-A]", "list the names that certificates are chosen by";
        "show table", "show table [<table> [<filter>]*]", "list the stick-tables, or the entries of one";
        "show tls-keys", "show tls-keys [id|*]", "list the keys for session tickets";
        "update ssl ocsp-response", "update ssl ocsp-response <certfile>", "renew an OCSP response now";
    }
    WORKER | EXPERT => {
        "debug dev abort", "debug dev abort", "end the process at once";
        "debug dev bug", "debug dev bug", "fail an assertion";
        "debug dev check", "debug dev check", "fail a soft assertion";
        "debug dev close", "debug dev close <fd> [hard]", "close a descriptor";
        "debug dev deadlock", "debug dev deadlock [nbtask]", "lock tasks up";
        "debug dev delay", "debug dev delay [inter]", "slow the process down";
        "debug dev exit", "debug dev exit [code]", "end the process with a code";
        "debug dev fd", "debug dev fd", "show descriptors that nobody owns";
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
        "httpclient", "httpclient <method> <uri>", "send an HTTP request";
    }
};
