//! What stands around FlashJob: Akri, boards and the service that vouches for them, a registry with firmware; and a whole
//! site made of these.

pub mod akri;
pub mod args;
pub mod attestation;
pub mod board;
pub mod boards;
pub mod control;
pub mod demo;
pub mod esp_image;
pub mod field;
pub mod flash_pod;
pub mod installed;
pub mod jobs;
pub mod registry;
pub mod scale;
pub mod server_cert;
pub mod site;

pub use akri::{Agent, Akri};
pub use attestation::Attestation;
pub use board::{Board, BoardOptions, Fault, Times};
pub use esp_image::Firmware;
pub use flash_pod::{Flash, flashes};
pub use jobs::uids;
pub use registry::Registry;
pub use server_cert::{KeyKind, ServerCert};
pub use site::Site;
