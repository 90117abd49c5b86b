//! The listener for Prometheus and for probes, which have no certificate. Nothing can be changed through it.

use super::tls::is_loopback;
use crate::failure::Failure;
use crate::output;
use strata_coordinator::Coordinator;
use tokio::net::TcpListener;

/// Serves `/metrics` and `/healthz` of a coordinator until the process ends.
pub async fn serve(coordinator: &Coordinator, address: &str) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::failed(format!("cannot listen on {address} for metrics: {e}"))
            .help("--metrics HOST:PORT names another address; port 0 takes a free one")
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    output::note(&format!("metrics on http://{}/metrics", listener.local_addr().map_err(cannot)?));
    let coordinator = coordinator.clone();
    tokio::spawn(async move {
        if let Err(error) = coordinator.serve_metrics(listener).await {
            output::note(&format!("note: no metrics any more: {error}"));
        }
    });
    Ok(())
}

/// Refuses to tell other machines anything, unless that was asked for.
pub fn expect_told(address: &str, insecure: bool) -> Result<(), Failure> {
    if insecure || is_loopback(address) {
        return Ok(());
    }
    Err(Failure::usage(format!("{address} is not on this machine, and metrics are served in the clear"))
        .help("--metrics-insecure lets other machines read them, on a network that you trust"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_leave_the_machine_only_when_told_to() {
        assert!(expect_told("127.0.0.1:9240", false).is_ok());
        assert!(expect_told("0.0.0.0:9240", true).is_ok());
        let refused = expect_told("0.0.0.0:9240", false).unwrap_err();
        assert!(refused.code == 2 && refused.message.contains("0.0.0.0:9240"), "{refused:?}");
    }
}
