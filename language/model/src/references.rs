//! Every reference from an expression to an object of the configuration, to be resolved when all objects are known.

use weir_expr::{ArgKind, Condition, ScriptName};

use super::action::{Action, Redirect};
use super::balance::{BackendTarget, BalanceArgument, ServerTarget};
use super::check_script::{
    CheckAction, CheckMethod, CheckPort, CheckRule, CheckScripts, CheckText, Expect, Expected, HttpRequest,
    TextMatch,
};
use super::log::LogLine;
use super::proxy::{Proxy, Settings};
use super::reply::{ErrorReply, Reply, ReplyContent};
use super::rules::{Rule, RulesetKind, Rulesets};
use super::server::ServerSettings;
use super::table::StickKind;
use super::visit::Visit;

/// The lists of users in a proxy's expressions, by the time of evaluation. Verifying a password may be costly. An expression that cannot
/// wait is evaluated after the verification. Conditions of rules can wait, and are not included. Lists are named by their position
/// in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedUserlists {
    /// Used by formats that are evaluated at any time: log lines, error pages, unique IDs, `monitor fail`.
    pub always: Box<[u32]>,
    /// Used outside of rules: `always`, the choice of the backend and the server, redirects, the statistics page, stick rules,
    /// the FastCGI application.
    pub outside_of_rules: Box<[u32]>,
    /// Whether an action of a rule uses a list of users: see [`Action::used_userlists`].
    pub in_actions: bool,
}

/// The functions of scripts that a proxy's expressions call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptedExpressions {
    /// The rulesets with such actions: the functions of the action of each rule. Conditions are evaluated in steps that can wait.
    actions: Box<[(RulesetKind, Box<[ScriptNumbers]>)]>,
    /// Those of redirects and of the choice of the backend.
    pub in_routing: ScriptNumbers,
    /// Those of the choice of a server: `use-server`, `stick match` and `stick store-request`, `force-persist` and `ignore-persist`,
    /// `balance hash`.
    pub in_assignment: ScriptNumbers,
    /// Those of `stick store-response`.
    pub in_storing: ScriptNumbers,
}

/// The names of functions, each once.
type ScriptNumbers = Box<[ScriptName]>;

impl ScriptedExpressions {
    /// The functions that the action of a rule calls.
    #[inline]
    pub fn in_action(&self, kind: RulesetKind, position: u32) -> &[ScriptName] {
        let rules = self.actions.iter().find(|(other, _)| *other == kind);
        rules.and_then(|(_, rules)| rules.get(position as usize)).map_or(&[], |functions| functions)
    }
}

impl Proxy {
    /// The expressions that call functions of scripts.
    pub fn scripted_expressions(&self) -> ScriptedExpressions {
        let scripted = |kind: &RulesetKind| {
            let functions = |rule: &Rule| scripts(|visit| rule.action.visit_references(visit));
            let rules: Box<[ScriptNumbers]> = self.rules(*kind).map(functions).collect();
            rules.iter().any(|functions| !functions.is_empty()).then_some((*kind, rules))
        };
        let in_routing = scripts(|visit| {
            let backends = self.use_backend.iter();
            for rule in backends {
                if let BackendTarget::Dynamic(format) = &rule.target {
                    format.visit_references(visit);
                }
                rule.condition.iter().for_each(|condition| condition.visit_all_references(visit));
            }
            for rule in &self.redirects {
                rule.redirect.visit_references(visit);
                rule.condition.iter().for_each(|condition| condition.visit_all_references(visit));
            }
            self.force_switch.iter().for_each(|condition| condition.visit_all_references(visit));
        });
        ScriptedExpressions {
            actions: RulesetKind::ALL.iter().filter_map(scripted).collect(),
            in_routing,
            in_assignment: scripts(|visit| self.visit_references_of_assignment(visit)),
            in_storing: scripts(|visit| self.visit_references_of_sticking(visit, true)),
        }
    }

    /// Visits the references in the choice of a server.
    fn visit_references_of_assignment(&self, visit: Visit<'_>) {
        for rule in &self.use_server {
            if let ServerTarget::Dynamic(format) = &rule.target {
                format.visit_references(visit);
            }
            rule.condition.iter().for_each(|condition| condition.visit_all_references(visit));
        }
        self.persist_rules.iter().for_each(|rule| rule.condition.visit_all_references(visit));
        self.visit_references_of_sticking(visit, false);
        if let BalanceArgument::Expression(expression) = &self.settings.balance.argument {
            expression.visit_references(visit);
        }
    }

