//! Checks that the house is in order.
