//! Commands on servers.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;

use weir_backend::AdminState;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::{answer, backend, backend_and_name, complaint, server};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::server_changes;
use crate::target::{
    BackendKey, CheckKind, CheckRedirection, CommandTarget, ListPosition, ServerConnections, ServerHealth,
    ServerKey, ServerRefusal, ServerState, ServerView, check_state,
};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "get weight",
        syntax: "get weight <bk>/<srv>",
        level: Level::User,
        flags: WORKER,
        help: "show a server's weight, now and as configured",
        run: Some(get_weight),
    },
    Command {
        name: "set weight",
        syntax: "set weight <bk>/<srv>  (DEPRECATED)",
        level: Level::Admin,
        flags: WORKER,
        help: "change a server's weight, like 'set server ... weight'",
        run: Some(|context, arguments| {
            answer(|| {
                let key = server(context, arguments.word(0))?;
                set_weight(context, key, arguments.word(1))
            })
        }),
    },
    Command {
        name: "set server",
        syntax: "set server <bk>/<srv> [opts]",
        level: Level::Admin,
        flags: WORKER,
        help: "change a server's weight, state (ready, drain, maint) or address",
        run: Some(set_server),
    },
    Command {
        name: "set maxconn server",
        syntax: "set maxconn server <bk>/<srv>",
        level: Level::Admin,
        flags: WORKER,
        help: "limit the connections to a server",
        run: Some(set_maxconn),
    },
    Command {
        name: "disable server",
        syntax: "disable server (DEPRECATED)",
        level: Level::Admin,
        flags: WORKER,
        help: "put a server in maintenance, like 'set server ... state maint'",
        run: Some(|context, arguments| set_state(context, arguments.word(0), ServerState::Maintenance)),
    },
    Command {
        name: "enable server",
        syntax: "enable server  (DEPRECATED)",
        level: Level::Admin,
        flags: WORKER,
        help: "bring a server back, like 'set server ... state ready'",
        run: Some(|context, arguments| set_state(context, arguments.word(0), ServerState::Ready)),
    },
    Command {
        name: "shutdown sessions server",
        syntax: "shutdown sessions server <bk>/<srv>",
        level: Level::Admin,
        flags: WORKER,
        help: "end all sessions on a server",
        run: Some(shutdown_sessions),
    },
    Command {
        name: "add server",
        syntax: "add server <bk>/<srv>",
        level: Level::Admin,
        flags: WORKER,
        help: "add a server to a backend, in maintenance",
        run: Some(add),
    },
    Command {
        name: "del server",
        syntax: "del server <bk>/<srv>",
        level: Level::Admin,
        flags: WORKER,
        help: "remove a server that was added",
        run: Some(delete),
    },
    Command {
        name: "enable health",
        syntax: "enable health",
        level: Level::Admin,
        flags: WORKER,
        help: "start a server's health checks again",
        run: Some(|context, arguments| {
            let refusal = "Health check was not configured on this server, cannot enable.\n";
            switch_checks(context, arguments, CheckKind::Health, Some(refusal))
        }),
    },
    Command {
        name: "disable health",
        syntax: "disable health",
        level: Level::Admin,
        flags: WORKER,
        help: "stop a server's health checks",
        run: Some(|context, arguments| switch_checks(context, arguments, CheckKind::Health, None)),
    },
    Command {
        name: "enable agent",
        syntax: "enable agent",
        level: Level::Admin,
        flags: WORKER,
        help: "start a server's agent checks again",
        run: Some(|context, arguments| {
            let refusal = "Agent was not configured on this server, cannot enable.\n";
            switch_checks(context, arguments, CheckKind::Agent, Some(refusal))
        }),
    },
    Command {
        name: "disable agent",
        syntax: "disable agent",
        level: Level::Admin,
        flags: WORKER,
        help: "stop a server's agent checks",
        run: Some(|context, arguments| switch_checks(context, arguments, CheckKind::Agent, None)),
    },
    Command {
        name: "enable dynamic-cookie backend",
        syntax: "enable dynamic-cookie backend <bk>",
        level: Level::Admin,
        flags: WORKER,
        help: "start dynamic cookies of a backend",
        run: Some(|context, arguments| switch_dynamic_cookies(context, arguments, true)),
    },
    Command {
        name: "disable dynamic-cookie backend",
        syntax: "disable dynamic-cookie backend <bk>",
        level: Level::Admin,
        flags: WORKER,
        help: "stop dynamic cookies of a backend",
        run: Some(|context, arguments| switch_dynamic_cookies(context, arguments, false)),
    },
    Command {
        name: "set dynamic-cookie-key backend",
        syntax: "set dynamic-cookie-key backend <bk> <k>",
        level: Level::Admin,
        flags: WORKER,
        help: "choose the key of dynamic cookies",
        run: Some(set_dynamic_cookie_key),
    },
    Command {
        name: "publish backend",
        syntax: "publish backend <backend>",
        level: Level::Operator,
        flags: WORKER,
        help: "let frontends send to a backend",
        run: Some(|context, arguments| publish(context, arguments, true)),
    },
    Command {
        name: "unpublish backend",
        syntax: "unpublish backend <backend>",
        level: Level::Operator,
        flags: WORKER,
        help: "keep frontends away from a backend",
        run: Some(|context, arguments| publish(context, arguments, false)),
    },
    Command {
        name: "show servers state",
        syntax: "show servers state [<backend>]",
        level: Level::User,
        flags: WORKER,
        help: "print the servers in the format of a state file",
        run: Some(|context, arguments| list(context, arguments, ServerListing::State)),
    },
    Command {
        name: "show servers conn",
        syntax: "show servers conn [<backend>]",
        level: Level::User,
        flags: WORKER,
        help: "print the connections to servers, used and idle",
        run: Some(|context, arguments| list(context, arguments, ServerListing::Connections)),
    },
];

