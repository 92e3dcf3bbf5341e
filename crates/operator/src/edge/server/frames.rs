//! What a client sends over h2, read along with hyper.
//!
//! hyper tells of whole requests and of nothing else. Half of one keeps all others out, and frames that belong to none keep
//! the server at work: it would read them, answer them, and write a line for some of them, as fast as a client can send.

use std::time::Duration;

use super::rate::{Meter, Rate};

/// What every client begins with: the preface.
const PREFACE: usize = 24;
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Requests that are given up.
const RESETS: Rate = Rate::new(Duration::from_millis(100), 100);
/// Frames that are neither a request nor a part of a body. Whoever takes an answer of many MB gives leave for every few KB.
const OTHERS: Rate = Rate::new(Duration::from_millis(1), 10_000);

#[derive(Debug)]
pub struct Frames {
    part: Part,
    /// Bytes of the part that have not come yet.
    left: usize,
    head: [u8; HEAD],
    /// Headers have begun, and their end has not come.
    in_headers: bool,
    resets: Meter,
    others: Meter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Preface,
    Head,
    Payload,
}

/// More frames than anybody needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Flood;

/// What some bytes have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// The preface, or all headers of a request, are through.
    pub ended: bool,
    /// Others are on their way.
    pub half: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            part: Part::Preface,
            left: PREFACE,
            head: [0; HEAD],
            in_headers: false,
            resets: Meter::default(),
            others: Meter::default(),
        }
    }
}

impl Frames {
    /// These bytes have come, at this time.
    pub fn read(&mut self, mut bytes: &[u8], now: Duration) -> Result<Heads, Flood> {
        let mut ended = false;
        while !bytes.is_empty() {
            let (come, rest) = bytes.split_at(bytes.len().min(self.left));
            if self.part == Part::Head {
                let at = HEAD - self.left;
                self.head[at..at + come.len()].copy_from_slice(come);
            }
            self.left -= come.len();
            bytes = rest;
            if self.left == 0 {
                ended |= self.next_part(now)?;
            }
        }
        Ok(Heads { ended, half: self.in_headers || self.part == Part::Preface })
    }

    /// Whether headers, or the preface, have come to their end.
    fn next_part(&mut self, now: Duration) -> Result<bool, Flood> {
        let [a, b, c, kind, flags, ..] = self.head;
        let is_headers = matches!(kind, HEADERS | CONTINUATION);
        if self.part == Part::Head {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let taken = match kind {
                HEADERS => Ok(()),
                DATA if length > 0 => Ok(()),
                RST_STREAM => self.resets.take(RESETS, now),
                _ => self.others.take(OTHERS, now),
            };
            taken.map_err(|_| Flood)?;
            self.in_headers |= is_headers;
            if length > 0 {
                (self.part, self.left) = (Part::Payload, length);
                return Ok(false);
            }
        }
        let ended = self.part == Part::Preface || is_headers && flags & END_HEADERS != 0;
        self.in_headers &= !ended;
        (self.part, self.left) = (Part::Head, HEAD);
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn heads(ended: bool, half: bool) -> Result<Heads, Flood> {
        Ok(Heads { ended, half })
    }

    #[test]
    fn headers_are_half_until_their_end_however_they_are_cut() {
        let said = [
            vec![b'P'; PREFACE],
            frame(4, 0, &[]),
            frame(HEADERS, 0, b"abc"),
            frame(CONTINUATION, END_HEADERS, b"de"),
            frame(DATA, 1, b"{}"),
            frame(HEADERS, END_HEADERS, b""),
        ]
        .concat();
        let mut frames = Frames::default();
        let half: Vec<_> = said.iter().map(|byte| frames.read(&[*byte], NOW)).collect();
        // The preface, the kind of the first HEADERS' length, and all up to the end of CONTINUATION.
        let begin = PREFACE + HEAD;
        for (at, heads) in half.iter().enumerate() {
            let heads = heads.as_ref().unwrap();
            let in_headers = begin + HEAD - 1..begin + HEAD + 3 + HEAD + 1;
            assert_eq!(heads.half, at < PREFACE - 1 || in_headers.contains(&at), "{at}");
        }
        assert_eq!(half.iter().flatten().filter(|heads| heads.ended).count(), 3);
        assert_eq!(Frames::default().read(&said, NOW), heads(true, false));
        assert_eq!(Frames::default().read(&said[..begin + HEAD + 2], NOW), heads(true, true));
    }

    #[test]
    fn requests_may_be_many_and_what_asks_for_nothing_may_not() {
        let floods = |frame: &[u8]| {
            let mut frames = Frames::default();
            frames.read(&[b'P'; PREFACE], NOW).unwrap();
            (0..20_000).position(|_| frames.read(frame, NOW).is_err())
        };
        assert_eq!(floods(&frame(HEADERS, END_HEADERS, b"a")), None);
        assert_eq!(floods(&frame(DATA, 0, b"a")), None);
        assert_eq!(floods(&frame(DATA, 0, b"")), Some(10_000));
        assert_eq!(floods(&frame(6, 0, &[0; 8])), Some(10_000));
        assert_eq!(floods(&frame(RST_STREAM, 0, &[0; 4])), Some(100));
    }
}
