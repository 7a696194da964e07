//! `show peers` (management manual, 9.3): the peers that share stick-tables, with the state of each session.
//!
//! Words and order are HAProxy's, which lists the last `peer` lines first. Numbers replace its pointers. Internal values are mapped
//! to the closest ones: `st0` is 7 after the handshake and 6 before, `flags` are the bits of [`flags`].

use std::fmt::Write as _;
use std::sync::Arc;

use weir_peers::{LearnState, LinkState, LinkStatus, Peer, PeersSection, SessionView, TableProgress};

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::date;
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::CommandTarget;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show peers",
    syntax: "show peers [dict|-] [section]",
    level: Level::User,
    flags: WORKER,
    help: "show the peers and their traffic (dict: and the names that they know by number)",
    run: Some(show),
}];

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let with_names = arguments.word(0) == "dict";
    let is_marked = with_names || arguments.word(0) == "-";
    let wanted = arguments.word(usize::from(is_marked));
    let sections = context.target.peers();
    let chosen = |section: &&Arc<PeersSection>| wanted.is_empty() || *section.name == *wanted;
    let sections: Vec<_> = sections.iter().rev().filter(chosen).cloned().collect();
    if sections.is_empty() && !wanted.is_empty() {
        return CommandOutcome::error("No such peers\n");
    }
    CommandOutcome::Stream(Box::new(ListPeers { sections, section: 0, line: 0, with_names }))
}

/// Lists the peers of some sections, one peer at a time.
struct ListPeers {
    sections: Vec<Arc<PeersSection>>,
    /// The index of the current section.
    section: usize,
    /// 0 for the section itself, then the number of the peer.
    line: usize,
    with_names: bool,
}

impl AnswerStream for ListPeers {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        let now = target.table_clock_ms();
        while out.len() < enough {
            let Some(section) = self.sections.get(self.section) else { return AnswerStep::Done };
            let mut text = String::new();
            match self.line.checked_sub(1) {
                None => {
                    let date = date(target, target.wall_time());
                    section_line(section, now, target.peers(), &date[..date.len() - 4], &mut text);
                }
                Some(number) => match listed(section, number) {
                    Some(PeerChoice::Peer(position, peer)) => {
                        let view = PeerView { section, position, peer, now, with_names: self.with_names };
                        view.write(&mut text);
                    }
                    Some(PeerChoice::Local) => local_lines(section, self.with_names, &mut text),
                    None => {
                        (self.section, self.line) = (self.section + 1, 0);
                        if self.section < self.sections.len() {
                            out.push(b'\n');
                        }
                        continue;
                    }
                },
            }
            self.line += 1;
            out.extend_from_slice(text.as_bytes());
        }
        AnswerStep::More
    }
}

enum PeerChoice<'s> {
    Peer(usize, &'s Peer),
    Local,
}

/// The peer listed after `after` others. The last `peer` line comes first. `None` at the end.
fn listed(section: &PeersSection, after: usize) -> Option<PeerChoice<'_>> {
    let place = section.peers.len().checked_sub(after)?;
    let position = match place.cmp(&section.local_position) {
        std::cmp::Ordering::Equal => return Some(PeerChoice::Local),
        std::cmp::Ordering::Less => place,
        std::cmp::Ordering::Greater => place - 1,
    };
    section.peers.get(position).map(|peer| PeerChoice::Peer(position, peer))
}

fn section_line(section: &PeersSection, now: u64, all: &[Arc<PeersSection>], date: &str, text: &mut String) {
    let number = all.iter().position(|other| other.name == section.name).map_or(0, |place| place + 1);
    let resync = section.resync_until().map(|until| until.as_ms());
    let flags = u32::from(resync.is_none()) | u32::from(section.is_stopping()) << 1;
    let turns: u64 = section.peers.iter().map(|peer| peer.link().turns).sum();
    let _ = writeln!(
        text,
        "{number:#x}: [{date}] id={} disabled=0 flags={flags:#x} resync_timeout={} task_calls={turns}",
        section.name,
        resync.map_or("<PAST>".to_owned(), |until| left(Some(until), now)),
    );
}

/// Writes the lines of this instance, which does not have a session.
fn local_lines(section: &PeersSection, with_names: bool, text: &mut String) {
    let address = section.own_link.as_ref().map_or("-".to_owned(), |link| link.address.to_string());
    let _ = writeln!(
        text,
        "  {:#x}: id={}(local,inactive) addr={address} app_state=STOPPED learn_state=NOTASSIGNED last_status=NONE \
         last_hdshk=<NEVER>\n        reconnect=<NEVER> heartbeat=<NEVER> confirm=0 tx_hbt=0 rx_hbt=0 no_hbt=0 \
         new_conn=0 proto_err=0 coll=0\n        flags=0x0",
        section.local_position + 1,
        section.local,
    );
    tables(section, None, with_names, text);
}

/// The current state of a peer.
struct PeerView<'s> {
    section: &'s PeersSection,
    position: usize,
    peer: &'s Peer,
    now: u64,
    with_names: bool,
}

