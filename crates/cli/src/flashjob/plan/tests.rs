use super::*;

fn foreseen() -> Vec<Foreseen> {
    let device = |device: &str, batch, fate, why: &str| Foreseen {
        device: device.to_owned(),
        instance: None,
        batch,
        fate,
        why: why.to_owned(),
    };
    vec![
        device("site-a/one", Some(1), Fate::Flash, ""),
        device("site-a/two", Some(2), Fate::Offline, "no Akri Instance for this device now"),
        device("3f2a", None, Fate::Skip, "it is site-a/one"),
        device("site-a/\u{1b}[2J", Some(2), Fate::Blocked, "site-b/other comes first"),
    ]
}

#[test]
fn a_table_has_a_line_for_each_device() {
    let wanted = "\
DEVICE        BATCH   FATE      WHY
site-a/one    1       flash
site-a/two    2       offline   no Akri Instance for this device now
3f2a          -       skip      it is site-a/one
site-a/ [2J   2       blocked   site-b/other comes first
";
    assert_eq!(print(&foreseen(), Format::Table).unwrap(), wanted);
    let sentence =
        "4 devices in 2 batches: 1 to flash, 1 offline, 1 blocked by another job, 1 skipped.";
    assert_eq!(super::sentence(&foreseen()), sentence);
}

#[test]
fn json_and_yaml_say_the_same() {
    let json = print(&foreseen()[1..3], Format::Json).unwrap();
    let wanted = serde_json::json!({ "devices": [
        {
            "device": "site-a/two",
            "batch": 2,
            "fate": "offline",
            "why": "no Akri Instance for this device now",
        },
        { "device": "3f2a", "fate": "skip", "why": "it is site-a/one" },
    ] });
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, wanted);
    let yaml = print(&foreseen()[1..3], Format::Yaml).unwrap();
    assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), wanted);
}

#[test]
fn what_needs_a_flag_of_the_operator_is_said_in_its_words() {
    let noted = |service: serde_json::Value| {
        let spec = serde_json::json!({ "uuid": ["a"], "firmware": "f", "version": "v", "service": service });
        let job = FlashJob::new("job", serde_json::from_value(spec).unwrap());
        needs_a_flag(&job).unwrap().unwrap_or_default()
    };
    let pool = serde_json::json!({ "annotations": { "metallb.io/address-pool": "boards" } });
    assert_eq!(noted(pool), "");
    let shared = serde_json::json!({ "annotations": { "metallb.io/allow-shared-ip": "x" } });
    assert!(noted(shared).contains("--service-annotations"));
    assert!(noted(serde_json::json!({ "type": "None" })).contains("--allow-host-network"));
}
