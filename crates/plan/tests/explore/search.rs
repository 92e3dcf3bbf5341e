//! Visits every state that can be reached, each once, the nearest first, so that the story of a fault is the shortest.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::check;
use crate::moves::{Detail, Move, moves};
use crate::operator::Operator;
use crate::state::WorldState;

/// How large the world was.
pub struct Visited {
    pub states: usize,
    pub moves: usize,
    pub ends: usize,
}

/// Visits everything; a fault is told as the moves that lead to it.
pub fn visit(
    operator: &mut Operator,
    first: WorldState,
    detail: Detail,
) -> Result<Visited, String> {
    let mut known: HashMap<u64, u32> = HashMap::from([(print(&first), 0)]);
    let mut came_by: Vec<(u32, Option<Move>)> = vec![(0, None)];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut ends: Vec<u32> = Vec::new();
    let mut todo = VecDeque::from([(0, first)]);
    while let Some((here, state)) = todo.pop_front() {
        let fault = |what| format!("{what}\n{}", story(&came_by, here));
        check::state(operator, &state).map_err(fault)?;
        let next = moves(operator, &state, detail).map_err(fault)?;
        if !next.iter().any(|(m, _)| m.is_due()) {
            check::end(operator, &state).map_err(fault)?;
            ends.push(here);
        }
        for (by, state) in next {
            let place = u32::try_from(came_by.len()).unwrap();
            let place = *known.entry(print(&state)).or_insert(place);
            edges.push((here, place));
            if place as usize == came_by.len() {
                came_by.push((here, Some(by)));
                todo.push_back((place, state));
            }
        }
    }
    let visited = Visited { states: came_by.len(), moves: edges.len(), ends: ends.len() };
    match stranded(came_by.len(), &edges, ends) {
        None => Ok(visited),
        Some(state) => {
            Err(format!("no way leads from here to the end\n{}", story(&came_by, state)))
        }
    }
}

/// A state from which no end can be reached.
fn stranded(states: usize, edges: &[(u32, u32)], ends: Vec<u32>) -> Option<u32> {
    // The edges by where they lead to.
    let mut first = vec![0_u32; states + 1];
    for (_, to) in edges {
        first[*to as usize + 1] += 1;
    }
    for place in 0..states {
        first[place + 1] += first[place];
    }
    let mut from = vec![0_u32; edges.len()];
    let mut filled = first.clone();
    for (start, to) in edges {
        let place = &mut filled[*to as usize];
        from[*place as usize] = *start;
        *place += 1;
    }
    let mut good = vec![false; states];
    let mut todo = ends;
    while let Some(state) = todo.pop() {
        if !std::mem::replace(&mut good[state as usize], true) {
            let range = first[state as usize] as usize..first[state as usize + 1] as usize;
            todo.extend(from[range].iter().filter(|s| !good[**s as usize]));
        }
    }
    good.iter().position(|good| !good).and_then(|state| u32::try_from(state).ok())
}

fn print(state: &WorldState) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// The moves that lead to a state.
fn story(came_by: &[(u32, Option<Move>)], mut state: u32) -> String {
    let mut lines = Vec::new();
    while let (before, Some(by)) = &came_by[state as usize] {
        lines.push(format!("  {by:?}"));
        state = *before;
    }
    lines.reverse();
    lines.join("\n")
}
