//! Changes of servers and frontends by an operator, and what the logs hear of them.
//!
//! The runtime API and the form of the statistics page both come through here, so that a change is always made and
//! announced in the same way. The texts are what log processors of the reference program look for.

use weir_backend::{Change, ChangeError, News, Passage, Reason, Server, Urgency};
use weir_events::Level;
use weir_stream::ending::By;
use weir_stream::instance::{Proxy, ProxyState};
use weir_stream::log::announce;

use super::{Live, mail, now_ms, session_target};

/// Changes a server for an operator, and says what came of it.
pub(super) fn change_server(
    live: Live,
    proxy: &Proxy,
    server: &Server,
    change: Change,
) -> Result<(), ChangeError> {
    let Some(backend) = &proxy.backend else { return Err(ChangeError::NoSuchServer) };
    let news = backend.change_for(server.key(), change, Reason::Operator, now_ms())?;
    tell(live, &news);
    Ok(())
}

/// Tells the logs what came of a change.
pub(super) fn tell(live: Live, news: &News) {
    for notice in &news.notices {
        let Some(proxy) = live.instance.proxies.get(notice.proxy) else { continue };
        let level = match notice.urgency {
            Urgency::Emergency => Level::Emergency,
            Urgency::Alert => Level::Alert,
            Urgency::Notice => Level::Notice,
        };
        say(live, proxy, level, &notice.text);
        if let Some(level) = notice.mail {
            mail::send(live, proxy, level, &notice.text);
        }
    }
    for passage in &news.passages {
        let Some(proxy) = live.instance.proxies.get(passage.proxy) else { continue };
        end_sessions(proxy, passage);
    }
}

/// Ends the sessions that a server's line wants to be ended when it goes down or comes up (manual, "on-marked-down" and
/// "on-marked-up").
fn end_sessions(proxy: &'static Proxy, passage: &Passage) {
    let Some(known) = proxy.known_server(passage.server.key()) else { return };
    let said = &known.settings.check;
    if !passage.is_up && said.shuts_down_sessions {
        session_target::shutdown_on_server(proxy.index, passage.server.key(), By::Down);
    }
    let returns = passage.is_up
        && said.shuts_down_backups
        && !passage.server.settings().backup
        && passage.server.effective_weight(now_ms()) > 0;
    if returns && let Some(backend) = &proxy.backend {
        for server in backend.servers().iter().filter(|server| server.settings().backup) {
            session_target::shutdown_on_server(proxy.index, server.key(), By::Up);
        }
    }
}

/// Pauses, resumes or stops a frontend, and says so. False when it cannot be resumed: another process has its address.
pub(super) fn change_frontend_state(live: Live, proxy: &Proxy, state: ProxyState) -> bool {
    let Some(life) = live.record.life.get() else {
        // Nothing listens yet.
        proxy.set_state(state);
        return true;
    };
    let name = proxy.name();
    match state {
        ProxyState::Stopped => life.stop_frontend(proxy),
        ProxyState::Paused => {
            life.pause_frontend(proxy);
            say(live, proxy, Level::Warning, &format!("Paused frontend {name}."));
        }
        ProxyState::Open => {
            if !life.resume_frontend(proxy) {
                return false;
            }
            say(live, proxy, Level::Warning, &format!("Resumed frontend {name}."));
        }
    }
    true
}

/// Tells the proxy's logs, and standard error.
fn say(live: Live, proxy: &Proxy, level: Level, text: &str) {
    announce(proxy, level, text.as_bytes());
    if let Some(messages) = live.record.messages {
        match level {
            Level::Emergency => messages.alert(text),
            _ => messages.warning(text),
        }
    }
}
