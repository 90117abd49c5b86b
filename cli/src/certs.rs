//! `strata certs`: the certificates of a cluster. An authority that signs nothing but these, and for every process one that says its role.

use crate::cluster::tls::{CA, CA_KEY, CERT, KEY};
use crate::failure::Failure;
use crate::output::{self, shell_quote};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use strata_coordinator::{COORDINATOR_NAME, ROLE_URI, Role};
use time::{Duration, OffsetDateTime};

/// Whose certificate.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata certs ca --out authority
  strata certs coordinator --ca authority --out tls/coordinator
  strata certs worker --ca authority --out tls/worker
  strata certs client --ca authority --out tls/client

Each folder goes to the --tls of its process. The authority's own folder stays where certificates are made. Certificates are for 90
days, the authority for 5 years. They name roles and not machines: a coordinator may move. Keys are readable by their owner alone. Nothing is written over.")]
pub struct Args {
    #[command(subcommand)]
    role: Whose,
}

#[derive(clap::Subcommand, Debug)]
enum Whose {
    /// Make the authority that signs the others
    Ca {
        /// The folder to make
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Make a coordinator's certificate
    Coordinator {
        #[command(flatten)]
        made: Made,
    },
    /// Make a worker's certificate; all workers may share one
    Worker {
        #[command(flatten)]
        made: Made,
    },
    /// Make the certificate of somebody who submits and stops jobs
    Client {
        #[command(flatten)]
        made: Made,
    },
}

#[derive(clap::Args, Debug)]
struct Made {
    /// The folder of the authority
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The folder to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Days that a certificate is good for.
const DAYS: i64 = 90;
/// Days that the authority is.
const AUTHORITY_DAYS: i64 = 5 * 365;
/// Clocks may be so far behind.
const SLACK: Duration = Duration::hours(1);

/// Makes them.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.role {
        Whose::Ca { out } => authority(out),
        Whose::Coordinator { made } => leaf(made, Role::Coordinator),
        Whose::Worker { made } => leaf(made, Role::Worker),
        Whose::Client { made } => leaf(made, Role::Client),
    }
}

fn authority(out: &Path) -> Result<(), Failure> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Strata cluster authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for(&mut params, AUTHORITY_DAYS);
    let key = KeyPair::generate().map_err(cannot_make)?;
    let certificate = params.self_signed(&key).map_err(cannot_make)?;
    write(out, &[(CA, certificate.pem()), (CA_KEY, key.serialize_pem())])?;
    output::result(&format!("made an authority in {}\n", shell_quote(&out.to_string_lossy())))
}

fn leaf(made: &Made, role: Role) -> Result<(), Failure> {
    let read = |name: &str| {
        let path = made.ca.join(name);
        fs::read_to_string(&path).map_err(|e| {
            let shown = shell_quote(&path.to_string_lossy()).into_owned();
            Failure::failed(format!("cannot read {shown}: {e}")).help("--ca names the folder that `strata certs ca` made")
        })
    };
    let (ca, ca_key) = (read(CA)?, read(CA_KEY)?);
    let unfit = |e: rcgen::Error| {
        Failure::failed(format!("the authority in {} cannot sign: {e}", shell_quote(&made.ca.to_string_lossy())))
    };
    let issuer = Issuer::from_ca_cert_pem(&ca, KeyPair::from_pem(&ca_key).map_err(unfit)?).map_err(unfit)?;
    let mut params = CertificateParams::default();
    if role == Role::Coordinator {
        params.subject_alt_names.push(SanType::DnsName(COORDINATOR_NAME.try_into().map_err(cannot_make)?));
    }
    params.distinguished_name.push(DnType::CommonName, format!("Strata {}", role.name()));
    let uri = format!("{ROLE_URI}{}", role.name()).try_into().map_err(cannot_make)?;
    params.subject_alt_names.push(SanType::URI(uri));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Nobody but a coordinator can serve, and a coordinator is nobody's client.
    params.extended_key_usages = vec![match role {
        Role::Coordinator => ExtendedKeyUsagePurpose::ServerAuth,
        Role::Worker | Role::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    params.use_authority_key_identifier_extension = true;
    valid_for(&mut params, DAYS);
    let key = KeyPair::generate().map_err(cannot_make)?;
    let certificate = params.signed_by(&key, &issuer).map_err(cannot_make)?;
    write(&made.out, &[(CA, ca), (CERT, certificate.pem()), (KEY, key.serialize_pem())])?;
    let shown = shell_quote(&made.out.to_string_lossy()).into_owned();
    output::result(&format!("made a {}'s certificate in {shown}, for {DAYS} days\n", role.name()))
}

fn valid_for(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - SLACK, now + Duration::days(days));
}

fn cannot_make(e: rcgen::Error) -> Failure {
    Failure::failed(format!("cannot make a certificate: {e}"))
}

/// Writes files that nobody else may read into a folder; none of them may be there.
fn write(dir: &Path, files: &[(&str, String)]) -> Result<(), Failure> {
    let shown = |path: &Path| shell_quote(&path.to_string_lossy()).into_owned();
    if let Some((name, _)) = files.iter().find(|(name, _)| dir.join(name).exists()) {
        return Err(Failure::failed(format!("{} is there already, and nothing is written over", shown(&dir.join(name))))
            .help("name another folder with --out, or remove it first"));
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Failure::failed(format!("cannot make {}: {e}", shown(dir))))?;
    for (name, text) in files {
        let path = dir.join(name);
        let cannot = |e: std::io::Error| Failure::failed(format!("cannot write {}: {e}", shown(&path)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(cannot)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
    }
    Ok(())
}
