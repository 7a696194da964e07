//! The combined effects of checks, agents, traffic and operators on servers, and the resulting log lines.

use std::sync::Arc;
use weir_model::{InitialState, OnError};

use weir_backend::{
    AdminState, Backend, BackendSettings, CheckFinding, CheckKind, CheckRules, CheckStatus, MailLevel,
    Observation, ObserveRules, OperationalState, Reason, RemoveError, RequestedState, ServerChange,
    ServerKey, ServerSettings, TrackMember, TrafficSample, Urgency, WeightChange,
};

const FIRST: ServerKey = ServerKey::configured(0);

fn checked(name: &str, start: InitialState) -> ServerSettings {
    let check = Some(CheckRules { rise: 2, fall: 2, start });
    ServerSettings { name: name.to_owned(), id: 1, check, ..ServerSettings::default() }
}

fn backend(name: &str, servers: Vec<ServerSettings>) -> Arc<Backend> {
    Backend::new(BackendSettings { name: name.to_owned(), ..BackendSettings::default() }, servers, 0)
}

/// Reports an outcome and returns the log lines.
fn report(backend: &Backend, kind: CheckKind, status: CheckStatus) -> Vec<String> {
    let news = backend.report(FIRST, kind, CheckFinding { code: Some(200), ..CheckFinding::new(status) }, 1);
    news.notices.into_iter().map(|notice| notice.text).collect()
}

fn state(backend: &Backend) -> OperationalState {
    backend.server(FIRST).expect("a server").operational_state(1)
}

#[test]
fn logs_a_server_going_down_and_coming_up() {
    let backend = backend("be", vec![checked("s", InitialState::Up)]);
    let health = |status| report(&backend, CheckKind::Health, status);
    assert_eq!(
        health(CheckStatus::L4Connection),
        [
            "Server be/s is DOWN, reason: Layer4 connection problem, check duration: 0ms. 0 active and 0 backup servers left. \
         0 sessions active, 0 requeued, 0 remaining in queue.",
            "backend be has no server available!",
        ]
    );
    assert_eq!(state(&backend), OperationalState::Stopped);
    assert!(health(CheckStatus::L4Connection).is_empty());
    assert!(health(CheckStatus::L7Ok).is_empty());
    assert_eq!(
        health(CheckStatus::L7Ok),
        [
            "Server be/s is UP, reason: Layer7 check passed, code: 200, check duration: 0ms. 1 active and 0 backup servers \
         online. 0 sessions requeued, 0 total in queue."
        ]
    );
    assert_eq!(state(&backend), OperationalState::Running);
    assert_eq!(backend.server(FIRST).expect("a server").downs(), 1);
}

/// Leaving a state is logged. Going down for maintenance is not an alert. The loss of the last server is logged once.
#[test]
fn logs_a_line_for_each_state_command_of_an_operator() {
    use RequestedState::{Drain, Maintenance, Ready};
    let backend = backend("be", vec![checked("s", InitialState::Up)]);
    let nobody_left = "backend be has no server available!";
    for (order, line, is_last) in [
        (Drain, "Server be/s enters drain state. ", true),
        (Ready, "Server be/s is UP (leaving forced drain).", false),
        (Maintenance, "Server be/s is going DOWN for maintenance. ", true),
        (Drain, "Server be/s is UP/DRAIN (leaving forced maintenance).", false),
        (Maintenance, "Server be/s is going DOWN for maintenance. ", false),
        (Ready, "Server be/s is UP/READY (leaving forced maintenance).", false),
    ] {
        let news =
            backend.change_for(FIRST, ServerChange::State(order), Reason::Operator, 1).expect("a server");
        let texts: Vec<_> = news.notices.iter().map(|notice| notice.text.as_str()).collect();
        assert!(texts[0].starts_with(line), "{order:?}: {texts:?}");
        assert_eq!(texts.get(1) == Some(&nobody_left), is_last, "{order:?}: {texts:?}");
        assert_eq!(news.notices[0].mail, Some(MailLevel::Notice), "{order:?}");
    }
}

/// A server that is already down enters maintenance without going down again, so without an alert.
#[test]
fn a_downed_server_enters_maintenance_without_an_alert() {
    let backend = backend("be", vec![checked("s", InitialState::Up), ServerSettings::default()]);
    report(&backend, CheckKind::Health, CheckStatus::L4Timeout);
    assert_eq!(state(&backend), OperationalState::Stopped);
    let order = ServerChange::State(RequestedState::Maintenance);
    let news = backend.change_for(FIRST, order, Reason::Operator, 1).expect("a server");
    let said: Vec<_> = news.notices.iter().map(|notice| (notice.urgency, notice.text.as_str())).collect();
    assert_eq!(said, [(Urgency::Notice, "Server be/s was DOWN and now enters maintenance.")]);
}

