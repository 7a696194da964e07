//! The master CLI: parses commands, executes the master's own, and forwards the others to workers.
//!
//! A line contains commands separated by `;`. The prefix `@` selects the target: `@1` is the serving worker, `@!PID` is any
//! process, `@` is the master. A prefix alone applies to all following commands. Each command for a worker gets its own
//! connection. The worker answers and half-closes, so answers never mix. After `@@1` all bytes are forwarded in both directions
//! until one side closes.
//!
//! With `mcli-debug-mode on` the master also runs worker commands on itself, with the objects of [`Master::look`].

mod pass_on;
mod sockets;
mod words;

use std::os::fd::OwnedFd;
use std::rc::Rc;

use weir_assemble::traces::TracedSession;
use weir_cli::command::{MASTER, SERVING, WORKER};
use weir_cli::line::CommandLine;
use weir_cli::session::{LINE_TOO_LONG, PAYLOAD_TOO_LONG};
use weir_cli::{
    CliSession, Level, PERMISSION_DENIED, SessionMode, SessionModes, Severity, SeverityOutput, find_command,
    switch,
};
use weir_net::{Connection, ReceiveOutcome};
use weir_observe::record::LONGEST_PAYLOAD;
use weir_process::cli_server;
use weir_sched::{Class, Descriptor, Tick, WorkKind, wait};

use crate::master::{Loading, Master, WorkerEnd};

pub use sockets::{MasterSocket, MasterSockets};

/// A client of the master CLI.
#[derive(Clone, Debug)]
pub(crate) struct CliClient {
    /// The address of the socket that accepted the client.
    address: String,
    level: Level,
    severity_output: SeverityOutput,
    /// The worker's process number, if the client is a worker.
    worker: Option<u32>,
}

impl CliClient {
    /// A worker as a client, over its socket pair.
    pub(crate) fn of_worker(pid: u32, address: &str) -> Self {
        CliClient {
            address: address.to_owned(),
            level: Level::User,
            severity_output: SeverityOutput::None,
            worker: Some(pid),
        }
    }
}

/// The target of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Master,
    Worker(u32),
}

/// A session of the master CLI.
struct Talk {
    master: Rc<Master>,
    client: CliClient,
    connection: Connection,
    modes: SessionModes,
    whom: Whom,
    /// Whether the master also runs worker commands on itself.
    debug: bool,
}

/// Whether a session continues after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionFlow {
    On,
    Over,
}

/// The next input of a client.
enum ClientInput {
    Line(Vec<u8>),
    TooLong,
    /// The client closed, or exceeded the idle timeout.
    Nothing,
}

struct CommandPayload {
    lines: Vec<u8>,
    /// The line that terminated the payload.
    end: String,
}

/// Serves one client until it closes, quits or is idle for [`SILENCE_MS`]. Unlike a worker, the master also answers further
/// lines without a prompt, like HAProxy's master.
pub(crate) async fn converse(master: Rc<Master>, client: CliClient, connection: Connection) {
    let address = client.address.clone();
    let _trace = TracedSession::begin(&address);
    let modes = SessionModes {
        level: client.level,
        severity_output: client.severity_output,
        timeout_ms: Some(SILENCE_MS),
        expert: false,
        experimental: false,
        mode: SessionMode::Single,
        timed: false,
    };
    let mut talk = Talk { master, client, connection, modes, whom: Whom::Master, debug: false };
    loop {
        let line = match talk.hear_line().await {
            ClientInput::Line(line) => line,
            ClientInput::TooLong => {
                talk.refuse(LINE_TOO_LONG).await;
                return;
            }
            ClientInput::Nothing => break,
        };
        let commands = words::commands(&line);
        let last = commands.len().saturating_sub(1);
        for (position, command) in commands.into_iter().enumerate() {
            if talk.command(command, position == last).await != Some(SessionFlow::On) {
                return;
            }
        }
    }
    talk.leave().await;
}

