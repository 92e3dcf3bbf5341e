use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::cluster::{CallFate, Cluster, EventFate, Gate};
use flashjob_sim::eventually;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::LIMIT;

/// A gate, and two ways to the same namespace: through the gate and around it.
struct Bench {
    gate: Gate,
    through: Api<ConfigMap>,
    around: Api<ConfigMap>,
}

impl Bench {
    async fn new(judge: impl Fn(usize) -> CallFate + Send + Sync + 'static) -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let namespace = cluster.namespace("gate").await?;
        let gate = Gate::start(cluster, move |call| judge(call.number)).await?;
        let token = cluster.token("admin").context("no token")?;
        let path = cluster.kubeconfig(token, &namespace, Some(&gate.url()))?;
        let kubeconfig = kube::config::Kubeconfig::read_from(path)?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        config.default_retry = false;
        let through = Api::default_namespaced(Client::try_from(config)?);
        let around = Api::namespaced(cluster.client("admin")?, &namespace);
        Ok(Self { gate, through, around })
    }

    async fn create(&self, name: &str) -> kube::Result<ConfigMap> {
        create(&self.through, name).await
    }
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await
}

#[tokio::test]
async fn a_held_create_arrives_after_its_caller_is_gone() -> Result<()> {
    let bench = Bench::new(|_| CallFate::Hold).await?;
    let through = bench.through.clone();
    let caller = tokio::spawn(async move { create(&through, "late").await });
    let call = timeout(LIMIT, bench.gate.held()).await?;
    assert_eq!((call.number, call.resource()), (1, "configmaps"));
    assert_eq!(call.name().as_deref(), Some("late"));
    assert!(bench.around.get_opt("late").await?.is_none());
    caller.abort();
    assert!(caller.await.is_err());
    bench.gate.cut();
    bench.gate.release();
    timeout(LIMIT, bench.gate.settled()).await?;
    bench.around.get("late").await?;
    assert_eq!(bench.gate.answers()[0].1, 201);
    Ok(())
}

#[tokio::test]
async fn a_released_create_is_answered() -> Result<()> {
    let bench = Bench::new(|_| CallFate::Hold).await?;
    let release = async {
        bench.gate.held().await;
        bench.gate.release();
    };
    let (created, ()) = tokio::join!(bench.create("a"), release);
    created?;
    Ok(())
}

#[tokio::test]
async fn calls_and_answers_get_lost() -> Result<()> {
    let bench = Bench::new(move |number| match number {
        1 => CallFate::Drop,
        2 => CallFate::PassThenDrop,
        3 => CallFate::PassThenHang,
        4 => CallFate::Answer(500, "{\"kind\":\"Status\",\"code\":500}".to_owned()),
        _ => CallFate::PassThenDelay(Duration::from_millis(10)),
    })
    .await?;
    for name in ["dropped", "answer-lost"] {
        assert!(bench.create(name).await.is_err(), "{name} was answered");
    }
    assert!(timeout(Duration::from_millis(500), bench.create("hangs")).await.is_err());
    assert!(bench.create("refused").await.is_err());
    bench.create("passed").await?;
    let there = bench.around.list(&Default::default()).await?;
    let names: Vec<_> = there.items.iter().filter_map(|map| map.metadata.name.as_deref()).collect();
    assert_eq!(names, ["answer-lost", "hangs", "passed"]);
    assert_eq!(bench.gate.calls().len(), 5);
    Ok(())
}

#[tokio::test]
async fn a_list_of_the_past_is_the_first_one() -> Result<()> {
    let bench = Bench::new(|_| CallFate::Pass).await?;
    let past = Arc::new(AtomicBool::new(false));
    let asked = past.clone();
    bench.gate.judge_reads(move |_| {
        if asked.load(Ordering::SeqCst) { CallFate::Replay } else { CallFate::Pass }
    });
    let list = async || Ok::<_, kube::Error>(bench.through.list(&Default::default()).await?.items);
    bench.create("a").await?;
    assert_eq!(list().await?.len(), 1);
    bench.create("b").await?;
    assert_eq!(list().await?.len(), 2);
    past.store(true, Ordering::SeqCst);
    assert_eq!(list().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_watch_leaves_an_event_out_and_is_told_that_the_past_is_gone() -> Result<()> {
    let bench = Bench::new(|_| CallFate::Pass).await?;
    let seen = AtomicUsize::new(0);
    bench.gate.judge_events(move |event| {
        assert_eq!((event.resource.as_str(), event.change.as_str()), ("configmaps", "ADDED"));
        match seen.fetch_add(1, Ordering::SeqCst) {
            0 => EventFate::Delay(Duration::from_millis(10)),
            1 => EventFate::Lose,
            2 => EventFate::Pass,
            _ => EventFate::Gone,
        }
    });
    let mut watch = bench.through.watch(&WatchParams::default(), "0").await?.boxed();
    for name in ["a", "b", "c", "d"] {
        bench.create(name).await?;
    }
    for wanted in ["a", "c"] {
        let event = timeout(LIMIT, watch.try_next()).await??;
        let Some(WatchEvent::Added(map)) = event else { anyhow::bail!("not {wanted}: {event:?}") };
        assert_eq!(map.metadata.name.as_deref(), Some(wanted));
    }
    let gone = timeout(LIMIT, watch.try_next()).await??;
    assert!(matches!(gone, Some(WatchEvent::Error(status)) if status.code == 410));
    assert!(timeout(LIMIT, watch.try_next()).await??.is_none(), "and that is its end");
    Ok(())
}

#[tokio::test]
async fn watches_stream_until_the_network_is_cut() -> Result<()> {
    let bench = Bench::new(|_| CallFate::Pass).await?;
    let params = WatchParams::default();
    let mut watch = bench.through.watch(&params, "0").await?.boxed();
    bench.create("a").await?;
    let event = timeout(LIMIT, watch.try_next()).await??;
    assert!(matches!(event, Some(WatchEvent::Added(_))));
    bench.gate.cut();
    let rest = timeout(LIMIT, watch.try_collect::<Vec<_>>()).await?;
    assert!(rest.is_err() || rest.is_ok_and(|events| events.is_empty()));
    assert!(bench.create("b").await.is_err());
    bench.gate.mend();
    eventually("the network", LIMIT, || async { Ok(bench.create("c").await.ok()) }).await?;
    assert!(bench.around.get_opt("b").await?.is_none());
    Ok(())
}
