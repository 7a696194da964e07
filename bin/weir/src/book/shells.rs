//! Man pages and shell completions.

use std::collections::BTreeSet;
use std::fmt::Write;

use weir_config::vocabulary::{self, WordPlace, WordState};
use weir_stream::KEYWORDS;

use super::{GeneratedFile, sentence};
use crate::arguments::{FLAGS, Flag};
use crate::explain::entries;

pub(super) fn all() -> Vec<GeneratedFile> {
    let file = |path: &str, text| GeneratedFile { path: path.to_owned(), text };
    vec![
        file("packaging/man/weir.1", weir()),
        file("packaging/man/weir.cfg.5", configuration()),
        file(
            "packaging/man/weir-ring.1",
            of_usage("weir-ring", "prints the messages of a ring's file", RING),
        ),
        file(
            "packaging/man/weir-top.1",
            of_usage("weir-top", "terminal dashboard over the runtime API", TOP),
        ),
        file("packaging/completion/weir.bash", bash()),
        file("packaging/completion/_weir", zsh()),
        file("packaging/completion/weir.fish", fish()),
        file("packaging/completion/weir-top.bash", top_bash()),
        file("packaging/completion/_weir-top", top_zsh()),
        file("packaging/completion/weir-top.fish", top_fish()),
    ]
}

fn head(name: &str, section: u8, about: &str) -> String {
    let upper = name.to_uppercase();
    format!(
        ".\\\" Generated from the rows of the program: make reference.\n.TH {} {section} \"\" weir\n.SH NAME\n{} \\- {}\n",
        roff(&upper),
        roff(name),
        roff(about)
    )
}

/// Text for roff, with its control characters escaped.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn item(text: &mut String, word: &str, arguments: &str, help: &str) {
    let arguments = if arguments.is_empty() { String::new() } else { format!(" {}", arguments.trim_start()) };
    let _ = writeln!(text, ".TP\n\\fB{}\\fR{}\n{}", roff(word), roff(&arguments), roff(&sentence(help)));
}

fn weir() -> String {
    let mut text = head("weir", 1, "a load balancer for TCP and HTTP that reads HAProxy's configuration");
    text.push_str(
        ".SH SYNOPSIS\n\
         .B weir\n[\\fB\\-f\\fR \\fIfile\\fR|\\fIfolder\\fR]... [\\fIoptions\\fR] [\\fB\\-\\-\\fR \\fIfile\\fR...]\n.br\n\
         .B weir explain\n\\fIword\\fR|\\fIcode\\fR\n.br\n\
         .B weir explain \\-f\n\\fIfile line\\fR\n.br\n\
         .B weir lint \\-f\n\\fIfile\\fR [\\fB\\-\\-format json\\fR]\n.br\n\
         .B weir diff\n\\fIold new\\fR\n\
         .SH DESCRIPTION\n\
         weir accepts connections, applies the rules of its configuration, and sends each connection or request to one of several\n\
         servers. It takes the configuration, the command line and the runtime API of HAProxy. A word that it does not know is an\n\
         error at the start.\n.PP\n\
         .B weir explain\ntells what a word of the configuration, a fetch, a converter, a log alias, a command, a statistic, the\n\
         termination code of a log line or the code of a problem means; with a file and the number of a line, what that line means\n\
         where it stands.\n.PP\n\
         .B weir lint\ntells of what is valid and probably not meant.\n.PP\n\
         .B weir diff\ncompares the meaning of two configurations, each a file or a folder: a line for each object that was added, removed or\n\
         changed. It ends with 0 when both mean the same, 1 when they differ, 2 when one cannot be used.\n.PP\n\
         Without a configuration, a built\\-in one is served on port 8080 of this machine.\n.SH OPTIONS\n",
    );
    FLAGS.iter().for_each(|flag| item(&mut text, flag.name, flag.value, flag.help));
    text.push_str(
        ".SH SIGNALS\n.TP\n.B SIGUSR1\nStops listening and ends after the last connection.\n\
         .TP\n.B SIGTERM\nEnds at once.\n\
         .TP\n.B SIGUSR2, SIGHUP\nA master reads its configuration again and starts a new worker.\n\
         .SH EXIT STATUS\n.TP\n.B 0\nAll went well.\n\
         .TP\n.B 1\nThe configuration cannot be used, or the start failed.\n\
         .TP\n.B 2\nWith \\fB\\-c\\fR: the configuration is right and listens nowhere.\n\
         .SH SEE ALSO\n.BR weir.cfg (5),\n.BR weir\\-ring (1),\n.BR weir\\-top (1)\n",
    );
    text
}

