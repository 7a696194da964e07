//! Mail alerts: `mailers` sections, and the `email-alert` settings of proxies.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::Location;
use weir_fingerprint::{Canonical, unordered};

use super::address::Host;
use super::log::Severity;
use super::names;

/// A `mailers` section.
#[derive(Clone, Debug, Canonical)]
pub struct Mailers {
    pub name: Arc<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The mail servers. Every mail is sent to each of them.
    #[canonical(with = unordered)]
    pub mailers: Vec<Mailer>,
    /// `timeout mail`: longest delivery of one mail to one mail server.
    pub timeout: Duration,
}

/// The default of `timeout mail` (manual).
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(10);

/// A mail server.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct Mailer {
    pub name: Box<str>,
    pub host: Host,
    pub port: u16,
}

/// The `email-alert` settings of a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct MailAlert {
    /// `email-alert mailers`: the section.
    #[canonical(with = names::mailers)]
    pub mailers: Option<Arc<str>>,
    /// `email-alert from`.
    pub from: Option<Arc<str>>,
    /// `email-alert to`.
    pub to: Option<Arc<str>>,
    /// `email-alert level`: the least urgent messages that are sent; none for `alert`.
    pub level: Option<Severity>,
    /// `email-alert myhostname`; none for the host's own name.
    pub host_name: Option<Arc<str>>,
}

impl MailAlert {
    /// Whether all mandatory settings exist: a section, a sender, and a recipient.
    pub fn is_complete(&self) -> bool {
        self.mailers.is_some() && self.from.is_some() && self.to.is_some()
    }
}
