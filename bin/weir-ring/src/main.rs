//! `weir-ring`: prints the messages in a ring file (`backing-file` of a `ring` section).
//!
//! The process that writes the file may be running, stopped or killed in the middle of a message. So the program trusts nothing in
//! the file. It supports the layouts of weir and HAProxy (see [`weir_sync::ring::file`]).
//!
//! Begin with `dump` below. It gets new messages from `follower` and prints them. The program does not interpret messages and does
//! not change the file. From a damaged file it prints all remaining messages.

mod arguments;
mod follower;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use arguments::{PrintSettings, RingCommand};
use follower::{FileFollower, FileReport, LookMode};
use weir_sync::ring::file::{FileHeader, RingSource};

fn main() -> ExitCode {
    match arguments::parse(std::env::args_os().skip(1)) {
        RingCommand::Dump(settings) => match dump(&settings) {
            Ok(false) => ExitCode::SUCCESS,
            Ok(true) => ExitCode::FAILURE,
            // The reader of standard output closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("weir-ring: {}: {error}", settings.path.display());
                ExitCode::FAILURE
            }
        },
        RingCommand::Help => {
            print!("{}", arguments::USAGE);
            ExitCode::SUCCESS
        }
        RingCommand::Nonsense(why) => {
            eprint!("weir-ring: {why}\n{}", arguments::USAGE);
            ExitCode::from(2)
        }
    }
}

/// Prints a file. Returns whether the file is damaged.
fn dump(settings: &PrintSettings) -> io::Result<bool> {
    let mut printer = Printer {
        out: BufWriter::new(io::stdout().lock()),
        end: if settings.zero { b'\0' } else { b'\n' },
        damaged: false,
    };
    let mut files = vec![FollowedFile::open(&settings.path)?];
    if settings.information {
        return describe(&files[0].file, &mut printer.out);
    }
    if settings.follow {
        return follow(settings, &mut files, &mut printer);
    }
    let FollowedFile { file, follower, .. } = &mut files[0];
    let header = FileHeader::read(file);
    if let Ok(header) = &header {
        printer.compare_length(header);
    }
    match header {
        Err(error) if settings.repair && error.kind() == io::ErrorKind::InvalidData => {
            eprintln!("weir-ring: {error}: everything that looks like a message follows");
            printer.damaged = true;
            follower::repair(file, &mut |report| printer.print(report))?;
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let hint = format!("{error}; -r looks for messages all the same");
            return Err(io::Error::new(io::ErrorKind::InvalidData, hint));
        }
        _ => follower.look(file, LookMode::Once, &mut |report| printer.print(report))?,
    }
    printer.out.flush()?;
    Ok(printer.damaged)
}

/// Prints new messages forever: of the file with this name, and of its predecessors, to which stopping processes may still
/// write.
fn follow(
    settings: &PrintSettings,
    files: &mut Vec<FollowedFile>,
    printer: &mut Printer<'_>,
) -> io::Result<bool> {
    let mut patience = PATIENCE;
    loop {
        let newest = files.len() - 1;
        for (index, followed) in files.iter_mut().enumerate() {
            match followed.look(printer) {
                Ok(()) if index == newest => patience = PATIENCE,
                // A process creates its file before it writes the header. Retry.
                Err(error)
                    if error.kind() == io::ErrorKind::InvalidData && (patience > 0 || index < newest) =>
                {
                    patience -= u32::from(index == newest);
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData && settings.repair => {
                    follower::repair(&followed.file, &mut |report| printer.print(report))?;
                    printer.out.flush()?;
                    return Err(error);
                }
                looked => looked?,
            }
        }
        printer.out.flush()?;
        std::thread::sleep(INTERVAL);
        // During a rename the file may be missing for a moment.
        if let Ok(metadata) = fs::metadata(&settings.path)
            && metadata.ino() != files[newest].inode
            && let Ok(next) = FollowedFile::open(&settings.path)
        {
            files.push(next);
            if files.len() > MOST_FILES {
                files.remove(0);
            }
        }
    }
}

fn describe(file: &File, out: &mut impl Write) -> io::Result<bool> {
    let header = FileHeader::read(file)?;
    let (mut complete, mut busy, mut damaged) = (0, 0, header.excess() != 0);
    FileFollower::default().look(file, LookMode::Once, &mut |report| {
        match report {
            FileReport::Message(_) => complete += 1,
            FileReport::Unfinished => busy += 1,
            FileReport::Damaged { .. } | FileReport::Miscounted { .. } => damaged = true,
            FileReport::Lost { .. } | FileReport::Replaced => {}
        }
        Ok(())
    })?;
    writeln!(out, "layout: {}", header.layout.name())?;
    writeln!(out, "size: {}", header.area.size)?;
    writeln!(out, "head: {}", header.head)?;
    writeln!(out, "tail: {}{}", header.tail, if header.locked { " (locked by a writer)" } else { "" })?;
    writeln!(out, "messages: {complete}")?;
    writeln!(out, "being written: {busy}")?;
    if let Some(counters) = header.counters.filter(|_| header.counters_fit()) {
        writeln!(out, "written since it was made: {}", counters.reserved)?;
        writeln!(out, "overwritten since then: {}", counters.recycled)?;
    }
    writeln!(out, "damaged: {}", if damaged { "yes" } else { "no" })?;
    out.flush()?;
    Ok(damaged)
}

/// Prints messages to standard output and remarks to standard error.
struct Printer<'o> {
    out: BufWriter<io::StdoutLock<'o>>,
    /// The terminator of each message.
    end: u8,
    damaged: bool,
}

