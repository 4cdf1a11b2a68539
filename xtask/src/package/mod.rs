//! `cargo xtask package`: what users install, from one build. docs/install.md tells what each package brings.

mod build;
mod deb;
mod elf;
mod files;
mod licences;
mod options;
mod stage;
mod tarball;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use build::Build;
use files::cannot;
use options::{Format, PackageOptions};

use crate::packages;
use crate::run::root;

/// `cargo xtask package`, with its arguments.
///
/// # Errors
/// The text says what is missing or failed.
pub(crate) fn package(arguments: &[&str]) -> Result<(), String> {
    let options = PackageOptions::parse(arguments)?;
    if options.trial {
        trial::check()?;
    }
    packages::install_packaging()?;
    let build = match &options.from {
        Some(dir) => Build::of_directory(dir)?,
        None => Build::of_release()?,
    };
    fs::create_dir_all(&options.out).map_err(cannot("make", &options.out))?;
    let mut made = Vec::new();
    for format in &options.formats {
        match format {
            Format::Deb => made.push(deb::write(&build, &options.out)?),
            Format::Tarball => made.push(tarball::write(&build, &options.out)?),
            Format::Wheel => made.push(wheel::write(&build, &options.out)?),
            Format::Container => made.push(container(&options.out)?),
            // Cargo builds this one where it is installed.
            Format::Cargo => {}
        }
    }
    println!("\nThe packages need glibc {} or later:", build.glibc()?);
    for file in &made {
        let bytes = fs::metadata(file).map_or(0, |metadata| metadata.len());
        println!("  {:>6.2} MB  {}", bytes as f64 / 1e6, file.display());
    }
    if options.trial { trial::all(&options.formats, &options.out) } else { Ok(()) }
}

/// Puts the container's recipe beside the packages.
fn container(out: &Path) -> Result<PathBuf, String> {
    let file = out.join("Containerfile");
    let recipe = root().join("packaging/Containerfile");
    let recipe = fs::read_to_string(&recipe).map_err(cannot("read", &recipe))?;
    // The folder may have packages of other versions as well.
    files::write(&file, recipe.replace("longarm_*.deb", &deb::file_name()?).as_bytes())?;
    Ok(file)
}
