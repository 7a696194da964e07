//! Hashes and digests.

use std::borrow::Cow;

use hmac::{KeyInit, Mac};
use sha2::Digest;
use weir_fingerprint::Canonical;

use super::codec::decode_base64;
use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::error::show;
use crate::sample::SampleType::{Bin, Int};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    hash("crc32", crc32, "CRC32 of Ethernet and gzip"),
    hash("crc32c", crc32c, "CRC32C of RFC 4960"),
    hash("djb2", djb2, "The DJB2 hash"),
    hash("sdbm", sdbm, "The SDBM hash"),
    hash("wt6", wt6, "The WT6 hash"),
    hash("xxh3", xxh3, "The 64-bit XXH3 hash, with a seed"),
    hash("xxh32", xxh32, "The XXH32 hash, with a seed"),
    hash("xxh64", xxh64, "The XXH64 hash, with a seed"),
    Converter::new("digest", Bin, Bin, Run::Pure(digest), "A message digest")
        .args(1, &[ArgKind::Str])
        .check(check_digest),
    Converter::new(
        "hmac",
        Bin,
        Bin,
        Run::Resolved(hmac_digest),
        "A message authentication code: digest and base64 key",
    )
    .args(2, &[ArgKind::Str, ArgKind::Str])
    .check(check_hmac),
    Converter::new("sha1", Bin, Bin, Run::Pure(sha1), "The SHA-1 digest"),
    Converter::new(
        "sha2",
        Bin,
        Bin,
        Run::Pure(sha2_digest),
        "A digest of the SHA-2 family, 256 bits by default",
    )
    .args(0, &[ArgKind::Int])
    .check(check_sha2),
];

const fn hash(name: &'static str, run: super::Pure, help: &'static str) -> Converter {
    Converter::new(name, Bin, Int, Run::Pure(run), help).args(0, &[ArgKind::Int])
}

/// A 32-bit hash. Applies [`avalanche`] if the argument is not zero.
fn mixed<'a>(value: Value<'a>, args: &Args, hash: fn(&[u8]) -> u32) -> Option<Value<'a>> {
    let mut result = hash(value.bytes()?);
    if args.int(0).is_some_and(|mix| mix != 0) {
        result = avalanche(result);
    }
    scratch::recycle(value);
    Some(Value::Int(result.into()))
}

fn crc32<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    mixed(value, args, hash_crc32)
}

fn crc32c<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    mixed(value, args, hash_crc32c)
}

fn djb2<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    mixed(value, args, hash_djb2)
}

fn sdbm<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    mixed(value, args, hash_sdbm)
}

fn wt6<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    mixed(value, args, hash_wt6)
}

fn xxh32<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let hash = xxhash_rust::xxh32::xxh32(value.bytes()?, args.int(0).unwrap_or(0) as u32);
    scratch::recycle(value);
    Some(Value::Int(hash.into()))
}

fn xxh64<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let hash = xxhash_rust::xxh64::xxh64(value.bytes()?, args.int(0).unwrap_or(0) as u64);
    scratch::recycle(value);
    Some(Value::Int(hash as i64))
}

fn xxh3<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let hash = xxhash_rust::xxh3::xxh3_64_with_seed(value.bytes()?, args.int(0).unwrap_or(0) as u64);
    scratch::recycle(value);
    Some(Value::Int(hash as i64))
}

/// CRC32, as load balancing by hash uses it too.
pub fn hash_crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC32C (Castagnoli).
pub fn hash_crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0u32, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

/// DJB2: times 33, plus the byte, from 5381.
pub fn hash_djb2(bytes: &[u8]) -> u32 {
    bytes.iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()))
}

/// SDBM: times 65599, plus the byte.
pub fn hash_sdbm(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |hash, byte| hash.wrapping_mul(65_599).wrapping_add((*byte).into()))
}

/// WT6: two halves that rotate each other by amounts taken from their own bits.
pub fn hash_wt6(bytes: &[u8]) -> u32 {
    let (mut first, mut second) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut turn_first, mut turn_second) = (6, 18);
    for byte in bytes {
        let byte = u32::from(*byte);
        first = !(first ^ byte);
        second = !second.wrapping_add(byte);
        (first, second) = (second.rotate_left(turn_first), first.rotate_left(turn_second));
        let mix = (first >> 16 ^ second) & 0xffff;
        (turn_first, turn_second) = (mix & 31, mix >> 11);
    }
    first ^ second
}

/// Spreads every bit over all the others (Bob Jenkins' full avalanche for 32-bit integers, then one product).
pub fn avalanche(value: u32) -> u32 {
    let mut v = value;
    v = v.wrapping_add(0x7ed5_5d16).wrapping_add(v << 12);
    v = v ^ 0xc761_c23c ^ v >> 19;
    v = v.wrapping_add(0x1656_67b1).wrapping_add(v << 5);
    v = v.wrapping_add(0xd3a2_646c) ^ v << 9;
    v = v.wrapping_add(0xfd70_46c5).wrapping_add(v << 3);
    v = v ^ 0xb55a_4f09 ^ v >> 16;
    v.wrapping_mul(0xc000_0001)
}

/// The available digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha512_224,
    Sha512_256,
}