fn configuration() -> String {
    let mut text = head("weir.cfg", 5, "the configuration of weir");
    text.push_str(
        ".SH DESCRIPTION\n\
         A file is a list of sections. Words are separated by blanks; quotes and backslashes keep blanks together; what follows a\n\
         number sign is a comment. Inside double quotes, \\fB${NAME}\\fR is a variable of the environment.\n\
         Below is each word with its arguments. \\fBweir explain\\fR \\fIword\\fR has an example.\n",
    );
    let words = vocabulary::words(&KEYWORDS);
    for place in WordPlace::ALL {
        let _ = writeln!(text, ".SH {}", roff(&place.title().to_uppercase()));
        let there = words.iter().filter(|word| word.place == place && word.state == WordState::Ready);
        there.for_each(|word| item(&mut text, word.name, word.arguments, word.help));
    }
    text.push_str(".SH SEE ALSO\n.BR weir (1)\n");
    text
}

/// A man page from a program's usage text.
fn of_usage(name: &str, about: &str, source: &str) -> String {
    let mut text = head(name, 1, about);
    let _ = writeln!(text, ".SH SYNOPSIS\n.B {}", roff(name));
    let (first, rest) = usage(source).split_once('\n').expect("lines");
    let _ = writeln!(text, "{}\n.SH DESCRIPTION", roff(first.trim_start_matches(&format!("usage: {name} "))));
    let mut after_options = false;
    for line in rest.lines() {
        match line.trim_start().split_once("  ").filter(|_| line.starts_with("  ")) {
            Some((option, help)) => {
                let (word, arguments) = option.split_once(" <").unwrap_or((option, ""));
                let arguments = if arguments.is_empty() { String::new() } else { format!("<{arguments}") };
                item(&mut text, word, &arguments, help);
                after_options = true;
            }
            None if text.ends_with(".SH DESCRIPTION\n") => {
                let _ = writeln!(text, "{}", roff(&sentence(line)));
            }
            None => {
                let begin = if std::mem::take(&mut after_options) { ".PP\n" } else { "" };
                let _ = writeln!(text, "{begin}{}", roff(line));
            }
        }
    }
    text.push_str(".SH SEE ALSO\n.BR weir (1)\n");
    text
}

/// The text of the constant `USAGE` in a program's source.
fn usage(source: &str) -> &str {
    source.split("\"\\\n").nth(1).and_then(|rest| rest.split("\n\";").next()).expect("a usage")
}

/// The options of weir-top: spellings, value placeholder, and help.
fn top_options() -> Vec<(Vec<&'static str>, &'static str, &'static str)> {
    let lines = usage(TOP).lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let option = |(option, help): (&'static str, &'static str)| {
        let (words, value) = option.split_once(" <").unwrap_or((option, ""));
        (words.split(", ").collect(), value.trim_end_matches('>'), help)
    };
    lines.map(option).collect()
}

fn top_bash() -> String {
    let words: Vec<&str> = top_options().into_iter().flat_map(|(words, ..)| words).collect();
    format!(
        "# Generated from the rows of the program: make reference.\n\
         _weir_top() {{\n\
         \x20   local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n\
         \x20   case $previous in\n\
         \x20   -s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n\
         \x20   --view) COMPREPLY=($(compgen -W '{VIEWS}' -- \"$word\")); return ;;\n\
         \x20   -i|--filter|--sort) COMPREPLY=(); return ;;\n\
         \x20   esac\n\
         \x20   COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n\
         }}\n\
         complete -o filenames -F _weir_top weir-top\n",
        words.join(" ")
    )
}

fn top_zsh() -> String {
    let mut text = String::from(
        "#compdef weir-top\n# Generated from the rows of the program: make reference.\n_arguments",
    );
    for (words, value, help) in top_options() {
        let help: String = help.chars().filter(|c| !matches!(c, '\'' | '[' | ']' | ':' | '\\')).collect();
        let value = match value {
            "" => String::new(),
            "socket" => ":socket:_files".to_owned(),
            "name" => format!(":view:({VIEWS})"),
            value => format!(":{value}: "),
        };
        for word in words {
            let _ = write!(text, " \\\n    '{word}[{help}]{value}'");
        }
    }
    text.push('\n');
    text
}

fn top_fish() -> String {
    let mut text =
        String::from("# Generated from the rows of the program: make reference.\ncomplete -c weir-top -f\n");
    for (words, value, help) in top_options() {
        let help = help.replace('\\', "\\\\").replace('\'', "\\'");
        let names = words.iter().map(|word| match word.strip_prefix("--") {
            Some(long) => format!(" -l {long}"),
            None => format!(" -s {}", &word[1..]),
        });
        let value = match value {
            "" => String::new(),
            "socket" => " -r -F".to_owned(),
            "name" => format!(" -x -a '{VIEWS}'"),
            _ => " -x".to_owned(),
        };
        let _ = writeln!(text, "complete -c weir-top{}{value} -d '{help}'", names.collect::<String>());
    }
    text
}

