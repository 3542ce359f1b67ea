//! The ledger as a table: what was accepted, and what became of it.

use standpipe::Counts;

use super::describe;
use super::paint::{Ink, Look};

const COLUMNS: [&str; 5] = ["accepted", "delivered", "rejected", "dropped", "in flight"];
const COLUMN: usize = 11;

/// One row of the table, in records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
    pub(crate) rejected: u64,
    /// After they were accepted, by reason.
    pub(crate) dropped: Vec<Loss>,
    pub(crate) in_flight: u64,
    /// Never accepted, by reason.
    pub(crate) turned_away: Vec<Loss>,
}

/// A reason, and how many records it cost.
type Loss = (&'static str, u64);

impl Account {
    /// What the library says of itself.
    pub(crate) fn new(name: &str, counts: &Counts) -> Self {
        let (dropped, turned_away) = (&counts.dropped, &counts.turned_away);
        Self {
            name: name.to_owned(),
            accepted: counts.accepted,
            delivered: counts.delivered,
            rejected: counts.rejected,
            dropped: vec![
                ("refused", dropped.refused),
                ("gave up", dropped.gave_up),
                ("too large", dropped.too_large),
                ("shutdown", dropped.shutdown),
                ("worker panicked", dropped.worker_panicked),
            ],
            in_flight: counts.in_flight,
            turned_away: vec![
                ("queue full", turned_away.queue_full),
                ("too large", turned_away.too_large),
                ("after shutdown", turned_away.after_shutdown),
            ],
        }
    }

    fn lost(&self) -> u64 {
        self.rejected + sum(&self.dropped) + sum(&self.turned_away)
    }

    fn counts(&self) -> [u64; COLUMNS.len()] {
        [self.accepted, self.delivered, self.rejected, sum(&self.dropped), self.in_flight]
    }

    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.rejected += other.rejected;
        self.in_flight += other.in_flight;
        add_losses(&mut self.dropped, &other.dropped);
        add_losses(&mut self.turned_away, &other.turned_away);
    }
}

fn sum(losses: &[Loss]) -> u64 {
    losses.iter().map(|(_, number)| number).sum()
}

fn add_losses(sums: &mut Vec<Loss>, losses: &[Loss]) {
    for &(reason, number) in losses {
        match sums.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += number,
            None => sums.push((reason, number)),
        }
    }
}

/// The sum of all accounts.
pub(crate) fn total(accounts: &[Account]) -> Account {
    let mut total = Account { name: "total".to_owned(), ..Account::default() };
    for account in accounts {
        total.add(account);
    }
    total
}

/// Draws the accounts, their sum, and in one line what it means.
pub(crate) fn draw(accounts: &[Account], look: &Look) -> Vec<String> {
    let total = total(accounts);
    let longest = accounts.iter().map(|account| account.name.chars().count()).max().unwrap_or(0);
    let name_column = longest.clamp(10, look.width.saturating_sub(COLUMN * COLUMNS.len()).max(10));

    let mut lines = vec![heading(name_column, look)];
    lines.extend(accounts.iter().map(|account| row(account, Ink::PLAIN, name_column, look)));
    if accounts.len() > 1 {
        lines.push(row(&total, Ink::PLAIN.bold(), name_column, look));
    }
    for (what, losses) in [("dropped", &total.dropped), ("turned away", &total.turned_away)] {
        for (reason, number) in losses.iter().filter(|(_, number)| *number > 0) {
            lines.push(note(&format!("{what}: {number} {reason}"), look));
        }
    }
    lines.push(verdict(&total, look));
    lines
}

fn heading(name_column: usize, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::FAINT, "ledger");
    for (index, title) in COLUMNS.iter().enumerate() {
        line.put_right(Ink::FAINT, title, name_column + COLUMN * (index + 1));
    }
    line.finish()
}

fn row(account: &Account, ink: Ink, name_column: usize, look: &Look) -> String {
    let mut line = look.line();
    line.put_within(ink, &account.name, name_column);
    for (index, count) in account.counts().into_iter().enumerate() {
        let is_loss = matches!(COLUMNS[index], "rejected" | "dropped");
        let ink = match count {
            0 => Ink::FAINT,
            _ if is_loss => Ink::BAD.bold(),
            _ => ink,
        };
        line.put_right(ink, &count.to_string(), name_column + COLUMN * (index + 1));
    }
    line.finish()
}

fn note(text: &str, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::BAD, text);
    line.finish()
}

fn verdict(total: &Account, look: &Look) -> String {
    let mut line = look.line();
    if total.lost() > 0 {
        let text = format!("{} {} lost", look.glyphs.cross, describe::count(total.lost(), "record"));
        line.put(Ink::BAD.bold(), &text);
    } else if total.in_flight > 0 {
        let text = format!("nothing lost so far, {} in flight", describe::count(total.in_flight, "record"));
        line.put(Ink::WARNING, &text);
    } else {
        let check = look.glyphs.check;
        line.put(Ink::GOOD.bold(), &format!("{check} nothing lost"));
        line.put(Ink::PLAIN, &format!(": {} accepted = {} delivered", total.accepted, total.delivered));
    }
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::paint::plain_look;
    use super::*;

    fn account(name: &str, delivered: u64) -> Account {
        Account { name: name.to_owned(), accepted: delivered, delivered, ..Account::default() }
    }

    #[test]
    fn what_was_delivered_whole_is_summed_up_as_nothing_lost() {
        let expected = [
            "ledger       accepted  delivered   rejected    dropped  in flight",
            "storefront         14         14          0          0          0",
            "payments          120        120          0          0          0",
            "total             134        134          0          0          0",
            "✓ nothing lost: 134 accepted = 134 delivered",
        ];
        assert_eq!(draw(&[account("storefront", 14), account("payments", 120)], &plain_look(100)), expected);
    }

    #[test]
    fn every_loss_is_shown_with_its_reason() {
        let lossy = Account {
            name: "shop".to_owned(),
            accepted: 100,
            delivered: 90,
            rejected: 2,
            dropped: vec![("gave up", 5), ("shutdown", 3), ("too large", 0)],
            in_flight: 0,
            turned_away: vec![("queue full", 7)],
        };
        let expected = [
            "ledger       accepted  delivered   rejected    dropped  in flight",
            "shop              100         90          2          8          0",
            "dropped: 5 gave up",
            "dropped: 3 shutdown",
            "turned away: 7 queue full",
            "✗ 17 records lost",
        ];
        assert_eq!(draw(&[lossy], &plain_look(100)), expected);
    }

    #[test]
    fn what_is_still_under_way_is_not_called_delivered() {
        let busy = Account { accepted: 3, delivered: 2, in_flight: 1, ..account("shop", 0) };
        let lines = draw(&[busy], &plain_look(100));
        assert_eq!(lines.last().map(String::as_str), Some("nothing lost so far, 1 record in flight"));
    }
}
