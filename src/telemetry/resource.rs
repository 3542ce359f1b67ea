//! Builds the resource. Configured attributes take precedence over detected ones, and detected ones over defaults.
//! `telemetry.sdk.*` is always set by the library, whatever is configured.
//!
//! Detectors only read files, each up to 1 MiB: no process is started, and no name is looked up. The parsers get the
//! text of the files as arguments.

use std::env::consts;
use std::path::Path;
use std::sync::Arc;

use crate::config::{Detector, ProviderSettings, demand, read_bounded};
use crate::pipeline::exporter_handle::ResourceSource;
use crate::process::{self, PerProcess};
use crate::record::{Resource, Value, program_name};
use crate::transport::calendar::date_of;

/// The semantic conventions that define the detected attributes.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";
/// Length of the id of a container.
const ID_DIGITS: usize = 64;
/// Unit of the times in `/proc/self/stat`, which is the same on all supported machines.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the source of the encoded resource. Each process detects and encodes the resource once.
pub(super) fn source(settings: &ProviderSettings, detectors: &[Detector]) -> ResourceSource {
    let (settings, detectors) = (settings.clone(), detectors.to_vec());
    let read = |path: &str| Some(String::from_utf8_lossy(&read_bounded(Path::new(path)).ok()?).into_owned());
    let encode = move || {
        let mut resource = settings.named_resource();
        if demand::DETECTORS.is_raised() {
            detect(&detectors, &read, &mut resource);
        }
        resource.with_defaults().field()
    };
    let encoded = PerProcess::new(encode());
    Arc::new(move || encoded.get_or_renew(&encode).clone())
}

/// Adds the detected attributes that the program has not set. `read` returns the text of a file.
fn detect(detectors: &[Detector], read: &dyn Fn(&str) -> Option<String>, resource: &mut Resource) {
    if !detectors.is_empty() && resource.schema_url.is_empty() {
        SCHEMA_URL.clone_into(&mut resource.schema_url);
    }
    if detectors.contains(&Detector::Process) {
        resource.set_default("process.pid", Value::Int(process::id().into()));
    }
    let text = |path: &str| read(path).unwrap_or_default();
    let mut set = |key, value: Option<&str>| {
        if let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) {
            resource.set_default(key, Value::Str(value));
        }
    };
    let container = || {
        let (cgroup, mountinfo) = (text("/proc/self/cgroup"), text("/proc/self/mountinfo"));
        container_id(&cgroup, &mountinfo).map(str::to_owned)
    };
    for detector in detectors {
        match detector {
            Detector::Host => {
                set("host.name", read("/proc/sys/kernel/hostname").as_deref());
                set("host.arch", Some(arch(consts::ARCH)));
                // In a container, the machine id is that of the image, so all containers of an image would share it.
                let has_mark = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| read(path).is_some());
                let is_contained = has_mark || container().is_some();
                let id = read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"));
                let id = id.as_deref().map(str::trim).filter(|id| !is_contained && is_hex(id, 32));
                set("host.id", id);
            }
            Detector::Os => {
                set("os.type", Some(if consts::OS == "macos" { "darwin" } else { consts::OS }));
                let release = read("/etc/os-release").unwrap_or_else(|| text("/usr/lib/os-release"));
                set("os.name", os_release(&release, "NAME").as_deref());
                set("os.version", os_release(&release, "VERSION_ID").as_deref());
                set("os.description", os_release(&release, "PRETTY_NAME").as_deref());
            }
            Detector::Process => {
                set("process.executable.name", program_name().as_deref());
                let created = created(&text("/proc/self/stat"), &text("/proc/stat"));
                set("process.creation.time", created.as_deref());
            }
            Detector::Container => set("container.id", container().as_deref()),
            // `Resource::with_defaults` adds the attributes of the service in any case.
            Detector::Service => {}
        }
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the id of the container in which the process runs: from its control group (version 1), or from the mounts of
/// the files that a container engine provides.
fn container_id<'t>(cgroup: &'t str, mountinfo: &'t str) -> Option<&'t str> {
    let of_group = |line: &'t str| {
        let name = line.rsplit('/').next()?;
        // `ID`, `cri-containerd:ID`, `docker-ID.scope`
        let name = name.rsplit([':', '-']).next()?;
        name.split('.').next().filter(|id| is_hex(id, ID_DIGITS))
    };
    // The fourth field is the mounted directory or file. The fifth, the mount point, is not used: on a host, mount
    // points contain the ids of its containers.
    let mut mounted = mountinfo.lines().filter_map(|line| line.split(' ').nth(3));
    let of_mount = |root: &'t str| {
        let is_group = root.contains("/crio-") || root.contains("cri-containerd:");
        // Matches `…/containers/ID/hostname`, but not the layers in `…/containers/storage/overlay/ID`.
        let mut parent = "";
        let mut parts =
            root.split('/').filter(|part| std::mem::replace(&mut parent, part).ends_with("containers"));
        parts.find(|id| is_hex(id, ID_DIGITS)).or_else(|| of_group(root).filter(|_| is_group))
    };
    cgroup.lines().find_map(of_group).or_else(|| mounted.find_map(of_mount))
}

