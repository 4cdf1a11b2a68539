//! A self-contained HTML page: headings, tables, charts.

use std::fmt::Write;

/// A page under construction.
pub(crate) struct HtmlPage {
    body: String,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .8rem;border-bottom:1px solid #d5d9de;text-align:left}\
td.n{text-align:right;font-variant-numeric:tabular-nums}.ok{color:#177245}.bad{color:#b3261e;font-weight:600}.na{color:#9aa0a6}";

impl HtmlPage {
    pub(crate) fn new(title: &str) -> HtmlPage {
        let mut page = HtmlPage { body: String::new() };
        page.add("h1", title);
        page
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.add("h2", text);
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.add("p", text);
    }

    /// Adds a chart that [`bars`](crate::report::bars) made.
    pub(crate) fn chart(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    /// Adds a table; a cell's text determines its class.
    pub(crate) fn table(&mut self, header: &[String], rows: &[Vec<String>]) {
        self.body.push_str("<table><tr>");
        for cell in header {
            self.add("th", cell);
        }
        self.body.push_str("</tr>");
        for row in rows {
            self.body.push_str("<tr>");
            for cell in row {
                let _ = write!(self.body, "<td class=\"{}\">{}</td>", class(cell), escape(cell));
            }
            self.body.push_str("</tr>");
        }
        self.body.push_str("</table>");
    }

    pub(crate) fn finish(self) -> String {
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Longarm</title><style>{STYLE}</style>{}</html>\n",
            self.body
        )
    }

    fn add(&mut self, element: &str, text: &str) {
        let _ = write!(self.body, "<{element}>{}</{element}>", escape(text));
    }
}

fn class(cell: &str) -> &'static str {
    match cell.chars().next() {
        Some('✓') => "ok",
        Some('✗') => "bad",
        Some('–') => "na",
        Some(c) if c.is_ascii_digit() => "n",
        _ => "",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