/// Whether a command changes the session with the master, regardless of its target. With a prefix, settings go to the worker.
fn is_about_the_session(spoken: &[String], prefixed: bool) -> bool {
    let words: Vec<&str> = spoken.iter().take(2).map(String::as_str).collect();
    match words[..] {
        ["set", word] => !prefixed && matches!(word, "severity-output" | "timeout"),
        [word, ..] => matches!(
            word,
            "prompt" | "quit" | "user" | "operator" | "expert-mode" | "experimental-mode" | "mcli-debug-mode"
        ),
        [] => false,
    }
}

impl Talk {
    /// Executes one command. `None` if the client has disconnected.
    async fn command(&mut self, text: &[u8], last: bool) -> Option<SessionFlow> {
        let (prefix, rest) = words::prefix(text);
        let name = prefix.map(|prefix| prefix.strip_prefix('@').unwrap_or(prefix));
        if name == Some("1") {
            self.until_somebody_serves().await;
        }
        if let Some(name) = prefix.and_then(|prefix| prefix.strip_prefix('@'))
            && let Some(Whom::Worker(pid)) = self.find(name)
        {
            return pass_on::everything(self, pid, rest).await;
        }
        let rest = &*words::alone(rest, last);
        let line = match CommandLine::parse(rest) {
            Ok(line) => line,
            Err(error) if CommandLine::announces_payload(rest) => {
                return self.refuse(&format!("{error}\n")).await;
            }
            Err(error) => return self.say(Severity::Error, &format!("{error}\n")).await,
        };
        // Read the payload first: its lines are not commands, even if this command fails.
        let payload = match line.payload {
            Some(end) => match self.hear_payload(end).await {
                Ok(payload) => Some(payload),
                Err(Some(refusal)) => return self.refuse(refusal).await,
                Err(None) => return None,
            },
            None => None,
        };
        let Some(whom) = name.map_or(Some(self.whom), |name| self.find(name)) else {
            let prefix = prefix.unwrap_or_default();
            let text = format!("Can't find the target PID matching the prefix '@{prefix}'\n");
            return self.say(Severity::Error, &text).await;
        };
        if prefix.is_some() && rest.is_empty() {
            self.whom = whom;
            return self.prompt().await;
        }
        let spoken = line.commands.first().map(Vec::as_slice).unwrap_or_default();
        match whom {
            Whom::Worker(pid) if !is_about_the_session(spoken, prefix.is_some()) => {
                pass_on::command(self, pid, rest, payload).await?;
                self.prompt().await
            }
            _ => self.carry_out(spoken, payload).await,
        }
    }

    /// Waits for a serving worker: at start, the master CLI is open while the first worker still reads its configuration (R193).
    async fn until_somebody_serves(&self) {
        while self.master.processes.borrow().current().is_none()
            && self.master.loading.get() == Loading::UnderWay
        {
            wait(weir_sched::now().after(LOOK_MS)).await;
        }
    }

    /// The target of a prefix. `name` is the prefix without its `@`.
    fn find(&self, name: &str) -> Option<Whom> {
        let processes = self.master.processes.borrow();
        match name {
            "" | "master" | "0" => Some(Whom::Master),
            "1" => processes.current().map(|worker| Whom::Worker(worker.pid)),
            _ => {
                let pid: u32 = name.strip_prefix('!')?.parse().ok()?;
                if pid == processes.pid {
                    return Some(Whom::Master);
                }
                processes.find(pid).map(|worker| Whom::Worker(worker.pid))
            }
        }
    }

    /// The command tables available on the master.
    fn sides(&self) -> u8 {
        if self.debug { MASTER | WORKER } else { MASTER }
    }

