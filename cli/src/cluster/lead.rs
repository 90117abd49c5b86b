//! Who leads a store: one coordinator at a time.

use crate::output;
use std::time::Duration;
use strata_storage::{BucketLead, Store, StoreError, StoreLock, prove};

/// A store that does not answer for so long is worth a word.
const SILENCE: Duration = Duration::from_secs(3);
/// A coordinator that has not renewed its lease on an object store for so long has lost the lead.
const LEAD: Duration = Duration::from_secs(15);

/// The lead of a store.
pub enum Lead {
    /// Held as long as it is there.
    Folder {
        /// The lock.
        _lock: StoreLock,
    },
    /// A lease that must be renewed.
    Bucket(BucketLead),
}

impl Lead {
    /// Takes it, after the store was found to hold to what commits rest on.
    pub async fn take(store: &Store, leader: &str) -> Result<Self, StoreError> {
        match store {
            Store::Folder(folder) => Ok(Self::Folder { _lock: StoreLock::take(folder, leader)? }),
            Store::Bucket(bucket) => {
                let mut proving = std::pin::pin!(prove(bucket));
                tokio::select! {
                    proved = &mut proving => proved?,
                    () = tokio::time::sleep(SILENCE) => {
                        output::note(&format!("note: {} does not answer yet; trying for three minutes", bucket.url()));
                        proving.await?;
                    }
                }
                let waits =
                    |who: &str| output::note(&format!("{} was led by {who}; waiting to see whether it still is", bucket.url()));
                Ok(Self::Bucket(BucketLead::take(bucket, leader, LEAD, waits).await?))
            }
        }
    }

    /// Keeps it. Returns why it is lost.
    pub async fn keep(&mut self) -> StoreError {
        match self {
            Self::Folder { .. } => std::future::pending().await,
            Self::Bucket(lead) => lead.keep().await,
        }
    }

    /// Lets the next one have it at once.
    pub async fn give_back(self) {
        if let Self::Bucket(lead) = self {
            lead.give_back().await;
        }
    }
}
