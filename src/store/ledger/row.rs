//! The row of an agent: its lines, in the order in which they happened as far as that can be told.
//!
//! The order is that of the stamps, which is that of the bytes, with one exception. A line names the line before it by
//! its digest, and lines that were there although they are dated later ([`Event::ahead`]). An event that names a line has seen
//! it, so a line comes after every line that it names, whatever their stamps say. A line that is dated in the year 9999
//! is therefore the last one only until the next is written. The order depends on the lines alone: two clones with the
//! same lines read the same row, whatever their clocks say.

use crate::domain::{AgentId, Event, Oid, OperationId, Stamp, State, What, life::operation};
use crate::error::Result;
use crate::git::record::notes;
use crate::store::files::{fsx, layout};
use crate::wire::row::event_line;
use chrono::{DateTime, Utc};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::Path;

/// How many lines that are dated later one event names at most. Where there are more, the next events name them.
const NAMED: usize = 16;

/// The lines of a row that are the agent's own events; foreign lines are left out.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Row<'b> {
    lines: Vec<&'b [u8]>,
    /// What the lines say, in the same order.
    pub(in crate::store) events: Vec<Event>,
    /// Those of the lines that this command is about to write, which no file notes yet.
    added: Vec<String>,
}

impl<'b> Row<'b> {
    /// Reads the body of a note.
    pub(in crate::store) fn read(body: &'b [u8], agent: AgentId) -> Row<'b> {
        let mut row = Row::default();
        for line in notes::lines_of(body) {
            if let Some(event) = event_line::decode(line).filter(|event| event.agent == agent) {
                row.lines.push(line);
                row.events.push(event);
            }
        }
        // A foreign writer may have spelled a line in another way, so that its bytes do not sort by its stamp.
        if !row.events.is_sorted_by_key(|event| event.at) {
            let mut pairs: Vec<_> = row.lines.into_iter().zip(row.events).collect();
            pairs.sort_by_key(|(_, event)| event.at);
            (row.lines, row.events) = pairs.into_iter().unzip();
        }
        // Most rows name nothing ahead, and are in order as they are.
        if row.events.iter().any(|event| !event.ahead.is_empty()) {
            let order = row.order();
            let mut pairs: Vec<_> = row.lines.into_iter().zip(row.events).map(Some).collect();
            let ordered = order.iter().filter_map(|index| pairs.get_mut(*index)?.take());
            (row.lines, row.events) = ordered.unzip();
        }
        row
    }

    /// The same beside lines that this command is about to write, some of which may be in it.
    pub(in crate::store) fn beside(self, added: &[String]) -> Row<'b> {
        Row { added: added.to_vec(), ..self }
    }

    /// The lines, and what each of them says.
    pub(in crate::store) fn pairs(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&'b [u8], &Event)> + ExactSizeIterator {
        self.lines.iter().copied().zip(&self.events)
    }

    /// The event that follows now.
    pub(in crate::store) fn next(
        &self,
        now: DateTime<Utc>,
        clone: u16,
        (agent, by): (AgentId, &str),
        operation: &OperationId,
        what: What,
    ) -> Event {
        // Stamps that are ahead are not followed.
        let stamps = self.events.iter().map(|event| event.at);
        let last = stamps.filter(|stamp| !stamp.is_ahead_of(now)).max();
        let at = Stamp::next(now, clone, last);
        Event {
            at,
            agent,
            by: by.to_owned(),
            operation: Some(operation.clone()),
            previous: self.lines.last().map(|line| event_line::digest(line)),
            ahead: self.ahead_of(at),
            what,
        }
    }

    /// The digests of the lines that an event with this stamp has to name because they are not dated before it, the
    /// last ones first. Lines that another one names follow from that one.
    fn ahead_of(&self, stamp: Stamp) -> Vec<String> {
        if self.events.iter().all(|event| event.at < stamp) {
            return Vec::new();
        }
        let named: HashSet<&str> = self.events.iter().flat_map(named).collect();
        let later = self.pairs().rev().filter(|(_, event)| event.at >= stamp);
        let digests = later.map(|(line, _)| event_line::digest(line));
        let unnamed = digests.filter(|digest| !named.contains(digest.as_str()));
        unnamed.take(NAMED).collect()
    }

