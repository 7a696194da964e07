//! `filter` and `filter-sequence`: filters on the messages of a proxy's streams, and their order (manual, 4.2 and 9).
//!
//! The rows of the filters come from the crate that runs them.

use std::sync::Arc;

use weir_expr::expr::script::{name_of, text_of};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Word};

use super::keywords::keyword;
use super::{Draft, LineContext, PROXIES, ProxyReader};
use crate::draft::filter::{FilterContext, FilterReader, ReadFilter};
use crate::rows::{Handler, Row};
use crate::words::{Parsed, Words, fault, not_yet, suggesting};
use weir_model::{Filter, FilterArguments, FilterDirection};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "filter",
        "<name> [param*]",
        "trace name a hexdump",
        "add a filter to the streams",
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

/// An implemented filter. `read` takes the words after its name. `family` is its group in `-vv` and `-dKflt`.
pub const fn filter(
    family: &'static str,
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: ReadFilter,
) -> Row<FilterReader> {
    Row::ready(name, arguments, example, help, FilterReader { family, read, implied: None })
}

/// An implemented filter without arguments. `create` creates it, also for a proxy with other words that imply the filter.
pub const fn implied_filter(
    family: &'static str,
    name: &'static str,
    help: &'static str,
    read: ReadFilter,
    create: fn() -> Arc<dyn FilterArguments>,
) -> Row<FilterReader> {
    Row::ready(name, "", "", help, FilterReader { family, read, implied: Some(create) })
}

fn read_filter(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let subject = format!("{} '{}'", context.draft.section.noun(), context.name());
    let name = words.expect(&format!("missing argument for 'filter' in {subject}."))?;
    let not_there = |name: &Word| not_yet(name.span(), &format!("filter {name}"));
    let table = context.keywords.filters;
    let is_script = name.text().starts_with("lua.");
    let row = table.find(if is_script { "lua.<name>" } else { name.text() });
    let (keyword, reader) = match row.map(|row| (row.name, row.handler)) {
        Some((keyword, Handler::Ready(reader))) => (keyword, reader),
        Some((_, Handler::NotYet | Handler::Removed(_))) => return Err(not_there(name)),
        None => {
            let ready = table.rows().filter(|row| row.is_ready());
            let known = ready.map(|row| format!("'{}'", row.name)).collect::<Vec<_>>().join(", ");
            let message = format!("'filter' : unknown keyword '{name}'. Registered keywords : {known}");
            return Err(suggesting(fault(name.span(), message), table.nearest(name.text())));
        }
    };
    let arguments = (reader.read)(&mut FilterContext { line: context, word: name }, words)?;
    words.end(&format!("filter {name}"))?;
    // A filter of a script has its own name as keyword.
    let keyword = if is_script { text_of(name_of(name.text())) } else { keyword };
    if context.draft.proxy.filters.len() >= MAX_FILTERS {
        return Err(fault(name.span(), format!("more than {MAX_FILTERS} filters.")));
    }
    context.draft.proxy.filters.push(Filter::new(keyword, arguments, context.at.clone()));
    Ok(())
}

/// The limit of filters in a proxy.
const MAX_FILTERS: usize = 64;

/// Resolves the filters that sequences and rules name.
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
        let limits = || draft.proxy.filters.iter().filter_map(|filter| filter.facts().bandwidth);
        let limit = limits().find(|limit| *limit.name == *name);
        if limit.is_some_and(|limit| limit.shared.is_some()) && says_limit {
            let message = format!(
                "Proxy '{}': set-bandwidth-limit rule of the shared bwlim filter '{name}' can have no limit or period of its own.",
                draft.proxy.name
            );
            diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Bare));
        }
        if limit.is_none() {
            let message = format!(
                "Proxy '{}': unable to find bwlim filter '{name}' referenced by set-bandwidth-limit rule.",
                draft.proxy.name
            );
            let names = limits().map(|limit| limit.name);
            let nearest = weir_syntax::did_you_mean(&name, names).map(str::to_owned);
            let diagnostic = Diagnostic::alert(span, message).layout(Layout::Bare);
            diagnostics.push(diagnostic.suggestion(nearest));
        }
    }
}

/// The positions of the filters in a list. The nth use of a name selects the nth filter with that name.
fn sequence(filters: &[Filter], direction: FilterDirection, list: &str) -> Result<Box<[u16]>, String> {
    let mut order: Vec<u16> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let next = filters
            .iter()
            .enumerate()
            .find(|(at, filter)| filter.keyword == name && !order.contains(&(*at as u16)));
        let Some((at, _)) = next else {
            return Err(format!("'filter-sequence' : the proxy has no (other) filter '{name}'."));
        };
        order.push(at as u16);
    }
    let left_out = filters
        .iter()
        .enumerate()
        .find(|(at, filter)| filter.sees(direction) && !order.contains(&(*at as u16)));
    match left_out {
        None => Ok(order.into()),
        Some((_, filter)) => {
            let name = filter.keyword;
            Err(format!("'filter-sequence' without filter '{name}' is not implemented yet"))
        }
    }
}
