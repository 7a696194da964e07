//! The filters of the configuration's lines, in one state.

use std::cell::{Cell, OnceCell, RefCell};

use weir_config::scripts::FilterId;
use weir_lua::LuaReference;

use crate::message::ScriptSide;

/// The filters of a state, and the one that runs.
#[derive(Debug, Default)]
pub(crate) struct StateFilters {
    /// Made with the first line.
    support: OnceCell<FilterSupport>,
    /// The filter of each line, by its number. `None` for lines of other states and for filters that are ignored.
    objects: RefCell<Vec<Option<LuaReference>>>,
    /// The object of the call that runs.
    running: Cell<Option<LuaReference>>,
    /// The payloads that it asked for, and those that it does not want any more.
    registered: Cell<[Option<bool>; 2]>,
}

/// What filters need in a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterSupport {
    pub declarer: LuaReference,
    pub caller: LuaReference,
    /// The classes of `HTTPMessage`: of requests, and of responses.
    pub messages: [LuaReference; 2],
    pub message_methods: LuaReference,
}

/// A filter of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredFilter {
    /// The function that calls callbacks.
    pub caller: LuaReference,
    pub object: LuaReference,
}

impl StateFilters {
    /// The class of messages of this side. Filters have been declared.
    pub(crate) fn messages(&self, side: ScriptSide) -> LuaReference {
        self.support.get().expect("a filter was declared").messages[side as usize]
    }

    /// The methods of messages. Filters have been declared.
    pub(crate) fn message_methods(&self) -> LuaReference {
        self.support.get().expect("a filter was declared").message_methods
    }

    /// The classes of messages, of requests and of responses. `None` without filters.
    pub(crate) fn message_classes(&self) -> Option<[LuaReference; 2]> {
        self.support.get().map(|support| support.messages)
    }

    /// The object of the call that runs.
    pub(crate) fn running(&self) -> Option<LuaReference> {
        self.running.get()
    }

    /// Notes that a filter wants the payload of a side, or does not want it any more.
    pub(crate) fn register(&self, side: ScriptSide, wants: bool) {
        let mut registered = self.registered.get();
        registered[side as usize] = Some(wants);
        self.registered.set(registered);
    }

    pub(crate) fn begin(&self, object: LuaReference) {
        self.running.set(Some(object));
    }

    /// Ends a call. Returns its registrations.
    pub(crate) fn end(&self) -> [Option<bool>; 2] {
        self.running.set(None);
        self.registered.take()
    }

    /// The filters of all lines, once the configuration has been read.
    pub(crate) fn declared(&self) -> Vec<Option<DeclaredFilter>> {
        let Some(support) = self.support.get() else { return Vec::new() };
        let with_caller = |object: &Option<LuaReference>| {
            object.map(|object| DeclaredFilter { caller: support.caller, object })
        };
        self.objects.borrow().iter().map(with_caller).collect()
    }

    /// What filters need. `None` before the first one.
    pub(crate) fn support(&self) -> Option<FilterSupport> {
        self.support.get().copied()
    }

    /// Sets what filters need, once.
    pub(crate) fn set_support(&self, support: FilterSupport) {
        let _ = self.support.set(support);
    }

    /// Sets the filter of a line.
    pub(crate) fn set_object(&self, id: FilterId, object: Option<LuaReference>) {
        let position = id.0 as usize;
        let mut objects = self.objects.borrow_mut();
        if objects.len() <= position {
            objects.resize(position + 1, None);
        }
        objects[position] = object;
    }
}