fn gone() -> CommandOutcome {
    CommandOutcome::error("No such server.\n")
}

fn refused(refusal: ServerRefusal) -> CommandOutcome {
    match refusal {
        ServerRefusal::Gone => gone(),
        ServerRefusal::Because(text) => CommandOutcome::error(format!("{text}\n")),
    }
}

fn get_weight(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let key = server(context, arguments.word(0))?;
        let view = context.target.server_view(key).ok_or_else(gone)?;
        Ok(CommandOutcome::Text(format!("{} (initial {})\n", view.user_weight, view.initial_weight)))
    })
}

fn set_weight(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    word: &str,
) -> Result<CommandOutcome, CommandOutcome> {
    server_changes::set_weight(context.target, key, word).map_err(refused)?;
    Ok(CommandOutcome::Nothing)
}

fn set_state(context: &mut CommandContext<'_>, word: &str, state: ServerState) -> CommandOutcome {
    answer(|| {
        let key = server(context, word)?;
        context.target.set_server_state(key, state).map_err(refused)?;
        Ok(CommandOutcome::Nothing)
    })
}

const SET_SERVER_USAGE: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | \
                                agent-send | check-addr | check-port | fqdn | health | ssl | state | weight\n";

fn set_server(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let key = server(context, arguments.word(0))?;
        match arguments.word(1) {
            "weight" => set_weight(context, key, arguments.word(2)),
            "state" => {
                let state = match arguments.word(2) {
                    "ready" => ServerState::Ready,
                    "drain" => ServerState::Drain,
                    "maint" => ServerState::Maintenance,
                    _ => {
                        return Err(CommandOutcome::error(
                            "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n",
                        ));
                    }
                };
                context.target.set_server_state(key, state).map_err(refused)?;
                Ok(CommandOutcome::Nothing)
            }
            "addr" => set_address(context, key, arguments),
            "fqdn" if arguments.word(2).is_empty() => {
                Err(CommandOutcome::error("set server <b>/<s> fqdn requires a FQDN.\n"))
            }
            kind @ ("agent-addr" | "check-addr") if arguments.word(2).is_empty() => {
                Err(CommandOutcome::error(format!(
                    "set server <b>/<s> {kind} requires an address and optionally a port.\n"
                )))
            }
            kind @ ("agent-port" | "check-port") if arguments.word(2).is_empty() => {
                Err(CommandOutcome::error(format!("set server <b>/<s> {kind} requires a port.\n")))
            }
            "fqdn" => {
                let view = context.target.server_view(key).ok_or_else(gone)?;
                let new = arguments.word(2);
                let former = context.target.set_server_name(key, new).map_err(refused)?;
                let former = former.as_deref().unwrap_or("(null)");
                Ok(CommandOutcome::Text(format!(
                    "{}/{} changed its FQDN from {former} to {new} by 'stats socket command'\n",
                    view.backend_name, view.name
                )))
            }
            "health" => set_health(context, key, arguments.word(2)),
            "agent" => set_agent(context, key, arguments.word(2)),
            "agent-send" => {
                let send = Some(arguments.word(2).as_bytes().to_vec());
                let to = CheckRedirection { send, ..CheckRedirection::default() };
                redirect(context, key, CheckKind::Agent, to, NO_AGENT_SENTENCE)
            }
            "agent-addr" => redirect_address(context, key, CheckKind::Agent, arguments),
            "agent-port" => redirect_port(context, key, CheckKind::Agent, arguments.word(2)),
            "check-addr" => redirect_address(context, key, CheckKind::Health, arguments),
            "check-port" => redirect_port(context, key, CheckKind::Health, arguments.word(2)),
            "ssl" => {
                let on = match arguments.word(2) {
                    "on" => true,
                    "off" => false,
                    _ => {
                        return Err(CommandOutcome::error("'set server <srv> ssl' expects 'on' or 'off'.\n"));
                    }
                };
                if !context.target.set_server_tls(key, on) {
                    let refusal =
                        "'set server <srv> ssl' cannot be set.  default-server should define ssl settings\n";
                    return Err(CommandOutcome::error(refusal));
                }
                Ok(CommandOutcome::Text("server ssl setting updated.\n".to_owned()))
            }
            "name" => Err(CommandOutcome::error("'set server name' is not implemented yet.\n")),
            _ => Err(CommandOutcome::error(SET_SERVER_USAGE)),
        }
    })
}

