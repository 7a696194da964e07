//! The functions that the scripts of a state registered.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use weir_config::rules::sets;
use weir_config::scripts::ServiceKind;
use weir_expr::ScriptName;
use weir_lua::LuaReference;
use weir_model::RulesetSet;

/// The purpose of a registered function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FunctionKind {
    Fetch,
    Converter,
    Action,
    Task,
    /// A handler of events.
    Handler,
    /// A command of the runtime API.
    Command,
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

    /// Whether failures are logged by the loggers of the global section, not by those of the stream's proxy.
    pub(crate) fn is_of_process(self) -> bool {
        use FunctionKind::{Action, Converter, Fetch, Filter};
        !matches!(self, Fetch | Converter | Action | Filter)
    }

    /// The name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            FunctionKind::Fetch => "sample-fetch",
            FunctionKind::Converter => "converter",
            FunctionKind::Action => "function",
            FunctionKind::Task => "task",
            FunctionKind::Handler => "event_hdl",
            FunctionKind::Command => "cli",
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

/// A command of the runtime API that a script registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    pub words: Vec<String>,
    /// The line in `help`.
    pub usage: String,
}

impl ScriptCommand {
    /// The name of the function with these words, without `lua.`.
    fn function_name(words: &[String]) -> String {
        format!("cli.{}", words.join(WORD_END))
    }

    /// The name of the function, as the registry keeps it.
    pub(crate) fn name(&self) -> ScriptName {
        weir_expr::expr::script::name_of(&full_name(&Self::function_name(&self.words)))
    }
}

/// Stands between the words of a command in the name of its function. No word has it.
pub(crate) const WORD_END: &str = "\0";

/// The functions of one state.
#[derive(Debug, Default)]
pub(crate) struct FunctionRegistry {
    functions: RefCell<HashMap<(FunctionKind, ScriptName), Registered>>,
    /// The classes of filters. Their functions are above.
    filter_classes: RefCell<HashMap<ScriptName, LuaReference>>,
    commands: RefCell<Vec<ScriptCommand>>,
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
            let name = name.replace(WORD_END, ".");
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
    pub(crate) fn functions(&self) -> BTreeMap<(FunctionKind, ScriptName), LuaReference> {
        self.functions.borrow().iter().map(|(key, registered)| (*key, registered.function)).collect()
    }

    /// Registers a command. The last one with these words counts.
    pub(crate) fn add_command(&self, command: ScriptCommand, registered: Registered) {
        self.add(FunctionKind::Command, &ScriptCommand::function_name(&command.words), registered);
        let mut commands = self.commands.borrow_mut();
        commands.retain(|known| known.words != command.words);
        commands.push(command);
    }

    /// The commands, in the order of their words.
    pub(crate) fn commands(&self) -> Vec<ScriptCommand> {
        let mut commands = self.commands.borrow().clone();
        commands.sort_by(|one, other| one.words.cmp(&other.words));
        commands
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