    /// The row without the events that say one of these states, which are not believed.
    pub(in crate::store) fn without(&self, denied: &[State]) -> Row<'b> {
        self.filtered(|_, event| match event.what {
            What::Merged { .. } => denied.contains(&State::Merged),
            What::Discarded { .. } => denied.contains(&State::Discarded),
            _ => false,
        })
    }

    /// The row without what ends its agent by the word of another clone. That a stamp has the number of this one proves nothing.
    pub(in crate::store) fn ended_by(&self, own: &OwnLines) -> Row<'b> {
        self.filtered(|line, event| event.what.ends() && !own.has(line))
    }

    /// The row without the amendments of its policy that are not believed.
    pub(in crate::store) fn amended_by(&self, is_believed: impl Fn(Oid) -> bool) -> Row<'b> {
        self.filtered(|_, event| match event.what {
            What::Amended { policy, .. } => !is_believed(policy),
            _ => false,
        })
    }

    /// The row without what takes back operations that only this clone could take back, and did not.
    pub(in crate::store) fn undone_by(
        &self,
        is_believed: impl Fn(&OperationId) -> bool,
    ) -> Row<'b> {
        self.filtered(|_, event| match &event.what {
            What::Undone { operation, .. } => !is_believed(operation),
            _ => false,
        })
    }

    /// Whether anything in it could be against what another clone decided: a name, or that an agent goes on which was put off or failed.
    pub(in crate::store) fn may_be_overruled(&self) -> bool {
        let mut events = self.events.iter();
        self.events.iter().any(|event| matches!(event.what, What::Renamed { .. }))
            || events.any(|event| stops(&event.what)) && events.any(|event| moves(&event.what))
    }

    /// Whether an agent in this state may have been done before another clone said that it goes on.
    pub(in crate::store) fn may_have_been_done(&self, state: State) -> bool {
        let is_done = |event: &Event| matches!(event.what, What::Done { .. });
        state.is_unfinished() && self.events.iter().any(is_done)
    }

    /// The row without what another clone says against what this one decided: what an agent that it made is called, and that an agent
    /// goes on which it put off, saw fail, turned down or closed; `with_done` also that one goes on which it made and called done.
    pub(in crate::store) fn decided_by(&self, own: &OwnLines, with_done: bool) -> Row<'b> {
        let is_own: Vec<bool> = self.pairs().map(|(line, _)| self.has_own(own, line)).collect();
        let made_here = self.is_made_by(own);
        // What a clone did last decides: where that stopped the agent, no line of another one after it sets it going.
        let taken_back = operation::taken_back(&self.events);
        let counts = |event: &Event| {
            let operation = event.operation.as_ref();
            (stops(&event.what) || goes_on(&event.what))
                && !operation.is_some_and(|id| taken_back.contains(id))
        };
        let last = self.events.iter().zip(&is_own).rposition(|(event, own)| *own && counts(event));
        let is_done = |what: &What| with_done && made_here && matches!(what, What::Done { .. });
        let is_stop = |event: &Event| stops(&event.what) || is_done(&event.what);
        let stopped = last.filter(|at| self.events.get(*at).is_some_and(is_stop));
        // The clone that made the agent lets it go on after any landing, and objects tell what is new.
        let stopped = stopped.filter(|at| made_here || !self.is_landing(*at));
        let mut own = is_own.into_iter().enumerate();
        self.filtered(|_, event| {
            let Some((at, is_own)) = own.next() else {
                return false;
            };
            !is_own
                && match &event.what {
                    What::Renamed { .. } => made_here,
                    // Another clone may well say that what is done here failed, or is to wait.
                    What::Failed { .. } | What::Deferred { .. } if with_done => false,
                    what => moves(what) && stopped.is_some_and(|stopped| at > stopped),
                }
        })
    }

    /// The row without what only cleared landed work away: a discard of a clone that did not know that the agent had gone on elsewhere
    /// since. `None` where nothing is of that kind, as in nearly every row.
    pub(in crate::store) fn cleared_away(&self) -> Option<Row<'b>> {
        let is_clearing = |(at, event): (usize, &Event)| {
            let previous = event.previous.as_deref()?;
            let is_discard = matches!(event.what, What::Discarded { .. });
            let before = self.lines.get(..at).filter(|_| is_discard)?;
            let known = before.iter().rposition(|line| event_line::digest(line) == previous)?;
            let mut unknown = self.events.get(known + 1..at)?.iter();
            (self.is_landing(known) && unknown.any(|event| moves(&event.what))).then_some(at)
        };
        let is_landed = self.events.iter().any(|event| matches!(event.what, What::Merged { .. }));
        let events = self.events.iter().enumerate().filter(|_| is_landed);
        let clearing: Vec<usize> = events.filter_map(is_clearing).collect();
        let mut index = 0..;
        let is_struck = |_: &[u8], _: &Event| index.next().is_some_and(|at| clearing.contains(&at));
        (!clearing.is_empty()).then(|| self.filtered(is_struck))
    }

    /// Whether an event says that the agent has landed, or that it was cleared away after that and before it went on.
    fn is_landing(&self, at: usize) -> bool {
        let before = self.events.get(..=at).unwrap_or_default().iter().rev();
        let mut decided = before.map(|event| &event.what).filter(|what| what.ends() || moves(what));
        match decided.next() {
            Some(What::Discarded { .. }) => matches!(decided.next(), Some(What::Merged { .. })),
            what => matches!(what, Some(What::Merged { .. })),
        }
    }

    /// The commits by which this clone landed the agent.
    pub(in crate::store) fn landed_by(&self, own: &OwnLines) -> Vec<Oid> {
        let own = self.pairs().filter(|(line, _)| self.has_own(own, line));
        let landed = own.filter_map(|(_, event)| match event.what {
            What::Merged { commit, .. } => Some(commit),
            _ => None,
        });
        landed.collect()
    }

    /// Whether this clone made the agent. A line of another one may be dated before its own.
    pub(in crate::store) fn is_made_by(&self, own: &OwnLines) -> bool {
        let is_spawn = |what: &What| matches!(what, What::Spawning(_) | What::Spawned(_));
        self.pairs().any(|(line, event)| is_spawn(&event.what) && self.has_own(own, line))
    }

    fn has_own(&self, own: &OwnLines, line: &[u8]) -> bool {
        own.has(line) || self.added.iter().any(|added| added.as_bytes() == line)
    }

    fn filtered(&self, mut is_denied: impl FnMut(&[u8], &Event) -> bool) -> Row<'b> {
        let pairs = self.pairs().filter(|(line, event)| !is_denied(line, event));
        let (lines, events) = pairs.map(|(line, event)| (line, event.clone())).unzip();
        Row { lines, events, added: self.added.clone() }
    }

    /// The indexes in an order in which every line comes after those that it names, and otherwise by time, where a line
    /// counts as no later than one that names it.
    #[expect(
        clippy::indexing_slicing,
        reason = "all of these lists are as long as the row, and every index is one of an event of it"
    )]
    fn order(&self) -> Vec<usize> {
        let count = self.events.len();
        let digests: HashMap<String, usize> = self
            .pairs()
            .enumerate()
            .rev()
            .map(|(index, (line, _))| (event_line::digest(line), index))
            .collect();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (index, event) in self.events.iter().enumerate() {
            let names = named(event).filter_map(|digest| digests.get(digest));
            for &other in names.filter(|&&other| other != index) {
                before[index].push(other);
                after[other].push(index);
            }
        }
        let any = sorted(&before, &after, |index| index);
        let mut time: Vec<Stamp> = self.events.iter().map(|event| event.at).collect();
        for &index in any.iter().rev() {
            let followers = after[index].iter().map(|&follower| time[follower]);
            time[index] = followers.fold(time[index], Stamp::min);
        }
        sorted(&before, &after, |index| (time[index], index))
    }
}

