//! Whether a store holds to conditions. The whole protocol rests on two of them, and there are stores that take the condition and ignore it:
//! two workers would both believe that their record is the one. So it is tried, before a coordinator writes anything else there.

use crate::bucket::Bucket;
use crate::error::StoreError;
use crate::objects::{PutOutcome, Version};
use std::hash::{BuildHasher, Hasher, RandomState};

/// Creations of one object at a time.
const RACERS: u8 = 8;

/// Tries on objects of its own that *create if absent* and *replace if unchanged* hold, one after the other and in a race, and removes them.
///
/// # Errors
/// [`StoreError::Unfit`] when a condition does not hold; whatever else keeps it from being tried.
pub async fn prove(bucket: &Bucket) -> Result<(), StoreError> {
    // A number that nobody else has: two coordinators may try at the same time.
    let folder = format!(".strata-probe/{:016x}", RandomState::new().build_hasher().finish());
    let tried = trials(bucket, &folder).await;
    for name in ["once", "race", "replace"] {
        let removed = bucket.objects().delete(&format!("{folder}/{name}")).await;
        if tried.is_ok() {
            removed?;
        }
    }
    tried
}

async fn trials(bucket: &Bucket, folder: &str) -> Result<(), StoreError> {
    let unfit = |what: &str| StoreError::Unfit { path: bucket.objects().shown(""), what: what.to_owned() };
    let once = format!("{folder}/once");
    if bucket.objects().put_new(&once, b"first".to_vec()).await? != PutOutcome::Created {
        return Err(unfit("it says that an object is there which nobody has made"));
    }
    let again = bucket.objects().put_new(&once, b"second".to_vec()).await?;
    if again != PutOutcome::Exists || bucket.objects().get(&once).await?.as_deref() != Some(b"first") {
        return Err(unfit("it creates an object that is there already (If-None-Match is ignored)"));
    }
    race(bucket, &format!("{folder}/race")).await?;
    let replace = format!("{folder}/replace");
    let stale = bucket.objects().put_over(&replace, b"0".to_vec()).await?;
    let mut next = bucket.put_if(&replace, b"1".to_vec(), &stale).await?;
    if next.is_none() {
        bucket.use_bare_versions();
        next = bucket.put_if(&replace, b"1".to_vec(), &stale).await?;
    }
    let Some(next) = next else {
        return Err(unfit("it does not replace an object that is unchanged (If-Match is refused)"));
    };
    let refused = |again: Option<Version>| again.is_none();
    if !refused(bucket.put_if(&replace, b"2".to_vec(), &stale).await?) {
        return Err(unfit("it replaces an object that has changed (If-Match is ignored)"));
    }
    match bucket.objects().get_version(&replace).await? {
        Some((bytes, version)) if bytes == b"1" && version == next => Ok(()),
        _ => Err(unfit("it does not give back what was written last")),
    }
}

/// Of many that create one object at the same time one must win, and it must be the one that is there afterwards.
async fn race(bucket: &Bucket, path: &str) -> Result<(), StoreError> {
    let creations = (0..RACERS).map(|racer| {
        let (bucket, path) = (bucket.clone(), path.to_owned());
        tokio::spawn(async move { (racer, bucket.objects().put_new(&path, vec![racer]).await) })
    });
    let creations: Vec<_> = creations.collect();
    let mut winners = Vec::new();
    for creation in creations {
        let (racer, outcome) = creation.await.map_err(|error| StoreError::other("try", bucket.objects().shown(path), error))?;
        if outcome? == PutOutcome::Created {
            winners.push(racer);
        }
    }
    if winners.len() == 1 && bucket.objects().get(path).await? == Some(winners) {
        return Ok(());
    }
    let what = format!("of {RACERS} that create one object at the same time not exactly one succeeds");
    Err(StoreError::Unfit { path: bucket.objects().shown(""), what })
}
