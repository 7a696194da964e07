//! One session of the runtime API: parses the received bytes and writes the answers.
//!
//! ```text
//!            line complete             payload complete
//! Reading ──────────────────► Executing ◄────────────── Payload
//!    ▲                          │  │  ▲                    ▲
//!    │        queue empty       │  │  └─ Answering/Waiting │
//!    └──────────────────────────┘  └───────────────────────┘
//!    └──► Closed: end of input, quit, or a line was answered in single-command mode
//! ```
//!
//! The transport passes received bytes ([`CliSession::feed`], at most [`CliSession::room`] bytes), then calls [`CliSession::run`]
//! until the session needs input or is closed. It sends the output between these calls.

use std::collections::VecDeque;

use crate::command::{CommandArguments, CommandContext, WORKER};
use crate::commands::{find_command, unknown};
use crate::level::{Level, Severity, SeverityOutput};
use crate::line::CommandLine;
use crate::modes::{PERMISSION_DENIED, SessionMode, SessionModes};
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome, WaitCondition};
use crate::target::{CommandTarget, ScriptCommandRun, ScriptCommandStep};

/// Initial settings of a session, from the socket's configuration.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    pub level: Level,
    /// Whether messages begin with their severity.
    pub severity_output: SeverityOutput,
    /// The idle timeout, in milliseconds (`stats timeout`). `None` for no limit.
    pub timeout_ms: Option<u64>,
    /// Maximum length of a line, in bytes (`tune.bufsize`).
    pub longest_line: usize,
    /// Maximum length of a payload, in bytes (`tune.cli.max-payload-size`).
    pub longest_payload: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            level: Level::Operator,
            severity_output: SeverityOutput::None,
            timeout_ms: Some(10_000),
            longest_line: 16_384,
            longest_payload: 131_072,
        }
    }
}

/// The next action of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportAction {
    /// Pass more input, or call [`CliSession::end_of_input`].
    NeedInput,
    /// Send the output and call [`CliSession::run`] again.
    More,
    /// Call [`CliSession::run`] again when the target has woken this task.
    Pending,
    /// Send the output. Call again when this task is woken, or when input was received, after passing that input. The idle
    /// timeout does not apply.
    Watch,
    /// Call again at this time, in milliseconds of the clock passed to [`CliSession::run`], or when this task is woken.
    WaitUntil(u64),
    /// Send the output. Pass more input, or call again at this time. A client that stays silent for the idle timeout has ended its input.
    NeedInputUntil(u64),
    /// Send the output, pass the listening sockets if the transport can, then call [`CliSession::handed_over`].
    HandOver,
    /// Send the output, then close.
    Close,
}

/// One session of the runtime API.
pub struct CliSession {
    settings: SessionSettings,
    modes: SessionModes,
    input: Vec<u8>,
    /// Number of consumed input bytes.
    taken: usize,
    end_of_input: bool,
    /// Remaining commands of the current line.
    queue: VecDeque<Vec<String>>,
    /// The payload of the last command as received so far, and its end pattern.
    payload: Option<SessionPayload>,
    doing: Doing,
    /// Whether a line was answered. Sessions in single-command mode then end.
    answered: bool,
    /// Whether invalid input ended the session. The client may still be sending.
    refused: bool,
}

struct SessionPayload {
    pattern: String,
    text: Vec<u8>,
    complete: bool,
}

enum Doing {
    Nothing,
    Answering(Box<dyn AnswerStream>),
    /// A command of a script.
    Running(Box<dyn ScriptCommandRun>),
    Waiting {
        deadline_ms: u64,
        until: Option<WaitCondition>,
    },
    HandingOver,
    Closed,
}

impl CliSession {
    /// A session without input.
    pub fn new(settings: SessionSettings) -> Self {
        Self {
            modes: SessionModes {
                level: settings.level,
                severity_output: settings.severity_output,
                timeout_ms: settings.timeout_ms,
                expert: false,
                experimental: false,
                mode: SessionMode::Single,
                timed: false,
            },
            settings,
            input: Vec::new(),
            taken: 0,
            end_of_input: false,
            queue: VecDeque::new(),
            payload: None,
            doing: Doing::Nothing,
            answered: false,
            refused: false,
        }
    }

