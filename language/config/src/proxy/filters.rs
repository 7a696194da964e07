//! `filter` and `filter-sequence`: filters on the messages of a proxy's streams, and their order (manual, 4.2 and 9).

use std::time::Duration;

use weir_expr::{ArgKind, Reference};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Word};

use super::keywords::keyword;
use super::{Draft, LineContext, PROXIES, ProxyReader};
use crate::numbers::{delay_of, size_of};
use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row, Table};
use crate::words::{Fault, Parsed, Words, fault, not_yet, suggesting};
use weir_model::{BandwidthFilter, Filter, FilterDirection, FilterKind, SharedBandwidth, TraceFilter};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "filter",
        "<name> [param*]",
        "trace name a hexdump",
        "add a filter to the streams: bwlim-in, bwlim-out, trace",
        PROXIES,
        read_filter,
    ),
    keyword(
        "filter-sequence",
        "{ request | response } <filter_list>",
        "request trace",
        "order in which filters see one direction",
        PROXIES,
        |context, words| {
            let direction = match words.peek_text() {
                "request" => FilterDirection::Request,
                "response" => FilterDirection::Response,
                _ => return Err(words.fault("'filter-sequence' expects either 'request' or 'response'.")),
            };
            words.take();
            let list = words.expect("'filter-sequence' expects a list of filters, separated by commas.")?;
            let sequences = &mut context.draft.pending.filter_sequences;
            if sequences.iter().any(|(other, ..)| *other == direction) {
                let said = "'filter-sequence' is there already for this direction.";
                return Err(fault(list.span(), said));
            }
            sequences.push((direction, list.text().into(), list.span()));
            words.end("filter-sequence")
        },
    ),
];

/// Reads the arguments of a filter.
#[derive(Clone, Copy, Debug)]
pub struct FilterReader {
    /// The group of the filter in `-vv` and `-dKflt`.
    pub family: &'static str,
    read: fn(&mut LineContext<'_>, &mut Words<'_>) -> Parsed<FilterKind>,
}

/// Every filter.
pub static FILTERS: Table<FilterReader> = Table::new(&[&[
    Row::ready(
        "bwlim-in",
        "<name> { default-limit <size> default-period <time> | limit <size> key <key> [table <table>] } \
         [min-size <sz>]",
        "a default-limit 1m default-period 1s",
        "limit what streams receive from clients",
        FilterReader {
            family: "BWLIM",
            read: |context, words| read_bandwidth(context, words, FilterDirection::Request),
        },
    )
    .default(Described("`min-size` is 0")),
    Row::ready(
        "bwlim-out",
        "<name> { default-limit <size> default-period <time> | limit <size> key <key> [table <table>] } \
         [min-size <sz>]",
        "b default-limit 1m default-period 1s min-size 2896",
        "limit what streams send to clients",
        FilterReader {
            family: "BWLIM",
            read: |context, words| read_bandwidth(context, words, FilterDirection::Response),
        },
    )
    .default(Described("`min-size` is 0")),
    Row::ready(
        "trace",
        "[name <n>] [quiet] [random-forwarding] [max-fwd <max>] [hexdump]",
        "name a hexdump",
        "write what passes to standard error",
        FilterReader { family: "TRACE", read: |_, words| read_trace(words) },
    ),
    Row::not_yet("cache", "<name>", "keep responses in a cache"),
    Row::not_yet("comp-req", "", "compress requests"),
    Row::not_yet("comp-res", "", "compress responses"),
    Row::not_yet("compression", "", "compress messages"),
    Row::not_yet("fcgi-app", "<name>", "speak FastCGI with servers"),
    Row::not_yet("opentracing", "[id <id>] config <file>", "report streams to OpenTracing"),
    Row::not_yet("spoe", "[engine <name>] config <file>", "ask agents"),
]]);