#[test]
fn a_conditional_check_success_stops_new_sessions_of_a_running_server() {
    let backend = backend("be", vec![checked("s", InitialState::FullyDown)]);
    let health = |status| report(&backend, CheckKind::Health, status);
    health(CheckStatus::L7OkConditional);
    health(CheckStatus::L7OkConditional);
    assert_eq!(state(&backend), OperationalState::Stopped, "who is down stays down");
    health(CheckStatus::L7Ok);
    assert_eq!(state(&backend), OperationalState::Running);
    assert!(health(CheckStatus::L7OkConditional)[0].starts_with("Server be/s is stopping, reason: "));
    assert_eq!(state(&backend), OperationalState::Stopping);
    health(CheckStatus::L7Ok);
    assert_eq!(state(&backend), OperationalState::Running);
}

#[test]
fn a_server_downed_by_its_agent_needs_both_checks_to_recover() {
    let agent = Some(CheckRules { rise: 1, fall: 1, start: InitialState::FullyUp });
    let backend = backend("be", vec![ServerSettings { agent, ..checked("s", InitialState::FullyUp) }]);
    let report_check = |kind, status| report(&backend, kind, status);
    report_check(CheckKind::Agent, CheckStatus::L4Connection);
    assert_eq!(state(&backend), OperationalState::Running, "an agent that is away says nothing");
    report_check(CheckKind::Agent, CheckStatus::L7Status);
    assert_eq!(state(&backend), OperationalState::Stopped);
    report_check(CheckKind::Health, CheckStatus::L4Ok);
    assert_eq!(state(&backend), OperationalState::Stopped, "its check alone does not bring it back");
    report_check(CheckKind::Agent, CheckStatus::Checked);
    assert_eq!(state(&backend), OperationalState::Stopped);
    report_check(CheckKind::Agent, CheckStatus::L7Ok);
    assert_eq!(state(&backend), OperationalState::Running);
}

#[test]
fn an_inconclusive_check_changes_nothing() {
    let backend = backend("be", vec![checked("s", InitialState::Up)]);
    let finding = CheckFinding { inconclusive: true, ..CheckFinding::new(CheckStatus::SocketError) };
    let news = backend.report(FIRST, CheckKind::Health, finding, 1);
    assert!(news.notices.is_empty() && news.passages.is_empty());
    assert_eq!(state(&backend), OperationalState::Running);
    assert_eq!(backend.server(FIRST).and_then(|server| Some(server.health()?.record().failures)), Some(0));
}

#[test]
fn a_server_leaves_maintenance_in_its_initial_state() {
    let check = |start, expected| {
        let backend = backend("be", vec![checked("s", start)]);
        let request_state = |state| backend.change(FIRST, ServerChange::State(state), 1).expect("a server");
        report(&backend, CheckKind::Health, CheckStatus::L4Ok);
        request_state(RequestedState::Maintenance);
        assert_eq!(state(&backend), OperationalState::Stopped);
        report(&backend, CheckKind::Health, CheckStatus::L4Ok);
        assert_eq!(state(&backend), OperationalState::Stopped, "no check ends maintenance");
        request_state(RequestedState::Ready);
        assert_eq!(state(&backend), expected, "{start:?}");
    };
    check(InitialState::Up, OperationalState::Running);
    check(InitialState::FullyDown, OperationalState::Stopped);
}

#[test]
fn a_chain_of_followers_takes_the_state_of_its_leader() {
    let leader = backend("a", vec![checked("s", InitialState::Up)]);
    let plain = |name: &str| ServerSettings { name: name.to_owned(), id: 1, ..ServerSettings::default() };
    let (middle, last) = (backend("b", vec![plain("m")]), backend("c", vec![plain("l")]));
    let follow = |of: &Backend, by: &Arc<Backend>| {
        let follower = TrackMember { backend: Arc::downgrade(by), server: FIRST };
        assert!(of.add_follower(FIRST, follower));
    };
    follow(&leader, &middle);
    follow(&middle, &last);
    let lines = report(&leader, CheckKind::Health, CheckStatus::L4Timeout);
    let down = |line: &str| lines.iter().any(|other| other.starts_with(line));
    assert!(down("Server b/m is DOWN via a/s. ") && down("Server c/l is DOWN via b/m. "), "{lines:?}");
    assert_eq!(state(&last), OperationalState::Stopped);
    let request_state =
        |state| leader.change_for(FIRST, ServerChange::State(state), Reason::Operator, 1).expect("a server");
    let admin = || last.server(FIRST).expect("a server").admin_state();
    request_state(RequestedState::Maintenance);
    assert_eq!(admin(), AdminState::INHERITED_MAINTENANCE);
    request_state(RequestedState::Drain);
    assert_eq!((admin(), state(&last)), (AdminState::INHERITED_DRAIN, OperationalState::Running));
    request_state(RequestedState::Ready);
    assert_eq!((admin(), state(&last)), (AdminState::READY, OperationalState::Running));
}

