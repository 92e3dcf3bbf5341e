//! What devices say of themselves, and what the cluster is told of it.
