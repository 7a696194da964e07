//! The aliases of log formats: a percent sign and a short name.

use weir_fingerprint::Canonical;

/// One row for each alias: its name, its variant, its restriction, its type, and help.
macro_rules! aliases {
    ($($name:literal $variant:ident $restriction:ident $kind:ident $help:literal)*) => {
        /// A log alias.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Canonical)]
        pub enum Alias {
            $(#[doc = $help] $variant,)*
        }

        impl Alias {
            /// Every alias with its row.
            pub const ROWS: &'static [AliasRow] = &[
                $(AliasRow {
                    name: $name,
                    alias: Alias::$variant,
                    restriction: Restriction::$restriction,
                    kind: AliasKind::$kind,
                    help: $help,
                },)*
            ];
        }
    };
}

/// The row of an alias.
#[derive(Debug, Clone, Copy)]
pub struct AliasRow {
    /// The name after the percent sign.
    pub name: &'static str,
    pub alias: Alias,
    /// Where the alias can be used.
    pub restriction: Restriction,
    pub kind: AliasKind,
    /// The help text in one line.
    pub help: &'static str,
}

/// Where an alias can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restriction {
    None,
    Http,
    Tls,
    Log,
}

/// The type of an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasKind {
    Text,
    Number,
    Date,
    Address,
}

impl Alias {
    /// The alias with this name.
    pub fn find(name: &str) -> Option<&'static AliasRow> {
        Self::ROWS.iter().find(|row| row.name == name)
    }

    /// The row of this alias.
    pub fn row(self) -> &'static AliasRow {
        &Self::ROWS[self as usize]
    }
}

#[rustfmt::skip]
aliases! {
    "T" AcceptDateUtc None Date "Accept date in UTC, with its zone"
    "Tl" AcceptDateLocal None Date "Accept date in local time, with its zone"
    "Ts" AcceptTimestamp None Number "Accept date as a UNIX timestamp"
    "t" AcceptDate None Date "Accept date in local time, with milliseconds"
    "ms" AcceptMillis None Number "Milliseconds of the accept date, three digits"
    "tr" RequestDate Http Date "Date of the first byte of the request, local time, with milliseconds"
    "trg" RequestDateUtc Http Date "Date of the first byte of the request in UTC, with its zone"
    "trl" RequestDateLocal Http Date "Date of the first byte of the request in local time, with its zone"
    "Ta" TimeActive Http Number "Active time of the request: from its first byte to the end"
    "Tc" TimeConnect None Number "Time to connect to the server"
    "Td" TimeData None Number "Time to transfer the data of the response"
    "Th" TimeHandshake None Number "Time of the handshakes of the connection"
    "Ti" TimeIdle Http Number "Idle time before the request"
    "Tq" TimeQuery Http Number "Handshakes, idle time and request together"
    "TR" TimeRequest Http Number "Time to receive the whole request from its first byte"
    "Tr" TimeResponse Http Number "Time for the server to begin its response"
    "Tt" TimeTotal None Number "Total time"
    "Tu" TimeUser None Number "Total time as the user sees it: without idle time"
    "Tw" TimeQueue None Number "Time spent in queues"
    "B" BytesRead None Number "Bytes sent to the client"
    "CC" RequestCookie Http Text "Captured cookie of the request"
    "CS" ResponseCookie Http Text "Captured cookie of the response"
    "H" Hostname None Text "Name of this host"
    "HM" HttpMethod Http Text "Method of the request"
    "HP" HttpPath Http Text "URI of the request without the query string"
    "HPO" HttpPathOnly Http Text "Path of the request, without host and query string"
    "HQ" HttpQuery Http Text "Query string of the request with its question mark"
    "HU" HttpUri Http Text "URI of the request"
    "HV" HttpVersion Http Text "HTTP version of the request"
    "ID" UniqueId None Text "Unique identifier of the request"
    "ST" Status None Number "Status code"
    "U" BytesUploaded None Number "Bytes received from the client"
    "ac" ActiveConnections None Number "Connections of the whole process"
    "b" Backend None Text "Name of the backend"
    "bc" BackendConnections None Number "Connections of the backend"
    "bi" BackendSourceIp None Address "Address used to connect to the server"
    "bp" BackendSourcePort None Number "Port used to connect to the server"
    "bq" BackendQueue None Number "Requests before this one in the queue of the backend"
    "ci" ClientIp None Address "Address of the client"
    "cp" ClientPort None Number "Port of the client"
    "f" Frontend None Text "Name of the frontend"
    "fc" FrontendConnections None Number "Connections of the frontend"
    "fi" FrontendIp None Address "Address that the client connected to"
    "fp" FrontendPort None Number "Port that the client connected to"
    "ft" FrontendTransport None Text "Name of the frontend, with '~' after it for TLS"
    "lc" LogCounter None Number "Number of this log among those of the frontend"
    "hr" RequestHeaders None Text "Captured headers of the request, between braces"
    "hrl" RequestHeadersClf None Text "Captured headers of the request, quoted one by one"
    "hs" ResponseHeaders None Text "Captured headers of the response, between braces"
    "hsl" ResponseHeadersClf None Text "Captured headers of the response, quoted one by one"
    "OG" LogOrigin Log Text "What caused this log"
    "pid" Pid None Number "Process identifier"
    "r" Request Http Text "Request line"
    "rc" Retries None Number "Connection retries, with '+' before them after a redispatch"
    "rt" RequestCounter None Number "Number of the request or session"
    "s" Server None Text "Name of the server"
    "sc" ServerConnections None Number "Connections of the server"
    "si" ServerIp None Address "Address of the server"
    "sp" ServerPort None Number "Port of the server"
    "sq" ServerQueue None Number "Requests before this one in the queue of the server"
    "sslc" TlsCipher Tls Text "TLS cipher of the client side"
    "sslv" TlsVersion Tls Text "TLS version of the client side"
    "ts" TerminationState None Text "How the session ended: two characters"
    "tsc" TerminationStateCookie Http Text "How the session ended, and what became of the cookie: four characters"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_alias_rows_are_in_the_order_of_their_variants() {
        for row in Alias::ROWS {
            assert_eq!(row.alias.row().name, row.name);
        }
    }
}
