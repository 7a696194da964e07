//! Servers, balancing, queues and idle connections.
