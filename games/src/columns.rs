//! The values of a shard's keys while a table is built: f64, in the order of the keys.

/// Values of the keys of one shard. Every column has one entry a key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Columns {
    /// One number a key, in the order of [`scalar_columns`](crate::StateSpace::scalar_columns).
    pub scalars: Vec<Vec<f64>>,
    /// One number a key, computed in f32. Scalar columns too, after the others.
    pub singles: Vec<Vec<f32>>,
    /// Numbers of a working file in an order of the game's own.
    pub doubles: Vec<Vec<f64>>,
    /// One choice a key: a number from 0 to 3. Scalar columns too, after the others.
    pub choices: Vec<Vec<u8>>,
    /// One distribution a key, in the order of [`dist_columns`](crate::StateSpace::dist_columns).
    pub dists: Vec<Dists>,
}

/// Columns that somebody else has.
#[derive(Clone, Debug, Default)]
pub struct ColumnsView<'a> {
    /// One number a key.
    pub scalars: Vec<&'a [f64]>,
    /// One number a key, computed in f32.
    pub singles: Vec<&'a [f32]>,
    /// Numbers of a working file in an order of the game's own.
    pub doubles: Vec<&'a [f64]>,
    /// One choice a key.
    pub choices: Vec<&'a [u8]>,
    /// One distribution a key.
    pub dists: &'a [Dists],
}

impl<'a> From<&'a Columns> for ColumnsView<'a> {
    fn from(columns: &'a Columns) -> Self {
        Self {
            scalars: columns.scalars.iter().map(Vec::as_slice).collect(),
            singles: columns.singles.iter().map(Vec::as_slice).collect(),
            doubles: columns.doubles.iter().map(Vec::as_slice).collect(),
            choices: columns.choices.iter().map(Vec::as_slice).collect(),
            dists: &columns.dists,
        }
    }
}

impl ColumnsView<'_> {
    /// Number of scalar columns of all forms.
    pub fn scalar_count(&self) -> usize {
        self.scalars.len() + self.singles.len() + self.doubles.len() + self.choices.len()
    }

    /// A copy.
    pub fn to_columns(&self) -> Columns {
        Columns {
            scalars: self.scalars.iter().map(|values| values.to_vec()).collect(),
            singles: self.singles.iter().map(|values| values.to_vec()).collect(),
            doubles: self.doubles.iter().map(|values| values.to_vec()).collect(),
            choices: self.choices.iter().map(|values| values.to_vec()).collect(),
            dists: self.dists.to_vec(),
        }
    }

    /// Number of bytes in memory.
    pub fn bytes(&self) -> u64 {
        let scalars: usize = self.scalars.iter().chain(&self.doubles).map(|values| values.len()).sum();
        let singles: usize = self.singles.iter().map(|values| values.len()).sum();
        let choices: usize = self.choices.iter().map(|values| values.len()).sum();
        let dists: usize = self.dists.iter().map(|dists| dists.values.len() * 8 + dists.ends.len() * 9).sum();
        (scalars * 8 + singles * 4 + choices + dists) as u64
    }
}

/// A distribution over 0, 1, 2, ... for every key, kept as the span from its first to its last non-zero entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Dists {
    /// For key `i` the entries are `values[ends[i - 1]..ends[i]]` (from 0 for the first).
    pub ends: Vec<u64>,
    /// The index of the first entry of the span, one a key.
    pub firsts: Vec<u8>,
    /// The probabilities of all keys, one after the other.
    pub values: Vec<f64>,
}

impl Dists {
    /// No keys yet.
    pub fn new() -> Self {
        Self { ends: Vec::new(), firsts: Vec::new(), values: Vec::new() }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends the distribution of the next key; zeros at both ends are left off.
    pub fn push(&mut self, entries: &[f64]) {
        let first = entries.iter().position(|&p| p != 0.0).unwrap_or(entries.len());
        let last = entries.iter().rposition(|&p| p != 0.0).map_or(first, |i| i + 1);
        self.values.extend_from_slice(&entries[first..last]);
        self.ends.push(self.values.len() as u64);
        self.firsts.push(u8::try_from(if first == last { 0 } else { first }).expect("a distribution starts below 256"));
    }

    /// The first index and the entries of key `i`.
    pub fn get(&self, i: usize) -> (usize, &[f64]) {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        (usize::from(self.firsts[i]), &self.values[start..self.ends[i] as usize])
    }
}

impl Default for Dists {
    fn default() -> Self {
        Self::new()
    }
}
