//! Every field of the process, one row each: the dictionary of `show info`.
//!
//! Names, positions, tags and descriptions are exact copies of HAProxy's, including gaps in the positions, because monitoring tools
//! depend on them.

use crate::fields::Type;
use crate::render::{Format, JSON, write_float, write_number, write_type_and_value};
use crate::row::{FieldValue, ValueCells};

/// A field declaration.
#[derive(Debug)]
pub struct InfoDecl {
    /// The position in typed output.
    pub position: u32,
    pub name: &'static str,
    /// Origin, nature, scope and persistence, one letter each.
    pub tags: &'static str,
    /// The type in typed output.
    pub type_: Type,
    pub description: &'static str,
}

macro_rules! info_fields {
    ($($variant:ident: $position:literal, $name:literal, $tags:literal, $type:ident, $description:literal;)*) => {
        /// A field of the process, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum InfoField {
            $(#[doc = $description] $variant,)*
        }

        /// All fields in the order in which they are shown.
        pub static INFO_FIELDS: &[InfoDecl] = &[
            $(InfoDecl {
                position: $position,
                name: $name,
                tags: $tags,
                type_: Type::$type,
                description: $description,
            },)*
        ];
    };
}

info_fields! {
    Name: 0, "Name", "POSV", Text, "Product name";
    Version: 1, "Version", "POSV", Text, "Product version";
    ReleaseDate: 2, "Release_date", "POSV", Text, "Date of latest source code update";
    Nbthread: 3, "Nbthread", "CGSV", U32, "Number of started threads (global.nbthread)";
    Nbproc: 4, "Nbproc", "CGSV", U32, "Number of started worker processes (historical, always 1)";
    ProcessNum: 5, "Process_num", "KGPV", U32, "Relative worker process number (1)";
    Pid: 6, "Pid", "SGPV", U32, "This worker process identifier for the system";
    Uptime: 7, "Uptime", "MDPV", Text, "How long ago this worker process was started (days+hours+minutes+seconds)";
    UptimeSec: 8, "Uptime_sec", "MDPV", U32, "How long ago this worker process was started (seconds)";
    MemmaxMB: 9, "Memmax_MB", "CLPV", U32, "Worker process's hard limit on memory usage in MB (-m on command line)";
    PoolAllocMB: 10, "PoolAlloc_MB", "MGPV", U32, "Amount of memory allocated in pools (in MB)";
    PoolUsedMB: 11, "PoolUsed_MB", "MGPV", U32, "Amount of pool memory currently used (in MB)";
    PoolFailed: 12, "PoolFailed", "MCPV", U32, "Number of failed pool allocations since this worker was started";
    UlimitN: 13, "Ulimit-n", "CLPV", U32, "Hard limit on the number of per-process file descriptors";
    Maxsock: 14, "Maxsock", "CLPV", U32, "Hard limit on the number of per-process sockets";
    Maxconn: 15, "Maxconn", "CLPV", U32, "Hard limit on the number of per-process connections (configured or imposed by Ulimit-n)";
    HardMaxconn: 16, "Hard_maxconn", "CLPV", U32, "Hard limit on the number of per-process connections (imposed by Memmax_MB or Ulimit-n)";
    CurrConns: 17, "CurrConns", "MGPV", U32, "Current number of connections on this worker process";
    CumConns: 18, "CumConns", "MCPV", U32, "Total number of connections on this worker process since started";
    CumReq: 19, "CumReq", "MCPV", U32, "Total number of requests on this worker process since started";
    MaxSslConns: 20, "MaxSslConns", "MMPV", U32, "Hard limit on the number of per-process SSL endpoints (front+back), 0=unlimited";
    CurrSslConns: 21, "CurrSslConns", "MGPV", U32, "Current number of SSL endpoints on this worker process (front+back)";
    CumSslConns: 22, "CumSslConns", "MCPV", U32, "Total number of SSL endpoints on this worker process since started (front+back)";
    Maxpipes: 23, "Maxpipes", "CLPV", U32, "Hard limit on the number of pipes for splicing, 0=unlimited";
    PipesUsed: 24, "PipesUsed", "MGPV", U32, "Current number of pipes in use in this worker process";
    PipesFree: 25, "PipesFree", "MGPV", U32, "Current number of allocated and available pipes in this worker process";
    ConnRate: 26, "ConnRate", "MRPV", U32, "Number of front connections created on this worker process over the last second";
    ConnRateLimit: 27, "ConnRateLimit", "CLPV", U32, "Hard limit for ConnRate (global.maxconnrate)";
    MaxConnRate: 28, "MaxConnRate", "MMPV", U32, "Highest ConnRate reached on this worker process since started (in connections per second)";
    SessRate: 29, "SessRate", "MRPV", U32, "Number of sessions created on this worker process over the last second";
    SessRateLimit: 30, "SessRateLimit", "CLPV", U32, "Hard limit for SessRate (global.maxsessrate)";
    MaxSessRate: 31, "MaxSessRate", "MRPV", U32, "Highest SessRate reached on this worker process since started (in sessions per second)";
    SslRate: 32, "SslRate", "MRPV", U32, "Number of SSL connections created on this worker process over the last second";
    SslRateLimit: 33, "SslRateLimit", "CLPV", U32, "Hard limit for SslRate (global.maxsslrate)";
    MaxSslRate: 34, "MaxSslRate", "MMPV", U32, "Highest SslRate reached on this worker process since started (in connections per second)";
    SslFrontendKeyRate: 35, "SslFrontendKeyRate", "MGPV", U32, "Number of SSL keys created on frontends in this worker process over the last second";
    SslFrontendMaxKeyRate: 36, "SslFrontendMaxKeyRate", "MMPV", U32, "Highest SslFrontendKeyRate reached on this worker process since started (in SSL keys per second)";
    SslFrontendSessionReusePct: 37, "SslFrontendSessionReuse_pct", "MGPV", U32, "Percent of frontend SSL connections which did not require a new key";
    SslBackendKeyRate: 38, "SslBackendKeyRate", "MRPV", U32, "Number of SSL keys created on backends in this worker process over the last second";
    SslBackendMaxKeyRate: 39, "SslBackendMaxKeyRate", "MMPV", U32, "Highest SslBackendKeyRate reached on this worker process since started (in SSL keys per second)";
    SslCacheLookups: 40, "SslCacheLookups", "MCPV", U32, "Total number of SSL session ID lookups in the SSL session cache on this worker since started";
    SslCacheMisses: 41, "SslCacheMisses", "MCPV", U32, "Total number of SSL session ID lookups that didn't find a session in the SSL session cache on this worker since started";
    CompressBpsIn: 42, "CompressBpsIn", "MRPV", U32, "Number of bytes submitted to the HTTP compressor in this worker process over the last second";
    CompressBpsOut: 43, "CompressBpsOut", "MRPV", U32, "Number of bytes emitted by the HTTP compressor in this worker process over the last second";
    CompressBpsRateLim: 44, "CompressBpsRateLim", "CLPV", U32, "Limit of CompressBpsOut beyond which HTTP compression is automatically disabled";
    ZlibMemUsage: 45, "ZlibMemUsage", "MGPV", U64, "Amount of memory used by HTTP compression on the current worker process (in bytes)";
    MaxZlibMemUsage: 46, "MaxZlibMemUsage", "CLPV", U64, "Limit on the amount of memory used by HTTP compression above which it is automatically disabled (in bytes, see global.maxzlibmem)";
    Tasks: 47, "Tasks", "MGPV", U32, "Total number of tasks in the current worker process (active + sleeping)";
    RunQueue: 48, "Run_queue", "MGPV", U32, "Total number of active tasks+tasklets in the current worker process";
    IdlePct: 49, "Idle_pct", "MaPV", U32, "Percentage of last second spent waiting in the current worker thread";
    Node: 50, "node", "COSV", Text, "Node name (global.node)";
    Description: 51, "description", "COSV", Text, "Node description (global.description)";
    Stopping: 52, "Stopping", "MGPV", U32, "1 if the worker process is currently stopping, otherwise zero";
    Jobs: 53, "Jobs", "MGPV", U32, "Current number of active jobs on the current worker process (frontend connections, master connections, listeners)";
    UnstoppableJobs: 54, "Unstoppable Jobs", "MGPV", U32, "Current number of unstoppable jobs on the current worker process (master connections)";
    Listeners: 55, "Listeners", "MGPV", U32, "Current number of active listeners on the current worker process";
    ActivePeers: 56, "ActivePeers", "MGPV", U32, "Current number of verified active peers connections on the current worker process";
    ConnectedPeers: 57, "ConnectedPeers", "MGPV", U32, "Current number of peers having passed the connection step on the current worker process";
    DroppedLogs: 58, "DroppedLogs", "MGPV", U32, "Total number of dropped logs for current worker process since started";
    BusyPolling: 59, "BusyPolling", "MGPV", U32, "1 if busy-polling is currently in use on the worker process, otherwise zero (config.busy-polling)";
    FailedResolutions: 60, "FailedResolutions", "MGPV", U32, "Total number of failed DNS resolutions in current worker process since started";
    TotalBytesOut: 61, "TotalBytesOut", "MGPV", U64, "Total number of bytes emitted by current worker process since started";
    TotalSplicedBytesOut: 62, "TotalSplicedBytesOut", "MGPV", U64, "Total number of bytes emitted by current worker process through a kernel pipe since started";
    BytesOutRate: 63, "BytesOutRate", "MRPV", U64, "Number of bytes emitted by current worker process over the last second";
    DebugCommandsIssued: 64, "DebugCommandsIssued", "MGPV", U32, "Number of debug commands issued on this process (anything > 0 is unsafe)";
    CumRecvLogs: 65, "CumRecvLogs", "MCPV", U32, "Total number of log messages received by log-forwarding listeners on this worker process since started";
    BuildInfo: 66, "Build info", "POSV", Text, "Build info";
    MemmaxBytes: 67, "Memmax_bytes", "CLPV", U32, "Worker process's hard limit on memory usage in bytes (-m on command line)";
    PoolAllocBytes: 68, "PoolAlloc_bytes", "MGPV", U64, "Amount of memory allocated in pools (in bytes)";
    PoolUsedBytes: 69, "PoolUsed_bytes", "MGPV", U64, "Amount of pool memory currently used (in bytes)";
    StartTimeSec: 70, "Start_time_sec", "MDPV", U32, "Start time in seconds";
    Tainted: 71, "Tainted", "SGPV", Text, "Experimental features used";
    TotalWarnings: 72, "TotalWarnings", "MCPV", U32, "Total warnings issued";
    MaxconnReached: 73, "MaxconnReached", "MCPV", U32, "Number of times an accepted connection resulted in Maxconn being reached";
    BootTimeMs: 74, "BootTime_ms", "MDPV", U32, "How long ago it took to parse and process the config before being ready (milliseconds)";
    NicedTasks: 75, "Niced_tasks", "MGPV", U32, "Total number of active tasks+tasklets in the current worker process (Run_queue) that are niced";
    CurrStreams: 76, "CurrStreams", "MGPV", U64, "Current number of streams on this worker process";
    CumStreams: 77, "CumStreams", "MGPV", U64, "Total number of streams created on this worker process since started";
    BlockedTrafficWarnings: 78, "BlockedTrafficWarnings", "MGPV", U32, "Total number of warnings issued about traffic being blocked by too slow a task";
    PatternsAdded: 79, "PatternsAdded", "MGPV", U64, "Total number of patterns added (acl/map entries)";
    PatternsFreed: 80, "PatternsFreed", "MGPV", U64, "Total number of patterns freed (acl/map entries)";
    NbThreadGroups: 81, "NbThreadGroups", "CGSV", U32, "Number of started thread groups (global.thread-groups)";
    RegexLimitsReached: 82, "RegexLimitsReached", "MCPV", U64, "Total number of matches given up because a regular expression met a limit (tune.regex.on-limit)";
    RegexBudgetsSpent: 83, "RegexBudgetsSpent", "MCPV", U64, "Total number of requests without time left for a regular expression (tune.regex.request-time)";
    AuthRequests: 84, "AuthRequests", "MCPV", U64, "Total number of requests that auth-request rules sent to decide about another request";
    AuthRequestsFailed: 85, "AuthRequestsFailed", "MCPV", U64, "Total number of requests of auth-request rules without a verdict (on-error)";
    Mirrors: 86, "Mirrors", "MCPV", U64, "Total number of requests that mirror rules sent";
    MirrorsDropped: 87, "MirrorsDropped", "MCPV", U64, "Total number of requests that mirror rules did not send, for too many at a time or a body above its limit";
    AgentConnections: 88, "AgentConnections", "MGPV", U64, "Current number of connections to SPOP agents, idle ones included";
    LateAgentAnswers: 89, "LateAgentAnswers", "MCPV", U64, "Total number of answers of SPOP agents to exchanges that were over, with their actions dropped";
}

