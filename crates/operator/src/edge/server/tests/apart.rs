//! A server in a process of its own, so that its memory and its time are not those of its clients: this test program,
//! started again.

use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;
use flashjob_sim::Usage;

/// The memory limit of the Deployment, for as many connections as there may be.
pub const KIB_EACH: f64 = (1 << 20) as f64 / 20_000.0;

const LISTENS: &str = "the server listens on ";

/// It ends when this is dropped.
pub struct Apart {
    pub keys: Arc<Keys>,
    pub address: SocketAddr,
    process: Child,
    /// It says more at its end.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Apart {
    pub fn start() -> Self {
        let keys = Arc::new(Keys::new());
        let args = ["--exact", "--ignored", "--nocapture", "--test-threads=1"];
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .arg("edge::server::tests::apart::the_server_alone")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = serde_json::to_string(&[keys.server.chain().pem(), keys.server.key().pem()]);
        writeln!(process.stdin.as_mut().unwrap(), "{}", said.unwrap()).unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once(LISTENS)?.1.parse().ok())
            .expect("an address");
        Self { keys, address, process, _said: lines }
    }

    pub fn usage(&self) -> Usage {
        Usage::of(self.process.id()).unwrap()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // The end of its input is the end of it.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[tokio::test]
#[ignore = "started by other tests"]
async fn the_server_alone() {
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    // Whoever runs all that is ignored gives it nothing.
    let Ok([chain, key]) = serde_json::from_str::<[String; 2]>(&line) else { return };
    let key = CertifiedKey::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let key = ServerKey::new(for_rustls(&key));
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    println!("{LISTENS}{}", listener.local_addr().unwrap());
    let (_stop, stopped) = watch::channel(false);
    let metrics = ServerMetrics::default();
    let serving = serve(listener, key, Arc::new(Stub), Settings::default(), metrics, stopped);
    let end = tokio::task::spawn_blocking(|| stdin().read_line(&mut String::new()));
    tokio::select! {
        ended = serving => panic!("{ended:?}"),
        _ = end => {}
    }
}
