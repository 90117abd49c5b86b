//! A folder with what one process of the cluster shows to the others: `ca.pem`, `cert.pem`, `key.pem`.

use crate::failure::Failure;
use crate::output::shell_quote;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use strata_coordinator::Tls;

/// Certificate of the authority.
pub const CA: &str = "ca.pem";
/// Key of the authority; only where certificates are made.
pub const CA_KEY: &str = "ca.key";
/// Own certificate.
pub const CERT: &str = "cert.pem";
/// Own key.
pub const KEY: &str = "key.pem";

/// Reads such a folder.
pub fn read(dir: &Path) -> Result<Tls, Failure> {
    let read = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path).map_err(|e| {
            let shown = shell_quote(&path.to_string_lossy()).into_owned();
            Failure::failed(format!("cannot read {shown}: {e}"))
                .help(format!("--tls names a folder with {CA}, {CERT} and {KEY}; `strata certs` makes one"))
        })
    };
    Ok(Tls { authority: read(CA)?, certificate: read(CERT)?, key: read(KEY)? })
}

/// Whether what goes to this address stays on this machine.
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => {
            host == "localhost" && address.to_socket_addrs().is_ok_and(|mut found| found.all(|found| found.ip().is_loopback()))
        }
    }
}

/// Refuses to talk in the clear to another machine, unless that was asked for.
pub fn expect_safe(address: &str, tls: bool, insecure: bool) -> Result<(), Failure> {
    if tls || insecure || is_loopback(address) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{address} is not on this machine, and without --tls anybody on the network could join or stop builds"
    ))
    .help("`strata certs` makes certificates for --tls DIR; --insecure does without, on a network that you trust"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_other_addresses() {
        for address in ["127.0.0.1:7240", "[::1]:1", "127.9.9.9:80", "localhost:7240"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0:7240", "[::]:1", "10.0.0.1:7240", "example.org:7240", "localhost.example.org:7240", "7240"] {
            assert!(!is_loopback(address), "{address}");
            assert_eq!(expect_safe(address, false, false).unwrap_err().code, 2);
            assert!(expect_safe(address, true, false).is_ok() && expect_safe(address, false, true).is_ok());
        }
    }
}
