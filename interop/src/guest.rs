//! The virtual machine, and the channel for its commands (`guest/init.sh` is the other end).

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::lab;

/// The longest boot of an emulated guest on a busy machine.
const BOOT: Duration = Duration::from_secs(180);
/// The time that one read of the channel waits.
const NAP: Duration = Duration::from_millis(20);

/// A running guest; dropping the value ends it.
pub(crate) struct Guest {
    machine: Child,
    channel: UnixStream,
    unread: Vec<u8>,
    exits: HashMap<u32, i32>,
    jobs: u32,
    out: PathBuf,
    /// The kernel's release.
    pub(crate) release: String,
}

/// A command that was started in the guest.
#[derive(Clone, Copy)]
pub(crate) struct GuestJob(u32);

impl Guest {
    /// Boots the guest of `kernel` on the link `link`; its files are in `run`.
    pub(crate) fn boot(kernel: &str, link: &str, run: &Path) -> Result<Guest, String> {
        let share = run.join("lab");
        std::fs::create_dir_all(share.join("out")).map_err(|e| format!("{}: {e}", share.display()))?;
        std::fs::copy(format!("{}/init.sh", lab::SCRIPTS), share.join("init.sh"))
            .map_err(|e| format!("init.sh: {e}"))?;
        let socket = run.join("channel");
        let console = File::create(run.join("console")).map_err(|e| format!("the console: {e}"))?;
        let mut machine = machine(&lab::directory().join(kernel), link, &share, &socket)
            .stdin(Stdio::null())
            .stderr(console.try_clone().map_err(|e| e.to_string())?)
            .stdout(console)
            .spawn()
            .map_err(|e| format!("qemu-system-x86_64: {e}"))?;
        let channel = connect(&socket, &mut machine)?;
        channel.set_read_timeout(Some(NAP)).map_err(|e| e.to_string())?;
        let mut guest = Guest {
            machine,
            channel,
            unread: Vec::new(),
            exits: HashMap::new(),
            jobs: 0,
            out: share.join("out"),
            release: String::new(),
        };
        guest.until(BOOT, |guest| !guest.release.is_empty()).map_err(|e| format!("the guest does not boot: {e}"))?;
        Ok(guest)
    }

    /// Starts a shell command that may run for `limit`.
    pub(crate) fn start(&mut self, command: &str, limit: Duration) -> Result<GuestJob, String> {
        assert!(!command.contains('\n'), "a command is one line");
        self.jobs += 1;
        self.send_line(&format!("start {} {} {command}\n", self.jobs, limit.as_secs().max(1)))?;
        Ok(GuestJob(self.jobs))
    }

    /// Waits for the end of a command: its exit status, `None` if it still runs.
    pub(crate) fn wait(&mut self, job: GuestJob, patience: Duration) -> Result<Option<i32>, String> {
        let ended = self.until(patience, |guest| guest.exits.contains_key(&job.0));
        match ended {
            Ok(()) => Ok(self.exits.get(&job.0).copied()),
            Err(_) if self.machine.try_wait().is_ok_and(|status| status.is_none()) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Kills a command.
    pub(crate) fn stop(&mut self, job: GuestJob) -> Result<(), String> {
        self.send_line(&format!("stop {}\n", job.0))?;
        self.wait(job, Duration::from_secs(10)).map(drop)
    }

    /// The output of a command so far.
    pub(crate) fn output(&self, job: GuestJob) -> String {
        let bytes = std::fs::read(self.out.join(job.0.to_string())).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a command to its successful end and returns its output.
    pub(crate) fn run(&mut self, command: &str) -> Result<String, String> {
        let limit = Duration::from_secs(60);
        let job = self.start(command, limit)?;
        match self.wait(job, limit)? {
            Some(0) => Ok(self.output(job)),
            status => Err(format!("in the guest, {command}: {status:?}\n{}", self.output(job))),
        }
    }

    /// Kills the machine, like a power failure.
    pub(crate) fn kill(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }

    fn send_line(&mut self, line: &str) -> Result<(), String> {
        self.channel.write_all(line.as_bytes()).map_err(|e| format!("the guest's channel: {e}"))
    }

    /// Reads the guest's lines until `holds` returns true.
    fn until(&mut self, patience: Duration, holds: impl Fn(&Guest) -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > patience {
                return Err(format!("nothing for {patience:?}"));
            }
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let mut bytes = [0; 4096];
        match self.channel.read(&mut bytes) {
            Ok(0) => return Err("the guest has ended".into()),
            Ok(count) => self.unread.extend_from_slice(&bytes[..count]),
            Err(error)
                if [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&error.kind()) => {}
            Err(error) => return Err(format!("the guest's channel: {error}")),
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            self.handle_line(&String::from_utf8_lossy(&line));
        }
        Ok(())
    }

    fn handle_line(&mut self, line: &str) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["ready", release] => self.release = release.to_owned(),
            ["exit", id, status] => {
                if let (Ok(id), Ok(status)) = (id.parse(), status.parse()) {
                    self.exits.insert(id, status);
                }
            }
            _ => {}
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.send_line("quit\n");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) && self.machine.try_wait().is_ok_and(|status| status.is_none()) {
            std::thread::sleep(NAP);
        }
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

fn machine(image: &Path, link: &str, share: &Path, socket: &Path) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    command.args("-accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nodefaults -display none -no-reboot".split(' '));
    command.args(["-serial", "stdio", "-append"]);
    command.arg("console=ttyS0 quiet loglevel=3 panic=-1 random.trust_cpu=on mitigations=off net.ifnames=0");
    command.arg("-kernel").arg(image.join("vmlinuz")).arg("-initrd").arg(image.join("initrd.gz"));
    command
        .arg("-drive")
        .arg(format!("file={},if=none,id=d0,format=raw,readonly=on", image.join("root.img").display()));
    command.args(["-device", "virtio-blk-pci,drive=d0"]);
    command.arg("-fsdev").arg(format!("local,id=l0,path={},security_model=none", share.display()));
    command.args(["-device", "virtio-9p-pci,fsdev=l0,mount_tag=lab"]);
    command.arg("-chardev").arg(format!("socket,id=c0,path={},server=on,wait=off", socket.display()));
    command.args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=c0,name=longarm"]);
    command.arg("-netdev").arg(format!("tap,id=n0,ifname={link},script=no,downscript=no"));
    command.args(["-device", "virtio-net-pci,netdev=n0,mac=02:77:00:00:00:0b"]);
    command
}

/// Connects to the machine's socket as soon as it exists.
fn connect(socket: &Path, machine: &mut Child) -> Result<UnixStream, String> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(channel) => return Ok(channel),
            Err(error) if start.elapsed() > Duration::from_secs(30) => return Err(format!("qemu's socket: {error}")),
            Err(_) => std::thread::sleep(NAP),
        }
        if let Ok(Some(status)) = machine.try_wait() {
            return Err(format!("qemu ended at once: {status}; see the file console"));
        }
    }
}
