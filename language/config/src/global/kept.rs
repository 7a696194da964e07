//! Settings that are interpreted where they are used: TLS defaults, HTTP/2 tuning. Some have no effect yet, but most
//! configurations contain them.
//!
//! Without a TLS listener or an HTTP/2 connection they have nothing to act on, so accepting them is harmless, and refusing
//! them would refuse a configuration for no reason. `control/runtime` reads those about TLS if TLS is used, refuses those
//! that have no effect yet, and derives the limits of HTTP/2 connections from the others. They are checked like all others,
//! and kept as [`Kept`].

use weir_syntax::{Diagnostic, Word};

use super::context::{GlobalContext, GlobalReader};
use crate::model::Kept;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Fault, Parsed, Words, fault};

impl GlobalContext<'_> {
    /// Checks the arguments with `check`, and keeps them.
    fn keep(&mut self, words: &mut Words<'_>, check: impl FnOnce(&Self, &mut Words<'_>) -> Parsed) -> Parsed {
        let first = words.position();
        check(self, words)?;
        let arguments = words.line().words().iter().skip(first).map(|word| word.text().into()).collect();
        self.global.kept.push(Kept { keyword: self.keyword, arguments, at: self.at.clone() });
        Ok(())
    }

    fn keep_number(&mut self, words: &mut Words<'_>, low: i64, high: i64) -> Parsed {
        self.keep(words, |line, words| line.number(words, low..=high).map(drop))
    }

    fn keep_size(&mut self, words: &mut Words<'_>) -> Parsed {
        self.keep(words, |line, words| line.size(words, 0..=MAX as u64).map(drop))
    }

    fn keep_switch(&mut self, words: &mut Words<'_>) -> Parsed {
        self.keep(words, |line, words| line.switch(words).map(drop))
    }

    fn keep_flag(&mut self, words: &mut Words<'_>) -> Parsed {
        self.keep(words, |line, words| line.flag(words).map(drop))
    }

    fn keep_word(&mut self, words: &mut Words<'_>, expected: &str) -> Parsed {
        self.keep(words, |line, words| line.word(words, expected).map(drop))
    }

    /// A folder for all lines, given once.
    fn keep_base(&mut self, words: &mut Words<'_>) -> Parsed {
        if self.global.kept.iter().any(|kept| kept.keyword == self.keyword) {
            return Err(fault(words.line().span(), format!("'{}' already specified.", self.keyword)));
        }
        self.keep_word(words, FOLDER)
    }

    /// One word or more.
    fn keep_words(&mut self, words: &mut Words<'_>, expected: &str) -> Parsed {
        self.keep(words, |line, words| {
            words.expect(&format!("'{}' expects {expected}.", line.keyword))?;
            while words.take().is_some() {}
            Ok(())
        })
    }

    fn keep_choice(&mut self, words: &mut Words<'_>, choices: &[&'static str]) -> Parsed {
        self.keep(words, |line, words| line.choice(words, choices).map(drop))
    }

    /// One or more of `options`; those that end in `=` take the next word.
    fn keep_options(&mut self, words: &mut Words<'_>, options: &[&str]) -> Parsed {
        self.keep(words, |line, words| {
            let keyword = line.keyword;
            if words.at_end() {
                return Err(words.fault(lacks_option(keyword)));
            }
            while let Some(word) = words.take() {
                let takes_value = VALUED_OPTIONS.contains(&word.text());
                if !options.contains(&word.text()) && !takes_value {
                    return Err(unknown_option(word, keyword, options));
                }
                if takes_value {
                    let value = words.peek_text();
                    if !TLS_VERSIONS.contains(&value) {
                        return Err(words.fault(format!("'{word}' : unknown TLS version '{value}'")));
                    }
                    words.take();
                }
            }
            Ok(())
        })
    }

    /// `ssl-load-extra-files`: kinds of files, or one word for none or all of them.
    fn keep_extra_files(&mut self, words: &mut Words<'_>) -> Parsed {
        self.keep(words, |line, words| {
            let keyword = line.keyword;
            let (mut count, mut alone) = (0, None);
            while let Some(word) = words.take() {
                if !EXTRA_FILES.contains(&word.text()) {
                    return Err(unknown_option(word, keyword, &EXTRA_FILES));
                }
                count += 1;
                alone = alone.or(Some(word).filter(|word| matches!(word.text(), "none" | "all")));
            }
            match (count, alone) {
                (0, _) => Err(words.fault(lacks_option(keyword))),
                (2.., Some(word)) => Err(fault(word.span(), format!("'{keyword}' : '{word}' stands alone."))),
                _ => Ok(()),
            }
        })
    }
}