impl InfoField {
    /// The field's declaration.
    pub fn decl(self) -> &'static InfoDecl {
        &INFO_FIELDS[self as usize]
    }
}

/// The values of all fields.
#[derive(Debug)]
pub struct InfoRow {
    cells: ValueCells,
}

impl Default for InfoRow {
    fn default() -> Self {
        Self::new()
    }
}

impl InfoRow {
    /// Numeric fields are 0, text fields empty.
    pub fn new() -> Self {
        let mut cells = ValueCells::default();
        cells.reset(INFO_FIELDS.len());
        for (index, row) in INFO_FIELDS.iter().enumerate() {
            match row.type_ {
                Type::U32 => cells.set(index, FieldValue::U32(0)),
                Type::S32 => cells.set(index, FieldValue::S32(0)),
                Type::U64 => cells.set(index, FieldValue::U64(0)),
                Type::Text => {}
            }
        }
        Self { cells }
    }

    /// Sets one field. The value must have the declared type.
    pub fn set<'a>(&mut self, field: InfoField, value: impl Into<FieldValue<'a>>) {
        let value = value.into();
        debug_assert!(value.has_type(field.decl().type_), "{field:?} is not {value:?}");
        self.cells.set(field as usize, value);
    }

    /// The value of one field. Numbers are 0 until they are set.
    pub fn value(&self, field: InfoField) -> FieldValue<'_> {
        self.cells.value(field as usize)
    }

    /// Calls `each` with the name and the value of each field that has one.
    pub fn each(&self, mut each: impl FnMut(&str, FieldValue<'_>)) {
        for (index, row) in INFO_FIELDS.iter().enumerate() {
            let value = self.cells.value(index);
            if value != FieldValue::Empty {
                each(row.name, value);
            }
        }
    }

    /// The value as text. Empty for a number.
    pub fn text(&self, field: InfoField) -> &str {
        match self.value(field) {
            FieldValue::Text(text) => text,
            _ => "",
        }
    }

    /// The value as a number. 0 for a text field.
    pub fn number(&self, field: InfoField) -> u64 {
        match self.value(field) {
            FieldValue::U32(number) => u64::from(number),
            FieldValue::U64(number) => number,
            FieldValue::S32(number) => u64::try_from(number).unwrap_or(0),
            FieldValue::Float(number) => number as u64,
            FieldValue::Empty | FieldValue::Text(_) => 0,
        }
    }

    /// Writes all fields in the format of `show info`: `name: value` lines ([`Format::Csv`]), typed lines, or JSON. About 2 kB, or 15 kB
    /// in JSON.
    pub fn write(&self, format: Format, descriptions: bool, out: &mut Vec<u8>) {
        let mut first = true;
        if format == Format::Json {
            out.push(b'[');
        }
        for (index, row) in INFO_FIELDS.iter().enumerate() {
            let value = self.cells.value(index);
            if value == FieldValue::Empty {
                continue;
            }
            match format {
                Format::Csv => write_plain(row, value, out),
                Format::Typed => write_typed(row, value, out),
                Format::Json => {
                    if !first {
                        out.push(b',');
                    }
                    write_json(row, value, out);
                }
            }
            first = false;
            if format != Format::Json {
                if descriptions {
                    out.extend_from_slice(b":\"");
                    out.extend_from_slice(row.description.as_bytes());
                    out.push(b'"');
                }
                out.push(b'\n');
            }
        }
        if format == Format::Json {
            out.extend_from_slice(b"]\n");
        }
    }
}

