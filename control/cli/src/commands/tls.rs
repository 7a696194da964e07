//! Certificates, CA files and CRL files: one implementation of each verb for all three. Also certificate lists and their server names.

use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::TlsFileKind::{Authorities, Certificate, Revocations};
use crate::target::{CommandTarget, ListRefusal, TlsFileKind, TlsRefusal};

macro_rules! row {
    ($name:literal, $syntax:literal, $level:ident, $help:literal, $run:expr) => {
        Command {
            name: $name,
            syntax: $syntax,
            level: Level::$level,
            flags: WORKER,
            help: $help,
            run: Some($run),
        }
    };
}

pub(super) static COMMANDS: &[Command] = &[
    row!(
        "abort ssl ca-file",
        "abort ssl ca-file <cafile>",
        Admin,
        "give up a change of a CA file",
        |c, a| abort(c, a, Authorities)
    ),
    row!(
        "abort ssl cert",
        "abort ssl cert <certfile>",
        Admin,
        "give up a change of a certificate",
        |c, a| abort(c, a, Certificate)
    ),
    row!(
        "abort ssl crl-file",
        "abort ssl crl-file <crlfile>",
        Admin,
        "give up a change of a revocation list",
        |c, a| abort(c, a, Revocations)
    ),
    row!(
        "add ssl ca-file",
        "add ssl ca-file <cafile> <payload>",
        Admin,
        "add certificates to a CA file",
        |c, a| set(c, a, Authorities, true)
    ),
    row!(
        "add ssl crt-list",
        "add ssl crt-list <list> <cert> [opts]*",
        Admin,
        "add a line to a list of certificates",
        add_line
    ),
    row!("commit ssl ca-file", "commit ssl ca-file <cafile>", Admin, "use a changed CA file", |c, a| commit(
        c,
        a,
        Authorities
    )),
    row!("commit ssl cert", "commit ssl cert <certfile>", Admin, "use a changed certificate", |c, a| commit(
        c,
        a,
        Certificate
    )),
    row!(
        "commit ssl crl-file",
        "commit ssl crl-file <crlfile>",
        Admin,
        "use a changed revocation list",
        |c, a| commit(c, a, Revocations)
    ),
    row!("del ssl ca-file", "del ssl ca-file <cafile>", Admin, "forget an unused CA file", |c, a| delete(
        c,
        a,
        Authorities
    )),
    row!("del ssl cert", "del ssl cert <certfile>", Admin, "forget an unused certificate", |c, a| delete(
        c,
        a,
        Certificate
    )),
    row!(
        "del ssl crl-file",
        "del ssl crl-file <crlfile>",
        Admin,
        "forget an unused revocation list",
        |c, a| { delete(c, a, Revocations) }
    ),
    row!(
        "del ssl crt-list",
        "del ssl crt-list <list> <cert[:line]>",
        Admin,
        "delete a line of a list of certificates",
        delete_line
    ),
    row!("dump ssl cert", "dump ssl cert <certfile>", Admin, "print a certificate in PEM form", dump),
    row!("new ssl ca-file", "new ssl ca-file <cafile>", Admin, "make an empty CA file", |c, a| new(
        c,
        a,
        Authorities
    )),
    row!("new ssl cert", "new ssl cert <certfile>", Admin, "make an empty certificate", |c, a| new(
        c,
        a,
        Certificate
    )),
    row!("new ssl crl-file", "new ssl crl-file <crlfile>", Admin, "make an empty revocation list", |c, a| {
        new(c, a, Revocations)
    }),
    row!(
        "set ssl ca-file",
        "set ssl ca-file <cafile> <payload>",
        Admin,
        "give a CA file new contents",
        |c, a| set(c, a, Authorities, false)
    ),
    row!(
        "set ssl cert",
        "set ssl cert <certfile> <payload>",
        Admin,
        "give a certificate new contents",
        |c, a| set(c, a, Certificate, false)
    ),
    row!(
        "set ssl crl-file",
        "set ssl crl-file <crlfile> <payload>",
        Admin,
        "give a revocation list new contents",
        |c, a| set(c, a, Revocations, false)
    ),
    row!(
        "show ssl ca-file",
        "show ssl ca-file [<cafile>[:<index>]]",
        User,
        "list the CA files, or show one",
        |c, a| show(c, a, Authorities)
    ),
    row!(
        "show ssl cert",
        "show ssl cert [<certfile>]",
        User,
        "list the certificates, or show one",
        |c, a| show(c, a, Certificate)
    ),
    row!(
        "show ssl crl-file",
        "show ssl crl-file [<crlfile[:<index>>]]",
        User,
        "list the revocation lists, or show one",
        |c, a| show(c, a, Revocations)
    ),
    row!(
        "show ssl crt-list",
        "show ssl crt-list [-n] [<list>]",
        Admin,
        "list the lists of certificates, or show one",
        show_lists
    ),
    row!(
        "show ssl providers",
        "show ssl providers",
        User,
        "list the providers of the TLS library",
        |_, _| CommandOutcome::Text("Loaded providers : \n\t- aws-lc\n".to_owned())
    ),
    row!(
        "show ssl sni",
        "show ssl sni [-f <frontend>] [-A] [-t <offset>]",
        User,
        "list the names that certificates are chosen by",
        show_names
    ),
];

