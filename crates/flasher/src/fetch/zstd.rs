//! Zstandard streams: frame after frame, skippable ones left out, as layers of `zstd:chunked` images have them.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest window that every decoder must support, and that builders of images use. The decoder holds this much
/// in memory.
const WINDOW: u64 = 8 << 20;

/// The header of a frame with a window of 1 KiB.
const SMALLEST_FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];

/// Reads what a Zstandard stream holds.
pub(super) struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        // A decoder that has seen a frame takes memory for the next one's window at once. A new one grows to it by
        // doubling, and holds the old and the new buffer while it copies: half as much again.
        let _ = decoder.reset(&SMALLEST_FRAME[..]);
        Self { source, decoder, in_frame: false }
    }

    /// The digest says that the layer came as it was pushed; this says that we have unpacked it rightly.
    fn check_sum(&self) -> io::Result<()> {
        let (said, found) =
            (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        if said.is_none() || said == found {
            Ok(())
        } else {
            Err(io::Error::other("its content has another checksum than it says"))
        }
    }

    /// Whether there is another frame.
    fn next_frame(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(true)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.in_frame {
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    self.decoder
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(io::Error::other)?;
                }
                match self.decoder.read(buffer)? {
                    0 => {
                        self.in_frame = false;
                        self.check_sum()?;
                    }
                    bytes => return Ok(bytes),
                }
            } else if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn frame(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        Zstd::new(bytes).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn frames_are_joined_and_skippable_ones_left_out() {
        let skippable = [&0x184D_2A50_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
        let stream = [&skippable, &frame(b"one "), &skippable, &frame(b"two")[..], &skippable];
        assert_eq!(read(&stream.concat()).unwrap(), b"one two");
    }

    #[test]
    fn content_with_another_checksum_is_an_error() {
        let mut whole = frame(b"content");
        read(&whole).unwrap();
        *whole.last_mut().unwrap() ^= 1;
        assert!(read(&whole).unwrap_err().to_string().contains("checksum"));
    }

    #[test]
    fn a_stream_that_is_cut_short_is_an_error_and_so_is_a_window_without_end() {
        let whole = frame(&[7; 300_000]);
        read(&whole[..whole.len() - 1]).unwrap_err();
        read(&[&0x184D_2A50_u32.to_le_bytes()[..], &9_u32.to_le_bytes(), b"abc"].concat())
            .unwrap_err();
        // Magic, descriptor, and a window of 2^(10 + 21) bytes.
        let header = [0x28, 0xB5, 0x2F, 0xFD, 0, 21 << 3];
        assert!(read(&header).unwrap_err().to_string().contains("window"), "{:?}", read(&header));
    }
}