fn write_plain(row: &InfoDecl, value: FieldValue<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(row.name.as_bytes());
    out.extend_from_slice(b": ");
    match value {
        FieldValue::Text(text) => out.extend_from_slice(text.as_bytes()),
        FieldValue::Float(number) => write_float(number, out),
        other => write_number(other, out),
    }
}

fn write_typed(row: &InfoDecl, value: FieldValue<'_>, out: &mut Vec<u8>) {
    write_number(FieldValue::U32(row.position), out);
    out.push(b'.');
    out.extend_from_slice(row.name.as_bytes());
    out.extend_from_slice(b".1:");
    out.extend_from_slice(row.tags.as_bytes());
    out.push(b':');
    write_type_and_value(value, out);
}

fn write_json(row: &InfoDecl, value: FieldValue<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"field\":{\"pos\":");
    write_number(FieldValue::U32(row.position), out);
    out.extend_from_slice(b",\"name\":");
    JSON.write(row.name, out);
    crate::render::write_json_rest(row.tags, value, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, descriptions: bool, set: impl FnOnce(&mut InfoRow)) -> String {
        let mut row = InfoRow::new();
        set(&mut row);
        let mut out = Vec::new();
        row.write(format, descriptions, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn show_info_prints_plain_lines() {
        let text = written(Format::Csv, false, |row| {
            row.set(InfoField::Name, "HAProxy");
            row.set(InfoField::UptimeSec, FieldValue::Float(1.520067));
        });
        assert!(text.starts_with("Name: HAProxy\nNbthread: 0\n"), "{text}");
        assert!(text.contains("\nUptime_sec: 1.520067\n"));
        assert!(text.contains("\nUnstoppable Jobs: 0\n"));
    }

    #[test]
    fn show_info_typed_desc_prints_types_and_descriptions() {
        let text = written(Format::Typed, true, |row| row.set(InfoField::Nbthread, 2u32));
        assert!(text.starts_with(
            "3.Nbthread.1:CGSV:u32:2:\"Number of started threads (global.nbthread)\"\n4.Nbproc.1:"
        ));
        assert!(text.contains("\n61.TotalBytesOut.1:MGPV:u64:0:"));
    }

    #[test]
    fn show_info_json_is_one_line() {
        let text = written(Format::Json, false, |row| row.set(InfoField::Name, "HAProxy"));
        assert!(text.starts_with(
            "[{\"field\":{\"pos\":0,\"name\":\"Name\"},\"processNum\":1,\"tags\":{\"origin\":\"Product\",\
             \"nature\":\"Output\",\"scope\":\"Service\"},\"value\":{\"type\":\"str\",\"value\":\"HAProxy\"}},{"
        ));
        assert!(text.ends_with("}]\n") && text.matches('\n').count() == 1);
    }
}
