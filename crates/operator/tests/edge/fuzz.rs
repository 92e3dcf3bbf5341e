//! Whatever a device may write into a message, with certificates that are taken: an answer, a reason for each refusal, and no
//! panic. (Methods, paths and headers are beside the server, in `src/edge/server/tests`.)

use anyhow::Result;
use flashjob_pki::{PrivateKey, csr};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Call, Identity, Manner, Operation};
use flashjob_sim::{PATIENCE, SeededRng, eventually};
use serde_json::{Value, json};

const SEED: u64 = 20_261_118;
const MESSAGES: usize = 1_000;

/// Messages as agents write them.
fn good(id: &str, namespace: &str) -> Result<Vec<Value>> {
    let request = csr::create(&PrivateKey::generate()?, id)?;
    let hardware = json!({
        "hostname": id, "boot": { "current_boot_mode": "uefi" }, "memory": { "physical_bytes": 68_719_476_736_u64 },
        "cpu": { "architecture": "x86_64", "count": 8, "flags": ["fpu"], "frequency": 3400.1, "model_name": "A (R)" },
        "disks": [{ "bootable": true, "size_bytes": 1, "io_perf": { "sync_duration": 1 }, "smart": "{}" }],
        "gpus": null, "host_devices": [{ "path": "/dev/null", "owner": 0, "group": 4_294_967_295_u32 }],
        "interfaces": [{ "ipv4_addresses": ["10.0.0.2/24"], "mtu": 1500, "speed_mbps": -1, "has_carrier": true }],
        "system_vendor": { "manufacturer": "LENOVO", "serial_number": "PC0M", "virtual": true },
        "mounts": [{ "device": "/dev/sda", "directory": "/", "type": "ext4", "options": "rw" }],
    });
    let message = |directive: &str, content: Value| {
        json!({
            "type": "data", "message_id": "4acd7f23", "response_to": "", "version": 1, "directive": directive,
            "sent": "2022-03-20T14:45:25.271Z", "metadata": null, "content": content,
        })
    };
    let features = json!({ "modelName": "m", "hardware": hardware });
    Ok(vec![
        message("enrolment", json!({ "features": features, "target_namespace": namespace })),
        message("registration", json!({ "certificate_request": request, "hardware": hardware })),
        message(
            "heartbeat",
            json!({
                "status": "up", "version": "54429", "hardware": hardware, "playbook-executions": null,
                "workloads": [{ "name": "nginx", "status": "Running", "last_data_upload": "0001-01-01T00:00:00.000Z" }],
                "upgrade": { "current_commit_ID": "unknown" },
                "events": [{ "reason": "Failed", "message": "m", "type": "warn" }],
            }),
        ),
    ])
}

/// Another value somewhere in it.
fn spoil(value: &mut Value, dice: &mut SeededRng) {
    let inside = dice.below(4) > 0;
    match value {
        Value::Object(fields) if inside && !fields.is_empty() => {
            let key = fields.keys().nth(dice.below(fields.len())).cloned().unwrap_or_default();
            match dice.below(8) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert("\u{1b}[31m\r\nx".repeat(20), json!(1))),
                _ => spoil(&mut fields[&key], dice),
            }
        }
        Value::Array(items) if inside && !items.is_empty() => {
            let place = dice.below(items.len());
            spoil(&mut items[place], dice);
        }
        other => *other = anything(dice),
    }
}

