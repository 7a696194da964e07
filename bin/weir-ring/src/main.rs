//! `weir-ring`: prints the messages of a ring's file (`backing-file` of a `ring` section).
//!
//! The process that writes the file may be alive, gone or killed in the middle of a message: what it says is looked at,
//! nothing of it is believed. The layouts are those of weir and of the reference program (see [`weir_sync::ring::file`]).
//!
//! Begin with `dump` below: it reads the file, asks `follower` what is new, and prints that. The program refuses to know
//! what a message says, and it changes nothing: a file that is damaged is read as far as it makes sense.

mod arguments;
mod follower;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use arguments::{Asked, Settings};
use follower::Follower;
use weir_sync::ring::file::Image;

fn main() -> ExitCode {
    match arguments::parse(std::env::args_os().skip(1)) {
        Asked::Dump(settings) => match dump(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            // Whoever reads the output has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("weir-ring: {}: {error}", settings.path.display());
                ExitCode::FAILURE
            }
        },
        Asked::Help => {
            print!("{}", arguments::USAGE);
            ExitCode::SUCCESS
        }
        Asked::Nonsense(why) => {
            eprint!("weir-ring: {why}\n{}", arguments::USAGE);
            ExitCode::from(2)
        }
    }
}

fn dump(settings: &Settings) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut follower = Follower::default();
    let mut reading = Reading::open(&settings.path)?;
    let mut patience = PATIENCE;
    loop {
        let (bytes, head) = reading.read()?;
        let opened = if settings.repair { Image::repair(&bytes) } else { Image::open(&bytes) };
        let image = match opened {
            Ok(image) => image,
            // Whoever follows may see a new file before its process has said what it is.
            Err(_) if settings.follow && patience > 0 => {
                patience -= 1;
                std::thread::sleep(INTERVAL);
                continue;
            }
            Err(fault) => return Err(io::Error::new(io::ErrorKind::InvalidData, fault)),
        };
        patience = PATIENCE;
        if settings.information {
            return describe(&image, &mut out);
        }
        let news = follower.look(&image, head.filter(|_| !settings.repair));
        if news.lost {
            eprintln!("weir-ring: messages were overwritten before they were read");
        }
        for message in &news.messages {
            out.write_all(message)?;
            out.write_all(if settings.zero { b"\0" } else { b"\n" })?;
        }
        out.flush()?;
        if !settings.follow {
            return if news.damaged {
                let hint = "what follows is damaged; -r looks for more";
                Err(io::Error::new(io::ErrorKind::InvalidData, hint))
            } else {
                Ok(())
            };
        }
        std::thread::sleep(INTERVAL);
        if reading.was_replaced(&settings.path) {
            reading = Reading::open(&settings.path)?;
            follower = Follower::default();
        }
    }
}

fn describe(image: &Image<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut messages = image.messages();
    let (mut complete, mut busy) = (0, 0);
    for entry in messages.by_ref() {
        if entry.bytes.is_some() { complete += 1 } else { busy += 1 }
    }
    writeln!(out, "layout: {}", image.layout.name())?;
    writeln!(out, "size: {}", image.size())?;
    writeln!(out, "head: {}", image.head)?;
    writeln!(out, "tail: {}{}", image.tail, if image.locked { " (locked by a writer)" } else { "" })?;
    writeln!(out, "messages: {complete}")?;
    writeln!(out, "being written: {busy}")?;
    writeln!(out, "damaged: {}", if messages.is_damaged() { "yes" } else { "no" })
}

/// The file, open: when another takes its name, this one can still be read.
struct Reading {
    file: File,
    inode: u64,
}

impl Reading {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Reading { file, inode })
    }

    /// The whole file, and where its oldest message was once that was read: what is before was perhaps overwritten while it
    /// was read.
    fn read(&mut self) -> io::Result<(Vec<u8>, Option<usize>)> {
        use std::os::unix::fs::FileExt;
        if self.file.metadata()?.len() > LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large to be a ring"));
        }
        let mut bytes = Vec::new();
        io::Seek::rewind(&mut self.file)?;
        (&self.file).take(LARGEST).read_to_end(&mut bytes)?;
        let mut header = vec![0; bytes.len().min(weir_sync::ring::HEADER)];
        self.file.read_exact_at(&mut header, 0)?;
        let mut later = bytes.clone();
        later[..header.len()].copy_from_slice(&header);
        let head = Image::open(&later).ok().map(|image| image.head);
        Ok((bytes, head))
    }

    fn was_replaced(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|metadata| metadata.ino() != self.inode)
    }
}

/// How often a file that is followed is looked at.
const INTERVAL: Duration = Duration::from_millis(50);
/// How often a file may make no sense before it is none: for some seconds.
const PATIENCE: u32 = 100;
/// No ring is larger: the file is read as a whole.
const LARGEST: u64 = 4 << 30;
