//! The typed model of a configuration, ready to use.
//!
//! Plain data without behaviour, with two exceptions: passwords verify themselves, and the arguments of actions and filters are types of
//! the crate that runs them. The rows of `weir-config` fill the model. `data` and `control` read it, mostly without a parser.
//!
//! It refuses to know words, lines and files. Begin with [`Config`].

mod action;
mod address;
mod application;
mod balance;
mod balance_word;
mod bind;
mod check;
mod check_script;
mod client;
mod compression;
mod config;
mod filter;
pub mod fingerprints;
mod global;
mod http2;
mod log;
mod log_forward;
mod mail;
mod names;
mod options;
pub mod password;
mod peers;
mod profiling;
mod protocol;
mod proxy;
mod references;
mod reply;
mod resolvers;
mod ring;
mod rules;
mod scripts;
mod server;
mod spoe;
mod stats;
mod status_codes;
mod table;
mod tls;
mod tls_global;
mod tuning;
mod userlist;
mod visit;

pub use action::{Action, ActionArguments, ActionFacts, Redirect, RedirectCookie, RedirectKind};
pub use address::{
    Family, Host, IpNetwork, ListenAddress, ServerAddress, ServerPort, SocksProxy, Source, TransparentSource,
};
pub use application::{FcgiApplication, PassHeader, SetParameter};
pub use balance::{
    BackendTarget, Balance, BalanceArgument, CookieMode, CookiePersistence, HashFunction, HashMethod,
    HashType, OutlierEjection, PersistRule, PreserveAffinity, ProxyIndex, RetryOn, ServerTarget, UriKey,
    UseBackend, UseServer,
};
pub use balance_word::{ALGORITHMS, BalanceSyntax, BalanceWord, FORMS, LogBalance, ValueHelp};
pub use bind::{
    Account, Bind, BindOptions, Level, SeverityOutput, Shards, SocketOwnership, ThreadRange, ThreadSet,
};
pub use check::{
    AgentSettings, CheckSettings, CheckTls, CheckTuning, InitialState, Observe, OnError, TrackedServer,
};
pub use check_script::{
    CheckAction, CheckConnect, CheckMethod, CheckPort, CheckRule, CheckRuleList, CheckScripts, CheckText,
    Expect, ExpectStatus, Expected, HeaderMatch, HealthCheck, HttpRequest, OwnExpected, TextMatch,
};
pub use client::{HttpClient, OcspUpdates};
pub use compression::{Compression, CompressionAlgorithm, CompressionDirection, CompressionTuning};
pub use config::Config;
pub use filter::{
    BandwidthFacts, Filter, FilterArguments, FilterDirection, FilterFacts, FilterSequences, SharedRate,
};
pub use global::{
    Chroot, CloseSpread, CoreDump, CpuMap, CpuSet, ExternalCheck, Global, Http1, Limits, MAX_THREADS,
    MasterWorker, ProcessValue, ProcessVariable, SentHostName, UnixBind,
};
pub use http2::{Http2Side, Http2Tuning, LoggedErrors};
pub use log::{
    Facility, Framing, LogAddress, LogHeader, LogLine, LogLineKind, LogSampling, LogTarget, LogTargets,
    Logging, Severity,
};
pub use log_forward::{HostStrategy, LogForward};
pub use mail::{MAIL_TIMEOUT, MailAlert, Mailer, Mailers};
pub use options::{
    ConnectionMode, ForwardFor, Forwarded, ForwardedValue, Options, OriginalTo, Redispatch,
    RestrictHeaderNames, Reuse, Splice, Switch,
};
pub use peers::{Peer, Peers};
pub use profiling::{Profiling, TaskProfiling};
pub use protocol::Protocol;
pub use proxy::{
    CaptureSlot, Captures, CookieCapture, Mode, Proxy, ProxySection, Settings, TcpKeepAlive, Timeouts,
};
pub use references::{ScriptedExpressions, UsedUserlists};
pub use reply::{
    ErrorField, ErrorMessage, ErrorReplies, ErrorReply, ErrorResponse, ErrorSection, HttpErrors, Reply,
    ReplyContent, ReplyHeader,
};
pub use resolvers::{AcceptedFamilies, HoldTimes, NameServer, Resolvers};
pub use ring::{Ring, RingServer, TraceLine};
pub use rules::{RedirectRule, Rule, RulesetKind, RulesetSet, Rulesets};
pub use scripts::{LoadedScript, ScriptPrinting, ScriptSettings};
pub use server::{
    HashKey, InitialAddress, ProxyV2, ProxyV2Tls, SendProxy, Server, ServerResolution, ServerSettings,
    ServerStates, WebSocket, is_service,
};
pub use spoe::{
    SpoeAgent, SpoeArgument, SpoeEngine, SpoeEvent, SpoeEventTable, SpoeGroup, SpoeGroupUse, SpoeMessage,
};
pub use stats::{Stats, StatsAdmin, StatsRule, StatsScope, StatsText, StatsVerdict};
pub use status_codes::StatusCodes;
pub use table::{StickKind, StickRule, StickTable, Track};
pub use tls::{
    BindTls, CertificateFiles, CertificateLoad, CertificateSource, CertificateStore, CertificateUse,
    IgnoredErrors, ServerTls, TlsOptions, TlsVerify, TlsVersion,
};
pub use tls_global::{ChainFolder, ExtraFiles, GlobalTls, LineDefaults, PassphraseProgram, TlsDefaults};
pub use tuning::{ConnectionSharing, ListenerQueues, Niceness, SocketBuffers, Tuning, VariableSizes};
pub use userlist::{User, Userlist};
pub use visit::Visit;
pub use weir_expr::Location;