fn read_filter(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let subject = format!("{} '{}'", context.draft.section.noun(), context.name());
    let name = words.expect(&format!("missing argument for 'filter' in {subject}."))?;
    let not_there = |name: &Word| not_yet(name.span(), &format!("filter {name}"));
    let kind = match FILTERS.find(name.text()).map(|row| row.handler) {
        Some(Handler::Ready(reader)) => (reader.read)(context, words)?,
        Some(Handler::NotYet | Handler::Removed(_)) => return Err(not_there(name)),
        None if name.text().starts_with("lua.") => return Err(not_there(name)),
        None => {
            let ready = FILTERS.rows().filter(|row| row.is_ready());
            let known = ready.map(|row| format!("'{}'", row.name)).collect::<Vec<_>>().join(", ");
            let message = format!("'filter' : unknown keyword '{name}'. Registered keywords : {known}");
            return Err(suggesting(fault(name.span(), message), FILTERS.nearest(name.text())));
        }
    };
    if context.draft.proxy.filters.len() >= MAX_FILTERS {
        return Err(fault(name.span(), format!("more than {MAX_FILTERS} filters.")));
    }
    context.draft.proxy.filters.push(Filter { kind, at: context.at.clone() });
    Ok(())
}

/// The most filters of a proxy.
const MAX_FILTERS: usize = 64;

fn read_bandwidth(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    direction: FilterDirection,
) -> Parsed<FilterKind> {
    let who = match direction {
        FilterDirection::Request => "bwlim-in",
        FilterDirection::Response => "bwlim-out",
    };
    let name = words.expect(&format!("'filter' : '{who}' : a name is expected as first argument "))?;
    let (mut limit, mut period, mut min_size) = (0, Duration::ZERO, 0);
    let (mut shared_limit, mut key, mut table, mut for_stream) = (0, None, None, false);
    while let Some(option) = words.take() {
        let missing = format!("'filter' : '{who}' : the value is missing for '{option}' option");
        let invalid = |mut bad: Fault| {
            let said = format!("'filter' : '{who}' : invalid value for option '{option}' ({})", bad.message);
            bad.message = said;
            bad
        };
        match option.text() {
            "default-limit" => {
                for_stream = true;
                limit = size_of(words.expect(&missing)?, "default-limit").map_err(invalid)?;
            }
            "default-period" => {
                for_stream = true;
                let word = words.expect(&missing)?;
                period = delay_of(words, word, "default-period").map_err(invalid)?;
            }
            "min-size" => min_size = size_of(words.expect(&missing)?, "min-size").map_err(invalid)?,
            "limit" => shared_limit = size_of(words.expect(&missing)?, "limit").map_err(invalid)?,
            "key" => {
                key = Some(context.expressions().expression(words, weir_expr::EvaluationPoints::ALL)?);
            }
            "table" => {
                table = Some(words.expect(&missing)?.text().to_owned());
            }
            other => {
                return Err(fault(option.span(), format!("'filter {who}' : unknown keyword '{other}'.")));
            }
        }
    }
    let lacks = |what: &str| words.fault(format!("'filter' : '{who}' : <{what}> option is missing"));
    if key.is_some() || shared_limit > 0 || table.is_some() {
        if for_stream {
            let said = format!("'filter' : '{who}' : cannot mix per-stream and shared parameter");
            return Err(fault(name.span(), said));
        }
        if key.is_none() {
            return Err(lacks("key"));
        }
        if shared_limit == 0 {
            return Err(lacks("limit"));
        }
        limit = shared_limit;
    } else if period < Duration::from_millis(1) {
        return Err(lacks("default-period"));
    } else if limit == 0 {
        return Err(lacks("default-limit"));
    }
    let twin =
        |filter: &Filter| matches!(&filter.kind, FilterKind::Bandwidth(other) if *other.name == *name.text());
    if context.draft.proxy.filters.iter().any(twin) {
        let said = format!(
            "'filter' : bwlim filter '{name}' already declared for proxy '{}'",
            context.draft.proxy.name
        );
        return Err(fault(name.span(), said));
    }
    let shared = key.map(|key| {
        let table = Reference::new(ArgKind::Table, table.as_deref());
        context.note_table(&table, words.line().span());
        Box::new(SharedBandwidth { key, table })
    });
    Ok(FilterKind::Bandwidth(BandwidthFilter {
        name: name.text().into(),
        direction,
        limit,
        period,
        min_size,
        shared,
    }))
}

