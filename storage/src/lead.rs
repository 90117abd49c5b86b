//! Leadership of a bucket: a lease in it, renewed by compare-and-swap.
//!
//! `coordinator.lease` names who leads, and changes with every renewal. Nobody compares clocks of two machines: whoever finds a lease looks at it
//! for as long as it lasts, by its own clock, and takes it over when it has not changed meanwhile. The leader counts from before it
//! sent its last renewal, so its time is over first; then its [fence](crate::fence) is closed.

use crate::bucket::Bucket;
use crate::error::StoreError;
use crate::fence;
use crate::objects::{PutOutcome, Version};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The lease's name.
pub(crate) const PATH: &str = "coordinator.lease";
/// Parts of a lease after which it is renewed.
const RENEWALS: u32 = 4;

/// What the lease says.
#[derive(Clone, Serialize, Deserialize)]
struct Lease {
    /// Who leads, for people.
    leader: String,
    /// Counts the renewals, of all leaders.
    count: u64,
    /// The leader has given it back.
    free: bool,
}

/// The lead of a bucket. It must be [kept](Self::keep).
#[derive(Debug)]
pub struct BucketLead {
    bucket: Bucket,
    leader: String,
    lasts: Duration,
    count: u64,
    version: Version,
    until: Duration,
}

impl BucketLead {
    /// Takes the lead, unless somebody has it. Where a lease is found that was not given back, that takes as long as a lease `lasts`: `waits` is
    /// told who is waited for.
    ///
    /// # Errors
    /// [`StoreError::Led`] when somebody else leads; what the store says.
    pub async fn take(bucket: &Bucket, leader: &str, lasts: Duration, waits: impl Fn(&str)) -> Result<Self, StoreError> {
        let led = |by: &str| StoreError::Led { path: bucket.objects().shown(""), leader: by.to_owned() };
        let open = |bytes: &[u8]| serde_json::from_slice::<Lease>(bytes).ok();
        let found = bucket.objects().get_version(PATH).await?;
        let sent = fence::now();
        let Some((bytes, version)) = found else {
            let lease = Lease { leader: leader.to_owned(), count: 1, free: false };
            if bucket.objects().put_new(PATH, seal(&lease)).await? == PutOutcome::Exists {
                let other = bucket.objects().get(PATH).await?.and_then(|bytes| open(&bytes));
                return Err(led(other.as_ref().map_or("another coordinator", |lease| &lease.leader)));
            }
            let Some((bytes, version)) = bucket.objects().get_version(PATH).await? else {
                return Err(led("nobody: its lease was removed"));
            };
            // Somebody may have taken it over already, from one that was very slow.
            return match open(&bytes).filter(|now| now.leader == leader && now.count == 1) {
                Some(_) => Ok(Self::with(bucket, leader, lasts, 1, version, sent + lasts)),
                None => Err(led("another coordinator")),
            };
        };
        // A damaged one is as good as one that nobody renews.
        let lease = open(&bytes).unwrap_or(Lease { leader: "another coordinator".into(), count: 0, free: false });
        if !lease.free {
            waits(&lease.leader);
            // A tenth more, for clocks that run at different rates.
            tokio::time::sleep(lasts + lasts / 10).await;
            match bucket.objects().get_version(PATH).await? {
                Some((_, now)) if now == version => {}
                changed => {
                    let by = changed.and_then(|(bytes, _)| open(&bytes)).filter(|lease| !lease.free);
                    return Err(led(by.as_ref().map_or("nobody any more: try again", |lease| &lease.leader)));
                }
            }
        }
        let sent = fence::now();
        let mine = Lease { leader: leader.to_owned(), count: lease.count + 1, free: false };
        match bucket.put_if(PATH, seal(&mine), &version).await? {
            Some(version) => Ok(Self::with(bucket, leader, lasts, mine.count, version, sent + lasts)),
            None => Err(led("another coordinator, which was faster")),
        }
    }

    fn with(bucket: &Bucket, leader: &str, lasts: Duration, count: u64, version: Version, until: Duration) -> Self {
        bucket.objects().fence().open_until(until);
        Self { bucket: bucket.clone(), leader: leader.to_owned(), lasts, count, version, until }
    }

