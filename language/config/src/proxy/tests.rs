//! Tests of proxy sections, by subject.

mod checks;
mod compression;
mod faults;
mod filters;
mod inheritance;
mod newer;
mod reports;
mod rows;
mod sections;
mod tables;
mod values;