fn set_agent(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    word: &str,
) -> Result<CommandOutcome, CommandOutcome> {
    let is_enabled = |view: ServerView| view.agent_state & check_state::ENABLED != 0;
    if !context.target.server_view(key).is_some_and(is_enabled) {
        return Err(CommandOutcome::error(NO_AGENT_SENTENCE));
    }
    let up = match word {
        "up" => true,
        "down" => false,
        _ => return Err(CommandOutcome::error("'set server <srv> agent' expects 'up' or 'down'.\n")),
    };
    context.target.set_server_agent(key, up);
    Ok(CommandOutcome::Nothing)
}

const NO_AGENT_SENTENCE: &str = "agent checks are not enabled on this server.\n";
const NO_AGENT: &str = "agent checks are not enabled on this server\n";
const NO_CHECKS: &str = "health checks are not enabled on this server\n";

fn redirect(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    kind: CheckKind,
    to: CheckRedirection,
    refusal: &'static str,
) -> Result<CommandOutcome, CommandOutcome> {
    if context.target.redirect_checks(key, kind, to) {
        Ok(CommandOutcome::Nothing)
    } else {
        Err(CommandOutcome::error(refusal))
    }
}

fn refusal_of(kind: CheckKind) -> &'static str {
    match kind {
        CheckKind::Health => NO_CHECKS,
        CheckKind::Agent => NO_AGENT,
    }
}

