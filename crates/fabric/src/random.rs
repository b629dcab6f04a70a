//! Random numbers as the reference draws them, so that equal seeds give equal runs.
//!
//! ns-3 gives every generator a stream of its own of MRG32k3a (L'Ecuyer, "Good parameters and
//! implementations for combined multiple recursive random number generators", 1999), numbered in
//! the order the generators are made: two for each node's network stack, then two for each switch,
//! of which the first seeds the cache's index function and the second draws learning packets.

use crate::network::Shape;

const PER_NODE: u64 = 2;
const PER_SWITCH: u64 = 2;

/// Streams are 2^127 numbers apart, runs of one stream 2^76.
const STREAM_LOG2: u32 = 127;
const RUN_LOG2: u32 = 76;

/// The generators of a run's switches. The seed is the reference's run number; its own is 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams<'a> {
    shape: &'a Shape,
    seed: u64,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(shape: &'a Shape, seed: u64) -> Self {
        Self { shape, seed }
    }

    /// Returns the seed of the index function of a switch's cache, where each switch has its own.
    pub(crate) fn index_seed(&self, switch: u32) -> u32 {
        (Stream::new(self.first_of(switch), self.seed).unit() * 2_f64.powi(32)) as u32
    }

    /// Random numbers by which a switch decides on learning packets.
    pub(crate) fn draws(&self, switch: u32) -> Stream {
        Stream::new(self.first_of(switch) + 1, self.seed)
    }

    /// Switches are made ToRs first, then spines, then cores.
    fn first_of(&self, switch: u32) -> u64 {
        let Shape { switches, first_spine, first_tor, hosts, .. } = *self.shape;
        let tors = switches - first_tor;
        let place = if switch >= first_tor {
            switch - first_tor
        } else if switch >= first_spine {
            tors + switch - first_spine
        } else {
            switches - first_spine + switch
        };
        PER_NODE * u64::from(switches + hosts) + PER_SWITCH * u64::from(place)
    }
}

const M1: u64 = (1 << 32) - 209;
const M2: u64 = (1 << 32) - 22_853;
const A1: Matrix = [[0, 1, 0], [0, 0, 1], [M1 - 810_728, 1_403_580, 0]];
const A2: Matrix = [[0, 1, 0], [0, 0, 1], [M2 - 1_370_589, 0, 527_612]];

type Matrix = [[u64; 3]; 3];

/// One stream of MRG32k3a.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    first: [u64; 3],
    second: [u64; 3],
}

impl Stream {
    fn new(stream: u64, run: u64) -> Self {
        let mut new = Self { first: [1; 3], second: [1; 3] };
        new.skip(stream, STREAM_LOG2);
        new.skip(run, RUN_LOG2);
        new
    }

    /// Skips `times` · 2^`log2` numbers.
    fn skip(&mut self, times: u64, log2: u32) {
        for (step, m, state) in [(A1, M1, &mut self.first), (A2, M2, &mut self.second)] {
            let mut step = (0..log2).fold(step, |step, _| square(&step, m));
            let mut times = times;
            while times > 0 {
                if times & 1 == 1 {
                    *state = step.map(|row| dot(row, *state, m));
                }
                step = square(&step, m);
                times >>= 1;
            }
        }
    }

    /// Uniform between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        let next = [dot(A1[2], self.first, M1), dot(A2[2], self.second, M2)];
        self.first = [self.first[1], self.first[2], next[0]];
        self.second = [self.second[1], self.second[2], next[1]];
        let difference = if next[0] > next[1] { next[0] - next[1] } else { next[0] + M1 - next[1] };
        difference as f64 / (M1 + 1) as f64
    }
}

fn dot(a: [u64; 3], b: [u64; 3], m: u64) -> u64 {
    a.iter().zip(b).fold(0, |sum, (a, b)| (sum + a * b) % m)
}

fn square(a: &Matrix, m: u64) -> Matrix {
    a.map(|row| [0, 1, 2].map(|column| dot(row, [a[0][column], a[1][column], a[2][column]], m)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skipping gives the same numbers as the recurrences, step by step.
    #[test]
    fn skipping_is_drawing() {
        let (mut skipped, mut drawn) = (Stream::new(0, 0), Stream::new(0, 0));
        skipped.skip(5, 3);
        (0..40).for_each(|_| _ = drawn.unit());
        assert_eq!((skipped.first, skipped.second), (drawn.first, drawn.second));
    }

    /// The state 2^127 numbers after L'Ecuyer's initial state of 12345s is printed in "An
    /// object-oriented random-number package with many long streams and substreams" (2002).
    #[test]
    fn streams_are_the_published_ones() {
        let mut stream = Stream { first: [12_345; 3], second: [12_345; 3] };
        stream.skip(1, STREAM_LOG2);
        assert_eq!(stream.first, [3_692_455_944, 1_366_884_236, 2_968_912_127]);
        assert_eq!(stream.second, [335_948_734, 4_161_675_175, 475_798_818]);
    }
}
