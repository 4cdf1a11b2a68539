//! The records of a file (`rdbLoadRioWithLoadingCtx` of Redis).

use std::collections::BTreeMap;
use std::io::Read;

use super::error::RdbError;
use super::input::RdbInput;
use super::skip::type_name;

/// The newest version that is known.
const NEWEST: u32 = 11;
/// The oldest version whose files end with a checksum.
const WITH_CHECKSUM: u32 = 5;

const FUNCTIONS: u8 = 245;
const MODULE_AUX: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUX: u8 = 250;
const RESIZE_DB: u8 = 251;
const EXPIRES_MS: u8 = 252;
const EXPIRES_S: u8 = 253;
const SELECT_DB: u8 = 254;
const END: u8 = 255;

/// A key whose value is a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdbString {
    /// The database, as of `SELECT`.
    pub database: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The end of its life, in milliseconds since 1970; `None` if it stays.
    pub expires_unix_ms: Option<i64>,
}

/// Reads an RDB file of Redis, versions 1 to 11. It keeps one key and one value in memory, whatever the file claims.
///
/// ```
/// use longarm_resp::RdbReader;
///
/// // A file of version 4, which has no checksum: SET k 7 in database 0.
/// let mut rdb = RdbReader::new(&b"REDIS0004\xFE\x00\x00\x01k\xC0\x07\xFF"[..])?;
/// let found = rdb.next_string()?.expect("a key");
/// assert_eq!((found.key, found.value), (b"k".to_vec(), b"7".to_vec()));
/// assert!(rdb.next_string()?.is_none());
/// # Ok::<(), longarm_resp::RdbError>(())
/// ```
pub struct RdbReader<R> {
    input: RdbInput<R>,
    version: u32,
    database: u64,
    others: BTreeMap<&'static str, u64>,
    is_done: bool,
}

impl<R: Read> RdbReader<R> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// If it is no RDB file, or one of a version that is not known.
    pub fn new(source: R) -> Result<RdbReader<R>, RdbError> {
        let mut input = RdbInput::new(source);
        let head: [u8; 9] = input.array().map_err(|error| match error {
            RdbError::Torn(_) => RdbError::NotRdb,
            other => other,
        })?;
        let digits = head.strip_prefix(b"REDIS").filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let digits = digits.ok_or(RdbError::NotRdb)?;
        let version = digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        if !(1..=NEWEST).contains(&version) {
            return Err(RdbError::Version(version));
        }
        Ok(RdbReader { input, version, database: 0, others: BTreeMap::new(), is_done: false })
    }

    /// The version of the file's form.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The keys of other types than strings that were passed over, by type. `function` and `module data` are no keys, but were
    /// passed over as well.
    pub fn others(&self) -> &BTreeMap<&'static str, u64> {
        &self.others
    }

    /// The next key whose value is a string; `None` at the end, if the checksum is right.
    ///
    /// # Errors
    /// See [`RdbError`]. Nothing more is to be read then.
    pub fn next_string(&mut self) -> Result<Option<RdbString>, RdbError> {
        if self.is_done {
            return Ok(None);
        }
        // After an error, too.
        self.is_done = true;
        let mut expires_unix_ms = None;
        loop {
            match self.input.byte()? {
                END => return self.end().map(|()| None),
                EXPIRES_S => expires_unix_ms = Some(i64::from(i32::from_le_bytes(self.input.array()?)) * 1000),
                EXPIRES_MS => expires_unix_ms = Some(i64::from_le_bytes(self.input.array()?)),
                0 => {
                    let (key, value) = (self.input.string()?, self.input.string()?);
                    self.is_done = false;
                    return Ok(Some(RdbString { database: self.database, key, value, expires_unix_ms }));
                }
                other if other < FUNCTIONS => {
                    self.pass_key(other)?;
                    expires_unix_ms = None;
                }
                other => self.pass_record(other)?,
            }
        }
    }

    fn pass_key(&mut self, kind: u8) -> Result<(), RdbError> {
        let name = type_name(kind).ok_or_else(|| self.input.damaged(format!("there is no type {kind}")))?;
        self.input.skip_string()?;
        self.input.skip_value(kind)?;
        *self.others.entry(name).or_default() += 1;
        Ok(())
    }

    /// A record that is no key.
    fn pass_record(&mut self, record: u8) -> Result<(), RdbError> {
        match record {
            SELECT_DB => self.database = self.input.length()?,
            RESIZE_DB => {
                self.input.length()?;
                self.input.length()?;
            }
            AUX => {
                self.input.skip_string()?;
                self.input.skip_string()?;
            }
            IDLE => drop(self.input.length()?),
            FREQUENCY => drop(self.input.byte()?),
            FUNCTIONS => {
                self.input.skip_string()?;
                *self.others.entry("function").or_default() += 1;
            }
            MODULE_AUX => {
                self.input.length()?;
                self.input.skip_module_parts()?;
                *self.others.entry("module data").or_default() += 1;
            }
            other => return Err(self.input.damaged(format!("there is no record {other}"))),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), RdbError> {
        if self.version >= WITH_CHECKSUM {
            let checksum = self.input.checksum();
            let claimed = u64::from_le_bytes(self.input.array()?);
            // Zero: Redis was told to make none.
            if claimed != 0 && claimed != checksum {
                return Err(RdbError::Checksum);
            }
        }
        match self.input.is_at_end()? {
            true => Ok(()),
            false => Err(self.input.damaged("bytes follow the end")),
        }
    }
}

impl<R> std::fmt::Debug for RdbReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RdbReader(version {}, database {})", self.version, self.database)
    }
}
