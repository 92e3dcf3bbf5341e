//! A node and what is around it: a kubelet and a load balancer that are played, and a real node with real containers.

pub mod forward;
pub mod kubelet;
pub mod load_balancer;
pub mod real;

pub use kubelet::{Farewell, Images, Kubelet, KubeletOptions, Program, Script, ScriptEnd, Started};
pub use load_balancer::{AddressPool, LoadBalancer};
