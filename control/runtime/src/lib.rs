//! Live objects made from a configuration, and the process around them.
