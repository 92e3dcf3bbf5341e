//! A configuration as people may see it.

use std::collections::BTreeMap;

use flashjob_api::edge::wire::DeviceConfigurationMessage;

const MASK: &str = "***";

/// The same without passwords: what Secrets hold, logins of registries, and the keys of the bucket. Which keys a Secret has may
/// be seen.
pub fn masked(message: &DeviceConfigurationMessage) -> DeviceConfigurationMessage {
    let mut message = message.clone();
    let mask = |secret: &mut String| {
        if !secret.is_empty() {
            *secret = MASK.to_owned();
        }
    };
    for secret in &mut message.secrets {
        secret.data =
            match serde_json::from_str::<BTreeMap<String, serde_json::Value>>(&secret.data) {
                Ok(data) => {
                    let keys: BTreeMap<_, _> = data.keys().map(|key| (key, MASK)).collect();
                    serde_json::to_string(&keys).unwrap_or_else(|_| MASK.to_owned())
                }
                Err(_) => MASK.to_owned(),
            };
    }
    for registries in message.workloads.iter_mut().filter_map(|of| of.image_registries.as_mut()) {
        mask(&mut registries.auth_file);
    }
    let storage = message.configuration.as_mut().and_then(|of| of.storage.as_mut());
    if let Some(s3) = storage.and_then(|storage| storage.s3.as_mut()) {
        mask(&mut s3.aws_access_key_id);
        mask(&mut s3.aws_secret_access_key);
    }
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_are_masked_and_nothing_else_is() {
        let message = |password: &str, login: &str, key: &str, data: &str| {
            json!({
                "device_id": "edge1", "version": "1",
                "configuration": {
                    "mounts": [],
                    "storage": { "s3": {
                        "bucket_host": "h", "aws_access_key_id": key, "aws_secret_access_key": key,
                        "aws_ca_bundle": "Q0E="
                    } }
                },
                "workloads": [
                    { "name": "a", "specification": "x", "imageRegistries": { "authFile": login } },
                    { "name": "b" }
                ],
                "secrets": [{ "name": "s", "data": password }, { "name": "odd", "data": data }]
            })
        };
        let said =
            message("{\"a\":\"aHVudGVyMg==\",\"b\":\"\"}", "{\"auths\":{}}", "a2V5", "no json");
        let read: DeviceConfigurationMessage = serde_json::from_value(said).unwrap();
        let shown = serde_json::to_value(masked(&read)).unwrap();
        assert_eq!(shown, message("{\"a\":\"***\",\"b\":\"***\"}", "***", "***", "***"));
    }
}
