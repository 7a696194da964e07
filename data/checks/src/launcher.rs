//! A thread that starts the programs of external checks, so no worker blocks on finding and loading a file.
//!
//! At most [`MOST_PROGRAMS`] run at once. Others wait for their turn.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use weir_net::{TaskTurn, TaskTurns};
use weir_sched::{TaskKey, Tick, now, wait};
use weir_sys::Errno;
use weir_sys::process::NullDevice;
use weir_sys::program::{Invocation, Program};

/// Starts programs.
#[derive(Debug)]
pub struct Launcher {
    jobs: Sender<Job>,
    turns: TaskTurns,
    /// The environment variables that programs inherit, `NAME=value` each.
    pub(crate) environment: Vec<Vec<u8>>,
}

/// A program to start.
#[derive(Debug)]
struct Job {
    invocation: Invocation,
    /// The search path, for a name without a slash.
    path: Vec<u8>,
    launch: Arc<Launch>,
}

/// State shared with a task that waits for its program to start.
#[derive(Debug)]
struct Launch {
    outcome: Mutex<Option<Result<Program, Errno>>>,
    task: TaskKey,
}

/// The limit of concurrent programs.
const MOST_PROGRAMS: u32 = 64;

impl Launcher {
    /// Starts the thread. Call it before `chroot`, because the new root may lack `/dev/null`.
    ///
    /// # Errors
    /// If the thread cannot be created, or `/dev/null` does not exist.
    pub fn start(environment: Vec<Vec<u8>>) -> io::Result<Launcher> {
        let streams = NullDevice::open()?;
        let (jobs, received) = channel();
        weir_sys::thread::start(c"programs", move || launch_all(&received, &streams))?;
        Ok(Launcher { jobs, turns: TaskTurns::new(MOST_PROGRAMS), environment })
    }

    /// Waits until a program may run. `None` at the deadline. The program may run until the returned value is dropped.
    pub(crate) async fn turn(&self, deadline: Tick) -> Option<TaskTurn<'_>> {
        self.turns.turn(deadline).await
    }

    /// Starts a program. `None` at the deadline.
    pub(crate) async fn launch(
        &self,
        invocation: Invocation,
        path: Vec<u8>,
        deadline: Tick,
    ) -> Option<Result<Program, Errno>> {
        let launch = Arc::new(Launch { outcome: Mutex::default(), task: weir_sched::current() });
        // `send` succeeds, because the thread runs until this sender is dropped.
        let _ = self.jobs.send(Job { invocation, path, launch: Arc::clone(&launch) });
        loop {
            let outcome = launch.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
            if outcome.is_some() || deadline <= now() {
                return outcome;
            }
            wait(deadline).await;
        }
    }
}

/// The main loop of the thread.
fn launch_all(jobs: &Receiver<Job>, streams: &NullDevice) {
    for job in jobs {
        // The job's task has given up.
        if Arc::strong_count(&job.launch) == 1 {
            continue;
        }
        let outcome = start(job.invocation, &job.path, streams);
        *job.launch.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        weir_sched::wake(job.launch.task);
        // If the job's task has given up, dropping the last reference here kills the program.
    }
}

/// Starts a program like `execvp`: searches a bare name in the directories of `path`, and runs a script without an
/// interpreter line with a shell.
fn start(mut invocation: Invocation, path: &[u8], streams: &NullDevice) -> Result<Program, Errno> {
    if invocation.file.contains(&b'/') {
        return start_file(invocation, streams);
    }
    let name = std::mem::take(&mut invocation.file);
    let mut outcome = Err(Errno::NOENT);
    for folder in path.split(|byte| *byte == b':') {
        // An empty entry is the current directory.
        let folder = if folder.is_empty() { b"." } else { folder };
        let file = [folder, b"/", &name].concat();
        outcome = start_file(Invocation { file, ..invocation.clone() }, streams);
        if !matches!(outcome, Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS)) {
            break;
        }
    }
    outcome
}

fn start_file(mut invocation: Invocation, streams: &NullDevice) -> Result<Program, Errno> {
    let outcome = Program::start(&invocation, streams);
    if !matches!(outcome, Err(Errno::NOEXEC)) {
        return outcome;
    }
    let script = std::mem::replace(&mut invocation.file, SHELL.to_vec());
    invocation.words.splice(..1, [SHELL.to_vec(), script]);
    Program::start(&invocation, streams)
}

/// The shell for scripts without an interpreter line.
const SHELL: &[u8] = b"/bin/sh";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use weir_sys::child::Exit;

    /// Runs a program that is searched in `path`. Returns its exit status.
    fn run(file: &str, path: &str) -> Result<Exit, Errno> {
        let streams = NullDevice::open().expect("a device");
        let file = file.as_bytes().to_vec();
        let invocation =
            Invocation { words: vec![file.clone(), b"4".to_vec()], file, ..Invocation::default() };
        let mut program = start(invocation, path.as_bytes(), &streams)?;
        loop {
            if let Some(exit) = program.exit()? {
                return Ok(exit);
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn external_checks_search_path_like_a_shell() {
        assert_eq!(run("true", "/nonexistent:/etc/passwd:/usr/bin:/bin"), Ok(Exit::Code(0)));
        assert_eq!(run("true", "/nonexistent"), Err(Errno::NOENT));
        assert_eq!(run("/bin/false", ""), Ok(Exit::Code(1)));
        let script = std::env::temp_dir().join(format!("weir-script-{}", std::process::id()));
        std::fs::write(&script, "exit $1\n").expect("a file");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("its owner");
        let ended = run(script.to_str().expect("a plain name"), "");
        std::fs::remove_file(&script).expect("it is there");
        assert_eq!(ended, Ok(Exit::Code(4)), "no line says by what it runs");
    }
}
