//! A fair queue: namespaces take turns, and within a namespace its keys do.
//!
//! Namespaces are how people who share a cluster are told apart. So what somebody has waiting, be it one object with
//! thousands of writes or hundreds of objects with one each, costs the others one turn.

use std::collections::{HashMap, VecDeque};

/// What takes turns with others: the object of a key, in its namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    pub namespace: String,
    /// The key of an object in it.
    pub key: String,
}

/// What waits for its turn.
pub struct FairQueue<T> {
    namespaces: HashMap<String, Keys<T>>,
    order: VecDeque<String>,
}

struct Keys<T> {
    keys: HashMap<String, VecDeque<T>>,
    order: VecDeque<String>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue { namespaces: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> FairQueue<T> {
    /// Puts something at the end of the queue of its key.
    pub fn add(&mut self, flow: &Flow, waiting: T) {
        let Flow { namespace, key } = flow;
        let keys = self.namespaces.entry(namespace.clone()).or_insert_with(|| {
            self.order.push_back(namespace.clone());
            Keys { keys: HashMap::new(), order: VecDeque::new() }
        });
        let queue = keys.keys.entry(key.clone()).or_insert_with(|| {
            keys.order.push_back(key.clone());
            VecDeque::new()
        });
        queue.push_back(waiting);
    }

    /// Takes out what is next.
    pub fn next(&mut self) -> Option<T> {
        let namespace = self.order.pop_front()?;
        let keys = self.namespaces.get_mut(&namespace)?;
        let key = keys.order.pop_front()?;
        let queue = keys.keys.get_mut(&key)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            keys.keys.remove(&key);
        } else {
            keys.order.push_back(key);
        }
        if keys.keys.is_empty() {
            self.namespaces.remove(&namespace);
        } else {
            self.order.push_back(namespace);
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
        let mut queue = FairQueue::default();
        for (namespace, key, n) in waiting {
            let flow = Flow { namespace: (*namespace).into(), key: (*key).into() };
            queue.add(&flow, *n);
        }
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn many_keys_of_one_namespace_cost_another_one_turn() {
        let crowd = [("a", "1", 1), ("a", "2", 2), ("a", "3", 3), ("b", "4", 4), ("b", "4", 5)];
        assert_eq!(order(&crowd), [1, 4, 2, 5, 3]);
    }

    #[test]
    fn within_a_namespace_keys_take_turns_and_each_keeps_its_order() {
        let keys = [("a", "1", 1), ("a", "1", 2), ("a", "1", 3), ("a", "2", 4)];
        assert_eq!(order(&keys), [1, 4, 2, 3]);
    }
}
