//! A helper process that connects to UNIX log sockets outside the root directory ([`weir_events::connector`]).

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use weir_events::connector;
use weir_model::{Config, LogAddress, LogTarget, ServerAddress};
use weir_sys::process::{self, Fork, NullDevice};

use crate::process::ProcessIdentity;
use weir_observe::messages::Messages;

/// Starts the helper if the configuration logs to UNIX sockets and changes the root directory. Call it before a second thread starts.
///
/// # Errors
/// If the kernel cannot create the process or a socket.
pub(crate) fn start(
    config: &Config,
    identity: &ProcessIdentity,
    messages: &Messages,
) -> weir_sys::Result<()> {
    let paths = paths(config);
    if paths.is_empty() || !identity.changes_root() {
        return Ok(());
    }
    let (near, far) = connector::channel()?;
    match process::fork()? {
        Fork::Parent(_) => {
            connector::install(near, &paths);
            Ok(())
        }
        Fork::Child => {
            // The parent notices the closed channel, and reports unreachable targets.
            let status = run(&far, &paths, identity, messages);
            process::end(u8::from(status.is_err()));
        }
    }
}

/// The helper. It has the workers' privileges, but the original root directory, and none of the parent's sockets. The helper survives
/// signals to its process group, because the parent still logs after them, and exits with the parent.
fn run(
    channel: &OwnedFd,
    paths: &[PathBuf],
    identity: &ProcessIdentity,
    messages: &Messages,
) -> Result<(), String> {
    let failed = |error: weir_sys::Errno| error.to_string();
    process::close_all_but(channel).map_err(failed)?;
    NullDevice::open().and_then(NullDevice::replace_standard_streams).map_err(failed)?;
    identity.become_user(messages)?;
    connector::serve(channel, paths);
    Ok(())
}

/// The paths of all UNIX sockets in log targets.
fn paths(config: &Config) -> Vec<PathBuf> {
    let of_targets = config.log_targets().filter_map(|target| path(target));
    let servers = config.proxies.iter().flat_map(|proxy| &proxy.servers).filter(|server| server.datagrams);
    let of_servers = servers.filter_map(|server| match &server.address {
        ServerAddress::Unix(path) => Some(path.clone()),
        _ => None,
    });
    of_targets.chain(of_servers).collect::<BTreeSet<_>>().into_iter().collect()
}

fn path(target: &LogTarget) -> Option<PathBuf> {
    match &target.address {
        LogAddress::Unix(path) => Some(path.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_the_syslog_socket_paths_of_all_sections() {
        let text = "global\n localpeer a\n log /g local0\ndefaults\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n log /d local0\n\
                    frontend f\n mode http\n bind :1\n log 127.0.0.1 local0\n log /g local1\n log abns@x local0\nlog-forward r\n \
                    dgram-bind 127.0.0.1:1\n log /r local0\npeers p\n log /p local0\n peer a 127.0.0.1:1\nbackend b\n mode log\n \
                    server s uxdg@/s\nbackend c\n server s unix@/stream\n";
        let config = crate::fixture::config(text).expect("a configuration");
        let paths: Vec<_> = paths(&config).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(paths, ["/d", "/g", "/p", "/r", "/s"]);
    }
}
