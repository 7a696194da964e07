//! What checks ask of the process, and what they tell it.

use weir_backend::News;
use weir_checks::ProcessView;
use weir_expr::{FetchIndex, Lookup, ProcessFacts, SetCondition, TimeZone, Value, VariableId};

use super::{Live, notices};

impl ProcessView for Live {
    fn news(&self, news: News) {
        notices::tell(*self, &news);
    }

    fn buffer_size(&self) -> usize {
        self.instance.limits.buffer_size
    }

    fn node(&self) -> &str {
        &self.instance.identity.node
    }

    fn fetch_name(&self, fetch: FetchIndex) -> Option<&'static str> {
        weir_stream::fetch::FETCHES.get(usize::from(fetch.0)).map(|row| row.decl.name)
    }

    fn facts(&self) -> ProcessFacts<'_> {
        self.instance.facts()
    }

    fn time_zone(&self) -> &TimeZone {
        &self.instance.identity.time_zone
    }

    fn lookup(&self, lookup: Lookup, name: &[u8]) -> Option<Value<'static>> {
        // Names without a backend are nowhere: a check is of no frontend.
        let proxy = self.instance.proxies.first()?;
        self.instance.lookup(proxy, lookup, name)
    }

    fn variable(&self, variable: VariableId) -> Option<Value<'static>> {
        self.instance.variables().get(variable).map(Value::into_owned)
    }

    fn set_variable(&self, variable: VariableId, value: Value<'static>, condition: SetCondition) -> bool {
        self.instance.variables_mut().set(variable, value, condition)
    }

    fn unset_variable(&self, variable: VariableId) -> bool {
        self.instance.variables_mut().unset(variable)
    }
}
