use super::*;

fn board(name: &str, uid: &str, device: &str) -> Instance {
    Instance {
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        device: device.to_owned(),
        application: "thermo".to_owned(),
        ..Instance::default()
    }
}

fn boards() -> Vec<Instance> {
    vec![board("a", "d95c7c2d", "esp32"), board("b", "44606d10", "esp32"), board("c", "77", "")]
}

/// Holds the conversation with these answers; what was chosen and wished for, and all that was said.
fn talk(answers: &str) -> (Option<(Vec<String>, FlashOptions)>, String) {
    let boards = boards();
    let all: Vec<&Instance> = boards.iter().collect();
    let mut said = String::new();
    let mut prompt = Prompt::new(answers.as_bytes(), |text: &str| said.push_str(text));
    let mut wanted = FlashOptions::default();
    let chosen = devices(&mut prompt, &all);
    let told = chosen.and_then(|chosen| {
        options(&mut prompt, &mut wanted)?;
        Some(chosen.iter().map(|i| i.name.clone()).collect())
    });
    (told.map(|chosen| (chosen, wanted)), said)
}

#[test]
fn the_documented_answers_are_taken_as_they_are() {
    let image = "harbor.nbfc.io/nubificus/esp32:x.x.xxxxxxx";
    let (told, said) = talk(&format!("ESP-32\nthermo\n\ny\n{image}\n0.2.0\n\n2\n30\n"));
    let (chosen, options) = told.unwrap();
    assert_eq!(chosen, ["a", "b"]);
    assert_eq!(options.firmware.as_deref(), Some(image));
    assert_eq!(options.version.as_deref(), Some("0.2.0"));
    assert_eq!(
        (options.image, options.batch_size.as_deref(), options.delay),
        (None, Some("2"), Some(30))
    );
    let wanted = "\
Enter device type to filter (or press Enter to skip): \
Enter application type to filter (or press Enter to skip): \
Enter UUID to filter (or press Enter to skip): \n\
Available Akri Instances:
[0] UUID: d95c7c2d, Device Type: esp32, Application Type: thermo (default/a, runs an unknown version)
[1] UUID: 44606d10, Device Type: esp32, Application Type: thermo (default/b, runs an unknown version)

Do you want to select all UUIDs? (y/n): \
Enter the firmware to use: \
Enter the version the firmware reports [x.x.xxxxxxx]: \
Enter the flashjobPodImage to use [the operator's own]: \
Enter the number of UUIDs per batch (default is 5): \
Enter the delay between batches in seconds (default is 60): ";
    assert_eq!(said, wanted);
}

#[test]
fn numbers_choose_and_enter_takes_what_is_in_brackets() {
    let (told, said) = talk("\n\n\nn\n2, 0\nr.example/esp32:0.3.0\n\nr.example/flasher:1\n\n\n");
    let (chosen, options) = told.unwrap();
    assert_eq!(chosen, ["a", "c"]);
    assert!(
        said.contains("[2] UUID: 77, Device Type: Unknown Device Type, Application Type: thermo")
    );
    assert_eq!(options.version.as_deref(), Some("0.3.0"));
    assert_eq!(options.image.as_deref(), Some("r.example/flasher:1"));
    assert_eq!((options.batch_size.as_deref(), options.delay), (Some("5"), Some(60)));
}

#[test]
fn an_answer_that_makes_no_sense_is_asked_for_again() {
    let answers = "esp8266\n\n\nESP32\n\n\nmaybe\nN\n9\nx\n\n1-0\n0-1\n\ntwo words\nr/esp32\n\n1.0\n\n\
                   none\n0\n101%\n1\nsoon\n-1\n0\n";
    let (told, said) = talk(answers);
    let (chosen, options) = told.unwrap();
    assert_eq!(chosen, ["a", "b"]);
    assert_eq!(options.version.as_deref(), Some("1.0"));
    assert_eq!((options.batch_size.as_deref(), options.delay), (Some("1"), Some(0)));
    for message in [
        "No instances found matching the criteria.",
        "Answer y or n.",
        "Write numbers from 0 to 1",
        "No UUIDs selected.",
        "It cannot be empty.",
        "It has blanks in it.",
        "The job is done when devices report this version.",
        "A batch has at least one device.",
    ] {
        assert!(said.contains(message), "{message} is not in:\n{said}");
    }
}

#[test]
fn a_conversation_that_is_broken_off_makes_nothing() {
    let whole = "esp32\nthermo\n\nn\n0\nr.example/esp32:1\n\n\n\n\n";
    for (end, _) in whole.match_indices('\n').take(9) {
        assert!(talk(&whole[..end]).0.is_none(), "{:?}", &whole[..end]);
    }
}

/// What people and cats type. Each seed is one conversation.
#[test]
fn no_input_makes_it_panic_or_go_on_for_ever() {
    let words =
        "y n esp32 0 1 0-1 1-0 , - 99999999999999999999 % 5% \u{1b}[A : r.example/esp32:0.2.0";
    let mut words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    words.extend([b"\xff\xfe".as_slice(), b"\0", b" "]);
    let mut state = 1u64;
    let mut next = move |below: usize| {
        // A generator of Knuth's: any will do here.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let boards = boards();
    let all: Vec<&Instance> = boards.iter().collect();
    let mut ends = 0;
    for _ in 0..5_000 {
        let mut input = Vec::new();
        for _ in 0..next(40) {
            for _ in 0..next(3) {
                input.extend_from_slice(words[next(words.len())]);
            }
            input.push(b'\n');
        }
        let mut prompt = Prompt::new(input.as_slice(), |_: &str| ());
        let mut wanted = FlashOptions::default();
        if let Some(chosen) = devices(&mut prompt, &all) {
            assert!(!chosen.is_empty());
            ends += usize::from(options(&mut prompt, &mut wanted).is_some());
        }
    }
    assert!(ends > 0, "some came to an end");
}