    /// A session that runs one command, given as words and payload lines, for another session. The other session handles the
    /// client. The new session starts with its modes and returns them with [`CliSession::into_modes`].
    pub fn of_command(modes: SessionModes, words: Vec<String>, payload: Option<Vec<u8>>) -> Self {
        let payload = payload.map(|text| SessionPayload { pattern: String::new(), text, complete: true });
        Self {
            // The other session prints the prompts.
            modes: SessionModes { mode: SessionMode::Single, ..modes },
            queue: VecDeque::from([words]),
            payload,
            end_of_input: true,
            ..Self::new(SessionSettings::default())
        }
    }

    /// The modes after the session's commands.
    pub fn into_modes(self) -> SessionModes {
        self.modes
    }

    /// The idle timeout in milliseconds, as changed by `set timeout cli`.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.modes.timeout_ms
    }

    /// Whether invalid input ended the session. The client may still be sending.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// The maximum number of bytes for the next [`CliSession::feed`]. The transport need not read while this is 0.
    pub fn room(&self) -> usize {
        (self.settings.longest_line + 2).saturating_sub(self.heard().len())
    }

    /// Appends received bytes to the input.
    pub fn feed(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room());
        self.input.drain(..std::mem::take(&mut self.taken));
        self.input.extend_from_slice(bytes);
    }

    /// The client has half-closed. Complete lines are still answered.
    pub fn end_of_input(&mut self) {
        self.end_of_input = true;
    }

    /// Executes commands. Appends answers to `out` until it holds about `enough` bytes.
    ///
    /// Many short commands can take as long as one long answer. So after [`STEPS_AT_ONCE`] steps the transport must call again.
    pub fn run(
        &mut self,
        target: &mut dyn CommandTarget,
        now_ms: u64,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> TransportAction {
        let mut steps = 0;
        loop {
            match &mut self.doing {
                Doing::Closed => return TransportAction::Close,
                Doing::HandingOver => return TransportAction::HandOver,
                Doing::Answering(stream) => match stream.advance(target, enough, out) {
                    AnswerStep::Done => self.finish(target, out),
                    AnswerStep::More => return TransportAction::More,
                    AnswerStep::Pending => return TransportAction::Pending,
                    // Any input stops the stream of events. It is discarded, not run as a command.
                    AnswerStep::Watch if !self.heard().is_empty() => {
                        self.taken = self.input.len();
                        self.finish(target, out);
                    }
                    AnswerStep::Watch => return TransportAction::Watch,
                },
                Doing::Running(run) => {
                    self.taken += run.read(&self.input[self.taken..], self.end_of_input);
                    match run.advance(enough, out) {
                        ScriptCommandStep::Done => self.finish(target, out),
                        ScriptCommandStep::More => return TransportAction::More,
                        ScriptCommandStep::Input { until_ms } => {
                            return TransportAction::NeedInputUntil(until_ms);
                        }
                        ScriptCommandStep::Until { at_ms } => return TransportAction::WaitUntil(at_ms),
                    }
                }
                Doing::Waiting { deadline_ms, until } => {
                    let deadline_ms = *deadline_ms;
                    let holds = until.as_ref().map(|condition| crate::commands::holds(condition, target));
                    if holds != Some(true) && now_ms < deadline_ms {
                        let look_again = now_ms + CONDITION_INTERVAL_MS;
                        let at = if holds.is_some() { deadline_ms.min(look_again) } else { deadline_ms };
                        return TransportAction::WaitUntil(at);
                    }
                    self.end_waiting(holds, target, out);
                }
                Doing::Nothing => {
                    if out.len() >= enough || steps == STEPS_AT_ONCE {
                        return TransportAction::More;
                    }
                    steps += 1;
                    if let Some(status) = self.next_step(target, now_ms, out) {
                        return status;
                    }
                }
            }
        }
    }

    /// Continues after [`TransportAction::HandOver`], with the sockets passed or not `permitted`.
    pub fn handed_over(&mut self, permitted: bool, target: &mut dyn CommandTarget, out: &mut Vec<u8>) {
        if !permitted {
            self.message(Severity::Error, PERMISSION_DENIED, out);
        }
        self.finish(target, out);
    }

    /// One step while no command is in progress: starts the next command, or parses the next line. `None` if more steps can
    /// follow.
    fn next_step(
        &mut self,
        target: &mut dyn CommandTarget,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Option<TransportAction> {
        let last_waits =
            self.queue.len() == 1 && self.payload.as_ref().is_some_and(|payload| !payload.complete);
        if !self.queue.is_empty() && !last_waits {
            let words = self.queue.pop_front().expect("it is not empty");
            let payload = if self.queue.is_empty() { self.payload.take() } else { None };
            self.execute(target, now_ms, &words, payload, out);
            return None;
        }
        if self.is_over() {
            // Discards further lines: they may belong to a payload that ended too early.
            self.refused = !self.heard().is_empty();
            self.doing = Doing::Closed;
            return Some(TransportAction::Close);
        }
        match self.take_line() {
            InputLine::Line(line) => {
                self.hear(&line, target, out);
                None
            }
            InputLine::TooLong => {
                self.refuse(LINE_TOO_LONG, out);
                None
            }
            InputLine::Nothing => {
                if self.end_of_input {
                    self.doing = Doing::Closed;
                    return Some(TransportAction::Close);
                }
                Some(TransportAction::NeedInput)
            }
        }
    }

    /// Whether a single-command session has answered its line.
    fn is_over(&self) -> bool {
        self.answered && self.modes.mode == SessionMode::Single && self.payload.is_none()
    }

    /// The unconsumed input.
    fn heard(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    fn take_line(&mut self) -> InputLine {
        let heard = self.heard();
        let Some(end) = heard.iter().position(|&byte| byte == b'\n') else {
            let too_long = heard.len() > self.settings.longest_line;
            return if too_long { InputLine::TooLong } else { InputLine::Nothing };
        };
        let mut line = heard[..end].to_vec();
        self.taken += end + 1;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        InputLine::Line(line)
    }

    /// Handles one line, of commands or of a payload.
    fn hear(&mut self, line: &[u8], target: &mut dyn CommandTarget, out: &mut Vec<u8>) {
        if let Some(payload) = &mut self.payload {
            if line == payload.pattern.as_bytes() {
                payload.complete = true;
                return;
            }
            if payload.text.len() + line.len() >= self.settings.longest_payload {
                return self.refuse(PAYLOAD_TOO_LONG, out);
            }
            payload.text.extend_from_slice(line);
            payload.text.push(b'\n');
            return self.prompt("+ ", target, out);
        }
        self.answered = true;
        match CommandLine::parse(line) {
            Ok(line) => {
                self.queue.extend(line.commands);
                if let Some(pattern) = line.payload {
                    self.payload = Some(SessionPayload { pattern, text: Vec::new(), complete: false });
                    if self.queue.len() == 1 {
                        self.prompt("+ ", target, out);
                    }
                }
            }
            Err(error) if CommandLine::announces_payload(line) => self.refuse(&format!("{error}\n"), out),
            Err(error) => {
                self.message(Severity::Error, &format!("{error}\n"), out);
                self.finish(target, out);
            }
        }
    }

    fn execute(
        &mut self,
        target: &mut dyn CommandTarget,
        now_ms: u64,
        words: &[String],
        payload: Option<SessionPayload>,
        out: &mut Vec<u8>,
    ) {
        let outcome = match payload.map(|payload| String::from_utf8(payload.text)).transpose() {
            Ok(payload) => self.outcome_of(target, words, payload.as_deref()),
            Err(_) => CommandOutcome::error("The payload is not valid UTF-8.\n"),
        };
        match outcome {
            CommandOutcome::Nothing => self.finish(target, out),
            CommandOutcome::Message(severity, text) => {
                self.message(severity, &text, out);
                self.finish(target, out);
            }
            CommandOutcome::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                self.finish(target, out);
            }
            CommandOutcome::Stream(stream) => self.doing = Doing::Answering(stream),
            CommandOutcome::Script(run) => self.doing = Doing::Running(run),
            CommandOutcome::Wait { delay_ms, until } => {
                self.doing = Doing::Waiting { deadline_ms: now_ms.saturating_add(delay_ms), until };
            }
            CommandOutcome::Silence => self.doing = Doing::Nothing,
            CommandOutcome::HandOver => self.doing = Doing::HandingOver,
            CommandOutcome::Quit => self.doing = Doing::Closed,
        }
        // Print the payload prompt when its command is next.
        if self.payload.as_ref().is_some_and(|payload| !payload.complete) && self.queue.len() == 1 {
            self.prompt("+ ", target, out);
        }
    }

    fn outcome_of(
        &mut self,
        target: &mut dyn CommandTarget,
        words: &[String],
        payload: Option<&str>,
    ) -> CommandOutcome {
        if words.is_empty() {
            return CommandOutcome::Nothing;
        }
        let found = find_command(words, WORKER);
        if target.script_command_length(words) > found.map(|(_, count)| count)
            && let Some(run) = target.run_script_command(words)
        {
            return CommandOutcome::Script(run);
        }
        let Some((command, count)) = found else {
            let scripts = target.script_commands();
            return CommandOutcome::info(unknown(words, &scripts, WORKER, &self.modes));
        };
        if let Some(refusal) = command.refusal(&self.modes) {
            return CommandOutcome::error(refusal);
        }
        let Some(run) = command.run else {
            return CommandOutcome::error(format!("'{}' is not implemented yet.\n", command.name));
        };
        let arguments = CommandArguments::new(&words[count..], payload);
        run(&mut CommandContext { target, modes: &mut self.modes }, &arguments)
    }

    fn message(&self, severity: Severity, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.modes.severity_output.prefix(severity).as_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    /// Terminates an answer with an empty line and prints the next prompt.
    fn finish(&mut self, target: &mut dyn CommandTarget, out: &mut Vec<u8>) {
        self.doing = Doing::Nothing;
        out.push(b'\n');
        // Print the prompt only before a new line of input, not between the commands of one line.
        if self.queue.is_empty() {
            self.prompt("> ", target, out);
        }
    }

    fn prompt(&self, prompt: &str, target: &mut dyn CommandTarget, out: &mut Vec<u8>) {
        if self.modes.mode != SessionMode::Prompt {
            return;
        }
        if self.modes.timed {
            out.extend_from_slice(format!("[{}]", uptime(target.uptime_s())).as_bytes());
        }
        out.extend_from_slice(prompt.as_bytes());
    }

    fn end_waiting(&mut self, holds: Option<bool>, target: &mut dyn CommandTarget, out: &mut Vec<u8>) {
        match holds {
            Some(true) | None => self.message(Severity::Info, "Done.\n", out),
            Some(false) => self.message(Severity::Error, WAIT_FAILED, out),
        }
        self.finish(target, out);
    }

    /// Ends the session on invalid input. The following lines could be the rest of a payload instead of commands.
    fn refuse(&mut self, text: &str, out: &mut Vec<u8>) {
        self.refused = true;
        self.message(Severity::Error, text, out);
        out.push(b'\n');
        self.queue.clear();
        self.payload = None;
        self.doing = Doing::Closed;
    }
}

/// The uptime in prompts: `days:hours:minutes:seconds`.
fn uptime(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    format!("{}:{:02}:{:02}:{:02}", hours / 24, hours % 24, minutes % 60, seconds % 60)
}

enum InputLine {
    Line(Vec<u8>),
    TooLong,
    Nothing,
}

/// Maximum number of lines and commands per call. Each takes some microseconds, unless its answer is long.
const STEPS_AT_ONCE: u32 = 32;

/// How often a waiting session checks the condition of `wait`, in milliseconds.
const CONDITION_INTERVAL_MS: u64 = 10;

/// The answer to `wait` after its timeout.
const WAIT_FAILED: &str = "Failed.\n";
/// The error for a line over the length limit. It ends the session.
pub const LINE_TOO_LONG: &str = "The line is too long.\n";
/// The error for a payload over the length limit. It ends the session.
pub const PAYLOAD_TOO_LONG: &str = "The payload is too long.\n";
