//! Computes the number of connections that the process can hold, from the limits of operator and system. Pure arithmetic.

/// The limits of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// `maxconn`, or `-n`, which takes precedence. `None` for automatic.
    pub maxconn: Option<u32>,
    /// `ulimit-n`.
    pub open_files: Option<u32>,
    /// `fd-hard-limit`. `None` for the default.
    pub open_files_hard: Option<u32>,
    /// `-m`, in megabytes. `None` without a limit.
    pub memory_mb: Option<u64>,
    /// `maxpipes`.
    pub pipes: Option<u32>,
    /// Whether a proxy uses splicing, which needs pipes.
    pub splices: bool,
    /// `tune.bufsize`.
    pub buffer_size: u32,
    /// Descriptors not used for connections.
    pub fixed: FixedDescriptors,
    /// The soft limit of open files at start. `None` for unlimited.
    pub system_soft: Option<u64>,
    /// The hard limit of open files. `None` for unlimited.
    pub system_hard: Option<u64>,
}

/// The connection limit, and the descriptors that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub maxconn: u32,
    /// Whether `maxconn` was computed rather than configured.
    pub automatic: bool,
    /// Maximum number of descriptors for this capacity.
    pub open_files: u32,
    /// Minimum number of descriptors for a start: HAProxy's count, so that weir starts wherever HAProxy does. With fewer than
    /// `open_files`, only the last connections fail.
    pub open_files_least: u32,
    pub pipes: u32,
    /// Maximum number of connections allowed by memory and descriptors.
    pub hard_maxconn: u32,
    /// Maximum number of connections allowed by the system's descriptor limit.
    pub fitting_maxconn: u32,
}

/// Computes the capacity. Keeps configured values and computes the largest possible others.
pub fn capacity(bounds: &Bounds) -> Capacity {
    let ideal = ideal_maxconn(bounds);
    let maxconn = bounds.maxconn.filter(|&limit| limit > 0).unwrap_or(ideal);
    let pipes = bounds.pipes.unwrap_or(if bounds.splices { (maxconn / PIPE_SHARE).max(1) } else { 0 });
    let needed = |fixed| needed_descriptors(maxconn, pipes, fixed);
    let open_files = bounds.open_files.unwrap_or(needed(bounds.fixed.most));
    Capacity {
        maxconn,
        automatic: bounds.maxconn.is_none_or(|limit| limit == 0),
        open_files,
        open_files_least: bounds.open_files.unwrap_or(needed(bounds.fixed.least)).min(open_files),
        pipes,
        hard_maxconn: maxconn.max(ideal),
        fitting_maxconn: by_descriptors(&Bounds { open_files: None, ..*bounds }),
    }
}

/// Two descriptors per connection (client and server), two per pipe, and the fixed ones.
fn needed_descriptors(maxconn: u32, pipes: u32, fixed: u32) -> u32 {
    let needed = u64::from(maxconn) * 2 + u64::from(pipes) * 2 + u64::from(fixed);
    u32::try_from(needed).unwrap_or(u32::MAX)
}

fn ideal_maxconn(bounds: &Bounds) -> u32 {
    by_descriptors(bounds).min(by_memory(bounds)).max(LEAST)
}

fn by_descriptors(bounds: &Bounds) -> u32 {
    let system = bounds.system_hard.unwrap_or(u64::MAX).max(bounds.system_soft.unwrap_or(u64::MAX));
    let limit = match bounds.open_files {
        Some(limit) => u64::from(limit),
        None => system.min(u64::from(bounds.open_files_hard.unwrap_or(DEFAULT_HARD_LIMIT))),
    };
    let pipes = bounds.pipes.map_or(0, |pipes| u64::from(pipes) * 2);
    let left = limit.saturating_sub(u64::from(bounds.fixed.most) + pipes);
    // One pipe per `PIPE_SHARE` connections takes two descriptors from the remainder.
    let share = if bounds.splices && bounds.pipes.is_none() { u64::from(PIPE_SHARE) } else { 0 };
    let connections = if share > 0 { left * share / (2 * share + 2) } else { left / 2 };
    u32::try_from(connections).unwrap_or(u32::MAX)
}

fn by_memory(bounds: &Bounds) -> u32 {
    let Some(megabytes) = bounds.memory_mb else { return u32::MAX };
    let connection = u64::from(bounds.buffer_size) * 2 + CONNECTION_BYTES;
    let connections = megabytes.saturating_mul(1 << 20) / connection;
    u32::try_from(two_digits(connections)).unwrap_or(u32::MAX)
}

/// Rounds down to two significant digits, because the memory per connection is an estimate.
fn two_digits(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number / unit * unit
}

/// Descriptors that do not depend on traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedDescriptors {
    /// Maximum: listening sockets (of the main thread and of each worker), each worker's own descriptors, runtime API clients, and
    /// [`SPARE_DESCRIPTORS`].
    pub most: u32,
    /// HAProxy's count: each listening socket once, three per worker, clients of the runtime API, and ten.
    pub least: u32,
}

impl FixedDescriptors {
    /// The descriptors for these numbers of listening sockets, workers and runtime API clients.
    pub fn new(listening: usize, workers: usize, runtime_api_clients: u32) -> Self {
        let number =
            |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(runtime_api_clients);
        let most = listening * (workers + 1) + workers * DESCRIPTORS_OF_A_WORKER;
        FixedDescriptors {
            most: number(most).saturating_add(SPARE_DESCRIPTORS),
            least: number(listening + 3 * workers).saturating_add(10),
        }
    }
}

