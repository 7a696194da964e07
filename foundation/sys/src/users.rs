//! Look-ups of users, groups and the machine's name.

use crate::{Errno, Result};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// A user of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemUser {
    pub id: u32,
    /// ID of the primary group.
    pub group: u32,
}

/// Looks up a user. `None` for an unknown name.
pub fn user(name: &str) -> Result<Option<SystemUser>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    with_growing_space(|space| {
        let mut record = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the length is the length of `space`.
        let error = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                record.as_mut_ptr(),
                space.as_mut_ptr().cast(),
                space.len(),
                &mut found,
            )
        };
        if error != 0 || found.is_null() {
            return lookup_status(error).map(|()| None);
        }
        // SAFETY: `found` is not null, so the record was filled in.
        let record = unsafe { record.assume_init() };
        Ok(Some(SystemUser { id: record.pw_uid, group: record.pw_gid }))
    })
}

/// Looks up the ID of a group. `None` for an unknown name.
pub fn group(name: &str) -> Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    with_growing_space(|space| {
        let mut record = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the length is the length of `space`.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                record.as_mut_ptr(),
                space.as_mut_ptr().cast(),
                space.len(),
                &mut found,
            )
        };
        if error != 0 || found.is_null() {
            return lookup_status(error).map(|()| None);
        }
        // SAFETY: `found` is not null, so the record was filled in.
        let record = unsafe { record.assume_init() };
        Ok(Some(record.gr_gid))
    })
}

/// The host name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The output of `uname`: system, release, version, machine.
pub fn system_name() -> [String; 4] {
    let name = rustix::system::uname();
    let text = |part: &CStr| part.to_string_lossy().into_owned();
    [text(name.sysname()), text(name.release()), text(name.version()), text(name.machine())]
}

/// Repeats a look-up with a buffer of twice the size while the buffer is too small (`ERANGE`).
fn with_growing_space<T>(mut look_up: impl FnMut(&mut [u8]) -> Result<T>) -> Result<T> {
    let mut space = vec![0; 1024];
    loop {
        match look_up(&mut space) {
            Err(Errno::RANGE) if space.len() < MOST_SPACE => space.resize(space.len() * 2, 0),
            result => return result,
        }
    }
}

/// Ignores the errors that C libraries return for an unknown name.
fn lookup_status(error: libc::c_int) -> Result<()> {
    match error {
        0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => Ok(()),
        error => Err(Errno::from_raw_os_error(error)),
    }
}

/// Maximum buffer size in bytes, enough for a group with thousands of members.
const MOST_SPACE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_group_lookup_finds_root_and_rejects_unknown_names() {
        assert_eq!(user("root"), Ok(Some(SystemUser { id: 0, group: 0 })));
        assert_eq!(group("root"), Ok(Some(0)));
        assert_eq!(user("no such user"), Ok(None));
        assert_eq!(group("nul\0byte"), Ok(None));
        assert!(!host_name().is_empty());
    }
}
