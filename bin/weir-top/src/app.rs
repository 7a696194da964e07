//! The state of the screen, and how keys and poller messages change it. Nothing here blocks, reads or writes.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::columns::{self, Column, DisplayedRow, Tone};
use crate::model::row::{ObjectRow, RowKey, RowKind};
use crate::model::sessions::StreamRow;
use crate::model::{Model, PageAnswer};
use crate::page::Page;
use crate::poller::{PollerNews, PollerOrder, WatchedAnswers};

pub(crate) struct App {
    pub model: Model,
    pub target: String,
    pub page: Page,
    /// The row with open details. `None` if the list is shown.
    pub detail: Option<RowKey>,
    pub help: bool,
    /// Scroll offset of the open text, in lines: details, help or captured errors.
    pub scroll: u16,
    pub lists: [ListView; 6],
    pub filter: String,
    pub typing: Option<Typing>,
    pub question: Option<Confirmation>,
    pub notice: Option<ScreenNotice>,
    pub link: ApiLink,
    pub paused: bool,
    pub interval: Duration,
    pub read_only: bool,
    pub is_over: bool,
    /// Whether something else wrote to the terminal, so that the whole screen must be redrawn.
    pub is_garbled: bool,
}

/// The selection and sort order of a list.
#[derive(Debug, Default, Clone)]
pub(crate) struct ListView {
    pub selected: Option<RowId>,
    /// The last index of the selected row, in case the row disappears.
    pub index: usize,
    /// Index of the first visible row.
    pub offset: usize,
    pub sort: Option<SortOrder>,
    /// Number of visible rows, and the titles of the visible columns, at the last draw.
    pub height: usize,
    pub titles: Vec<&'static str>,
    /// The position and the number of rows, as text.
    pub note: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowId {
    Row(RowKey),
    Stream(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortOrder {
    pub title: String,
    pub descending: bool,
}

/// The line that the user is typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typing {
    Filter { text: String, former: String },
    Weight { server: String, text: String },
}

/// A question to the user, and the command that `y` sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub words: String,
    pub command: String,
}

#[derive(Debug, Clone)]
pub(crate) struct ScreenNotice {
    pub text: String,
    pub tone: Tone,
    pub at: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiLink {
    Connecting,
    Up,
    Lost { why: String, since: Instant },
}

impl App {
    pub(crate) fn new(target: String) -> App {
        let mut lists: [ListView; 6] = Default::default();
        lists[Page::Errors as usize].sort = Some(SortOrder { title: "ERRORS".to_owned(), descending: true });
        App {
            model: Model::default(),
            target,
            page: Page::Overview,
            detail: None,
            help: false,
            scroll: 0,
            lists,
            filter: String::new(),
            typing: None,
            question: None,
            notice: None,
            link: ApiLink::Connecting,
            paused: false,
            interval: Duration::from_secs(1),
            read_only: false,
            is_over: false,
            is_garbled: false,
        }
    }

    /// Processes a message from the poller.
    pub(crate) fn take(&mut self, news: PollerNews, now: Instant) {
        match news {
            PollerNews::Picture(picture) => {
                if let ApiLink::Lost { .. } = self.link {
                    self.say(Tone::Good, "connected again", now);
                }
                self.link = ApiLink::Up;
                if let Some((former, present)) = self.model.add(*picture) {
                    let text = match former == present {
                        true => format!("process {present} was started again"),
                        false => format!("process {present} follows {former}: rates begin anew"),
                    };
                    self.say(Tone::Warning, &text, now);
                }
            }
            PollerNews::Latencies(text) => self.model.add_latencies(&text),
            PollerNews::Errors(answer) => self.model.add_errors(&answer.text, answer.cut),
            PollerNews::Streams(answer) => self.model.add_streams(&answer.text, answer.cut),
            PollerNews::Done(command, Ok(answer)) => {
                // A successful command has an empty answer.
                let silent = answer.trim().is_empty();
                let (tone, words) = if silent {
                    (Tone::Good, "done".to_owned())
                } else {
                    (Tone::Bad, crate::model::refusal(&answer))
                };
                self.say(tone, &format!("{command}: {words}"), now);
            }
            PollerNews::Done(command, Err(why)) => self.say(Tone::Bad, &format!("{command}: {why}"), now),
            PollerNews::Lost(why) => {
                let since = if let ApiLink::Lost { since, .. } = self.link { since } else { now };
                self.link = ApiLink::Lost { why: crate::text::clean(&why, 300), since };
            }
        }
    }

