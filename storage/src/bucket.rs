//! Tables in an object store: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage, or the memory of a test.
//!
//! Only what every such store promises is used: whole objects, written at once, read in ranges, listed, removed; and two conditions on single
//! writes, *create if absent* and *replace if unchanged*, which [`prove`](crate::prove) tries before anything depends on them. Calls are
//! repeated with growing pauses, for three minutes at most. Nothing that is read is believed before its hash was compared.

use crate::digest::Digest;
use crate::error::{Corruption, StoreError};
use crate::objects::{Objects, Version};
use crate::record::FileRecord;
use futures::StreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions,
    RetryConfig, UpdateVersion, WriteMultipart,
};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(120);
/// How long it may take to get through.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a call is repeated.
const PATIENCE: Duration = Duration::from_secs(180);
/// Files longer than this go in parts.
const PART: u64 = 16 << 20;
/// Parts that are under way at a time.
const PARTS_AT_A_TIME: usize = 4;
/// Parts of a file that are asked for while one is hashed.
const PARTS_AHEAD: usize = 2;
/// Most parts of a file, of the 10,000 that S3 allows.
const MOST_PARTS: u64 = 9_000;

/// A place in an object store under which tables are, one prefix for each. Clones are the same place.
#[derive(Clone)]
pub struct Bucket {
    inner: Arc<Inner>,
}

struct Inner {
    objects: Objects,
    /// As it was given: without credentials, which are in the environment.
    url: String,
    runtime: Handle,
    /// Versions are compared without the quotes around them: Ceph's gateway wants that.
    bare_versions: AtomicBool,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.inner.url).finish()
    }
}

