# weir: two commands for everybody, `make run` and `make test`. The others are for those who work on it.
#
# Both work on a Debian 12 that has Rust, make and git: what is missing is installed from Debian's own packages
# (packaging/setup says which, and why each).

SHELL := /bin/sh
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin
TARGET := $(or $(CARGO_TARGET_DIR),target)
# What tests and trials run: built in minutes. What packages ship: several times as slow to build, a few per cent faster.
TRIAL := $(TARGET)/trial/weir
WEIR := $(TARGET)/release/weir
PROGRAMS := -p weir -p weir-ring -p weir-top

.PHONY: run test soak fresh shipped trial build explore parity bench readme ratchets reference manual deb
.DEFAULT_GOAL := build

# Builds weir and starts it. Without ARGS it uses its built-in configuration and prints where to look;
# `make run ARGS="-f my.cfg"` gives it yours.
run:
	@packaging/setup build
	@test -x $(TRIAL) || echo "Building weir. The first time takes about four minutes on two processors, later ones seconds." >&2
	@cargo build --profile trial --locked -p weir
	@exec $(TRIAL) $(ARGS)

# Everything that has to hold, each step timed, a table at the end. `make test ONLY=format,units` runs some steps.
test:
	@packaging/setup build test
	@exec python3 tests/steps.py $(if $(ONLY),--only $(ONLY))

# Tests that match (as for `pytest -k`), 50 times on a quiet machine and 50 times on a busy one: `make soak ONLY=reload_keeps_the_counters`;
# of Rust with CARGO="-p weir-stream --lib".
soak: trial
	@packaging/setup test
	@exec python3 tests/soak.py --only '$(ONLY)' $(if $(TIMES),--times $(TIMES)) $(if $(CARGO),--cargo='$(CARGO)')

# Both commands in a new Debian 12, as a user with sudo; as root, with the package debootstrap. ONLY=commands,units takes these
# steps of the tests.
fresh:
	@exec python3 tests/fresh.py $(if $(ONLY),--only $(ONLY))

# The programs that tests run against.
trial:
	@packaging/setup build
	@cargo build --profile trial --locked $(PROGRAMS)

build:
	@packaging/setup build
	@test -x $(WEIR) || echo "Building the release. The first time takes about ten minutes on two processors." >&2
	@cargo build --release --locked $(PROGRAMS)
	@packaging/split-debug $(addprefix $(TARGET)/release/,weir weir-ring weir-top)

# Random configurations and bytes to both; `make explore ARGS="--kind proxies --seed 7 --seconds 600"`, and `REFERENCE=/path/to/haproxy`
# another haproxy.
explore: trial
	@packaging/setup test
	@cd tests && exec python3 -m reference.explore --bin $(abspath $(TRIAL)) $(if $(REFERENCE),--haproxy $(REFERENCE)) $(ARGS)

# Adds scripts of the packaged HAProxy's own suite that weir passes now to the list of tests/parity.
parity: trial
	@packaging/setup test
	@cd tests && exec /usr/bin/python3 -m parity.suite --bin $(abspath $(TRIAL))

# What a request costs: weir, HAProxy, nginx and the byte-forwarding floor, side by side in one run.
bench: build
	@packaging/setup bench
	@exec python3 bench/run.py --weir $(WEIR) $(ARGS)

# Writes again the part of the README that is generated from the rows of the language.
readme:
	@cargo run --quiet --locked -p weir-tidy -- readme

# Writes the counts that fell into tools/tidy/ratchets; fails when a count would rise (STYLE.md, "Ratchets").
ratchets:
	@cargo run --quiet --locked -p weir-tidy -- ratchets

# Writes again what is generated of the manual, the man pages and the completions of shells.
reference:
	@WEIR_BOOK=write cargo test --quiet --locked -p weir book

# The manual as a book in target/manual. mdBook comes from the package registry of Rust, into target/tools.
manual: reference
	@command -v mdbook >/dev/null || test -x $(TARGET)/tools/bin/mdbook || \
	  cargo install --quiet --locked --no-default-features --root $(TARGET)/tools mdbook
	@PATH="$$PATH:$(TARGET)/tools/bin" mdbook build --dest-dir $(abspath $(TARGET))/manual doc/manual

# The release with its own tests: the package, and our scripts against it.
shipped:
	@packaging/setup build test
	@exec python3 tests/steps.py --only release,shipped

# A Debian package in target/packages.
deb: build
	@packaging/deb/build $(TARGET)/release $(TARGET)/packages