    pub(crate) fn say(&mut self, tone: Tone, text: &str, now: Instant) {
        self.notice = Some(ScreenNotice { text: text.to_owned(), tone, at: now });
    }

    /// Removes a notice that was shown long enough. Returns whether it was removed.
    pub(crate) fn forget(&mut self, now: Instant) -> bool {
        let old =
            self.notice.as_ref().is_some_and(|notice| now.saturating_duration_since(notice.at) > NOTICE);
        if old {
            self.notice = None;
        }
        old
    }

    /// The additional answers that the poller must fetch for the current page.
    pub(crate) fn watch(&self) -> WatchedAnswers {
        WatchedAnswers { errors: self.page == Page::Errors, sessions: self.page == Page::Sessions }
    }

    /// The rows of a page, filtered and sorted.
    pub(crate) fn rows(&self, page: Page) -> Vec<DisplayedRow<'_>> {
        let wanted = |row: &&ObjectRow| page.kinds().contains(&row.key.kind) && self.passes(&[&row.path()]);
        let all = self.model.picture.iter().flat_map(|picture| &picture.rows);
        let rows = all.filter(wanted).map(|row| DisplayedRow::new(&self.model, row)).collect();
        self.sorted(page, rows, &columns::of_page(page, self.model.has_latencies()))
    }

    pub(crate) fn streams(&self) -> Vec<StreamRow> {
        let PageAnswer::Known { value, .. } = &self.model.streams else { return Vec::new() };
        let wanted = |s: &&StreamRow| self.passes(&[&s.source, &s.frontend, &s.backend, &s.server]);
        let streams = value.listed.iter().filter(wanted).cloned().collect();
        self.sorted(Page::Sessions, streams, &columns::streams())
    }

    /// Whether a name matches the filter: a substring, or a prefix after `^`.
    fn passes(&self, names: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        names.iter().map(|name| name.to_lowercase()).any(|name| match filter.strip_prefix('^') {
            Some(begin) => name.starts_with(begin),
            None => name.contains(&filter),
        })
    }

    fn sorted<R>(&self, page: Page, rows: Vec<R>, columns: &[Column<R>]) -> Vec<R> {
        let sort = self.lists[page as usize].sort.as_ref();
        let Some((sort, column)) =
            sort.and_then(|sort| Some((sort, columns.iter().find(|column| column.title == sort.title)?)))
        else {
            return rows;
        };
        let mut keyed: Vec<_> = rows.into_iter().map(|row| (column.key(&row), row)).collect();
        keyed.sort_by(|(a, _), (b, _)| a.compare(b, sort.descending));
        keyed.into_iter().map(|(_, row)| row).collect()
    }

    /// The identities of the rows on the current page, in order.
    fn ids(&self) -> Vec<RowId> {
        match self.page {
            Page::Sessions => self.streams().into_iter().map(|stream| RowId::Stream(stream.id)).collect(),
            page => self.rows(page).into_iter().map(|shown| RowId::Row(shown.row.key.clone())).collect(),
        }
    }

    /// The server that an action applies to: the one with open details, or the selected one.
    fn server(&self) -> Option<&ObjectRow> {
        let key = match (&self.detail, &self.lists[self.page as usize].selected) {
            (Some(key), _) => key,
            // Never change a server hidden by the filter.
            (None, Some(RowId::Row(key)))
                if self.rows(self.page).iter().any(|shown| shown.row.key == *key) =>
            {
                key
            }
            _ => return None,
        };
        self.model.row(key).filter(|row| row.key.kind == RowKind::Server)
    }

