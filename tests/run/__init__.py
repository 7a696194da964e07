"""The parts of `make test`: the machine that tests see, Rust's tests, steps side by side, and the verdict."""
