//! How anything is observed: counters, histograms, log sinks.
