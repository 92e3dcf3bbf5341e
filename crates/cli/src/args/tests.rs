use clap::CommandFactory;

use super::*;

#[test]
fn every_command_has_an_example_and_none_contradicts_itself() {
    Cli::command().debug_assert();
    fn look(command: &clap::Command, path: &str) {
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let path = format!("{path} {}", sub.get_name());
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("kubectl flashjob{path}")), "{path}: {after}");
            look(sub, &path);
        }
    }
    look(&Cli::command(), "");
}

/// Words people and scripts put on a command line, in any order. None may make the parser panic.
#[test]
fn no_command_line_makes_it_panic() {
    let words = "devices flash plan rollout status pause retry logs explain check server-cert create import completion bash \
                 edge workloads render requests approve decline reset remove ca rotate retire bundle --server h:1 --out --forget-key --timeout \
                 -n --namespace -o json --version <0.2.0 -- - --wait --timeout 99999999999999999999h 5m -5 --delay \
                 --batch-size 101% % --uuid ,, --all --pick -l a=b --as \u{1b}[2J ü --max-parallel -f --days 0 --device";
    let words: Vec<&str> = words.split_whitespace().chain([""]).collect();
    let mut state = 1u64;
    // A generator of Knuth's: any will do here.
    let mut next = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut good = 0;
    for _ in 0..20_000 {
        let mut line = vec!["kubectl-flashjob"];
        for _ in 0..=next(5) {
            line.push(words[next(words.len())]);
        }
        good += usize::from(Cli::try_parse_from(line).is_ok());
    }
    assert!(good > 0, "some make sense");
}

#[test]
fn lengths_of_time_and_amounts_are_read() {
    let read = ["90", "90s", "5m", "1h"].map(|text| duration(text).unwrap().as_secs());
    assert_eq!(read, [90, 90, 300, 3600]);
    for text in ["", "s", "-1", "1d", "1.5", "99999999999999999999", "9999999999999999999h"] {
        assert!(duration(text).is_err(), "{text}");
    }
    for text in ["5", "0%", "100%"] {
        assert_eq!(amount(text).as_deref(), Ok(text));
    }
    for text in ["", "%", "101%", "-1", "1.5", "5 %", "99999999999"] {
        assert!(amount(text).is_err(), "{text}");
    }
}
