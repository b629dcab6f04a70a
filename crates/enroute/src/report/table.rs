//! A table with aligned columns, and the same as JSON.

use std::fmt;

use serde_json::{Map, Value, json};

use super::readable;

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A quantity and its unit, which may be empty.
    Number(f64, &'static str),
    /// Nothing is known, or it does not apply.
    Absent,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Cell {
    /// A quantity that may be unknown.
    #[must_use]
    pub fn maybe(number: Option<f64>, unit: &'static str) -> Self {
        number.map_or(Self::Absent, |number| Self::Number(number, unit))
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number, "") => readable(*number),
            Self::Number(number, unit) => format!("{} {unit}", readable(*number)),
            Self::Absent => "-".into(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(number, "") => json!(number),
            Self::Number(number, unit) => json!({ "value": number, "unit": unit }),
            Self::Absent => Value::Null,
        }
    }
}

/// A table. Its text stands in columns: the first to the left, the others to the right.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(title: &str, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// A table that holds what was measured against the paper's figure and the ideal.
    #[must_use]
    pub fn comparison(title: &str) -> Self {
        Self::new(title, &["", "measured", "paper", "ideal"])
    }

    /// Adds a row. Missing cells are absent, and those beyond the columns are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let cells = cells.into_iter().chain(std::iter::repeat(Cell::Absent));
        self.rows.push(cells.take(self.columns.len()).collect());
        self
    }

    /// Adds a row to a [`comparison`](Self::comparison), all in one unit.
    pub fn compare(
        &mut self,
        name: &str,
        unit: &'static str,
        measured: f64,
        paper: Option<f64>,
        ideal: Option<f64>,
    ) -> &mut Self {
        let number = Cell::Number(measured, unit);
        self.row([name.into(), number, Cell::maybe(paper, unit), Cell::maybe(ideal, unit)])
    }

    /// The same for programs: `{"title": …, "rows": [{column: cell, …}, …]}`. The first column is
    /// called `name` where it has no title.
    #[must_use]
    pub fn json(&self) -> Value {
        let name = |column: &'static str| if column.is_empty() { "name" } else { column };
        let object = |row: &Vec<Cell>| -> Map<String, Value> {
            let names = self.columns.iter().map(|column| name(column).to_owned());
            names.zip(row.iter().map(Cell::json)).collect()
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(object).collect::<Vec<_>>() })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        let body = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        let lines: Vec<Vec<String>> = std::iter::once(head).chain(body).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max())
            .map(Option::unwrap_or_default)
            .collect();
        writeln!(f, "{}", self.title)?;
        for (number, line) in lines.iter().enumerate() {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                text += &match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                };
            }
            writeln!(f, "{}", text.trim_end())?;
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                writeln!(f, "{}", rules.join("  "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::comparison("Reads, 164 ms away");
        table.compare("mean latency", "ms", 8.081, Some(8.08), None);
        table.compare("requests per second", "", 12_118.0, Some(118.0), Some(20_000.0));
        table
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "\
Reads, 164 ms away
                     measured    paper   ideal
-------------------  --------  -------  ------
mean latency          8.08 ms  8.08 ms       -
requests per second    12,118      118  20,000
";
        assert_eq!(table().to_string(), expected);
    }

    #[test]
    fn json_keeps_exact_numbers_and_units() {
        let expected = json!({
            "title": "Reads, 164 ms away",
            "rows": [
                {
                    "name": "mean latency",
                    "measured": { "value": 8.081, "unit": "ms" },
                    "paper": { "value": 8.08, "unit": "ms" },
                    "ideal": null,
                },
                {
                    "name": "requests per second",
                    "measured": 12_118.0,
                    "paper": 118.0,
                    "ideal": 20_000.0,
                },
            ],
        });
        assert_eq!(table().json(), expected);
    }

    #[test]
    fn rows_are_made_to_fit() {
        let mut table = Table::new("t", &["a", "b"]);
        table.row([]).row([Cell::from("x"), Cell::from("y"), Cell::from("z")]);
        assert_eq!(table.to_string(), "t\na  b\n-  -\n-  -\nx  y\n");
    }
}