    async fn carry_out(&mut self, spoken: &[String], payload: Option<CommandPayload>) -> Option<SessionFlow> {
        let word = |at: usize| spoken.get(at).map_or("", String::as_str);
        // Worker commands that change the session. The master applies them to its own session.
        if spoken.is_empty() {
            return self.say(Severity::Info, "").await;
        }
        let setting = match (word(0), word(1)) {
            ("set", "severity-output") => Some(weir_cli::choose_severity_output(&mut self.modes, word(2))),
            ("set", "timeout") => Some(weir_cli::choose_timeout(&mut self.modes, [word(2), word(3)])),
            _ => None,
        };
        match setting {
            Some(Ok(())) => return self.prompt().await,
            Some(Err(text)) => return self.say(Severity::Error, text).await,
            None => {}
        }
        let Some((command, count)) = find_command(spoken, self.sides()) else {
            let text = weir_cli::unknown(spoken, &[], self.sides(), &self.modes);
            return self.say(Severity::Info, &text).await;
        };
        if command.flags & MASTER == 0 {
            if command.flags & SERVING != 0 {
                let text =
                    format!("'{}' is for processes that serve: this one is the master.\n", command.name);
                return self.say(Severity::Error, &text).await;
            }
            return self.look_at_itself(spoken, payload.map(|payload| payload.lines)).await;
        }
        if let Some(refusal) = command.refusal(&self.modes) {
            return self.say(Severity::Error, refusal).await;
        }
        let arguments = &spoken[count..];
        match command.name {
            "quit" => {
                self.leave().await;
                Some(SessionFlow::Over)
            }
            "reload" => self.reload(WorkerEnd::Soft),
            "hard-reload" => self.reload(WorkerEnd::Hard),
            "_loadstatus" => self.load_status().await,
            "_send_status" => self.worker_status(arguments).await,
            "user" => self.lower(Level::User).await,
            "operator" => self.lower(Level::Operator).await,
            name => match self.text_of(name, arguments) {
                // HAProxy's master sends no answer after a session setting, and tools wait for the next answer.
                Ok(text) if text.is_empty() => self.prompt().await,
                Ok(text) => self.say(Severity::Info, &text).await,
                Err(text) => self.say(Severity::Error, &text).await,
            },
        }
    }

    /// Runs a worker command on the master.
    async fn look_at_itself(&mut self, spoken: &[String], payload: Option<Vec<u8>>) -> Option<SessionFlow> {
        let live = self.master.look();
        let mut session = CliSession::of_command(self.modes.clone(), spoken.to_vec(), payload);
        cli_server::answer(live, None, &mut session, &mut self.connection, || {}).await?;
        self.modes = SessionModes { mode: self.modes.mode, ..session.into_modes() };
        self.prompt().await
    }

