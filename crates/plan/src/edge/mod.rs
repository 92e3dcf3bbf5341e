//! Edge: Linux devices that register, fetch a configuration and say how they are.

pub mod certificates;