    /// Renews the lease as long as it can. Returns why it could not any more: from then on nothing can be written through this bucket.
    /// May be dropped at any moment, and called again soon.
    pub async fn keep(&mut self) -> StoreError {
        loop {
            let due = self.until.saturating_sub(self.lasts) + self.lasts / RENEWALS;
            tokio::time::sleep(due.saturating_sub(fence::now())).await;
            let sent = fence::now();
            let lease = Lease { leader: self.leader.clone(), count: self.count + 1, free: false };
            let left = self.until.saturating_sub(sent);
            let renewed = tokio::time::timeout(left, self.bucket.put_if(PATH, seal(&lease), &self.version)).await;
            let lost = StoreError::NotLeading { path: self.bucket.objects().shown("") };
            match renewed {
                Ok(Ok(Some(version))) => {
                    (self.version, self.count, self.until) = (version, lease.count, sent + self.lasts);
                    self.bucket.objects().fence().open_until(self.until);
                }
                // A renewal whose answer was lost has changed the version too.
                Ok(Ok(None)) => match self.bucket.objects().get_version(PATH).await {
                    Ok(Some((bytes, version))) if bytes == seal(&lease) && fence::now() < self.until => {
                        (self.version, self.count) = (version, lease.count);
                    }
                    _ => {
                        self.bucket.objects().fence().open_until(Duration::ZERO);
                        return lost;
                    }
                },
                Ok(Err(error)) if fence::now() < self.until => {
                    tracing::warn!(%error, "the lead cannot be renewed; trying again");
                    tokio::time::sleep(self.lasts / 20).await;
                }
                Ok(Err(_)) | Err(_) => {
                    self.bucket.objects().fence().open_until(Duration::ZERO);
                    return lost;
                }
            }
        }
    }

    /// Gives the lead back: the next one need not wait.
    pub async fn give_back(self) {
        let free = Lease { leader: self.leader, count: self.count + 1, free: true };
        // If that fails the next one waits.
        if let Err(error) = self.bucket.put_if(PATH, seal(&free), &self.version).await {
            tracing::warn!(%error, "the lead cannot be given back; the next coordinator will wait for its end");
        }
        self.bucket.objects().fence().open_until(Duration::ZERO);
    }
}

fn seal(lease: &Lease) -> Vec<u8> {
    serde_json::to_vec(lease).expect("strings and numbers are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(2);

    async fn take(bucket: &Bucket, who: &str) -> Result<BucketLead, StoreError> {
        BucketLead::take(bucket, who, LASTS, |_| {}).await
    }

    #[tokio::test]
    async fn one_leads_and_the_other_hears_who() {
        let bucket = Bucket::in_memory();
        let mut first = take(&bucket, "first").await.unwrap();
        let (refused, _) = tokio::join!(take(&bucket, "second"), tokio::time::timeout(LASTS * 3, first.keep()));
        assert!(matches!(&refused, Err(StoreError::Led { leader, .. }) if leader == "first"), "{refused:?}");
        // Given back, it is had at once.
        first.give_back().await;
        take(&bucket, "second").await.unwrap();
    }

    #[tokio::test]
    async fn a_leader_that_is_silent_is_replaced_and_cannot_write_any_more() {
        let bucket = Bucket::in_memory();
        let mut old = take(&bucket, "old").await.unwrap();
        bucket.objects().put_new("a", b"1".to_vec()).await.unwrap();
        let told = std::sync::Mutex::new(String::new());
        // Its own view of the same objects, as another machine has it.
        let other = bucket.again();
        let new = BucketLead::take(&other, "new", LASTS, |who| *told.lock().unwrap() = who.to_owned()).await.unwrap();
        assert_eq!(*told.lock().unwrap(), "old");
        assert!(matches!(bucket.objects().put_new("b", b"1".to_vec()).await, Err(StoreError::NotLeading { .. })));
        assert!(matches!(bucket.objects().delete("a").await, Err(StoreError::NotLeading { .. })));
        assert!(matches!(old.keep().await, StoreError::NotLeading { .. }));
        other.objects().put_new("b", b"2".to_vec()).await.unwrap();
        drop(new);
    }

    #[tokio::test]
    async fn of_many_that_come_at_once_one_leads() {
        let bucket = Bucket::in_memory();
        take(&bucket, "gone").await.unwrap().give_back().await;
        let all: Vec<_> = (0..8)
            .map(|n| {
                let bucket = bucket.again();
                tokio::spawn(async move {
                    let Ok(mut lead) = take(&bucket, &n.to_string()).await else { return false };
                    tokio::time::timeout(LASTS * 4, lead.keep()).await.is_err()
                })
            })
            .collect();
        let mut leaders = 0;
        for one in all {
            leaders += u32::from(one.await.unwrap());
        }
        assert_eq!(leaders, 1);
    }
}