/// Returns the value of a variable in the text of `os-release`, without its quotes.
fn os_release(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
    let Some(quote) = value.chars().next().filter(|first| ['"', '\''].contains(first)) else {
        return Some(value.to_owned());
    };
    let (mut unquoted, mut rest) = (String::new(), value[1..].chars());
    while let Some(next) = rest.next().filter(|next| *next != quote) {
        unquoted.extend(if next == '\\' && quote == '"' { rest.next() } else { Some(next) });
    }
    Some(unquoted)
}

/// Returns the time at which the process was started, from `/proc/self/stat` and `/proc/stat`.
fn created(process: &str, system: &str) -> Option<String> {
    // The name of the program is in parentheses, and may itself contain spaces and parentheses.
    let (_, fields) = process.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let boot: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let seconds = boot.checked_add(ticks / TICKS_PER_SECOND)?;
    let (year, month, day) = date_of(i64::try_from(seconds / 86_400).ok()?);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let hundredths = ticks % TICKS_PER_SECOND;
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{hundredths:02}Z"))
}

/// Returns the name that the semantic conventions give to an architecture.
fn arch(rust: &str) -> &str {
    let names = [("x86_64", "amd64"), ("aarch64", "arm64"), ("arm", "arm32")];
    names.into_iter().find(|(known, _)| *known == rust).map_or(rust, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
    const MACHINE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn finds_the_id_of_a_container_in_every_form() {
        for (cgroup, mountinfo) in [
            ("12:memory:/docker/{ID}\n0::/", ""),
            ("1:name=systemd:/kubepods/besteffort/pod1-2/{ID}\n", ""),
            ("11:cpu:/kubepods.slice/kubepods-pod7.slice/cri-containerd-{ID}.scope", ""),
            ("2:cpu:/system.slice/docker-{ID}.scope", ""),
            ("9:pids:/kubepods/burstable/pod3/cri-containerd:{ID}", ""),
            ("8:cpu:/machine.slice/libpod-{ID}.scope\n", ""),
            ("0::/", "600 5 0:1 /docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda1 rw"),
            (
                "0::/",
                "7 6 0:2 / / rw - overlay o rw,upperdir=/var/lib/containers/storage/overlay/{OTHER}/diff\n\
                      8 7 0:3 /containers/storage/overlay-containers/{ID}/userdata/hostname /etc/hostname rw",
            ),
            ("0::/", "9 8 0:4 /crio-{ID}.scope /sys/fs/cgroup ro"),
            ("0::/", "9 8 0:4 /kubepods/cri-containerd:{ID} /sys/fs/cgroup ro"),
        ] {
            let [cgroup, mountinfo] =
                [cgroup, mountinfo].map(|text| text.replace("{ID}", ID).replace("{OTHER}", OTHER));
            assert_eq!(container_id(&cgroup, &mountinfo), Some(ID), "{cgroup} {mountinfo}");
        }
    }

    #[test]
    fn finds_no_container_on_a_host() {
        for (cgroup, mountinfo) in [
            ("", ""),
            ("0::/user.slice/user-1000.slice/session-2.scope", "25 1 8:1 / / rw - ext4 /dev/sda1 rw"),
            ("0::/docker/too-short", "9 8 0:4 /crio-0123 /sys rw"),
            ("12:cpu:/docker/{UPPER}", "1 2 3 /docker/containers/{UPPER}/hostname"),
            ("0::/", "1 2 3 /var/lib/containers/storage/overlay/{ID}/merged /"),
            // A host also lists the mounts of its containers' shared memory.
            ("0::/init.scope", "7 6 0:9 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw"),
            (
                "0::/init.scope",
                "7 6 0:9 / /var/lib/containers/storage/overlay-containers/{ID}/userdata/shm rw",
            ),
        ] {
            let upper = ID.to_uppercase();
            let [cgroup, mountinfo] =
                [cgroup, mountinfo].map(|text| text.replace("{ID}", ID).replace("{UPPER}", &upper));
            assert_eq!(container_id(&cgroup, &mountinfo), None, "{cgroup} {mountinfo}");
        }
    }

    #[test]
    fn reads_values_of_os_release_without_their_quotes() {
        let text = "# a comment\nNAME=Alpine\nVERSION_ID='3.20'\nPRETTY_NAME=\"A \\\"B\\\" \\$5 'c'\"\nID_LIKE=\"\"\nX=\"open";
        let value = |name| os_release(text, name);
        assert_eq!(value("NAME").as_deref(), Some("Alpine"));
        assert_eq!(value("VERSION_ID").as_deref(), Some("3.20"));
        assert_eq!(value("PRETTY_NAME").as_deref(), Some("A \"B\" $5 'c'"));
        assert_eq!(
            (value("ID_LIKE").as_deref(), value("X").as_deref(), value("ID")),
            (Some(""), Some("open"), None)
        );
    }

    #[test]
    fn computes_the_start_of_a_process_from_the_time_of_the_boot() {
        let stat = |ticks: u64| format!("7 (a) b (c) S 1 {} {ticks} 0", "0 ".repeat(17));
        let boot = "cpu 1 2\nbtime 951782400\nprocesses 7";
        assert_eq!(created(&stat(8_640_123), boot).as_deref(), Some("2000-03-01T00:00:01.23Z"));
        assert_eq!(created(&stat(0), boot).as_deref(), Some("2000-02-29T00:00:00.00Z"));
        for (stat, boot) in
            [("", boot), ("7 (a", boot), (&*stat(1), ""), (&*stat(1), "btime x"), ("7 (a) S", boot)]
        {
            assert_eq!(created(stat, boot), None, "{stat} {boot}");
        }
    }

    /// Returns the attributes that the detectors add on a machine with these files.
    fn detected(detectors: &[Detector], files: &[(&str, &str)], mut resource: Resource) -> Vec<String> {
        let read =
            |path: &str| files.iter().find(|(known, _)| *known == path).map(|(_, text)| (*text).to_owned());
        detect(detectors, &read, &mut resource);
        resource.shown().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn describes_a_host_by_its_name_architecture_and_id() {
        let name = ("/proc/sys/kernel/hostname", "north\n");
        let arch = format!("host.arch={}", arch(consts::ARCH));
        let (old, new) = (("/var/lib/dbus/machine-id", MACHINE), ("/etc/machine-id", MACHINE));
        let host = |files: &[_]| detected(&[Detector::Host], files, Resource::default());
        let with_id = ["host.name=north", &arch, &format!("host.id={MACHINE}")];
        assert_eq!(host(&[name, new]), with_id);
        assert_eq!(host(&[name, old]), with_id);
        let without_id = ["host.name=north", &*arch];
        let group = format!("1:cpu:/docker/{ID}");
        for files in [
            &[name][..],
            &[name, ("/etc/machine-id", "uninitialized\n")],
            &[name, new, ("/.dockerenv", "")],
            &[name, new, ("/run/.containerenv", "")],
            &[name, new, ("/proc/self/cgroup", &group)],
        ] {
            assert_eq!(host(files), without_id, "{files:?}");
        }
        assert_eq!(host(&[]), [&*arch]);
    }

    #[test]
    fn describes_the_system_the_process_and_the_container() {
        let all = detected(
            &[Detector::Os, Detector::Process, Detector::Container, Detector::Service],
            &[
                ("/usr/lib/os-release", "NAME=Debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian 12\""),
                ("/proc/self/cgroup", &format!("1:cpu:/docker/{ID}")),
            ],
            Resource::default(),
        );
        let program = std::env::current_exe().unwrap();
        let expected = [
            format!("process.pid={}", std::process::id()),
            format!("os.type={}", if cfg!(target_os = "macos") { "darwin" } else { consts::OS }),
            "os.name=Debian".to_owned(),
            "os.version=12".to_owned(),
            "os.description=Debian 12".to_owned(),
            format!("process.executable.name={}", program.file_name().unwrap().to_string_lossy()),
            format!("container.id={ID}"),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn attributes_and_schema_of_the_program_take_precedence() {
        let mut own = Resource::default();
        own.schema_url = "https://schema.example/1".to_owned();
        own.set("host.name", Value::Str("south"));
        let mut detected = own.clone();
        detect(&[Detector::Host], &|_| Some("north".to_owned()), &mut detected);
        assert_eq!((detected.get_str("host.name"), &*detected.schema_url), (Some("south"), &*own.schema_url));
        let mut plain = Resource::default();
        detect(&[], &|_| unreachable!("nothing is detected"), &mut plain);
        assert_eq!(plain, Resource::default());
        detect(&[Detector::Service], &|_| None, &mut plain);
        assert_eq!(plain.schema_url, SCHEMA_URL);
    }
}
