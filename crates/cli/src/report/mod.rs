//! Formats results for readers: numbers with units, tables, plots.

mod html;
mod lines;
mod plot;
mod units;

pub(crate) use html::HtmlPage;
pub(crate) use lines::{Plot, PlotLine, plot};
pub(crate) use plot::{Bar, bars};
pub(crate) use units::{bytes_per_second, count_per_second, nanoseconds, nanoseconds_precise, size, size_rounded};