impl Printer<'_> {
    fn print(&mut self, report: FileReport<'_>) -> io::Result<()> {
        if let FileReport::Message(message) = report {
            self.out.write_all(message)?;
            return self.out.write_all(&[self.end]);
        }
        // Flush, so that on a terminal a remark appears after the preceding messages.
        self.out.flush()?;
        self.damaged |= matches!(report, FileReport::Damaged { .. } | FileReport::Miscounted { .. });
        let messages = |count: u64| if count == 1 { "message was" } else { "messages were" };
        match report {
            FileReport::Lost { count: Some(count), about } => {
                let about = if about { "about " } else { "" };
                eprintln!("weir-ring: {about}{count} {} overwritten before being read", messages(count));
            }
            FileReport::Lost { count: None, about } => {
                let were = if about { "may have been" } else { "were" };
                eprintln!("weir-ring: messages {were} overwritten before being read");
            }
            FileReport::Unfinished => eprintln!("weir-ring: a message is not finished"),
            FileReport::Damaged { place, bytes } => {
                eprintln!("weir-ring: damaged: no message in {bytes} bytes at offset {place} of the area");
            }
            FileReport::Miscounted { counted, found } => {
                eprintln!("weir-ring: damaged: {found} {} found, {counted} expected", messages(found));
            }
            FileReport::Replaced => eprintln!(
                "weir-ring: the file contains another ring now: unread messages of the former one are lost"
            ),
            FileReport::Message(_) => {}
        }
        Ok(())
    }

    /// Reports a file length that differs from the header.
    fn compare_length(&mut self, header: &FileHeader) {
        let excess = header.excess();
        if excess != 0 {
            self.damaged = true;
            let (bytes, how) = (excess.unsigned_abs(), if excess < 0 { "shorter" } else { "longer" });
            eprintln!("weir-ring: damaged: the file is {bytes} bytes {how} than its header says");
        }
    }
}

/// An open file. Remains readable after another file takes its name.
struct FollowedFile {
    file: File,
    inode: u64,
    follower: FileFollower,
    /// The file's length at the last report of a wrong length.
    length: Option<u64>,
}

impl FollowedFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(FollowedFile { file, inode, follower: FileFollower::default(), length: None })
    }

    fn look(&mut self, printer: &mut Printer<'_>) -> io::Result<()> {
        let length = self.file.length()?;
        if self.length.replace(length) != Some(length) {
            printer.compare_length(&FileHeader::read(&self.file)?);
        }
        self.follower.look(&self.file, LookMode::Again, &mut |report| printer.print(report))
    }
}

/// How often a followed file is checked for changes.
const INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of retries for an invalid header, over some seconds. Then the file is rejected.
const PATIENCE: u32 = 100;
/// Maximum number of files to follow. Stopping processes still write to older files.
const MOST_FILES: usize = 5;
