//! Words about the process: identity, files, names, shutdown.

use super::context::{GlobalContext, GlobalReader};
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{AcceptedFamilies, Account, Chroot, CloseSpread, CoreDump, ExternalCheck, MasterWorker};
use weir_syntax::{Diagnostic, Layout};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "dns-accept-family",
        "<family>[,<family>]*",
        "ipv4",
        "address families that names are resolved to",
        |line, words| {
            let expects = "'dns-accept-family' expects a comma-delimited list of 'ipv4', 'ipv6' and 'auto'";
            let word = words.expect(&format!("{expects}."))?;
            let mut families = AcceptedFamilies { ipv4: false, ipv6: false, ipv6_if_routed: false };
            for family in word.text().split(',') {
                match family {
                    "ipv4" => families.ipv4 = true,
                    "ipv6" => families.ipv6 = true,
                    "auto" => {
                        families.ipv4 = true;
                        families.ipv6_if_routed = true;
                    }
                    _ => return Err(fault(word.span(), format!("{expects} but got '{family}'."))),
                }
            }
            line.global.accepted_families = families;
            words.end("dns-accept-family")
        },
    )
    .default(Written("ipv4,ipv6")),
    Row::discovered("daemon", "", "", "go to the background once started", |line, words| {
        line.global.daemon = line.flag(words)?;
        Ok(())
    }),
    Row::discovered(
        "master-worker",
        "[no-exit-on-failure]",
        "",
        "a master watches a worker, and reloads",
        |line, words| {
            let stays = words.peek_text() == "no-exit-on-failure";
            if stays {
                words.take();
            }
            words.end("master-worker")?;
            let former = line.global.master_worker.unwrap_or_default();
            line.global.master_worker = Some(MasterWorker { stays: stays || former.stays });
            Ok(())
        },
    ),
    Row::<GlobalReader>::discovered(
        "mworker-max-reloads",
        "<number>",
        "20",
        "how many reloads an old worker may outlive",
        |line, words| {
            line.global.reloads_max = Some(line.number(words, 0..=i32::MAX as u32)?);
            Ok(())
        },
    )
    .default(Described("`50`")),
    Row::ready(
        "setcap",
        "<name>[,<name>...]",
        "cap_net_admin,cap_net_raw",
        "capabilities to keep when the process changes its user",
        |line, words| {
            let list = line.word(words, "a comma-separated list of capabilities as an argument")?;
            for name in list.text().split(',').filter(|name| !name.is_empty()) {
                if !CAPABILITIES.contains(&name) {
                    let message = format!(
                        "'setcap' : unsupported capability '{name}', supported are {}.",
                        CAPABILITIES.join(", ")
                    );
                    return Err(fault(list.span(), message));
                }
                line.global.capabilities.push(name.into());
            }
            Ok(())
        },
    ),
    Row::discovered("quiet", "", "", "say nothing at start, like -q", |line, words| {
        line.global.quiet = line.flag(words)?;
        Ok(())
    }),
    Row::discovered(
        "zero-warning",
        "",
        "",
        "refuse to start if there is a warning, like -dW. What lists of ciphers, curves and signatures \
         name and is never negotiated is a notice then",
        |line, words| {
            line.global.zero_warning = line.flag(words)?;
            Ok(())
        },
    ),
    Row::ready(
        "expose-experimental-directives",
        "",
        "",
        "allow words that may still change",
        |line, words| {
            words.end(line.keyword)?;
            line.global.expose_experimental = true;
            Ok(())
        },
    ),
    Row::ready("expose-deprecated-directives", "", "", "allow words that will go away", |line, words| {
        words.end(line.keyword)?;
        line.global.expose_deprecated = true;
        Ok(())
    }),
    Row::discovered(
        "pidfile",
        "<pidfile>",
        "/run/weir.pid",
        "file to write the process's number to",
        |line, words| {
            let path = line.path(words, "a file name as an argument")?;
            if line.first_time(words, line.global.pidfile.is_some()) {
                line.global.pidfile = Some(path);
            }
            Ok(())
        },
    ),
    Row::ready(
        "chroot",
        "{ <jail dir> | auto }",
        "/var/empty",
        "folder to lock the process in",
        |line, words| {
            let path = line.path(words, "a directory as an argument")?;
            if line.first_time(words, line.global.chroot.is_some()) {
                let auto = path.as_os_str() == "auto";
                line.global.chroot = Some(if auto { Chroot::Auto } else { Chroot::Folder(path) });
            }
            Ok(())
        },
    ),
    Row::ready("user", "<user name>", "nobody", "user to become after start", |line, words| {
        let name = line.word(words, "a user name as an argument")?;
        if line.first_time(words, line.global.user.is_some()) {
            line.global.user = Some(Account::Name(name.text().into()));
            line.global.user_at = Some(line.at.clone());
        }
        Ok(())
    }),
    Row::ready("group", "<group name>", "nogroup", "group to join after start", |line, words| {
        let name = line.word(words, "a group name as an argument")?;
        if line.first_time(words, line.global.group.is_some()) {
            line.global.group = Some(Account::Name(name.text().into()));
            line.global.group_at = Some(line.at.clone());
        }
        Ok(())
    }),
    Row::ready("uid", "<number>", "33", "user to become after start, by number", |line, words| {
        let account = account(line, words, "user")?;
        if line.first_time(words, line.global.user.is_some()) {
            line.global.user = Some(account);
            line.global.user_at = Some(line.at.clone());
        }
        Ok(())
    }),
    Row::ready("gid", "<number>", "33", "group to join after start, by number", |line, words| {
        let account = account(line, words, "group")?;
        if line.first_time(words, line.global.group.is_some()) {
            line.global.group = Some(account);
            line.global.group_at = Some(line.at.clone());
        }
        Ok(())
    }),
    Row::ready("set-dumpable", "[ on | off | libs ]", "", "allow core dumps", |line, words| {
        line.global.core_dump = if words.at_end() || line.negated {
            if line.flag(words)? { CoreDump::Always } else { CoreDump::AsAllowed }
        } else {
            match line.choice(words, &["on", "off", "libs"])? {
                "on" => CoreDump::Always,
                "libs" => CoreDump::WithLibraries,
                _ => CoreDump::AsAllowed,
            }
        };
        Ok(())
    }),
    Row::ready("external-check", "[preserve-env]", "", "let programs check servers", |line, words| {
        let preserves_environment = words.take_if("preserve-env");
        if let Some(word) = words.take() {
            let message =
                format!("'external-check' only supports 'preserve-env' as an argument, found '{word}'.");
            return Err(fault(word.span(), message));
        }
        line.global.external_check = Some(ExternalCheck { preserves_environment });
        Ok(())
    }),
    Row::ready("insecure-fork-wanted", "", "", "do not forbid new processes", |line, words| {
        line.global.insecure_fork_wanted = line.flag(words)?;
        Ok(())
    }),
    Row::ready("insecure-setuid-wanted", "", "", "do not forbid set-user-id programs", |line, words| {
        line.global.insecure_setuid_wanted = line.flag(words)?;
        Ok(())
    }),
    Row::<GlobalReader>::ready(
        "node",
        "<name>",
        "lb1",
        "name of this instance in statistics and logs",
        |line, words| {
            let name = words.peek_text();
            let regular = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if name.is_empty() || !name.chars().all(regular) {
                let message = "'node' requires valid node name - non-empty string with digits(0-9), \
                           letters(A-Z, a-z), dot(.), hyphen(-) or underscode(_).";
                return Err(Box::new(Diagnostic::alert(words.here(), message).layout(Layout::ParsingTight)));
            }
            words.take();
            words.end("node")?;
            line.global.node = Some(name.into());
            Ok(())
        },
    )
    .default(Described("the host name")),
    Row::ready(
        "description",
        "<text>",
        "front of the shop",
        "description of this instance",
        |line, words| {
            if words.peek_text().is_empty() {
                let message = "'description' expects a string argument.";
                return Err(Box::new(Diagnostic::alert(words.here(), message).layout(Layout::ParsingTight)));
            }
            line.global.description = Some(words.line().join(words.position()).into());
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "localpeer",
        "<name>",
        "lb1",
        "name of this instance among its peers",
        |line, words| {
            let name = line.word(words, "a name as an argument")?;
            line.world.set_variable("HAPROXY_LOCALPEER", name.bytes());
            line.global.local_peer = Some(name.text().into());
            Ok(())
        },
    )
    .default(Described("the host name")),
    Row::ready(
        "server-state-base",
        "<directory>",
        "/var/lib",
        "where files with servers' states are",
        |line, words| {
            let name = words.expect("'server-state-base' expects one argument: a directory path.")?;
            if line.first_time(words, line.global.server_state_base.is_some()) {
                line.global.server_state_base = Some(name.text().into());
            }
            Ok(())
        },
    ),
    Row::ready(
        "server-state-file",
        "<file>",
        "state",
        "file with the states of all servers",
        |line, words| {
            let name = words.expect("'server-state-file' expects one argument: a file path.")?;
            if line.first_time(words, line.global.server_state_file.is_some()) {
                line.global.server_state_file = Some(name.text().into());
            }
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "close-spread-time",
        "{ <time> | infinite }",
        "10s",
        "over which time client connections close in a soft stop; infinite: only by themselves",
        |line, words| {
            if words.peek_text() == "infinite" {
                words.take();
                words.end(line.keyword)?;
                line.global.close_spread = CloseSpread::Never;
                return Ok(());
            }
            line.global.close_spread = CloseSpread::Over(line.delay(words)?);
            Ok(())
        },
    )
    .default(Described("idle connections are closed at once when the process stops")),
    Row::<GlobalReader>::ready(
        "hard-stop-after",
        "<time>",
        "30s",
        "how long a soft stop may take",
        |line, words| {
            line.global.hard_stop_after = Some(line.delay(words)?);
            Ok(())
        },
    )
    .default(Described("none: a process that stops waits for its last connection")),
    Row::<GlobalReader>::ready(
        "grace",
        "<time>",
        "10s",
        "how long to keep accepting after a soft stop begins",
        |line, words| {
            line.global.grace = Some(line.delay(words)?);
            Ok(())
        },
    )
    .default(Described("no delay")),
    Row::ready("nosplice", "", "", "never move data inside the kernel, like -dS", |line, words| {
        line.global.no_splice = line.flag(words)?;
        Ok(())
    }),
    Row::ready("no-memory-trimming", "", "", "never give free memory back to the system", |line, words| {
        line.global.no_memory_trimming = line.flag(words)?;
        Ok(())
    }),
    Row::ready("noreuseport", "", "", "never share a port between sockets, like -dR", |line, words| {
        line.global.no_reuse_port = line.flag(words)?;
        Ok(())
    }),
    Row::ready(
        "nokqueue",
        "",
        "",
        "do not use the poller of the BSDs, which weir never does",
        |line, words| line.flag(words).map(drop),
    ),
    Row::ready(
        "noevports",
        "",
        "",
        "do not use the poller of Solaris, which weir never does",
        |line, words| line.flag(words).map(drop),
    ),
    Row::ready("nopoll", "", "", "do not use poll(), which weir never does", |line, words| {
        line.flag(words).map(drop)
    }),
    Row::ready(
        "numa-cpu-mapping",
        "",
        "",
        "only 'no numa-cpu-mapping' is accepted: threads are never bound to one NUMA node",
        |line, words| {
            if line.flag(words)? {
                return Err(fault(
                    words.line().keyword().span(),
                    "'numa-cpu-mapping' is not implemented yet",
                ));
            }
            Ok(())
        },
    ),
    Row::removed("nbproc", "threads do what processes did, see 'nbthread'"),
    Row::removed("nogetaddrinfo", "there is only one way to resolve names"),
    Row::removed("stats bind-process", "there is only one process"),
];

/// The argument of `uid` or `gid`. HAProxy warns about a name and stays root. weir looks up the name.
fn account(line: &mut GlobalContext<'_>, words: &mut Words<'_>, kind: &str) -> Parsed<Account> {
    let is_name = words.peek_text().starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !is_name {
        return Ok(Account::Id(line.number(words, 0..=u32::MAX - 1)?));
    }
    let name = line.word(words, "a number as an argument")?;
    let message =
        format!("'{}' : string '{name}' is not a number; it is read as '{kind} {name}'.", line.keyword);
    line.diagnostics.warning(name.span(), message);
    Ok(Account::Name(name.text().into()))
}

/// The capabilities that `setcap` can keep (manual, "setcap").
const CAPABILITIES: [&str; 4] = ["cap_net_admin", "cap_net_bind_service", "cap_net_raw", "cap_sys_admin"];