impl Algorithm {
    fn parse(name: &[u8]) -> Result<Algorithm, String> {
        let name = show(name).to_ascii_lowercase();
        Ok(match &*name {
            "md5" => Algorithm::Md5,
            "sha1" | "sha-1" => Algorithm::Sha1,
            "sha224" | "sha-224" | "sha2-224" => Algorithm::Sha224,
            "sha256" | "sha-256" | "sha2-256" => Algorithm::Sha256,
            "sha384" | "sha-384" | "sha2-384" => Algorithm::Sha384,
            "sha512" | "sha-512" | "sha2-512" => Algorithm::Sha512,
            "sha512-224" => Algorithm::Sha512_224,
            "sha512-256" => Algorithm::Sha512_256,
            known if KNOWN_DIGESTS.contains(&known) => {
                return Err(format!("message digest '{known}' is not implemented yet"));
            }
            _ => return Err("algorithm must be a valid OpenSSL message digest name".into()),
        })
    }
}

/// Digests of OpenSSL that weir does not have.
const KNOWN_DIGESTS: [&str; 16] = [
    "blake2b512",
    "blake2s256",
    "md4",
    "md5-sha1",
    "mdc2",
    "ripemd",
    "ripemd160",
    "rmd160",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "shake128",
    "shake256",
    "sm3",
    "whirlpool",
];

/// Checks the name of a digest and stores the algorithm.
fn check_algorithm(args: &mut Args, index: usize) -> Result<(), String> {
    let algorithm = Algorithm::parse(args.str(index).unwrap_or_default())?;
    args.set(index, Arg::Custom(std::sync::Arc::new(algorithm)));
    Ok(())
}

fn check_digest(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    check_algorithm(args, 0)
}

fn check_sha2(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.int(0) {
        None | Some(224 | 256 | 384 | 512) => Ok(()),
        Some(bits) => Err(format!("Unsupported number of bits: '{bits}'")),
    }
}

/// The key is base64 text, or a variable that holds such text.
fn check_hmac(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    check_algorithm(args, 0)?;
    let key = args.str(1).unwrap_or_default();
    let variable = std::str::from_utf8(key).ok().and_then(|name| scope.variables.intern(name).ok());
    let arg = match variable {
        Some(variable) => Arg::Variable(variable),
        None => {
            decode_base64(key).ok_or(
                "failed to parse key : argument needs to be base64 encoded, and can either be a string or a variable",
            )?;
            return Ok(());
        }
    };
    args.set(1, arg);
    Ok(())
}

fn sha1<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    run_digest(value, Algorithm::Sha1)
}

fn sha2_digest<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let algorithm = match args.int(0) {
        Some(224) => Algorithm::Sha224,
        Some(384) => Algorithm::Sha384,
        Some(512) => Algorithm::Sha512,
        _ => Algorithm::Sha256,
    };
    run_digest(value, algorithm)
}

fn digest<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    run_digest(value, *args.custom::<Algorithm>(0)?)
}

fn run_digest<'a>(value: Value<'a>, algorithm: Algorithm) -> Option<Value<'a>> {
    fn add<D: Digest>(bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&D::digest(bytes));
    }
    let mut out = scratch::take();
    let bytes = value.bytes()?;
    match algorithm {
        Algorithm::Md5 => add::<md5::Md5>(bytes, &mut out),
        Algorithm::Sha1 => add::<sha1::Sha1>(bytes, &mut out),
        Algorithm::Sha224 => add::<sha2::Sha224>(bytes, &mut out),
        Algorithm::Sha256 => add::<sha2::Sha256>(bytes, &mut out),
        Algorithm::Sha384 => add::<sha2::Sha384>(bytes, &mut out),
        Algorithm::Sha512 => add::<sha2::Sha512>(bytes, &mut out),
        Algorithm::Sha512_224 => add::<sha2::Sha512_224>(bytes, &mut out),
        Algorithm::Sha512_256 => add::<sha2::Sha512_256>(bytes, &mut out),
    }
    scratch::recycle(value);
    Some(Value::Bin(Cow::Owned(out)))
}

fn hmac_digest<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    fn add<M: Mac + KeyInit>(key: &[u8], bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
        mac.update(bytes);
        out.extend_from_slice(&mac.finalize().into_bytes());
        Some(())
    }
    let algorithm = *args.custom::<Algorithm>(0)?;
    let key = decode_base64(args.str(1)?)?;
    let bytes = value.bytes()?;
    let mut out = scratch::take();
    match algorithm {
        Algorithm::Md5 => add::<hmac::Hmac<md5::Md5>>(&key, bytes, &mut out)?,
        Algorithm::Sha1 => add::<hmac::Hmac<sha1::Sha1>>(&key, bytes, &mut out)?,
        Algorithm::Sha224 => add::<hmac::Hmac<sha2::Sha224>>(&key, bytes, &mut out)?,
        Algorithm::Sha256 => add::<hmac::Hmac<sha2::Sha256>>(&key, bytes, &mut out)?,
        Algorithm::Sha384 => add::<hmac::Hmac<sha2::Sha384>>(&key, bytes, &mut out)?,
        Algorithm::Sha512 => add::<hmac::Hmac<sha2::Sha512>>(&key, bytes, &mut out)?,
        Algorithm::Sha512_224 => add::<hmac::Hmac<sha2::Sha512_224>>(&key, bytes, &mut out)?,
        Algorithm::Sha512_256 => add::<hmac::Hmac<sha2::Sha512_256>>(&key, bytes, &mut out)?,
    }
    scratch::recycle(value);
    Some(Value::Bin(Cow::Owned(out)))
}
