//! weir: reads the command line and becomes a worker.
fn main() {}
