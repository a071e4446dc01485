//! Which of several agents did one task best.

use std::cmp::Ordering;

/// What is compared of one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Whether its work may land; its check commands were part of that verdict.
    pub is_accepted: bool,
    /// How many lines it changed; `None` where that is not known.
    pub changed_lines: Option<usize>,
    /// What it cost, in US dollars; `None` where that is not known.
    pub cost_usd: Option<f64>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The numbers of the attempts, best first: accepted, with the smaller change, cheaper, faster, begun first. What is not
/// known comes after what is.
pub fn ranking(attempts: &[Attempt]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..attempts.len()).collect();
    order.sort_by(|one, two| compare(&attempts[*one], &attempts[*two]));
    order
}

fn compare(one: &Attempt, two: &Attempt) -> Ordering {
    let lines = |attempt: &Attempt| attempt.changed_lines.unwrap_or(usize::MAX);
    let cost = |attempt: &Attempt| attempt.cost_usd.unwrap_or(f64::INFINITY);
    { two.is_accepted.cmp(&one.is_accepted) }
        .then(lines(one).cmp(&lines(two)))
        .then(cost(one).total_cmp(&cost(two)))
        .then(one.duration_ms.cmp(&two.duration_ms))
}

/// The reason for which the decision about one that did not win is put off.
pub fn lost_to(winner: &str, attempts: usize) -> String {
    format!("lost to {winner}, the best of {attempts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_then_size_then_cost_then_time_decide() {
        let attempt = |is_accepted, lines, cost, duration_ms| Attempt {
            is_accepted,
            changed_lines: Some(lines),
            cost_usd: cost,
            duration_ms,
        };
        let attempts = [
            attempt(false, 1, Some(0.1), 1),
            attempt(true, 9, Some(0.1), 1),
            attempt(true, 5, None, 1),
            attempt(true, 5, Some(0.5), 1),
            attempt(true, 5, Some(0.2), 9),
            attempt(true, 5, Some(0.2), 7),
            attempt(true, 5, Some(0.2), 7),
        ];
        assert_eq!(ranking(&attempts), [5, 6, 4, 3, 2, 1, 0]);
    }
}
