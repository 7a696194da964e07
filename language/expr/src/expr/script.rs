//! Fetches and converters that scripts register (`lua.name`).
//!
//! Their names are known only once the scripts of a configuration ran, while declarations last for ever. So each name is declared once in the
//! process, and has the same number in every configuration. The numbers of a configuration's scripts lead to their functions.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Call;
use crate::args::{Arg, ArgKind, ArgSpec, Args, Reference};
use crate::context::Context;
use crate::converters::{Converter, Run};
use crate::error::ParseError;
use crate::fetch::{EvaluationPoint, EvaluationPoints, FetchDecl, Needs};
use crate::sample::{Sample, SampleType, Value};
use crate::scope::ExpressionScope;
use crate::script_names::ScriptName;

/// The declarations of one name.
#[derive(Debug)]
pub(crate) struct ScriptWord {
    pub name: ScriptName,
    pub fetch: FetchDecl,
    pub converter: Converter,
}

/// What fetches and converters share: up to twelve texts.
const ARGS: ArgSpec = ArgSpec::new(0, &[ArgKind::Str; 12]);

/// Where functions of scripts can be called: wherever a stream is.
const POINTS: EvaluationPoints = EvaluationPoints::ALL
    .without(EvaluationPoint::FrontendConnection)
    .without(EvaluationPoint::FrontendSession)
    .without(EvaluationPoint::Check)
    .without(EvaluationPoint::ConfigParser)
    .without(EvaluationPoint::CliParser);

const NEEDS: Needs = Needs::HTTP_REQUEST
    .or(Needs::HTTP_REQUEST_META)
    .or(Needs::HTTP_REQUEST_BODY)
    .or(Needs::HTTP_RESPONSE)
    .or(Needs::HTTP_RESPONSE_META)
    .or(Needs::HTTP_RESPONSE_BODY);

static WORDS: Mutex<Option<HashMap<&'static str, &'static ScriptWord>>> = Mutex::new(None);

/// The declarations of a name that scripts registered. They are never freed: a process has few names.
pub(crate) fn word(name: &str) -> &'static ScriptWord {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let words = words.get_or_insert_default();
    if let Some(word) = words.get(name) {
        return word;
    }
    let text: &'static str = Box::leak(name.into());
    let number = ScriptName(words.len() as u32);
    let help = "a function of a script";
    let word: &'static ScriptWord = Box::leak(Box::new(ScriptWord {
        name: number,
        fetch: FetchDecl {
            valid: POINTS,
            ..FetchDecl::new(text, SampleType::Str, help).args(ARGS).needs(NEEDS)
        },
        converter: Converter {
            args: ARGS,
            ..Converter::new(text, SampleType::Str, SampleType::Str, Run::Script(number), help)
        },
    }));
    words.insert(text, word);
    word
}

/// The number of a name that scripts registered, with `lua.`.
pub fn name_of(name: &str) -> ScriptName {
    word(name).name
}

/// The name with this number, with `lua.`. Empty for a number that no name has.
pub fn text_of(number: ScriptName) -> &'static str {
    let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = words.iter().flat_map(HashMap::values);
    all.find(|word| word.name == number).map_or("", |word| word.fetch.name)
}

/// A converter that a script calls.
#[derive(Debug)]
pub struct ScriptConversion(Call);

impl ScriptConversion {
    /// Parses a converter with its arguments, in the form of expressions.
    ///
    /// # Errors
    /// If it is unknown, its arguments are wrong, or it cannot take a value of the type `input`.
    pub fn parse(text: &[u8], input: SampleType, scope: &ExpressionScope<'_>) -> Result<Self, ParseError> {
        Ok(ScriptConversion(Call::parse(text, 0, 0, input, scope)?.0))
    }

    /// The converted value. `None` if the converter fails.
    pub fn run(&self, value: Value<'static>, context: &mut dyn Context) -> Option<Value<'static>> {
        self.0.run(Sample::new(value), context).map(|sample| sample.value)
    }

    /// Calls `visit` with every reference to an object of the configuration.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        self.0.args.visit_references(visit);
    }
}

/// The text of an argument of a script's fetch or converter.
pub fn argument_text(args: &Args, index: usize) -> Option<&[u8]> {
    match args.get(index) {
        Arg::Str(text) => Some(text),
        _ => None,
    }
}
