//! Pseudorandom numbers that follow from a seed: splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).

/// A pseudorandom generator.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Makes the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below `bound`, which is at least 1. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.any()) * bound as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns a number from 0 up to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from the normal distribution with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns a number from the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Returns -1 or 1.
    pub fn sign(&mut self) -> f64 {
        if self.any() & 1 == 0 { 1.0 } else { -1.0 }
    }

    /// Shuffles things (Fisher and Yates).
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.below(at + 1));
        }
    }
}

/// Spreads each bit of a number over all others.
pub fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_generator_and_have_the_moments_of_their_laws() {
        // The first numbers of seeds 0 and 1234567, from the authors' reference.
        assert_eq!(Random::new(0).any(), 0xe220_a839_7b1d_cdaf);
        let mut random = Random::new(1_234_567);
        assert_eq!(random.any(), 6_457_827_717_110_365_317);
        assert_eq!(random.any(), 3_203_168_211_198_807_973);
        let count = 100_000;
        let moments = |draw: &mut dyn FnMut() -> f64| {
            let all: Vec<f64> = (0..count).map(|_| draw()).collect();
            let mean = all.iter().sum::<f64>() / f64::from(count);
            let square = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
            (mean, (square / f64::from(count)).sqrt())
        };
        let near = |got: (f64, f64), mean: f64, deviation: f64| {
            assert!((got.0 - mean).abs() < 0.02, "{got:?}");
            assert!((got.1 - deviation).abs() < 0.02, "{got:?}");
        };
        near(moments(&mut || random.normal()), 0.0, 1.0);
        near(moments(&mut || random.exponential()), 1.0, 1.0);
        near(moments(&mut || random.unit()), 0.5, 12.0_f64.sqrt().recip());
        near(moments(&mut || random.sign()), 0.0, 1.0);
        let mut counts = [0; 5];
        (0..count).for_each(|_| counts[random.below(5)] += 1);
        assert!(
            counts.iter().all(|seen| (18_500..21_500).contains(seen)),
            "{counts:?}"
        );
    }
}