/// Whether after an event an agent is put off, failed, turned down or closed.
fn stops(what: &What) -> bool {
    match what {
        What::Deferred { .. } | What::Failed { .. } => true,
        What::Exited(exited) => !exited.is_success(),
        what => what.ends(),
    }
}

/// Whether an event says that an agent goes on, or that it is done.
fn goes_on(what: &What) -> bool {
    let said = matches!(what, What::Done { .. } | What::Started(_) | What::Reopened {});
    said || what.brings_back()
}

/// Whether an event can take an agent out of the state in which it was stopped, alone or with others.
fn moves(what: &What) -> bool {
    let judges = matches!(
        what,
        What::Committed { .. } | What::Verified(_) | What::Unjudged { .. } | What::Exited(_)
    );
    judges || goes_on(what) || matches!(what, What::Failed { .. } | What::Deferred { .. })
}

/// The lines that an event names.
fn named(event: &Event) -> impl Iterator<Item = &str> {
    let ahead = event.ahead.iter().map(String::as_str);
    event.previous.as_deref().into_iter().chain(ahead)
}

/// A topological order in which what may come next comes by its key. Lines cannot name each other in a circle, because
/// each holds the digest of the other; were there one, its lines would come last.
#[expect(
    clippy::indexing_slicing,
    reason = "both lists are equally long, and hold indexes of each other alone"
)]
fn sorted<K: Ord>(
    before: &[Vec<usize>],
    after: &[Vec<usize>],
    key: impl Fn(usize) -> K,
) -> Vec<usize> {
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    let free = (0..waits.len()).filter(|&index| waits[index] == 0);
    let mut next: BinaryHeap<_> = free.map(|index| Reverse((key(index), index))).collect();
    let mut order = Vec::with_capacity(waits.len());
    let mut is_in = vec![false; waits.len()];
    while let Some(Reverse((_, index))) = next.pop() {
        order.push(index);
        is_in[index] = true;
        for &follower in &after[index] {
            waits[follower] -= 1;
            if waits[follower] == 0 {
                next.push(Reverse((key(follower), follower)));
            }
        }
    }
    // What is left names each other in a circle, which no writer of ours makes. No line is dropped
    // for it.
    order.extend((0..is_in.len()).filter(|&index| !is_in[index]));
    order
}

