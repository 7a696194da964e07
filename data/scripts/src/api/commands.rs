//! `core.register_cli`: commands of the runtime API.

use weir_lua::{LuaKind, Misuse};
use weir_model::RulesetSet;

use super::core::needs_loading;
use super::{ApiCall, ApiResult};
use crate::registry::{Registered, ScriptCommand};

/// `core.register_cli(words, usage, function)`.
pub(super) fn register(call: &ApiCall<'_>) -> ApiResult {
    if call.count() != 3 {
        return Err(Misuse::text("'register_cli' needs 3 arguments"));
    }
    needs_loading(call, "register_cli")?;
    let words = words(call)?;
    let usage = String::from_utf8_lossy(call.expect_bytes(2)?).into_owned();
    call.expect_function(3)?;
    call.push_value(3);
    let registered = Registered { function: call.keep(), rulesets: RulesetSet::of(&[]), arguments: 0 };
    call.host().registry.add_command(ScriptCommand { words, usage }, registered);
    call.results(0)
}

/// The words in the table of argument 1, in the order of their numbers.
fn words(call: &ApiCall<'_>) -> Result<Vec<String>, Misuse> {
    if call.kind(1) != LuaKind::Table {
        return Err(Misuse::argument(1, "1st argument must be a table"));
    }
    let mut words = Vec::new();
    call.each_pair(1, |stack| {
        if words.len() == MOST_WORDS {
            return Err(Misuse::argument(1, "1st argument must be a table with a maximum of 5 entries"));
        }
        if stack.kind(-1) != LuaKind::String {
            return Err(Misuse::argument(1, "1st argument must be a table filled with strings"));
        }
        let word = stack.bytes(-1).and_then(|word| std::str::from_utf8(word).ok());
        let is_typed = |word: &&str| !word.is_empty() && !word.contains(char::is_control);
        let word = word.filter(is_typed);
        let word =
            word.ok_or_else(|| Misuse::argument(1, "words expected: texts without control characters"))?;
        words.push((stack.integer(-2).unwrap_or(i64::MAX), word.to_owned()));
        Ok(())
    })?;
    if words.is_empty() {
        return Err(Misuse::argument(1, "1st argument must be a table with at least one word"));
    }
    words.sort_by_key(|(position, _)| *position);
    Ok(words.into_iter().map(|(_, word)| word).collect())
}

/// The most words of a command, as in HAProxy.
const MOST_WORDS: usize = 5;
