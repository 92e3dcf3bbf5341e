//! The little DER a DICE certificate needs, written out: a library would have its own mind about the encoding.

/// Tags that are used here.
pub(super) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const ENUMERATED: u8 = 0x0a;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const PRINTABLE_STRING: u8 = 0x13;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
    /// `[n]` around a value.
    pub(crate) const fn explicit(n: u8) -> u8 {
        0xa0 | n
    }
    /// `[n]` in place of a primitive value's own tag.
    pub(crate) const fn implicit(n: u8) -> u8 {
        0x80 | n
    }
}

/// Tag, length, value.
pub(super) fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = value.len();
    let mut out = vec![tag];
    match length {
        0..128 => out.push(length as u8),
        128..256 => out.extend([0x81, length as u8]),
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(value);
    out
}

/// A sequence of values that are DER already.
pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(tag::SEQUENCE, &parts.concat())
}

/// A number that is not negative, in as few bytes as can be.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len().saturating_sub(1));
    let mut value = bytes[start..].to_vec();
    if value.first().is_none_or(|first| first & 0x80 != 0) {
        value.insert(0, 0);
    }
    tlv(tag::INTEGER, &value)
}

/// An object identifier, given as its encoded bytes.
pub(super) fn oid(bytes: &[u8]) -> Vec<u8> {
    tlv(tag::OID, bytes)
}

/// A bit string of whole bytes.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    tlv(tag::BIT_STRING, &[&[0], bytes].concat())
}

/// An extension of a certificate.
pub(super) fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let flag = if critical { tlv(tag::BOOLEAN, &[0xff]) } else { Vec::new() };
    sequence(&[oid(id), flag, tlv(tag::OCTET_STRING, value)])
}