/// Parses `<addr> [port <port>]`.
fn redirect_address(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    kind: CheckKind,
    arguments: &CommandArguments<'_>,
) -> Result<CommandOutcome, CommandOutcome> {
    let text = arguments.word(2);
    // Without checks, the arguments are not validated.
    redirect(context, key, kind, CheckRedirection::default(), refusal_of(kind))?;
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err(CommandOutcome::error(format!("invalid addr '{text}'\n")));
    };
    let port = match arguments.word(3) {
        "port" => Some(check_port(arguments.word(4))?),
        _ => None,
    };
    let to = CheckRedirection { address: Some(address), port, ..CheckRedirection::default() };
    redirect(context, key, kind, to, refusal_of(kind))
}

fn redirect_port(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    kind: CheckKind,
    word: &str,
) -> Result<CommandOutcome, CommandOutcome> {
    redirect(context, key, kind, CheckRedirection::default(), refusal_of(kind))?;
    let to = CheckRedirection { port: Some(check_port(word)?), ..CheckRedirection::default() };
    redirect(context, key, kind, to, refusal_of(kind))
}

fn check_port(word: &str) -> Result<u16, CommandOutcome> {
    let number: i64 = word.parse().map_err(|_| CommandOutcome::error("provided port is not an integer\n"))?;
    u16::try_from(number).map_err(|_| CommandOutcome::error("provided port is not in the valid range\n"))
}

fn set_health(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    word: &str,
) -> Result<CommandOutcome, CommandOutcome> {
    let health = match word {
        "up" => ServerHealth::Up,
        "stopping" => ServerHealth::Stopping,
        "down" => ServerHealth::Down,
        _ => {
            return Err(CommandOutcome::error(
                "'set server <srv> health' expects 'up', 'stopping', or 'down'.\n",
            ));
        }
    };
    context.target.set_server_health(key, health).map_err(refused)?;
    Ok(CommandOutcome::Nothing)
}

/// Enables or disables checks. Enabling checks that are not configured is an error. Disabling them is not.
fn switch_checks(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: CheckKind,
    refusal: Option<&'static str>,
) -> CommandOutcome {
    answer(|| {
        let key = server(context, arguments.word(0))?;
        let are_there = context.target.enable_checks(key, kind, refusal.is_some());
        match refusal {
            Some(text) if !are_there => Err(CommandOutcome::error(text)),
            _ => Ok(CommandOutcome::Nothing),
        }
    })
}

fn switch_dynamic_cookies(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    enabled: bool,
) -> CommandOutcome {
    answer(|| {
        let backend = expected_backend(context, arguments)?;
        context.target.enable_dynamic_cookies(backend, enabled);
        Ok(CommandOutcome::Nothing)
    })
}

/// Looks up the backend named by the first word. The error is the command's output.
fn expected_backend(
    context: &CommandContext<'_>,
    arguments: &CommandArguments<'_>,
) -> Result<BackendKey, CommandOutcome> {
    match arguments.word(0) {
        "" => Err(CommandOutcome::error("A backend name is expected.\n")),
        name => backend(context, name),
    }
}

fn publish(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    published: bool,
) -> CommandOutcome {
    answer(|| {
        let backend = backend(context, arguments.word(0))?;
        Ok(CommandOutcome::info(match (context.target.publish_backend(backend, published), published) {
            (false, _) => "No effect on a disabled backend.\n",
            (true, true) => "Backend published.\n",
            (true, false) => "Backend unpublished.\n",
        }))
    })
}

fn set_dynamic_cookie_key(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
) -> CommandOutcome {
    answer(|| {
        let backend = expected_backend(context, arguments)?;
        match arguments.word(1) {
            "" => Err(CommandOutcome::error("String value expected.\n")),
            key => {
                context.target.set_dynamic_cookie_key(backend, key);
                Ok(CommandOutcome::Nothing)
            }
        }
    })
}

