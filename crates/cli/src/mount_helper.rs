//! What mount(8) says to its helpers, in the words of `trireme mount`: for `mount -t fuse.trireme`, for lines
//! of fstab, and for remounting. Only words change here; what they do is in `command/mount.rs`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Sources that name no cluster: the default one, and what the mount table shows for any.
const DEFAULT: [&str; 3] = ["default", "trireme", "none"];

/// Options for other readers of fstab, and those that are so in any case.
const NOTHING_TO_DO: [&str; 21] = [
    "_netdev",
    "async",
    "auto",
    "default_permissions",
    "defaults",
    "diratime",
    "group",
    "noauto",
    "nodiratime",
    "nofail",
    "nogroup",
    "nolazytime",
    "noowner",
    "norelatime",
    "nostrictatime",
    "nouser",
    "nousers",
    "owner",
    "relatime",
    "user",
    "users",
];

/// The options with a value that are for others; the last ones stand in the mount table.
const VALUES_OF_OTHERS: [&str; 12] = [
    "comment", "fsname", "group_id", "helper", "max_read", "blksize", "rootmode", "subtype",
    "uhelper", "user", "user_id", "fd",
];

/// Options with a value, and what they are called here.
const VALUES: [(&str, &str); 4] = [
    ("cache", "--cache"),
    ("ttl", "--cache"),
    ("timeout", "--timeout"),
    ("log", "--log"),
];

/// Options that turn something on, and those that turn it off again.
const SWITCHES: [(&str, &str, &str); 11] = [
    ("ro", "rw", "--read-only"),
    ("noatime", "atime", "--no-atime"),
    ("nosuid", "suid", "--no-suid"),
    ("nodev", "dev", "--no-dev"),
    ("noexec", "exec", "--no-exec"),
    ("allow_other", "", "--allow-other"),
    ("only_me", "", "--only-me"),
    ("nocache", "", "--no-cache"),
    ("no_io_uring", "", "--no-io-uring"),
    ("striped", "", "--striped"),
    ("remount", "", "--remount"),
];

/// The words of a command line: as they are, or translated if mount(8) wrote them. `None`: there is nothing
/// to do. `is_command` tells our own commands.
pub fn translate(
    words: Vec<OsString>,
    is_command: impl Fn(&OsStr) -> bool,
) -> anyhow::Result<Option<Vec<OsString>>> {
    let program = words.first().map(Path::new).and_then(Path::file_name);
    let by_name = program.is_some_and(|name| name.as_encoded_bytes().starts_with(b"mount."));
    // `trireme SOURCE DIR -o OPTIONS`, as mount.fuse3 says it.
    let by_form = words.len() == 5 && words[3] == "-o" && !is_command(&words[1]);
    if !by_name && !by_form {
        return Ok(Some(words));
    }
    let mut places = Vec::new();
    let mut options: Vec<String> = Vec::new();
    let (mut sloppy, mut pretend) = (false, false);
    let mut rest = words.into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-o") => {
                let text = rest.next().unwrap_or_default();
                let text = text.to_string_lossy();
                options.extend(text.split(',').map(str::to_owned));
            }
            Some("-t") => _ = rest.next(),
            Some("-r") => options.push("ro".into()),
            Some("-w") => options.push("rw".into()),
            Some("-s") => sloppy = true,
            Some("-f") => pretend = true,
            Some("-n" | "-v") => {}
            Some(flag) if flag.starts_with('-') => {
                anyhow::bail!("{flag}: unknown to trireme as a helper of mount(8)")
            }
            _ => places.push(word),
        }
    }
    let [source, dir] = <[OsString; 2]>::try_from(places).map_err(|places| {
        anyhow::anyhow!(
            "mount(8) names a cluster and a directory, here are {} words",
            places.len()
        )
    })?;
    let options = translate_options(&options, sloppy)?;
    if pretend {
        return Ok(None);
    }
    let mut command: Vec<OsString> = vec!["trireme".into()];
    if !DEFAULT.iter().any(|word| source == *word) && !source.is_empty() {
        command.extend(["--cluster".into(), source]);
    }
    command.extend(["mount".into(), "--quiet".into()]);
    command.extend(options.into_iter().map(OsString::from));
    command.push(dir);
    Ok(Some(command))
}

