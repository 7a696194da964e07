//! Words about forwarding. weir has a single method, so each line is checked, then ignored with a warning.

use weir_syntax::Diagnostic;

use super::context::GlobalReader;
use super::tls_defaults::MAX;
use crate::rows::Row;
use crate::words::Words;

/// Bodies without changes are forwarded from socket to socket. No word selects another method.
const ONE_WAY_OF_FORWARDING: &str =
    "accepted for compatibility, no effect: there is only one way of forwarding";

const fn forwarding_switch(name: &'static str) -> Row<GlobalReader> {
    Row::ready(name, "{ on | off }", "on", ONE_WAY_OF_FORWARDING, |l, w| {
        l.switch(w)?;
        warn_no_effect(w, "there is only one way of forwarding");
        Ok(())
    })
}

fn warn_no_effect(words: &Words<'_>, why: &str) {
    let message = format!("'{}' is without effect: {why}. Remove the line.", words.line().keyword().text());
    words.line().remark(Diagnostic::warning(words.line().span(), message));
}

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready("tune.disable-fast-forward", "", "", ONE_WAY_OF_FORWARDING, |l, w| {
        l.experimental(w)?;
        l.flag(w)?;
        warn_no_effect(w, "there is only one way of forwarding");
        Ok(())
    }),
    Row::ready(
        "tune.idletimer",
        "<timeout>",
        "1s",
        "accepted for compatibility, no effect: small data is never held back",
        |l, w| {
            l.delay(w)?;
            warn_no_effect(w, "small data is never held back");
            Ok(())
        },
    ),
    Row::ready(
        "tune.recv_enough",
        "<size>",
        "10136",
        "accepted for compatibility, no effect: the kernel reports the end of the data to receive",
        |l, w| {
            l.size(w, 0..=MAX.into())?;
            warn_no_effect(w, "the kernel reports the end of the data to receive");
            Ok(())
        },
    ),
    forwarding_switch("tune.applet.zero-copy-forwarding"),
    forwarding_switch("tune.h1.zero-copy-fwd-recv"),
    forwarding_switch("tune.h1.zero-copy-fwd-send"),
    forwarding_switch("tune.pt.zero-copy-forwarding"),
];
