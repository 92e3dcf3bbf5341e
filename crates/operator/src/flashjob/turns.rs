//! Who goes next: namespaces take turns, and within a namespace its jobs do.
//!
//! Namespaces are how people who share a cluster are told apart. So what somebody has waiting, be it one job with
//! thousands of writes or hundreds of jobs with one each, costs the others one turn.

use std::collections::{HashMap, VecDeque};

/// Whose turn it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whose {
    /// The job's namespace.
    pub namespace: String,
    /// The job's uid.
    pub job: String,
}

/// What waits for its turn.
pub struct Turns<T> {
    namespaces: HashMap<String, Jobs<T>>,
    order: VecDeque<String>,
}

struct Jobs<T> {
    jobs: HashMap<String, VecDeque<T>>,
    order: VecDeque<String>,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { namespaces: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Turns<T> {
    /// Puts something at the end of its job's queue.
    pub fn add(&mut self, whose: &Whose, waiting: T) {
        let Whose { namespace, job } = whose;
        let jobs = self.namespaces.entry(namespace.clone()).or_insert_with(|| {
            self.order.push_back(namespace.clone());
            Jobs { jobs: HashMap::new(), order: VecDeque::new() }
        });
        let queue = jobs.jobs.entry(job.clone()).or_insert_with(|| {
            jobs.order.push_back(job.clone());
            VecDeque::new()
        });
        queue.push_back(waiting);
    }

    /// Takes out what is next.
    pub fn next(&mut self) -> Option<T> {
        let namespace = self.order.pop_front()?;
        let jobs = self.namespaces.get_mut(&namespace)?;
        let job = jobs.order.pop_front()?;
        let queue = jobs.jobs.get_mut(&job)?;
        let next = queue.pop_front();
        match queue.is_empty() {
            true => drop(jobs.jobs.remove(&job)),
            false => jobs.order.push_back(job),
        }
        match jobs.jobs.is_empty() {
            true => drop(self.namespaces.remove(&namespace)),
            false => self.order.push_back(namespace),
        }
        next
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(waiting: &[(&str, &str, u32)]) -> Vec<u32> {
        let mut turns = Turns::default();
        for (namespace, job, n) in waiting {
            let whose = Whose { namespace: (*namespace).into(), job: (*job).into() };
            turns.add(&whose, *n);
        }
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn many_jobs_of_one_namespace_cost_another_one_turn() {
        let crowd = [("a", "1", 1), ("a", "2", 2), ("a", "3", 3), ("b", "4", 4), ("b", "4", 5)];
        assert_eq!(order(&crowd), [1, 4, 2, 5, 3]);
    }

    #[test]
    fn within_a_namespace_jobs_take_turns_and_each_job_keeps_its_order() {
        let jobs = [("a", "1", 1), ("a", "1", 2), ("a", "1", 3), ("a", "2", 4)];
        assert_eq!(order(&jobs), [1, 4, 2, 3]);
    }
}
