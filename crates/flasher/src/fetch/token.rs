//! What a registry wants to see before it answers: nothing, user and password, or a token from its token service.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use serde::Deserialize;

use super::credentials::Login;
use super::patience::Trouble;
use super::registry::{Registry, passes};

const TOKEN_LIMIT: u64 = 64 << 10;

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// The Authorization header that meets the challenge of a 401.
pub(super) async fn answer(
    registry: &Registry,
    headers: &HeaderMap,
) -> Result<HeaderValue, Trouble> {
    let challenges: Vec<&str> =
        headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let scheme = |wanted: &str| {
        challenges.iter().find_map(|challenge| {
            let (scheme, rest) = challenge.trim().split_once(' ').unwrap_or((challenge, ""));
            scheme.eq_ignore_ascii_case(wanted).then_some(rest)
        })
    };
    if let Some(parameters) = scheme("Bearer") {
        return bearer(registry, parameters).await;
    }
    match &registry.login {
        Some(login) if scheme("Basic").is_some() => Ok(basic(login)?),
        Some(_) => {
            let host = registry.host();
            Err(Trouble::lasting(format!(
                "the registry {host} asks for a kind of login that is not supported"
            )))
        }
        None => Err(refused(registry)),
    }
}

/// What to say when the registry keeps saying no.
pub(super) fn refused(registry: &Registry) -> Trouble {
    let (host, repository) = (registry.host(), &registry.image.repository);
    Trouble::lasting(match &registry.login {
        Some(login) => {
            format!("the registry {host} refuses {repository} to the user {:?}", login.user)
        }
        None => format!(
            "the registry {host} wants credentials for {repository}, and none are given for it"
        ),
    })
}

fn basic(login: &Login) -> Result<HeaderValue, Trouble> {
    let pair = STANDARD.encode(format!("{}:{}", login.user, login.password));
    secret(&format!("Basic {pair}"))
}

fn secret(text: &str) -> Result<HeaderValue, Trouble> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Trouble::lasting("the token of the registry's token service is not one"))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn bearer(registry: &Registry, parameters: &str) -> Result<HeaderValue, Trouble> {
    let host = registry.host();
    let parameter = |name: &str| parameter(parameters, name);
    let realm = parameter("realm").and_then(|realm| Url::parse(&realm).ok());
    let Some(mut url) = realm else {
        return Err(Trouble::lasting(format!("the registry {host} names no token service")));
    };
    let scope = format!("repository:{}:pull", registry.image.repository);
    {
        let mut query = url.query_pairs_mut();
        if let Some(service) = parameter("service") {
            query.append_pair("service", &service);
        }
        query.append_pair("scope", &scope);
    }
    let service = url.host_str().unwrap_or_default().to_owned();
    let mut request = registry.client.get(url);
    if let Some(login) = &registry.login {
        request = request.header(AUTHORIZATION, basic(login)?);
    }
    let response = request.send().await.map_err(|error| Trouble::of(&service, error))?;
    match response.status() {
        status if status.is_success() => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(refused(registry)),
        status if passes(status) => {
            return Err(Trouble::Passing(format!("its token service {service} answered {status}")));
        }
        status => {
            let message = format!("the token service {service} of {host} answered {status}");
            return Err(Trouble::lasting(message));
        }
    }
    let body = registry.body(response, TOKEN_LIMIT).await?;
    let token = serde_json::from_slice::<Token>(&body).ok();
    match token.and_then(|token| token.token.or(token.access_token)) {
        Some(token) => secret(&format!("Bearer {token}")),
        None => {
            Err(Trouble::lasting(format!("the token service {service} of {host} gave no token")))
        }
    }
}

/// One parameter of a challenge: `realm="https://…",service="…"`. Commas may stand inside the quotes.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    while let Some((key, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim_matches([' ', ',']).eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_whatever_the_order_and_the_quotes() {
        let challenge =
            r#"scope="repository:a:pull,push", realm="https://t.io/token?a=b",service=r.io"#;
        assert_eq!(parameter(challenge, "realm").as_deref(), Some("https://t.io/token?a=b"));
        assert_eq!(parameter(challenge, "Service").as_deref(), Some("r.io"));
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("repository:a:pull,push"));
        assert_eq!(parameter(challenge, "error"), None);
        assert_eq!(parameter(r#"realm="open"#, "realm"), None);
    }
}
