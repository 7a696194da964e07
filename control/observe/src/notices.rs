//! Applies an operator's changes to servers and frontends, and logs them.
//!
//! The runtime API and the form of the statistics page both use these functions, so that every change is applied and logged in the
//! same way. Log processors for HAProxy depend on this wording.

use std::collections::VecDeque;

use weir_backend::{
    BackendNews, BatchEnd, ChangeError, EjectionEnd, Followers, Passage, Reason, Server, ServerChange,
    Urgency,
};
use weir_events::Level;
use weir_sched::{Class, Tick, WorkKind};
use weir_stream::ending::By;
use weir_stream::instance::{Proxy, ProxyState};
use weir_stream::log::announce;

use super::{LiveProcess, mail, now_ms, script_events, session_target};

/// Changes a server on behalf of an operator, and logs the result.
pub(super) fn change_server(
    live: &LiveProcess,
    proxy: &Proxy,
    server: &Server,
    change: ServerChange,
) -> Result<(), ChangeError> {
    let Some(backend) = &proxy.backend else { return Err(ChangeError::NoSuchServer) };
    let news = backend.change_for(server.key(), change, Reason::Operator, now_ms())?;
    report(live, news);
    Ok(())
}

/// Logs the result of a change, and starts delayed follow-up work.
pub(super) fn report(live: &LiveProcess, news: BackendNews) {
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
    for end in &news.ejections {
        weir_sched::spawn(&EJECTION_END, Class::Normal, end_ejections(live.clone(), *end));
    }
    for end in &news.batches {
        weir_sched::spawn(&BATCH_END, Class::Normal, settle(live.clone(), *end));
    }
    script_events::publish_changes(live, news.events);
    if !news.later.is_empty() {
        weir_sched::spawn(&FOLLOWERS, Class::Normal, notify_followers(live.clone(), news.later));
    }
}

/// Applies changes to the servers that track the changed ones, a portion at a time.
async fn notify_followers(live: LiveProcess, later: Vec<Followers>) {
    let mut later = VecDeque::from(later);
    while let Some(followers) = later.pop_front() {
        weir_sched::yield_now().await;
        let mut news = followers.go_on(now_ms());
        // Followers of a follower precede the next followers of its leader.
        for followers in std::mem::take(&mut news.later).into_iter().rev() {
            later.push_front(followers);
        }
        report(&live, news);
    }
}

/// Waits for the end of an ejection, then ends it.
async fn end_ejections(live: LiveProcess, end: EjectionEnd) {
    weir_sched::sleep_until(Tick::from_ms(end.at_ms)).await;
    let proxy = live.instance.proxies.get(end.proxy);
    if let Some(backend) = proxy.and_then(|proxy| proxy.backend.as_ref()) {
        report(&live, backend.end_ejections(now_ms()));
    }
}

/// Recomputes the servers for new sessions after a batch of changes, if that was postponed.
async fn settle(live: LiveProcess, end: BatchEnd) {
    weir_sched::sleep_until(Tick::from_ms(end.at_ms)).await;
    let proxy = live.instance.proxies.get(end.proxy);
    if let Some(backend) = proxy.and_then(|proxy| proxy.backend.as_ref()) {
        backend.settle();
    }
}

static FOLLOWERS: WorkKind = WorkKind::new("servers that follow others");

static BATCH_END: WorkKind = WorkKind::new("batch of server changes");

static EJECTION_END: WorkKind = WorkKind::new("ejection end");

/// Kills sessions when a server goes down or comes up, as configured (manual, "on-marked-down" and "on-marked-up").
fn end_sessions(proxy: &Proxy, passage: &Passage) {
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

/// Pauses, resumes or stops a frontend, and logs it. False if it cannot be resumed because another process has bound its address.
pub(super) fn change_frontend_state(live: &LiveProcess, proxy: &Proxy, state: ProxyState) -> bool {
    let Some(frontends) = &live.record.frontends else {
        // The listening sockets do not exist yet.
        proxy.set_state(state);
        return true;
    };
    let name = proxy.name();
    match state {
        ProxyState::Stopped => frontends.stop(proxy),
        ProxyState::Paused => {
            frontends.pause(proxy);
            say(live, proxy, Level::Warning, &format!("Paused frontend {name}."));
        }
        ProxyState::Open => {
            if !frontends.resume(proxy) {
                return false;
            }
            say(live, proxy, Level::Warning, &format!("Resumed frontend {name}."));
        }
    }
    true
}

/// Writes to the proxy's logs, and to standard error.
fn say(live: &LiveProcess, proxy: &Proxy, level: Level, text: &str) {
    announce(proxy, level, text.as_bytes());
    if let Some(messages) = live.record.messages {
        match level {
            Level::Emergency => messages.alert(text),
            _ => messages.warning(text),
        }
    }
}