fn translate_options(options: &[String], sloppy: bool) -> anyhow::Result<Vec<String>> {
    let mut switched: Vec<&str> = Vec::new();
    let mut valued: Vec<(&str, &str)> = Vec::new();
    for option in options.iter().map(String::as_str) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        // As with mount(8), the last word on a thing counts.
        if let Some((_, ours)) = VALUES.iter().find(|(theirs, _)| *theirs == name)
            && let Some(value) = value
        {
            valued.retain(|(known, _)| known != ours);
            valued.push((ours, value));
            continue;
        }
        if value.is_none()
            && let Some((on, _, ours)) = SWITCHES
                .iter()
                .find(|(on, off, _)| option == *on || option == *off)
        {
            switched.retain(|known| known != ours);
            if option == *on {
                switched.push(ours);
            }
            continue;
        }
        let of_others = match value {
            Some(_) => VALUES_OF_OTHERS.contains(&name),
            None => NOTHING_TO_DO.contains(&option) || option.is_empty(),
        };
        let for_tools = option.starts_with("x-") || option.starts_with("X-");
        anyhow::ensure!(
            of_others || for_tools || sloppy,
            "mount option {option:?} is unknown; `trireme mount --help` and docs/mount.md have those that are known"
        );
    }
    // They are those of the process that serves the mount, which goes on as it is.
    if switched.contains(&"--remount") {
        valued.clear();
    }
    let switched = switched.into_iter().map(str::to_owned);
    let valued = valued
        .into_iter()
        .map(|(ours, value)| format!("{ours}={value}"));
    Ok(switched.chain(valued).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        match translate(words, |word| word == "lab" || word == "mount") {
            Ok(None) => Ok("nothing".into()),
            Ok(Some(words)) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                Ok(words.join(" "))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn words_of_mount_become_ours() {
        for (theirs, ours) in [
            (
                "trireme /srv/c /mnt -o rw,dev,suid",
                "trireme --cluster /srv/c mount --quiet /mnt",
            ),
            (
                "trireme trireme /mnt -o remount,ro,relatime,user_id=0,cache=5,default_permissions",
                "trireme mount --quiet --remount --read-only /mnt",
            ),
            (
                "trireme default /mnt -o ro,rw,noatime,nosuid,cache=5,ttl=2,timeout=4,_netdev,x-systemd.automount",
                "trireme mount --quiet --no-atime --no-suid --cache=2 --timeout=4 /mnt",
            ),
            (
                "/sbin/mount.trireme tcp:a:1 /mnt -n -v -r -t fuse.trireme -o nodev,noexec,allow_other",
                "trireme --cluster tcp:a:1 mount --quiet --read-only --no-dev --no-exec --allow-other /mnt",
            ),
            (
                "mount.trireme none /mnt -s -o strange",
                "trireme mount --quiet /mnt",
            ),
            ("mount.trireme none /mnt -f", "nothing"),
            // Ours already.
            ("trireme lab run -o out", "trireme lab run -o out"),
            ("trireme mount /mnt", "trireme mount /mnt"),
        ] {
            assert_eq!(translated(theirs).as_deref(), Ok(ours), "{theirs}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, names) in [
            ("trireme c /mnt -o ro,wrong", "wrong"),
            ("trireme c /mnt -o sync", "sync"),
            ("trireme c /mnt -o ro=1", "ro=1"),
            ("trireme c /mnt -o cache", "cache"),
            ("mount.trireme c /mnt -f -o wrong", "wrong"),
            ("mount.trireme c /mnt -x", "-x"),
            ("mount.trireme c", "1 words"),
        ] {
            let error = translated(line).unwrap_err();
            assert!(error.contains(names), "{line}: {error}");
        }
    }
}
