//! Charts as inline SVG: no script, no external resource; colours come from the page's style.

use crate::chart::{Chart, Kind};
use crate::output::html::escape;
use crate::table::figure;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;
/// Room above a chart for each line of its legend.
const LEGEND: f64 = 20.0;

/// Draws a chart. Series `i` has class `s{i}`; the page's style gives it a colour.
pub fn draw(chart: &Chart) -> String {
    let names: Vec<&str> = match &chart.kind {
        Kind::Bars { series, .. } => series.iter().map(|s| s.0.as_str()).collect(),
        Kind::Lines { series, .. } | Kind::Scatter { series } => {
            series.iter().map(|s| s.0.as_str()).collect()
        }
    };
    let (legend, legend_height) = legend(&names);
    let frame = Frame {
        top: TOP + legend_height,
        height: HEIGHT + legend_height,
    };
    let body = match &chart.kind {
        Kind::Bars { groups, series } => bars(&frame, groups, series),
        Kind::Lines { series, log_x } => lines(&frame, series, *log_x),
        Kind::Scatter { series } => scatter(&frame, series),
    };
    let ours = if chart.ours {
        " (ours: the paper prints no values)"
    } else {
        ""
    };
    let title = escape(&format!("{}{ours}", chart.title));
    let axes = format!(
        "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text class=\"axis\" transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        frame.height - 6.0,
        escape(&chart.x),
        f64::midpoint(frame.top, frame.bottom()),
        escape(&chart.y),
    );
    format!(
        "<figure class=\"chart\"><figcaption>{title}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{title}\">{legend}{axes}{body}</svg></figure>\n",
        frame.height
    )
}

/// The drawing area of one chart.
struct Frame {
    top: f64,
    height: f64,
}

impl Frame {
    fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }

    fn y(&self, value: f64, most: f64) -> f64 {
        self.bottom() - (value / most).clamp(0.0, 1.0) * (self.bottom() - self.top)
    }

    /// Horizontal rules with their values.
    fn rules(&self, most: f64, step: f64) -> String {
        let mut text = String::new();
        let mut value = 0.0;
        while value <= most * 1.0001 {
            let y = self.y(value, most);
            text += &format!(
                "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                tick(value)
            );
            value += step;
        }
        text
    }

    fn label_x(&self, x: f64, text: &str) -> String {
        let y = self.bottom() + 16.0;
        format!(
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
            escape(text)
        )
    }
}

fn bars(frame: &Frame, groups: &[String], series: &[(String, Vec<Option<f64>>)]) -> String {
    let values = series.iter().flat_map(|s| s.1.iter().flatten().copied());
    let (most, step) = scale(values);
    let mut text = frame.rules(most, step);
    let group = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let bar = group * 0.8 / series.len().max(1) as f64;
    for (g, label) in groups.iter().enumerate() {
        let x = LEFT + group * g as f64;
        text += &frame.label_x(x + group / 2.0, label);
        for (s, (name, values)) in series.iter().enumerate() {
            let Some(Some(value)) = values.get(g).copied() else {
                continue;
            };
            let y = frame.y(value, most);
            text += &format!(
                "<rect class=\"s{s}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} {}: {}</title></rect>",
                x + group * 0.1 + bar * s as f64,
                (bar - 1.0).max(1.0),
                (frame.bottom() - y).max(0.5),
                escape(name),
                escape(label),
                figure(value)
            );
        }
    }
    text
}

