//! Mail alerts, sent by SMTP to the mail servers of a `mailers` section.
//!
//! ```text
//!                    ┌► queue of a mailer ──► its task: connects, speaks SMTP, next mail ──► … ──► the queue is empty: ends
//!  Mailers::send ────┤
//!                    └► queue of another
//! ```
//! Each mailer receives every mail, one at a time. A failed delivery is not retried: the next change of a server sends another
//! mail. Queues are bounded. A mail for a full queue is dropped and counted. No caller waits for a delivery.
//!
//! The crate refuses to know servers, checks and proxies: the caller writes a mail's text. Begin with [`Mailers::send`],
//! then `smtp.rs`.

#![forbid(unsafe_code)]

mod mailer;
mod smtp;

pub use mailer::{Mailer, Mailers};
pub use smtp::{DeliveryFailure, Mail};
