//! Which moves need not be tried in every order.

use crate::check::at_work_on_shared;
use crate::moves::Move;
use crate::operator::{Operator, Reconciled};
use crate::state::{SharedBoard, WorldState};

/// Whether what this job does now and what the other does make no difference to each other, so that one order of the two
/// is as good as any: its next moves leave the shared board alone, and nothing the other may do meanwhile changes them.
pub fn is_alone(
    operator: &mut Operator,
    state: &WorldState,
    job: u8,
    all: &[(Move, WorldState)],
) -> bool {
    let mut mine = all.iter().filter(|(m, _)| m.job() == Some(job)).peekable();
    if !mine.clone().any(|(m, _)| m.is_due()) {
        return false;
    }
    let board = operator.board(state);
    let at_work = at_work_on_shared(operator, state);
    let apart = |(_, next): &(Move, WorldState)| {
        operator.board(next) == board && at_work_on_shared(operator, next) == at_work
    };
    if mine.peek().is_none() || !mine.all(apart) {
        return false;
    }
    let (mine, other) = (job as usize, 1 - job as usize);
    let step = operator.reconcile(state, mine);
    let mut may_be = vec![board];
    if may_be[0].holder != Some(job) {
        vary(&mut may_be, |b| b.holder = Some(other as u8));
        vary(&mut may_be, |b| b.holder = None);
    }
    vary(&mut may_be, |b| b.wants[other] = true);
    vary(&mut may_be, |b| b.wants[other] = false);
    if may_be[0].flashed[other].is_none() {
        vary(&mut may_be, |b| b.flashed[other] = Some(state.now));
    }
    may_be.iter().all(|board| {
        let then = operator.reconcile_with(state, mine, board);
        then.holder == board.holder
            && Reconciled { holder: step.holder, ..Reconciled::clone(&then) } == *step
    })
}

fn vary(boards: &mut Vec<SharedBoard>, change: impl Fn(&mut SharedBoard)) {
    let mut more = boards.clone();
    more.iter_mut().for_each(change);
    boards.extend(more);
}
