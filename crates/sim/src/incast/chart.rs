//! The queue over time, and the rate of each flow, as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::plan::IncastResult;

const SIZE: (u32, u32) = (900, 760);
const COLOURS: [RGBColor; 4] =
    [RGBColor(160, 165, 172), RGBColor(200, 80, 40), RGBColor(30, 110, 190), RGBColor(40, 150, 80)];

type Fallible<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Draws runs beside each other.
///
/// # Errors
/// In words, when the plot cannot be drawn.
pub fn chart(outcomes: &[IncastResult]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, outcomes).map_err(|e| format!("cannot draw the plot: {e}"))?;
    }
    Ok(svg)
}

fn draw<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, outcomes: &[IncastResult]) -> Fallible<DB> {
    area.fill(&WHITE)?;
    let (above, below) = area.split_vertically(440);
    queues(&above, outcomes)?;
    rates(&below, outcomes)?;
    area.present()
}

fn queues<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, outcomes: &[IncastResult]) -> Fallible<DB> {
    let end = outcomes.iter().map(|o| o.plan.duration.as_secs_f64() * 1e3).fold(1.0, f64::max);
    let most = outcomes.iter().map(|o| kilobytes(o.longest_queue())).fold(10.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Bytes in the queue to the receiver", ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, (1.0..most * 1.5).log_scale())?;
    chart.configure_mesh().x_desc("ms").y_desc("KB, logarithmic").light_line_style(WHITE).draw()?;
    for (outcome, colour) in outcomes.iter().zip(COLOURS) {
        let points = outcome.samples.iter().step_by(4);
        let line = points.map(|s| (s.at.0 as f64 / 1e6, kilobytes(s.queue_bytes).max(1.0)));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(1)))?
            .label(outcome.plan.loss_control.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
}

/// Each flow's share, smallest first.
fn rates<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, outcomes: &[IncastResult]) -> Fallible<DB> {
    let flows = outcomes.iter().map(|o| o.goodput.len()).max().unwrap_or(1).max(2);
    let most = outcomes.iter().flat_map(|o| &o.goodput).copied().fold(1.0, f64::max) / 1e6;
    let mut chart = ChartBuilder::on(area)
        .caption("Goodput of each flow in the second half, smallest first", ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..(flows - 1) as f64, 0.0..most * 1.1)?;
    chart.configure_mesh().x_desc("flow").y_desc("MB/s").light_line_style(WHITE).draw()?;
    for (outcome, colour) in outcomes.iter().zip(COLOURS) {
        let mut rates = outcome.goodput.clone();
        rates.sort_by(f64::total_cmp);
        let line = rates.into_iter().enumerate().map(|(flow, rate)| (flow as f64, rate / 1e6));
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    }
    Ok(())
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}
