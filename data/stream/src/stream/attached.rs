//! The attachments of filters: per-stream objects that receive stream events, besides the filters of the two directions.

use std::any::Any;

use weir_containers::PoolBox;
use weir_expr::{Value, VariableId};
use weir_mux::Message;
use weir_scripts::FilterTurn;

use crate::stream::Stream;
use crate::stream::channel_bytes::ChannelBytes;
use crate::stream::engines::{AgentCall, EngineState};

/// A filter's per-stream object that receives stream events. Every method is a no-op by default.
pub(crate) trait Attachment: Any {
    /// The backend was chosen, and its filters are attached. A backend's own filter receives the event directly after its attachment. A
    /// stream that ends before the choice does not send the event.
    fn backend_chosen(&self, _: &Stream) {}

    /// The request's head is about to be sent to a server. It is not called again for a retry.
    fn request_leaves(&self, _: &mut Message) {}

    /// Whether the filter is that of a script, which is called beside the transfer.
    fn is_script(&self) -> bool {
        false
    }

    /// The stream is dropped.
    fn detached(&mut self) {}
}

/// The attachments of a stream, in the order in which they were attached.
#[derive(Default)]
pub(crate) struct Attached {
    filters: Vec<AttachedFilter>,
    /// The parent of a stream that is an exchange with an agent.
    pub(crate) call: Option<PoolBox<AgentCall>>,
    /// The engines that exchanged messages with agents.
    pub(crate) engines: Vec<EngineState>,
    /// The engines were informed of the session with a server.
    pub(crate) has_server_session: bool,
    /// Variables of scope `res` that agents set before the response began.
    pub(crate) early: Vec<(VariableId, Value<'static>)>,
    /// Whether a filter is that of a script.
    pub(crate) has_script_filters: bool,
    /// The call of a script's filter that runs.
    pub(crate) turn: Option<Box<FilterTurn>>,
    /// Bytes that scripts gave to the channels.
    pub(crate) channels: Option<Box<ChannelBytes>>,
}

/// One attachment, and the filter that created it.
struct AttachedFilter {
    /// The index of the proxy that has the filter.
    proxy: usize,
    /// The filter's position among the proxy's filters.
    position: usize,
    attachment: Box<dyn Attachment>,
}

impl Attached {
    /// The attachments of a stream, created on the first call.
    pub(crate) fn of_stream(stream: &mut Stream) -> &mut Attached {
        stream.attached.get_or_insert_with(|| PoolBox::new(Attached::default()))
    }

    /// Adds the attachment of `proxy`'s filter at `position`.
    pub(crate) fn add(&mut self, proxy: usize, position: usize, attachment: Box<dyn Attachment>) {
        self.has_script_filters |= attachment.is_script();
        self.filters.push(AttachedFilter { proxy, position, attachment });
    }

    /// The attachments of type `A` that belong to a proxy, each with the position of its filter.
    pub(crate) fn of<A: Attachment>(&self, proxy: usize) -> impl Iterator<Item = (usize, &A)> {
        self.filters.iter().filter(move |filter| filter.proxy == proxy).filter_map(|filter| {
            let attachment: &dyn Any = &*filter.attachment;
            Some((filter.position, attachment.downcast_ref()?))
        })
    }

    /// The attachments of type `A`.
    pub(crate) fn every<A: Attachment>(&self) -> impl Iterator<Item = &A> {
        self.iter().filter_map(|attachment| {
            let attachment: &dyn Any = attachment;
            attachment.downcast_ref()
        })
    }

    /// All attachments, in the order of attachment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Attachment> {
        self.filters.iter().map(|filter| &*filter.attachment)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.filters.iter_mut().rev().for_each(|filter| filter.attachment.detached());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    struct Noted(u8, Rc<RefCell<Vec<u8>>>);

    impl Attachment for Noted {
        fn detached(&mut self) {
            self.1.borrow_mut().push(self.0);
        }
    }

    struct Silent;

    impl Attachment for Silent {}

    #[test]
    fn attachments_are_dropped_in_reverse_order() {
        let notes = Rc::default();
        let mut attached = Attached::default();
        for number in 0..3 {
            attached.add(0, usize::from(number), Box::new(Noted(number, Rc::clone(&notes))));
        }
        drop(attached);
        assert_eq!(*notes.borrow(), [2, 1, 0]);
    }

    #[test]
    fn finds_attachments_by_type_and_proxy() {
        let notes = Rc::default();
        let mut attached = Attached::default();
        attached.add(7, 0, Box::new(Silent));
        attached.add(7, 1, Box::new(Noted(1, Rc::clone(&notes))));
        attached.add(8, 0, Box::new(Noted(2, Rc::clone(&notes))));
        let found = attached.of::<Noted>(7).map(|(position, noted)| (position, noted.0));
        assert_eq!(Vec::from_iter(found), [(1, 1)]);
    }
}
