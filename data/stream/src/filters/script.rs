//! `filter lua.<name>`: a filter that a script registered (Lua API, "Filter class").
//!
//! A filter of a script needs its stream, for fetches and variables, while the transfer holds the bytes. So it has two halves:
//!
//! ```text
//!   transfer ──► Mailbox: takes the bytes, requests a call, and is stuck meanwhile
//!                   ▲│
//!                   │▼
//!   stream   ──► ScriptedFilter: calls the function of the script, with the stream as its target
//! ```

mod calls;
mod mailbox;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_config::proxy::{FilterContext, filter};
use weir_config::scripts::FilterId;
use weir_config::words::{Parsed, Words, fault};
use weir_expr::ScriptName;
use weir_fingerprint::Canonical;
use weir_model::FilterArguments;
use weir_mux::Filter;
use weir_scripts::{FilterInstance, ScriptSide};

use self::mailbox::{FilterMailbox, MailboxFilter};
use super::{FilterParts, Row, StreamFilter};
use crate::instance::Proxy;
use crate::stream::Stream;
use crate::stream::attached::Attachment;

pub(super) const ROWS: &[Row] = &[filter(
    "HLUA",
    "lua.<name>",
    "<arg>*",
    "",
    "a filter that a Lua script registered, with the arguments for its function",
    read,
)];

/// A line with a filter of a script.
#[derive(Debug, Canonical)]
struct ScriptFilterLine {
    text: Box<str>,
    arguments: Vec<Box<str>>,
    #[canonical(skip = "follows from the text")]
    name: ScriptName,
    #[canonical(skip = "the number of the line in its script")]
    id: FilterId,
    #[canonical(skip = "follows from the script")]
    sees_http: bool,
}

fn read(context: &mut FilterContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Arc<dyn FilterArguments>> {
    let text = context.word.text();
    let mut arguments: Vec<Box<str>> = Vec::new();
    while let Some(word) = words.take() {
        arguments.push(word.text().into());
    }
    let borrowed: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
    let span = context.word.span();
    let Some(made) = context.script_filter(text, &borrowed) else {
        return Err(fault(span, format!("no script registered the filter '{text}'.")));
    };
    let made = made.map_err(|message| fault(span, message))?;
    let is_http = context.is_http();
    let blind = || format!("the filter '{text}' lacks the flag filter.FLT_CFG_FL_HTX, so it sees no HTTP.");
    if let Some(warning) = made.warning.or_else(|| (is_http && !made.sees_http).then(blind)) {
        context.warn(words, span, warning);
    }
    let line = ScriptFilterLine {
        text: text.into(),
        arguments,
        name: made.name,
        id: made.id,
        sees_http: made.sees_http,
    };
    Ok(line.into_arguments())
}

impl StreamFilter for ScriptFilterLine {
    fn attach(&self, stream: &Stream, _: &Proxy) -> FilterParts {
        let http = stream.speaks_http();
        if http && !self.sees_http {
            return FilterParts::default();
        }
        let worker = weir_sched::worker_index();
        let scripts = stream.frontend.instance().hooks.scripts.as_ref();
        let instance = scripts.and_then(|scripts| FilterInstance::new(scripts, worker, self.id, self.name));
        let Some(instance) = instance else { return FilterParts::default() };
        let limit = stream.frontend.instance().limits.buffer_size;
        let half = || Rc::new(RefCell::new(FilterMailbox::new(http, limit)));
        let halves = [half(), half()];
        let [request, response] =
            halves.each_ref().map(|half| Some(Box::new(MailboxFilter(Rc::clone(half))) as Box<dyn Filter>));
        let filter = ScriptedFilter { instance: RefCell::new(instance), stage: Cell::default(), halves };
        FilterParts { request, response, attachment: Some(Box::new(ScriptAttachment(Rc::new(filter)))) }
    }
}

/// The filter of a script on one stream.
pub(crate) struct ScriptedFilter {
    instance: RefCell<FilterInstance>,
    stage: Cell<ObjectStage>,
    /// Of the request, and of the response.
    halves: [Rc<RefCell<FilterMailbox>>; 2],
}

/// Whether a filter has its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ObjectStage {
    #[default]
    New,
    Made,
    /// The filter does not want the stream.
    Ignored,
}

impl ScriptedFilter {
    fn half(&self, side: ScriptSide) -> &RefCell<FilterMailbox> {
        &self.halves[side as usize]
    }
}

/// A filter among the attachments of its stream.
pub(crate) struct ScriptAttachment(Rc<ScriptedFilter>);

impl Attachment for ScriptAttachment {
    fn is_script(&self) -> bool {
        true
    }
}
