//! A server that misbehaves on demand, and a clock, ids and a timer that tests steer.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Clock, IdGen, Timestamp};
use memory_http::{EgressPolicy, HttpClient, HttpClientBuilder, Resolver, Timer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the server does after it has read a request.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    /// Sends this repeatedly until the client stops reading.
    Flood(Vec<u8>),
    /// One byte at a time, each after this long.
    Drip(Vec<u8>, Duration),
    /// Sends nothing more and keeps the connection open.
    Stall,
    /// Closes in good order.
    Close,
    /// Closes by a reset.
    Reset,
}

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Handler = dyn Fn(usize, &Request) -> Vec<Step> + Send + Sync;

/// A server on a free port of 127.0.0.1, gone when dropped.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    sent: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Answers the n-th request (from 0) with what `handler` says.
    pub async fn start(handler: impl Fn(usize, &Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::new(AtomicU64::new(0));
        let handler: Arc<Handler> = Arc::new(handler);
        let (seen, counter) = (Arc::clone(&requests), Arc::clone(&sent));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, seen, counter) =
                    (Arc::clone(&handler), Arc::clone(&seen), Arc::clone(&counter));
                tokio::spawn(async move {
                    let mut stream = stream;
                    if serve(&mut stream, &*handler, &seen, &counter).await == Some(Ending::Reset) {
                        stream.set_zero_linger().unwrap();
                    }
                });
            }
        });
        Self { address, requests, sent, task }
    }

    /// Always the same answer.
    pub async fn always(steps: Vec<Step>) -> Self {
        Self::start(move |_, _| steps.clone()).await
    }

    /// One answer after the other; the last for all that follow.
    pub async fn script(script: Vec<Vec<Step>>) -> Self {
        Self::start(move |n, _| script.get(n).or(script.last()).cloned().unwrap_or_default()).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Bytes of floods that the client took.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// A policy that lists this server.
    pub fn policy(&self) -> EgressPolicy {
        EgressPolicy::new().allow_host(&self.address.to_string()).unwrap()
    }

    /// A client that may reach this server, waits in no real time and counts its waits.
    pub fn client(&self) -> HttpClient {
        builder(self.policy()).build().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(PartialEq)]
enum Ending {
    Closed,
    Reset,
}

async fn serve(
    stream: &mut TcpStream,
    handler: &Handler,
    seen: &Mutex<Vec<Request>>,
    sent: &AtomicU64,
) -> Option<Ending> {
    loop {
        let request = read_request(stream).await?;
        let n = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        for step in handler(n, &request) {
            match step {
                Step::Send(bytes) => stream.write_all(&bytes).await.ok()?,
                Step::Flood(bytes) => loop {
                    stream.write_all(&bytes).await.ok()?;
                    sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                },
                Step::Drip(bytes, pause) => {
                    for byte in bytes {
                        stream.write_all(&[byte]).await.ok()?;
                        tokio::time::sleep(pause).await;
                    }
                }
                Step::Stall => std::future::pending().await,
                Step::Close => return Some(Ending::Closed),
                Step::Reset => return Some(Ending::Reset),
            }
        }
    }
}

/// Reads one request with a body of its Content-Length.
pub async fn read_request<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let mut part = [0_u8; 4_096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
        }
    };
    let body = bytes.split_off(end);
    let mut request = Request { head: String::from_utf8(bytes).unwrap(), body };
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while request.body.len() < length {
        let mut part = vec![0_u8; length - request.body.len()];
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        request.body.extend_from_slice(&part[..read]);
    }
    Some(request)
}

/// A whole reply.
pub fn reply(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<Step> {
    let mut head = format!("HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

/// 200 with JSON.
pub fn json(body: &serde_json::Value) -> Vec<Step> {
    reply(200, &[("Content-Type", "application/json")], body.to_string().as_bytes())
}

/// Only a head, as it is given.
pub fn head(text: &str) -> Step {
    Step::Send(text.replace('\n', "\r\n").into_bytes())
}

/// 2026-11-22T00:00:00Z, always.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        "2026-11-22T00:00:00Z".parse().unwrap()
    }
}

/// 0, 1, 2, …
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl IdGen for CountingIds {
    fn fresh(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Advances its own time instead of waiting, and records the waits.
#[derive(Debug, Default)]
pub struct TestTimer {
    waits: Mutex<Vec<Duration>>,
    now: Mutex<Duration>,
}

impl TestTimer {
    pub fn waits(&self) -> Vec<Duration> {
        self.waits.lock().unwrap().clone()
    }

    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap() += by;
    }
}

#[async_trait]
impl Timer for TestTimer {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        self.waits.lock().unwrap().push(duration);
        self.advance(duration);
    }
}

/// Resolves every name to the same addresses, and records the names.
#[derive(Debug, Default)]
pub struct Names {
    pub answer: Vec<IpAddr>,
    pub asked: Mutex<Vec<String>>,
}

impl Names {
    pub fn answering(addresses: &[&str]) -> Arc<Self> {
        let answer = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answer, asked: Mutex::default() })
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        Ok(self.answer.clone())
    }
}

/// A builder with test clock, ids and timer.
pub fn builder(policy: EgressPolicy) -> HttpClientBuilder {
    HttpClient::builder(policy, Arc::new(FixedClock), Arc::new(CountingIds::default()))
        .timer(Arc::new(TestTimer::default()))
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