/// All single words accepted by `weir explain`.
fn explained() -> String {
    let entries = entries();
    let words: BTreeSet<&str> =
        entries.iter().map(|entry| entry.name).filter(|name| !name.contains(' ')).collect();
    let plain =
        |word: &&&str| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    words.iter().filter(plain).copied().collect::<Vec<_>>().join(" ")
}

fn options() -> Vec<&'static str> {
    FLAGS.iter().map(|flag| flag.name).collect()
}

/// The kind of value that an option of weir takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    Nothing,
    File,
    Folder,
    Format,
    Text,
}

impl OptionValue {
    fn of(flag: &Flag) -> OptionValue {
        match flag.name {
            "-f" | "-p" | "-x" => OptionValue::File,
            "-C" => OptionValue::Folder,
            "--format" => OptionValue::Format,
            _ if flag.value.starts_with('<') => OptionValue::Text,
            _ => OptionValue::Nothing,
        }
    }

    /// The options with this kind of value, as a shell pattern.
    fn pattern(self) -> String {
        let flags = FLAGS.iter().filter(|flag| OptionValue::of(flag) == self);
        flags.map(|flag| flag.name).collect::<Vec<_>>().join("|")
    }
}

fn bash() -> String {
    format!(
        "# Generated from the rows of the program: make reference.\n\
         _weir() {{\n\
         \x20   local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n\
         \x20   case $previous in\n\
         \x20   {}|--) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n\
         \x20   {}) COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n\
         \x20   {}) COMPREPLY=($(compgen -W 'text json' -- \"$word\")); return ;;\n\
         \x20   esac\n\
         \x20   if [[ ${{COMP_WORDS[1]}} == explain && $word != -* ]]; then\n\
         \x20       COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n\
         \x20   else\n\
         \x20       local first=; [[ $COMP_CWORD == 1 ]] && first='explain lint diff'\n\
         \x20       COMPREPLY=($(compgen -W \"$first {}\" -- \"$word\"))\n\
         \x20   fi\n\
         }}\n\
         complete -o filenames -F _weir weir\n",
        OptionValue::File.pattern(),
        OptionValue::Folder.pattern(),
        OptionValue::Format.pattern(),
        explained(),
        options().join(" ")
    )
}

fn zsh() -> String {
    let mut text = String::from(
        "#compdef weir\n# Generated from the rows of the program: make reference.\nlocal -a options\noptions=(\n",
    );
    for flag in FLAGS {
        let help: String =
            flag.help.chars().filter(|c| !matches!(c, '\'' | '[' | ']' | ':' | '\\')).collect();
        let value = match OptionValue::of(flag) {
            OptionValue::File => ":file:_files",
            OptionValue::Folder => ":folder:_files -/",
            OptionValue::Format => ":format:(text json)",
            OptionValue::Text => ":value: ",
            OptionValue::Nothing => "",
        };
        let _ = writeln!(text, "    '*{}[{help}]{value}'", flag.name);
    }
    let _ = write!(
        text,
        ")\nif (( CURRENT == 2 )); then\n    compadd explain lint diff\nfi\nif [[ $words[2] == explain ]]; then\n    compadd {}\nelse\n    _arguments -A '-*' $options\nfi\n",
        explained()
    );
    text
}

/// Completions for fish. `-s` is for one-letter options, `-o` for others with one dash, `-l` for two dashes.
fn fish() -> String {
    let mut text = String::from(
        "# Generated from the rows of the program: make reference.\n\
         complete -c weir -n 'test (count (commandline -opc)) -eq 1' -f -a 'explain lint diff'\n",
    );
    for flag in FLAGS {
        let help = flag.help.replace('\\', "\\\\").replace('\'', "\\'");
        let option = match flag.name.strip_prefix("--") {
            Some("") => continue,
            Some(long) => format!("-l {long}"),
            None if flag.name.len() == 2 => format!("-s {}", &flag.name[1..]),
            None => format!("-o {}", flag.name.trim_start_matches('-')),
        };
        let value = match OptionValue::of(flag) {
            OptionValue::File => " -r -F",
            OptionValue::Folder => " -x -a '(__fish_complete_directories)'",
            OptionValue::Format => " -x -a 'text json'",
            OptionValue::Text => " -x",
            OptionValue::Nothing => "",
        };
        let _ = writeln!(text, "complete -c weir {option}{value} -d '{help}'");
    }
    let _ =
        writeln!(text, "complete -c weir -n '__fish_seen_subcommand_from explain' -f -a '{}'", explained());
    text
}

/// The values of `--view` of weir-top.
const VIEWS: &str = "overview frontends backends servers errors sessions";
const TOP: &str = include_str!("../../../weir-top/src/arguments.rs");
const RING: &str = include_str!("../../../weir-ring/src/arguments.rs");
