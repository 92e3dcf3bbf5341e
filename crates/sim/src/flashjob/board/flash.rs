//! A board's flash: two slots, one of which runs while the other is written.
//!
//! There is one write position, as in the firmware, where it is a global variable. Two updates at once therefore mix
//! their bytes in one slot, and neither passes the check at the end; here that is certain, on a real board it depends on
//! which bytes come when. An image that has passed is kept as what is known of it, so that a fleet of boards does not
//! fill the memory.

use anyhow::{Result, bail};

use crate::flashjob::esp_image::App;

#[derive(Debug)]
enum Slot {
    /// Erased, half written, or written with something that is no image.
    Unfit,
    Writing(Written),
    Holds(App),
}

#[derive(Debug)]
struct Written {
    /// The update that opened it.
    by: usize,
    bytes: Vec<u8>,
    overflowed: bool,
    /// Another update has been at it too.
    mixed: bool,
}

/// The flash of one board.
#[derive(Debug)]
pub(super) struct FlashMemory {
    slots: [Slot; 2],
    running: usize,
    boot_from: usize,
    partition: usize,
    chip: Option<u16>,
}

impl FlashMemory {
    pub(super) fn new(factory: App, partition: usize, chip: Option<u16>) -> Self {
        let slots = [Slot::Holds(factory), Slot::Unfit];
        Self { slots, running: 0, boot_from: 0, partition, chip }
    }

    fn other(&self) -> usize {
        1 - self.running
    }

    /// Erases the slot that does not run and opens it, whatever was in it and whoever was writing.
    pub(super) fn begin(&mut self, by: usize) {
        let written = Written { by, bytes: Vec::new(), overflowed: false, mixed: false };
        self.slots[self.other()] = Slot::Writing(written);
    }

    /// Appends to what is open. The firmware goes on when that fails and finds out at the end, and so do we.
    pub(super) fn write(&mut self, by: usize, chunk: &[u8]) {
        let other = self.other();
        if let Slot::Writing(written) = &mut self.slots[other] {
            written.mixed |= written.by != by;
            if written.bytes.len() + chunk.len() > self.partition {
                written.overflowed = true;
            } else {
                written.bytes.extend_from_slice(chunk);
            }
        }
    }

    /// Closes the slot and checks what is in it. From then on it holds an image, or nothing that can be booted.
    pub(super) fn end(&mut self, by: usize) -> Result<App> {
        let other = self.other();
        let slot = std::mem::replace(&mut self.slots[other], Slot::Unfit);
        let Slot::Writing(written) = slot else {
            // Another update has ended what this one was writing.
            self.slots[other] = slot;
            bail!("no update is open");
        };
        if written.mixed || written.by != by {
            bail!("two updates were written into one slot");
        }
        if written.overflowed {
            bail!("larger than the partition of {} bytes", self.partition);
        }
        let app = App::read(&written.bytes, self.chip)?;
        self.slots[other] = Slot::Holds(app.clone());
        Ok(app)
    }

    /// The next start is from the slot that was written.
    pub(super) fn set_boot(&mut self) {
        self.boot_from = self.other();
    }

    /// Undoes [`set_boot`](Self::set_boot).
    pub(super) fn keep_boot(&mut self) {
        self.boot_from = self.running;
    }

    /// Starts. A slot that cannot be booted is passed over, as the bootloader does. Returns the slot and whether it is
    /// the one that was asked for.
    pub(super) fn boot(&mut self) -> (usize, bool) {
        let wanted = self.boot_from;
        let fit = matches!(self.slots[wanted], Slot::Holds(_));
        if fit {
            self.running = wanted;
        } else {
            self.boot_from = self.running;
        }
        (self.running, fit)
    }

    /// What runs.
    pub(super) fn app(&self) -> Option<&App> {
        match &self.slots[self.running] {
            Slot::Holds(app) => Some(app),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flashjob::esp_image::Firmware;

    fn flash() -> Result<FlashMemory> {
        let factory = App::read(&Firmware::new("0.1.0").build(), None)?;
        Ok(FlashMemory::new(factory, 0x2_0000, None))
    }

    fn version(flash: &FlashMemory) -> Option<&str> {
        flash.app().map(|app| app.version.as_str())
    }

    #[test]
    fn slots_take_turns() -> Result<()> {
        let mut flash = flash()?;
        for (version_now, slot) in [("0.2.0", 1), ("0.3.0", 0)] {
            flash.begin(0);
            flash.write(0, &Firmware::new(version_now).build());
            assert_eq!(flash.end(0)?.version, version_now);
            flash.set_boot();
            assert_ne!(version(&flash), Some(version_now));
            assert_eq!(flash.boot(), (slot, true));
            assert_eq!(version(&flash), Some(version_now));
        }
        Ok(())
    }

    #[test]
    fn two_writers_spoil_the_slot_for_both() -> Result<()> {
        let image = Firmware::new("0.2.0").build();
        // The second wrote all, and the first goes on or ends: each alone is enough.
        for rest in [&image[1000..], &[]] {
            let mut flash = flash()?;
            flash.begin(0);
            flash.write(0, &image[..1000]);
            flash.begin(1);
            flash.write(1, &image);
            if !rest.is_empty() {
                flash.write(0, rest);
            }
            assert!(flash.end(0).is_err());
            assert!(flash.end(1).is_err());
        }
        Ok(())
    }

    #[test]
    fn a_writer_that_stopped_spoils_nothing() -> Result<()> {
        let mut flash = flash()?;
        let image = Firmware::new("0.2.0").build();
        flash.begin(0);
        flash.write(0, &image[..1000]);
        flash.begin(1);
        flash.write(1, &image);
        assert_eq!(flash.end(1)?.version, "0.2.0");
        Ok(())
    }

    #[test]
    fn a_slot_erased_after_it_was_chosen_is_not_booted() -> Result<()> {
        let mut flash = flash()?;
        flash.begin(0);
        flash.write(0, &Firmware::new("0.2.0").build());
        flash.end(0)?;
        flash.set_boot();
        flash.begin(0);
        assert_eq!(flash.boot(), (0, false));
        assert_eq!(version(&flash), Some("0.1.0"));
        assert_eq!(flash.boot(), (0, true));
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused_at_the_end() -> Result<()> {
        let mut flash = flash()?;
        flash.begin(0);
        for chunk in Firmware::new("0.2.0").size(0x2_0010).build().chunks(64) {
            flash.write(0, chunk);
        }
        assert!(flash.end(0).is_err_and(|e| e.to_string().contains("partition")));
        Ok(())
    }
}
