//! The way to the cluster: kubeconfig, context, credentials and namespace, as kubectl takes them.

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::args::Connection;

/// A cluster that was reached for, and the namespace of jobs in it.
pub struct Connected {
    pub client: Client,
    pub namespace: String,
}

impl Connection {
    /// Reads the kubeconfig and makes a client. Nothing is sent yet.
    pub async fn open(&self) -> Result<Connected> {
        // kube leaves the choice to the process when several are compiled in; here there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = self.config().await?;
        if let Some(user) = &self.as_user {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !self.as_group.is_empty() {
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("cannot use this kubeconfig")?;
        Ok(Connected { client, namespace })
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let what = "cannot tell which cluster to talk to; see `kubectl config view`";
        if let Some(path) = &self.kubeconfig {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            return Config::from_custom_kubeconfig(file, &options).await.context(what);
        }
        let chosen = self.context.is_some() || self.cluster.is_some() || self.user.is_some();
        match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok(config),
            // In a Pod there is no kubeconfig, and none is needed.
            Err(error) if !chosen => Config::incluster().map_err(|_| error).context(what),
            Err(error) => Err(error).context(what),
        }
    }
}

/// The server's own message, or the network's.
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(cause) => innermost(cause.as_ref()),
        other => innermost(other),
    }
}

/// The cause says what happened; what wraps it says only that something did.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// What sentences about a system send people to.
pub struct System {
    /// The roles that are shipped with it.
    pub roles: &'static str,
    /// The command that looks whether everything is there.
    pub check: &'static str,
}

impl System {
    /// Turns the error of a call into one for people: what was tried, the server's message, what to do.
    pub fn failed(&self, what: impl std::fmt::Display, error: &kube::Error) -> anyhow::Error {
        let message = message(error);
        match self.advice(error) {
            advice if advice.is_empty() => anyhow::anyhow!("{what}: {message}"),
            advice => anyhow::anyhow!("{what}: {message}\n{advice}"),
        }
    }

    /// The error about a kind that the cluster does not know.
    pub fn not_served(&self, what: &str) -> anyhow::Error {
        anyhow::anyhow!(
            "the cluster does not know {what}: the CRD is not installed; see `{}`",
            self.check
        )
    }

    /// What to do about an error that a call came back with.
    fn advice(&self, error: &kube::Error) -> String {
        let Self { roles, check } = self;
        match error {
            kube::Error::Api(status) if status.code == 401 => {
                "the cluster does not know you; log in again, or check the user of your kubeconfig"
                    .to_owned()
            }
            kube::Error::Api(status) if status.is_forbidden() => {
                format!("ask for the role {roles}; `{check}` shows what you may do")
            }
            kube::Error::Api(_) => String::new(),
            kube::Error::Auth(_) => {
                "the credentials of your kubeconfig do not work; log in again".to_owned()
            }
            _ => "is the cluster up, and the context the right one? See `kubectl cluster-info`"
                .to_owned(),
        }
    }
}
