//! The command line: HAProxy's options, as rows.

use std::fmt::Write;
use std::path::PathBuf;

use weir_process::start::Former;

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// `-v` and its variants: print the version and exit.
    pub version: Option<VersionForm>,
    /// `-cc`: evaluate this condition and exit.
    pub condition: Option<String>,
    /// `-dt`: sources to trace to standard error from startup on. Empty for all.
    pub traces: Option<String>,
    /// `-dK`: list these classes of keywords.
    pub keywords: Option<String>,
    /// `-dMhelp`: list the memory debugging options and exit.
    pub memory_help: bool,
    /// `-f`, and the words after `--`.
    pub files: Vec<String>,
    /// `-C`.
    pub folder: Option<PathBuf>,
    /// `-c`.
    pub check: bool,
    /// `--format json`: prints the findings of `-c` for programs.
    pub json: bool,
    /// `-D`.
    pub daemon: bool,
    /// `-d`, `-db`.
    pub foreground: bool,
    /// `-V`, `-d`.
    pub verbose: bool,
    /// `-q`.
    pub quiet: bool,
    /// `-dW`.
    pub zero_warning: bool,
    /// `-dD`.
    pub diagnose: bool,
    /// `-dr`.
    pub ignore_unresolved: bool,
    /// `-4`.
    pub ipv4_only: bool,
    /// `-dR`.
    pub no_reuse_port: bool,
    /// `-dS`.
    pub no_splice: bool,
    /// `-dV`.
    pub no_server_verify: bool,
    /// `-n`.
    pub maxconn: Option<u32>,
    /// `-N`.
    pub proxy_maxconn: Option<u32>,
    /// `-m`.
    pub memory_mb: Option<u64>,
    /// `-L`.
    pub local_peer: Option<String>,
    /// `-p`.
    pub pid_file: Option<PathBuf>,
    /// `-sf`, `-st`.
    pub former: Former,
    /// `-x`.
    pub take_over: Option<PathBuf>,
    /// `-W`, `-Ws`.
    pub master: bool,
    /// `-Ws`.
    pub notify: bool,
    /// `-dC`: how to print the parsed configuration.
    pub dump: Option<Dump>,
    /// `-dL`: list the program file and its shared libraries.
    pub objects: bool,
    /// `-dA`: write the files listed by `-dL` to this archive. An empty path means standard output.
    pub archive: Option<PathBuf>,
    /// Notices about options without effect, one sentence each.
    pub without_effect: Vec<&'static str>,
    /// `-dc`: list the processors and the threads bound to each.
    pub processors: bool,
    /// `-h`: print the usage and exit.
    pub help: bool,
    /// `-S`, in the order of the command line.
    pub master_sockets: Vec<String>,
}

/// The output of `-v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionForm {
    /// `-v`.
    Usual,
    /// `-vv`.
    Long,
    /// `-vq`: the version number.
    Version,
    /// `-vqs`: the version number, digits and dots only.
    Short,
    /// `-vqb`: the branch.
    Branch,
}

/// How `-dC` prints the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    Lines,
    /// The configuration lines with numbers.
    Numbered,
}

/// Why the command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentFault {
    /// Print this text, then the usage.
    Usage(String),
    Text(String),
}

/// One option.
pub(crate) struct Flag {
    /// The option, with its dashes.
    pub name: &'static str,
    /// The placeholder of its argument in the usage. Empty without an argument.
    pub value: &'static str,
    /// The help sentence of the usage and the man page, without its subject.
    pub help: &'static str,
    act: Act,
}

enum Act {
    Set(fn(&mut Arguments)),
    /// Requires an argument as the next word.
    Take(fn(&mut Arguments, &str) -> Result<(), ArgumentFault>),
    /// Takes an optional argument attached to the name.
    Attached(fn(&mut Arguments, &str) -> Result<(), ArgumentFault>),
    /// Takes an optional argument as the next word.
    Perhaps(fn(&mut Arguments, &str)),
    Processes {
        at_once: bool,
    },
}

