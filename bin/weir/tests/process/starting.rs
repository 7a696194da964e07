//! Output and exit status of the real binary before it serves, or when it does not start.

use std::process::{Command, Output};

use crate::program::{Address, DEFAULTS, Setup, until};
use weir_sys::signal;

fn weir(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().expect("the binary was built")
}

#[track_caller]
fn check(words: &[&str], status: i32, stdout: &str, stderr: &str) {
    let output = weir(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{words:?}: {out}{err}");
    assert!(out.contains(stdout) && err.contains(stderr), "{words:?}: {out}{err}");
    assert!(!stdout.is_empty() || out.is_empty(), "{words:?}: {out}");
}

#[test]
fn prints_the_version_in_the_form_that_scripts_expect() {
    check(&["-v"], 0, "HAProxy version 3.5", "");
    check(&["-vv"], 0, "\n  TARGET  = ", "");
    check(&["-vv"], 0, " +THREAD", "");
    check(&["-vv"], 0, "\nBuilt with Lua version : Lua 5.4.", "");
    check(&["-vqs"], 0, "3.5.0\n", "");
    check(&["-dKcli"], 0, "show info [WORKER]", "");
}

#[test]
fn option_cc_sets_the_exit_status_by_its_condition() {
    check(&["-cc", "version_atleast(3.0)"], 0, "", "");
    check(&["-cc", "version_atleast(9.0)"], 1, "", "");
    check(&["-cc", "streq(\"foo bar\",'foo bar')"], 0, "", "");
    check(&["-cc", ""], 1, "", "");
    check(
        &["-cc", "200rrr"],
        2,
        "",
        "unexpected character 'r' at the end of conditional expression '200rrr'",
    );
    check(&["-cc", "streq(a,\"a)"], 2, "", "[ALERT]");
}

#[test]
fn rejects_unknown_options_and_missing_files() {
    check(&["-nonsense"], 1, "", "unknown option '-nonsense'.\nUsage :");
    check(&["-c"], 1, "", "Usage :");
    check(&["-f", "/no/such/file"], 1, "", "Cannot open configuration file");
}

#[test]
fn option_c_reports_validity_by_its_exit_status() {
    let valid = format!("{DEFAULTS}\nfrontend f\n    bind 127.0.0.1:1\n    http-request return status 200\n");
    let checked = |text: &str, words: &[&str]| {
        let setup = words.iter().fold(Setup::new().argument("-c"), |setup, word| setup.argument(*word));
        let output = setup.run(text);
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().expect("it ends by itself"), out, err)
    };
    assert_eq!(checked(&valid, &[]), (0, String::new(), String::new()));
    assert_eq!(checked(&valid, &["-q"]), (0, String::new(), String::new()));
    assert_eq!(checked(&valid, &["-V"]).1, "Configuration file is valid\n");
    let (status, _, err) = checked(&format!("{valid}    nonsense\n"), &[]);
    assert!(
        status == 1 && err.contains("unknown keyword 'nonsense'") && err.contains("Fatal errors found"),
        "{err}"
    );
    assert_eq!(checked(DEFAULTS, &[]).0, 2, "nothing would listen");
    let careless = "frontend f\n    mode http\n    bind 127.0.0.1:1\n";
    let (status, _, err) = checked(careless, &[]);
    assert!(status == 0 && err.contains("[WARNING]") && err.contains("missing timeouts"), "{err}");
    assert_eq!(checked(careless, &["-dW"]).0, 1);
    assert_eq!(checked(careless, &["-q"]).2, "");
}

#[test]
fn a_failed_bind_is_reported_with_its_line_and_frontend() {
    let output = Setup::new().run(&format!("{DEFAULTS}\nfrontend f\n    bind unix@/no/such/folder/s\n"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("weir.cfg:9] for frontend f: cannot bind socket (No such file or directory)"),
        "{err}"
    );
}

#[test]
fn refuses_to_start_if_a_server_name_does_not_resolve() {
    let text = format!(
        "{DEFAULTS}\nlisten l\n    bind 127.0.0.1:1\n    server s no-such-name.invalid:80\n    server t 127.0.0.1:1\n"
    );
    let output = Setup::new().run(&text);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("could not resolve address 'no-such-name.invalid'"), "{err}");
}

/// R156, R157: the process forks before all other steps, and the pid file contains the number of the background process.
#[test]
fn the_background_process_is_ready_when_the_foreground_one_ends() {
    let setup = Setup::new().argument("-D");
    let (pid_file, path) = (setup.path("pid"), setup.path("front.sock"));
    let setup = setup.argument("-p").argument(pid_file.display().to_string());
    let text = format!(
        "{DEFAULTS}\nfrontend f\n    bind unix@{}\n    http-request return status 200 content-type text/plain string up\n",
        path.display()
    );
    let output = setup.run(&text);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let process: u32 = std::fs::read_to_string(&pid_file).expect("written").trim().parse().expect("a number");
    let body = Address::unix(&path).try_connect().map(|mut client| client.get("/").body);
    assert_eq!(signal::send(process, signal::SIGTERM), Ok(true));
    assert_eq!(body.as_deref(), Some("up"));
    until("it is gone", || (!std::path::Path::new(&format!("/proc/{process}")).exists()).then_some(()));
}

#[test]
fn a_failed_start_in_background_makes_the_foreground_process_fail() {
    let setup = Setup::new().argument("-D");
    let output = setup.run(&format!("{DEFAULTS}\nfrontend f\n    bind unix@/no/such/folder/s\n"));
    assert_eq!(output.status.code(), Some(1));
}
