//! Users and their passwords. Each user that is on may do everything: there are no rights by command or key.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The user of clients that name none.
pub(crate) const DEFAULT: &str = "default";

/// Users of a door.
#[derive(Clone, Debug, Default)]
pub struct Users(BTreeMap<String, RespUser>);

#[derive(Clone, Debug, Default)]
struct RespUser {
    is_on: bool,
    needs_none: bool,
    /// Rights to keys, channels and commands.
    rights: [bool; 3],
    /// SHA-256 of each password.
    passwords: Vec<[u8; 32]>,
}

/// A line that describes no user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the users: {why}")]
pub struct UsersError {
    /// The line's number, from one.
    pub line: usize,
    /// The reason.
    pub why: String,
}

impl Users {
    /// One user, with one password: `requirepass` in Redis.
    pub fn with_password(password: &[u8]) -> Users {
        let user = RespUser {
            is_on: true,
            needs_none: false,
            rights: [true; 3],
            passwords: vec![Sha256::digest(password).into()],
        };
        Users(BTreeMap::from([(DEFAULT.into(), user)]))
    }

    /// Users from the lines of an ACL file: `user alice on >password ~* &* +@all`, `user bob off #SHA256…`. Without a line for
    /// the user `default`, clients must name themselves.
    ///
    /// # Errors
    /// If a line grants a part of the rights: only all or none can be granted.
    pub fn parse(text: &str) -> Result<Users, UsersError> {
        let mut users = Users(BTreeMap::from([(DEFAULT.into(), RespUser::default())]));
        for (number, line) in text.lines().enumerate() {
            let refused = |why: String| UsersError { line: number + 1, why };
            let mut words = line.split_whitespace();
            match words.next() {
                None => continue,
                Some(first) if first.starts_with('#') => continue,
                Some("user") => {}
                Some(other) => return Err(refused(format!("it begins with {other:?}, not with \"user\""))),
            }
            let name = words.next().ok_or_else(|| refused("it names no user".into()))?;
            let user = users.0.entry(name.into()).or_default();
            for rule in words {
                user.apply(rule).map_err(refused)?;
            }
            if user.is_on && user.rights != [true; 3] {
                return Err(refused(format!(
                    "the user {name:?} is on but lacks ~*, &* or +@all: users have all rights or none"
                )));
            }
        }
        Ok(users)
    }

    /// True if somebody must give a password.
    pub fn need_password(&self) -> bool {
        !self.welcomes_strangers()
    }

    /// True if a client that gives no password may do everything.
    pub(crate) fn welcomes_strangers(&self) -> bool {
        self.0.is_empty() || self.0.get(DEFAULT).is_some_and(|user| user.is_on && user.needs_none)
    }

    /// True if the default user has a password.
    pub(crate) fn has_default_password(&self) -> bool {
        self.0.get(DEFAULT).is_some_and(|user| !user.passwords.is_empty() || !user.is_on)
    }

    /// True if there is a user of that name.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        name == DEFAULT.as_bytes() || std::str::from_utf8(name).is_ok_and(|name| self.0.contains_key(name))
    }

    /// True if this is the user's password.
    pub(crate) fn prove(&self, name: &[u8], password: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(name).ok()?;
        if self.0.is_empty() && name == DEFAULT {
            return Some(DEFAULT.into());
        }
        let user = self.0.get(name).filter(|user| user.is_on)?;
        let hash: [u8; 32] = Sha256::digest(password).into();
        let is_known = user.passwords.iter().fold(false, |known, one| known | bool::from(one.ct_eq(&hash)));
        (is_known || user.needs_none).then(|| name.into())
    }
}

impl RespUser {
    fn apply(&mut self, rule: &str) -> Result<(), String> {
        match (rule, rule.split_at_checked(1)) {
            ("on", _) => self.is_on = true,
            ("off", _) => self.is_on = false,
            ("nopass", _) => (self.needs_none, self.passwords) = (true, Vec::new()),
            ("resetpass", _) => (self.needs_none, self.passwords) = (false, Vec::new()),
            ("~*" | "allkeys", _) => self.rights[0] = true,
            ("&*" | "allchannels", _) => self.rights[1] = true,
            ("+@all" | "allcommands", _) => self.rights[2] = true,
            (_, Some((">", password))) => self.passwords.push(Sha256::digest(password).into()),
            (_, Some(("#", digits))) => self.passwords.push(hash_of(digits)?),
            _ => {
                return Err(format!(
                    "{rule:?}: users have all rights or none: on, off, nopass, >PASSWORD, #SHA256, ~*, &*, +@all"
                ));
            }
        }
        Ok(())
    }
}

fn hash_of(digits: &str) -> Result<[u8; 32], String> {
    let mut hash = [0; 32];
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2).and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    let bytes = bytes.filter(|bytes| bytes.len() == 32).ok_or("a SHA-256 has 64 hexadecimal digits")?;
    hash.copy_from_slice(&bytes);
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_prove_themselves_by_passwords_or_hashes() {
        let hash: String = Sha256::digest(b"two").iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "# comment\nuser alice on >one #{hash} ~* &* +@all\n\nuser bob off >one\nuser eve on nopass ~* &* +@all"
        );
        let users = Users::parse(&text).unwrap();
        for (name, password, wanted) in [
            ("alice", "one", true),
            ("alice", "two", true),
            ("alice", "", false),
            ("bob", "one", false),
            ("eve", "x", true),
            ("default", "", false),
            ("none", "", false),
        ] {
            assert_eq!(users.prove(name.as_bytes(), password.as_bytes()).is_some(), wanted, "{name} {password}");
        }
        assert!(users.need_password() && !Users::default().need_password());
        assert!(Users::with_password(b"p").prove(b"default", b"p").is_some());
    }

    #[test]
    fn partial_rights_are_refused() {
        for line in [
            "user a +get",
            "user a ~x*",
            "user a #12",
            "user",
            "alice on",
            "user a -@all",
            "user a on >p",
            "user a on >p ~* +@all",
        ] {
            assert!(Users::parse(line).is_err(), "{line}");
        }
    }
}
