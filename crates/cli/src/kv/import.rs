//! `longarm kv import-rdb`: files of Redis into a table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use longarm_kv::{KvCluster, KvError, KvServer, KvTable, PutExpiry, PutIf};
use longarm_resp::{RdbError, RdbReader, RdbString};

use super::target::TableTarget;
use crate::error::Error;

/// Put the strings of an RDB file, which Redis writes with SAVE and BGSAVE, into a table of a running server or cluster. A key that the
/// table has gets the file's value. The file is read twice: a damaged one changes nothing
#[derive(Args, Debug)]
pub(super) struct KvImportArgs {
    /// The file, dump.rdb of Redis
    file: PathBuf,
    #[command(flatten)]
    target: TableTarget,
    #[command(flatten)]
    choice: ImportChoice,
}

/// The part of a file that is imported.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "RDB files")]
pub(super) struct ImportChoice {
    /// Leave out keys whose values are no strings. Without it, a file that has some is refused
    #[arg(long)]
    skip_other_types: bool,
    /// The number of the file's database. Without it, a file that has keys in several is refused
    #[arg(long, value_name = "N")]
    database: Option<u64>,
}

/// The content of a file that was read to its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct RdbContent {
    version: u32,
    /// Keys with strings that go to the table.
    keys: u64,
    /// Keys whose time is over.
    expired: u64,
    /// All others, by the name of their type.
    others: Vec<(&'static str, u64)>,
}

/// `longarm kv import-rdb`
pub(super) fn run(args: &KvImportArgs) -> Result<(), Error> {
    let (content, database) = check(&args.file, &args.choice)?;
    let mut table = ImportTable::One(Box::new(args.target.open()?));
    for_each(&args.file, database, |found, expiry| table.put(&found, expiry, &args.target))?;
    report(&args.file, &content);
    Ok(())
}

/// Puts a file into a table of a server in this process, which must be empty.
pub(super) fn into_server(server: &KvServer, table: &str, file: &Path, choice: &ImportChoice) -> Result<(), Error> {
    let (content, database) = check(file, choice)?;
    let refused = |why: &str| Error::Usage(format!("--import-rdb: the table {table:?} {why}"));
    let local = server.local_table(table).ok_or_else(|| refused("is none that only the server writes"))?;
    if local.lock().keys() > 0 {
        return Err(refused("has keys already: `longarm kv import-rdb` imports into a running server"));
    }
    for_each(file, database, |found, expiry| {
        // The lock is free between two keys.
        local.lock().put(&found.key, &found.value, PutIf::Always, expiry)?;
        Ok(())
    })?;
    local.wait_for_disk()?;
    report(file, &content);
    Ok(())
}

/// A table of one server, or of a cluster.
enum ImportTable {
    One(Box<KvTable>),
    Spread(Box<KvCluster>),
}

impl ImportTable {
    fn put(&mut self, found: &RdbString, expiry: PutExpiry, target: &TableTarget) -> Result<(), Error> {
        let RdbString { key, value, .. } = found;
        let put = |table: &mut KvTable| table.put_with(key, value, PutIf::Always, expiry).map(drop);
        let one = match self {
            ImportTable::Spread(cluster) => return Ok(cluster.with(key, put)?),
            ImportTable::One(table) => put(table),
        };
        // A server that tells of others is a member of a cluster.
        let Err(KvError::Moved { .. }) = one else { return Ok(one?) };
        let mut cluster = KvCluster::open(&[&target.server], &target.table, target.options()?)?;
        cluster.with(key, put)?;
        *self = ImportTable::Spread(Box::new(cluster));
        Ok(())
    }
}

fn report(file: &Path, content: &RdbContent) {
    let RdbContent { version, keys, expired, others } = content;
    println!("{}: RDB version {version}: {keys} keys imported, {expired} had expired", file.display());
    for (name, count) in others {
        println!("left out: {count} of type {name}");
    }
}

/// Reads a file to its end, and refuses what the choice does not allow. Returns the database that counts.
fn check(file: &Path, choice: &ImportChoice) -> Result<(RdbContent, u64), Error> {
    let failed = |why: String| Error::Usage(format!("{}: {why}", file.display()));
    let mut rdb = open(file)?;
    let (mut content, mut database) = (RdbContent { version: rdb.version(), ..RdbContent::default() }, choice.database);
    while let Some(found) = rdb.next_string().map_err(|error| failed(error.to_string()))? {
        let wanted = *database.get_or_insert(found.database);
        match (found.database == wanted, choice.database) {
            (false, None) => {
                let words = format!("keys in the databases {wanted} and {}: --database chooses one", found.database);
                return Err(failed(words));
            }
            (false, Some(_)) => {}
            (true, _) if expiry_of(&found).is_none() => content.expired += 1,
            (true, _) => content.keys += 1,
        }
    }
    content.others = rdb.others().iter().map(|(name, count)| (*name, *count)).collect();
    if !choice.skip_other_types && !content.others.is_empty() {
        let list: Vec<String> = content.others.iter().map(|(name, count)| format!("{count} of type {name}")).collect();
        return Err(failed(format!("not only strings: {}. --skip-other-types leaves them out", list.join(", "))));
    }
    Ok((content, database.unwrap_or(0)))
}

fn for_each(
    file: &Path,
    database: u64,
    mut each: impl FnMut(RdbString, PutExpiry) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut rdb = open(file)?;
    let failed = |error: RdbError| Error::Usage(format!("{}: {error}", file.display()));
    while let Some(found) = rdb.next_string().map_err(failed)? {
        if let Some(expiry) = expiry_of(&found).filter(|_| found.database == database) {
            each(found, expiry)?;
        }
    }
    Ok(())
}

fn open(file: &Path) -> Result<RdbReader<File>, Error> {
    let source = File::open(file).map_err(|error| Error::File(file.display().to_string(), error))?;
    RdbReader::new(source).map_err(|error| Error::Usage(format!("{}: {error}", file.display())))
}

/// The rest of a key's life; `None` if it is over.
fn expiry_of(found: &RdbString) -> Option<PutExpiry> {
    let Some(at_ms) = found.expires_unix_ms else { return Some(PutExpiry::Never) };
    let at = Duration::from_millis(u64::try_from(at_ms).ok()?);
    let left = at.checked_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())?;
    match u64::try_from(left.as_nanos()) {
        Ok(0) => None,
        Ok(ns) => Some(PutExpiry::AfterNs(ns)),
        // Centuries.
        Err(_) => Some(PutExpiry::Never),
    }
}
