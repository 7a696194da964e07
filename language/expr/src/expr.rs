//! A sample expression: one fetch, then converters.

use std::fmt;

use crate::args::{ArgError, Args, Reference, parse_args, split_args};
use crate::context::{Context, Cursor, Fetched};
use crate::converters::{self, Converter};
use crate::error::{ParseError, show};
use crate::fetch::{Answer, FetchDecl, Places};
use crate::internal;
use crate::sample::{Flags, Sample, SampleType, Value};
use crate::scope::Scope;

/// A parsed expression, ready to be evaluated any number of times.
#[derive(Clone)]
pub struct Expr {
    decl: &'static FetchDecl,
    answer: Answer,
    args: Args,
    converters: Box<[Call]>,
    /// How many converters at the beginning need nothing but the sample.
    pure: usize,
    output: SampleType,
    text: Box<str>,
}

/// One converter in an expression, with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub converter: &'static Converter,
    pub args: Args,
    /// The type that the input is cast to before the call.
    pub input: SampleType,
}

/// How many converters one expression may have.
const MAX_CONVERTERS: usize = 256;

impl Expr {
    /// Parses the expression that begins at `words[*at]`, and moves `at` past it.
    ///
    /// Converters follow the fetch after commas; a converter may also be a word of its own.
    pub fn parse(words: &[&[u8]], at: &mut usize, scope: &Scope<'_>) -> Result<Expr, ParseError> {
        let (expr, end) = Self::parse_head(words, *at, scope)?;
        let next = Self::finish(expr, words, *at, end, scope)?;
        *at = next.1;
        Ok(next.0)
    }

    /// Parses an expression that is one whole piece of text: `%[...]`, CLI arguments.
    pub fn parse_text(text: &[u8], scope: &Scope<'_>) -> Result<Expr, ParseError> {
        let mut at = 0;
        Expr::parse(&[text], &mut at, scope)
    }

    /// Parses the fetch at the beginning of a word; also says where it ends.
    pub(crate) fn parse_head(
        words: &[&[u8]],
        at: usize,
        scope: &Scope<'_>,
    ) -> Result<(Expr, usize), ParseError> {
        let word = words
            .get(at)
            .filter(|word| !word.is_empty())
            .ok_or_else(|| ParseError::new(at, "missing fetch method"))?;
        let name_end = name_end(word);
        let name = show(&word[..name_end]);
        let Some((answer, decl)) = scope.registry.answer(&name) else {
            return Err(unknown_fetch(&name, at, name_end, scope));
        };
        Self::head(decl, answer, word, name_end, at, scope)
    }

    pub(crate) fn head(
        decl: &'static FetchDecl,
        answer: Answer,
        word: &[u8],
        name_end: usize,
        at: usize,
        scope: &Scope<'_>,
    ) -> Result<(Expr, usize), ParseError> {
        let fail = |error: ArgError| {
            ParseError::new(at, format!("fetch method '{}' : {}", decl.name, error.message)).at(error.span)
        };
        if !decl.valid.intersects(scope.places) {
            return Err(ParseError::new(
                at,
                format!(
                    "fetch method '{}' extracts information from '{}', none of which is available here",
                    decl.name,
                    decl.needs.names()
                ),
            )
            .at(0..name_end));
        }
        let (raw, end) = match word.get(name_end) {
            Some(b'(') => split_args(word, name_end).map_err(fail)?,
            _ => (Vec::new(), name_end),
        };
        let mut args = parse_args(&decl.args, word, &raw, scope).map_err(fail)?;
        let check = |message| {
            ParseError::new(at, format!("invalid args in fetch method '{}' : {message}", decl.name))
                .at(name_end..end)
        };
        if let Some(run) = decl.check {
            run(&mut args, scope).map_err(check)?;
        }
        let expr = Expr {
            decl,
            answer,
            args,
            converters: Box::default(),
            pure: 0,
            output: decl.output,
            text: show(&word[..end]).into(),
        };
        Ok((expr, end))
    }