/// The words for a kind of file in commands and messages.
struct FileWords {
    keyword: &'static str,
    noun: &'static str,
    /// The name at the start of a message.
    title: &'static str,
    payload: &'static str,
    begun: &'static str,
}

impl FileWords {
    fn of(kind: TlsFileKind) -> FileWords {
        match kind {
            Certificate => FileWords {
                keyword: "cert",
                noun: "certificate",
                title: "Certificate",
                payload: "a certificate as a payload",
                begun: "Transaction {} for certificate",
            },
            Authorities => FileWords {
                keyword: "ca-file",
                noun: "CA file",
                title: "CA file",
                payload: "CAs as a payload",
                begun: "transaction {} for CA",
            },
            Revocations => FileWords {
                keyword: "crl-file",
                noun: "CRL file",
                title: "CRL file",
                payload: "CRLs as a payload",
                begun: "transaction {} for CRL",
            },
        }
    }
}

/// The message of a verb for a refusal.
fn because(refusal: TlsRefusal, name: &str, verb: &str) -> String {
    match refusal {
        TlsRefusal::Other(other) => {
            format!("The ongoing transaction is about '{other}' but you are trying to {verb} '{name}'\n")
        }
        TlsRefusal::Idle => "No ongoing transaction!\n".to_owned(),
        TlsRefusal::Unfit(text) => format!("{text}\n"),
        TlsRefusal::Exists => format!("'{name}' already exists!\n"),
        TlsRefusal::Unknown => format!("'{name}' doesn't exist!\n"),
        TlsRefusal::Used => format!("'{name}' in use, can't be deleted!\n"),
    }
}

fn expects(verb: &str, kind: TlsFileKind, what: &str) -> CommandOutcome {
    CommandOutcome::error(format!("'{verb} ssl {}' expects {what}\n", FileWords::of(kind).keyword))
}

fn new(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: TlsFileKind,
) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return expects("new", kind, "a filename");
    }
    match context.target.new_tls_file(kind, name) {
        Ok(()) if kind == Certificate => {
            CommandOutcome::info(format!("New empty certificate store '{name}'!\n"))
        }
        Ok(()) => CommandOutcome::info(format!("New {} created '{name}'!\n", FileWords::of(kind).noun)),
        Err(refusal) => {
            CommandOutcome::error(format!("{} {}", FileWords::of(kind).title, because(refusal, name, "make")))
        }
    }
}

