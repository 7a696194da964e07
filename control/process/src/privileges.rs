//! Settings that need privileges at run time, and whether the process will have these privileges (R159).

use weir_model::{Config, Location, RulesetKind, Source};
use weir_sys::capability::Capabilities;

/// A setting that needs a privilege at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The setting as written.
    pub what: &'static str,
    /// The position of the setting. For `source`, the position of the server or section.
    pub at: Location,
}

/// All settings that need a privilege at run time. Listening sockets are not included: they are opened before privileges are
/// dropped.
pub(crate) fn needs(config: &Config) -> Vec<Need> {
    let mut needs = Vec::new();
    for proxy in &config.proxies {
        for rule in RulesetKind::ALL.iter().flat_map(|kind| proxy.rules.get(*kind)) {
            needs.extend(rule.action.facts().privileged.map(|what| Need { what, at: rule.at.clone() }));
        }
        needs.extend(proxy.settings.source.as_deref().and_then(|source| of_source(source, &proxy.at)));
        let servers = proxy.servers.iter();
        needs.extend(servers.filter_map(|server| of_source(server.settings.source.as_deref()?, &server.at)));
    }
    for ring in &config.rings {
        let servers = ring.servers.iter();
        needs.extend(servers.filter_map(|server| of_source(server.settings.source.as_deref()?, &ring.at)));
    }
    needs
}

fn of_source(source: &Source, at: &Location) -> Option<Need> {
    let what = match (&source.transparent, &source.interface) {
        (Some(_), _) => "source ... usesrc",
        (None, Some(_)) => "source ... interface",
        (None, None) => return None,
    };
    Some(Need { what, at: at.clone() })
}

/// Checks that the capabilities `held` suffice. The error contains the missing one.
pub(crate) fn check(needs: &[Need], held: Capabilities) -> Result<(), String> {
    let enough = [Capabilities::NET_ADMIN, Capabilities::NET_RAW, Capabilities::SYS_ADMIN];
    let Some(first) = needs.first().filter(|_| !enough.into_iter().any(|one| held.contains(one))) else {
        return Ok(());
    };
    let others = match needs.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more line)".to_owned(),
        more => format!(" (and {more} more lines)"),
    };
    Err(format!(
        "[weir.main()] [{}] : '{}' requires full privileges{others}: the process cannot serve this as another user than root. \
         'setcap cap_net_raw', 'setcap cap_net_admin' or 'setcap cap_sys_admin' in the global section keeps what it takes.",
        first.at, first.what
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r159_any_one_of_three_capabilities_permits_set_fc_mark() {
        let need = |line| Need { what: "set-fc-mark", at: Location::new("a.cfg".into(), line) };
        assert_eq!(check(&[], Capabilities::NONE), Ok(()));
        for name in ["cap_net_admin", "cap_net_raw", "cap_sys_admin"] {
            let held = Capabilities::named(name).expect("known").with(Capabilities::NET_BIND_SERVICE);
            assert_eq!(check(&[need(7)], held), Ok(()), "{name}");
        }
        for (needs, words) in [
            (vec![need(7)], "[a.cfg:7] : 'set-fc-mark' requires full privileges: "),
            (vec![need(7), need(8)], "privileges (and 1 more line): "),
            (vec![need(7), need(8), need(9)], "privileges (and 2 more lines): "),
        ] {
            let refusal = check(&needs, Capabilities::NET_BIND_SERVICE).expect_err("not enough");
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}