    /// The output of a command that reads state or changes the session. May be empty.
    fn text_of(&mut self, name: &str, arguments: &[String]) -> Result<String, String> {
        let master = &self.master;
        let word = arguments.first().map_or("", String::as_str);
        Ok(match name {
            "prompt" => self.set_mode(arguments).to_owned(),
            "help" => weir_cli::help(arguments, &[], self.sides(), &self.modes),
            "echo" => format!("{}\n", arguments.join(" ")),
            "show version" => format!("{}\n", master.setup.version),
            "show proc" => master.show_processes(word == "debug"),
            "show startup-logs" => master.messages.startup_logs(),
            "show cli level" => format!("{}\n", self.modes.level.name()),
            "show cli sockets" => {
                let sockets = master.sockets.list().iter();
                let lines = sockets.map(|one| format!("{} {} all\n", one.spelling(), one.level().name()));
                format!("# socket lvl processes\n{}", lines.collect::<String>())
            }
            "show env" => match arguments.first() {
                None => {
                    master.setup.shown_environment.iter().map(|variable| format!("{variable}\n")).collect()
                }
                Some(name) => {
                    let named = |variable: &&String| {
                        variable.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('='))
                    };
                    let found = master.setup.shown_environment.iter().find(named);
                    format!("{}\n", found.ok_or("Variable not found\n")?)
                }
            },
            "expert-mode" => switch(name, &mut self.modes.expert, word).unwrap_or_default(),
            "experimental-mode" => switch(name, &mut self.modes.experimental, word).unwrap_or_default(),
            "mcli-debug-mode" => switch(name, &mut self.debug, word).unwrap_or_default(),
            other => return Err(format!("'{other}' is not implemented yet.\n")),
        })
    }

    /// Reloads. The next execution inherits the connection and sends the result.
    fn reload(&mut self, how: WorkerEnd) -> Option<SessionFlow> {
        let socket = weir_sys::process::duplicate(self.connection.descriptor()).ok();
        self.master.reload(how, socket);
        Some(SessionFlow::Over)
    }

    async fn load_status(&mut self) -> Option<SessionFlow> {
        while self.master.loading.get() == Loading::UnderWay {
            wait(weir_sched::now().after(LOOK_MS)).await;
        }
        let text = self.master.load_status();
        self.say(Severity::Info, &text).await
    }

    /// `_send_status READY`. Only a worker may send it, about itself.
    async fn worker_status(&mut self, arguments: &[String]) -> Option<SessionFlow> {
        match self.client.worker {
            Some(pid) if arguments.first().is_some_and(|word| word == "READY") => {
                self.master.worker_is_ready(pid);
                Some(SessionFlow::Over)
            }
            _ => self.say(Severity::Error, PERMISSION_DENIED).await,
        }
    }

    async fn lower(&mut self, level: Level) -> Option<SessionFlow> {
        if level > self.modes.level {
            return self.say(Severity::Error, PERMISSION_DENIED).await;
        }
        self.modes.level = level;
        self.modes.expert = false;
        self.modes.experimental = false;
        self.debug = false;
        self.prompt().await
    }

    fn set_mode(&mut self, arguments: &[String]) -> &'static str {
        let modes = &mut self.modes;
        if arguments.is_empty() {
            modes.mode =
                if modes.mode == SessionMode::Prompt { SessionMode::Single } else { SessionMode::Prompt };
        }
        for word in arguments {
            match word.as_str() {
                "n" => modes.mode = SessionMode::Single,
                "i" => modes.mode = SessionMode::Interactive,
                "p" => modes.mode = SessionMode::Prompt,
                "timed" => modes.timed = !modes.timed,
                _ => return weir_cli::PROMPT_HELP,
            }
        }
        ""
    }

    /// Sends an answer and continues the session.
    async fn say(&mut self, severity: Severity, text: &str) -> Option<SessionFlow> {
        let prefix = if text.is_empty() { "" } else { self.modes.severity_output.prefix(severity) };
        let text = format!("{prefix}{text}\n");
        self.send(text.as_bytes()).await?;
        self.prompt().await
    }

    async fn prompt(&mut self) -> Option<SessionFlow> {
        if self.modes.mode == SessionMode::Prompt {
            let name = match self.whom {
                Whom::Worker(pid) => pid.to_string(),
                Whom::Master if self.master.loading.get() == Loading::Failed => {
                    "master[ReloadFailed]".to_owned()
                }
                Whom::Master => "master".to_owned(),
            };
            self.send(format!("{name}{}> ", self.opened()).as_bytes()).await?;
        }
        Some(SessionFlow::On)
    }

    /// The enabled modes, one letter each as in HAProxy: `(xed)`.
    fn opened(&self) -> String {
        let letters = [('x', self.modes.experimental), ('e', self.modes.expert), ('d', self.debug)];
        let opened: String = letters.iter().filter(|(_, open)| *open).map(|(letter, _)| letter).collect();
        if opened.is_empty() { opened } else { format!("({opened})") }
    }

    /// Ends the session on invalid input, like a worker: the following lines could be the rest of a payload instead of commands.
    async fn refuse(&mut self, text: &str) -> Option<SessionFlow> {
        let prefix = self.modes.severity_output.prefix(Severity::Error);
        self.send(format!("{prefix}{text}\n").as_bytes()).await?;
        self.leave().await;
        Some(SessionFlow::Over)
    }

    /// Receives the next line, without its newline.
    async fn hear_line(&mut self) -> ClientInput {
        let deadline = weir_sched::now().after_some(self.modes.timeout_ms);
        hear_line(&mut self.connection, deadline).await
    }

    /// Receives lines up to the end of the payload. The error is the reason for a refusal, or `None` if the client has
    /// disconnected.
    async fn hear_payload(&mut self, end: String) -> Result<CommandPayload, Option<&'static str>> {
        let mut lines = Vec::new();
        loop {
            let line = match self.hear_line().await {
                ClientInput::Line(line) => line,
                ClientInput::TooLong => return Err(Some(LINE_TOO_LONG)),
                ClientInput::Nothing => return Err(None),
            };
            if line == end.as_bytes() {
                return Ok(CommandPayload { lines, end });
            }
            if lines.len() + line.len() >= LONGEST_PAYLOAD {
                return Err(Some(PAYLOAD_TOO_LONG));
            }
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.connection.send_all(bytes, patience()).await?;
        self.master.own.sent(bytes.len());
        Some(())
    }

    async fn leave(&mut self) {
        leave(&mut self.connection).await;
    }
}

