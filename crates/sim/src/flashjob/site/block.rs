//! Loopback addresses that no other site of this machine has.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use anyhow::{Context, Result};

/// Whoever listens on this port of a block's first address has the block.
const CLAIM: u16 = 4432;
/// The second numbers of the blocks: 127.64.0.0/16 and on.
const BLOCKS: std::ops::Range<u8> = 64..250;
/// Addresses that are given out of 256.
const PER_NET: usize = 250;
/// The third number from which on addresses are for Services.
const SERVICES: usize = 128;

/// A claimed block. It is free again when this is dropped.
#[derive(Debug)]
pub struct Block {
    number: u8,
    _claim: TcpListener,
}

impl Block {
    /// Claims the first that is free.
    pub fn claim() -> Result<Self> {
        let claim = |number: u8| {
            let listener = TcpListener::bind((Ipv4Addr::new(127, number, 0, 1), CLAIM)).ok()?;
            Some(Self { number, _claim: listener })
        };
        BLOCKS.into_iter().find_map(claim).context("no block of loopback addresses is free")
    }

    fn address(&self, first: usize, number: usize) -> Ipv4Addr {
        let (net, host) = (first + number / PER_NET, 1 + number % PER_NET);
        Ipv4Addr::new(127, self.number, net as u8, host as u8)
    }

    /// Where a board is.
    pub fn board(&self, number: usize, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(1, number), port)
    }

    /// Addresses for Services.
    pub fn services(&self, count: usize) -> Vec<String> {
        (0..count).map(|number| self.address(SERVICES, number).to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_have_different_addresses() {
        let (one, two) = (Block::claim().unwrap(), Block::claim().unwrap());
        assert_ne!(one.board(0, 80), two.board(0, 80));
        assert_eq!(one.board(250, 80).ip().octets()[2..], [2, 1]);
        assert_ne!(one.services(1)[0], one.board(0, 80).ip().to_string());
    }
}
