//! What threads share: inboxes, published snapshots, counters, behind one façade that loom can replace.
