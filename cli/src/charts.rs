//! Charts of a table's layers, as SVG that stands alone: nothing is loaded, and colours follow the reader's light or dark theme.
//!
//! The vertical lines are at multiples of a power of two, because that is where something happens: an age that is a multiple of a large
//! power of two needs few tiles, so few positions have it, and the counts dip there. Counts are drawn on a logarithmic scale, on
//! which the dips of early and late ages show as well as those between.
//!
//! The canvas has twice the size of the picture: coordinates are whole numbers, and this keeps lines smooth.

use crate::failure::Failure;
use crate::stats::{Row, Units};
use crate::units;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

const WIDTH: u32 = 1920;
const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
const BLUE: RGBColor = RGBColor(0x09, 0x69, 0xda);
const ORANGE: RGBColor = RGBColor(0xd1, 0x5f, 0x0a);
/// What the colours become where the reader's theme is dark.
const DARK: [(RGBColor, &str); 5] =
    [(PAPER, "#0d1117"), (INK, "#e6edf3"), (GRID, "#30363d"), (BLUE, "#58a6ff"), (ORANGE, "#f0883e")];

/// Most vertical lines.
const MOST_LINES: u32 = 18;

/// A line of a chart: points by layer, in pieces, interrupted where there is no value.
struct Series {
    name: &'static str,
    colour: RGBColor,
    pieces: Vec<Vec<(f64, f64)>>,
}

impl Series {
    fn of(name: &'static str, colour: RGBColor, rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Self {
        let mut pieces = vec![Vec::new()];
        for row in rows {
            match (value(row), pieces.last_mut()) {
                (Some(value), Some(piece)) => piece.push((f64::from(row.layer), value)),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        Self { name, colour, pieces }
    }

    fn largest(&self) -> f64 {
        self.pieces.iter().flatten().fold(0.0, |most, &(_, value)| value.max(most))
    }
}

/// A vertical axis: what it shows, where its lines are, and what they are called. The first and the last line are its ends.
struct Axis {
    name: String,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 in round steps past a value.
    fn linear(name: String, largest: f64) -> Self {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let power = 10f64.powf((largest / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| largest / step <= 5.0).unwrap_or(largest);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped, and at most six steps
        let (decimals, steps) = ((-step.log10().floor()).clamp(0.0, 15.0) as usize, (largest / step).ceil() as u32);
        let ticks = (0..=steps).map(|n| f64::from(n) * step).map(|at| (at, format!("{at:.decimals$}"))).collect();
        Self { name, ticks }
    }

    /// Powers of ten up to a logarithm.
    fn logarithmic(name: String, largest: f64) -> Self {
        let superscript = |digit: char| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize));
        let label = |n: u32| "10".chars().chain(n.to_string().chars().filter_map(superscript)).collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of a u64, so at most 20
        let most = largest.ceil().clamp(1.0, 20.0) as u32;
        Self { name, ticks: (0..=most).map(|n| (f64::from(n), label(n))).collect() }
    }

    fn scale(&self) -> Scale {
        let lines: Vec<f64> = self.ticks.iter().map(|&(at, _)| at).collect();
        Scale { range: lines[0]..lines[lines.len() - 1], lines }
    }

    fn label(&self, at: f64) -> String {
        self.ticks.iter().find(|tick| tick.0 == at).map_or_else(String::new, |(_, label)| label.clone())
    }
}

/// An axis as plotters wants it: what it spans, and where its lines are.
struct Scale {
    range: Range<f64>,
    lines: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        #[allow(clippy::cast_possible_truncation)] // a pixel of the picture
        let pixel = (f64::from(pixels.0) + part * f64::from(pixels.1 - pixels.0)).round() as i32;
        pixel
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Only bold lines: there are none between them.
        if hint.weight().allow_light_points() { Vec::new() } else { self.lines.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Number of states and afterstates of every layer: `states-by-age.svg`.
pub fn states(table: &str, units: &Units, rows: &[Row]) -> Result<String, Failure> {
    let logarithm = |count: u64| (count > 0).then(|| (count as f64).log10());
    let mut series = vec![Series::of("states", BLUE, rows, |row| logarithm(row.states))];
    if rows.iter().any(|row| row.afterstates > 0) {
        series.push(Series::of("afterstates", ORANGE, rows, |row| logarithm(row.afterstates)));
    }
    let largest = series.iter().map(Series::largest).fold(0.0, f64::max);
    let axis = Axis::logarithmic("positions".into(), largest);
    let count = rows.iter().map(|row| row.states).fold(0u64, u64::saturating_add);
    let title = format!("{table}: {} by {}", units::plural(count, "state"), units.layer);
    picture(&title, 1000, &series, |area| panel(area, rows, &axis, Some(units.x_axis), &series))
}

/// Mean action gap of every layer, and below it the share of states with one best move: `action-gap-by-age.svg`.
pub fn action_gap(table: &str, units: &Units, rows: &[Row]) -> Result<String, Failure> {
    let gap = [Series::of("mean action gap", BLUE, rows, |row| row.mean_gap)];
    let share =
        [Series::of("states with a single best move", ORANGE, rows, |row| row.single_best_share.map(|share| share * 100.0))];
    let gap_axis = Axis::linear(format!("action gap ({})", units.gap), gap[0].largest());
    let share_axis = Axis::linear("share (%)".into(), 100.0);
    let title = format!("{table}: best move minus second best, by {}", units.layer);
    picture(&title, 1400, gap.iter().chain(&share), |area| {
        let (above, below) = area.split_vertically(650);
        panel(&above, rows, &gap_axis, None, &gap)?;
        panel(&below, rows, &share_axis, Some(units.x_axis), &share)
    })
}

fn text(size: u32) -> TextStyle<'static> {
    TextStyle::from(("system-ui, sans-serif", size)).color(&INK)
}

/// A picture with a title, the names of its lines, and what `draw` draws below them.
fn picture<'s>(
    title: &str,
    height: u32,
    series: impl IntoIterator<Item = &'s Series>,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, Failure> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let everything = || -> Drawn {
        area.fill(&PAPER)?;
        area.draw_text(title, &text(40), (40, 34))?;
        let mut x = 40;
        for line in series {
            area.draw(&PathElement::new([(x, 118), (x + 48, 118)], line.colour.stroke_width(6)))?;
            area.draw_text(line.name, &text(30).pos(Pos::new(HPos::Left, VPos::Center)), (x + 62, 118))?;
            let (width, _) = area.estimate_text_size(line.name, &text(30))?;
            x += 110 + i32::try_from(width).unwrap_or(0);
        }
        draw(&area.margin(160, 30, 30, 50))?;
        area.present()
    };
    let drawn = everything();
    drop(area);
    drawn.map_err(|e| Failure::failed(format!("the chart {title:?} cannot be drawn: {e}")))?;
    Ok(finished(&svg, height))
}

