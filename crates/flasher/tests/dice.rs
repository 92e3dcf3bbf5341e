//! DICE certificates of an independent derivation: each verifies under its own root, nothing that differs in a byte does,
//! and openssl is of the same opinion.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

use anyhow::{Result, ensure};
use flashjob_flasher::dice::{DiceCertificate, der_length, roots};
use flashjob_sim::flashjob::server_cert::openssl;

/// A root, and the certificate it vouches for.
struct Vector {
    root: DiceCertificate,
    board: DiceCertificate,
}

fn vectors() -> Vec<Vector> {
    let files = [
        include_str!("../../sim/tests/boards/vectors/001122334455.pem"),
        include_str!("../../sim/tests/boards/vectors/ffffffffffff.pem"),
        include_str!("../../sim/tests/boards/vectors/240ac4000000.pem"),
        include_str!("../../sim/tests/boards/vectors/240ac4000006.pem"),
    ];
    let read = |pem: &str| {
        let mut both = roots(pem).unwrap().into_iter();
        Vector { root: both.next().unwrap(), board: both.next().unwrap() }
    };
    files.map(read).into()
}

fn vouches(root: &DiceCertificate, der: &[u8]) -> Result<(), String> {
    DiceCertificate::from_der(der)?.is_issued_by(root)
}

/// Whether openssl finds it signed by the root. The DICE extension is critical, and unknown to it.
fn openssl_vouches(root: &DiceCertificate, der: &[u8]) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let (ca, file) = (folder.path().join("root.pem"), folder.path().join("board.der"));
    std::fs::write(&ca, root.to_pem())?;
    std::fs::write(&file, der)?;
    let (ca, file) = (ca.to_string_lossy(), file.to_string_lossy());
    match openssl(&["verify", "-ignore_critical", "-CAfile", &ca, &file], "") {
        Ok(_) => Ok(true),
        Err(error) => {
            let text = error.to_string();
            let looked = text.contains("verification failed") || text.contains("Could not read");
            ensure!(looked || text.contains("Unable to load"), "openssl did not look: {text}");
            Ok(false)
        }
    }
}

#[test]
fn each_board_is_vouched_for_by_its_own_root_alone() -> Result<()> {
    let all = vectors();
    for (i, vector) in all.iter().enumerate() {
        assert_eq!(vouches(&vector.root, &vector.root.der), Ok(()), "root {i} signs itself");
        assert_eq!(vector.board.issuer, vector.root.issuer, "the identity is the root's");
        for (j, other) in all.iter().enumerate() {
            let ours = vouches(&other.root, &vector.board.der);
            assert_eq!(ours.is_ok(), i == j, "board {i} under root {j}: {ours:?}");
            assert_eq!(openssl_vouches(&other.root, &vector.board.der)?, i == j, "{i} {j}");
        }
    }
    Ok(())
}

#[test]
fn a_certificate_that_differs_in_one_bit_is_refused() -> Result<()> {
    for (number, vector) in vectors().into_iter().enumerate() {
        let der = &vector.board.der;
        for at in (0..der.len()).filter(|at| number == 0 || at % 16 == number) {
            let mut tampered = der.clone();
            tampered[at] ^= 1 << (at % 8);
            let ours = vouches(&vector.root, &tampered);
            assert!(ours.is_err(), "vector {number}, byte {at}");
            if at % 16 == number {
                assert!(!openssl_vouches(&vector.root, &tampered)?, "openssl, byte {at}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_key_that_only_bears_the_roots_name_vouches_for_nobody() {
    let [one, two, ..] = &vectors()[..] else { panic!("no vectors") };
    let names = [one, two].map(|vector| vector.root.issuer.clone().into_bytes());
    let mut forged = two.root.der.clone();
    while let Some(at) = forged.windows(40).position(|part| part == names[1]) {
        forged[at..at + 40].copy_from_slice(&names[0]);
    }
    let forged = DiceCertificate::from_der(&forged).unwrap();
    assert_eq!(forged.issuer, one.root.issuer);
    let why = one.board.is_issued_by(&forged).unwrap_err();
    assert!(why.contains("does not verify"), "{why}");
}

#[test]
fn only_strict_der_is_read() {
    let Vector { root, board } = vectors().remove(0);
    let der = board.der;
    for end in 0..der.len() {
        assert!(DiceCertificate::from_der(&der[..end]).is_err(), "cut at {end}");
    }
    let longer = [&der[..], &[0]].concat();
    assert!(DiceCertificate::from_der(&longer).is_err(), "a byte too many");
    let wide = [&[0x30, 0x83, 0x00], &der[2..]].concat();
    assert!(DiceCertificate::from_der(&wide).is_err() && der_length(&wide).is_err());
    // In BER an indefinite length would do.
    let indefinite = [&[0x30, 0x80], &der[4..], &[0, 0]].concat();
    assert!(DiceCertificate::from_der(&indefinite).is_err());
    assert!(vouches(&root, &der).is_ok());
}

/// The signature is over the bytes that came, not over what they mean: a flag that is FALSE by default is left out in DER,
/// and whoever writes it out has changed the certificate.
#[test]
fn what_means_the_same_and_is_written_differently_is_refused() -> Result<()> {
    for Vector { root, board } in vectors() {
        let mut der = board.der;
        let id = [0x06, 0x03, 0x55, 0x1d, 0x23]; // the first of the extensions
        let at = der.windows(id.len()).position(|part| part == id).unwrap();
        der.splice(at + id.len()..at + id.len(), [0x01, 0x01, 0x00]);
        der[at - 1] += 3;
        // Around it: the certificate, what is signed, and twice the extensions.
        for length in [2, 6, at - 8, at - 4] {
            let longer = u16::from_be_bytes([der[length], der[length + 1]]) + 3;
            der[length..length + 2].copy_from_slice(&longer.to_be_bytes());
        }
        assert!(vouches(&root, &der).is_err());
        assert!(!openssl_vouches(&root, &der)?);
    }
    Ok(())
}

#[test]
fn a_certificate_is_judged_as_it_came() {
    for Vector { root, board } in vectors() {
        for certificate in [root, board] {
            let again = roots(&certificate.to_pem()).unwrap().remove(0);
            assert_eq!(again.der, certificate.der);
            assert_eq!(der_length(&certificate.der), Ok(Some(certificate.der.len())));
            for begun in 0..4 {
                assert_eq!(der_length(&certificate.der[..begun]), Ok(None), "{begun} bytes");
            }
        }
    }
}