fn set_address(
    context: &mut CommandContext<'_>,
    key: ServerKey,
    arguments: &CommandArguments<'_>,
) -> Result<CommandOutcome, CommandOutcome> {
    let text = arguments.word(2);
    if text.is_empty() {
        return Err(CommandOutcome::error(
            "set server <b>/<s> addr requires an address and optionally a port.\n",
        ));
    }
    let port = (arguments.word(3) == "port").then(|| arguments.word(4));
    let said = server_changes::set_address(context.target, key, text, port, "stats socket command");
    Ok(CommandOutcome::warning(format!("{}\n", said.map_err(refused)?)))
}

fn set_maxconn(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let key = server(context, arguments.word(0))?;
        server_changes::set_maximum_connections(context.target, key, arguments.word(1)).map_err(refused)?;
        Ok(CommandOutcome::Nothing)
    })
}

fn shutdown_sessions(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let key = server(context, arguments.word(0))?;
        if context.target.shutdown_server_sessions(key) { Ok(CommandOutcome::Nothing) } else { Err(gone()) }
    })
}

fn add(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    if arguments.word(0) == "help" {
        let mut text = "List of keywords supported for dynamic server:\n".to_owned();
        for word in context.target.added_server_words() {
            text += word;
            text.push('\n');
        }
        return CommandOutcome::Text(text);
    }
    answer(|| {
        let (backend, name) = backend_and_name(context, arguments.word(0))?;
        match context.target.add_server(backend, name, arguments.from(1)) {
            Ok(()) => Ok(CommandOutcome::info("New server registered.\n")),
            Err(text) => Err(complaint(&text)),
        }
    })
}

fn delete(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let key = server(context, arguments.word(0))?;
        match context.target.delete_server(key) {
            Ok(()) => Ok(CommandOutcome::info("Server deleted.\n")),
            Err(text) => Err(complaint(&text)),
        }
    })
}

/// Whether a server can be deleted now: it is unused and does not accept traffic.
pub(super) fn is_removable(target: &dyn CommandTarget, key: ServerKey) -> bool {
    let Some(view) = target.server_view(key) else { return true };
    let mut now = ServerConnections::default();
    let is_there = target.server_connections(key, &mut now);
    let busy = is_there && (now.served > 0 || now.used_now > 0 || now.idle_now > 0);
    AdminState::from_bits(view.administrative_state).is_maintenance() && !busy
}

#[derive(Clone, Copy)]
enum ServerListing {
    State,
    Connections,
}

fn list(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    listing: ServerListing,
) -> CommandOutcome {
    let name = arguments.word(0);
    let backend = if name.is_empty() { None } else { context.target.backend(name) };
    if backend.is_none() && !name.is_empty() {
        return CommandOutcome::error("Can't find backend.\n");
    }
    let now = ServerConnections::default();
    CommandOutcome::Stream(Box::new(ListServers { listing, backend, begun: false, place: 0, now }))
}

struct ListServers {
    listing: ServerListing,
    /// The current server's connections.
    now: ServerConnections,
    backend: Option<BackendKey>,
    begun: bool,
    place: ListPosition,
}

const STATE_HEADER: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight \
     srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
     srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port \
     srv_check_addr srv_agent_addr srv_agent_port\n";

const CONNECTIONS_HEADER: &str = "# bkname/svname bkid/svid addr port - purge_delay served used_cur used_max \
     need_est idle_sess unsafe_nb safe_nb idle_lim idle_cur idle_per_thr";

