//! Brings firmware to one device, and says done when the device itself says so.
