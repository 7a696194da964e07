//! The log formats of options.

/// `option httplog`.
pub const HTTP: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";

/// `option httpslog`.
pub const HTTPS: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc";

/// `option httplog clf`.
pub const CLF_HTTP: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";

/// `option tcplog`.
pub const TCP: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";

/// `option tcplog clf`.
pub const CLF_TCP: &str = "%{+Q}o %{-Q}ci - - [%T] \"TCP \" 000 %B \"\" \"\" %cp %ms %ft %b %s %Th %Tw %Tc %Tt %U %ts-- %ac %fc %bc %sc %rc %sq %bq \"\" \"\"";

/// No option, in HTTP mode: written when the connection is accepted.
pub const DEFAULT_HTTP: &str = "Connect from %ci:%cp to %fi:%fp (%f/HTTP)";

/// No option, in TCP mode: written when the connection is accepted.
pub const DEFAULT_TCP: &str = "Connect from %ci:%cp to %fi:%fp (%f/TCP)";

/// A connection that failed before its session began.
pub const ERROR: &str = "%ci:%cp [%t] %f/%[so_name]: %[fc_err_str]";
