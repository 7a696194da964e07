//! A connection to the leased server: an idle one if the rules of `http-reuse` allow it, else a new one.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;
use std::time::Duration;

use weir_backend::{ConnectionKeys, ConnectionParts, ServerAddress};
use weir_config::model::{self, SendProxy};
use weir_mux::StreamConnector;
use weir_net::{Connection, Fault, Sent};
use weir_sched::{Descriptor, wait};
use weir_sys::{Address, Errno, option};

use super::idle::{self, InUse};
use super::retry::Failure;
use crate::clock;
use crate::counters::Event;
use crate::ending::{By, During};
use crate::exchange::{Exchange, PastConnection, Stop, Upstream};
use crate::site::KnownServer;

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The attempt failed: another may follow.
    Failed(Failure),
    /// The stream ends.
    Stop(Stop),
}

impl From<Stop> for ConnectError {
    fn from(stop: Stop) -> Self {
        ConnectError::Stop(stop)
    }
}

impl From<Fault> for ConnectError {
    fn from(fault: Fault) -> Self {
        ConnectError::Failed(Failure::Refused(Some(fault)))
    }
}

impl From<Errno> for ConnectError {
    fn from(errno: Errno) -> Self {
        Fault::from(errno).into()
    }
}

impl Exchange {
    /// A connection to the leased server.
    pub(super) async fn connect(&mut self) -> Result<Upstream, ConnectError> {
        self.count_server_session();
        let identity = self.connection_identity();
        if let Some(upstream) = self.idle_connection(identity.key).await {
            self.facts.on_reused_connection = true;
            self.count(Event::Reuse);
            self.trace_connection(true);
            return Ok(upstream);
        }
        self.facts.on_reused_connection = false;
        self.trace_connection(false);
        self.connect_anew(identity).await
    }

    /// An idle connection that may serve this request: the client's own, this worker's, or another's.
    async fn idle_connection(&mut self, key: u64) -> Option<Upstream> {
        if !self.facts.have_request || self.facts.fresh_connection_only {
            return None;
        }
        if let Some(upstream) = idle::take_own(self, key) {
            return Some(upstream);
        }
        let wanted = idle::usable(self)?;
        match idle::take(self, key, wanted) {
            None if self.site.figures.len() > 1 => idle::take_over(self, key, wanted).await,
            taken => taken,
        }
    }

    /// What two requests must have in common to use the same connection (manual, "http-reuse").
    fn connection_identity(&mut self) -> Identity {
        static KEYS: LazyLock<ConnectionKeys> = LazyLock::new(ConnectionKeys::default);
        let known = self.known_server();
        let settings = known.as_ref().map(|known| &known.settings);
        let transparent = self.backend.is_transparent();
        let (source, follows_client) = crate::source::chosen(self);
        let mut header = crate::recycle::bytes();
        if let Some(send_proxy) = settings.and_then(|settings| settings.send_proxy) {
            self.write_proxy_header(send_proxy, &mut header);
        }
        let name = settings
            .and_then(|settings| settings.pool_connection_name.as_ref())
            .and_then(|name| self.evaluate_string(name));
        let destination = if transparent || self.destination_varies() {
            self.server_address().and_then(|address| address.inet())
        } else {
            None
        };
        let marks = (self.facts.backend_mark, self.facts.backend_tos);
        let parts = ConnectionParts {
            source,
            destination,
            announced: Some(&header[..]).filter(|header| !header.is_empty()),
            server_name: None,
            name: name.as_ref().map(|name| name.as_slice()),
            marks: (marks != (None, None)).then_some(marks),
        };
        let key = if parts == ConnectionParts::default() { 0 } else { KEYS.key(&parts) };
        // What names the client's own port serves nobody else.
        Identity { key, private: transparent || follows_client || !header.is_empty() }
    }

    /// Whether the address to connect to is another one than the configuration wrote.
    fn destination_varies(&self) -> bool {
        let Some(lease) = &self.lease else { return false };
        let server = lease.server();
        let known = self.backend.known_server(server.key());
        let follows_client = match known.as_ref().map(|known| &known.address) {
            Some(model::ServerAddress::Inet { host, port }) => {
                matches!(port, model::ServerPort::Mapped(_))
                    || matches!(host, model::Host::Ip(ip) if ip.is_unspecified())
            }
            _ => false,
        };
        follows_client || *server.address() != server.settings().address
    }

    async fn connect_anew(&mut self, identity: Identity) -> Result<Upstream, ConnectError> {
        let descriptor = match self.server_pair() {
            Some(pair) => {
                let pair = weir_sys::process::duplicate_number(pair)?;
                Descriptor::register(weir_sys::pass::pass_connection(pair)?)?
            }
            None => {
                let target = self.server_address().ok_or(ConnectError::Failed(Failure::Refused(None)))?;
                let socket = self.find_socket(&target).await?;
                Descriptor::connect(socket, &target)?
            }
        };
        self.count(Event::Connect);
        idle::opened(self, &descriptor);
        let in_use = InUse::begin(self);
        descriptor.set_owner(weir_sched::current());
        let mut connection = Connection::new(descriptor);
        connection.privilege();
        let mut stands = self.await_connected(&connection).await;
        let mut connector = StreamConnector::own(connection);
        if stands.is_ok() {
            stands = self.send_proxy_header(&mut connector);
        }
        if stands.is_err() {
            self.past_connection = Some(PastConnection::of(&connector, false, false));
        }
        stands?;
        let Identity { key, private } = identity;
        Ok(Upstream { connector, reused: false, requests: 0, counted: (0, 0), key, private, in_use })
    }