fn set(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: TlsFileKind,
    add: bool,
) -> CommandOutcome {
    let name = arguments.word(0);
    let words = FileWords::of(kind);
    let verb = if add { "add" } else { "set" };
    let Some(payload) = arguments.payload.filter(|payload| !payload.is_empty() && !name.is_empty()) else {
        return expects(verb, kind, &format!("a filename and {}", words.payload));
    };
    let why = match context.target.set_tls_file(kind, name, payload, add) {
        Ok(begun) => {
            let begun = words.begun.replace("{}", if begun { "created" } else { "updated" });
            return CommandOutcome::info(format!("{begun} {name}!\n"));
        }
        Err(TlsRefusal::Unknown) => {
            format!("Can't replace a {} which is not referenced by the configuration!\n", words.noun)
        }
        Err(TlsRefusal::Unfit(text)) if kind == Certificate => format!("{text}\nCan't load the payload\n"),
        Err(refusal) => because(refusal, name, "set"),
    };
    CommandOutcome::error(format!("{why}Can't update {name}!\n"))
}

fn commit(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: TlsFileKind,
) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return expects("commit", kind, "a filename");
    }
    let why = match context.target.commit_tls_file(kind, name) {
        Ok(places) => {
            return CommandOutcome::info(format!("Committing {name}{}\nSuccess!\n", ".".repeat(places)));
        }
        Err(TlsRefusal::Idle) => "No ongoing transaction! !\n".to_owned(),
        Err(refusal) => because(refusal, name, "set"),
    };
    CommandOutcome::error(format!("{why}Can't commit {name}!\n"))
}

fn abort(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: TlsFileKind,
) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return expects("abort", kind, "a filename");
    }
    match context.target.abort_tls_file(kind, name) {
        Ok(()) => CommandOutcome::info(format!("Transaction aborted for certificate '{name}'!\n")),
        Err(refusal) => CommandOutcome::error(because(refusal, name, "abort a transaction for")),
    }
}

fn delete(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: TlsFileKind,
) -> CommandOutcome {
    let name = arguments.word(0);
    let words = FileWords::of(kind);
    if name.is_empty() {
        return expects("del", kind, &format!("a {} name", words.noun));
    }
    match context.target.delete_tls_file(kind, name) {
        Ok(()) => CommandOutcome::info(format!("{} '{name}' deleted!\n", words.title)),
        Err(refusal) => {
            let why = because(refusal, name, "delete");
            CommandOutcome::error(format!("Can't remove the {0}: {0} {why}", words.noun))
        }
    }
}

/// The file name in a word, and whether it means the pending content: `*name` does. `\*name` is a name that begins with a star.
fn named(word: &str) -> (&str, bool) {
    match (word.strip_prefix('*'), word.strip_prefix("\\*")) {
        (Some(name), _) => (name, true),
        (_, Some(_)) => (&word[1..], false),
        _ => (word, false),
    }
}

fn show(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: TlsFileKind,
) -> CommandOutcome {
    let word = arguments.word(0);
    if word.is_empty() {
        return CommandOutcome::Stream(Box::new(LongText::of(files(context.target, kind))));
    }
    // If a file has several items, an index can select one.
    let (path, index) = match word.rsplit_once(':') {
        Some((path, index)) if kind != Certificate => (path, index.parse::<usize>().ok()),
        _ => (word, None),
    };
    let (name, pending) = named(path);
    // Files next to a certificate can also be shown by their own names.
    if let (Certificate, Some(certificate)) = (kind, name.strip_suffix(".ocsp"))
        && let Some(response) = context.target.ocsp_response(certificate, pending)
    {
        return CommandOutcome::Stream(Box::new(LongText::of(response.text)));
    }
    let Some(view) = context.target.tls_file(kind, name, pending) else {
        return CommandOutcome::error(match kind {
            Certificate => NO_CERTIFICATE.to_owned(),
            _ => format!("Can't display the {} : Not found!\n", FileWords::of(kind).noun),
        });
    };
    if index.is_some_and(|index| index == 0 || index > view.parts.len()) {
        return CommandOutcome::Text(String::new());
    }
    let star = if pending { "*" } else { "" };
    let status = match (pending, view.parts.is_empty(), view.used) {
        (true, ..) => "Uncommitted",
        (_, true, _) if kind == Certificate => "Empty",
        (.., true) => "Used",
        (.., false) => "Unused",
    };
    let mut text = format!("Filename: {star}{name}\n");
    if kind == Certificate {
        let _ = writeln!(text, "{}Status: {status}", view.origin);
        text += &view.parts.concat();
        text += &view.chain;
        return CommandOutcome::Text(text);
    }
    let _ = writeln!(text, "Status: {status}");
    let title = if kind == Authorities { "Certificate" } else { "Certificate Revocation List" };
    for (at, part) in
        view.parts.iter().enumerate().filter(|(at, _)| index.is_none_or(|index| index == at + 1))
    {
        let _ = write!(text, " \n{title} #{}:\n{part}", at + 1);
    }
    CommandOutcome::Stream(Box::new(LongText::of(text)))
}

