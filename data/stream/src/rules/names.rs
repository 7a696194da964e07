//! `do-resolve`: a rule resolves a name, and the next rule waits for the address.

use std::net::IpAddr;
use std::time::Duration;

use weir_config::model::DoResolve;
use weir_expr::{Context as _, SetCondition, Value, VariableId};

use super::{ActionResult, Awaited};
use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::{By, During};
use crate::instance::names::{Asked, Asking};
use crate::stream::{Phase, Stream, StreamError};

impl Stream {
    /// Sends the question; the variable is only set when there is an address (manual, "do-resolve").
    #[cold]
    pub(super) fn ask_for_address(&mut self, asks: &DoResolve) -> ActionResult<'static> {
        let Some(name) = self.evaluate_string(&asks.name) else { return ActionResult::Next };
        let Some(names) = self.frontend.instance().names.get() else { return ActionResult::Next };
        match names.ask(&asks.section, &name, asks.prefers_ipv4) {
            Asked::Known(Some(address)) => self.set_address_variable(asks.variable, address),
            Asked::Known(None) => {}
            Asked::Later(asking) => return ActionResult::Await(Awaited::Address(asking, asks.variable)),
        }
        ActionResult::Next
    }

    pub(super) fn set_address_variable(&mut self, variable: VariableId, address: IpAddr) {
        let value = match address {
            IpAddr::V4(address) => Value::Ipv4(address),
            IpAddr::V6(address) => Value::Ipv6(address),
        };
        // A variable without room is not set.
        self.set_variable(variable, value, SetCondition::ALWAYS);
    }

    pub(super) fn await_address(
        &mut self,
        asking: Box<dyn Asking>,
    ) -> impl Future<Output = Phase<Option<IpAddr>>> {
        self.hold_little();
        let limit = Duration::from_millis(asking.limit_ms());
        self.drive(
            While::pause(limit, weir_sched::now()),
            move |stream, _| {
                if stream.client.is_broken() {
                    return Err(StreamError::close(By::Client, During::Request));
                }
                Ok(match asking.poll() {
                    Some(found) => Step::Done(found),
                    None => Step::Wait(Waits::ONCE),
                })
            },
            |_, _, _| Ok(None),
        )
    }
}
