//! Who says an option: a line of a certificate list, its `bind` line or a `server` line, or the global section.

use weir_model::{LineDefaults, Location, TlsDefaults, TlsOptions, TlsVersion};

/// A line that speaks TLS, and what it says itself.
#[derive(Clone, Copy)]
pub(super) struct Layers<'l> {
    /// What messages call it.
    pub subject: &'l str,
    /// Where the `bind` or `server` line stands.
    pub at: &'l Location,
    /// Its own options.
    pub line: &'l TlsOptions,
    /// A line of a certificate list with options: where it stands, and its options with those of the `bind` line below them.
    pub listed: Option<(&'l Location, &'l TlsOptions)>,
    /// Which defaults are below.
    pub side: Side,
}

/// Which defaults hold for a line.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Listener,
    Server,
}

impl Layers<'_> {
    /// Where faults of the whole are told.
    pub fn here(&self) -> &Location {
        self.listed.map_or(self.at, |(at, _)| at)
    }

    /// The options that hold. The versions of the `bind` or `server` line are a range, of which a line of a list changes either end.
    pub fn options(&self, defaults: &TlsDefaults) -> TlsOptions {
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

    /// Where versions are refused beside a range, which counts alone.
    pub fn ignored_versions(&self, defaults: &TlsDefaults) -> Option<Place> {
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
            Side::Listener => &defaults.listener,
            Side::Server => &defaults.server,
        }
    }

    /// Who says these options, and where: with `keyword` as in `ssl-default-bind-<keyword>`, and what `of` takes of a line, the default
    /// where it says nothing.
    pub fn place<T: Default + PartialEq>(
        &self,
        defaults: &TlsDefaults,
        keyword: &str,
        of: impl Fn(&TlsOptions) -> T,
    ) -> Place {
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

/// The lowest and the highest version of a line: what it says, or what it does not refuse of the two versions that there are.
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

/// Where an option stands, and what messages call the line.
pub(super) type Place = (Location, String);

/// What is named and never negotiated, by line.
#[derive(Default)]
pub(super) struct Never(Vec<(Place, Vec<String>)>);

impl Never {
    pub fn add(&mut self, place: Place, names: impl IntoIterator<Item = impl ToString>) {
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
    type Item = (Place, Vec<String>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
