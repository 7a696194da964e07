//! The words of a server line about run-time name resolution.

use std::sync::Arc;

use super::{NOT_ADDED, ServerReader, option};
use crate::address::network;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::words::fault;

pub(super) const READY: &[Row<ServerReader>] = &[
    option(
        "resolve-net",
        "<network>[,<network>]*",
        "10.0.0.0/8",
        "networks with preferred addresses",
        |server, words| {
            let word = words.expect("'resolve-net' expects a list of networks.")?;
            let mut networks = Vec::new();
            for text in word.text().split(',') {
                let known = network(text)
                    .ok_or_else(|| fault(word.span(), format!("'resolve-net' invalid network '{text}'.")))?;
                networks.push(known);
                if networks.len() > MOST_NETWORKS {
                    let message = format!("'resolve-net' exceed {MOST_NETWORKS} networks.");
                    return Err(fault(word.span(), message));
                }
            }
            server.settings.resolution.networks = networks.into();
            Ok(())
        },
    )
    .with(NOT_ADDED),
    option(
        "resolve-opts",
        "<option>[,<option>]*",
        "allow-dup-ip,ignore-weight",
        "whether addresses may be shared, and whether weights of services count",
        |server, words| {
            let word = words.expect("'resolve-opts' expects a list of options.")?;
            for name in word.text().split(',') {
                let resolution = &mut server.settings.resolution;
                match name {
                    "allow-dup-ip" => resolution.allows_duplicates = true,
                    "prevent-dup-ip" => resolution.allows_duplicates = false,
                    "ignore-weight" => resolution.ignores_weight = true,
                    _ => {
                        let message = format!(
                            "'resolve-opts' : unknown resolve-opts option '{name}', supported methods \
                             are 'allow-dup-ip', 'ignore-weight', and 'prevent-dup-ip'."
                        );
                        return Err(fault(word.span(), message));
                    }
                }
            }
            Ok(())
        },
    )
    .with(NOT_ADDED)
    .values(&[
        ("prevent-dup-ip", "an address is that of one server (the default)"),
        ("allow-dup-ip", "several servers may have the same address"),
        ("ignore-weight", "weights of services (SRV) do not count"),
    ]),
    option("resolve-prefer", "{ ipv4 | ipv6 }", "ipv4", "address family to query first", |server, words| {
        let expects = "'resolve-prefer' expects either ipv4 or ipv6 as argument.";
        let word = words.expect(expects)?;
        server.settings.resolution.prefers_ipv4 = match word.text() {
            "ipv4" => true,
            "ipv6" => false,
            _ => return Err(fault(word.span(), expects)),
        };
        Ok(())
    })
    .with(NOT_ADDED)
    .default(Written("ipv6")),
    option(
        "resolvers",
        "<id>",
        "dns",
        "section with the name servers to query for its name at run time",
        |server, words| {
            let word = words.expect("'resolvers' expects the name of a section.")?;
            server.settings.resolution.section = Some(Arc::from(word.text()));
            Ok(())
        },
    )
    .with(NOT_ADDED)
    .default(Described("names are resolved at the start only")),
];

/// Maximum number of preferred networks, as in HAProxy.
const MOST_NETWORKS: usize = 5;
