//! Checks with nothing real around them: servers are scripts of a simulated network, time is virtual.

mod clocks;
mod fixture;
mod life;
mod spreading;