fn files(target: &mut dyn CommandTarget, kind: TlsFileKind) -> String {
    let (pending, files) = target.tls_files(kind);
    let count = |count: usize| match kind {
        Authorities => format!(" - {count} certificate(s)"),
        _ => String::new(),
    };
    let mut text = String::new();
    if let Some(file) = pending {
        let _ = write!(text, "# transaction\n*{}{}\n", file.name, count(file.count));
    }
    // HAProxy omits the line from an empty list of certificates only.
    if kind != Certificate || !files.is_empty() {
        text += "# filename\n";
    }
    for file in files {
        let _ = writeln!(text, "{}{}", file.name, count(file.count));
    }
    text
}

/// A long text, written in pieces.
pub(super) struct LongText {
    text: String,
    said: usize,
}

impl LongText {
    pub(super) fn of(text: String) -> LongText {
        LongText { text, said: 0 }
    }
}

impl AnswerStream for LongText {
    fn advance(&mut self, _: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        let rest = &self.text.as_bytes()[self.said..];
        let room = enough.saturating_sub(out.len()).min(rest.len());
        // Extend the piece to the end of a line.
        let length =
            rest[room..].iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| room + at + 1);
        out.extend_from_slice(&rest[..length]);
        self.said += length;
        if self.said == self.text.len() { AnswerStep::Done } else { AnswerStep::More }
    }
}

fn dump(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (name, pending) = named(arguments.word(0));
    match context.target.certificate_pem(name, pending) {
        Some(pem) => CommandOutcome::Stream(Box::new(LongText::of(pem))),
        None => CommandOutcome::error(NO_CERTIFICATE),
    }
}

const NO_CERTIFICATE: &str = "Can't display the certificate: Not found or the certificate is a bundle!\n";

fn show_lists(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let numbered = arguments.word(0) == "-n";
    let name = arguments.word(usize::from(numbered));
    if name.is_empty() {
        let names = context.target.certificate_lists();
        return CommandOutcome::Stream(Box::new(LongText::of(
            names.iter().map(|name| format!("{name}\n")).collect(),
        )));
    }
    let Some(lines) = context.target.certificate_list(name) else {
        return CommandOutcome::error("didn't find the specified filename\n");
    };
    let mut text = format!("# {name}\n");
    for line in lines {
        text += &line.certificate;
        if numbered {
            let _ = write!(text, ":{}", line.number);
        }
        if !line.options.is_empty() {
            let _ = write!(text, " [{}]", line.options);
        }
        for filter in &line.filters {
            let _ = write!(text, " {filter}");
        }
        text.push('\n');
    }
    CommandOutcome::Stream(Box::new(LongText::of(text)))
}

fn add_line(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let list = arguments.word(0);
    let line = match arguments.payload {
        Some(payload) => payload.trim(),
        None => arguments.word(1),
    };
    if list.is_empty() || line.is_empty() {
        return CommandOutcome::error("'add ssl crtlist' expects a filename and a certificate name\n");
    }
    if line.contains('\n') {
        return CommandOutcome::error("Can't edit the crt-list: unsupported multiple lines payload!\n");
    }
    let certificate = line.split([' ', '\t', '[']).next().unwrap_or_default();
    match context.target.add_list_line(list, line) {
        Ok(certificate) => CommandOutcome::info(format!(
            "Inserting certificate '{certificate}' in crt-list '{list}'.\nSuccess!\n"
        )),
        Err(refusal) => {
            CommandOutcome::error(format!("Can't edit the crt-list: {}", about(refusal, list, certificate)))
        }
    }
}

