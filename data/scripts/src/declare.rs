//! Declares the filters of the configuration's lines: calls the functions that scripts registered for them.

use weir_config::scripts::FilterId;
use weir_lua::{LuaError, LuaKind, LuaReference, RunBounds};

use crate::api;
use crate::state_filters::FilterSupport;
use crate::world::ScriptState;

/// The result of the function of a filter, for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterDeclaration {
    /// A filter: whether it has a function `new`, and whether its flags include HTTP.
    Filter { has_new: bool, sees_http: bool },
    /// Nil: the line does nothing.
    Nil,
    /// A value of another type.
    Other(&'static str),
}

impl FilterDeclaration {
    /// Whether the filter sees streams of HTTP.
    pub(crate) fn sees_http(self) -> bool {
        matches!(self, FilterDeclaration::Filter { sees_http: true, .. })
    }

    /// Why the line does nothing. `None` if it works.
    pub(crate) fn warning(self, name: &str) -> Option<String> {
        Some(match self {
            FilterDeclaration::Filter { has_new: true, .. } => return None,
            FilterDeclaration::Filter { .. } => {
                format!("the filter '{name}' has no function 'new', so it does nothing.")
            }
            FilterDeclaration::Nil => {
                format!("the function of the filter '{name}' returned nil, so this line does nothing.")
            }
            FilterDeclaration::Other(kind) => format!(
                "the function of the filter '{name}' returned a {kind}, not a filter, so this line does nothing."
            ),
        })
    }
}

/// Makes the filter of a line in a state, with the registered class and function.
///
/// # Errors
/// The script's.
pub(crate) fn declare(
    state: &mut ScriptState,
    id: FilterId,
    (class, function): (LuaReference, LuaReference),
    arguments: &[String],
) -> Result<FilterDeclaration, LuaError> {
    let declarer = support(state)?.declarer;
    let made = state.call(
        declarer,
        None,
        RunBounds::NONE,
        |stack| {
            stack.push_reference(class);
            stack.push_reference(function);
            arguments.iter().for_each(|argument| stack.push_bytes(argument.as_bytes()));
        },
        |call| match call.kind(1) {
            _ if call.count() == 0 => (FilterDeclaration::Nil, None),
            LuaKind::Nil => (FilterDeclaration::Nil, None),
            LuaKind::Table => {
                call.push_value(1);
                (FilterDeclaration::Filter { has_new: false, sees_http: false }, Some(call.keep()))
            }
            _ => (FilterDeclaration::Other(call.kind_name(1)), None),
        },
    )?;
    let (declaration, object) = made;
    state.host().filters.set_object(id, object);
    let Some(object) = object else { return Ok(declaration) };
    let (has_new, sees_http) = members(state, object)?;
    Ok(FilterDeclaration::Filter { has_new, sees_http })
}

/// Whether a filter has a function `new`, and whether its flags include HTTP.
fn members(state: &mut ScriptState, object: LuaReference) -> Result<(bool, bool), LuaError> {
    let reader = state.load(MEMBERS.as_bytes(), CHUNK)?;
    let read = state.call(
        reader,
        None,
        RunBounds::NONE,
        |stack| stack.push_reference(object),
        |call| (call.kind(1) == LuaKind::Function, call.integer(2).unwrap_or(0) & api::FLAG_HTTP != 0),
    );
    state.forget(reader);
    read
}

fn support(state: &mut ScriptState) -> Result<FilterSupport, LuaError> {
    if let Some(support) = state.host().filters.support() {
        return Ok(support);
    }
    let chunk = state.load(SUPPORT.as_bytes(), CHUNK)?;
    let functions = state.call(
        chunk,
        None,
        RunBounds::NONE,
        |_| {},
        |call| {
            [1, 2].map(|index| {
                call.push_value(index);
                call.keep()
            })
        },
    );
    state.forget(chunk);
    let [caller, declarer] = functions?;
    let (messages, message_methods) = api::message_classes(state);
    let support = FilterSupport { declarer, caller, messages, message_methods };
    state.host().filters.set_support(support);
    Ok(support)
}

/// The name of our own code in tracebacks, which reports leave out.
pub(crate) const CHUNK: &str = "=[filter]";
/// Two functions. The first one calls a function of a filter: it returns nothing if the filter lacks it, and else the number of its results
/// and the first one. The second one makes the filter of a line.
const SUPPORT: &str = "local select, setmetatable = select, setmetatable
local function ended(...) return select('#', ...), (...) end
local function call(filter, name, ...)
  local callback = filter[name]
  if callback == nil then return end
  return ended(callback(filter, ...))
end
local function declare(class, create, ...)
  return create(setmetatable({}, {__index = class}), {...})
end
return call, declare";
/// Reads the members of a filter.
const MEMBERS: &str = "local filter = ... return filter.new, filter.flags";
