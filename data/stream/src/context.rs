//! The implementation of the expression language's context for streams.

mod variables;
mod view;

use std::borrow::Cow;

use weir_expr::context::CaptureSide;
use weir_expr::scratch::Scratch;
use weir_expr::table::TableLookup;
use weir_expr::{
    Alias, Args, Condition, Context, Expr, FetchCursor, FetchIndex, FetchResult, LogFormat, LogWriter,
    ObjectLookup, ProcessFacts, SampleType, ScriptName, SetCondition, TimeZone, Value, VariableId,
    VariableScope, WallTime,
};
use weir_model::Rule;

use weir_vocabulary::fetch::FETCHES;
use weir_vocabulary::tracked;

use crate::actions::{script_converter, script_fetch};
use crate::stream::Stream;
use crate::stream::password_verdicts::PasswordVerdicts;
use crate::stream::stream_variables::lasts;

impl Context for Stream {
    fn fetch<'c>(
        &'c mut self,
        fetch: FetchIndex,
        args: &'c Args,
        cursor: &mut FetchCursor,
    ) -> FetchResult<'c> {
        match FETCHES.get(usize::from(fetch.0)) {
            Some(row) => (row.run)(self, args, cursor),
            None => FetchResult::Missing,
        }
    }

    fn script_fetch(&mut self, name: ScriptName, args: &Args) -> FetchResult<'static> {
        script_fetch(self, name, args)
    }

    fn script_converter(
        &mut self,
        name: ScriptName,
        value: Value<'static>,
        args: &Args,
    ) -> Option<Value<'static>> {
        script_converter(self, name, value, args)
    }

    fn is_suspended(&self) -> bool {
        self.rules.may_suspend
            && (self.rules.awaits_scripts
                || self.captures.passwords().is_some_and(PasswordVerdicts::is_pending))
    }

    fn variable(&mut self, variable: VariableId) -> Option<Value<'_>> {
        match variable.scope {
            VariableScope::Process => {
                self.frontend.instance().variables().get(variable).map(Value::into_owned)
            }
            VariableScope::Session => self.session.variable(variable),
            scope if lasts(scope, self.rules.processed) => self.variables.of(scope)?.get(variable),
            _ => crate::stream::engines::parent(self)?.variable(variable),
        }
    }

    fn set_variable(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool {
        match variable.scope {
            VariableScope::Process | VariableScope::Session => {}
            scope if lasts(scope, self.rules.processed) => {}
            _ => return false,
        }
        self.store_variable(variable, value, condition)
    }

    fn unset_variable(&mut self, variable: VariableId) -> bool {
        let unset = match variable.scope {
            VariableScope::Process => self.frontend.instance().variables_mut().unset(variable),
            VariableScope::Session => self.session.unset_variable(variable),
            scope if lasts(scope, self.rules.processed) => {
                self.variables.of(scope).is_some_and(|store| store.unset(variable))
            }
            _ => false,
        };
        self.charge_variables();
        unset
    }

    fn now(&self) -> WallTime {
        weir_sched::wall_time()
    }

    fn time_zone(&self) -> &TimeZone {
        &self.frontend.instance().identity.time_zone
    }

    fn random(&mut self) -> u64 {
        weir_sched::random()
    }

    fn process(&self) -> ProcessFacts<'_> {
        self.frontend.instance().facts()
    }

    fn lookup(&mut self, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>> {
        self.frontend.instance().lookup(&self.backend, lookup, name)
    }

    fn table(&mut self, lookup: TableLookup<'_>) -> Option<i64> {
        let table = self.tracking().table_named(lookup.table)?;
        tracked::query_table(table, lookup.key, lookup.question, lookup.default)
    }

    fn capture(&mut self, side: CaptureSide, slot: usize, value: &[u8]) -> bool {
        self.log_line().store_capture(side, slot, value)
    }

    fn log_alias(&mut self, alias: Alias, out: &mut LogWriter<'_>) {
        crate::log::alias(self, alias, out);
    }
}

impl Stream {
    /// Whether a condition is true with the data available now.
    pub(crate) fn holds(&mut self, condition: &Condition) -> bool {
        condition.evaluate(self).is_true()
    }

    /// Whether a rule applies with the data available now.
    pub(crate) fn rule_applies(&mut self, rule: &Rule) -> weir_expr::Truth {
        rule.condition.as_ref().map_or(weir_expr::Truth::True, |condition| condition.evaluate(self))
    }

    /// Evaluates a log format.
    pub(crate) fn format(&mut self, format: &LogFormat) -> Scratch {
        let mut out = Scratch::take();
        format.render(self, &mut out);
        out
    }

    /// An expression's value as a string. `None` if the value is missing or cannot become a string.
    pub(crate) fn evaluate_string(&mut self, expression: &Expr) -> Option<Scratch> {
        let sample = expression.evaluate_str(self).sample()?;
        match sample.value {
            Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes) => Some(match bytes {
                Cow::Owned(bytes) => Scratch::from(bytes),
                Cow::Borrowed(bytes) => Scratch::copied(bytes),
            }),
            _ => None,
        }
    }

    /// An expression's value as a number. `None` if it cannot be converted.
    pub(crate) fn evaluate_number(&mut self, expression: &Expr) -> Option<i64> {
        match expression.evaluate_as(self, SampleType::Int).sample()?.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }
}