// Which lines this clone wrote: `agents/own-lines`, the digest of each. That a stamp has the number of this clone proves nothing: any user
// who may push the ledger can write any line.

/// The digests of the lines that this clone wrote. What a power loss has cut short is the digest of none.
pub(in crate::store) struct OwnLines(HashSet<String>);

impl OwnLines {
    /// Reads the file.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::store) fn load(common_dir: &Path) -> Result<OwnLines> {
        let text = fsx::load_if_there(&layout::own_lines(common_dir))?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        Ok(OwnLines(text.lines().map(str::to_owned).collect()))
    }

    /// Whether this clone wrote that line.
    pub(in crate::store) fn has(&self, line: &[u8]) -> bool {
        self.0.contains(&event_line::digest(line))
    }

    /// Notes lines that this clone is about to write. The caller holds the ledger's lock.
    ///
    /// # Errors
    /// `repo-read-only`, `disk-full`, `io`.
    pub(in crate::store) fn note(common_dir: &Path, lines: &[String]) -> Result<()> {
        let digests = lines.iter().map(|line| event_line::digest(line.as_bytes()));
        // Each begins with a line feed: what stands before may have been cut short.
        let digests: String = digests.map(|digest| format!("\n{digest}\n")).collect();
        fsx::append(&layout::own_lines(common_dir), digests.as_bytes())
    }
}

/// The digest of a line as a number.
pub(in crate::store) fn digest(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests;