    /// Visits the references in the stick rules for responses, or in those for requests.
    fn visit_references_of_sticking(&self, visit: Visit<'_>, in_response: bool) {
        let rules = self.stick_rules.iter();
        for rule in rules.filter(|rule| (rule.kind == StickKind::StoreResponse) == in_response) {
            rule.key.visit_references(visit);
            rule.condition.iter().for_each(|condition| condition.visit_all_references(visit));
        }
    }

    /// The lists of users in the proxy's expressions.
    pub fn used_userlists(&self) -> UsedUserlists {
        let always = userlists(|visit| {
            self.settings.visit_references_of_messages(visit);
            self.monitor_fail.iter().for_each(|condition| condition.visit_all_references(visit));
        });
        let outside_of_rules = userlists(|visit| {
            self.visit_references_outside_of_rules(visit);
            self.settings.visit_references(visit);
            let conditions = self.conditions_outside_of_rules().chain(self.settings.conditions());
            conditions.for_each(|condition| condition.visit_all_references(visit));
            self.settings.application.iter().for_each(|application| application.visit_references(visit));
        });
        let mut rules = RulesetKind::ALL.iter().flat_map(|kind| self.rules(*kind));
        let in_actions = rules.any(|rule| !rule.action.used_userlists().is_empty());
        UsedUserlists { always, outside_of_rules, in_actions }
    }

    /// Visits the references of parts that belong to this proxy alone; see [`Settings::visit_references`] for
    /// shared ones.
    pub fn visit_references(&self, visit: Visit<'_>) {
        self.rules.visit_references(visit);
        self.visit_references_outside_of_rules(visit);
        self.conditions_outside_of_rules().for_each(|condition| condition.visit_references(visit));
    }

    /// Leaves out conditions, which are visited separately.
    fn visit_references_outside_of_rules(&self, visit: Visit<'_>) {
        for rule in &self.use_backend {
            if let BackendTarget::Dynamic(format) = &rule.target {
                format.visit_references(visit);
            }
        }
        self.redirects.iter().for_each(|rule| rule.redirect.visit_references(visit));
        for rule in &self.use_server {
            if let ServerTarget::Dynamic(format) = &rule.target {
                format.visit_references(visit);
            }
        }
        for rule in &self.stick_rules {
            rule.key.visit_references(visit);
            visit(&rule.table);
        }
        self.filters.iter().for_each(|filter| filter.visit_references(visit));
        self.servers.iter().for_each(|server| server.settings.visit_references(visit));
    }

    fn conditions_outside_of_rules(&self) -> impl Iterator<Item = &Condition> {
        let rules = self.use_backend.iter().filter_map(|rule| rule.condition.as_ref());
        rules
            .chain(self.redirects.iter().filter_map(|rule| rule.condition.as_ref()))
            .chain(&self.monitor_fail)
            .chain(self.use_server.iter().filter_map(|rule| rule.condition.as_ref()))
            .chain(&self.force_switch)
            .chain(self.stick_rules.iter().filter_map(|rule| rule.condition.as_ref()))
            .chain(self.persist_rules.iter().map(|rule| &rule.condition))
    }
}

impl Settings {
    /// Visits the references of settings from a `defaults` section, which proxies share.
    pub fn visit_references(&self, visit: Visit<'_>) {
        self.visit_references_of_messages(visit);
        if let BalanceArgument::Expression(expression) = &self.balance.argument {
            expression.visit_references(visit);
        }
        if let Some(forwarded) = &self.options.forwarded {
            forwarded.expressions().for_each(|expression| expression.visit_references(visit));
        }
        self.default_server.visit_references(visit);
        self.checks.visit_references(visit);
        self.conditions().for_each(|condition| condition.visit_references(visit));
    }

    /// Visits the references of log lines, unique IDs and error pages.
    fn visit_references_of_messages(&self, visit: Visit<'_>) {
        if let LogLine::Format { format, .. } = &self.logging.line {
            format.visit_references(visit);
        }
        let formats = [&self.logging.error_line, &self.logging.structured_data, &self.unique_id_format];
        formats.into_iter().flatten().for_each(|format| format.visit_references(visit));
        for (_, reply) in self.errors.iter() {
            if let ErrorReply::Reply(reply) = reply {
                reply.visit_references(visit);
            }
        }
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.stats.iter().flat_map(|stats| {
            let admin = stats.admin.iter().map(|rule| &rule.condition);
            admin.chain(stats.http_request.iter().filter_map(|rule| rule.condition.as_ref()))
        })
    }
}

