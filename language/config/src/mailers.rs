//! `mailers` sections: mail servers for mail alerts (manual, section "Mailers").

use weir_syntax::{Diagnostic, Diagnostics, Layout, Line};

use crate::address::{refuse_multipath, server_address};
use crate::numbers::delay_of;
use crate::rows::DefaultValue::Written;
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::words::{Parsed, Words, fault, same_section};
use weir_model::{Location, MAIL_TIMEOUT, Mailer, Mailers, ServerAddress, ServerPort};

/// Reads one line of a `mailers` section.
pub(crate) type MailersKeyword = fn(&mut Mailers, &mut Words<'_>) -> Parsed;

/// Every word of a `mailers` section.
pub(crate) static MAILERS_KEYWORDS: Table<MailersKeyword> = Table::new(&[&[
    Row::ready("mailer", "<name> <ip>:<port>", "smtp1 127.0.0.1:25", "a mail server", read_mailer),
    Row::<MailersKeyword>::ready(
        "timeout mail",
        "<time>",
        "20s",
        "how long the delivery of a mail may take",
        |section, words| {
            let word = words.expect("'timeout mail' expects <time> as argument.")?;
            section.timeout = delay_of(words, word, "timeout mail")?;
            words.end("timeout mail")
        },
    )
    .default(Written("10s")),
]]);

/// The limit of mail servers in one section.
const MOST_MAILERS: usize = 64;

/// Starts the section of a section line.
pub(crate) fn begin(line: &Line, at: Location, known: &[Mailers]) -> Parsed<Mailers> {
    let mut words = Words::new(line, 1);
    let name = words.expect("missing name for mailers section.")?;
    words.end("mailers")?;
    if let Some(other) = known.iter().find(|section| *section.name == *name.text()) {
        let fault = same_section("mailers", name, &other.at);
        return Err(Box::new(fault.layout(Layout::ParsingTight)));
    }
    Ok(Mailers { name: name.text().into(), at, mailers: Vec::new(), timeout: MAIL_TIMEOUT })
}

pub(crate) fn read_line(section: &mut Mailers, line: &Line, diagnostics: &mut Diagnostics) {
    let keyword = line.keyword();
    let Some((row, count)) = MAILERS_KEYWORDS.find_phrase(line, 0) else {
        let message = match (keyword.text(), line.text(1)) {
            ("timeout", "") => "'timeout' expects 'mail' and <time> as arguments.".to_owned(),
            ("timeout", other) => {
                format!("'timeout' expects 'mail' and <time> as arguments got '{other}'.")
            }
            _ => format!("unknown keyword '{keyword}' in 'mailers' section"),
        };
        let nearest = nearest_phrase(&MAILERS_KEYWORDS, keyword.text());
        let nearest = nearest.filter(|nearest| *nearest != keyword.text());
        diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
        return;
    };
    let Handler::Ready(read) = row.handler else { return };
    if let Err(fault) = read(section, &mut Words::new(line, count)) {
        diagnostics.push(*fault);
    }
}

fn read_mailer(section: &mut Mailers, words: &mut Words<'_>) -> Parsed {
    const EXPECTS: &str = "'mailer' expects <name> and <addr>[:<port>] as arguments.";
    let name = words.expect(EXPECTS)?;
    let address = words.expect(EXPECTS)?;
    let subject = format!("mailer {name}");
    let complain = |message: String| fault(address.span(), format!("'{subject}' : {message}"));
    refuse_multipath(address, &subject)?;
    let (host, port) = match server_address(address, &subject)? {
        ServerAddress::Inet { host, port: ServerPort::Fixed(port) } => (host, port),
        ServerAddress::Inet { .. } => {
            return Err(complain(format!("missing port specification in '{address}'")));
        }
        _ => return Err(complain("TCP not supported for this address family.".to_owned())),
    };
    words.end("mailer")?;
    if section.mailers.len() == MOST_MAILERS {
        return Err(complain(format!("more than {MOST_MAILERS} mailers in one section.")));
    }
    section.mailers.push(Mailer { name: name.text().into(), host, port });
    Ok(())
}