fn read_trace(words: &mut Words<'_>) -> Parsed<FilterKind> {
    let mut trace = TraceFilter {
        name: "TRACE".into(),
        quiet: false,
        random_forwarding: false,
        max_forward: None,
        hexdump: false,
    };
    while let Some(option) = words.take() {
        match option.text() {
            "name" => {
                let name = words.expect("'filter' : 'trace' : 'name' option without value")?;
                trace.name = name.text().into();
            }
            "quiet" => trace.quiet = true,
            "random-forwarding" => trace.random_forwarding = true,
            "hexdump" => trace.hexdump = true,
            "max-fwd" => {
                let word = words.expect("'filter' : 'trace' : 'max-fwd' option without value")?;
                let most = size_of(word, "max-fwd")?;
                if most == 0 {
                    return Err(fault(word.span(), "'filter' : 'trace' : 'max-fwd' has to be > 0"));
                }
                trace.max_forward = Some(most);
            }
            "random-parsing" => {
                let said = "'filter' : 'trace' : 'random-parsing' has no effect any more: there is only 'random-forwarding'";
                words.line().remark(Diagnostic::warning(option.span(), said));
            }
            other => {
                return Err(fault(option.span(), format!("'filter trace' : unknown keyword '{other}'.")));
            }
        }
    }
    Ok(FilterKind::Trace(trace))
}

/// Finds the filters that sequences and rules name.
pub(super) fn settle(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    for (direction, list, span) in std::mem::take(&mut draft.pending.filter_sequences) {
        match sequence(&draft.proxy.filters, direction, &list) {
            Ok(order) => {
                let sequences = &mut draft.proxy.filter_sequences;
                match direction {
                    FilterDirection::Request => sequences.request = Some(order),
                    FilterDirection::Response => sequences.response = Some(order),
                }
            }
            Err(message) => diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Parsing)),
        }
    }
    for (name, span, says_limit) in std::mem::take(&mut draft.pending.bandwidth_limits) {
        let named =
            |filter: &Filter| matches!(&filter.kind, FilterKind::Bandwidth(limit) if limit.name == name);
        let filter = draft.proxy.filters.iter().find(|filter| named(filter));
        if let Some(FilterKind::Bandwidth(BandwidthFilter { shared: Some(_), .. })) =
            filter.map(|filter| &filter.kind)
            && says_limit
        {
            let message = format!(
                "Proxy '{}': set-bandwidth-limit rule of the shared bwlim filter '{name}' can have no limit or period of its own.",
                draft.proxy.name
            );
            diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Bare));
        }
        if filter.is_none() {
            let message = format!(
                "Proxy '{}': unable to find bwlim filter '{name}' referenced by set-bandwidth-limit rule.",
                draft.proxy.name
            );
            let names = draft.proxy.filters.iter().filter_map(|filter| match &filter.kind {
                FilterKind::Bandwidth(limit) => Some(&*limit.name),
                FilterKind::Trace(_) => None,
            });
            let nearest = weir_syntax::did_you_mean(&name, names).map(str::to_owned);
            let diagnostic = Diagnostic::alert(span, message).layout(Layout::Bare);
            diagnostics.push(diagnostic.suggestion(nearest));
        }
    }
}

/// The positions of the filters of a list. A name that several filters share selects each of them in turn.
fn sequence(filters: &[Filter], direction: FilterDirection, list: &str) -> Result<Box<[u16]>, String> {
    let mut order: Vec<u16> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let next = filters
            .iter()
            .enumerate()
            .find(|(at, filter)| filter.kind.keyword() == name && !order.contains(&(*at as u16)));
        let Some((at, _)) = next else {
            return Err(format!("'filter-sequence' : the proxy has no (other) filter '{name}'."));
        };
        order.push(at as u16);
    }
    let left_out = filters
        .iter()
        .enumerate()
        .find(|(at, filter)| filter.kind.sees(direction) && !order.contains(&(*at as u16)));
    match left_out {
        None => Ok(order.into()),
        Some((_, filter)) => {
            let name = filter.kind.keyword();
            Err(format!("'filter-sequence' without filter '{name}' is not implemented yet"))
        }
    }
}
