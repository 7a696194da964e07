//! State that few streams have: the unique ID, captured headers and cookies for the log, and verified passwords.

use std::any::Any;
use std::fmt;

use weir_expr::ScriptName;
use weir_expr::context::CaptureSide;

use weir_vocabulary::timers::ElapsedTime;

use super::password_verdicts::PasswordVerdicts;

/// Captured values, the unique identifier, and verified passwords. Few streams have any, so they are boxed.
#[derive(Debug, Default)]
pub struct CapturedValues(Option<Box<StreamCaptures>>);

/// A captured value, if there was one.
pub type CapturedValue = Option<Box<[u8]>>;

#[derive(Debug, Default)]
struct StreamCaptures {
    request: OneSide,
    response: OneSide,
    unique_id: CapturedValue,
    passwords: PasswordVerdicts,
    /// `Set-Cookie` values of an authorization server, for the response.
    set_cookies: Vec<Box<[u8]>>,
    /// The first failure of an engine (SPOE), for the timeline.
    engine_failure: Option<Box<str>>,
    /// The begin of the first wait for the request's body, for the timeline.
    body_awaited: Option<ElapsedTime>,
    /// The service of a script that responds.
    service: Option<ScriptName>,
    /// Objects of scripts that live as long as the stream.
    kept: Vec<KeptObject>,
}

struct KeptObject(#[expect(dead_code, reason = "only its end counts")] Box<dyn Any>);

impl fmt::Debug for KeptObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeptObject")
    }
}

/// The captures of the request or the response.
#[derive(Debug, Default)]
struct OneSide {
    /// In the order of the frontend's capture slots.
    slots: Vec<CapturedValue>,
    /// `capture cookie`.
    cookie: CapturedValue,
}

impl CapturedValues {
    /// The capture slots of one message, in their order.
    pub fn slots(&self, side: CaptureSide) -> &[CapturedValue] {
        self.side(side).map_or(&[], |kept| &kept.slots)
    }

    /// The capture slots of one message, mutable, extended to `declared` slots.
    pub fn slots_mut(&mut self, side: CaptureSide, declared: usize) -> &mut [CapturedValue] {
        let slots = &mut self.side_mut(side).slots;
        if slots.len() < declared {
            slots.resize_with(declared, || None);
        }
        slots
    }

    /// The cookie found in one message.
    pub fn cookie(&self, side: CaptureSide) -> Option<&[u8]> {
        self.side(side)?.cookie.as_deref()
    }

    /// Keeps the value of `capture cookie` for the log line.
    pub fn keep_cookie(&mut self, side: CaptureSide, cookie: CapturedValue) {
        self.side_mut(side).cookie = cookie;
    }

    /// The stream's password verdicts. `None` before the first.
    pub(crate) fn passwords(&self) -> Option<&PasswordVerdicts> {
        self.0.as_ref().map(|captured| &captured.passwords)
    }

    /// The stream's password verdicts, created on the first call.
    pub(crate) fn passwords_mut(&mut self) -> &mut PasswordVerdicts {
        &mut self.0.get_or_insert_default().passwords
    }

    /// The service of a script that responds.
    pub(crate) fn service(&self) -> Option<ScriptName> {
        self.0.as_ref()?.service
    }

    /// Keeps the service of a script that responds.
    pub(crate) fn keep_service(&mut self, name: ScriptName) {
        self.0.get_or_insert_default().service = Some(name);
    }

    /// Keeps an object of a script until the stream ends.
    pub(crate) fn keep(&mut self, object: Box<dyn Any>) {
        self.0.get_or_insert_default().kept.push(KeptObject(object));
    }

    /// Keeps the value of a `Set-Cookie` field for the response.
    pub(crate) fn keep_set_cookie(&mut self, value: &[u8]) {
        self.0.get_or_insert_default().set_cookies.push(value.into());
    }

    /// Takes the kept `Set-Cookie` values.
    pub(crate) fn take_set_cookies(&mut self) -> Vec<Box<[u8]>> {
        self.0.as_mut().map(|captured| std::mem::take(&mut captured.set_cookies)).unwrap_or_default()
    }

    /// Keeps the first failure of an engine. `describe` writes it as a sentence.
    pub(crate) fn note_engine_failure(&mut self, describe: impl FnOnce() -> String) {
        self.0.get_or_insert_default().engine_failure.get_or_insert_with(|| describe().into());
    }

    /// The first failure of an engine.
    #[inline]
    pub(crate) fn engine_failure(&self) -> Option<&str> {
        self.0.as_ref()?.engine_failure.as_deref()
    }

    /// Keeps the begin of the first wait for the request's body.
    pub(crate) fn note_body_wait(&mut self, began: ElapsedTime) {
        self.0.get_or_insert_default().body_awaited.get_or_insert(began);
    }

    /// The begin of the first wait for the request's body.
    pub(crate) fn body_awaited(&self) -> Option<ElapsedTime> {
        self.0.as_ref()?.body_awaited
    }

    /// `unique-id`. `None` until generated.
    pub fn unique_id(&self) -> Option<&[u8]> {
        self.0.as_ref()?.unique_id.as_deref()
    }

    /// Keeps the unique ID (`unique-id-format`) for the log line.
    pub fn keep_unique_id(&mut self, id: &[u8]) {
        self.0.get_or_insert_default().unique_id = Some(id.into());
    }

    fn side(&self, side: CaptureSide) -> Option<&OneSide> {
        let captured = self.0.as_deref()?;
        Some(match side {
            CaptureSide::Request => &captured.request,
            CaptureSide::Response => &captured.response,
        })
    }

    fn side_mut(&mut self, side: CaptureSide) -> &mut OneSide {
        let captured = self.0.get_or_insert_default();
        match side {
            CaptureSide::Request => &mut captured.request,
            CaptureSide::Response => &mut captured.response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_response_have_separate_capture_slots_and_cookies() {
        let mut captures = CapturedValues::default();
        assert!(captures.slots(CaptureSide::Request).is_empty());
        captures.slots_mut(CaptureSide::Request, 2)[1] = Some((*b"x").into());
        captures.keep_cookie(CaptureSide::Response, Some((*b"c=1").into()));
        assert_eq!(captures.slots(CaptureSide::Request), [None, Some((*b"x").into())]);
        assert!(captures.slots(CaptureSide::Response).is_empty());
        assert_eq!(captures.cookie(CaptureSide::Response), Some(&b"c=1"[..]));
        assert_eq!(captures.cookie(CaptureSide::Request), None);
    }

    #[test]
    fn the_unique_id_is_returned_after_it_was_stored() {
        let mut captures = CapturedValues::default();
        assert_eq!(captures.unique_id(), None);
        captures.keep_cookie(CaptureSide::Request, Some((*b"c=1").into()));
        captures.keep_unique_id(b"7F00");
        assert_eq!(captures.unique_id(), Some(&b"7F00"[..]));
        assert_eq!(captures.cookie(CaptureSide::Request), Some(&b"c=1"[..]));
    }

    #[test]
    fn keeps_captured_values_when_slots_are_requested_again() {
        let mut captures = CapturedValues::default();
        captures.slots_mut(CaptureSide::Request, 1)[0] = Some((*b"x").into());
        assert_eq!(captures.slots_mut(CaptureSide::Request, 2), [Some((*b"x").into()), None]);
    }
}
