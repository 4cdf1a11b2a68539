//! Line plots as SVG: both axes are logarithmic, each line has its name at the right.

use plotters::coord::Shift;
use plotters::prelude::*;

/// One line.
pub(crate) struct PlotLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Drawn in a strong colour: Longarm's results.
    pub(crate) ours: bool,
    /// With circles instead of discs at its points.
    pub(crate) hollow: bool,
}

/// Lines with a title, and functions that format the values on the axes.
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) lines: Vec<PlotLine>,
    pub(crate) across: fn(f64) -> String,
    pub(crate) up: fn(f64) -> String,
}

type Drawing<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

const WIDTH: i32 = 860;
const HEIGHT: i32 = 440;
const LEFT: i32 = 90;
const RIGHT: i32 = 640;
const TOP: i32 = 46;
const BOTTOM: i32 = 400;
/// Pixels between two names.
const STEP: i32 = 18;
const GRID: RGBColor = RGBColor(225, 228, 232);
const OURS: [RGBColor; 4] =
    [RGBColor(20, 80, 180), RGBColor(20, 80, 180), RGBColor(0, 140, 110), RGBColor(0, 140, 110)];
const OTHERS: [RGBColor; 6] = [
    RGBColor(200, 60, 40),
    RGBColor(225, 140, 30),
    RGBColor(130, 80, 160),
    RGBColor(120, 125, 132),
    RGBColor(160, 110, 70),
    RGBColor(90, 90, 90),
];

/// Draws a plot as SVG.
pub(crate) fn plot(plot: &Plot) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, HEIGHT as u32)).into_drawing_area();
        draw(&area, plot).map_err(|e| format!("cannot draw the plot: {e}"))?;
    }
    Ok(svg)
}

/// Maps values to positions between two ends, logarithmically.
#[derive(Clone, Copy)]
struct Scale {
    least: f64,
    most: f64,
    from: i32,
    to: i32,
}

impl Scale {
    /// A scale over all positive finite values.
    fn over(values: impl Iterator<Item = f64>, from: i32, to: i32) -> Scale {
        let (least, most) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
        let (least, most) = if least <= most { (least, most) } else { (1.0, 1.0) };
        // A single value gets room around it.
        let (least, most) = if least < most { (least, most) } else { (least / 2.0, most * 2.0) };
        Scale { least, most, from, to }
    }

    fn place(&self, value: f64) -> i32 {
        let part = (value.max(f64::MIN_POSITIVE) / self.least).ln() / (self.most / self.least).ln();
        self.from + (part * f64::from(self.to - self.from)).round() as i32
    }

    /// The powers of ten in the range, with their multiples by two and five if there are few.
    fn ticks(&self) -> Vec<f64> {
        let powers = self.least.log10().floor() as i32..=self.most.log10().ceil() as i32;
        let factors: &[f64] = if (self.most / self.least).log10() < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|tick| (self.least..=self.most).contains(tick)).collect()
    }
}

fn draw<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, plot: &Plot) -> Drawing<DB> {
    area.fill(&WHITE)?;
    let points = || plot.lines.iter().flat_map(|line| line.points.iter());
    let across = Scale::over(points().map(|point| point.0), LEFT, RIGHT - 20);
    let up = Scale::over(points().map(|point| point.1), BOTTOM - 10, TOP + 10);
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    area.draw(&Text::new(plot.title.clone(), (12, 12), text(18)))?;
    for tick in up.ticks() {
        let y = up.place(tick);
        area.draw(&PathElement::new([(LEFT, y), (RIGHT, y)], GRID))?;
        area.draw(&Text::new((plot.up)(tick), (8, y - 7), text(13)))?;
    }
    let mut columns: Vec<f64> = points().map(|point| point.0).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup();
    for column in columns {
        let x = across.place(column);
        area.draw(&PathElement::new([(x, TOP), (x, BOTTOM)], GRID))?;
        area.draw(&Text::new((plot.across)(column), (x - 14, BOTTOM + 8), text(13)))?;
    }
    let (mut ours, mut others) = (OURS.iter().cycle(), OTHERS.iter().cycle());
    for (index, line) in plot.lines.iter().enumerate() {
        let colours = if line.ours { &mut ours } else { &mut others };
        let colour = colours.next().copied().unwrap_or(BLACK);
        let y = TOP + 12 + STEP * index as i32;
        draw_line(area, line, &[(RIGHT + 14, y), (RIGHT + 40, y)], colour)?;
        area.draw(&Text::new(line.name.clone(), (RIGHT + 46, y - 7), text(14)))?;
        let points: Vec<(i32, i32)> = line.points.iter().map(|(x, y)| (across.place(*x), up.place(*y))).collect();
        draw_line(area, line, &points, colour)?;
    }
    area.present()
}

fn draw_line<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    line: &PlotLine,
    points: &[(i32, i32)],
    colour: RGBColor,
) -> Drawing<DB> {
    let style = colour.stroke_width(if line.ours { 2 } else { 1 });
    // No dashes: plotters measures them by `hypotf`, of which a later glibc than the rest of the command has a version.
    area.draw(&PathElement::new(points.to_vec(), style))?;
    let mark = if line.hollow { colour.stroke_width(1) } else { colour.filled() };
    points.iter().try_for_each(|point| area.draw(&Circle::new(*point, 3, mark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_logarithmic_and_survive_single_values() {
        let scale = Scale::over([1.0, 100.0].into_iter(), 0, 200);
        assert_eq!([1.0, 10.0, 100.0].map(|value| scale.place(value)), [0, 100, 200]);
        assert_eq!(scale.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let one = Scale::over([7.0].into_iter(), 0, 200);
        assert_eq!(one.place(7.0), 100);
        assert_eq!(Scale::over([f64::NAN].into_iter(), 0, 10).place(1.0), 5);
    }

    #[test]
    fn a_plot_names_every_line_and_column() {
        let line = |name: &str, hollow| PlotLine {
            name: name.into(),
            points: vec![(8.0, 100.0), (64.0, 250.0)],
            ours: hollow,
            hollow,
        };
        let lines = vec![line("first", false), line("second", true)];
        let svg =
            plot(&Plot { title: "Latency".into(), lines, across: |v| format!("{v} B"), up: |v| format!("{v} ns") });
        let svg = svg.unwrap();
        for text in ["Latency", "first", "second", "8 B", "64 B", "200 ns"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let circles = |fill: &str| svg.lines().filter(|line| line.contains("<circle") && line.contains(fill)).count();
        assert_eq!((circles("fill=\"none\""), circles("fill=\"#")), (4, 4), "{svg}");
    }
}