impl Bucket {
    /// Opens `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. Credentials, region and endpoint come from the environment:
    /// `AWS_*`, `GOOGLE_*`, `AZURE_*`. Must be called inside a tokio runtime, which serves all its calls. Asks nothing of the store.
    ///
    /// # Errors
    /// [`StoreError::BadUrl`] with what is wrong; [`StoreError::PlainHttp`] when the endpoint has no TLS and `allow_http` is not said.
    pub fn open(url: &str, allow_http: bool) -> Result<Self, StoreError> {
        // One of two that the libraries below would choose from. Another call of this was first, or ours is.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bad = |what: String| StoreError::BadUrl { url: url.to_owned(), what };
        // What cannot be read may have secrets in it too.
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let unread = |error| StoreError::BadUrl { url: format!("{scheme}://..."), what: format!("{error}") };
        let parsed = reqwest::Url::parse(url).map_err(unread)?;
        let secret = !parsed.username().is_empty() && parsed.scheme() != "abfss" || parsed.password().is_some();
        if secret || parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(StoreError::BadUrl {
                url: format!("{}://...", parsed.scheme()),
                what: "it has more than a bucket and a prefix; credentials go into the environment".into(),
            });
        }
        let unknown = || bad("a store is a directory, or s3://, gs:// or az:// with a bucket and a prefix".into());
        let (scheme, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|_| unknown())?;
        let options = ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(CONNECT).with_allow_http(allow_http);
        let backoff = BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(10), base: 2.0 };
        let retry = RetryConfig { backoff, max_retries: 60, retry_timeout: PATIENCE };
        let unfit = |error: object_store::Error| bad(error.to_string());
        let objects: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
                let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
                let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
                let allowed = allow_http || allowed.is_some_and(|value| value == "true");
                let is_whole =
                    reqwest::Url::parse(&endpoint).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
                if !endpoint.is_empty() && !is_whole {
                    return Err(bad(format!(
                        "the endpoint {endpoint:?} (AWS_ENDPOINT_URL) does not begin with https:// or http:// and a host"
                    )));
                }
                if endpoint.starts_with("http://") && !allowed {
                    return Err(StoreError::PlainHttp { url: url.to_owned(), endpoint });
                }
                Arc::new(builder.with_client_options(options.with_allow_http(allowed)).build().map_err(unfit)?)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retry);
                Arc::new(builder.with_client_options(options).build().map_err(unfit)?)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry);
                Arc::new(builder.with_client_options(options).build().map_err(unfit)?)
            }
            _ => return Err(unknown()),
        };
        Ok(Self::of(objects, prefix, url.trim_end_matches('/').to_owned()))
    }

    /// Objects in the memory of this process, for tests. Must be called inside a tokio runtime.
    pub fn in_memory() -> Self {
        Self::of(Arc::new(InMemory::new()), ObjectPath::default(), "memory://".into())
    }

    /// Any other store, under a name for people. Must be called inside a tokio runtime.
    pub fn of(objects: Arc<dyn ObjectStore>, prefix: ObjectPath, url: String) -> Self {
        let objects = Objects::new(objects, prefix, PathBuf::from(url.trim_end_matches('/')));
        Self { inner: Arc::new(Inner { objects, url, runtime: Handle::current(), bare_versions: AtomicBool::new(false) }) }
    }

    /// The same place with a fence of its own, as another process has it.
    #[cfg(test)]
    pub(crate) fn again(&self) -> Self {
        let Objects { store, .. } = self.objects();
        Self::of(Arc::clone(store), self.objects().prefix().cloned().unwrap_or_default(), self.inner.url.clone())
    }

    /// What people call it.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// What is in it.
    pub(crate) fn objects(&self) -> &Objects {
        &self.inner.objects
    }

    /// Does something asynchronous on a thread that may block, outside any runtime.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.inner.runtime.block_on(work)
    }

    /// Replaces an object if it is still of that version; `None` when it is not.
    pub(crate) async fn put_if(&self, path: &str, bytes: Vec<u8>, version: &Version) -> Result<Option<Version>, StoreError> {
        let bare = |tag: &String| tag.trim_matches('"').to_owned();
        let is_bare = self.inner.bare_versions.load(Ordering::Relaxed);
        let e_tag = version.e_tag.as_ref().map(|tag| if is_bare { bare(tag) } else { tag.clone() });
        let mode = PutMode::Update(UpdateVersion { e_tag, version: version.version.clone() });
        let objects = self.objects();
        match objects.store.put_opts(&objects.object(path)?, bytes.into(), PutOptions::from(mode)).await {
            Ok(put) => Ok(Some(Version { e_tag: put.e_tag, version: put.version })),
            Err(object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(objects.fail("replace", path)(error)),
        }
    }

    /// Compares versions without the quotes around them from now on.
    pub(crate) fn use_bare_versions(&self) {
        self.inner.bare_versions.store(true, Ordering::Relaxed);
    }

    /// Asks something of it, to see whether it can be used.
    ///
    /// # Errors
    /// What the store said, after three minutes of trying if it said nothing.
    pub async fn reach(&self) -> Result<(), StoreError> {
        self.objects().length(crate::lead::PATH).await.map(|_| ())
    }

    /// The folders directly under it.
    pub(crate) async fn folders(&self) -> Result<Vec<String>, StoreError> {
        let objects = self.objects();
        let listed = objects.store.list_with_delimiter(objects.prefix()).await.map_err(objects.fail("list", ""))?;
        let mut names: Vec<String> =
            listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// Brings a file there, under a name that has its hash; in parts where it is long. What had the name has the same content, or was damaged.
    pub(crate) async fn upload(&self, mut source: File, file: &Path, path: &str) -> Result<(), StoreError> {
        let unread = |error| StoreError::io("read", file, error);
        let length = source.metadata().map_err(unread)?.len();
        let objects = self.objects();
        let object = objects.object(path)?;
        if length <= PART {
            let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
            source.read_to_end(&mut bytes).map_err(unread)?;
            objects.store.put(&object, bytes.into()).await.map_err(objects.fail("write", path))?;
            return Ok(());
        }
        let part = usize::try_from(PART.max(length.div_ceil(MOST_PARTS))).unwrap_or(usize::MAX);
        let begun = objects.store.put_multipart(&object).await.map_err(objects.fail("write", path))?;
        let mut upload = WriteMultipart::new_with_chunk_size(begun, part);
        let mut left = length;
        while left > 0 {
            let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(part)];
            let read = source.read_exact(&mut bytes);
            let sent = upload.wait_for_capacity(PARTS_AT_A_TIME).await;
            if read.is_err() || sent.is_err() {
                // Parts that stay behind cost money; what cannot be removed now goes by the rules of the bucket.
                let _ = upload.abort().await;
                read.map_err(unread)?;
                return sent.map_err(objects.fail("write", path));
            }
            left -= bytes.len() as u64;
            upload.put(bytes.into());
        }
        upload.finish().await.map_err(objects.fail("write", path))?;
        Ok(())
    }

    /// Some bytes of an object, which nobody has compared with anything.
    pub(crate) async fn read_range(&self, path: &str, range: std::ops::Range<u64>) -> Result<Vec<u8>, Corruption> {
        let object = self.objects().object(path).map_err(|error| Corruption::Malformed(error.to_string()))?;
        let length = range.end - range.start;
        match self.objects().store.get_range(&object, range).await {
            Ok(bytes) if bytes.len() as u64 == length => Ok(bytes.into()),
            Ok(_) => Err(Corruption::Malformed("it is shorter than it was".into())),
            Err(object_store::Error::NotFound { .. }) => Err(Corruption::Missing),
            Err(error) => Err(Corruption::Io(io::Error::other(error))),
        }
    }

    /// Reads an object piece by piece, and compares its length and its hash with its record's.
    pub(crate) async fn read_checked(
        &self,
        path: &str,
        record: &FileRecord,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Corruption> {
        let failed = |error: object_store::Error| Corruption::Io(io::Error::other(error));
        let store = &self.objects().store;
        let object = self.objects().object(path).map_err(|error| Corruption::Malformed(error.to_string()))?;
        let found = match store.head(&object).await {
            Err(object_store::Error::NotFound { .. }) => return Err(Corruption::Missing),
            found => found.map_err(failed)?.size,
        };
        if found != record.bytes {
            return Err(Corruption::Length { found, expected: record.bytes });
        }
        // In ranges, each of which is asked for again if it fails: a whole file may take longer than any one call may.
        let piece = |start: u64| {
            let (store, object) = (Arc::clone(store), object.clone());
            async move { store.get_range(&object, start..(start + PART).min(found)).await }
        };
        let starts = (0..found).step_by(usize::try_from(PART).unwrap_or(usize::MAX));
        let mut pieces = futures::stream::iter(starts).map(piece).buffered(PARTS_AHEAD);
        let mut hasher = blake3::Hasher::new();
        while let Some(piece) = pieces.next().await {
            let piece = match piece {
                Err(object_store::Error::NotFound { .. }) => return Err(Corruption::Missing),
                piece => piece.map_err(failed)?,
            };
            hasher.update(&piece);
            take(&piece).map_err(Corruption::Io)?;
        }
        let found = Digest::of_hasher(&hasher);
        if found == record.blake3 { Ok(()) } else { Err(Corruption::Hash { found, expected: record.blake3 }) }
    }
}
