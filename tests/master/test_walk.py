"""The management guide, chapters 3 and 4 on starting and stopping: its statements, one per line, with their proofs.

`OPTIONS` has every option of chapter 3 with its test, here or elsewhere. `STATEMENTS` has the rest.
"""
import contextlib
import glob
import os
import re
import signal
import subprocess
import tarfile

from lib.program import ROOT, TERM, USR1, Program, answering, ask, connects, free_port, request, run, wait_until
from master.support import Master

# Section, option, statement, proof: a function below, or the name of a check elsewhere.
OPTIONS = [
    ("3", "--", "files and folders follow, in their order", "test_files_after_two_dashes_are_configurations"),
    ("3", "-f", "a file, or those of a folder that end in .cfg and are not hidden, in lexical order", "test_several_files_and_a_folder_are_read_in_order"),
    ("3", "-C", "changes the folder before anything is read", "test_option_C_changes_the_working_folder_before_files_are_read"),
    ("3", "-D", "detaches from the terminal, as 'daemon' does", "test_a_daemon_serves_as_soon_as_its_command_returns"),
    ("3", "-L", "the local peer name, in HAPROXY_LOCALPEER", "test_option_L_sets_the_local_peer_name"),
    ("3", "-N", "the default maxconn of proxies", "test_options_n_N_and_m_limit_connections"),
    ("3", "-V", "prints more messages, and undoes -q and 'quiet'", "test_option_q_prints_nothing_even_with_option_V"),
    ("3", "-W", "a master that watches a worker, in foreground or background", "test_foreground_processes_keep_their_stderr"),
    ("3", "-Ws", "notifies the service manager", "test_a_service_with_option_Ws_serves_once_it_reports_readiness"),
    ("3", "-4", "names have IPv4 addresses only", "test_option_4_ignores_ipv6_addresses_of_names"),
    ("3", "-c", "checks, and reports a valid configuration only with -V", "test_option_c_reports_validity_by_output_and_exit_status"),
    ("3", "-cc", "0, 1 or 2 for true, false and nonsense", "test_option_cc_exits_with_the_result_of_the_condition"),
    ("3", "-d", "stays in the foreground, with more messages", "test_option_d_stays_in_the_foreground"),
    ("3", "-dC", "prints the parsed configuration", "test_option_dC_prints_the_configuration"),
    ("3", "-dD", "warns of suspicious settings", "test_option_dD_accepts_a_valid_configuration"),
    ("3", "-dF", "no forwarding past the stream, so no splicing", "test_options_dF_dS_and_dZ_disable_splicing"),
    ("3", "-dG", "no getaddrinfo(): no effect, with a warning", "test_options_de_and_dG_are_reported_as_ignored"),
    ("3", "-dI", "allows processes to be created", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-dK", "lists keywords by class", "test_option_dK_lists_keywords"),
    ("3", "-dL", "lists loaded objects once the configuration was read, and nothing when it is wrong", "test_option_dL_lists_loaded_object_files"),
    ("3", "-dA", "archives loaded objects in a file, or on standard output", "test_option_dA_archives_loaded_object_files"),
    ("3", "-dM", "memory is always checked", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-dR", "no address is shared", "test_option_dR_refuses_an_address_in_use"),
    ("3", "-dS", "no splicing", "test_options_dF_dS_and_dZ_disable_splicing"),
    ("3", "-dT", "no kernel TLS", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-dV", "certificates of servers are not verified", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-dW", "a warning is an error", "test_warnings_are_fatal_with_dW"),
    ("3", "-dZ", "no zero-copy forwarding, so no splicing", "test_options_dF_dS_and_dZ_disable_splicing"),
    ("3", "-db", "stays in the foreground, overriding other settings", "test_foreground_processes_keep_their_stderr"),
    ("3", "-dc", "lists processors and threads", "test_option_dc_lists_processors_and_threads"),
    ("3", "-de", "no epoll: no other poller exists, with a warning", "test_options_de_and_dG_are_reported_as_ignored"),
    ("3", "-dk", "no kqueue", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-dp", "no poll()", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-dr", "servers without an address do not prevent the start", "test_option_dr_tolerates_unresolved_server_names"),
    ("3", "-dt", "traces to standard error", "test_option_dt_traces_to_standard_error"),
    ("3", "-dv", "no event ports", "test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted"),
    ("3", "-m", "bounds memory", "test_options_n_N_and_m_limit_connections"),
    ("3", "-n", "bounds connections, before 'maxconn'", "test_options_n_N_and_m_limit_connections"),
    ("3", "-p", "writes the pid to a file, opened before the chroot and after -C", "test_the_pid_file_is_relative_to_the_folder_of_option_C"),
    ("3", "-q", "prints nothing", "test_option_q_prints_nothing_even_with_option_V"),
    ("3", "-S", "a CLI socket of the master; its options follow after commas", "test_master_cli_levels_apply_to_the_master_and_its_workers"),
    ("3", "-sf", "SIGUSR1 to former processes once it listens", "test_option_sf_replaces_the_old_process"),
    ("3", "-st", "SIGTERM to former processes once it listens", "test_option_st_ends_former_processes_at_once"),
    ("3", "-v", "the version", "test_options_v_vv_and_h_print_version_and_usage"),
    ("3", "-vv", "the version, and the built-in features", "test_options_v_vv_and_h_print_version_and_usage"),
    ("3", "-x", "takes over listening sockets; /dev/null disables this", "test_listening_sockets_are_handed_over_with_option_x"),
]

STATEMENTS = [
    ("3", "without any option it shows its help: weir serves its built-in configuration instead", "test_weir_serves_its_built_in_configuration_without_options"),
    ("3", "the command line has precedence over the configuration", "test_options_n_N_and_m_limit_connections"),
    ("3", "each file begins outside of any section", "test_every_file_begins_outside_of_any_section"),
    ("3", "-S without a master is reported", "test_option_S_without_a_master_or_with_a_bad_address_is_reported"),
    ("3", "the list of -sf ends at the next option and may be empty", "test_option_sf_accepts_an_empty_list"),
    ("4", "SIGTERM closes all connections at once", "test_sigterm_and_sigint_end_the_process_at_once"),
    ("4", "SIGUSR1 unbinds, and waits for the last connection", "test_sigusr1_stops_listening_and_waits_for_open_requests"),
    ("4", "SIGUSR2 to a master reloads", "test_r119_r133_signals_reload_a_master_without_a_cli_socket"),
    ("4", "SIGTTOU has a former process release its addresses, SIGTTIN take them again", "test_a_former_process_listens_again_after_its_successor_failed"),
    ("4", "a start that fails ends with an error", "test_a_failed_start_leaves_files_and_sockets_of_a_running_master_unchanged"),
]


def test_every_statement_of_the_guide_names_an_existing_test(binary, folder):
    """Every named test exists, and every option of the usage has a row."""
    known = set()
    for path in [*glob.glob(os.path.join(ROOT, "tests", "master", "*.py")), os.path.join(ROOT, "tests", "process", "test_process.py")]:
        with open(path) as file:
            known |= set(re.findall(r"^def (\w+)", file.read(), re.M))
    missing = [line for line in OPTIONS + STATEMENTS if line[-1] not in known]
    assert not missing, missing
    shown = set(re.findall(r"^ {8}(-\S+?)[\s\[<]", run(binary, "--help")[1], re.M))
    walked = {option for _, option, *_ in OPTIONS}
    # Of `--format`, which HAProxy does not have, language/test_checking.py has the tests.
    assert shown - walked == {"--format", "--help", "--version", "-h", "-version", "-vq", "-vqb", "-vqs"}, shown - walked
    assert walked - shown == {"--"}, walked - shown


def test_files_after_two_dashes_are_configurations(binary, folder, port):
    first = folder.file("1.cfg", "defaults\n    mode http\n    timeout client 1s\n    timeout connect 1s\n    timeout server 1s\n")
    last = folder.file("2.cfg", f"frontend f\n    bind 127.0.0.1:{port}\n    http-request return status 418\n")
    with Program(binary, "-db", "-f", first, "--", last) as program:
        program.ready(port)
        assert request(port).startswith(b"HTTP/1.1 418")
    # Later arguments are not options.
    status, _, said = run(binary, "-db", "--", first, "-c")
    assert status == 1 and "-c" in said, said


def test_every_file_begins_outside_of_any_section(binary, folder):
    first = folder.file("1.cfg", "global\n    maxconn 10\n")
    status, _, said = run(binary, "-c", "-f", first, "-f", folder.file("2.cfg", "    maxconn 20\n"))
    assert status == 1 and "2.cfg:1]" in said, said


def test_option_L_sets_the_local_peer_name(binary, folder, port):
    told = 'http-request return status 200 content-type text/plain string "$HAPROXY_LOCALPEER"'
    with Program(binary, "-db", "-L", "me", "-f", answering(folder, port, frontend=told)) as program:
        program.ready(port)
        assert request(port).endswith(b"me")


def information(folder, binary, *options, extra="", frontend=""):
    port, cli = free_port(), os.path.join(folder.path, "cli")
    # The socket file of a former program may still exist.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(cli)
    config = answering(folder, port, extra=f"stats socket {cli} level admin\n    {extra}", frontend=frontend)
    with Program(binary, "-db", *options, "-f", config) as program:
        program.ready(port)
        info = dict(line.split(": ", 1) for line in ask(cli, "show info").splitlines() if ": " in line)
        fields = [line.split(",") for line in ask(cli, "show stat").splitlines() if line]
        info["slim"] = fields[1][fields[0].index("slim")]
        return info


def test_options_n_N_and_m_limit_connections(binary, folder):
    assert information(folder, binary, "-n", "77", extra="maxconn 55")["Maxconn"] == "77"
    assert information(folder, binary, extra="maxconn 55")["Maxconn"] == "55"
    info = information(folder, binary, "-n", "90", "-N", "33")
    assert (info["Maxconn"], info["slim"]) == ("90", "33"), info
    assert information(folder, binary, "-n", "90", "-N", "33", frontend="maxconn 44")["slim"] == "44"
    small, large = (int(information(folder, binary, "-m", megabytes)["Maxconn"]) for megabytes in ("64", "128"))
    assert small < large, (small, large)
    for option in ("-n", "-N", "-m"):
        for word in ("x", "-1", "10x", "", "99999999999999999999"):
            status, _, said = run(binary, option, word, "-c", "-f", answering(folder, free_port()))
            assert status == 1 and f"'{word}' is not a valid" in said, (option, word, said)


def test_option_q_prints_nothing_even_with_option_V(binary, folder):
    wrong = folder.file("b.cfg", "nonsense\n")
    for config, words in ((wrong, ["-q", "-c"]), (answering(folder, free_port()), ["-q", "-c", "-V"])):
        status, out, err = run(binary, *words, "-f", config)
        assert (out, err) == ("", "") and status == (config == wrong), (words, out, err)
    quiet = answering(folder, free_port(), extra="quiet", frontend="nonsense")
    assert run(binary, "-c", "-f", quiet)[0] == 1


def test_option_4_ignores_ipv6_addresses_of_names(binary, folder):
    config = answering(folder, free_port(), frontend="default_backend b")
    with open(config, "a") as file:
        file.write("backend b\n    server s ip6-localhost:80\n")
    # Where the name is unknown, it is with and without.
    status, _, said = run(binary, "-4", "-c", "-f", config)
    assert status == 1 and "ip6-localhost" in said, said


def test_option_c_reports_validity_by_output_and_exit_status(binary, folder):
    config = answering(folder, free_port())
    assert run(binary, "-c", "-f", config) == (0, "", "")
    assert run(binary, "-c", "-V", "-f", config)[:2] == (0, "Configuration file is valid\n")
    assert run(binary, "-c", "-q", "-f", config) == (0, "", "")
    idle = folder.file("idle.cfg", "global\n    maxconn 10\n")
    status, out, _ = run(binary, "-c", "-f", idle)
    assert status == 2 and "no listener" in out, out
    warned = folder.file("w.cfg", "frontend f\n    bind 127.0.0.1:1\n    mode http\n    http-request return status 200\n")
    status, out, err = run(binary, "-c", "-f", warned)
    assert (status, out) == (0, "Warnings were found.\n") and "[WARNING]" in err
    assert run(binary, "-c", "-dW", "-f", warned)[0] == 1
    status, _, said = run(binary, "-c")
    assert status == 1 and "Usage" in said
    # In every mode, and with everything that a service adds.
    for words in (["-W"], ["-Ws"], ["-D"], ["-W", "-S", f"{folder.path}/m.sock", "-p", f"{folder.path}/pid"], ["-x", "/nonexistent"]):
        assert run(binary, "-c", *words, "-f", config) == (0, "", ""), words
        assert run(binary, "-c", *words, "-f", idle)[0] == 2 and run(binary, "-c", *words, "-f", "/nonexistent")[0] == 1
    assert sorted(os.listdir(folder.path)) == ["a.cfg", "idle.cfg", "w.cfg"]


def test_option_cc_exits_with_the_result_of_the_condition(binary, folder):
    for text, status in (("version_atleast(2.6)", 0), ("version_atleast(v9.0)", 0), ("version_atleast(9.0)", 1), ("", 1), ("1", 0), ("0", 1),
                         ("foo(1)", 2), ("200rrr", 2)):
        assert run(binary, "-cc", text)[0] == status, text
    status, _, said = run(binary, "-cc")
    assert status == 1 and "'-cc' expects" in said, said


def test_option_d_stays_in_the_foreground(binary, folder, port):
    with Program(binary, "-d", "-D", "-f", answering(folder, port, extra="daemon")) as program:
        program.ready(port)
        assert program.status(0) is None


def test_option_dC_prints_the_configuration(binary, folder):
    config = answering(folder, free_port(), text="it's $HOME", extra='maxconn   7 # not this\n    setenv WHO "a b"\n    description "$WHO"')
    status, out, _ = run(binary, "-c", "-dC", "-f", config)
    assert status == 0 and "\tmaxconn 7 \n" in out and "\tdescription 'a b' \n" in out and "not this" not in out, out
    assert out.startswith("global \n\thard-stop-after 20s \n"), out
    # The printed configuration has the same meaning.
    again = folder.file("again.cfg", out)
    assert run(binary, "-c", "-dC", "-f", again)[1] == out
    numbered = run(binary, "-c", "-dC,line", "-f", config)[1].splitlines()
    assert numbered[:2] == ["1\tglobal ", "2\t\thard-stop-after 20s "], numbered
    assert run(binary, "-c", "-q", "-dC", "-f", config)[1] == ""
    status, _, said = run(binary, "-c", "-dC5", "-f", config)
    assert status == 1 and "'-dC' with a key is not implemented yet" in said, said


def test_option_dD_accepts_a_valid_configuration(binary, folder):
    config = answering(folder, free_port())
    assert run(binary, "-dD", "-c", "-f", config)[0] == 0


def test_options_dF_dS_and_dZ_disable_splicing(binary, folder):
    for option in ("-dF", "-dS", "-dZ"):
        info = information(folder, binary, option, extra="maxconn 40", frontend="option splice-auto")
        assert info["Maxpipes"] == "0", option
    assert information(folder, binary, extra="maxconn 40", frontend="option splice-auto")["Maxpipes"] == "10"


def test_options_de_and_dG_are_reported_as_ignored(binary, folder, port):
    config = answering(folder, port)
    for option in ("-de", "-dG"):
        status, _, said = run(binary, option, "-dW", "-c", "-f", config)
        assert status == 0 and said.count(f"'{option}' has no effect: ") == 1, said
        assert run(binary, option, "-q", "-c", "-f", config) == (0, "", ""), option
    with Program(binary, "-db", "-de", "-dG", "-f", config) as program:
        program.ready(port)


def test_unknown_options_and_missing_arguments_are_refused(binary, folder):
    for word in ("-foo", "--foo", "-", "-dcx", "a.cfg"):
        status, out, said = run(binary, word)
        assert status == 1 and f"'{word}'" in said and "Usage" in said and out == "", (word, said)
    for option in ("-f", "-n", "-p", "-x", "-S", "-C", "-L", "-m", "-N"):
        status, _, said = run(binary, option)
        assert status == 1 and f"'{option}' expects <" in said, said


def test_options_dI_dM_dT_dV_dk_dp_and_dv_are_accepted(binary, folder):
    config = answering(folder, free_port())
    for option in ("-dI", "-dM", "-dM0", "-dMno-merge,tag", "-dT", "-dV", "-dk", "-dp", "-dv"):
        assert run(binary, option, "-c", "-f", config) == (0, "", ""), option


def test_option_dK_lists_keywords(binary, folder):
    status, out, _ = run(binary, "-dKhelp")
    assert status == 0 and "cfg" in out
    assert "http-request return" in run(binary, "-dKcfg")[1]


def test_option_dL_lists_loaded_object_files(binary, folder):
    config = answering(folder, free_port())
    status, out, err = run(binary, "-W", "-q", "-c", "-dL", "-f", config)
    files = out.splitlines()
    assert (status, err) == (0, "") and files[0] == os.path.realpath(binary) and any("libc.so" in name for name in files), out
    assert all(os.path.exists(name) for name in files)
    assert run(binary, "-c", "-V", "-dL", "-f", config)[1].startswith("List of loaded object files:\n")
    assert run(binary, "-q", "-c", "-dL", "-f", folder.file("b.cfg", "nonsense\n"))[1] == ""


def test_option_dA_archives_loaded_object_files(binary, folder):
    config, path = answering(folder, free_port()), os.path.join(folder.path, "objects.tar")
    assert run(binary, "-q", "-c", f"-dA{path}", "-f", config)[0] == 0
    with tarfile.open(path) as archive, open(binary, "rb") as own:
        names = archive.getnames()
        assert archive.extractfile(os.path.realpath(binary).lstrip("/")).read() == own.read()
        assert any("libc.so" in name for name in names), names
    with open(path, "wb") as out:
        assert subprocess.run([binary, "-c", "-q", "-dA", "-f", config], stdout=out, timeout=20).returncode == 0
    with tarfile.open(path) as archive:
        assert os.path.realpath(binary).lstrip("/") in archive.getnames()
    status, _, said = run(binary, "-c", "-dA/nonexistent/x", "-f", config)
    assert status == 1 and "'-dA'" in said, said


def test_option_dc_lists_processors_and_threads(binary, folder):
    config = answering(folder, free_port(), extra="nbthread 2\n    cpu-map 1/2 0")
    status, out, _ = run(binary, "-c", "-dc", "-f", config)
    assert status == 0 and re.search(r"^\[keep\] cpu=  0$", out, re.M), out
    assert re.search(r"^  1/2 +2 +1: 0$", out, re.M), out
    alone = run("taskset", "-c", "0", binary, "-c", "-dc", "-f", answering(folder, free_port(), extra="nbthread 1"))[1]
    if os.cpu_count() > 1:
        assert re.search(r"^\[drop\] cpu=  1$", alone, re.M), alone


def test_option_dR_refuses_an_address_in_use(binary, folder, port):
    config = answering(folder, port)
    with Program(binary, "-db", "-dR", "-f", config) as program:
        program.ready(port)
        status, _, said = run(binary, "-db", "-f", config)
        assert status == 1 and "Address already in use" in said, said


def test_option_dr_tolerates_unresolved_server_names(binary, folder):
    config = answering(folder, free_port(), frontend="default_backend b")
    with open(config, "a") as file:
        file.write("backend b\n    server s nowhere.invalid:80\n")
    assert run(binary, "-c", "-f", config)[0] == 1 and run(binary, "-c", "-dr", "-f", config)[0] == 0


def test_option_dt_traces_to_standard_error(binary, folder, port):
    with Program(binary, "-db", "-dt", "h1:data", "-f", answering(folder, port)) as program:
        program.ready(port)
        request(port)
        program.send(TERM)
        assert "|h1|" in program.process.communicate()[0]
    assert run(binary, "-dt", "help")[0] == 0


def test_the_pid_file_is_relative_to_the_folder_of_option_C(binary, folder, port):
    answering(folder, port)
    with Program(binary, "-db", "-C", folder.path, "-p", "pid", "-f", "a.cfg") as program:
        program.ready(port)
        assert wait_until(lambda: os.path.exists(f"{folder.path}/pid"))
    status, _, said = run(binary, "-C", "/nonexistent", "-f", "a.cfg")
    assert status == 1 and "Could not change to directory /nonexistent" in said, said


def test_option_st_ends_former_processes_at_once(binary, folder, port):
    config = answering(folder, port)
    with Program(binary, "-db", "-f", config) as former:
        former.ready(port)
        with Program(binary, "-db", "-f", config, "-st", str(former.pid)) as program:
            assert former.status() == -signal.SIGTERM
            program.ready(port)


def test_option_sf_accepts_an_empty_list(binary, folder, port):
    with Program(binary, "-sf", "-db", "-f", answering(folder, port)) as program:
        program.ready(port)


def test_options_v_vv_and_h_print_version_and_usage(binary, folder):
    short = run(binary, "-v")
    assert short[0] == 0 and "version 3.5" in short[1]
    for option in ("-version", "--version"):
        assert run(binary, option) == short
    assert "TARGET" in run(binary, "-vv")[1]
    status, out, err = run(binary, "--help")
    assert (status, err) == (0, "") and "Usage" in out and run(binary, "-h") == (status, out, err)


def test_weir_serves_its_built_in_configuration_without_options(binary, folder, port):
    with subprocess.Popen([binary], env={**os.environ, "WEIR_PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert wait_until(lambda: connects(port)) and request(port).startswith(b"HTTP/1.1 200")
        finally:
            process.send_signal(USR1)


def test_option_S_without_a_master_or_with_a_bad_address_is_reported(binary, folder, port):
    with Program(binary, "-db", "-S", f"{folder.path}/m.sock", "-f", answering(folder, port)) as program:
        program.ready(port)
        program.send(TERM)
        assert "a master CLI socket was defined, but master-worker mode (-W) is not enabled" in program.process.communicate()[0]
    assert not os.path.exists(f"{folder.path}/m.sock")
    for word in ("nonsense@x", "/nonexistent/m.sock", f"{folder.path}/m.sock,nonsense", ""):
        status, _, said = run(binary, "-W", "-S", word, "-f", answering(folder, port))
        assert status == 1 and "[ALERT]" in said, (word, said)


def answers(port):
    """Whether a request is answered. Sockets that no process handed over may have one reset while another takes its place."""
    try:
        return request(port).startswith(b"HTTP/1.1 200")
    except ConnectionResetError:
        return False


def test_a_failed_transfer_of_sockets_does_not_prevent_the_start(binary, folder):
    for path, said in (("/nonexistent/sock", True), ("/dev/null", False)):
        port = free_port()
        with Master(binary, folder, answering(folder, port), "-x", path) as master:
            master.served().reload()
            assert wait_until(lambda: answers(port))
            assert ("Failed to get the sockets from the old process" in master.said()) == said, master.said()
            os.remove(master.log)
