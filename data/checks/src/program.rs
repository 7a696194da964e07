//! Checks by an external program: its arguments and the meaning of its exit status (manual, "external-check command").

use std::net::SocketAddr;

use weir_backend::{CheckFinding, CheckStatus, ServerAddress};
use weir_sched::{Descriptor, Tick, now, wait};
use weir_sys::child::Exit;
use weir_sys::program::{Invocation, Program};
use weir_sys::{Address, Errno, error_text};

use crate::attempt::Attempt;
use crate::plan::ProgramPlan;

/// Runs the program. Its time limit is the connect timeout.
pub(crate) async fn run(attempt: &Attempt<'_>, plan: &ProgramPlan) -> CheckFinding {
    let most_ms = attempt.connect_deadline().since(now());
    let Some(_turn) = plan.launcher.turn(now().after(most_ms)).await else {
        return not_run("too many programs run".to_owned());
    };
    // Waiting for other programs does not reduce this program's time.
    let deadline = now().after(most_ms);
    attempt.expect_by(deadline);
    let path = plan.path.as_bytes().to_vec();
    match plan.launcher.launch(invocation(attempt, plan), path, deadline).await {
        Some(Ok(program)) => wait_for(program, deadline).await,
        Some(Err(errno)) => not_started(errno),
        None => not_run("the program did not start in time".to_owned()),
    }
}

/// Waits for a program. Kills it at the deadline.
async fn wait_for(mut program: Program, deadline: Tick) -> CheckFinding {
    let descriptor = program.end_descriptor().and_then(Descriptor::register);
    let descriptor = match descriptor {
        Ok(descriptor) => descriptor,
        Err(errno) => return not_run(error_text(errno)),
    };
    descriptor.set_owner(weir_sched::current());
    loop {
        descriptor.clear_readable();
        match program.exit() {
            Ok(Some(exit)) => return finding(exit),
            Ok(None) => {}
            Err(errno) => return not_run(error_text(errno)),
        }
        if deadline <= now() {
            return CheckFinding { code: Some(0), ..CheckFinding::new(CheckStatus::ProcessTimeout) };
        }
        wait(deadline).await;
    }
}

fn finding(exit: Exit) -> CheckFinding {
    match exit {
        Exit::Code(0) => CheckFinding { code: Some(0), ..CheckFinding::new(CheckStatus::ProcessOk) },
        Exit::Code(code) => CheckFinding { code: Some(code), ..CheckFinding::new(CheckStatus::ProcessError) },
        Exit::Signal(_) => {
            let detail = exit.to_string().into();
            CheckFinding { code: Some(-1), detail, ..CheckFinding::new(CheckStatus::ProcessError) }
        }
    }
}

/// A program that cannot be started is a failed check. If this process lacks resources, the check is inconclusive.
fn not_started(errno: Errno) -> CheckFinding {
    // BADF: the descriptor limit is below the number of open descriptors.
    let lacks = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::BADF, Errno::PERM];
    if lacks.contains(&errno) {
        return not_run(format!("cannot create a process: {}", error_text(errno)));
    }
    let detail = format!("cannot be executed: {}", error_text(errno)).into();
    CheckFinding { code: Some(NOT_EXECUTED), detail, ..CheckFinding::new(CheckStatus::ProcessError) }
}

fn not_run(detail: String) -> CheckFinding {
    CheckFinding { detail: detail.into(), inconclusive: true, ..CheckFinding::new(CheckStatus::SocketError) }
}

/// The status of a program that could not be executed.
const NOT_EXECUTED: i32 = 255;

fn invocation(attempt: &Attempt<'_>, plan: &ProgramPlan) -> Invocation {
    let (server, backend) = (attempt.server, &attempt.plan.backend);
    let (proxy_address, proxy_port) = match &plan.listener {
        Some(Address::Inet(address)) => ends(*address),
        Some(Address::Unix(path)) => (path.to_string_lossy().into_owned(), None),
        _ => (String::new(), None),
    };
    let (server_address, server_port) = match &*server.address() {
        ServerAddress::Inet { ip: Some(ip), port } => (ip.to_string(), Some(port.number().to_string())),
        ServerAddress::Unix(path) => (path.to_string_lossy().into_owned(), None),
        _ => (String::new(), None),
    };
    let or_unused = |text: Option<&String>| text.map_or("NOT_USED", String::as_str).to_owned();
    let listener = plan.listener.is_some().then_some(&proxy_address);
    let words = [
        plan.command.to_string(),
        or_unused(listener),
        or_unused(proxy_port.as_ref()),
        server_address.clone(),
        or_unused(server_port.as_ref()),
    ];
    let variables = [
        ("HAPROXY_PROXY_ADDR", proxy_address),
        ("HAPROXY_PROXY_ID", plan.proxy_id.to_string()),
        ("HAPROXY_PROXY_NAME", backend.name().to_owned()),
        ("HAPROXY_PROXY_PORT", proxy_port.unwrap_or_default()),
        ("HAPROXY_SERVER_ADDR", server_address),
        ("HAPROXY_SERVER_CURCONN", server.served().to_string()),
        ("HAPROXY_SERVER_ID", server.id().to_string()),
        ("HAPROXY_SERVER_MAXCONN", server.maximum_connections().to_string()),
        ("HAPROXY_SERVER_NAME", server.name().to_owned()),
        ("HAPROXY_SERVER_PORT", server_port.unwrap_or_default()),
        ("HAPROXY_SERVER_SSL", u8::from(plan.tls).to_string()),
        ("HAPROXY_SERVER_PROTO", plan.protocol.to_owned()),
        ("PATH", plan.path.to_string()),
    ];
    let is_other = |inherited: &&Vec<u8>| {
        let name = inherited.split(|byte| *byte == b'=').next().unwrap_or_default();
        !variables.iter().any(|(own, _)| own.as_bytes() == name)
    };
    let inherited = plan.launcher.environment.iter().filter(is_other).cloned();
    let own = variables.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
    Invocation {
        file: plan.command.as_bytes().to_vec(),
        words: words.map(String::into_bytes).to_vec(),
        environment: inherited.chain(own).collect(),
    }
}

fn ends(address: SocketAddr) -> (String, Option<String>) {
    (address.ip().to_string(), Some(address.port().to_string()))
}
