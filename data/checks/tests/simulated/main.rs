//! Checks in a simulation: servers are scripts of a simulated network, and time is virtual.

mod application;
mod clocks;
mod fixture;
mod life;
mod spreading;