fn delete_line(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (list, word) = (arguments.word(0), arguments.word(1));
    if list.is_empty() || word.is_empty() {
        return CommandOutcome::error("'del ssl crtlist' expects a filename and a certificate name\n");
    }
    let (certificate, number) = match word.rsplit_once(':') {
        Some((certificate, number)) => match number.parse() {
            Ok(number) => (certificate, Some(number)),
            Err(_) => (word, None),
        },
        None => (word, None),
    };
    match context.target.delete_list_line(list, certificate, number) {
        Ok(()) => CommandOutcome::info(format!("Entry '{certificate}' deleted in crtlist '{list}'!\n")),
        Err(refusal) => {
            CommandOutcome::error(format!("Can't delete the entry: {}", about(refusal, list, certificate)))
        }
    }
}

fn about(refusal: ListRefusal, list: &str, certificate: &str) -> String {
    let numbers = |lines: Vec<usize>| lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match refusal {
        ListRefusal::UnknownList => format!("crt-list '{list}' does not exist!\n"),
        ListRefusal::UnknownCertificate => format!("certificate '{certificate}' does not exist!\n"),
        ListRefusal::NotListed => {
            format!("no ckch instance found for certificate '{certificate}' in this list!\n")
        }
        ListRefusal::Empty => format!("certificate '{certificate}' is empty!\n"),
        ListRefusal::Several(lines) => format!(
            "found the certificate '{certificate}' in several entries, please specify a line number preceded by colons ({})!\n",
            numbers(lines)
        ),
        ListRefusal::WrongLine(lines) => format!(
            "found a certificate '{certificate}' but the line number is incorrect, please specify a correct line number preceded by colons ({})!\n",
            numbers(lines)
        ),
        ListRefusal::Default(places) => {
            let places: String = places.iter().map(|place| format!("\t- {place}\n")).collect();
            format!(
                "certificate '{certificate}' cannot be deleted, it is used as default certificate by the following frontends:\n{places}"
            )
        }
        ListRefusal::Unfit(text) => format!("{text}\n"),
    }
}

fn show_names(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (mut frontend, mut ended_only, mut offset) = (None, false, 0);
    let mut words = arguments.from(0).iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.as_slice().first()) {
            ("-A", _) => ended_only = true,
            ("-f", Some(name)) => {
                frontend = Some(name.as_str());
                words.next();
            }
            ("-f", None) => return CommandOutcome::error("'-f' requires a frontend name!\n"),
            ("-t", Some(delay)) => {
                let Some(seconds) = seconds(delay) else {
                    return CommandOutcome::error("'-t' requires an offset in seconds!\n");
                };
                offset = seconds;
                words.next();
            }
            ("-t", None) => return CommandOutcome::error("'-t' requires an offset in seconds!\n"),
            _ => {
                return CommandOutcome::error(
                    "Invalid parameters, 'show ssl sni' only supports '-f', '-A' and '-t' options!\n",
                );
            }
        }
    }
    let now = context.target.wall_time().seconds;
    let before = ended_only.then(|| now.saturating_add(offset));
    let Some(names) = context.target.served_names(frontend, before) else {
        return CommandOutcome::error("Couldn't find the specified frontend!\n");
    };
    let mut text = "# Frontend/Bind\tSNI\tNegative Filter\tType\tFilename\tNotAfter\tNotBefore\n".to_owned();
    for name in names {
        let except: String = match name.except.is_empty() {
            true => "-".to_owned(),
            false => name.except.iter().map(|filter| format!("{filter} ")).collect(),
        };
        let _ = writeln!(
            text,
            "{}\t{}\t{except}\t{}\t{}\t{}\t{}",
            name.place, name.name, name.algorithm, name.certificate, name.not_after, name.not_before
        );
    }
    CommandOutcome::Stream(Box::new(LongText::of(text)))
}

/// A duration in seconds. Other units follow the number.
fn seconds(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &word[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit)
}
