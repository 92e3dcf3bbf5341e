//! What one job at a time may have.

use crate::flashjob::endpoint::{BoardKey, Endpoint};

/// What one job at a time may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lock<'a> {
    Board(BoardKey<'a>),
    /// Node port 4433, which is one for the whole cluster.
    NodePort,
}

impl<'a> Lock<'a> {
    /// That of the board at this address.
    pub fn board(endpoint: &'a Endpoint) -> Lock<'a> {
        Lock::Board(endpoint.board())
    }

    /// The same, to be kept.
    pub fn into_owned(self) -> Lock<'static> {
        match self {
            Lock::Board(board) => Lock::Board(board.into_owned()),
            Lock::NodePort => Lock::NodePort,
        }
    }
}