impl PeerView<'_> {
    fn write(&self, text: &mut String) {
        let link = self.peer.link();
        let session = self.peer.session_view(self.with_names);
        let is_active =
            matches!(link.state, LinkState::Connecting | LinkState::Greeting | LinkState::Established);
        let number = self.position + 1 + usize::from(self.position >= self.section.local_position);
        let counted = session.as_ref();
        let reconnect =
            link.reconnect_at.filter(|_| link.state != LinkState::Established).map(|at| at.as_ms());
        let beats = |of: fn(&SessionView) -> u64| counted.map_or(0, of);
        let _ = writeln!(
            text,
            "  {number:#x}: id={}(remote,{}) addr={} app_state={} learn_state={} last_status={} last_hdshk={}\n        \
             reconnect={} heartbeat={} confirm={} tx_hbt={} rx_hbt={} no_hbt={} new_conn={} proto_err={} coll={}",
            self.peer.name,
            if is_active { "active" } else { "inactive" },
            self.peer.link.address,
            if link.state == LinkState::Established { "RUNNING" } else { "STOPPED" },
            self.learn_state(),
            status(link.state),
            link.greeted_at.map_or("<NEVER>".to_owned(), |at| duration(self.now.saturating_sub(at.as_ms()))),
            left(reconnect, self.now),
            left(link.heartbeat_at.map(|at| at.as_ms()), self.now),
            beats(|session| session.unconfirmed),
            beats(|session| session.beats_sent),
            beats(|session| session.beats_received),
            link.silences,
            link.attempts,
            link.protocol_errors,
            link.collisions,
        );
        self.connection(&link, number, text);
        if let Some(session) = &session {
            for (word, table) in
                [("remote_table", session.remote_table), ("last_local_table", session.local_table)]
            {
                let Some(table) = table else { continue };
                let Some((shared, progress)) = self.section.tables.get(table).zip(session.tables.get(table))
                else {
                    continue;
                };
                let local = table + 1;
                let name = &shared.table.declaration().name;
                let _ = writeln!(
                    text,
                    "        {word}:{local:#x} id={name} local_id={local} remote_id={}",
                    progress.remote_id
                );
            }
        }
        tables(self.section, session.as_ref(), self.with_names, text);
    }

    fn connection(&self, link: &LinkStatus, number: usize, text: &mut String) {
        let is_connected = link.state == LinkState::Established;
        let _ =
            write!(text, "        flags={:#x}", flags(link.state, self.section.learn_state(self.position)));
        let state = match link.state {
            LinkState::Connecting => "CON",
            LinkState::Greeting | LinkState::Established => "EST",
            LinkState::None | LinkState::Unreachable | LinkState::Refused(_) | LinkState::Lost => {
                text.push('\n');
                return;
            }
        };
        let (stage, turns) = (if is_connected { 7 } else { 6 }, link.turns);
        let _ = writeln!(text, " appctx:{number:#x} st0={stage} st1=0 task_calls={turns} state={state}");
    }

    fn learn_state(&self) -> &'static str {
        match self.section.learn_state(self.position) {
            LearnState::NotAssigned => "NOTASSIGNED",
            LearnState::Assigned => "ASSIGNED",
            LearnState::Processing => "PROCESSING",
        }
    }
}

/// The sum of 1, if a session is established, and 2, if a full resync was requested from this peer.
fn flags(state: LinkState, learning: LearnState) -> u32 {
    u32::from(state == LinkState::Established) | u32::from(learning != LearnState::NotAssigned) << 1
}

fn status(state: LinkState) -> String {
    match state {
        LinkState::None => "NONE".to_owned(),
        LinkState::Connecting | LinkState::Unreachable => "CONN".to_owned(),
        LinkState::Greeting => "HSHK".to_owned(),
        LinkState::Refused(code) => code.to_string(),
        LinkState::Established | LinkState::Lost => "ESTA".to_owned(),
    }
}

/// Writes the tables of a section, with the state of one peer.
fn tables(section: &PeersSection, session: Option<&SessionView>, with_names: bool, text: &mut String) {
    if section.tables.is_empty() {
        return;
    }
    text.push_str("        shared tables:\n");
    for (position, shared) in section.tables.iter().enumerate().rev() {
        let local = position + 1;
        let TableProgress { remote_id, remote_data, pushed, acknowledged, learned } =
            session.and_then(|session| session.tables.get(position)).copied().unwrap_or_default();
        let (name, used) = (&shared.table.declaration().name, shared.table.used());
        let _ = writeln!(
            text,
            "          {local:#x} local_id={local} remote_id={remote_id} flags=0x0 remote_data={remote_data:#x}\n              \
             last_acked={acknowledged} last_pushed={pushed} last_get={learned} teaching_origin=0 update={pushed}\n              \
             table:{local:#x} id={name} update={} localupdate={pushed} commitupdate={acknowledged} refcnt={} used={used}",
            pushed.wrapping_add(learned),
            section.peers.len(),
        );
        if with_names {
            let empty = Vec::new();
            let (sent, known) =
                session.map_or((&empty, &empty), |session| (&session.sent_names, &session.learned_names));
            names("TX", sent, text);
            names("RX", known, text);
        } else {
            text.push_str("        Dictionary cache not dumped (use \"show peers dict\")\n");
        }
    }
}

/// Writes dictionary entries, four per line.
fn names(direction: &str, names: &[(u64, String)], text: &mut String) {
    let _ = write!(text, "        {direction} dictionary cache:");
    for (place, (number, name)) in names.iter().enumerate() {
        let _ = write!(text, "{}{number:>5} -> {name}", if place % 4 == 0 { "\n        " } else { "" });
    }
    text.push('\n');
}

/// The remaining time, as text.
fn left(until: Option<u64>, now: u64) -> String {
    match until {
        None => "<NEVER>".to_owned(),
        Some(until) if until <= now => "<PAST>".to_owned(),
        Some(until) => duration(until - now),
    }
}

/// A duration in HAProxy's format: the two largest units.
fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}
