//! Applies the actions of an ACK: they set and unset variables (SPOE.txt, 3.4).

use std::borrow::Cow;

use weir_expr::{Context as _, SetCondition, Value, VariableId, VariableScope};
use weir_spop::{ActionScope, AgentAction, AgentActions, StatusCode, TypedData};

use super::{AgentEngine, Failure};
use crate::stream::Stream;

/// Applies the actions in their order. Those before an invalid one stay applied. HAProxy reports success even then, so that a garbled
/// verdict lets a request pass. Here it is an error.
pub(super) fn apply(stream: &mut Stream, engine: &AgentEngine, payload: &[u8]) -> Result<(), Failure> {
    for action in AgentActions::new(payload) {
        match action.map_err(|_| Failure::from(StatusCode::InvalidFrame))? {
            AgentAction::SetVar { scope, name, value } => set(stream, engine, scope_of(scope), name, &value),
            AgentAction::UnsetVar { scope, name } => {
                if let Some(variable) = engine.variable(scope_of(scope), name) {
                    stream.unset_variable(variable);
                }
            }
        }
    }
    Ok(())
}

fn set(stream: &mut Stream, engine: &AgentEngine, scope: VariableScope, name: &[u8], value: &TypedData<'_>) {
    let Some(variable) = engine.variable_to_set(scope, name) else { return };
    let Some(value) = sample(value) else {
        stream.unset_variable(variable);
        return;
    };
    if scope == VariableScope::Response && !stream.rules.see_response() {
        // The session with the server has begun, its response has not. Earlier the scope is not valid.
        if let Some(attached) = stream.attached.as_mut().filter(|attached| attached.has_server_session) {
            attached.early.push((variable, value.into_owned()));
        }
        return;
    }
    // At the memory limit (`tune.vars.*`) the variable stays unset, which the rules see.
    stream.set_variable(variable, value, SetCondition::ALWAYS);
}

/// Sets variables of scope `res` that were set before the response began.
pub(crate) fn set_early(stream: &mut Stream, variables: Vec<(VariableId, Value<'static>)>) {
    for (variable, value) in variables {
        stream.set_variable(variable, value, SetCondition::ALWAYS);
    }
}

fn scope_of(scope: ActionScope) -> VariableScope {
    match scope {
        ActionScope::Process => VariableScope::Process,
        ActionScope::Session => VariableScope::Session,
        ActionScope::Transaction => VariableScope::Transaction,
        ActionScope::Request => VariableScope::Request,
        ActionScope::Response => VariableScope::Response,
    }
}

/// `None` for NULL.
fn sample<'v>(value: &TypedData<'v>) -> Option<Value<'v>> {
    Some(match *value {
        TypedData::Null => return None,
        TypedData::Bool(value) => Value::Bool(value),
        TypedData::Int32(number) | TypedData::Int64(number) => Value::Int(number),
        // HAProxy's integers are signed.
        TypedData::Uint32(number) | TypedData::Uint64(number) => Value::Int(number.cast_signed()),
        TypedData::Ipv4(address) => Value::Ipv4(address),
        TypedData::Ipv6(address) => Value::Ipv6(address),
        TypedData::Text(text) => Value::Str(Cow::Borrowed(text)),
        TypedData::Binary(bytes) => Value::Bin(Cow::Borrowed(bytes)),
    })
}
