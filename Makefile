# weir: two commands for everybody, `make run` and `make test`. The others are for those who work on it.
#
# Both work on a Debian 12 that has nothing but Rust: what is missing is installed from Debian's own packages
# (packaging/setup says which, and why each).

SHELL := /bin/sh
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin
TARGET := $(or $(CARGO_TARGET_DIR),target)
WEIR := $(TARGET)/release/weir

.PHONY: run test build vtc differential explore parity bench readme ratchets reference manual deb
.DEFAULT_GOAL := build

# Builds weir and starts it. Without ARGS it uses its built-in configuration and prints where to look;
# `make run ARGS="-f my.cfg"` gives it yours.
run:
	@packaging/setup build
	@cargo build --release --locked --quiet -p weir
	@exec $(WEIR) $(ARGS)

# Everything that has to hold, each step timed, a table at the end. `make test ONLY=vtc,parity` runs some steps.
test:
	@packaging/setup build test
	@exec python3 tests/steps.py $(if $(ONLY),--only $(ONLY))

build:
	@packaging/setup build
	@cargo build --release --locked -p weir -p weir-ring -p weir-top

# Our own scripts against the built binary; `make vtc ONLY=logs` takes those whose path matches.
vtc: build
	@packaging/setup test
	@exec python3 tests/vtc.py --bin $(WEIR) $(if $(ONLY),--only $(ONLY))

# The same bytes to the packaged haproxy and to weir; `make differential ONLY=chunk` takes the exchanges that match, and
# `REFERENCE=/path/to/haproxy` another haproxy.
differential: build
	@packaging/setup test
	@exec python3 tests/differential.py --bin $(WEIR) $(if $(REFERENCE),--haproxy $(REFERENCE)) $(if $(ONLY),--only $(ONLY))

# Random configurations and bytes to both; `make explore ARGS="--kind proxies --seed 7 --seconds 600"`.
explore: build
	@packaging/setup test
	@exec python3 tests/explore.py --bin $(WEIR) $(if $(REFERENCE),--haproxy $(REFERENCE)) $(ARGS)

# The packaged HAProxy's own regression suite against weir; `make parity UPDATE=1` adds what passes now to the list.
parity: build
	@packaging/setup test
	@exec python3 tests/parity/parity.py --bin $(WEIR) $(if $(UPDATE),--update) $(if $(ONLY),--only $(ONLY))

# What a request costs: weir, HAProxy, nginx and the byte-forwarding floor, side by side in one run.
bench: build
	@packaging/setup bench
	@exec python3 bench/run.py --weir $(WEIR) $(ARGS)

# Writes again the part of the README that is generated from the rows of the language.
readme:
	@cargo run --quiet --locked -p weir-tidy -- readme

# Writes the figures that fell into tools/tidy/ratchets; fails when a figure would rise (STYLE.md, "Ratchets").
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

# A Debian package in target/packages.
deb: build
	@packaging/deb/build $(TARGET)/release $(TARGET)/packages
