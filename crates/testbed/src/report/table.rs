//! A table with aligned columns, and the same as JSON.

use std::fmt;

use serde_json::{Map, Value};

use super::readable;

/// A table. Columns are aligned to the right; the name of a column contains its unit.
#[derive(Clone, Debug)]
pub struct Table<const COLUMNS: usize> {
    columns: [&'static str; COLUMNS],
    rows: Vec<[Value; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: [&'static str; COLUMNS]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [Value; COLUMNS]) {
        self.rows.push(cells);
    }

    /// The table as JSON: `[{column: cell, …}, …]`.
    #[must_use]
    pub fn json(&self) -> Value {
        let object = |row: &[Value; COLUMNS]| -> Map<String, Value> {
            self.columns.iter().map(ToString::to_string).zip(row.iter().cloned()).collect()
        };
        self.rows.iter().map(object).collect()
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.columns.map(ToOwned::to_owned);
        let body = self.rows.iter().map(|row| row.each_ref().map(readable));
        let lines: Vec<[String; COLUMNS]> = std::iter::once(head).chain(body).collect();
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].len()).max().unwrap_or_default()
        });
        for line in &lines {
            let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Table<3> {
        let mut table = Table::new(["capacity", "reads", "mean_ms"]);
        table.row([json!(100), json!(30_000), json!(8.081)]);
        table.row([json!(0), json!(0), json!(0.0)]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "\
capacity   reads  mean_ms
     100  30,000     8.08
       0       0     0.00
";
        assert_eq!(table().to_string(), expected);
    }

    #[test]
    fn text_stands_as_it_is() {
        let mut table = Table::new(["phase", "count"]);
        table.row([json!("killed"), json!(1_000)]);
        assert_eq!(table.to_string(), " phase  count\nkilled  1,000\n");
    }

    #[test]
    fn json_keeps_exact_numbers() {
        let expected = json!([
            { "capacity": 100, "reads": 30_000, "mean_ms": 8.081 },
            { "capacity": 0, "reads": 0, "mean_ms": 0.0 },
        ]);
        assert_eq!(table().json(), expected);
    }
}
