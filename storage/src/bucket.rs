//! Tables in an object store: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage, or the memory of a test.
//!
//! Only what every such store promises is used: whole objects, written at once, read in ranges, listed, removed; and two conditions on single
//! writes, *create if absent* and *replace if unchanged*, which [`prove`](crate::prove) tries before anything depends on them. Calls are
//! repeated with growing pauses, for three minutes at most. Nothing that is read is believed before its hash was compared.

use crate::digest::Digest;
use crate::dir::PutOutcome;
use crate::error::{Corruption, StoreError};
use crate::fence::Fence;
use crate::record::FileRecord;
use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions,
    PutPayload, RetryConfig, UpdateVersion, WriteMultipart,
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
    objects: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// As it was given: without credentials, which are in the environment.
    url: String,
    runtime: Handle,
    /// Versions are compared without the quotes around them: Ceph's gateway wants that.
    bare_versions: AtomicBool,
    fence: Fence,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.inner.url).finish()
    }
}

/// The version of an object, as the store names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Version(Option<String>, Option<String>);

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
        let mut options = ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(CONNECT);
        if allow_http {
            options = options.with_allow_http(true);
        }
        let backoff = BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(10), base: 2.0 };
        let retry = RetryConfig { backoff, max_retries: 60, retry_timeout: PATIENCE };
        let unfit = |error: object_store::Error| bad(error.to_string());
        let objects: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                let mut builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
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
                builder = builder.with_client_options(options.with_allow_http(allowed));
                Arc::new(builder.build().map_err(unfit)?)
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
        let inner = Inner {
            objects,
            prefix,
            url,
            runtime: Handle::current(),
            bare_versions: AtomicBool::new(false),
            fence: Fence::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same place with a fence of its own, as another process has it.
    #[cfg(test)]
    pub(crate) fn again(&self) -> Self {
        Self::of(Arc::clone(&self.inner.objects), self.inner.prefix.clone(), self.inner.url.clone())
    }

    /// What people call it.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// What people call something in it.
    pub(crate) fn shown(&self, path: &str) -> PathBuf {
        let folder = self.inner.url.trim_end_matches('/');
        PathBuf::from(if path.is_empty() { folder.to_owned() } else { format!("{folder}/{path}") })
    }

    /// Bars writing when somebody else may lead.
    pub(crate) fn fence(&self) -> &Fence {
        &self.inner.fence
    }

    /// Does something asynchronous on a thread that may block, outside any runtime.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.inner.runtime.block_on(work)
    }

    fn object(&self, path: &str) -> Result<ObjectPath, StoreError> {
        let under = if self.inner.prefix.as_ref().is_empty() { path.to_owned() } else { format!("{}/{path}", self.inner.prefix) };
        let parsed = ObjectPath::parse(&under).ok().filter(|parsed| parsed.as_ref() == under && !path.is_empty());
        parsed.ok_or_else(|| StoreError::BadName { path: path.to_owned() })
    }

    fn fail<'a>(&'a self, doing: &'static str, path: &'a str) -> impl Fn(object_store::Error) -> StoreError + 'a {
        move |error| StoreError::object(doing, &self.shown(path), error)
    }

    /// Creates an object, unless one of that name is there.
    pub(crate) async fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<PutOutcome, StoreError> {
        let object = self.object(path)?;
        let put = self.inner.objects.put_opts(&object, bytes.into(), PutOptions::from(PutMode::Create));
        match self.inner.fence.within(self, put).await? {
            Ok(_) => Ok(PutOutcome::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(PutOutcome::Exists),
            Err(error) => Err(self.fail("create", path)(error)),
        }
    }

    /// Creates an object or replaces it.
    pub(crate) async fn put_over(&self, path: &str, bytes: Vec<u8>) -> Result<Version, StoreError> {
        let object = self.object(path)?;
        let put = self.inner.objects.put(&object, bytes.into());
        let put = self.inner.fence.within(self, put).await?.map_err(self.fail("write", path))?;
        Ok(Version(put.e_tag, put.version))
    }

    /// Replaces an object if it is still of that version; `None` when it is not.
    pub(crate) async fn put_if(&self, path: &str, bytes: Vec<u8>, version: &Version) -> Result<Option<Version>, StoreError> {
        let bare = |tag: &String| tag.trim_matches('"').to_owned();
        let e_tag =
            version.0.as_ref().map(|tag| if self.inner.bare_versions.load(Ordering::Relaxed) { bare(tag) } else { tag.clone() });
        let mode = PutMode::Update(UpdateVersion { e_tag, version: version.1.clone() });
        match self.inner.objects.put_opts(&self.object(path)?, PutPayload::from(bytes), PutOptions::from(mode)).await {
            Ok(put) => Ok(Some(Version(put.e_tag, put.version))),
            Err(object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fail("replace", path)(error)),
        }
    }

    /// Compares versions without the quotes around them from now on.
    pub(crate) fn use_bare_versions(&self) {
        self.inner.bare_versions.store(true, Ordering::Relaxed);
    }

    /// An object, with its version; `None` when there is none.
    pub(crate) async fn get_version(&self, path: &str) -> Result<Option<(Vec<u8>, Version)>, StoreError> {
        let found = match self.inner.objects.get(&self.object(path)?).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(self.fail("read", path))?,
        };
        let version = Version(found.meta.e_tag.clone(), found.meta.version.clone());
        let bytes = found.bytes().await.map_err(self.fail("read", path))?;
        Ok(Some((bytes.into(), version)))
    }

    /// An object; `None` when there is none.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.get_version(path).await?.map(|(bytes, _)| bytes))
    }

    /// Its length; `None` when there is none.
    pub(crate) async fn length(&self, path: &str) -> Result<Option<u64>, StoreError> {
        match self.inner.objects.head(&self.object(path)?).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fail("look at", path)(error)),
        }
    }

    /// Removes an object. One that is not there is as good as removed.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), StoreError> {
        let object = self.object(path)?;
        match self.inner.fence.within(self, self.inner.objects.delete(&object)).await? {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.fail("remove", path)(error)),
        }
    }

    /// The names of all objects below a folder, relative to that of the table.
    pub(crate) async fn list(&self, table: &str, folder: &str) -> Result<Vec<String>, StoreError> {
        let of_table = self.object(table)?;
        let under = if folder.is_empty() { of_table.clone() } else { self.object(&format!("{table}/{folder}"))? };
        let metas: Vec<_> = self.inner.objects.list(Some(&under)).try_collect().await.map_err(self.fail("list", table))?;
        let relative = |name: &str| name.strip_prefix(of_table.as_ref())?.strip_prefix('/').map(str::to_owned);
        let mut names: Vec<String> = metas.iter().filter_map(|meta| relative(meta.location.as_ref())).collect();
        names.sort();
        Ok(names)
    }

    /// Asks something of it, to see whether it can be used.
    pub(crate) async fn reach(&self) -> Result<(), StoreError> {
        self.length(crate::lead::PATH).await.map(|_| ())
    }

    /// The folders directly under it.
    pub(crate) async fn folders(&self) -> Result<Vec<String>, StoreError> {
        let prefix = (!self.inner.prefix.as_ref().is_empty()).then_some(&self.inner.prefix);
        let listed = self.inner.objects.list_with_delimiter(prefix).await.map_err(self.fail("list", ""))?;
        let mut names: Vec<String> =
            listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// Brings a file there, under a name that has its hash; in parts where it is long. What had the name has the same content, or was damaged.
    pub(crate) async fn upload(&self, mut source: File, file: &Path, path: &str) -> Result<(), StoreError> {
        let unread = |error| StoreError::io("read", file, error);
        let length = source.metadata().map_err(unread)?.len();
        let object = self.object(path)?;
        if length <= PART {
            let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
            source.read_to_end(&mut bytes).map_err(unread)?;
            self.inner.objects.put(&object, bytes.into()).await.map_err(self.fail("write", path))?;
            return Ok(());
        }
        let part = usize::try_from(PART.max(length.div_ceil(MOST_PARTS))).unwrap_or(usize::MAX);
        let begun = self.inner.objects.put_multipart(&object).await.map_err(self.fail("write", path))?;
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
                return sent.map_err(self.fail("write", path));
            }
            left -= bytes.len() as u64;
            upload.put(bytes.into());
        }
        upload.finish().await.map_err(self.fail("write", path))?;
        Ok(())
    }

    /// Reads an object piece by piece, and compares its length and its hash with its record's.
    pub(crate) async fn read_checked(
        &self,
        path: &str,
        record: &FileRecord,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Corruption> {
        let failed = |error: object_store::Error| Corruption::Io(io::Error::other(error));
        let object = self.object(path).map_err(|error| Corruption::Malformed(error.to_string()))?;
        let found = match self.inner.objects.head(&object).await {
            Err(object_store::Error::NotFound { .. }) => return Err(Corruption::Missing),
            found => found.map_err(failed)?.size,
        };
        if found != record.bytes {
            return Err(Corruption::Length { found, expected: record.bytes });
        }
        // In ranges, each of which is asked for again if it fails: a whole file may take longer than any one call may.
        let piece = |start: u64| {
            let (objects, object) = (Arc::clone(&self.inner.objects), object.clone());
            async move { objects.get_range(&object, start..(start + PART).min(found)).await }
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
