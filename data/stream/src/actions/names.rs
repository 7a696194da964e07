//! `do-resolve`: resolves a name. The next rule runs when the address is known.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_containers::PooledFuture;
use weir_expr::{Context as _, Expr, SetCondition, Value, VariableId};
use weir_fingerprint::{Canonical, FormEncoder, ObjectKind};
use weir_model::{ActionFacts, Visit};

use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::instance::names::{NameLookup, PendingLookup};
use crate::stream::{PhaseResult, Stream, StreamError};

pub(super) const ROWS: &[ActionRow] = &[action(
    "do-resolve",
    "(<var>,<resolvers>[,ipv4|ipv6]) <expr>",
    "(txn.a,dns) str(a.test)",
    "ask name servers for the address of a name",
    sets::CONTENT_REQUESTS,
    |context, words| Ok(DoResolve::read(context, words)?.into_action()),
)];

/// `do-resolve(<var>,<resolvers>[,ipv4|ipv6]) <expr>`.
#[derive(Debug, Canonical)]
struct DoResolve {
    /// The variable that receives the address.
    variable: VariableId,
    /// The `resolvers` section with the name servers.
    #[canonical(with = encode_section)]
    section: Arc<str>,
    /// Whether IPv4 addresses are queried first.
    prefers_ipv4: bool,
    name: Arc<Expr>,
}

impl DoResolve {
    fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        let complain = || {
            let message = format!(
                "Can't parse '{}'. Expects 'do-resolve(<varname>,<resolvers>[,<options>]) <expr>'. Available options are 'ipv4' and 'ipv6'.",
                context.word
            );
            fault(context.word.span(), message)
        };
        let arguments = context.parenthesized().ok_or_else(complain)?;
        let mut parts = arguments.split(',').map(str::trim);
        let (Some(variable), Some(section)) = (parts.next(), parts.next().filter(|name| !name.is_empty()))
        else {
            return Err(complain());
        };
        let prefers_ipv4 = match parts.next() {
            Some("ipv4") => true,
            Some("ipv6") | None => false,
            Some(_) => return Err(complain()),
        };
        if parts.next().is_some() {
            return Err(complain());
        }
        let variable = context.variable(variable)?;
        let name = context.expression(words)?;
        Ok(DoResolve { variable, section: section.into(), prefers_ipv4, name })
    }
}

/// The canonical form contains only the section's name.
fn encode_section(section: &str, out: &mut FormEncoder<'_>) {
    out.named(ObjectKind::Resolvers, section);
}

impl StreamAction for DoResolve {
    /// Sends the query. The variable is set only if an address is found (manual, "do-resolve").
    #[cold]
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let Some(name) = stream.evaluate_string(&self.name) else { return ActionResult::NEXT };
        let Some(names) = &stream.frontend.instance().hooks.names else { return ActionResult::NEXT };
        match names.look_up(&self.section, &name, self.prefers_ipv4) {
            NameLookup::Known(Some(address)) => set_address(stream, self.variable, address),
            NameLookup::Known(None) => {}
            NameLookup::Later(pending) => {
                return ActionResult::Await(PooledFuture::new(async move {
                    if let Some(address) = await_address(stream, pending).await? {
                        set_address(stream, self.variable, address);
                    }
                    Ok(Verdict::Next)
                }));
            }
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.name.visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { resolvers: Some(&self.section), ..ActionFacts::NONE }
    }
}

fn set_address(stream: &mut Stream, variable: VariableId, address: IpAddr) {
    let value = match address {
        IpAddr::V4(address) => Value::Ipv4(address),
        IpAddr::V6(address) => Value::Ipv6(address),
    };
    // At the memory limit the variable is not set.
    stream.set_variable(variable, value, SetCondition::ALWAYS);
}

fn await_address(
    stream: &mut Stream,
    pending: Box<dyn PendingLookup>,
) -> impl Future<Output = PhaseResult<Option<IpAddr>>> {
    stream.hold_little();
    let limit = Duration::from_millis(pending.limit_ms());
    stream.drive(
        While::pause(limit, weir_sched::now()),
        move |stream, _| {
            if stream.client.is_broken() {
                return Err(StreamError::close(By::Client, During::Request));
            }
            Ok(match pending.poll() {
                Some(found) => DriveStep::Done(found),
                None => DriveStep::Wait(Waits::ONCE),
            })
        },
        |_, _, _| Ok(None),
    )
}