fn lines(frame: &Frame, series: &[(String, Vec<(f64, f64)>)], log_x: bool) -> String {
    let (most, step) = scale(series.iter().flat_map(|s| s.1.iter().map(|p| p.1)));
    let mut text = frame.rules(most, step);
    let mut xs: Vec<f64> = series
        .iter()
        .flat_map(|s| s.1.iter().map(|p| p.0))
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let along = |x: f64| if log_x && x > 0.0 { x.log2() } else { x };
    let (low, high) = (
        xs.first().map_or(0.0, |x| along(*x)),
        xs.last().map_or(1.0, |x| along(*x)),
    );
    let pad = 24.0;
    let place = |x: f64| {
        let share = if high > low {
            (along(x) - low) / (high - low)
        } else {
            0.5
        };
        LEFT + pad + share * (WIDTH - LEFT - RIGHT - 2.0 * pad)
    };
    for x in &xs {
        text += &frame.label_x(place(*x), &tick(*x));
    }
    for (s, (name, points)) in series.iter().enumerate() {
        let path: Vec<String> = points
            .iter()
            .map(|p| format!("{:.1},{:.1}", place(p.0), frame.y(p.1, most)))
            .collect();
        text += &format!(
            "<polyline class=\"line s{s}\" points=\"{}\"/>",
            path.join(" ")
        );
        for point in points {
            let (x, y) = (place(point.0), frame.y(point.1, most));
            text += &format!(
                "<circle class=\"s{s}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{} at {}: {}</title></circle>",
                escape(name),
                tick(point.0),
                figure(point.1)
            );
        }
    }
    text
}

fn scatter(frame: &Frame, series: &[(String, Vec<(f64, f64)>)]) -> String {
    let (most, step) = scale(series.iter().flat_map(|s| s.1.iter().map(|p| p.1)));
    let (wide, wide_step) = scale(series.iter().flat_map(|s| s.1.iter().map(|p| p.0)));
    let mut text = frame.rules(most, step);
    let place = |x: f64| LEFT + x / wide * (WIDTH - LEFT - RIGHT - 12.0);
    let mut x = 0.0;
    while x <= wide * 1.0001 {
        text += &frame.label_x(place(x), &tick(x));
        x += wide_step;
    }
    for (s, (name, points)) in series.iter().enumerate() {
        for point in points {
            let (x, y) = (place(point.0), frame.y(point.1, most));
            text += &format!(
                "<circle class=\"s{s} cloud\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{}: {}, {}</title></circle>",
                escape(name),
                figure(point.0),
                figure(point.1)
            );
        }
    }
    text
}

/// Coloured names in lines across the top, and the height they take.
fn legend(names: &[&str]) -> (String, f64) {
    let (mut x, mut line, mut text) = (LEFT, 0.0, String::new());
    for (s, name) in names.iter().enumerate() {
        let width = 26.0 + name.chars().count() as f64 * 7.2;
        if x + width > WIDTH - RIGHT && x > LEFT {
            x = LEFT;
            line += 1.0;
        }
        let y = TOP + line * LEGEND;
        text += &format!(
            "<rect class=\"s{s}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y - 4.0,
            x + 17.0,
            y + 6.0,
            escape(name)
        );
        x += width;
    }
    (text, (line + 1.0) * LEGEND)
}

/// A round top for the axis and the distance between its rules.
fn scale(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if most <= 0.0 {
        return (1.0, 0.5);
    }
    let magnitude = 10f64.powf(most.log10().floor());
    let step = [0.2, 0.25, 0.5, 1.0, 2.0]
        .map(|s| s * magnitude)
        .into_iter()
        .find(|step| most / step <= 6.0)
        .unwrap_or(2.0 * magnitude);
    ((most / step).ceil() * step, step)
}

fn tick(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_on_round_numbers() {
        assert_eq!(scale([34.8].into_iter()), (40.0, 10.0));
        assert_eq!(scale([0.0].into_iter()), (1.0, 0.5));
        let (top, step) = scale([97.0].into_iter());
        assert_eq!((top, step), (100.0, 20.0));
    }

    #[test]
    fn every_value_becomes_a_mark_and_names_are_escaped() {
        let bars = Chart::bars(
            "a < b",
            "MB/s",
            vec!["x".into(), "y".into()],
            vec![
                ("p&q".into(), vec![Some(1.0), None]),
                ("r".into(), vec![Some(2.0), Some(3.0)]),
            ],
        );
        let svg = draw(&bars);
        // Three bars and two legend squares.
        assert_eq!(svg.matches("<rect").count(), 5);
        assert!(svg.contains("a &lt; b") && svg.contains("p&amp;q"));
        let line = Chart::lines(
            "l",
            "x",
            "y",
            vec![("s".into(), vec![(1.0, 2.0), (2.0, 3.0)])],
        );
        assert_eq!(draw(&line.ours()).matches("<circle").count(), 2);
    }
}
