//! Listeners, connections and transports.
