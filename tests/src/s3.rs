//! S3 servers on this machine: a real one, and one that ignores conditions.

use crate::text;
use object_store::aws::AmazonS3Builder;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use strata_storage::Bucket;
use tempfile::TempDir;

/// Bucket that is there.
pub const BUCKET: &str = "tables";
const KEY: &str = "STRATATESTKEY";
const SECRET: &str = "STRATATESTSECRET";

/// What a process needs to know of a server.
fn environment(address: &str) -> Vec<(String, String)> {
    let pairs = [
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_REGION", "default".into()),
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Ceph's gateway, from the packages of the system. Ends when it is dropped.
pub struct RealS3 {
    home: TempDir,
    port: u16,
}

impl RealS3 {
    /// Starts it, which takes half a minute. Says why, and gives `None`, where that cannot be.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    pub fn start() -> Option<Self> {
        let programs = ["ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "curl"];
        let is_missing =
            |name: &&&str| !Command::new("which").arg(name).stdout(Stdio::null()).status().is_ok_and(|found| found.success());
        if let Some(missing) = programs.iter().find(is_missing) {
            eprintln!("skipped: {missing} is not installed here, and it is part of the S3 server of this test");
            return None;
        }
        let home = tempfile::tempdir().expect("a temporary directory");
        // Three ports in a row that are free just now.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_or(27480, |free| free.port().min(65000));
        let server = Self { home, port };
        let up = Command::new("bash")
            .arg(script("up.sh"))
            .arg(server.home.path())
            .args([&port.to_string(), KEY, SECRET, BUCKET])
            .output();
        match up {
            Ok(up) if up.status.success() => Some(server),
            Ok(up) => panic!("the S3 server does not start: {}", String::from_utf8_lossy(&up.stderr)),
            Err(error) => panic!("the S3 server does not start: {error}"),
        }
    }

    /// What a process needs to know to use it.
    pub fn environment(&self) -> Vec<(String, String)> {
        environment(&format!("127.0.0.1:{}", self.port))
    }

    /// A prefix in it. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// When the address cannot be one.
    pub fn bucket(&self, prefix: &str) -> Bucket {
        // Its client asks which; a second answer is not taken.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_region("default")
            .with_bucket_name(BUCKET)
            .with_access_key_id(KEY)
            .with_secret_access_key(SECRET)
            .build();
        let url = format!("s3://{BUCKET}/{prefix}");
        Bucket::of(Arc::new(server.expect("it has an address")), prefix.into(), url)
    }
}

impl Drop for RealS3 {
    fn drop(&mut self) {
        // What cannot be ended here is seen by whoever runs the tests.
        let _ = Command::new("bash").arg(script("down.sh")).arg(self.home.path()).status();
    }
}

fn script(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("s3").join(name)).to_owned()
}

/// A server that takes every condition and ignores it, as some do.
pub struct Forgetful {
    address: SocketAddr,
}

type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

impl Forgetful {
    /// Starts it. It lives as long as the test program.
    ///
    /// # Panics
    /// When no port is free.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let objects = Objects::default();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let objects = Arc::clone(&objects);
                std::thread::spawn(move || serve(stream, &objects));
            }
        });
        Self { address }
    }

    /// What a process needs to know to use it.
    pub fn environment(&self) -> Vec<(String, String)> {
        environment(&self.address.to_string())
    }
}

/// Answers the requests of a connection, until it ends.
fn serve(stream: TcpStream, objects: &Objects) -> Option<()> {
    let mut answers = stream.try_clone().ok()?;
    let mut requests = BufReader::new(stream);
    loop {
        let mut line = String::new();
        requests.read_line(&mut line).ok().filter(|&length| length > 0)?;
        let mut words = line.split_whitespace();
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut length = 0;
        loop {
            let mut header = String::new();
            requests.read_line(&mut header).ok()?;
            match header.trim().split_once(':') {
                None => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok()?,
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        requests.read_exact(&mut body).ok()?;
        let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, answer) = match method.as_str() {
            "PUT" => {
                objects.insert(path, body);
                ("200 OK", Vec::new())
            }
            "GET" => match objects.get(&path) {
                Some(bytes) => ("200 OK", bytes.clone()),
                None => ("404 Not Found", Vec::new()),
            },
            _ => {
                objects.remove(&path);
                ("204 No Content", Vec::new())
            }
        };
        let when = "Mon, 01 Jan 2024 00:00:00 GMT";
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"1\"\r\nLast-Modified: {when}\r\n\r\n", answer.len());
        answers.write_all(head.as_bytes()).and_then(|()| answers.write_all(&answer)).ok()?;
    }
}
