//! Writes the messages of a NOTIFY: which apply, and their arguments.

use weir_expr::{Sample, Value};
use weir_spop::{MessageWriter, TypedData};

use super::{AgentEngine, ExchangeCause, Failure};
use crate::recycle::Loan;
use crate::stream::Stream;

/// The messages of `cause` that apply to the stream, serialized. `None` if none applies.
pub(super) fn write(
    stream: &mut Stream,
    engine: &AgentEngine,
    cause: ExchangeCause<'_>,
) -> Option<Result<Loan<Vec<u8>>, Failure>> {
    let positions = match cause {
        ExchangeCause::Event(event) => engine.messages_of(event),
        ExchangeCause::Group(position, _) => &engine.config.groups.get(position)?.messages,
    };
    let limit = engine.frame_size as usize - FRAME_HEAD;
    let mut out = crate::recycle::bytes();
    for position in positions.iter() {
        let Some(message) = engine.config.messages.get(usize::from(*position)) else { continue };
        // As in HAProxy, the condition applies in a group, too.
        if message.condition.as_ref().is_some_and(|condition| !stream.holds(condition)) {
            continue;
        }
        let mut writer = MessageWriter::new(message.name.as_bytes(), &mut out);
        for argument in &message.arguments {
            let value = argument.value.evaluate(stream).sample();
            // The configuration has at most as many arguments as a message can carry.
            let _ = writer.argument(argument.name.as_bytes(), typed(value.as_ref()));
        }
        // Nothing is cut silently: an agent that judges a part would let the rest pass.
        if out.len() > limit {
            return Some(Err(Failure::TooLarge));
        }
    }
    (!out.is_empty()).then_some(Ok(out))
}

fn typed<'v>(sample: Option<&'v Sample<'_>>) -> TypedData<'v> {
    match sample.map(|sample| &sample.value) {
        None => TypedData::Null,
        Some(Value::Bool(value)) => TypedData::Bool(*value),
        Some(Value::Int(number)) => TypedData::Int64(*number),
        Some(Value::Ipv4(address)) => TypedData::Ipv4(*address),
        Some(Value::Ipv6(address)) => TypedData::Ipv6(*address),
        Some(Value::Str(text) | Value::Method(text)) => TypedData::Text(text),
        Some(Value::Bin(bytes)) => TypedData::Binary(bytes),
    }
}

/// Bytes of a frame before its payload: type, flags, and two numbers of one byte. Longer numbers are checked when it is sent.
const FRAME_HEAD: usize = 1 + 4 + 1 + 1;