/// Parses the arguments that follow the program's name.
pub(crate) fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Arguments, ArgumentFault> {
    let mut arguments = Arguments::default();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            arguments.files.extend(words.by_ref().map(str::to_owned));
            break;
        }
        let Some((flag, rest)) = find(word) else {
            return Err(ArgumentFault::Usage(if word.starts_with('-') {
                format!("unknown option '{word}'.")
            } else {
                format!("unknown argument '{word}': a configuration file follows '-f' or '--'.")
            }));
        };
        match flag.act {
            Act::Set(set) => set(&mut arguments),
            Act::Take(take) => {
                let missing = || ArgumentFault::Usage(format!("'{}' expects {}.", flag.name, flag.value));
                take(&mut arguments, words.next().ok_or_else(missing)?)?;
            }
            Act::Attached(take) => take(&mut arguments, rest)?,
            Act::Perhaps(take) => {
                take(&mut arguments, words.next_if(|word| !word.starts_with('-')).unwrap_or_default());
            }
            Act::Processes { at_once } => {
                arguments.former.at_once = at_once;
                while let Some(word) = words.next_if(|word| !word.starts_with('-')) {
                    let process = number(word, "process number")?;
                    // kill(2) gives 0 and negative numbers another meaning.
                    if !(1..=i32::MAX as u32).contains(&process) {
                        return Err(ArgumentFault::Text(format!("'{word}' is not a valid process number.")));
                    }
                    arguments.former.processes.push(process);
                }
            }
        }
    }
    Ok(arguments)
}

/// The words of a command line, with the program's name, but without the options that only a first start needs. A master
/// passes these arguments when it re-executes itself.
pub(crate) fn without_former(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut kept = Vec::new();
    let mut words = words.iter().peekable();
    kept.extend(words.next().cloned());
    while let Some(word) = words.next() {
        match word.as_slice() {
            b"-sf" | b"-st" => while words.next_if(|word| !word.starts_with(b"-")).is_some() {},
            // `-x /dev/null` also applies to reloads, so it stays.
            b"-x" => {
                if let Some(never) = words.next().filter(|path| path.as_slice() == b"/dev/null") {
                    kept.extend([word.clone(), never.clone()]);
                }
            }
            b"--" => {
                kept.push(word.clone());
                kept.extend(words.by_ref().cloned());
            }
            name => {
                kept.push(word.clone());
                let flag = FLAGS.iter().find(|flag| flag.name.as_bytes() == name);
                if flag.is_some_and(|flag| matches!(flag.act, Act::Take(_))) {
                    kept.extend(words.next().cloned());
                }
            }
        }
    }
    kept
}

/// The option with this name, and the argument attached to the name.
fn find(word: &str) -> Option<(&'static Flag, &str)> {
    FLAGS.iter().find(|flag| flag.name == word).map(|flag| (flag, "")).or_else(|| {
        let may_attach = FLAGS.iter().filter(|flag| matches!(flag.act, Act::Attached(_)));
        may_attach.filter_map(|flag| Some((flag, word.strip_prefix(flag.name)?))).next()
    })
}

/// The options that `-dMhelp` of HAProxy lists for `-dM`.
const MEMORY_OPTIONS: &[&str] = &[
    "fail",
    "no-fail",
    "no-merge",
    "merge",
    "cold-first",
    "hot-first",
    "integrity",
    "no-integrity",
    "no-global",
    "global",
    "no-cache",
    "cache",
    "caller",
    "no-caller",
    "tag",
    "no-tag",
    "poison",
    "no-poison",
    "uaf",
    "no-uaf",
    "backup",
    "no-backup",
];

/// Whether a word is a decimal or hexadecimal number.
fn is_number(word: &str) -> bool {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
        None => word.parse::<u64>().is_ok(),
    }
}

fn number<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, ArgumentFault> {
    word.parse().map_err(|_| ArgumentFault::Text(format!("'{word}' is not a valid {what}.")))
}

/// The usage text for standard error.
pub(crate) fn usage(program: &str) -> String {
    let mut text = format!(
        "Usage : {program} [-f <cfgfile|cfgdir>]* [options] [-- <cfgfile>*]\n        {program} explain <word|code>\n        {program} explain -f <file> <line>\n        {program} lint -f <file> [--format json]\n        {program} diff <cfgfile|cfgdir> <cfgfile|cfgdir>\n"
    );
    for flag in FLAGS {
        let head =
            format!("{}{}{}", flag.name, if flag.value.starts_with('[') { "" } else { " " }, flag.value);
        // Writing to a string does not fail.
        let _ = writeln!(text, "        {:<18} {}", head.trim_end(), flag.help);
    }
    text
}

