//! The kernel made safe: sockets, epoll, splice, descriptor passing, privileges, processes.
