//! Programs on Longarm's side of the wire.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(10);

/// Longarm's side: the path of the command `longarm`, and the directory of its files.
pub(crate) struct Local {
    command: PathBuf,
    run: PathBuf,
    programs: u32,
    hubs: u32,
}

/// A running program; dropping the value ends it.
pub(crate) struct LocalProgram {
    child: Child,
    said: PathBuf,
}

impl Local {
    /// Uses the command `longarm` beside this program.
    pub(crate) fn new(run: &Path) -> Result<Local, String> {
        let this = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let command = this.with_file_name("longarm");
        if !command.exists() {
            return Err(format!("{} is not built: use cargo xtask interop", command.display()));
        }
        Ok(Local { command, run: run.to_owned(), programs: 0, hubs: 0 })
    }

    /// Switches to a new hub, which reads the interfaces again.
    pub(crate) fn new_hub(&mut self) {
        let _ = self.longarm().args(["down", "--force"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        self.hubs += 1;
    }

    /// The name of the output file of the program that starts next.
    pub(crate) fn next_name(&self) -> String {
        format!("ours-{}", self.programs)
    }

    /// Starts a program and its options on the device, with a plan of faults.
    pub(crate) fn start(&mut self, line: &str, faults: Option<&str>) -> Result<LocalProgram, String> {
        let said = self.run.join(self.next_name());
        self.programs += 1;
        let file = File::create(&said).map_err(|e| format!("{}: {e}", said.display()))?;
        let both = file.try_clone().map_err(|e| e.to_string())?;
        let mut command = self.longarm();
        command.arg("run").args(faults.iter().flat_map(|plan| ["--faults", plan])).arg("--");
        command.args(line.split_whitespace()).stdout(file).stderr(both).process_group(0);
        let child = command.spawn().map_err(|e| format!("longarm run: {e}"))?;
        Ok(LocalProgram { child, said })
    }

    /// Runs a program to its successful end and returns its output.
    pub(crate) fn run(&mut self, line: &str) -> Result<String, String> {
        let mut program = self.start(line, None)?;
        match program.wait(Duration::from_secs(60)) {
            Some(0) => Ok(program.output()),
            status => Err(format!("{line}: {status:?}\n{}", program.output())),
        }
    }

    /// Compiles a source file to a program, against the system's libraries.
    pub(crate) fn compile(&self, source: &str, program: &str) -> Result<(), String> {
        let mut cc = Command::new("cc");
        cc.args(["-o", program, source, "-lrdmacm", "-libverbs"]).current_dir(&self.run);
        let status = cc.status().map_err(|e| format!("cc: {e}"))?;
        if status.success() { Ok(()) } else { Err(format!("cc {source}: {status}")) }
    }

    /// Whether a program listens at the connection manager.
    pub(crate) fn listens_at_cm(&self) -> bool {
        let status = self.longarm().args(["status", "--json"]).stderr(Stdio::null()).output();
        status.is_ok_and(|status| String::from_utf8_lossy(&status.stdout).contains("\"listening\":true"))
    }

    /// Kills the hub.
    pub(crate) fn kill_hub(&self) -> Result<(), String> {
        let status = self.longarm().args(["status", "--json"]).output().map_err(|e| format!("longarm status: {e}"))?;
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        // The hub's own process comes first.
        let hub = status.split("\"pid\":").nth(1).and_then(|rest| rest.split(',').next());
        let hub = hub.ok_or_else(|| format!("no hub: {status}"))?;
        let killed = Command::new("kill").args(["-KILL", hub]).status();
        if killed.is_ok_and(|status| status.success()) { Ok(()) } else { Err(format!("the hub {hub} was not killed")) }
    }

    fn longarm(&self) -> Command {
        let mut command = Command::new(&self.command);
        let runtime = self.run.join(format!("runtime-{}", self.hubs));
        command.env("LONGARM_RUNTIME_DIR", runtime).stdin(Stdio::null()).current_dir(&self.run);
        command
    }
}

impl LocalProgram {
    /// Waits for its end: its exit status, `None` if it still runs. Killed by signal N is 128 + N.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                return status.code().or(signal.map(|signal| 128 + signal));
            }
            if start.elapsed() > patience {
                return None;
            }
            std::thread::sleep(NAP);
        }
    }

    /// Kills it with SIGKILL, so that it cannot disconnect.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its output so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.said).unwrap_or_default()).into_owned()
    }
}

impl Drop for LocalProgram {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        // No process of the group may survive.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}