fn anything(dice: &mut SeededRng) -> Value {
    let deep = |depth: usize| (0..depth).fold(json!([]), |inner, _| json!([inner]));
    match dice.below(14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(i64::MIN),
        3 => json!(u64::MAX),
        4 => json!(-1.5e300),
        5 => json!(""),
        6 => json!("\u{0}\u{1b}[2J\r\n\u{202e}"),
        7 => json!("x".repeat(100_000)),
        8 => json!([]),
        9 => json!({}),
        10 => deep(100),
        11 => json!("9999-99-99T99:99:99Z"),
        12 => json!(vec![json!({ "a": null }); 1000]),
        _ => json!("register"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_too_strange() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let known = site.registered("known", Manner::Ours).await?;
    let mut dice = SeededRng::new(SEED);
    let mut answers = std::collections::BTreeMap::<u16, usize>::new();
    for number in 0..MESSAGES {
        let id = format!("fuzz-{number}");
        let mut messages = good(&id, &site.namespace)?;
        let mut message = messages.swap_remove(dice.below(messages.len()));
        for _ in 0..=dice.below(3) {
            // What the envelope has to be is soon told; most of what is read is inside.
            let whole = dice.below(10) == 0 || !message.is_object();
            spoil(if whole { &mut message } else { &mut message["content"] }, &mut dice);
        }
        let mut body = message.to_string().into_bytes();
        if dice.below(5) == 0 {
            (0..=dice.below(4)).for_each(|_| {
                let place = dice.below(body.len());
                body[place] = dice.next() as u8;
            });
        }
        // Who has a certificate of its own may not ask as often as this.
        let (id, identity) = match number % 50 {
            0 => ("known", Identity::Own),
            _ => (id.as_str(), Identity::Registration),
        };
        let call = Call::post(format!("/data/{id}/out"), body.clone());
        let told = known.with(identity).send(Operation::Heartbeat, call).await?;
        let said = String::from_utf8_lossy(&body);
        let reason = told.reason().unwrap_or_default();
        let refused = told.code() >= 400;
        assert!(
            !refused || !reason.is_empty(),
            "{number}: {} {}",
            told.code(),
            &said[..said.len().min(500)]
        );
        assert!(reason.len() < 700 && reason.is_ascii(), "{number}: {reason}");
        // The cluster may be busy; anything else is a mistake of ours.
        assert!(told.code() < 500 || told.code() == 503, "{number}: {} {reason}", told.code());
        *answers.entry(told.code()).or_default() += 1;
    }
    println!("{answers:?}");
    assert!(
        answers[&200] + answers[&208] > MESSAGES / 50,
        "not all of it is nonsense: {answers:?}"
    );
    assert!(answers[&400] > 0 && answers[&422] > 0, "{answers:?}");
    assert_eq!(known.heartbeat().await?.code(), 200);
    let log = operator.log();
    assert!(!log.contains("panic"), "{log}");
    assert!(!log.bytes().any(|byte| byte == 0x1b), "nothing from outside is in the log as it came");
    assert!(log.lines().all(|line| line.len() < 2_000));
    Ok(())
}

/// The same with heartbeats alone, of devices that may send them: all that is read of them gets as far as the status.
#[tokio::test(flavor = "multi_thread")]
async fn no_heartbeat_is_too_strange() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let mut devices = Vec::new();
    for number in 0..10 {
        devices.push(site.registered(&format!("fuzz-{number}"), Manner::Ours).await?);
    }
    let mut dice = SeededRng::new(SEED);
    let mut answers = std::collections::BTreeMap::<u16, usize>::new();
    for number in 0..MESSAGES {
        let device = &devices[number % devices.len()];
        let mut message = good(device.id(), &site.namespace)?.swap_remove(2);
        let content = &mut message["content"];
        content["agent"] = json!({ "name": "flashjob-agent", "version": "1" });
        content["time"] = json!("2022-03-20T14:45:25.271Z");
        content["workloads"][0]["exit_code"] = json!(dice.below(300));
        content["workloads"][0]["message"] = json!("no such image");
        content["workloads"][0]["restarts"] = json!(dice.next() >> 1);
        (0..dice.below(4)).for_each(|_| spoil(content, &mut dice));
        let call = Call::post(format!("/data/{}/out", device.id()), message.to_string());
        let told = device.with(Identity::Own).send(Operation::Heartbeat, call).await?;
        let reason = told.reason().unwrap_or_default();
        assert!(told.code() < 500 || told.code() == 503, "{number}: {} {reason}", told.code());
        assert!(told.code() < 400 || !reason.is_empty(), "{number}: {message}");
        *answers.entry(told.code()).or_default() += 1;
    }
    println!("{answers:?}");
    assert!(answers[&200] > MESSAGES / 4 && answers[&400] > MESSAGES / 50, "{answers:?}");
    for device in &devices {
        device.fetch_configuration().await?;
        assert_eq!(device.heartbeat().await?.code(), 200);
        let what = format!("the status of {} to be what it has said last", device.id());
        eventually(&what, PATIENCE, async || {
            let found = json!(site.devices().get(device.id()).await?.status);
            let version = device.ledger().configuration().map(|known| known.version.clone());
            let is_said = found["phase"] == "up"
                && found["upgradeInformation"] == json!({ "currentCommitID": "unknown" })
                && found["lastSyncedResourceVersion"] == json!(version);
            Ok(is_said.then_some(()))
        })
        .await?;
    }
    let log = operator.log();
    assert!(!log.contains("panic"), "{log}");
    assert!(!log.bytes().any(|byte| byte == 0x1b), "nothing from outside is in the log as it came");
    assert!(
        !log.contains("could not be written"),
        "what is written is what the cluster takes: {log}"
    );
    Ok(())
}