    /// Waits until the connection stands.
    async fn await_connected(&mut self, connection: &Connection) -> Result<(), ConnectError> {
        let deadline = clock::after_some(self.timeouts.connect);
        let mut first = true;
        loop {
            if connection.descriptor().finish_connect()? {
                return Ok(());
            }
            self.check_alive()?;
            // Most connections stand at the second look: who has said everything already still gets an answer.
            if !std::mem::take(&mut first) && self.client_left() {
                return Err(Stop::close(By::Client, During::Connect).into());
            }
            if clock::passed(deadline) {
                return Err(ConnectError::Failed(Failure::ConnectTimeout));
            }
            wait(deadline).await;
        }
    }

    /// The inherited pair of sockets over which the server takes its connections, if it does.
    fn server_pair(&self) -> Option<i32> {
        match *self.chosen_server()?.address() {
            ServerAddress::Pair(number) => Some(number),
            _ => None,
        }
    }

    /// Where the leased server is, for this stream: its port may follow the client's.
    pub(crate) fn server_address(&self) -> Option<Address> {
        if self.backend.is_transparent() {
            return Some(self.session.destination().clone());
        }
        let server = self.chosen_server()?;
        let destination = self.session.destination();
        Some(match &*server.address() {
            ServerAddress::Ip(address) => {
                let mut address = *address;
                let known = self.backend.known_server(server.key());
                if let Some(model::ServerAddress::Inet { port: model::ServerPort::Mapped(offset), .. }) =
                    known.as_ref().map(|known| &known.address)
                {
                    let port = i64::from(destination.port()) + i64::from(*offset);
                    address.set_port(u16::try_from(port).ok()?);
                }
                if address.ip().is_unspecified()
                    && let Some(SocketAddr::V4(_) | SocketAddr::V6(_)) = destination.inet()
                {
                    address.set_ip(destination.ip()?);
                }
                Address::Inet(address)
            }
            ServerAddress::Unix(path) => Address::Unix(path.clone()),
            ServerAddress::Abstract(name) => Address::Abstract(name.clone().into()),
            ServerAddress::Pair(_) => Address::Unnamed,
            ServerAddress::Unknown => return None,
        })
    }

    /// A socket, if need be for the descriptor of an idle connection.
    async fn find_socket(&mut self, target: &Address) -> Result<OwnedFd, ConnectError> {
        for _ in 0..ATTEMPTS {
            match self.open_socket(target) {
                Err(ConnectError::Failed(Failure::Refused(Some(fault))))
                    if fault.is_lack_of_descriptors() => {}
                other => return other,
            }
            // Somebody else may be quicker to use what is free then.
            idle::make_room().await;
        }
        self.open_socket(target)
    }

    fn open_socket(&mut self, target: &Address) -> Result<OwnedFd, ConnectError> {
        let socket = Descriptor::stream_socket(target.family())?;
        self.site.limits.server_sockets.apply(&socket);
        if !target.is_unix() {
            option::set_no_delay(&socket, true)?;
            let settings = &self.backend.config.settings;
            if settings.options.server_keep_alive {
                let parameters = crate::keepalive::parameters(&settings.server_keep_alive);
                // Parameters that the kernel does not take leave its own: traffic goes on.
                let _ = option::set_keep_alive(&socket, parameters);
            }
            let known = self.known_server();
            let server = known.as_ref().map(|known| &known.settings);
            if let Some(timeout) = server.and_then(|server| server.tcp_user_timeout) {
                let _ = option::set_user_timeout(&socket, milliseconds(timeout));
            }
            if server.is_some_and(|server| server.tcp_fast_open) {
                let _ = option::set_fast_open_connect(&socket);
            }
            if settings.options.no_linger {
                let _ = option::set_no_linger(&socket);
            }
            if settings.options.tcp_smart_connect {
                let _ = option::set_quick_ack(&socket, false);
            }
            crate::source::bind(self, &socket, target)?;
            crate::source::mark(self, &socket, target)?;
        }
        Ok(socket)
    }

    fn send_proxy_header(&mut self, connector: &mut StreamConnector) -> Result<(), ConnectError> {
        let Some(send_proxy) = self.known_server().and_then(|known| known.settings.send_proxy) else {
            return Ok(());
        };
        let mut header = Vec::new();
        self.write_proxy_header(send_proxy, &mut header);
        // In TCP mode it may be the server that speaks first, and then the header must not wait for more.
        let more = self.backend.is_http() || !self.client.input().is_empty();
        match connector.send_head(&header, more) {
            Sent::Failed(fault) => Err(fault.into()),
            _ => Ok(()),
        }
    }

    fn write_proxy_header(&mut self, send_proxy: SendProxy, header: &mut Vec<u8>) {
        match send_proxy {
            SendProxy::V1 => crate::proxy_header::write_v1(self, header),
            SendProxy::V2 => crate::proxy_header::write_v2(self, header),
        }
    }

    /// What was said about the leased server.
    pub(crate) fn known_server(&self) -> Option<KnownServer> {
        self.backend.known_server(self.lease.as_ref()?.server().key())
    }
}

/// How often an idle connection is closed for a new one's sake.
const ATTEMPTS: usize = 3;

/// What tells connections to one server apart.
#[derive(Clone, Copy)]
struct Identity {
    /// 0 when nothing depends on the request.
    key: u64,
    /// It may only serve this client.
    private: bool,
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
