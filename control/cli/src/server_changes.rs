//! Changes of servers as operators write them: the texts that commands and scripts pass on.

use std::net::IpAddr;

use weir_backend::WeightChange;
use weir_backend::settings::parse_maximum_connections;

use crate::target::{AddressChange, PortSetting, ProxyTarget, ServerKey, ServerRefusal};

/// Sets the weight of a server: `<weight>` or `<weight>%`.
///
/// # Errors
/// If the text is not a weight, or the backend cannot use it.
pub fn set_weight(
    target: &mut (impl ProxyTarget + ?Sized),
    key: ServerKey,
    text: &str,
) -> Result<(), ServerRefusal> {
    let view = target.server_view(key).ok_or(ServerRefusal::Gone)?;
    let change = WeightChange::parse(text).map_err(|why| ServerRefusal::Because(why.to_owned()))?;
    let weight = change.apply(view.initial_weight);
    if view.static_balance && weight != 0 && weight != view.initial_weight {
        return Err(ServerRefusal::Because(
            "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.".to_owned(),
        ));
    }
    target.set_server_weight(key, weight)
}

/// Sets the maximum of concurrent connections of a server.
///
/// # Errors
/// If the text is not a number.
pub fn set_maximum_connections(
    target: &mut (impl ProxyTarget + ?Sized),
    key: ServerKey,
    text: &str,
) -> Result<(), ServerRefusal> {
    let maximum = parse_maximum_connections(text).map_err(|text| ServerRefusal::Because(text.to_string()))?;
    target.set_server_maxconn(key, maximum)
}

/// Sets the address of a server, and its port. Returns a sentence about the changes, or the reason why nothing changed. `by` is the
/// source of the change.
///
/// # Errors
/// If the server cannot have this address.
pub fn set_address(
    target: &mut (impl ProxyTarget + ?Sized),
    key: ServerKey,
    text: &str,
    port_word: Option<&str>,
    by: &str,
) -> Result<String, ServerRefusal> {
    let view = target.server_view(key).ok_or(ServerRefusal::Gone)?;
    let Ok(address) = text.parse::<IpAddr>() else { return Ok(format!("Invalid addr '{text}'")) };
    // Validate everything before any change.
    let mut change = AddressChange { address: None, port: None };
    let mut changes = Vec::new();
    if view.address != Some(address) {
        change.address = Some(address);
        let old = view.address.map_or_else(|| "none".to_owned(), |old| old.to_string());
        changes.push(format!("IP changed from '{old}' to '{address}'"));
    }
    if let Some(word) = port_word {
        match port(word) {
            None => return Ok(format!("problem converting port '{word}' to an int")),
            Some(setting) if setting == view.port => {}
            Some(setting) => {
                change.port = Some(setting);
                changes.push(format!("port changed from '{}' to '{setting}'", view.port));
            }
        }
    }
    if changes.is_empty() {
        return Ok("nothing changed".to_owned());
    }
    target.set_server_address(key, change)?;
    Ok(format!("{} by '{by}'", changes.join(", ")))
}

/// Parses a port: `80`, or `+5` or `-5` relative to the client's destination port.
fn port(word: &str) -> Option<PortSetting> {
    let digits = word.trim_start_matches(['+', '-']);
    let number: u16 = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    match word.len() - digits.len() {
        0 if number > 0 => Some(PortSetting::Fixed(number)),
        1 if word.starts_with('-') => Some(PortSetting::Offset(-i32::from(number))),
        1 => Some(PortSetting::Offset(i32::from(number))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_fixed_and_relative_ports() {
        for (word, expected) in [
            ("80", Some(PortSetting::Fixed(80))),
            ("+5", Some(PortSetting::Offset(5))),
            ("-5", Some(PortSetting::Offset(-5))),
            ("0", None),
            ("", None),
            ("x", None),
            ("++5", None),
            ("65536", None),
        ] {
            assert_eq!(port(word), expected, "{word}");
        }
    }
}
