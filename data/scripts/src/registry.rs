//! The functions that the scripts of a state registered.

use std::cell::RefCell;
use std::collections::HashMap;

use weir_config::rules::sets;
use weir_config::scripts::ServiceKind;
use weir_expr::ScriptName;
use weir_lua::LuaReference;
use weir_model::RulesetSet;

/// The purpose of a registered function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    Fetch,
    Converter,
    Action,
    Task,
    HttpService,
    TcpService,
    Filter,
}

impl FunctionKind {
    /// The kind of a service.
    pub(crate) fn of_service(kind: ServiceKind) -> Self {
        match kind {
            ServiceKind::Http => FunctionKind::HttpService,
            ServiceKind::Tcp => FunctionKind::TcpService,
        }
    }

    /// The name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            FunctionKind::Fetch => "sample-fetch",
            FunctionKind::Converter => "converter",
            FunctionKind::Action => "function",
            FunctionKind::Task => "task",
            FunctionKind::HttpService => "applet http",
            FunctionKind::TcpService => "applet tcp",
            FunctionKind::Filter => "filter",
        }
    }
}

/// A registered function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub function: LuaReference,
    pub rulesets: RulesetSet,
    pub arguments: usize,
}

/// The functions of one state.
#[derive(Debug, Default)]
pub(crate) struct FunctionRegistry {
    functions: RefCell<HashMap<(FunctionKind, ScriptName), Registered>>,
    /// The classes of filters. Their functions are above.
    filter_classes: RefCell<HashMap<ScriptName, LuaReference>>,
    /// Functions that run once the configuration has been read.
    inits: RefCell<Vec<LuaReference>>,
    /// Names that were registered twice, as warnings.
    repeated: RefCell<Vec<String>>,
}

impl FunctionRegistry {
    /// Registers a function. The last one of a name counts.
    pub(crate) fn add(&self, kind: FunctionKind, name: &str, registered: Registered) {
        let key = (kind, weir_expr::expr::script::name_of(&full_name(name)));
        if self.functions.borrow_mut().insert(key, registered).is_some() {
            let text =
                format!("the {} 'lua.{name}' is registered more than once; the last one counts", kind.noun());
            self.repeated.borrow_mut().push(text);
        }
    }

    pub(crate) fn find(&self, kind: FunctionKind, name: ScriptName) -> Option<Registered> {
        self.functions.borrow().get(&(kind, name)).copied()
    }

    /// Registers a filter: its class, and the function that makes the filter of a line.
    pub(crate) fn add_filter(&self, name: &str, class: LuaReference, function: LuaReference) {
        let registered = Registered { function, rulesets: RulesetSet::of(&[]), arguments: 0 };
        self.add(FunctionKind::Filter, name, registered);
        let name = weir_expr::expr::script::name_of(&full_name(name));
        self.filter_classes.borrow_mut().insert(name, class);
    }

    /// The class and the function of a filter.
    pub(crate) fn filter(&self, name: ScriptName) -> Option<(LuaReference, LuaReference)> {
        let class = *self.filter_classes.borrow().get(&name)?;
        Some((class, self.find(FunctionKind::Filter, name)?.function))
    }

    /// All functions.
    pub(crate) fn functions(&self) -> HashMap<(FunctionKind, ScriptName), LuaReference> {
        self.functions.borrow().iter().map(|(key, registered)| (*key, registered.function)).collect()
    }

    pub(crate) fn add_init(&self, function: LuaReference) {
        self.inits.borrow_mut().push(function);
    }

    pub(crate) fn take_inits(&self) -> Vec<LuaReference> {
        self.inits.take()
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.repeated.take()
    }
}

/// The name in the configuration.
pub(crate) fn full_name(name: &str) -> String {
    format!("lua.{name}")
}

/// The ruleset of a name in `core.register_action`.
pub(crate) fn ruleset(name: &[u8]) -> Option<RulesetSet> {
    Some(match name {
        b"tcp-req" => sets::TCP_CONTENT,
        b"tcp-res" => sets::TCP_RESPONSE,
        b"http-req" => sets::HTTP_REQUEST,
        b"http-res" => sets::HTTP_RESPONSE,
        b"http-after-res" => sets::HTTP_AFTER_RESPONSE,
        _ => return None,
    })
}
