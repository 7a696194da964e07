//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// The output of `-h`.
pub(crate) const USAGE: &str = "\
usage: weir-ring [-f] [-0] [-r] [-i] <file>
prints the messages of a ring's file, oldest first
  -f  follow: go on with what is written from now on, also in a new file of that name
  -0  end each message with NUL, so that messages of several lines can be told apart
  -r  repair: if the header is damaged, print everything in the file that looks like a message
  -i  describe the file instead of printing its messages
Damage, messages overwritten before being read and messages that were never finished are reported on stderr.
exit status: 0 all messages were printed; 1 the file is damaged or not a ring: what can be read was printed;
2 wrong arguments
";

/// The command selected by the arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RingCommand {
    Dump(PrintSettings),
    Help,
    /// The arguments are invalid, for this reason.
    Nonsense(String),
}

/// How to print a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PrintSettings {
    pub path: PathBuf,
    /// `-f`.
    pub follow: bool,
    /// `-0`.
    pub zero: bool,
    /// `-r`.
    pub repair: bool,
    /// `-i`.
    pub information: bool,
}

/// Parses the arguments after the program's name. Option letters may be combined in one word.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> RingCommand {
    let mut settings = PrintSettings::default();
    let mut path = None;
    let mut only_paths = false;
    for word in words {
        let letters = word.to_str().and_then(|text| text.strip_prefix('-')).filter(|_| !only_paths);
        match letters {
            Some("-") => only_paths = true,
            Some(letters) if !letters.is_empty() => {
                for letter in letters.chars() {
                    match letter {
                        'f' => settings.follow = true,
                        '0' => settings.zero = true,
                        'r' => settings.repair = true,
                        'i' => settings.information = true,
                        'h' => return RingCommand::Help,
                        _ => return RingCommand::Nonsense(format!("unknown option '-{letter}'")),
                    }
                }
            }
            _ if path.is_none() => path = Some(PathBuf::from(word)),
            _ => return RingCommand::Nonsense("one file at a time".to_owned()),
        }
    }
    match path {
        Some(path) => RingCommand::Dump(PrintSettings { path, ..settings }),
        None => RingCommand::Nonsense("a file is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: RingCommand) {
        assert_eq!(parse(words.split_whitespace().map(OsString::from)), expected, "{words}");
    }

    #[test]
    fn parses_the_command_line() {
        let plain = || PrintSettings { path: "ring".into(), ..PrintSettings::default() };
        check("ring", RingCommand::Dump(plain()));
        check("-f0 ring", RingCommand::Dump(PrintSettings { follow: true, zero: true, ..plain() }));
        check("ring -r -i", RingCommand::Dump(PrintSettings { repair: true, information: true, ..plain() }));
        check("-- -f", RingCommand::Dump(PrintSettings { path: "-f".into(), ..PrintSettings::default() }));
        check("-h", RingCommand::Help);
        check("", RingCommand::Nonsense("a file is expected".to_owned()));
        check("-x ring", RingCommand::Nonsense("unknown option '-x'".to_owned()));
        check("a b", RingCommand::Nonsense("one file at a time".to_owned()));
    }
}