/// The limit of buffers over all workers (`tune.buffers.limit`). `None` for no limit. Never below the reserve plus the buffers of
/// one stream on each worker (manual, "tune.buffers.limit").
pub fn buffers_of_all(buffers_max: u32, reserve: u32, workers: usize) -> Option<usize> {
    let least = (reserve as usize + LEAST_BUFFERS) * workers.max(1);
    (buffers_max > 0).then(|| (buffers_max as usize).max(least))
}

/// Minimum number of buffers for one stream.
pub const LEAST_BUFFERS: usize = 3;
/// Number of connections per pipe (manual, "maxpipes").
const PIPE_SHARE: u32 = 4;
/// The default of `fd-hard-limit` (manual, "fd-hard-limit").
const DEFAULT_HARD_LIMIT: u32 = 1_048_576;
/// A poller, an event counter, and three sockets for log messages (IPv4, IPv6, UNIX).
const DESCRIPTORS_OF_A_WORKER: usize = 5;
/// Standard streams, log targets, the signal reader, and files opened briefly.
const SPARE_DESCRIPTORS: u32 = 20;
/// Memory of a busy connection besides its two buffers, in bytes: task, exchange and message indexes. Chosen so that `-m` has the
/// same effect as in HAProxy.
const CONNECTION_BYTES: u64 = 3584;
/// Minimum of an automatic `maxconn`. With so few, a shortage of descriptors shows at run time.
const LEAST: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            buffer_size: 16_384,
            fixed: FixedDescriptors { most: 50, least: 30 },
            system_soft: Some(1024),
            system_hard: Some(20_000),
            ..Bounds::default()
        }
    }

    #[track_caller]
    fn check(bounds: Bounds, maxconn: u32, open_files: u32, pipes: u32) {
        let capacity = capacity(&bounds);
        assert_eq!((capacity.maxconn, capacity.open_files, capacity.pipes), (maxconn, open_files, pipes));
    }

    #[test]
    fn configured_maxconn_open_files_and_pipes_are_used() {
        check(Bounds { maxconn: Some(100), ..bounds() }, 100, 250, 0);
        check(Bounds { maxconn: Some(100), open_files: Some(9000), ..bounds() }, 100, 9000, 0);
        check(Bounds { maxconn: Some(100), pipes: Some(7), ..bounds() }, 100, 264, 7);
        check(Bounds { maxconn: Some(100), splices: true, ..bounds() }, 100, 300, 25);
    }

    #[test]
    fn the_minimum_number_of_descriptors_equals_haproxys() {
        // Measured with HAProxy: two listening sockets, two threads and ten clients of the runtime API are 28; 16 threads
        // are 70; 19 more sockets are 19 more.
        for (listening, workers, least) in [(2, 2, 28), (2, 16, 70), (21, 2, 47)] {
            let fixed = FixedDescriptors::new(listening, workers, 10);
            assert_eq!(fixed.least, least);
            let bounds = Bounds { maxconn: Some(80), fixed, ..bounds() };
            assert_eq!(capacity(&bounds).open_files_least, 160 + least);
        }
        let written = Bounds { maxconn: Some(80), open_files: Some(500), ..bounds() };
        assert_eq!(capacity(&written).open_files_least, 500);
        let endless = Bounds { maxconn: Some(u32::MAX), pipes: Some(u32::MAX), ..bounds() };
        assert_eq!(capacity(&endless).open_files_least, u32::MAX);
        assert_eq!(FixedDescriptors::new(1, 1, u32::MAX).least, u32::MAX);
    }

    #[test]
    fn default_maxconn_fits_the_descriptor_limit() {
        check(bounds(), 9975, 20_000, 0);
        check(Bounds { open_files: Some(1050), ..bounds() }, 500, 1050, 0);
        check(Bounds { open_files_hard: Some(2050), ..bounds() }, 1000, 2050, 0);
        check(Bounds { system_hard: None, system_soft: None, ..bounds() }, 524_263, 1_048_576, 0);
        check(Bounds { splices: true, ..bounds() }, 7980, 20_000, 1995);
        // No descriptors are left, but the process still starts.
        check(Bounds { open_files: Some(10), ..bounds() }, 2, 10, 0);
    }

    #[test]
    fn the_buffer_limit_has_a_minimum_for_all_workers() {
        assert_eq!(buffers_of_all(0, 4, 4), None);
        assert_eq!(buffers_of_all(100, 4, 4), Some(100));
        assert_eq!(buffers_of_all(1, 4, 4), Some(28));
        assert_eq!(buffers_of_all(1, 0, 1), Some(3));
    }

    #[test]
    fn default_maxconn_fits_the_memory_limit() {
        let many = Bounds { system_hard: Some(1_000_000), ..bounds() };
        for (megabytes, maxconn) in [(1024, 29_000), (384, 11_000), (256, 7300)] {
            assert_eq!(capacity(&Bounds { memory_mb: Some(megabytes), ..many }).maxconn, maxconn);
        }
        assert_eq!(capacity(&Bounds { memory_mb: Some(1), maxconn: Some(500), ..bounds() }).maxconn, 500);
    }
}
