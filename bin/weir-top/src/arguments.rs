//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use crate::page::Page;
use crate::target::ApiAddress;

/// The output of `--help`. `make reference` generates the man page and the shell completions from it.
pub(crate) const USAGE: &str = "\
usage: weir-top [-s <socket>] [options]
shows what a weir or an HAProxy does, over its runtime API, and changes the state of servers after a question
  -s <socket>  the path of a stats socket, or host:port; of a master's socket, the worker is shown
  -i <seconds>  how often to ask, 1 by default, at most 3600
  --once  print one picture as plain text and end; for scripts, and where there is no terminal
  --view <name>  begin with this view: overview, frontends, backends, servers, errors or sessions; with --once, print it alone
  --filter <text>  show only names that contain this text
  --sort <column>  sort by the column with this title, the largest first
  --read-only  refuse to change anything
  --ascii  draw with ASCII alone, also where the locale has UTF-8
  --no-color  use no colours; the variable NO_COLOR does the same
  -h, --help  print this help
  -V, --version  print the version
Without -s, the variable WEIR_SOCKET names the socket. Without it the first of these that is there is used:
/run/weir/admin.sock, /run/haproxy/admin.sock, /var/run/haproxy.sock, /var/lib/haproxy/stats.
While it runs, the question mark shows the keys.
exit status: 0 all went well; 1 no answer, or no usable terminal; 2 wrong arguments
";

/// The command selected by the arguments.
#[derive(Debug, PartialEq)]
pub(crate) enum DashboardCommand {
    Run(WatchSettings),
    Help,
    Version,
    /// The arguments are invalid, for this reason.
    Nonsense(String),
}

/// The settings of the dashboard.
#[derive(Debug, PartialEq)]
pub(crate) struct WatchSettings {
    /// `-s`.
    pub target: Option<ApiAddress>,
    pub interval: Duration,
    pub once: bool,
    pub page: Option<Page>,
    pub filter: String,
    pub sort: Option<String>,
    pub read_only: bool,
    pub ascii: bool,
    pub no_color: bool,
}

impl Default for WatchSettings {
    fn default() -> Self {
        WatchSettings {
            target: None,
            interval: Duration::from_secs(1),
            once: false,
            page: None,
            filter: String::new(),
            sort: None,
            read_only: false,
            ascii: false,
            no_color: false,
        }
    }
}

/// Parses the arguments after the program's name.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> DashboardCommand {
    let mut settings = WatchSettings::default();
    let mut words = words;
    while let Some(word) = words.next() {
        let Some(word) = word.to_str() else {
            return DashboardCommand::Nonsense("an argument is not UTF-8".to_owned());
        };
        let mut value = || match words.next().map(OsString::into_string) {
            Some(Ok(value)) => Ok(value),
            _ => Err(format!("'{word}' needs a value")),
        };
        let read = match word {
            "-h" | "--help" => return DashboardCommand::Help,
            "-V" | "--version" => return DashboardCommand::Version,
            "--once" => flag(&mut settings.once),
            "--read-only" => flag(&mut settings.read_only),
            "--ascii" => flag(&mut settings.ascii),
            "--no-color" => flag(&mut settings.no_color),
            "-s" => {
                value().and_then(|text| ApiAddress::parse(&text)).map(|target| settings.target = Some(target))
            }
            "-i" => value().and_then(|text| interval(&text)).map(|interval| settings.interval = interval),
            "--filter" => value().map(|text| settings.filter = text),
            "--sort" => value().map(|text| settings.sort = Some(text)),
            "--view" => value().and_then(|text| page(&text)).map(|page| settings.page = Some(page)),
            word => Err(match word.strip_prefix('-') {
                Some(_) => format!("unknown option '{word}'"),
                None => format!("'{word}' is not expected here; the socket is named with -s"),
            }),
        };
        if let Err(why) = read {
            return DashboardCommand::Nonsense(why);
        }
    }
    DashboardCommand::Run(settings)
}

fn flag(flag: &mut bool) -> Result<(), String> {
    *flag = true;
    Ok(())
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let wrong = || format!("'{text}' is not a number of seconds from 0.1 to 3600");
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

fn page(text: &str) -> Result<Page, String> {
    let found = Page::ALL.into_iter().find(|page| page.name() == text);
    found.ok_or_else(|| {
        format!("'{text}' is not a view: overview, frontends, backends, servers, errors or sessions")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: DashboardCommand) {
        assert_eq!(parse(words.split_whitespace().map(OsString::from)), expected, "{words}");
    }

    fn nonsense(words: &str, expected: &str) {
        check(words, DashboardCommand::Nonsense(expected.to_owned()));
    }

    #[test]
    fn parses_the_command_line() {
        check("", DashboardCommand::Run(WatchSettings::default()));
        let target = Some(ApiAddress::Unix("/tmp/a".into()));
        let half = Duration::from_millis(500);
        check(
            "-s /tmp/a -i 0.5",
            DashboardCommand::Run(WatchSettings { target, interval: half, ..WatchSettings::default() }),
        );
        let page = Some(Page::Servers);
        check(
            "--once --view servers",
            DashboardCommand::Run(WatchSettings { once: true, page, ..WatchSettings::default() }),
        );
        check("-h -x", DashboardCommand::Help);
        check("--version", DashboardCommand::Version);
    }

    #[test]
    fn errors_name_the_invalid_argument() {
        nonsense("-s", "'-s' needs a value");
        nonsense("-i 0", "'0' is not a number of seconds from 0.1 to 3600");
        nonsense("-i NaN", "'NaN' is not a number of seconds from 0.1 to 3600");
        nonsense("--view x", "'x' is not a view: overview, frontends, backends, servers, errors or sessions");
        nonsense("-z", "unknown option '-z'");
        nonsense("/a", "'/a' is not expected here; the socket is named with -s");
    }

    #[test]
    fn the_usage_names_the_default_sockets() {
        for path in crate::target::DEFAULTS {
            assert!(USAGE.contains(path), "{path}");
        }
    }
}