/// Every option.
pub(crate) static FLAGS: &[Flag] = &[
    Flag {
        name: "-f",
        value: "<file|folder>",
        help: "reads a configuration file, or all of a folder that end in .cfg; may be repeated",
        act: Act::Take(|arguments, word| {
            arguments.files.push(word.to_owned());
            Ok(())
        }),
    },
    Flag {
        name: "-v",
        value: "",
        help: "prints the version",
        act: Act::Set(|a| a.version = Some(VersionForm::Usual)),
    },
    Flag {
        name: "-vv",
        value: "",
        help: "prints the version and the build options",
        act: Act::Set(|a| a.version = Some(VersionForm::Long)),
    },
    Flag {
        name: "-vq",
        value: "",
        help: "prints the version alone",
        act: Act::Set(|a| a.version = Some(VersionForm::Version)),
    },
    Flag {
        name: "-vqs",
        value: "",
        help: "prints the version's numbers alone",
        act: Act::Set(|a| a.version = Some(VersionForm::Short)),
    },
    Flag {
        name: "-vqb",
        value: "",
        help: "prints the version's branch alone",
        act: Act::Set(|a| a.version = Some(VersionForm::Branch)),
    },
    Flag {
        name: "-c",
        value: "",
        help: "checks the configuration and ends",
        act: Act::Set(|a| a.check = true),
    },
    Flag {
        name: "--format",
        value: "<text|json>",
        help: "with -c and lint: prints the findings as text or as JSON",
        act: Act::Take(|arguments, word| {
            arguments.json = match word {
                "json" => true,
                "text" => false,
                _ => {
                    return Err(ArgumentFault::Text(format!(
                        "'--format' is 'text' or 'json', not '{word}'."
                    )));
                }
            };
            Ok(())
        }),
    },
    Flag {
        name: "-cc",
        value: "<condition>",
        help: "evaluates a condition, as .if does, and ends with 0 or 1",
        act: Act::Take(|arguments, word| {
            arguments.condition = Some(word.to_owned());
            Ok(())
        }),
    },
    Flag { name: "-D", value: "", help: "goes to the background", act: Act::Set(|a| a.daemon = true) },
    Flag {
        name: "-d",
        value: "",
        help: "stays in the foreground and prints more messages",
        act: Act::Set(|a| (a.foreground, a.verbose) = (true, true)),
    },
    Flag { name: "-db", value: "", help: "stays in the foreground", act: Act::Set(|a| a.foreground = true) },
    Flag { name: "-V", value: "", help: "prints more messages", act: Act::Set(|a| a.verbose = true) },
    Flag { name: "-q", value: "", help: "prints nothing", act: Act::Set(|a| a.quiet = true) },
    Flag {
        name: "-C",
        value: "<folder>",
        help: "changes to a folder before reading anything",
        act: Act::Take(|arguments, word| {
            arguments.folder = Some(word.into());
            Ok(())
        }),
    },
    Flag {
        name: "-n",
        value: "<number>",
        help: "holds at most so many connections",
        act: Act::Take(|arguments, word| {
            number(word, "connection count").map(|n| arguments.maxconn = Some(n))
        }),
    },
    Flag {
        name: "-N",
        value: "<number>",
        help: "limit of connections for frontends without 'maxconn'",
        act: Act::Take(|arguments, word| {
            number(word, "connection count").map(|n| arguments.proxy_maxconn = Some(n))
        }),
    },
    Flag {
        name: "-m",
        value: "<megabytes>",
        help: "uses at most so much memory",
        act: Act::Take(|arguments, word| {
            number(word, "amount of memory").map(|n| arguments.memory_mb = Some(n))
        }),
    },
    Flag {
        name: "-L",
        value: "<name>",
        help: "names this instance in sections 'peers'; the host's name by default",
        act: Act::Take(|arguments, word| {
            arguments.local_peer = Some(word.to_owned());
            Ok(())
        }),
    },
    Flag {
        name: "-p",
        value: "<file>",
        help: "writes the number of the process to a file",
        act: Act::Take(|arguments, word| {
            arguments.pid_file = Some(word.into());
            Ok(())
        }),
    },
    Flag {
        name: "-sf",
        value: "<pid>*",
        help: "once it listens, stops these processes after their last connection",
        act: Act::Processes { at_once: false },
    },
    Flag {
        name: "-st",
        value: "<pid>*",
        help: "once it listens, stops these processes",
        act: Act::Processes { at_once: true },
    },
    Flag {
        name: "-x",
        value: "<socket>",
        help: "takes over the listening sockets of the running process with this stats socket",
        act: Act::Take(|arguments, word| {
            arguments.take_over = Some(word.into());
            Ok(())
        }),
    },
    Flag {
        name: "-W",
        value: "",
        help: "starts a master that watches a worker, and reloads on SIGUSR2",
        act: Act::Set(|a| a.master = true),
    },
    Flag {
        name: "-Ws",
        value: "",
        help: "as -W, and reports its state to systemd",
        act: Act::Set(|a| (a.master, a.notify) = (true, true)),
    },
    Flag {
        name: "-S",
        value: "<bind>[,<option>...]",
        help: "opens the master's command line there",
        act: Act::Take(|arguments, word| {
            arguments.master_sockets.push(word.to_owned());
            Ok(())
        }),
    },
    Flag {
        name: "-dW",
        value: "",
        help: "ends when there is any warning",
        act: Act::Set(|a| a.zero_warning = true),
    },
    Flag {
        name: "-dD",
        value: "",
        help: "reports unusual lines of the configuration",
        act: Act::Set(|a| a.diagnose = true),
    },
    Flag {
        name: "-dr",
        value: "",
        help: "starts even if names of servers do not resolve",
        act: Act::Set(|a| a.ignore_unresolved = true),
    },
    Flag {
        name: "-4",
        value: "",
        help: "looks for IPv4 addresses only when it resolves names",
        act: Act::Set(|a| a.ipv4_only = true),
    },
    Flag {
        name: "-dV",
        value: "",
        help: "does not verify the certificates of servers, as 'ssl-server-verify none' in global",
        act: Act::Set(|a| a.no_server_verify = true),
    },
    Flag {
        name: "-dR",
        value: "",
        help: "shares no address with another process",
        act: Act::Set(|a| a.no_reuse_port = true),
    },
    Flag {
        name: "-dS",
        value: "",
        help: "moves no bytes inside the kernel",
        act: Act::Set(|a| a.no_splice = true),
    },
    Flag {
        name: "-dK",
        value: "<class[,...]>",
        help: "lists keywords; -dKhelp lists the classes",
        act: Act::Attached(|arguments, word| {
            arguments.keywords = Some(word.to_owned());
            Ok(())
        }),
    },
    Flag {
        name: "-dM",
        value: "[<byte>,][help|...]",
        help: "debugs memory in HAProxy: accepted for compatibility, no effect; -dMhelp prints more",
        act: Act::Attached(|arguments, word| {
            for (index, option) in word.split(',').enumerate().filter(|(_, option)| !option.is_empty()) {
                let is_known = MEMORY_OPTIONS.contains(&option) || (index == 0 && is_number(option));
                arguments.memory_help |= option == "help";
                if !is_known && option != "help" {
                    return Err(ArgumentFault::Text(format!(
                        "-dM: unknown pool debugging feature <{option}>."
                    )));
                }
            }
            Ok(())
        }),
    },
    Flag {
        name: "-dt",
        value: "[ <source>[:<level>[:<verbosity>]],...]",
        help: "traces to standard error; -dt help explains the syntax",
        act: Act::Perhaps(|a, word| a.traces = Some(word.to_owned())),
    },
    Flag {
        name: "-dI",
        value: "",
        help: "allows new processes, which are never forbidden",
        act: Act::Set(|_| ()),
    },
    Flag { name: "-dk", value: "", help: "uses no kqueue, which Linux does not have", act: Act::Set(|_| ()) },
    Flag {
        name: "-dv",
        value: "",
        help: "uses no event ports, which Linux does not have",
        act: Act::Set(|_| ()),
    },
    Flag { name: "-dp", value: "", help: "uses no poll(), which is never used", act: Act::Set(|_| ()) },
    Flag {
        name: "-dA",
        value: "[file]",
        help: "puts the program and its libraries into a tar file, or on standard output, to read a core with",
        act: Act::Attached(|arguments, word| {
            arguments.archive = Some(word.into());
            Ok(())
        }),
    },
    Flag {
        name: "-dC",
        value: "[,line]",
        help: "prints the configuration as understood, with line numbers on request",
        act: Act::Attached(|arguments, word| {
            arguments.dump = match word {
                "" => Some(Dump::Lines),
                ",line" => Some(Dump::Numbered),
                _ => {
                    let text = "'-dC' with a key is not implemented yet: only '-dC' and '-dC,line' are.";
                    return Err(ArgumentFault::Text(text.to_owned()));
                }
            };
            Ok(())
        }),
    },
    Flag {
        name: "-dF",
        value: "",
        help: "moves no bytes inside the kernel, as -dS",
        act: Act::Set(|a| a.no_splice = true),
    },
    Flag {
        name: "-dG",
        value: "",
        help: "accepted for compatibility, no effect: getaddrinfo() is the only way to resolve names",
        act: Act::Set(|a| {
            a.without_effect.push("'-dG' has no effect: getaddrinfo() is the only way to resolve names.")
        }),
    },
    Flag {
        name: "-dL",
        value: "",
        help: "lists the program and its libraries once the configuration was read",
        act: Act::Set(|a| a.objects = true),
    },
    Flag {
        name: "-dT",
        value: "",
        help: "has the kernel encrypt nothing, which it never does",
        act: Act::Set(|_| ()),
    },
    Flag {
        name: "-dZ",
        value: "",
        help: "moves no bytes inside the kernel, as -dS",
        act: Act::Set(|a| a.no_splice = true),
    },
    Flag {
        name: "-dc",
        value: "",
        help: "lists processors, and the threads that run there",
        act: Act::Set(|a| a.processors = true),
    },
    Flag {
        name: "-de",
        value: "",
        help: "accepted for compatibility, no effect: epoll is the only poller",
        act: Act::Set(|a| a.without_effect.push("'-de' has no effect: epoll is the only poller.")),
    },
    Flag {
        name: "-version",
        value: "",
        help: "prints the version, as -v and --version do",
        act: Act::Set(|a| a.version = Some(VersionForm::Usual)),
    },
    Flag {
        name: "--version",
        value: "",
        help: "prints the version, as -v does",
        act: Act::Set(|a| a.version = Some(VersionForm::Usual)),
    },
    Flag { name: "-h", value: "", help: "prints this, as --help does", act: Act::Set(|a| a.help = true) },
    Flag { name: "--help", value: "", help: "prints this", act: Act::Set(|a| a.help = true) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, change: impl FnOnce(&mut Arguments)) {
        let mut expected = Arguments::default();
        change(&mut expected);
        assert_eq!(parse(line.split_whitespace()), Ok(expected), "{line}");
    }

    #[track_caller]
    fn refuse(line: &str, expected: &str) {
        let refused = match parse(line.split_whitespace()) {
            Err(ArgumentFault::Usage(text) | ArgumentFault::Text(text)) => text,
            Ok(arguments) => panic!("{line}: {arguments:?}"),
        };
        assert_eq!(refused, expected, "{line}");
    }

    #[test]
    fn each_command_line_option_sets_its_fields() {
        check("", |_| ());
        check("-f a.cfg -f b/ -- c.cfg -d", |a| {
            a.files = ["a.cfg", "b/", "c.cfg", "-d"].map(str::to_owned).to_vec();
        });
        check("-d", |a| (a.foreground, a.verbose) = (true, true));
        check("-db -q -V -c", |a| (a.foreground, a.quiet, a.verbose, a.check) = (true, true, true, true));
        check("-n 100 -N 10 -m 64", |a| {
            (a.maxconn, a.proxy_maxconn, a.memory_mb) = (Some(100), Some(10), Some(64));
        });
        check("-p /run/w.pid -C /etc -L me", |a| {
            a.pid_file = Some("/run/w.pid".into());
            a.folder = Some("/etc".into());
            a.local_peer = Some("me".to_owned());
        });
        check("-sf 1 22 333 -D", |a| {
            a.former.processes = vec![1, 22, 333];
            a.daemon = true;
        });
        check("-st", |a| a.former.at_once = true);
        check("-4", |a| a.ipv4_only = true);
        check("-dV", |a| a.no_server_verify = true);
        check("-c --format json", |a| (a.check, a.json) = (true, true));
        check("-c --format text", |a| a.check = true);
        check("-cc streq(a,b)", |a| a.condition = Some("streq(a,b)".to_owned()));
        check("-W -S /run/m,level,user -S fd@4 -x /run/s", |a| {
            a.master = true;
            a.master_sockets = ["/run/m,level,user", "fd@4"].map(str::to_owned).to_vec();
            a.take_over = Some("/run/s".into());
        });
        check("-Ws", |a| (a.master, a.notify) = (true, true));
        check("-vv", |a| a.version = Some(VersionForm::Long));
    }

    #[test]
    fn accepts_haproxy_debug_options_used_by_test_suites() {
        check("-dM -dI -dW -dr -dD -dR -dS", |a| {
            (a.zero_warning, a.ignore_unresolved, a.diagnose) = (true, true, true);
            (a.no_reuse_port, a.no_splice) = (true, true);
        });
        check("-dM0x50,no-merge", |_| ());
        check("-dM0 -dM80,tag,,no-tag, -dMcold-first,hot-first", |_| ());
        check("-dt", |a| a.traces = Some(String::new()));
        check("-dt -V", |a| (a.traces, a.verbose) = (Some(String::new()), true));
        check("-dt h1:data,session::clean", |a| a.traces = Some("h1:data,session::clean".to_owned()));
        check("-dMhelp", |a| a.memory_help = true);
        check("-dC", |a| a.dump = Some(Dump::Lines));
        check("-dC,line -dL -dc -dT", |a| {
            (a.dump, a.objects, a.processors) = (Some(Dump::Numbered), true, true);
        });
        check("-dA", |a| a.archive = Some("".into()));
        check("-dA/tmp/a.tar", |a| a.archive = Some("/tmp/a.tar".into()));
        for word in ["-dF", "-dZ", "-dS"] {
            check(word, |a| a.no_splice = true);
        }
        for word in ["-version", "--version", "-v"] {
            check(word, |a| a.version = Some(VersionForm::Usual));
        }
        check("--help", |a| a.help = true);
        check("-dKall", |a| a.keywords = Some("all".to_owned()));
        check("-dKcfg,smp", |a| a.keywords = Some("cfg,smp".to_owned()));
    }

    #[test]
    fn invalid_arguments_are_rejected_with_a_message() {
        refuse("-foo", "unknown option '-foo'.");
        refuse("--foo", "unknown option '--foo'.");
        refuse("-dc1", "unknown option '-dc1'.");
        refuse("file.cfg", "unknown argument 'file.cfg': a configuration file follows '-f' or '--'.");
        refuse("-f", "'-f' expects <file|folder>.");
        refuse("-x", "'-x' expects <socket>.");
        refuse("-S", "'-S' expects <bind>[,<option>...].");
        refuse("--format xml", "'--format' is 'text' or 'json', not 'xml'.");
        refuse("-n many", "'many' is not a valid connection count.");
        refuse("-n -1", "'-1' is not a valid connection count.");
        for word in ["nosuch", "tag,nosuch", "tag,0x50", "5tag"] {
            let option = word.trim_start_matches("tag,");
            refuse(&format!("-dM{word}"), &format!("-dM: unknown pool debugging feature <{option}>."));
        }
        refuse("-dC5", "'-dC' with a key is not implemented yet: only '-dC' and '-dC,line' are.");
        for word in ["12x", "0", "2147483648", "4294967296", "99999999999999999999"] {
            refuse(&format!("-sf 1 {word}"), &format!("'{word}' is not a valid process number."));
        }
    }

    #[test]
    fn a_reexecuted_master_drops_the_options_of_a_takeover() {
        let kept = |text: &str| {
            let words: Vec<Vec<u8>> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let kept: Vec<String> = without_former(&words)
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            kept.join(" ")
        };
        assert_eq!(kept("weir -W -f a.cfg -sf 1 2 3 -D"), "weir -W -f a.cfg -D");
        assert_eq!(kept("weir -x /run/s -W -S -sf -st"), "weir -W -S -sf");
        assert_eq!(kept("-sf -W -- -x -sf 1"), "-sf -W -- -x -sf 1");
        assert_eq!(kept("weir -W -x /dev/null -f a.cfg"), "weir -W -x /dev/null -f a.cfg");
    }

    #[test]
    fn the_usage_describes_every_option() {
        let usage = usage("weir");
        for flag in FLAGS {
            let shown =
                usage.lines().any(|line| line.trim_start().split([' ', '[', '<']).next() == Some(flag.name));
            assert!(shown && !flag.help.is_empty(), "{}", flag.name);
        }
    }
}