/// Sends `text` to a client that is waiting for this answer, then closes the connection.
pub(crate) fn answer(master: Rc<Master>, client: OwnedFd, text: String) {
    let Ok(descriptor) = Descriptor::register(client) else { return };
    weir_sched::spawn(&ANSWER, Class::Urgent, async move {
        descriptor.set_owner(weir_sched::current());
        let mut connection = Connection::new(descriptor);
        let text = format!("{text}\n");
        if connection.send_all(text.as_bytes(), patience()).await.is_some() {
            master.own.sent(text.len());
            leave(&mut connection).await;
        }
    });
}

async fn hear_line(connection: &mut Connection, deadline: Tick) -> ClientInput {
    loop {
        if let Some(end) = connection.input().iter().position(|&byte| byte == b'\n') {
            let mut line = connection.input()[..end].to_vec();
            connection.consume(end + 1);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return ClientInput::Line(line);
        }
        match connection.receive(LONGEST_LINE) {
            ReceiveOutcome::Bytes(_) => {}
            ReceiveOutcome::Nothing if weir_sched::now() < deadline => {
                wait(deadline).await;
            }
            ReceiveOutcome::Full => return ClientInput::TooLong,
            _ => return ClientInput::Nothing,
        }
    }
}

/// The deadline for a client to read an answer.
fn patience() -> Tick {
    weir_sched::now().after(PATIENCE_MS)
}

/// Half-closes the connection. Reads and discards further input, because otherwise the kernel would reset the connection and the
/// answer could be lost.
async fn leave(connection: &mut Connection) {
    connection.shut_write();
    let deadline = weir_sched::now().after(FAREWELL_MS);
    connection.consume(usize::MAX);
    while weir_sched::now() < deadline {
        match connection.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => connection.consume(usize::MAX),
            ReceiveOutcome::Nothing => {
                wait(deadline).await;
            }
            _ => return,
        }
    }
}

static ANSWER: WorkKind = WorkKind::new("master cli answer");
/// Maximum length of a line, in bytes. The same as on workers.
const LONGEST_LINE: usize = 16_384;
/// The idle timeout, in milliseconds.
const SILENCE_MS: u64 = 3_600_000;
/// Time limit for a client that stops reading an answer, in milliseconds.
const PATIENCE_MS: u64 = 10_000;
/// Time limit for a client that keeps sending after its session, in milliseconds.
const FAREWELL_MS: u64 = 1_000;
/// How often a command checks whether the load is complete, in milliseconds.
const LOOK_MS: u64 = 10;
