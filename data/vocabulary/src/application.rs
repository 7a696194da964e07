//! The parameters that requests of streams and checks to FastCGI applications have in common (manual, 10.2; RFC 3875, 4.1).

use std::fmt::Display;
use std::io::{Cursor, Write};

use weir_expr::pattern::regex::{Groups, Regex};
use weir_fcgi::{Params, PathCaptures, ScriptPaths, forbids_path_info};
use weir_http::{Head, KnownName, Version, percent};
use weir_model::FcgiApplication;
use weir_sys::Address;

/// A request, as its application sees it.
pub struct CgiRequest<'r> {
    pub application: &'r FcgiApplication,
    pub head: &'r Head,
    /// The bytes that the head refers to.
    pub raw: &'r [u8],
    /// The length of the body in bytes.
    pub length: u64,
    /// The client. `None` for a check.
    pub source: Option<&'r Address>,
    /// The address that the client connected to; that of the server for a check. `None` if it is unknown.
    pub destination: Option<&'r Address>,
    /// Whether the client uses TLS.
    pub is_secured: bool,
}

/// The path has an invalid escape or a NUL, or a byte behind which the expression of `path-info` would not see the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndivisiblePath;

impl CgiRequest<'_> {
    /// Appends the default parameters, except those that `overwrites` contains. CONTENT_LENGTH is always written: with another value,
    /// the application would wait for bytes that do not come. `scratch` is overwritten.
    ///
    /// # Errors
    /// For a path that cannot be decoded or divided safely. Parameters are then incomplete.
    pub fn write_defaults(
        &self,
        params: &mut Params,
        overwrites: &dyn Fn(&[u8]) -> bool,
        scratch: &mut Vec<u8>,
    ) -> Result<(), IndivisiblePath> {
        let CgiRequest { head, raw, .. } = *self;
        let mut writer = DefaultWriter { params, overwrites };
        self.write_paths(&mut writer, scratch)?;
        let target = match head.path_and_query(raw) {
            b"" => head.uri(raw),
            target => target,
        };
        writer.push("REQUEST_URI", target);
        writer.push("REQUEST_METHOD", head.method_text(raw));
        if let Some(query) = head.query(raw).filter(|query| !query.is_empty()) {
            writer.push("QUERY_STRING", query);
        }
        let protocol: &[u8] = match head.version() {
            Version::HTTP_10 => b"HTTP/1.0",
            Version::HTTP_11 => b"HTTP/1.1",
            _ => b"HTTP/2.0",
        };
        writer.push("SERVER_PROTOCOL", protocol);
        if let Some(kind) = head.find_line(raw, b"content-type", 1) {
            writer.push("CONTENT_TYPE", kind);
        }
        self.write_addresses(&mut writer);
        if self.is_secured {
            writer.push("HTTPS", b"on");
        }
        writer.push("GATEWAY_INTERFACE", b"CGI/1.1");
        writer.push("SERVER_SOFTWARE", SOFTWARE.as_bytes());
        DefaultWriter { params, overwrites: &|_| false }.push_displayed("CONTENT_LENGTH", self.length);
        Ok(())
    }

    /// Appends the fields as `HTTP_*`, except those that are hidden or parameters of their own.
    pub fn write_fields(&self, params: &mut Params, is_hidden: impl Fn(&[u8]) -> bool) {
        for (name, value) in self.head.fields(self.raw) {
            let has_parameter = OWN_PARAMETERS.iter().any(|one| name.eq_ignore_ascii_case(one));
            if !has_parameter && !is_hidden(name) {
                params.push_header(name, value);
            }
        }
    }

    fn write_paths(&self, writer: &mut DefaultWriter<'_>, path: &mut Vec<u8>) -> Result<(), IndivisiblePath> {
        let CgiRequest { application, head, raw, .. } = *self;
        let is_decoded = percent::decode(head.path(raw), false, path);
        let captures = match &application.path_info {
            // Applications take a NUL for the end of the path, so that rules would have seen another one.
            _ if !is_decoded || path.contains(&0) => return Err(IndivisiblePath),
            // The expression sees nothing behind such a byte.
            Some(_) if forbids_path_info(path) => return Err(IndivisiblePath),
            Some(regex) => captures(regex, path),
            None => None,
        };
        let docroot = application.docroot.as_bytes();
        let paths = ScriptPaths::new(path, application.index.as_deref().map(str::as_bytes), captures);
        writer.push("DOCUMENT_ROOT", docroot);
        writer.push_parts("SCRIPT_FILENAME", &paths.script_filename(docroot));
        writer.push_parts("SCRIPT_NAME", &paths.script_name);
        if let Some(info) = paths.path_info {
            writer.push("PATH_INFO", info);
        }
        if let Some(translated) = paths.path_translated(docroot) {
            writer.push_parts("PATH_TRANSLATED", &translated);
        }
        Ok(())
    }

    /// The addresses and names of both ends. A check has a port of 0 and no address, as in HAProxy.
    fn write_addresses(&self, writer: &mut DefaultWriter<'_>) {
        match self.source {
            Some(Address::Inet(address)) => {
                writer.push_displayed("REMOTE_ADDR", address.ip());
                writer.push_displayed("REMOTE_PORT", address.port());
            }
            Some(_) => {
                writer.push("REMOTE_ADDR", b"unix");
                writer.push("REMOTE_PORT", b"0");
            }
            None => writer.push("REMOTE_PORT", b"0"),
        }
        let host = self.head.find_known(self.raw, KnownName::Host).filter(|host| !host.is_empty());
        match (host, self.destination.and_then(Address::ip)) {
            (Some(host), _) => writer.push("SERVER_NAME", host),
            (None, Some(address)) => writer.push_displayed("SERVER_NAME", address),
            (None, None) => writer.push("SERVER_NAME", b"unix"),
        }
        let address = self.destination.and_then(Address::inet);
        writer.push_displayed("SERVER_PORT", address.map_or(0, |address| address.port()));
    }
}

