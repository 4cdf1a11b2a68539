//! Bar charts as SVG: a few named values side by side.

use plotters::prelude::*;

/// One bar.
pub(crate) struct Bar {
    /// The name beside the bar.
    pub(crate) name: String,
    /// The bar's length.
    pub(crate) value: f64,
    /// The formatted value.
    pub(crate) label: String,
    /// Drawn in the colour of Longarm's results.
    pub(crate) ours: bool,
}

const WIDTH: u32 = 720;
const ROW: u32 = 30;
const TOP: u32 = 46;
const NAMES: i32 = 230;
const OURS: RGBColor = RGBColor(30, 110, 190);
const OTHERS: RGBColor = RGBColor(160, 165, 172);

/// A chart of horizontal bars; the longest has full width.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> Result<String, String> {
    let mut svg = String::new();
    let height = TOP + ROW * bars.len() as u32 + 10;
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area, title, bars).map_err(|e| format!("cannot draw the plot: {e}"))?;
    }
    Ok(svg)
}

fn draw<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    title: &str,
    bars: &[Bar],
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    area.fill(&WHITE)?;
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    area.draw(&Text::new(title.to_string(), (12, 12), text(18)))?;
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let room = f64::from(WIDTH as i32 - NAMES - 110);
    for (row, bar) in bars.iter().enumerate() {
        let top = TOP as i32 + ROW as i32 * row as i32;
        let length = (bar.value / longest * room).max(1.0) as i32;
        let colour = if bar.ours { OURS } else { OTHERS };
        let place = [(NAMES, top), (NAMES + length, top + ROW as i32 - 8)];
        area.draw(&Text::new(bar.name.clone(), (12, top + 3), text(15)))?;
        area.draw(&Rectangle::new(place, colour.filled()))?;
        area.draw(&Text::new(bar.label.clone(), (NAMES + length + 8, top + 3), text(15)))?;
    }
    area.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_every_bar() {
        let bar = |name: &str, value| Bar { name: name.into(), value, label: format!("{value} x"), ours: value > 1.0 };
        let svg = bars("Latency", &[bar("first", 1.0), bar("second", 2.0)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["Latency", "first", "second", "2 x"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }
}