    /// Handles a key. Returns the orders for the poller.
    pub(crate) fn key(&mut self, key: KeyEvent, now: Instant) -> Vec<PollerOrder> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over |= matches!(key.code, KeyCode::Char('c' | 'd'));
            self.is_garbled |= key.code == KeyCode::Char('l');
            return Vec::new();
        }
        let before = self.watch();
        let mut orders = if let Some(question) = self.question.take() {
            self.answer(question, key.code, now)
        } else if let Some(typing) = self.typing.take() {
            self.write(typing, key.code, now);
            Vec::new()
        } else {
            self.command(key.code, now)
        };
        if self.watch() != before {
            orders.push(PollerOrder::Watch(self.watch()));
        }
        orders
    }

    fn answer(&mut self, question: Confirmation, key: KeyCode, now: Instant) -> Vec<PollerOrder> {
        match key {
            KeyCode::Char('y' | 'Y') if self.link != ApiLink::Up => {
                self.say(Tone::Bad, &format!("{}: not sent, not connected", question.command), now);
            }
            KeyCode::Char('y' | 'Y') => {
                self.say(Tone::Plain, &format!("{}: sent", question.command), now);
                return vec![PollerOrder::Command(question.command)];
            }
            KeyCode::Char('n' | 'N') | KeyCode::Esc => self.say(Tone::Plain, "nothing was changed", now),
            _ => self.question = Some(question),
        }
        Vec::new()
    }

    fn write(&mut self, mut typing: Typing, key: KeyCode, now: Instant) {
        let (Typing::Filter { text, .. } | Typing::Weight { text, .. }) = &mut typing;
        match key {
            KeyCode::Esc => {
                if let Typing::Filter { former, .. } = typing {
                    self.filter = former;
                }
                return;
            }
            KeyCode::Enter => {
                if let Typing::Weight { server, text } = typing {
                    self.confirm_weight(server, &text, now);
                }
                return;
            }
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(c) if !c.is_control() && text.chars().count() < LONGEST_LINE => text.push(c),
            _ => {}
        }
        if let Typing::Filter { text, .. } = &typing {
            self.filter.clone_from(text);
        }
        self.typing = Some(typing);
    }

    fn confirm_weight(&mut self, server: String, text: &str, now: Instant) {
        let number = text.strip_suffix('%').unwrap_or(text);
        let most = if text.ends_with('%') { 100_000 } else { 256 };
        match number.parse::<u32>() {
            Ok(weight) if weight <= most => {
                let words = format!("Give {server} the weight {text}?");
                self.question = Some(Confirmation { words, command: format!("set weight {server} {text}") });
            }
            _ => self.say(
                Tone::Bad,
                &format!(
                    "'{}' is not a weight: 0 to 256, or per cent of the initial one",
                    crate::text::clean(text, 40)
                ),
                now,
            ),
        }
    }

    fn command(&mut self, key: KeyCode, now: Instant) -> Vec<PollerOrder> {
        match key {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.help = !self.help;
                self.scroll = 0;
            }
            KeyCode::Esc | KeyCode::Backspace => self.back(),
            KeyCode::Char(digit @ '1'..='6') => self.open(Page::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.open(self.beside(1)),
            KeyCode::BackTab | KeyCode::Left => self.open(self.beside(Page::ALL.len() - 1)),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-(self.lists[self.page as usize].height.max(1) as isize)),
            KeyCode::PageDown | KeyCode::Char(' ') => {
                self.step(self.lists[self.page as usize].height.max(1) as isize)
            }
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX / 2),
            KeyCode::Enter => self.enter(),
            KeyCode::Char('/') => {
                let former = self.filter.clone();
                self.typing = Some(Typing::Filter { text: former.clone(), former });
            }
            KeyCode::Char('<' | ',') => self.move_sort(-1),
            KeyCode::Char('>' | '.') => self.move_sort(1),
            KeyCode::Char('r') => {
                if let Some(sort) = &mut self.lists[self.page as usize].sort {
                    sort.descending = !sort.descending;
                }
            }
            KeyCode::Char('o') => self.lists[self.page as usize].sort = None,
            KeyCode::Char('[') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Char(']') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Char('d') => self.confirm_state("Drain", "drain", now),
            KeyCode::Char('e') => self.confirm_state("Make ready", "ready", now),
            KeyCode::Char('m') => self.confirm_state("Put into maintenance", "maint", now),
            KeyCode::Char('w') => {
                if let Some(server) = self.changeable(now) {
                    self.typing = Some(Typing::Weight { server, text: String::new() });
                }
            }
            KeyCode::Char('p') => {
                self.paused = !self.paused;
                return vec![PollerOrder::Pause(self.paused)];
            }
            KeyCode::Char('+') => return self.pace(2.0),
            KeyCode::Char('-') => return self.pace(0.5),
            _ => {}
        }
        Vec::new()
    }

    /// Goes back one step: closes help or details, or clears a filter.
    fn back(&mut self) {
        self.scroll = 0;
        if self.help {
            self.help = false;
        } else if self.detail.take().is_none() {
            self.filter.clear();
        }
    }

    pub(crate) fn open(&mut self, page: Page) {
        self.page = page;
        self.detail = None;
        self.help = false;
        self.scroll = 0;
    }

    fn beside(&self, distance: usize) -> Page {
        Page::ALL[(self.page as usize + distance) % Page::ALL.len()]
    }

    fn step(&mut self, by: isize) {
        if self.help || self.detail.is_some() {
            let scroll = isize::from(self.scroll as i16).saturating_add(by);
            self.scroll = scroll.clamp(0, LONGEST_TEXT) as u16;
            return;
        }
        let ids = self.ids();
        let list = &mut self.lists[self.page as usize];
        list.settle(&ids);
        list.index = list.index.saturating_add_signed(by).min(ids.len().saturating_sub(1));
        list.selected = ids.into_iter().nth(list.index);
    }

    fn enter(&mut self) {
        let ids = self.ids();
        let list = &mut self.lists[self.page as usize];
        list.settle(&ids);
        let Some(RowId::Row(key)) = list.selected.clone().filter(|_| !self.help && self.detail.is_none())
        else {
            return;
        };
        if key.kind == RowKind::Backend && self.page == Page::Backends {
            self.filter = format!("^{}/", key.proxy);
            self.open(Page::Servers);
        } else {
            self.detail = Some(key);
            self.scroll = 0;
        }
    }

    /// Sorts by the next or previous visible column.
    fn move_sort(&mut self, by: isize) {
        let list = &mut self.lists[self.page as usize];
        let position =
            list.sort.as_ref().and_then(|sort| list.titles.iter().position(|title| *title == sort.title));
        let next = match position {
            Some(position) => (position as isize + by).rem_euclid(list.titles.len() as isize) as usize,
            None if by > 0 => 0,
            None => list.titles.len().saturating_sub(1),
        };
        list.sort =
            list.titles.get(next).map(|title| SortOrder { title: (*title).to_owned(), descending: true });
    }

    fn confirm_state(&mut self, verb: &str, state: &str, now: Instant) {
        if let Some(server) = self.changeable(now) {
            let words = format!("{verb} {server}?");
            self.question =
                Some(Confirmation { words, command: format!("set server {server} state {state}") });
        }
    }

    /// The path of the server to change. `None`, with a notice of the reason, if it cannot be changed.
    fn changeable(&mut self, now: Instant) -> Option<String> {
        let why = match self.server() {
            _ if self.read_only => "nothing is changed: this was started with --read-only",
            None => "no server is selected: press 4, then choose one",
            Some(row) if !row.can_be_named => "this name cannot be written in a command",
            Some(row) => return Some(row.path()),
        };
        self.say(Tone::Warning, why, now);
        None
    }

    fn pace(&mut self, factor: f64) -> Vec<PollerOrder> {
        let seconds = (self.interval.as_secs_f64() * factor).clamp(0.25, 3600.0);
        self.interval = Duration::from_secs_f64(seconds);
        vec![PollerOrder::Interval(self.interval)]
    }
}

impl ListView {
    /// Finds the selected row in a new list. If it is gone, selects the row at its former index.
    pub(crate) fn settle(&mut self, ids: &[RowId]) {
        let found = self.selected.as_ref().and_then(|selected| ids.iter().position(|id| id == selected));
        self.index = found.unwrap_or(self.index).min(ids.len().saturating_sub(1));
        if found.is_none() {
            self.selected = ids.get(self.index).cloned();
        }
    }
}

/// How long a notice is shown.
const NOTICE: Duration = Duration::from_secs(10);
const LONGEST_LINE: usize = 60;
/// Maximum scroll offset: more lines than any page has.
const LONGEST_TEXT: isize = 10_000;