/// The captures of the application's `path-info`. `None` if the path does not match.
fn captures(regex: &Regex, path: &[u8]) -> Option<PathCaptures> {
    let mut groups: Groups = regex.groups();
    regex.captures(path, 0, &mut groups)?;
    Some(PathCaptures { script_name: groups.range(1)?, path_info: groups.range(2) })
}

/// Appends parameters, unless they are overwritten.
struct DefaultWriter<'w> {
    params: &'w mut Params,
    overwrites: &'w dyn Fn(&[u8]) -> bool,
}

impl DefaultWriter<'_> {
    fn push(&mut self, name: &str, value: &[u8]) {
        self.push_parts(name, &[value]);
    }

    fn push_parts(&mut self, name: &str, parts: &[&[u8]]) {
        if !(self.overwrites)(name.as_bytes()) {
            self.params.push_parts(name.as_bytes(), parts);
        }
    }

    /// Appends a number or an IP address.
    fn push_displayed(&mut self, name: &str, value: impl Display) {
        let mut text = Cursor::new([0; LONGEST_DISPLAYED]);
        // Numbers and addresses fit.
        let _ = write!(text, "{value}");
        let length = text.position() as usize;
        self.push(name, &text.get_ref()[..length]);
    }
}

/// The longest text of an IPv6 address, in bytes, as of INET6_ADDRSTRLEN.
const LONGEST_DISPLAYED: usize = 46;

/// Fields that are parameters without `HTTP_`.
const OWN_PARAMETERS: [&[u8]; 2] = [b"content-length", b"content-type"];

