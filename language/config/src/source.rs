//! `source`: the source address of connections to servers.

use crate::address::source_address;
use crate::words::{Parsed, Words, fault};
use weir_model::{Source, TransparentSource};

/// Reads `<address>[:<port>[-<port>]]` and the words that belong to it.
pub(crate) fn read_source(words: &mut Words<'_>) -> Parsed<Source> {
    let address = words.expect(
        "'source' expects <addr>[:<port>[-<port>]], and optionally 'usesrc' <addr>, and 'interface' <name> as argument.",
    )?;
    let (host, first_port, last_port) = source_address(address, "source")?;
    let mut source = Source { host, first_port, last_port, transparent: None, interface: None };
    loop {
        match words.peek_text() {
            "usesrc" => {
                words.take();
                source.transparent = Some(read_usesrc(words)?);
            }
            "interface" => {
                words.take();
                let name = words.expect("'interface' : missing interface name.")?;
                source.interface = Some(name.text().into());
            }
            _ => return Ok(source),
        }
    }
}

fn read_usesrc(words: &mut Words<'_>) -> Parsed<TransparentSource> {
    let word = words
        .expect("'usesrc' expects <addr>[:<port>], 'client', 'clientip', or 'hdr_ip(name,#)' as argument.")?;
    match word.text() {
        "client" => return Ok(TransparentSource::Client),
        "clientip" => return Ok(TransparentSource::ClientAddress),
        _ => {}
    }
    let Some(arguments) = word.text().strip_prefix("hdr_ip(") else {
        let subject = format!("usesrc {word}");
        let (host, port, last) = source_address(word, &subject)?;
        if port != last {
            return Err(fault(
                word.span(),
                format!("'{subject}' : port range not permitted here in '{word}'"),
            ));
        }
        return Ok(TransparentSource::Address { host, port });
    };
    let complain = |message: &str| fault(word.span(), message);
    let arguments = arguments
        .strip_suffix(')')
        .ok_or_else(|| complain("usesrc hdr_ip(name,num) requires a closing parenthesis."))?;
    let (name, occurrence) = arguments.split_once(',').unwrap_or((arguments, "-1"));
    if name.is_empty() {
        return Err(complain("usesrc hdr_ip(name,num) requires an HTTP header name to fetch the IP from."));
    }
    let occurrence = occurrence
        .trim()
        .parse::<i32>()
        .ok()
        .filter(|number| *number != 0 && (-MAX_HEADER_HISTORY..=i32::MAX).contains(number));
    let occurrence = occurrence.ok_or_else(|| {
        complain("usesrc hdr_ip(name,num) does not support negative occurrences values smaller than 10.")
    })?;
    Ok(TransparentSource::Header { name: name.trim().into(), occurrence })
}

/// The limit of negative occurrences, counted from the last value.
const MAX_HEADER_HISTORY: i32 = 10;
