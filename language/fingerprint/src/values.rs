//! The canonical forms of values of the standard library.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{Canonical, FormEncoder};

macro_rules! integers {
    ($($integer:ty)*) => {
        $(impl Canonical for $integer {
            fn encode(&self, out: &mut FormEncoder<'_>) {
                out.raw(&self.to_le_bytes());
            }
        })*
    };
}

integers!(u16 u32 u64 u128 i8 i16 i32 i64);

impl Canonical for u8 {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.raw(&[*self]);
    }

    fn encode_all(values: &[u8], out: &mut FormEncoder<'_>) {
        out.raw(values);
    }
}

impl Canonical for usize {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.count(*self);
    }
}

impl Canonical for bool {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.raw(&[u8::from(*self)]);
    }
}

impl Canonical for () {
    fn encode(&self, _: &mut FormEncoder<'_>) {}
}

impl Canonical for str {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.text(self);
    }
}

impl Canonical for String {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.text(self);
    }
}

impl Canonical for Path {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.bytes(self.as_os_str().as_bytes());
    }
}

impl Canonical for PathBuf {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        self.as_path().encode(out);
    }
}

impl Canonical for Duration {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        self.as_nanos().encode(out);
    }
}

impl Canonical for Ipv4Addr {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.raw(&self.octets());
    }
}

impl Canonical for Ipv6Addr {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.raw(&self.octets());
    }
}

impl Canonical for IpAddr {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        match self {
            IpAddr::V4(address) => (4u8, *address).encode(out),
            IpAddr::V6(address) => (6u8, *address).encode(out),
        }
    }
}

impl Canonical for SocketAddr {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        (self.ip(), self.port()).encode(out);
        if let SocketAddr::V6(address) = self {
            (address.flowinfo(), address.scope_id()).encode(out);
        }
    }
}

impl<T: Canonical + ?Sized> Canonical for &T {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        (**self).encode(out);
    }
}

impl<T: Canonical + ?Sized> Canonical for Box<T> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        (**self).encode(out);
    }
}

impl<T: Canonical + ?Sized> Canonical for Arc<T> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        (**self).encode(out);
    }
}

impl<T: Canonical + ToOwned + ?Sized> Canonical for Cow<'_, T> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        (**self).encode(out);
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        match self {
            None => out.raw(&[0]),
            Some(value) => {
                out.raw(&[1]);
                value.encode(out);
            }
        }
    }
}

impl<T: Canonical> Canonical for [T] {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.count(self.len());
        T::encode_all(self, out);
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        self.as_slice().encode(out);
    }
}

impl<T: Canonical, const N: usize> Canonical for [T; N] {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        T::encode_all(self, out);
    }
}

impl<K: Canonical, V: Canonical> Canonical for BTreeMap<K, V> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.list(self.iter());
    }
}

impl<A: Canonical, B: Canonical> Canonical for (A, B) {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl<A: Canonical, B: Canonical, C: Canonical> Canonical for (A, B, C) {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        (&self.0, &self.1).encode(out);
        self.2.encode(out);
    }
}