/// The functions of scripts among the references that `visits` visits, each once.
fn scripts(visits: impl FnOnce(Visit<'_>)) -> ScriptNumbers {
    targets(ArgKind::Script, visits).into_iter().map(ScriptName).collect()
}

/// The lists of users among the references that `visits` visits, each once.
fn userlists(visits: impl FnOnce(Visit<'_>)) -> Box<[u32]> {
    targets(ArgKind::UserList, visits).into()
}

/// The objects of one kind among the references that `visits` visits, each once.
fn targets(kind: ArgKind, visits: impl FnOnce(Visit<'_>)) -> Vec<u32> {
    let mut targets = Vec::new();
    visits(&mut |reference| {
        if reference.kind == kind {
            targets.extend(reference.target().map(|(target, _)| target));
        }
    });
    targets.sort_unstable();
    targets.dedup();
    targets
}

impl ServerSettings {
    fn visit_references(&self, visit: Visit<'_>) {
        if let Some(expression) = &self.pool_connection_name {
            expression.visit_references(visit);
        }
        if let Some(expression) = self.tls.as_ref().and_then(|tls| tls.server_name.as_ref()) {
            expression.visit_references(visit);
        }
        if let Some(header) = &self.proxy_v2 {
            header.tlvs.iter().for_each(|(_, format)| format.visit_references(visit));
        }
    }
}

impl CheckScripts {
    /// Visits the references of all rules, also references of methods that are not used.
    pub fn visit_references(&self, visit: Visit<'_>) {
        let own: &[CheckRule] = match &self.method {
            CheckMethod::Own(rules) => rules,
            _ => &[],
        };
        if let CheckMethod::Http(request) = &self.method {
            request.visit_references(visit);
        }
        let rules = self.http.rules.iter().chain(self.tcp.rules.iter()).chain(own);
        rules.for_each(|rule| rule.action.visit_references(visit));
    }
}

impl CheckAction {
    fn visit_references(&self, visit: Visit<'_>) {
        match self {
            CheckAction::Connect(connect) => {
                if let Some(CheckPort::Expression(port)) = &connect.port {
                    port.visit_references(visit);
                }
            }
            CheckAction::SendFormat(format) | CheckAction::SendHexFormat(format) => {
                format.visit_references(visit);
            }
            CheckAction::SendHttp(request) => request.visit_references(visit),
            CheckAction::Expect(expect) => expect.visit_references(visit),
            CheckAction::SetVariable { value, .. } => value.visit_references(visit),
            CheckAction::SetVariableFormat { value, .. } => value.visit_references(visit),
            CheckAction::Send(_) | CheckAction::UnsetVariable(_) => {}
        }
    }
}

impl HttpRequest {
    fn visit_references(&self, visit: Visit<'_>) {
        [&self.uri, &self.body].into_iter().flatten().for_each(|text| text.visit_references(visit));
        self.headers.iter().for_each(|(_, value)| value.visit_references(visit));
    }
}

impl Expect {
    fn visit_references(&self, visit: Visit<'_>) {
        if let Expected::TextFormat(format) | Expected::HexFormat(format) = &self.what {
            format.visit_references(visit);
        }
        if let Expected::Header(header) = &self.what {
            header.name.visit_references(visit);
            header.value.iter().for_each(|value| value.visit_references(visit));
        }
        for format in [&self.on_success, &self.on_error].into_iter().flatten() {
            format.visit_references(visit);
        }
        if let Some(code) = &self.status_code {
            code.visit_references(visit);
        }
    }
}

impl TextMatch {
    fn visit_references(&self, visit: Visit<'_>) {
        match self {
            TextMatch::Equal(text)
            | TextMatch::Begin(text)
            | TextMatch::End(text)
            | TextMatch::Inside(text) => {
                text.visit_references(visit);
            }
            TextMatch::Regex(_) => {}
        }
    }
}

impl CheckText {
    fn visit_references(&self, visit: Visit<'_>) {
        if let CheckText::Format(format) = self {
            format.visit_references(visit);
        }
    }
}

impl Rulesets {
    /// Visits the references of all rules.
    pub fn visit_references(&self, visit: Visit<'_>) {
        for kind in RulesetKind::ALL {
            self.get(kind).iter().for_each(|rule| rule.visit_references(visit));
        }
    }
}

impl Rule {
    fn visit_references(&self, visit: Visit<'_>) {
        self.action.visit_references(visit);
        if let Some(condition) = &self.condition {
            condition.visit_references(visit);
        }
    }
}

impl Reply {
    /// Visits the references in the formats.
    pub fn visit_references(&self, visit: Visit<'_>) {
        if let ReplyContent::Format(format) = &self.content {
            format.visit_references(visit);
        }
        self.headers.iter().for_each(|header| header.value.visit_references(visit));
    }
}

impl Redirect {
    /// Visits the references in the formats.
    pub fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
        self.cookie.iter().for_each(|cookie| cookie.format.visit_references(visit));
    }
}

impl Action {
    /// The lists of users in the action's expressions.
    pub fn used_userlists(&self) -> Box<[u32]> {
        userlists(|visit| self.visit_references(visit))
    }
}