    /// Parses the converters after a fetch that ended at byte `end` of `words[at]`; gives the expression and the
    /// index of the word after it.
    pub(crate) fn finish(
        mut self,
        words: &[&[u8]],
        mut at: usize,
        mut end: usize,
        scope: &Scope<'_>,
    ) -> Result<(Expr, usize), ParseError> {
        let mut calls: Vec<Call> = Vec::new();
        let mut text = String::from(&*self.text);
        loop {
            let word = words[at];
            if end == word.len() {
                at += 1;
                end = 0;
                // A word that is no converter belongs to what follows the expression.
                let Some(next) = words.get(at) else { break };
                let name = show(&next[..name_end(next)]);
                if converters::find(&name).is_none() {
                    break;
                }
            } else if word[end] == b',' {
                while word.get(end) == Some(&b',') {
                    end += 1;
                }
                if end == word.len() {
                    continue;
                }
            } else {
                let message = match calls.last() {
                    None => format!("missing comma after fetch keyword '{}'", self.text),
                    Some(call) => format!("missing comma after conversion keyword '{}'", call.converter.name),
                };
                return Err(ParseError::new(at, message).at(end..word.len()));
            }
            if calls.len() == MAX_CONVERTERS {
                return Err(ParseError::new(at, "too many converters in one expression"));
            }
            let start = end;
            let (call, call_end) = Call::parse(words[at], start, at, self.output, scope)?;
            text.push(',');
            text.push_str(&show(&words[at][start..call_end]));
            self.output = match call.converter.output {
                SampleType::Same => self.output,
                output => output,
            };
            calls.push(call);
            end = call_end;
        }
        self.pure = calls.iter().take_while(|call| call.converter.is_pure(&call.args)).count();
        self.converters = calls.into();
        self.text = text.into();
        Ok((self, at))
    }

    /// Evaluates the expression, and takes the value that the fetch prefers if there are several.
    pub fn evaluate<'c>(&'c self, context: &'c mut dyn Context) -> Fetched<'c> {
        self.next(context, &mut Cursor::single())
    }

    /// Evaluates the expression and casts the result to a string, as headers and logs want it.
    pub fn evaluate_str<'c>(&'c self, context: &'c mut dyn Context) -> Fetched<'c> {
        self.evaluate_as(context, SampleType::Str)
    }

    /// Evaluates the expression and casts the result; a value that cannot be cast is missing.
    pub fn evaluate_as<'c>(&'c self, context: &'c mut dyn Context, target: SampleType) -> Fetched<'c> {
        match self.evaluate(context) {
            Fetched::Sample(Sample { value, flags }) => match value.cast(target) {
                Some(value) => Fetched::Sample(Sample { value, flags }),
                None => Fetched::Missing,
            },
            other => other,
        }
    }

    /// Evaluates the expression for one of several values; see [`Cursor`].
    pub fn next<'c>(&'c self, context: &'c mut dyn Context, cursor: &mut Cursor) -> Fetched<'c> {
        cursor.more = false;
        if self.pure == self.converters.len() {
            return match self.fetch(context, cursor) {
                Fetched::Sample(sample) => apply_pure(&self.converters, sample),
                other => other,
            };
        }
        // The rest asks the context, which the sample must not borrow any more.
        let (pure, rest) = self.converters.split_at(self.pure);
        let mut sample = match self.fetch(&mut *context, cursor) {
            Fetched::Sample(sample) => match apply_pure(pure, sample) {
                Fetched::Sample(sample) => sample.into_owned(),
                other => return other.into_owned(),
            },
            other => return other.into_owned(),
        };
        for call in rest {
            match call.run(sample, &mut *context) {
                Some(next) => sample = next,
                None => return Fetched::Missing,
            }
        }
        Fetched::Sample(sample)
    }

    fn fetch<'c>(&'c self, context: &'c mut dyn Context, cursor: &mut Cursor) -> Fetched<'c> {
        match self.answer {
            Answer::Internal(row) => internal::run(row, context, &self.args, cursor),
            Answer::Context(index) => context.fetch(index, &self.args, cursor),
        }
    }

