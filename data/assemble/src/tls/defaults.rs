//! TLS defaults of the global section: base paths, options of lines, and the passphrase program.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use weir_model::{ChainFolder, Global, GlobalTls, Location, PassphraseProgram, TlsDefaults};
use weir_syntax::SharedFiles;
use weir_sys::child::Exit;
use weir_sys::program::{Invocation, OutputError, output};
use weir_tls::CertificateLoader;
use weir_tls::issuers::IssuerChains;
use weir_tls::passphrase::Passphrases;

use crate::BuildError;

/// The defaults in effect at the current line: those that precede it in the configuration.
#[derive(Debug)]
pub(super) struct OrderedDefaults {
    /// The settings of the global section.
    pub global: GlobalTls,
    files: Vec<Arc<str>>,
    /// The number of the global section's defaults that precede the current line.
    count: usize,
}

impl OrderedDefaults {
    /// The defaults in effect at the end of the configuration.
    pub(super) fn of(global: &Global) -> OrderedDefaults {
        let (tls, files) = (global.tls.clone(), global.files.clone());
        OrderedDefaults { count: tls.line_defaults.len(), global: tls, files }
    }

    /// Selects the defaults in effect at a line. A line of the runtime API follows all files.
    pub(super) fn enter(&mut self, line: &Location, loader: &mut CertificateLoader) {
        let count = self.global.count_of_defaults_above(&self.files, line);
        if count != self.count {
            self.count = count;
            loader.extra = self.extra_files;
            loader.replaces_extension = self.replaces_extension;
        }
    }
}

impl Deref for OrderedDefaults {
    type Target = TlsDefaults;

    fn deref(&self) -> &TlsDefaults {
        self.global.defaults_below(self.count)
    }
}

/// The chains in the folders of `issuers-chain-path`.
pub(super) fn issuer_chains(
    global: &Global,
    files: &SharedFiles,
    warnings: &mut Vec<String>,
    errors: &mut Vec<BuildError>,
) -> IssuerChains {
    let mut chains = IssuerChains::default();
    for ChainFolder { path: folder, at } in &global.tls.chain_folders {
        if let Err(error) = chains.read(files, folder, warnings) {
            let message =
                format!("'issuers-chain-path' expects a folder that can be read: '{folder}': {error}.");
            errors.push(BuildError { at: at.clone(), message });
        }
    }
    chains
}

/// Passphrases from the program of `ssl-passphrase-cmd`, which runs while keys are read.
pub(super) fn passphrases(global: &Global) -> Passphrases {
    let Some(PassphraseProgram { words, at }) = global.tls.passphrase_program.clone() else {
        return Passphrases::default();
    };
    Passphrases::from(Box::new(move |path| {
        printed(&words, path).map_err(|why| {
            let program = words.first().map_or("", |word| word);
            format!("the private key of '{path}' is encrypted, and 'ssl-passphrase-cmd' [{at}] gives no passphrase: '{program}' {why}")
        })
    }))
}

/// Runs the program for the key file at `path` and returns its output. The path is its first argument, before the configured ones.
fn printed(words: &[Box<str>], path: &str) -> Result<Vec<u8>, String> {
    let bytes = |word: &str| word.as_bytes().to_vec();
    let (program, arguments) = words.split_first().map_or(("", words), |(first, rest)| (first, rest));
    let words = [program, path].into_iter().chain(arguments.iter().map(|word| &**word));
    let variables = std::env::vars_os()
        .map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat());
    let invocation = Invocation {
        file: bytes(program),
        words: words.map(bytes).collect(),
        environment: variables.collect(),
    };
    let mut printed = output(&invocation, MOST_PRINTED, MOST_TIME).map_err(|error| match error {
        OutputError::System(errno) => format!("cannot be run: {}.", weir_sys::error_text(errno)),
        OutputError::TooLate => format!("was ended after {} seconds.", MOST_TIME.as_secs()),
        OutputError::TooMuch => format!("printed more than {MOST_PRINTED} bytes."),
        OutputError::Failed(Exit::Code(code)) => format!("exited with status {code}."),
        OutputError::Failed(exit @ Exit::Signal(_)) => format!("was ended: {exit}."),
    })?;
    // Drops a trailing line break, because `echo` appends one and a typed passphrase cannot contain one.
    let text = printed.trim_ascii_end().len();
    let ends = printed[text..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    printed.truncate(ends.map_or(printed.len(), |at| text + at));
    if printed.is_empty() {
        return Err("printed nothing.".to_owned());
    }
    Ok(printed)
}

/// The size limit of a passphrase, in bytes, as in OpenSSL.
const MOST_PRINTED: usize = 1024;
/// The timeout of the program, per key.
const MOST_TIME: Duration = Duration::from_secs(10);
