//! `weir-top`: a terminal dashboard for the runtime API of weir and HAProxy.
//!
//! Three largely independent parts. [`model`] is the data: pure, parsed from text. [`poller`] is a thread with the only connection.
//! Only this thread blocks on the network. [`app`] and [`view`] are the screen: keys and poller messages change the state in `app`,
//! and `view` draws it. The program knows only the output of `show stat` and similar commands, not how the processes work.
//!
//! Begin with `run` below.

mod app;
mod arguments;
mod columns;
mod connection;
mod model;
mod once;
mod page;
mod poller;
mod target;
mod terminal;
mod text;
mod view;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use weir_sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SignalReader};

use app::{ApiLink, App, SortOrder};
use arguments::{DashboardCommand, WatchSettings};
use columns::Tone;
use page::Page;
use poller::{PollerNews, PollerOrder, WatchedAnswers};
use target::ApiAddress;
use view::theme::Theme;

fn main() -> ExitCode {
    match arguments::parse(env::args_os().skip(1)) {
        DashboardCommand::Run(settings) => match run(settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err((status, why)) => {
                eprintln!("weir-top: {why}");
                ExitCode::from(status)
            }
        },
        DashboardCommand::Help => printed(arguments::USAGE),
        DashboardCommand::Version => printed(concat!("weir-top ", env!("CARGO_PKG_VERSION"), "\n")),
        DashboardCommand::Nonsense(why) => {
            eprint!("weir-top: {why}\n{}", arguments::USAGE);
            ExitCode::from(2)
        }
    }
}

/// Prints to standard output. A reader that closes the pipe early is not an error.
fn printed(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// The exit status and the error message.
type ExitReason = (u8, String);

fn run(settings: WatchSettings) -> Result<(), ExitReason> {
    let target = match &settings.target {
        Some(target) => target.clone(),
        None => ApiAddress::default_one(env::var("WEIR_SOCKET").ok().as_deref()).map_err(|why| (1, why))?,
    };
    let mut app = App::new(target.to_string());
    app.interval = settings.interval;
    app.read_only = settings.read_only;
    app.filter.clone_from(&settings.filter);
    if let Some(page) = settings.page {
        app.open(page);
    }
    if let Some(column) = &settings.sort {
        sort(&mut app, column).map_err(|why| (2, why))?;
    }
    let theme = Theme {
        color: !settings.no_color && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        unicode: !settings.ascii && terminal::has_unicode(),
    };
    if !settings.once
        && let Some(why) = terminal::refusal()
    {
        return Err((1, why));
    }
    // Before the first thread is created. Otherwise that thread could receive the signals.
    let signals =
        (!settings.once).then(|| SignalReader::new(&[SIGTERM, SIGHUP, SIGINT, SIGQUIT])).transpose();
    let signals = signals.map_err(|error| (1, format!("signals cannot be read: {error}")))?;
    let (orders, taken) = sync_channel(CHANNEL);
    let (sender, news) = sync_channel(CHANNEL);
    poller::start(target, settings.interval, app.watch(), taken, sender);
    match signals {
        None => print_once(&mut app, &news, settings.page, theme),
        Some(signals) => {
            let over = terminal::watch(signals);
            show(&mut app, theme, &over, &orders, &news).map_err(|error| (1, error.to_string()))
        }
    }
}

/// Sorts every list with a column of this name.
fn sort(app: &mut App, column: &str) -> Result<(), String> {
    let mut titles: Vec<&str> = columns::streams().iter().map(|column| column.title).collect();
    for page in Page::ALL {
        titles.extend(columns::of_page(page, true).iter().map(|column| column.title));
    }
    let plain = |title: &str| title.to_lowercase().replace(' ', "-");
    let Some(title) = titles.iter().find(|title| plain(title) == plain(column)) else {
        titles.sort_unstable();
        titles.dedup();
        return Err(format!("'{column}' is not the title of a column: {}", titles.join(", ")));
    };
    for list in &mut app.lists {
        list.sort = Some(SortOrder { title: (*title).to_owned(), descending: true });
    }
    Ok(())
}

fn print_once(
    app: &mut App,
    news: &Receiver<PollerNews>,
    only: Option<Page>,
    theme: Theme,
) -> Result<(), ExitReason> {
    let end = Instant::now() + ONCE;
    let WatchedAnswers { errors, sessions } = app.watch();
    let (mut picture, mut latencies, mut listing) = (false, false, !errors && !sessions);
    while !(picture && latencies && listing) {
        match news.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(PollerNews::Lost(why)) => return Err((1, format!("{}: {why}", app.target))),
            Ok(news) => {
                picture |= matches!(news, PollerNews::Picture(_));
                latencies |= matches!(news, PollerNews::Latencies(_));
                listing |= matches!(news, PollerNews::Errors(_) | PollerNews::Streams(_));
                app.take(news, Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err((1, format!("{}: no answer within {} s", app.target, ONCE.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err((1, POLLER_ENDED.to_owned())),
        }
    }
    let (mut output, refused) = once::print(app, only);
    if !theme.unicode {
        output = text::ascii(&output);
    }
    printed(&output);
    refused.map_or(Ok(()), |why| Err((1, format!("{}: {why}", app.target))))
}

/// The main loop: redraws after changes, and waits for keys.
fn show(
    app: &mut App,
    theme: Theme,
    over: &AtomicBool,
    orders: &SyncSender<PollerOrder>,
    news: &Receiver<PollerNews>,
) -> io::Result<()> {
    let (mut screen, _taken) = terminal::take()?;
    let mut changed = true;
    let mut drawn = Instant::now();
    while !app.is_over {
        // The displayed time since the last answer changes every second.
        let ticks = matches!(app.link, ApiLink::Lost { .. }) && drawn.elapsed() >= Duration::from_secs(1);
        if changed || ticks {
            if std::mem::take(&mut app.is_garbled) {
                screen.clear()?;
            }
            drawn = Instant::now();
            screen.draw(|frame| view::draw(frame, app, theme, drawn))?;
            changed = false;
        }
        if event::poll(TURN)? {
            let orders_of_key = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key, Instant::now()),
                _ => Vec::new(),
            };
            changed = true;
            for order in orders_of_key {
                if let Err(TrySendError::Full(order)) = orders.try_send(order) {
                    app.say(
                        Tone::Bad,
                        &format!("not sent, the answers before it are late: {order:?}"),
                        Instant::now(),
                    );
                }
            }
        }
        // Limited to the channel's capacity, so that many messages do not delay the keys.
        for _ in 0..CHANNEL {
            match news.try_recv() {
                Ok(news) => app.take(news, Instant::now()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(io::Error::other(POLLER_ENDED)),
            }
            changed = true;
        }
        changed |= app.forget(Instant::now());
        app.is_over |= over.load(Ordering::Relaxed);
    }
    Ok(())
}

/// Capacity of each channel, in messages.
const CHANNEL: usize = 16;
/// How long to wait for a key before checking for messages and signals.
const TURN: Duration = Duration::from_millis(100);
/// Time limit for `--once`. Each command also has its own shorter deadline.
const ONCE: Duration = Duration::from_secs(15);
const POLLER_ENDED: &str = "the thread that holds the connection has ended";