    /// The declaration of the fetch.
    pub fn decl(&self) -> &'static FetchDecl {
        self.decl
    }

    /// The arguments of the fetch.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The type of the result, as far as it is known before evaluating.
    pub fn output(&self) -> SampleType {
        self.output
    }

    /// Where the fetch may be used.
    pub fn places(&self) -> Places {
        self.decl.valid
    }

    /// True if there are converters.
    pub fn has_converters(&self) -> bool {
        !self.converters.is_empty()
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if the expression is nothing but a constant (`str(...)`, `int(...)`) with pure converters.
    pub fn is_constant(&self) -> bool {
        self.pure == self.converters.len()
            && matches!(self.answer, Answer::Internal(row) if internal::FETCHES[row as usize].constant)
    }

    /// Calls `visit` with every reference to an object of the configuration.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        self.args.visit_references(visit);
        for call in &self.converters {
            call.args.visit_references(visit);
        }
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.text)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Call {
    fn parse(
        word: &[u8],
        start: usize,
        at: usize,
        input: SampleType,
        scope: &Scope<'_>,
    ) -> Result<(Call, usize), ParseError> {
        let name_end = start + name_end(&word[start..]);
        let name = show(&word[start..name_end]);
        let Some(converter) = converters::find(&name) else {
            let error = match converters::is_known(&name) {
                true => ParseError::new(at, format!("converter '{name}' is not implemented yet")),
                false => ParseError::new(at, format!("unknown converter '{name}'"))
                    .suggest(converters::closest(&name)),
            };
            return Err(error.at(start..name_end));
        };
        if !input.casts_to(converter.input) {
            return Err(ParseError::new(at, format!("converter '{name}' cannot be applied"))
                .at(start..name_end)
                .note(format!("it takes {} and gets {}", converter.input.name(), input.name())));
        }
        let fail = |error: ArgError, position: usize| {
            let message = format!("invalid arg {position} in converter '{name}' : {}", error.message);
            ParseError::new(at, message).at(error.span)
        };
        let (raw, end) = match word.get(name_end) {
            Some(b'(') => split_args(word, name_end).map_err(|error| fail(error, 1))?,
            _ => (Vec::new(), name_end),
        };
        let mut args = parse_args(&converter.args, word, &raw, scope).map_err(|error| {
            let position = raw.iter().position(|raw| raw.end >= error.span.start).unwrap_or(raw.len());
            fail(error, position + 1)
        })?;
        if let Some(check) = converter.check {
            check(&mut args, scope).map_err(|message| {
                let message = format!("invalid args in converter '{name}' : {message}");
                ParseError::new(at, message).at(name_end..end)
            })?;
        }
        Ok((Call { converter, args, input: converter.input }, end))
    }

    fn run(&self, sample: Sample<'static>, context: &mut dyn Context) -> Option<Sample<'static>> {
        let Sample { value, flags } = sample;
        let value = value.cast(self.input)?;
        let value: Value<'static> = self.converter.run_with(value, &self.args, context)?;
        Some(Sample { value, flags: flags.with(self.flags()) })
    }

    fn flags(&self) -> Flags {
        Flags::empty()
    }
}

fn apply_pure<'c>(calls: &'c [Call], mut sample: Sample<'c>) -> Fetched<'c> {
    for call in calls {
        let Sample { value, flags } = sample;
        let Some(value) = value.cast(call.input) else { return Fetched::Missing };
        match call.converter.run_pure(value, &call.args) {
            Some(value) => sample = Sample { value, flags },
            None => return Fetched::Missing,
        }
    }
    Fetched::Sample(sample)
}

/// Where the name at the beginning of a word ends.
pub(crate) fn name_end(word: &[u8]) -> usize {
    word.iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || b"-_.+".contains(byte)))
        .unwrap_or(word.len())
}

fn unknown_fetch(name: &str, at: usize, name_end: usize, scope: &Scope<'_>) -> ParseError {
    let error = match crate::fetch::known::is_known(name) {
        true => ParseError::new(at, format!("fetch method '{name}' is not implemented yet")),
        false => ParseError::new(at, format!("unknown fetch method '{name}'"))
            .suggest(scope.registry.closest_fetch(name)),
    };
    error.at(0..name_end)
}
