//! Actions on header fields.

use weir_config::model::{HeaderEdit, HeaderEditKind, NameMatch};
use weir_expr::LogFormat;
use weir_expr::pattern::regex::Regex;
use weir_http::values::Values;
use weir_http::{Method, NoRoom, Version, status, uri};
use weir_mux::Message;

use super::{ActionResult, done};
use crate::stream::Stream;

impl Stream {
    fn edited_message(&mut self, request: bool) -> &mut Message {
        if request { &mut self.request.message } else { &mut self.response.message }
    }

    pub(super) fn edit_header(&mut self, edit: &HeaderEdit, request: bool) -> ActionResult<'static> {
        let result = self.edit_fields(edit, request);
        match result {
            ActionResult::Next if request && edit.name.eq_ignore_ascii_case("host") => {
                done(self.follow_host())
            }
            result => result,
        }
    }

    /// Replaces the host of an absolute target by the new `Host`: servers look there first (RFC 9112, 3.2.2). With
    /// `CONNECT`, the port stays if `Host` has none. False if the new host cannot be part of a target.
    fn follow_host(&mut self) -> bool {
        let (head, raw) = self.request.message.edit();
        let target = head.uri(raw);
        let (form, connects) = (uri::form(target), head.method() == Method::Connect);
        if form != uri::Form::Absolute && !(connects && form == uri::Form::Authority) {
            return true;
        }
        let Some(host) = head.positions(raw, b"host").last().and_then(|at| head.field_value(raw, at)) else {
            return true;
        };
        let authority = uri::authority(target).unwrap_or_default();
        let start = uri::scheme(target).map_or(0, |scheme| scheme.len() + b"://".len());
        let mut host = host.to_vec();
        if uri::named_host(&host) != Some(&host[..]) || !host.iter().all(u8::is_ascii_graphic) {
            return false;
        }
        if connects
            && uri::host_and_port(&host).1.is_none()
            && let Some(port) = uri::host_and_port(authority).1
        {
            host.extend_from_slice(format!(":{port}").as_bytes());
        }
        let end = start + authority.len();
        head.splice_uri(raw, start, end, &host).is_ok()
    }

    fn edit_fields(&mut self, edit: &HeaderEdit, request: bool) -> ActionResult<'static> {
        let name = edit.name.as_bytes();
        match &edit.edit {
            HeaderEditKind::Add(value) => {
                let value = self.format(value);
                done(self.edited_message(request).head.add(name, &value).is_ok())
            }
            HeaderEditKind::Set(value) => {
                let value = self.format(value);
                let (head, raw) = self.edited_message(request).edit();
                done(head.set(raw, name, &value).is_ok())
            }
            HeaderEditKind::Delete(matching) => {
                let (head, raw) = self.edited_message(request).edit();
                head.remove_matching(raw, |candidate| matching_name(matching, name, candidate));
                ActionResult::Next
            }
            HeaderEditKind::ReplaceField { pattern, replacement } => {
                self.replace_fields(name, request, pattern, replacement, false)
            }
            HeaderEditKind::ReplaceValue { pattern, replacement } => {
                self.replace_fields(name, request, pattern, replacement, true)
            }
        }
    }

    /// Adds a field to a 103 response; consecutive rules share one (manual, "early-hint").
    pub(super) fn early_hint(&mut self, name: &str, value: &LogFormat) -> ActionResult<'static> {
        let value = self.format(value);
        let hints = self.response.early_hints.get_or_insert_with(|| {
            let mut hints = Box::new(Message::default());
            // An empty head has room for a line.
            let _ = hints.head.start_response(Version::HTTP_11, 103, status::reason(103).as_bytes());
            hints
        });
        done(hints.head.add(name.as_bytes(), &value).is_ok())
    }

    /// Sends the collected 103 response. HTTP/1.0 clients do not support interim responses.
    pub(super) fn send_early_hints(&mut self) {
        if let Some(mut hints) = self.response.early_hints.take()
            && self.request.message.head.version().is_11_or_later()
        {
            // A client that closed is noticed when the response is sent.
            let _ = hints.send(&mut self.client, &mut self.scratch, false);
        }
    }

    fn replace_fields(
        &mut self,
        name: &[u8],
        request: bool,
        pattern: &Regex,
        replacement: &LogFormat,
        each_value: bool,
    ) -> ActionResult<'static> {
        let template = self.format(replacement);
        let message = self.edited_message(request);
        let mut groups = pattern.groups();
        for position in 0..message.head.len() {
            let (head, raw) = message.edit();
            if !head.field_name(raw, position).is_some_and(|candidate| candidate.eq_ignore_ascii_case(name)) {
                continue;
            }
            let Some(value) = head.field_value(raw, position) else { continue };
            let replaced = if each_value {
                replace_each(value, pattern, &mut groups, &template)
            } else {
                replace_whole(value, pattern, &mut groups, &template)
            };
            if let Some(value) = replaced
                && let Err(NoRoom) = head.replace_value(position, &value)
            {
                return ActionResult::Failed;
            }
        }
        ActionResult::Next
    }
}

fn matching_name(matching: &NameMatch, name: &[u8], candidate: &[u8]) -> bool {
    let same = |part: Option<&[u8]>| part.is_some_and(|part| part.eq_ignore_ascii_case(name));
    match matching {
        NameMatch::Exact => candidate.eq_ignore_ascii_case(name),
        NameMatch::Prefix => same(candidate.get(..name.len())),
        NameMatch::Suffix => same(candidate.len().checked_sub(name.len()).map(|start| &candidate[start..])),
        NameMatch::Substring => name.is_empty() || candidate.windows(name.len()).any(|part| same(Some(part))),
        NameMatch::Regex(pattern) => pattern.is_match(candidate),
    }
}

/// The new value; none without a match. The replacement takes the place of the whole value (manual,
/// "replace-header").
fn replace_whole(
    value: &[u8],
    pattern: &Regex,
    groups: &mut weir_expr::pattern::regex::Groups,
    template: &[u8],
) -> Option<Vec<u8>> {
    pattern.captures(value, 0, groups)?;
    let mut replaced = Vec::new();
    weir_expr::pattern::regex::expand(template, value, groups, &mut replaced);
    Some(replaced)
}

/// The comma-separated values, each with its match replaced; none without any match.
fn replace_each(
    value: &[u8],
    pattern: &Regex,
    groups: &mut weir_expr::pattern::regex::Groups,
    template: &[u8],
) -> Option<Vec<u8>> {
    let mut replaced = Vec::new();
    let mut changed = false;
    let mut kept_to = 0;
    for item in Values::new(value) {
        let start = item.as_ptr().addr() - value.as_ptr().addr();
        if pattern.captures(item, 0, groups).is_none() {
            continue;
        }
        // The blanks before a value are removed with it.
        replaced.extend_from_slice(value[kept_to..start].trim_ascii_end());
        weir_expr::pattern::regex::expand(template, item, groups, &mut replaced);
        kept_to = start + item.len();
        changed = true;
    }
    replaced.extend_from_slice(&value[kept_to..]);
    changed.then_some(replaced)
}