/// Halves the size of the picture, and adds the colours of dark themes.
fn finished(svg: &str, height: u32) -> String {
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let rules = DARK.map(|(light, dark)| {
        let light = hex(light);
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    let style = format!("<style>@media(prefers-color-scheme:dark){{{}}}</style>", rules.concat());
    let (head, body) = svg.split_once('\n').unwrap_or((svg, ""));
    let size = |width: u32, height: u32| format!("width=\"{width}\" height=\"{height}\"");
    let head = head.replacen(&size(WIDTH, height), &size(WIDTH / 2, height / 2), 1);
    format!("{head}\n{style}\n{body}")
}

/// One system of axes with its lines. Without a name for the horizontal axis it is that of the panel below.
fn panel(area: &Area<'_>, rows: &[Row], axis: &Axis, x_axis: Option<&str>, series: &[Series]) -> Drawn {
    let (first, last) = (rows.first().map_or(0, |row| row.layer), rows.last().map_or(0, |row| row.layer));
    let x = vertical_lines(first, last);
    let mut chart = ChartBuilder::on(area)
        .set_label_area_size(LabelAreaPosition::Left, 140)
        .set_label_area_size(LabelAreaPosition::Bottom, if x_axis.is_some() { 96 } else { 60 })
        .margin_top(10)
        .build_cartesian_2d(x, axis.scale())?;
    chart
        .configure_mesh()
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(INK.stroke_width(2))
        .label_style(text(28))
        .axis_desc_style(text(30))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| axis.label(*y))
        .x_desc(x_axis.unwrap_or_default())
        .y_desc(&axis.name)
        .draw()?;
    for line in series {
        for piece in &line.pieces {
            if let [point] = piece[..] {
                chart.draw_series([Circle::new(point, 4, line.colour.filled())])?;
            } else {
                chart.draw_series(LineSeries::new(piece.iter().copied(), line.colour.stroke_width(3)))?;
            }
        }
    }
    Ok(())
}

/// The horizontal axis: lines at multiples of a power of two, not too many of them.
fn vertical_lines(first: u32, last: u32) -> Scale {
    let mut step = 1u32;
    while (last - first) / step > MOST_LINES {
        step *= 2;
    }
    let start = first / step * step;
    let lines = (start..=last).step_by(step as usize).map(f64::from).collect();
    Scale { range: f64::from(start)..f64::from(last.max(first + 1)) * 1.01, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertical_lines_are_at_multiples_of_a_power_of_two() {
        let lines = |first, last| vertical_lines(first, last).lines;
        assert_eq!(lines(4, 60), [4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 40.0, 44.0, 48.0, 52.0, 56.0, 60.0]);
        // 2048 on 3x3: sixteen lines of 128; one more step of 64 would be 31.
        assert_eq!(lines(4, 2044).iter().map(|x| x / 128.0).collect::<Vec<_>>(), (0..16).map(f64::from).collect::<Vec<_>>());
        assert_eq!(lines(7, 7), [7.0]);
        assert_eq!(lines(0, u32::MAX).len(), 16);
    }

    #[test]
    fn horizontal_lines_are_round_and_pass_the_largest_value() {
        let labels = |largest| Axis::linear(String::new(), largest).ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(986.0), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(labels(100.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(0.31), ["0.0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(0.000_22), ["0.00000", "0.00005", "0.00010", "0.00015", "0.00020", "0.00025"]);
        assert_eq!(labels(0.0), labels(1.0));
        let powers = Axis::logarithmic(String::new(), 10.02).ticks;
        assert_eq!((powers.len(), powers[11].1.as_str(), powers[0].1.as_str()), (12, "10¹¹", "10⁰"));
    }

    #[test]
    fn lines_are_interrupted_where_there_is_no_value() {
        let layer = |layer, states| Row { layer, states, ..Row::default() };
        let rows = [layer(4, 0), layer(6, 2), layer(8, 3), layer(10, 0), layer(12, 0), layer(14, 5)];
        let series = Series::of("", BLUE, &rows, |row| (row.states > 0).then_some(row.states as f64));
        assert_eq!(series.pieces, [vec![(6.0, 2.0), (8.0, 3.0)], vec![(14.0, 5.0)]]);
        assert_eq!(series.largest(), 5.0);
    }
}
