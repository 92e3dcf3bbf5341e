//! Firmware images, made and read.

use anyhow::Result;
use flashjob_sim::flashjob::esp_image::{App, Firmware, chip};

#[test]
fn what_is_built_can_be_read() -> Result<()> {
    for size in [0, 325, 1024, 64 * 1024, 1_000_000] {
        for firmware in [Firmware::new("1.2.3"), Firmware::new("1.2.3").without_hash()] {
            let image = firmware.project("fmnist").size(size).build();
            assert_eq!(image[0], 0xe9);
            assert_eq!(image.len() % 16, 0);
            assert!(image.len() >= size && image.len() < size.max(400) + 16, "{}", image.len());
            let app = App::read(&image, chip("esp32s2"))?;
            assert_eq!((app.version.as_str(), app.project.as_str()), ("1.2.3", "fmnist"));
            assert_eq!(app.size, image.len());
        }
    }
    Ok(())
}

/// Where ESP-IDF has them, so that its own tools would find them too.
#[test]
fn fields_are_where_the_format_has_them() {
    let image = Firmware::new("1.2.3").project("fmnist").device("esp32-s3").build();
    assert_eq!(image[1], 2, "segments");
    assert_eq!(image[12..14], [9, 0], "chip");
    assert_eq!(image[23], 1, "hash appended");
    assert_eq!(image[28..32], 256u32.to_le_bytes(), "length of the first segment");
    assert_eq!(image[32..36], [0x32, 0x54, 0xcd, 0xab], "descriptor");
    assert_eq!(&image[48..54], b"1.2.3\0");
    assert_eq!(&image[80..87], b"fmnist\0");
}

#[test]
fn no_byte_before_the_hash_can_change_unnoticed() {
    let image = Firmware::new("1.2.3").size(1024).build();
    for at in 0..image.len() {
        let mut broken = image.clone();
        broken[at] ^= 0x40;
        // Byte 23 says whether there is a hash. Without it, the image is whole by its checksum.
        assert_eq!(App::read(&broken, None).is_err(), at != 23, "byte {at}");
    }
}

#[test]
fn a_checksum_alone_finds_what_a_hash_would() {
    let image = Firmware::new("1.2.3").size(1024).without_hash().build();
    let mut broken = image.clone();
    broken[500] ^= 0x40;
    let error = App::read(&broken, None).unwrap_err();
    assert!(error.to_string().starts_with("checksum"), "{error}");
}

#[test]
fn no_beginning_of_an_image_is_an_image() {
    let image = Firmware::new("1.2.3").size(1024).build();
    for length in 0..image.len() {
        assert!(App::read(&image[..length], None).is_err(), "{length} bytes");
    }
    // In flash, something always follows.
    let longer = [image, vec![0xff; 100]].concat();
    assert!(App::read(&longer, None).is_ok());
}

#[test]
fn images_of_other_chips_are_refused() {
    let image = Firmware::new("1.2.3").device("esp32s3r8").build();
    assert!(App::read(&image, chip("ESP32-S3")).is_ok());
    assert!(App::read(&image, chip("esp32s2r2")).is_err());
    assert!(App::read(&image, chip("esp32")).is_err());
    assert!(App::read(&image, chip("some-board")).is_ok(), "nothing is known of it");
}

#[test]
fn versions_longer_than_their_field_are_cut() -> Result<()> {
    let image = Firmware::new(&"9".repeat(40)).build();
    assert_eq!(App::read(&image, None)?.version, "9".repeat(31));
    Ok(())
}

#[test]
fn two_versions_differ_all_over() {
    let (one, two) = (Firmware::new("1.0.0").build(), Firmware::new("1.0.1").build());
    let same = one.iter().zip(&two).filter(|(a, b)| a == b).count();
    assert!(same < one.len() / 20, "{same} bytes of {} are the same", one.len());
    assert_eq!(one, Firmware::new("1.0.0").build());
}