impl AnswerStream for ListServers {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        if !self.begun {
            self.begun = true;
            let header = match self.listing {
                ServerListing::State => STATE_HEADER.to_owned(),
                ServerListing::Connections => format!("{CONNECTIONS_HEADER}[{}]\n", target.workers()),
            };
            out.extend_from_slice(header.as_bytes());
        }
        while out.len() < enough {
            let Some(key) = target.next_server(self.backend, &mut self.place) else {
                return AnswerStep::Done;
            };
            match self.listing {
                ServerListing::State => {
                    if let Some(view) = target.server_view(key) {
                        write_state(&view, out);
                    }
                }
                ServerListing::Connections => {
                    if target.server_connections(key, &mut self.now) {
                        write_connections(&self.now, out);
                    }
                }
            }
        }
        AnswerStep::More
    }
}

/// Writes the words of a line, each followed by a given byte. Avoids the formatting machinery, which would cost more than the
/// counters of thousands of lines.
struct WordWriter<'o>(&'o mut Vec<u8>);

impl WordWriter<'_> {
    fn number(&mut self, number: impl itoa::Integer, next: u8) -> &mut Self {
        self.text(itoa::Buffer::new().format(number), next)
    }

    fn text(&mut self, text: &str, next: u8) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(next);
        self
    }

    /// Writes an address, or a dash for `None`.
    fn address(&mut self, address: Option<IpAddr>) -> &mut Self {
        let Some(IpAddr::V4(address)) = address else { return self.or_dash(address) };
        let [first, second, third, fourth] = address.octets();
        self.number(first, b'.').number(second, b'.').number(third, b'.').number(fourth, b' ')
    }

    /// Writes a value, or a dash for `None`.
    fn or_dash(&mut self, value: Option<impl fmt::Display>) -> &mut Self {
        match value {
            // Writing to memory does not fail.
            Some(value) => drop(write!(self.0, "{value} ")),
            None => self.0.extend_from_slice(b"- "),
        }
        self
    }
}

fn write_state(view: &ServerView, out: &mut Vec<u8>) {
    let (status, result, health, state) = view.check;
    let mut words = WordWriter(out);
    words.number(view.backend_id, b' ').text(&view.backend_name, b' ');
    words.number(view.id, b' ').text(&view.name, b' ').address(view.address);
    words.number(view.operational_state, b' ').number(view.administrative_state, b' ');
    words.number(view.user_weight, b' ').number(view.initial_weight, b' ').number(view.last_change_s, b' ');
    words.number(status, b' ').number(result, b' ').number(health, b' ').number(state, b' ');
    words.number(view.agent_state, b' ');
    words.number(u8::from(view.backend_id_forced), b' ').number(u8::from(view.id_forced), b' ');
    words.or_dash(view.fqdn.as_deref());
    // With a sign if the port mapping is not the configured one.
    match view.port_is_configured {
        true => words.number(view.port.number(), b' '),
        false => words.or_dash(Some(view.port)),
    };
    words.or_dash(view.srv_record.as_deref()).number(view.uses_ssl.map_or(-1, i8::from), b' ');
    words.number(view.check_port, b' ').address(view.check_address).address(view.agent_address);
    words.number(view.agent_port, b'\n');
}

fn write_connections(now: &ServerConnections, out: &mut Vec<u8>) {
    let mut words = WordWriter(out);
    words.text(&now.backend_name, b'/').text(&now.name, b' ');
    words.number(now.backend_id, b'/').number(now.id, b' ');
    words.address(now.address).number(now.port, b' ').text("-", b' ');
    words.number(now.purge_delay_ms, b' ').number(now.served, b' ');
    words.number(now.used_now, b' ').number(now.used_max, b' ').number(now.needed, b' ');
    words.number(now.idle_in_sessions, b' ').number(now.unsafe_idle, b' ').number(now.safe_idle, b' ');
    let workers = &now.idle_per_worker;
    let next = |rest: usize| if rest == 0 { b'\n' } else { b' ' };
    words.number(now.idle_limit, b' ').number(now.idle_now, next(workers.len()));
    for (at, count) in workers.iter().enumerate() {
        words.number(*count, next(workers.len() - at - 1));
    }
}