#[test]
fn a_follower_that_leaves_maintenance_takes_its_leaders_state() {
    let leader = backend("a", vec![checked("s", InitialState::Up)]);
    let plain = ServerSettings { name: "f".to_owned(), id: 1, ..ServerSettings::default() };
    let follower_backend = backend("b", vec![plain]);
    assert!(
        leader.add_follower(FIRST, TrackMember { backend: Arc::downgrade(&follower_backend), server: FIRST })
    );
    let request_state = |state| {
        follower_backend.change_for(FIRST, ServerChange::State(state), Reason::Operator, 1).expect("a server")
    };
    request_state(RequestedState::Maintenance);
    report(&leader, CheckKind::Health, CheckStatus::L4Timeout);
    request_state(RequestedState::Ready);
    assert_eq!(state(&follower_backend), OperationalState::Stopped);
    report(&leader, CheckKind::Health, CheckStatus::L4Ok);
    report(&leader, CheckKind::Health, CheckStatus::L4Ok);
    assert_eq!(state(&follower_backend), OperationalState::Running);
}

#[test]
fn refuses_to_remove_a_server_with_followers() {
    let backend = backend("a", vec![checked("s", InitialState::Up)]);
    let add = |name: &str| {
        let settings = ServerSettings { name: name.to_owned(), ..ServerSettings::default() };
        backend.add(settings, 0).expect("a dynamic algorithm").key()
    };
    let (leader, middle, last) = (add("l"), add("m"), add("n"));
    let follow = |leader, server| {
        assert!(backend.add_follower(leader, TrackMember { backend: Arc::downgrade(&backend), server }));
    };
    follow(leader, middle);
    follow(middle, last);
    assert_eq!([leader, middle, last].map(|key| backend.leaders_of(key)), [0, 1, 2]);
    let remove = |key| backend.remove(key, 1).map(drop);
    assert_eq!((remove(leader), remove(middle)), (Err(RemoveError::Followed), Err(RemoveError::Followed)));
    assert_eq!((remove(last), remove(middle), remove(leader)), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn consecutive_observed_errors_trigger_the_on_error_action() {
    let observed = |consequence, layer7| {
        let observe = Some(ObserveRules { layer7, limit: 2, consequence });
        backend("be", vec![ServerSettings { observe, ..checked("s", InitialState::FullyUp) }])
    };
    let levels = |backend: &Backend, observations: &[Observation]| -> Vec<u32> {
        let server = backend.server(FIRST).expect("a server");
        let level = || server.health().expect("a check").record().level;
        observations
            .iter()
            .map(|observation| {
                let seen = TrafficSample { observation: *observation, worker: 0, took_ms: 0 };
                drop(backend.observe(&server, seen, 1));
                level()
            })
            .collect()
    };
    use Observation::{Connected, NotConnected, Responded, WrongStatus};
    let fails = observed(OnError::FailCheck, false);
    let seen = [NotConnected, Connected, NotConnected, NotConnected, WrongStatus, NotConnected, NotConnected];
    assert_eq!(levels(&fails, &seen), [3, 3, 3, 2, 2, 2, 0]);
    let marks = observed(OnError::MarkDown, true);
    let seen = [WrongStatus, Responded, WrongStatus, Connected, WrongStatus];
    assert_eq!(levels(&marks, &seen), [3, 3, 3, 3, 0]);
    let sudden = observed(OnError::SuddenDeath, true);
    assert_eq!(levels(&sudden, &[WrongStatus, NotConnected]), [3, 2]);
    let soon = observed(OnError::FastInterval, true);
    assert_eq!(levels(&soon, &[WrongStatus, WrongStatus]), [3, 3]);
    let hurries = soon.server(FIRST).map(|server| server.health().expect("a check").record().hurries);
    assert_eq!(hurries, Some(true));
}

/// As in HAProxy, a draining or stopping server goes down without an alert. A server with weight 0 drains.
#[test]
fn draining_servers_go_down_without_an_alert() {
    let settings =
        BackendSettings { name: "be".to_owned(), log_health_checks: true, ..BackendSettings::default() };
    let drain = ServerChange::State(RequestedState::Drain);
    let weightless = ServerChange::Weight(WeightChange::Absolute(0));
    let stopping = ServerChange::Health(OperationalState::Stopping);
    let ready = ServerChange::State(RequestedState::Ready);
    for (change, urgency, word) in [
        (ready, Urgency::Alert, "UP"),
        (drain, Urgency::Notice, "UP"),
        (stopping, Urgency::Notice, "UP"),
        (weightless, Urgency::Alert, "DRAIN"),
    ] {
        let backend = Backend::new(settings.clone(), vec![checked("s", InitialState::FullyUp)], 0);
        backend.change(FIRST, change.clone(), 1).expect("a server");
        let fail =
            || backend.report(FIRST, CheckKind::Health, CheckFinding::new(CheckStatus::L7Status), 1).notices;
        let first = fail();
        assert!(first[0].text.ends_with(&format!("status: 1/2 {word}.")), "{change:?}: {first:?}");
        let second = fail();
        assert!(second[0].text.ends_with("status: 0/2 DOWN."), "{change:?}: {second:?}");
        let down = second.iter().find(|notice| notice.text.starts_with("Server be/s is DOWN"));
        assert_eq!(down.map(|notice| notice.urgency), Some(urgency), "{change:?}: {second:?}");
    }
}