/// SERVER_SOFTWARE: the name of HAProxy and the version, as the manual says.
const SOFTWARE: &str = concat!("HAProxy 3.5.0-weir", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::path::Path;

    use super::*;

    fn at() -> weir_expr::Location {
        weir_expr::Location { file: "c.cfg".into(), line: 1 }
    }

    fn application() -> FcgiApplication {
        FcgiApplication { docroot: "/srv".into(), ..FcgiApplication::new("a", at()) }
    }

    fn head(target: &str, fields: &[(&str, &str)]) -> Head {
        let mut head = Head::default();
        head.start_request(b"POST", target.as_bytes(), Version::HTTP_11).expect("room");
        fields.iter().for_each(|(name, value)| head.add(name.as_bytes(), value.as_bytes()).expect("room"));
        head
    }

    fn request<'r>(application: &'r FcgiApplication, head: &'r Head) -> CgiRequest<'r> {
        CgiRequest {
            application,
            head,
            raw: b"",
            length: 3,
            source: None,
            destination: None,
            is_secured: false,
        }
    }

    fn inet(port: u16) -> Address {
        Address::Inet(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), port))
    }

    /// The parameters as lines.
    fn lines(params: &Params) -> Vec<String> {
        let pairs = weir_fcgi::pairs(params.bytes()).expect("well-formed");
        pairs
            .map(|(name, value)| {
                format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            })
            .collect()
    }

    fn defaults(request: &CgiRequest<'_>, overwritten: &[u8]) -> Vec<String> {
        let mut params = Params::new();
        let overwrites = |name: &[u8]| name == overwritten;
        request.write_defaults(&mut params, &overwrites, &mut b"rest".to_vec()).expect("a path");
        lines(&params)
    }

    #[test]
    fn a_request_of_a_client_has_the_parameters_of_the_manual() {
        let application = FcgiApplication { index: Some("i.php".into()), ..application() };
        let head = head("/%41/?q", &[("host", "h:1"), ("content-type", "a/b")]);
        let (source, destination) = (inet(1), inet(2));
        let ends = (Some(&source), Some(&destination));
        let request = CgiRequest {
            source: ends.0,
            destination: ends.1,
            is_secured: true,
            ..request(&application, &head)
        };
        let software = format!("SERVER_SOFTWARE={SOFTWARE}");
        assert_eq!(
            defaults(&request, b""),
            [
                "DOCUMENT_ROOT=/srv",
                "SCRIPT_FILENAME=/srv/A/i.php",
                "SCRIPT_NAME=/A/i.php",
                "REQUEST_URI=/%41/?q",
                "REQUEST_METHOD=POST",
                "QUERY_STRING=q",
                "SERVER_PROTOCOL=HTTP/1.1",
                "CONTENT_TYPE=a/b",
                "REMOTE_ADDR=10.0.0.1",
                "REMOTE_PORT=1",
                "SERVER_NAME=h:1",
                "SERVER_PORT=2",
                "HTTPS=on",
                "GATEWAY_INTERFACE=CGI/1.1",
                &software,
                "CONTENT_LENGTH=3",
            ]
        );
    }

    #[test]
    fn a_check_has_a_remote_port_only() {
        let (application, head, destination) = (application(), head("/", &[]), inet(2));
        let request = CgiRequest { destination: Some(&destination), ..request(&application, &head) };
        let found = defaults(&request, b"");
        let ends: Vec<_> =
            found.iter().filter(|line| line.starts_with("REMOTE") || line.starts_with("SERVER_N")).collect();
        assert_eq!(ends, ["REMOTE_PORT=0", "SERVER_NAME=10.0.0.1"]);
    }

    #[test]
    fn ends_without_an_ip_address_are_unix() {
        let (application, head, source) =
            (application(), head("/", &[]), Address::Unix(Path::new("/s").into()));
        let found = defaults(&CgiRequest { source: Some(&source), ..request(&application, &head) }, b"");
        for line in ["REMOTE_ADDR=unix", "REMOTE_PORT=0", "SERVER_NAME=unix", "SERVER_PORT=0"] {
            assert!(found.iter().any(|one| one == line), "{line}: {found:?}");
        }
    }

    #[test]
    fn overwritten_defaults_are_left_out_except_the_length() {
        let (application, head) = (application(), head("/", &[]));
        let request = request(&application, &head);
        let has = |overwritten: &[u8], start: &str| {
            defaults(&request, overwritten).iter().any(|line| line.starts_with(start))
        };
        assert!(has(b"", "REQUEST_METHOD=") && !has(b"REQUEST_METHOD", "REQUEST_METHOD="));
        assert!(has(b"CONTENT_LENGTH", "CONTENT_LENGTH=3"));
    }

    #[test]
    fn path_info_divides_the_path_or_refuses_it() {
        let regex = Regex::new(r"^(/.+\.php)(/.*)?$", false, &at()).expect("a regex");
        let application = FcgiApplication { path_info: Some(std::sync::Arc::new(regex)), ..application() };
        let found = defaults(&request(&application, &head("/a.php/b", &[])), b"");
        assert_eq!(
            found[1..5],
            ["SCRIPT_FILENAME=/srv/a.php", "SCRIPT_NAME=/a.php", "PATH_INFO=/b", "PATH_TRANSLATED=/srv/b"]
        );
        for path in ["/a.php%0a/b", "/a.php%00", "/a.php%zz"] {
            let head = head(path, &[]);
            let written =
                request(&application, &head).write_defaults(&mut Params::new(), &|_| false, &mut Vec::new());
            assert_eq!(written, Err(IndivisiblePath), "{path}");
        }
    }

    #[test]
    fn fields_become_parameters_unless_hidden() {
        let (application, head) = (
            application(),
            head("/", &[("X-a", "1"), ("content-type", "a/b"), ("Content-Length", "3"), ("te", "x")]),
        );
        let mut params = Params::new();
        request(&application, &head).write_fields(&mut params, |name| name == b"te");
        assert_eq!(lines(&params), ["HTTP_X_A=1"]);
    }
}
