//! Mail alerts: texts that leave by SMTP for the mail servers of a `mailers` section.
//!
//! ```text
//!                    ┌► queue of a mailer ──► its task: connects, speaks SMTP, next mail ──► … ──► the queue is empty: ends
//!  Mailers::send ────┤
//!                    └► queue of another
//! ```
//! Each mailer gets every mail, one at a time. A mail that cannot be delivered is not tried again: the next change of a server
//! sends another. A queue is bounded; mails that find it full are dropped and counted. No caller waits for a mail.
//!
//! The crate refuses to know servers, checks and proxies: the caller writes a mail's text. Begin with [`Mailers::send`],
//! then `smtp.rs`.

#![forbid(unsafe_code)]

mod mailer;
mod smtp;

pub use mailer::{Mailer, Mailers};
pub use smtp::{DeliveryFailure, Mail};
