//! A strict pooler in transaction mode: after each transaction a client gets another server connection, without any
//! session state.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};

/// Connections to the server.
const SERVERS: usize = 4;

type Idle = Arc<Mutex<VecDeque<TcpStream>>>;

/// Listens on a separate port for one database of a server without passwords; returns the port.
pub(crate) async fn start(server: String, database: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut idle = VecDeque::new();
    for _ in 0..SERVERS {
        idle.push_back(log_in(&server, &database).await);
    }
    let (idle, free): (Idle, _) = (Arc::new(Mutex::new(idle)), Arc::new(Semaphore::new(SERVERS)));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, Arc::clone(&idle), Arc::clone(&free)));
        }
    });
    port
}

async fn log_in(server: &str, database: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    for text in ["user", "postgres", "database", database, "client_encoding", "UTF8", ""] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    stream.write_all(&(i32::try_from(body.len()).unwrap() + 4).to_be_bytes()).await.unwrap();
    stream.write_all(&body).await.unwrap();
    while let Some((kind, message)) = message(&mut stream).await {
        assert_ne!(kind, b'E', "{}", String::from_utf8_lossy(&message));
        if kind == b'Z' {
            return stream;
        }
    }
    panic!("the server does not let the pooler in");
}

/// One message with its head; `None` at the end.
async fn message(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).await.ok()?;
    let length = usize::try_from(i32::from_be_bytes([head[1], head[2], head[3], head[4]])).unwrap();
    let mut whole = head.to_vec();
    whole.resize(length + 1, 0);
    stream.read_exact(&mut whole[5..]).await.ok()?;
    Some((head[0], whole))
}

async fn serve(mut client: TcpStream, idle: Idle, free: Arc<Semaphore>) -> Option<()> {
    loop {
        let mut head = [0; 8];
        client.read_exact(&mut head).await.ok()?;
        let (length, code) = head.split_at(4);
        let length = i32::from_be_bytes(length.try_into().unwrap());
        let mut rest = vec![0; usize::try_from(length).unwrap() - 8];
        client.read_exact(&mut rest).await.ok()?;
        match i32::from_be_bytes(code.try_into().unwrap()) {
            // A TLS request: refused.
            80_877_103 => client.write_all(b"N").await.ok()?,
            196_608 => {
                let text = String::from_utf8_lossy(&rest).into_owned();
                assert!(!text.contains("options"), "settings of a session are sent to a pooler: {text:?}");
                break;
            }
            _ => return None,
        }
    }
    // Authentication ok, a made-up process and key, ready.
    client.write_all(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I").await.ok()?;
    loop {
        let (kind, mut first) = message(&mut client).await?;
        if kind == b'X' {
            return None;
        }
        let permit = free.acquire().await.ok()?;
        let mut server = idle.lock().await.pop_front()?;
        // A transaction's requests: up to Sync or a simple query, repeated until the server is idle.
        loop {
            let mut kind = first[0];
            server.write_all(&first).await.ok()?;
            while !matches!(kind, b'S' | b'Q') {
                let (next, bytes) = message(&mut client).await?;
                server.write_all(&bytes).await.ok()?;
                kind = next;
            }
            let status = loop {
                let (kind, bytes) = message(&mut server).await?;
                client.write_all(&bytes).await.ok()?;
                if kind == b'Z' {
                    break bytes[5];
                }
            };
            if status == b'I' {
                break;
            }
            let (_, bytes) = message(&mut client).await?;
            first = bytes;
        }
        idle.lock().await.push_back(server);
        drop(permit);
    }
}
