//! The layers of TLS options: a line of a certificate list, its `bind` line or a `server` line, and the global section.

use weir_model::{LineDefaults, Location, TlsDefaults, TlsOptions, TlsVersion};

/// A line that uses TLS, with the layers of its options.
#[derive(Clone, Copy)]
pub(super) struct Layers<'l> {
    /// The line's name in messages.
    pub subject: &'l str,
    /// The location of the `bind` or `server` line.
    pub at: &'l Location,
    pub line: &'l TlsOptions,
    /// The location and the options of a certificate list's line with options. They override the `bind` line's options.
    pub listed: Option<(&'l Location, &'l TlsOptions)>,
    /// The side, which selects the defaults of the global section.
    pub side: LineSide,
}

/// The side of a line, which selects its defaults.
#[derive(Clone, Copy)]
pub(super) enum LineSide {
    Listener,
    Server,
}

impl Layers<'_> {
    /// The location for faults of the options as a whole.
    pub(super) fn here(&self) -> &Location {
        self.listed.map_or(self.at, |(at, _)| at)
    }

    /// The effective options. A list's line may change either limit of the version range of its `bind` line.
    pub(super) fn options(&self, defaults: &TlsDefaults) -> TlsOptions {
        let below = self.defaults(defaults);
        let (lowest, highest) = range(&below.under(self.line));
        let listed = self.listed.map_or(self.line, |(_, options)| options);
        TlsOptions {
            min_version: listed.min_version.or(lowest),
            max_version: listed.max_version.or(highest),
            refused_versions: Vec::new(),
            ..below.under(listed)
        }
    }

    /// The line with `no-tlsv1x` options that a version range overrides, if any.
    pub(super) fn ignored_versions(&self, defaults: &TlsDefaults) -> Option<OptionLocation> {
        let options = self.defaults(defaults).under(self.line);
        let is_ignored = has_range(&options) && !options.refused_versions.is_empty();
        let own = Layers { listed: None, ..*self };
        let versions = |options: &TlsOptions| {
            (options.min_version, options.max_version, options.refused_versions.clone())
        };
        is_ignored.then(|| own.place(defaults, "options", versions))
    }

    fn defaults<'d>(&self, defaults: &'d TlsDefaults) -> &'d LineDefaults {
        match self.side {
            LineSide::Listener => &defaults.listener,
            LineSide::Server => &defaults.server,
        }
    }

    /// The location that sets an option. `keyword` completes `ssl-default-bind-<keyword>`. `of` returns the option's value in a
    /// line, or the default value without it.
    pub(super) fn place<T: Default + PartialEq>(
        &self,
        defaults: &TlsDefaults,
        keyword: &str,
        of: impl Fn(&TlsOptions) -> T,
    ) -> OptionLocation {
        let own = of(self.line);
        let at = match (self.listed, self.defaults(defaults).place(keyword)) {
            (Some((at, options)), _) if of(options) != own => at,
            (_, Some((keyword, at))) if own == T::default() => return (at.clone(), format!("'{keyword}'")),
            _ => self.at,
        };
        (at.clone(), self.subject.to_owned())
    }
}

fn has_range(options: &TlsOptions) -> bool {
    options.min_version.is_some() || options.max_version.is_some()
}

/// The lowest and highest version of a line: its range, or the versions that it does not disable.
fn range(options: &TlsOptions) -> (Option<TlsVersion>, Option<TlsVersion>) {
    if has_range(options) {
        return (options.min_version, options.max_version);
    }
    let refuses = |version| options.refused_versions.contains(&version);
    match (refuses(TlsVersion::Tls12), refuses(TlsVersion::Tls13)) {
        (false, false) => (None, None),
        (true, false) => (Some(TlsVersion::Tls13), None),
        (false, true) => (None, Some(TlsVersion::Tls12)),
        (true, true) => (None, Some(TlsVersion::Tls11)),
    }
}

/// The location of an option, and the name of its line in messages.
pub(super) type OptionLocation = (Location, String);

/// Parameter names that are never negotiated, by line.
#[derive(Default)]
pub(super) struct Never(Vec<(OptionLocation, Vec<String>)>);

impl Never {
    pub(super) fn add(&mut self, place: OptionLocation, names: impl IntoIterator<Item = impl ToString>) {
        let mut names = names.into_iter().map(|name| name.to_string()).peekable();
        if names.peek().is_none() {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == place) {
            Some((_, known)) => known.extend(names),
            None => self.0.push((place, names.collect())),
        }
    }
}

impl IntoIterator for Never {
    type Item = (OptionLocation, Vec<String>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
