//! The head of the page: facts about the process, the legend, links to other views, and the result of the last form.

use std::fmt::Write;

use super::{PageSettings, escape};
use crate::info::{InfoField, InfoRow};
use crate::render::Format;
use crate::uri::{FormStatus, StatsRequest, What};

const STYLE: &str = include_str!("style.css");

/// Writes the page from the document type up to the first proxy.
pub(super) fn write(settings: &PageSettings, request: &StatsRequest, info: &InfoRow, out: &mut String) {
    let on_node = settings.node.as_deref().map_or(String::new(), |node| format!(" on {}", escape(node)));
    let name = escape(info.text(InfoField::Name));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Statistics Report for {name}{on_node}</title>\n\
         <link rel=\"icon\" href=\"data:,\"><style>\n{STYLE}</style></head>\n<body><h1>{name}"
    );
    if !settings.hide_version {
        let version = escape(info.text(InfoField::Version));
        let date = escape(info.text(InfoField::ReleaseDate));
        let _ = write!(out, " version {version}, released {date}");
    }
    let _ = write!(out, "</h1>\n<h2>Statistics Report for pid {}{on_node}", info.number(InfoField::Pid));
    if let Some(description) = &settings.description {
        let _ = write!(out, ": {}", escape(description));
    }
    out.push_str("</h2>\n<div class=\"top\">");
    process(info, out);
    out.push_str(LEGEND);
    links(settings, request, out);
    out.push_str("</div>\n");
    if let Some(status) = request.status {
        let (class, text) = verdict(status);
        let back = escape(&request.link(&settings.uri, |_| {}));
        let _ = writeln!(
            out,
            "<p class=\"note {class}\"><a href=\"{back}\" title=\"Remove this message\">[X]</a> {text}</p>"
        );
    }
}

fn process(info: &InfoRow, out: &mut String) {
    let number = |field| info.number(field);
    let memory = match number(InfoField::MemmaxMB) {
        0 => "unlimited".to_owned(),
        limit => format!("{limit} MB"),
    };
    // Bits sent in the last second: bytes times eight.
    let bits = number(InfoField::BytesOutRate).saturating_mul(8);
    let _ = writeln!(
        out,
        "<p><b>pid</b> {} (nbthread {})<br><b>uptime</b> {}<br>\
         <b>limits</b> memory {memory}; descriptors {}; sockets {}; connections {}; pipes {}<br>\
         <b>now</b> {} connections; {} connections/s; {} requests; {}<br>\
         <b>tasks</b> {} running of {}; idle {} %</p>",
        number(InfoField::Pid),
        number(InfoField::Nbthread),
        escape(info.text(InfoField::Uptime)),
        number(InfoField::UlimitN),
        number(InfoField::Maxsock),
        number(InfoField::Maxconn),
        number(InfoField::Maxpipes),
        number(InfoField::CurrConns),
        number(InfoField::ConnRate),
        number(InfoField::CumReq),
        bit_rate(bits),
        number(InfoField::RunQueue),
        number(InfoField::Tasks),
        number(InfoField::IdlePct),
    );
}

fn bit_rate(bits: u64) -> String {
    match bits {
        1_000_000_000.. => format!("{:.3} Gbps", bits as f64 / 1e9),
        1_000_000.. => format!("{:.3} Mbps", bits as f64 / 1e6),
        _ => format!("{:.3} kbps", bits as f64 / 1e3),
    }
}

const LEGEND: &str = "<p class=\"legend\">\
    <span class=\"active_up\">active UP</span><span class=\"backup_up\">backup UP</span><br>\
    <span class=\"active_going_down\">active UP, going down</span>\
    <span class=\"backup_going_down\">backup UP, going down</span><br>\
    <span class=\"active_going_up\">active DOWN, going up</span>\
    <span class=\"backup_going_up\">backup DOWN, going up</span><br>\
    <span class=\"active_down\">DOWN</span><span class=\"active_no_check\">not checked</span><br>\
    <span class=\"maintain\">in maintenance (MAINT)</span>\
    <span class=\"active_drain\">active DRAIN</span><span class=\"backup_drain\">backup DRAIN</span></p>\n";

fn links(settings: &PageSettings, request: &StatsRequest, out: &mut String) {
    let scope = request.scope.as_deref().unwrap_or_default();
    let _ = write!(
        out,
        "<ul><li><form method=\"get\"><label>Scope: <input name=\"scope\" value=\"{}\" size=\"8\" maxlength=\"20\"></label></form>",
        escape(scope)
    );
    let mut link = |text: &str, change: fn(&mut StatsRequest)| {
        let address = escape(&request.link(&settings.uri, change));
        let _ = write!(out, "<li><a href=\"{address}\">{text}</a>");
    };
    if request.only_up {
        link("Show all servers", |other| other.only_up = false);
    } else {
        link("Hide 'DOWN' servers", |other| other.only_up = true);
    }
    if settings.refresh_s.is_some() {
        if request.no_refresh {
            link("Enable refresh", |other| other.no_refresh = false);
        } else {
            link("Disable refresh", |other| other.no_refresh = true);
        }
    }
    link("Refresh now", |_| {});
    link("CSV export", |other| (other.what, other.no_refresh) = (What::Statistics(Format::Csv), true));
    link("JSON export", |other| (other.what, other.no_refresh) = (What::Statistics(Format::Json), true));
    link("JSON schema", |other| *other = StatsRequest { what: What::Schema, ..StatsRequest::default() });
    out.push_str("</ul>");
}

fn verdict(status: FormStatus) -> (&'static str, &'static str) {
    match status {
        FormStatus::Done => ("active_up", "Done."),
        FormStatus::Nothing => {
            ("active_going_down", "Nothing was changed: no server or no action was chosen.")
        }
        FormStatus::Partly => {
            ("active_going_down", "Partly done: the backend does not have some of these servers.")
        }
        FormStatus::Error => {
            ("active_down", "Not done: the action, the backend or all of the servers are unknown.")
        }
        FormStatus::Denied => ("active_down", "Denied: this page may not change anything here."),
        FormStatus::TooLarge => {
            ("active_down", "Not done: the form is too large. Choose fewer servers at a time.")
        }
        FormStatus::Unknown => ("active_no_check", "The result is not known."),
    }
}
