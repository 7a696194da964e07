//! FastCGI applications: `fcgi-app` sections (manual, section 10).
//!
//! A backend uses at most one application. Servers with [`Protocol::Fcgi`](crate::Protocol::Fcgi) receive requests as FastCGI records.
//! Conditions and formats are evaluated at the point of the backend's `http-request` rules, also for requests to other servers.

use std::sync::Arc;

use weir_expr::pattern::regex::Regex;
use weir_expr::{Condition, EvaluationPoint, EvaluationPoints, Location, LogFormat};
use weir_fingerprint::Canonical;

use super::log::LogTargets;
use super::visit::Visit;

/// A `fcgi-app` section (manual, 10.1.1).
#[derive(Clone, Debug, Canonical)]
pub struct FcgiApplication {
    pub name: Box<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `docroot`: the folder of the scripts on the host of the application. Not empty in a configuration without alerts.
    pub docroot: Box<str>,
    /// `index`: the script of paths that end with a slash.
    pub index: Option<Box<str>>,
    /// `path-info`: divides a decoded path into the script's name (group 1) and the path info (group 2, optional).
    pub path_info: Option<Arc<Regex>>,
    /// `pass-header`, in order.
    pub pass_headers: Vec<PassHeader>,
    /// `set-param`, in order. A later line overwrites the value of an earlier one.
    pub parameters: Vec<SetParameter>,
    /// `log-stderr`. Empty if the error output of the application is ignored.
    pub log_targets: LogTargets,
    /// `option get-values`: a connection begins with a query of the limits of the application.
    pub get_values: bool,
    /// `option keep-conn`, on by default: the application keeps the connection open after a response.
    pub keeps_connections: bool,
    /// `option max-reqs`: the concurrent requests of one connection, at least 1. Applies only if connections are multiplexed.
    pub max_requests: u32,
    /// `option mpxs-conns`: a connection carries several requests at once.
    pub multiplexes: bool,
}

/// `pass-header`: a request header that becomes a parameter, although it is left out by default.
#[derive(Clone, Debug, Canonical)]
pub struct PassHeader {
    /// The name in lower case.
    pub name: Box<[u8]>,
    /// None for always.
    pub condition: Option<Condition>,
}

/// `set-param`: a parameter of requests.
#[derive(Clone, Debug, Canonical)]
pub struct SetParameter {
    pub name: Box<str>,
    /// The value. An empty value changes nothing.
    pub value: Arc<LogFormat>,
    /// None for always.
    pub condition: Option<Condition>,
}

impl FcgiApplication {
    /// Where conditions and formats of an application are evaluated.
    pub const POINTS: EvaluationPoints = EvaluationPoints::only(EvaluationPoint::BackendRequestHeader);

    /// A section without lines.
    pub fn new(name: &str, at: Location) -> Self {
        FcgiApplication {
            name: name.into(),
            at,
            docroot: "".into(),
            index: None,
            path_info: None,
            pass_headers: Vec::new(),
            parameters: Vec::new(),
            log_targets: LogTargets::default(),
            get_values: false,
            keeps_connections: true,
            max_requests: 1,
            multiplexes: false,
        }
    }

    /// The conditions of all lines.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let headers = self.pass_headers.iter().filter_map(|line| line.condition.as_ref());
        headers.chain(self.parameters.iter().filter_map(|line| line.condition.as_ref()))
    }

    /// Visits the references in values and conditions, including the ACLs that conditions name.
    pub fn visit_references(&self, visit: Visit<'_>) {
        self.parameters.iter().for_each(|line| line.value.visit_references(visit));
        self.conditions().for_each(|condition| condition.visit_all_references(visit));
    }
}
