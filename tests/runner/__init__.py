"""What `make test` is made of: the machine that tests see, Rust's tests, steps side by side, and the verdict."""