fn lacks_option(keyword: &str) -> String {
    format!("global statement '{keyword}' expects an option as an argument.")
}

fn unknown_option(word: &Word, keyword: &str, options: &[&str]) -> Fault {
    let mut fault = fault(word.span(), format!("unknown option '{word}' on global statement '{keyword}'."));
    fault.suggestion = weir_syntax::did_you_mean(word.text(), options.iter().copied()).map(str::to_owned);
    fault
}

pub(super) const MAX: i64 = i32::MAX as i64;

const VALUED_OPTIONS: [&str; 2] = ["ssl-min-ver", "ssl-max-ver"];

const TLS_VERSIONS: [&str; 5] = ["SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

const BIND_OPTIONS: [&str; 16] = [
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "no-alpn",
    "no-renegotiate",
    "no-sslv3",
    "no-strict-sni",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "prefer-client-ciphers",
    "strict-sni",
];

const SERVER_OPTIONS: [&str; 12] = [
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "no-renegotiate",
    "no-sslv3",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
];

const EXTRA_FILES: [&str; 7] = ["all", "bundle", "issuer", "key", "none", "ocsp", "sctl"];

const CIPHERS: &str = "a cipher suite as an argument";
const SUITES: &str = "cipher suites as an argument";
const CURVES: &str = "curves as an argument";
const ALGORITHMS: &str = "signature algorithms as an argument";
/// Bodies that need no change go from socket to socket, and nothing can be chosen about that.
const ONE_WAY_OF_FORWARDING: &str =
    "accepted for compatibility, no effect: there is only one way of forwarding";

const fn forwarding_switch(name: &'static str) -> Row<GlobalReader> {
    Row::ready(name, "{ on | off }", "on", ONE_WAY_OF_FORWARDING, |l, w| {
        l.keep_switch(w)?;
        warn_no_effect(w, "there is only one way of forwarding");
        Ok(())
    })
}

fn warn_no_effect(words: &Words<'_>, why: &str) {
    let message = format!("'{}' is without effect: {why}. Remove the line.", words.line().keyword().text());
    words.line().remark(Diagnostic::warning(words.line().span(), message));
}

const FOLDER: &str = "a directory path as an argument";

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready("ca-base", "<dir>", "/etc/ssl/certs", "TLS: folder of authorities", |l, w| l.keep_base(w)),
    Row::ready("crt-base", "<dir>", "/etc/ssl/private", "TLS: folder of certificates", |l, w| l.keep_base(w)),
    Row::ready("key-base", "<dir>", "/etc/ssl/private", "TLS: folder of keys", |l, w| l.keep_base(w)),
    Row::ready(
        "ssl-default-bind-ciphers",
        "<ciphers>",
        "HIGH",
        "TLS: ciphers up to 1.2 of listeners",
        |l, w| l.keep_word(w, CIPHERS),
    ),
    Row::ready(
        "ssl-default-bind-ciphersuites",
        "<ciphersuites>",
        "TLS_AES_128_GCM_SHA256",
        "TLS: ciphers of 1.3 of listeners",
        |l, w| l.keep_word(w, SUITES),
    ),
    Row::ready(
        "ssl-default-bind-client-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: signatures of clients",
        |l, w| l.keep_word(w, ALGORITHMS),
    ),
    Row::ready("ssl-default-bind-curves", "<curves>", "X25519:P-256", "TLS: curves of listeners", |l, w| {
        l.keep_word(w, CURVES)
    }),
    Row::<GlobalReader>::ready(
        "ssl-default-bind-options",
        "[<option>]...",
        "ssl-min-ver TLSv1.2",
        "TLS: options of listeners",
        |l, w| l.keep_options(w, &BIND_OPTIONS),
    )
    .default(Described("TLS 1.2 and 1.3, with tickets")),
    Row::ready(
        "ssl-default-bind-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: signatures of listeners",
        |l, w| l.keep_word(w, ALGORITHMS),
    ),
    Row::ready(
        "ssl-default-server-ciphers",
        "<ciphers>",
        "HIGH",
        "TLS: ciphers up to 1.2 towards servers",
        |l, w| l.keep_word(w, CIPHERS),
    ),
    Row::ready(
        "ssl-default-server-ciphersuites",
        "<ciphersuites>",
        "TLS_AES_128_GCM_SHA256",
        "TLS: ciphers of 1.3 towards servers",
        |l, w| l.keep_word(w, SUITES),
    ),
    Row::ready(
        "ssl-default-server-client-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: our signatures towards servers",
        |l, w| l.keep_word(w, ALGORITHMS),
    ),
    Row::ready(
        "ssl-default-server-curves",
        "<curves>",
        "X25519:P-256",
        "TLS: curves towards servers",
        |l, w| l.keep_word(w, CURVES),
    ),
    Row::<GlobalReader>::ready(
        "ssl-default-server-options",
        "[<option>]...",
        "no-tls-tickets",
        "TLS: options towards servers",
        |l, w| l.keep_options(w, &SERVER_OPTIONS),
    )
    .default(Described("TLS 1.2 and 1.3")),
    Row::ready(
        "ssl-default-server-sigalgs",
        "<sigalgs>",
        "RSA+SHA256",
        "TLS: signatures of servers",
        |l, w| l.keep_word(w, ALGORITHMS),
    ),
    Row::ready("ssl-dh-param-file", "<file>", "/etc/ssl/dhparam.pem", "TLS: parameters for DHE", |l, w| {
        l.keep_word(w, "a file path as an argument")
    }),
    Row::ready(
        "issuers-chain-path",
        "<dir>",
        "/etc/ssl/chains",
        "TLS: folder of chains, for certificates whose file has none",
        |l, w| l.keep_word(w, "a directory path as an argument"),
    ),
    Row::ready(
        "ssl-skip-self-issued-ca",
        "",
        "",
        "TLS: do not send a root that issued the certificate itself",
        |l, w| l.keep_flag(w),
    ),
    Row::ready("ssl-load-extra-del-ext", "", "", "TLS: find keys by replacing the extension", |l, w| {
        l.keep_flag(w)
    }),
    Row::<GlobalReader>::ready(
        "ssl-load-extra-files",
        "<none|all|bundle|sctl|ocsp|issuer|key>*",
        "ocsp key",
        "TLS: files to load beside certificates",
        |l, w| l.keep_extra_files(w),
    )
    .default(Described("`all`")),
    Row::ready(
        "ssl-passphrase-cmd",
        "<cmd> [<args>]...",
        "/usr/local/bin/passphrase --quiet",
        "TLS: program that prints the passphrase of a key; run at start, its first argument is the \
         key's file",
        |l, w| l.keep_words(w, "a program"),
    ),
    Row::<GlobalReader>::ready(
        "ssl-server-verify",
        "[none|required]",
        "required",
        "TLS: verify servers",
        |l, w| l.keep_choice(w, &["none", "required"]),
    )
    .default(Described("`required`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.cachesize",
        "<number>",
        "20000",
        "TLS: sessions to remember",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`20000`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.capture-buffer-size",
        "<number>",
        "96",
        "TLS: bytes of the client's hello to keep",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`: nothing is captured")),
    Row::ready(
        "tune.ssl.default-dh-param",
        "<number>",
        "2048",
        "TLS: size of the parameters for DHE",
        |l, w| l.keep_number(w, 1024, MAX),
    ),
    Row::ready("tune.ssl.force-private-cache", "", "", "TLS: do not share sessions", |l, w| l.keep_flag(w)),
    Row::<GlobalReader>::ready(
        "tune.ssl.hard-maxrecord",
        "<number>",
        "16384",
        "TLS: largest record",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("no bound but that of TLS, 16384 bytes")),
    Row::<GlobalReader>::ready(
        "tune.ssl.keylog",
        "{ on | off }",
        "off",
        "TLS: keep the keys for analysis",
        |l, w| l.keep_switch(w),
    )
    .default(Described("`off`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.lifetime",
        "<timeout>",
        "300",
        "TLS: how long sessions can be resumed",
        |l, w| {
            l.keep(w, |line, words| {
                let word = line.word(words, "ssl sessions <lifetime> in seconds as argument")?;
                crate::numbers::seconds_of(words, word, line.keyword).map(drop)
            })
        },
    )
    .default(Described("`300`")),
    Row::<GlobalReader>::ready(
        "tune.ssl.maxrecord",
        "<number>",
        "1419",
        "TLS: largest record for interactive traffic",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("no bound but that of TLS, 16384 bytes")),
    Row::<GlobalReader>::ready(
        "tune.ssl.ssl-ctx-cache-size",
        "<number>",
        "1000",
        "TLS: generated certificates to remember",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`1000`")),
    Row::ready(
        "h2-workaround-bogus-websocket-clients",
        "",
        "",
        "do not tell clients of HTTP/2 that WebSocket is there",
        |line, words| {
            line.global.no_websocket_over_http2 = line.flag(words)?;
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "tune.h2.be.glitches-threshold",
        "<number>",
        "0",
        "HTTP/2: oddities to bear from servers",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.initial-window-size",
        "<number>",
        "65536",
        "HTTP/2: window towards servers",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("that of `tune.h2.initial-window-size`")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.max-concurrent-streams",
        "<number>",
        "100",
        "HTTP/2: streams on a connection to a server",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("that of `tune.h2.max-concurrent-streams`")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.max-frames-at-once",
        "<number>",
        "0",
        "HTTP/2: frames in a row from servers",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.rxbuf",
        "<size>",
        "1m",
        "HTTP/2: receive buffer that the streams of a connection to a server share: whole buffers, one \
         for each stream at least. Seven eighths are for windows of bodies that grow if the server is \
         far",
        |l, w| l.keep_size(w),
    )
    .default(Described("100 buffers, or one for each concurrent stream if these are more")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.glitches-threshold",
        "<number>",
        "0",
        "HTTP/2: oddities to bear from clients",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.initial-window-size",
        "<number>",
        "65536",
        "HTTP/2: window towards clients",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("that of `tune.h2.initial-window-size`")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-concurrent-streams",
        "<number>",
        "100",
        "HTTP/2: streams on a client's connection",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("that of `tune.h2.max-concurrent-streams`")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-frames-at-once",
        "<number>",
        "0",
        "HTTP/2: frames in a row from clients",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-rst-at-once",
        "<number>",
        "0",
        "HTTP/2: resets in a row from clients",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-total-streams",
        "<number>",
        "0",
        "HTTP/2: streams of a client's connection in all",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.rxbuf",
        "<size>",
        "1m",
        "HTTP/2: receive buffer that the streams of a client's connection share: whole buffers, one for \
         each stream at least. Seven eighths are for windows of bodies that grow if the client is far",
        |l, w| l.keep_size(w),
    )
    .default(Described("100 buffers, or one for each concurrent stream if these are more")),
    Row::<GlobalReader>::ready(
        "tune.h2.header-table-size",
        "<number>",
        "4096",
        "HTTP/2: size of the header table, 4096 to 65536 bytes",
        |l, w| l.keep_number(w, 4096, 65536),
    )
    .default(Described("`4096`")),
    Row::<GlobalReader>::ready(
        "tune.h2.initial-window-size",
        "<number>",
        "65536",
        "HTTP/2: window both ways",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`65535`")),
    Row::<GlobalReader>::ready(
        "tune.h2.log-errors",
        "{ none | connection | stream }",
        "stream",
        "HTTP/2: which errors of clients become log lines",
        |l, w| l.keep_choice(w, &["none", "connection", "stream"]),
    )
    .default(Described("`stream`")),
    Row::<GlobalReader>::ready(
        "tune.h2.max-concurrent-streams",
        "<number>",
        "100",
        "HTTP/2: streams on a connection",
        |l, w| l.keep_number(w, 0, MAX),
    )
    .default(Described("`100`")),
    Row::<GlobalReader>::ready(
        "tune.h2.zero-copy-fwd-send",
        "{ on | off }",
        "on",
        "HTTP/2: send large pieces of payload from where they came in",
        |l, w| l.keep_switch(w),
    )
    .default(Described("`on`")),
    Row::ready("tune.disable-fast-forward", "", "", ONE_WAY_OF_FORWARDING, |l, w| {
        l.experimental(w)?;
        l.keep_flag(w)?;
        warn_no_effect(w, "there is only one way of forwarding");
        Ok(())
    }),
    Row::ready(
        "tune.disable-zero-copy-forwarding",
        "",
        "",
        "HTTP/2: copy payload into its frames before it leaves, however much it is",
        |l, w| l.keep_flag(w),
    ),
    Row::ready(
        "tune.idletimer",
        "<timeout>",
        "1s",
        "accepted for compatibility, no effect: small data is never held back",
        |l, w| {
            l.keep(w, |line, words| line.delay(words).map(drop))?;
            warn_no_effect(w, "small data is never held back");
            Ok(())
        },
    ),
    Row::ready(
        "tune.recv_enough",
        "<size>",
        "10136",
        "accepted for compatibility, no effect: the kernel says when there is no more to receive",
        |l, w| {
            l.keep_size(w)?;
            warn_no_effect(w, "the kernel reports the end of the data to receive");
            Ok(())
        },
    ),
    forwarding_switch("tune.applet.zero-copy-forwarding"),
    forwarding_switch("tune.h1.zero-copy-fwd-recv"),
    forwarding_switch("tune.h1.zero-copy-fwd-send"),
    forwarding_switch("tune.pt.zero-copy-forwarding"),
    Row::<GlobalReader>::ready(
        "tune.h2.max-frame-size",
        "<number>",
        "16384",
        "HTTP/2: largest frame",
        |l, w| l.keep_number(w, 16384, 16_777_215),
    )
    .default(Described("that of `tune.bufsize`, which is also the most")),
];
