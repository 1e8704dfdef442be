//! Defines the two kinds of numbers that equations are solved with: integers modulo the prime 2^61 - 1, which are exact, and floating point.

use std::fmt::Debug;

/// The prime 2^61 - 1.
pub const PRIME: u64 = (1 << 61) - 1;

/// A number that supports addition, multiplication and division.
pub trait Number: Copy + Debug + PartialEq {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// Converts a small integer.
    fn whole(value: i32) -> Self;
    /// True if it is 0: exactly, or up to rounding errors.
    fn is_zero(self) -> bool;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// This number with the other sign.
    fn negative(self) -> Self;
    /// 1 divided by this number, which must not be 0.
    fn inverse(self) -> Self;
}

/// An integer modulo [`PRIME`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modular(pub u64);

impl Number for Modular {
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    fn whole(value: i32) -> Self {
        let size = Self(u64::from(value.unsigned_abs()));
        if value < 0 { size.negative() } else { size }
    }

    fn is_zero(self) -> bool {
        self.0 == 0
    }

    fn plus(self, other: Self) -> Self {
        let sum = self.0 + other.0;
        Self(if sum >= PRIME { sum - PRIME } else { sum })
    }

    fn times(self, other: Self) -> Self {
        let wide = u128::from(self.0) * u128::from(other.0);
        // Add the lower and the upper 61 of the 122 bits: 2^61 is 1 modulo the prime.
        let part = |bits: u128| Self(u64::try_from(bits & u128::from(PRIME)).unwrap_or(0));
        part(wide).plus(part(wide >> 61))
    }

    fn negative(self) -> Self {
        Self(if self.0 == 0 { 0 } else { PRIME - self.0 })
    }

    fn inverse(self) -> Self {
        if self.0 == 1 || self.0 == PRIME - 1 {
            return self; // The most common case: rows of routes begin with 1 and 2.
        }
        if self.0 == 2 {
            return Self(PRIME.div_ceil(2));
        }
        // Fermat: a^(p-2).
        let (mut power, mut base, mut left) = (Self::ONE, self, PRIME - 2);
        while left > 0 {
            if left & 1 == 1 {
                power = power.times(base);
            }
            base = base.times(base);
            left >>= 1;
        }
        power
    }
}

impl Modular {
    /// Finds the fraction with a numerator and a denominator of at most `most` that this number stands for, if one exists: Euclid's extended
    /// algorithm, stopped half way (Wang: "A p-adic algorithm for univariate partial fractions", 1981).
    pub fn fraction(self, most: i128) -> Option<(i128, i128)> {
        let (mut old, mut now) = (i128::from(PRIME), i128::from(self.0));
        let (mut old_factor, mut factor) = (0_i128, 1_i128);
        while now > most {
            let quotient = old / now;
            (old, now) = (now, old - quotient * now);
            (old_factor, factor) = (factor, old_factor - quotient * factor);
        }
        let (numerator, denominator) = if factor < 0 {
            (-now, -factor)
        } else {
            (now, factor)
        };
        (denominator != 0 && denominator <= most).then_some((numerator, denominator))
    }
}

/// A floating-point coefficient below this is a rounding error of 0. Coefficients of routes are integers, halves and quarters.
const ROUNDING: f64 = 1e-9;

impl Number for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn whole(value: i32) -> Self {
        f64::from(value)
    }

    fn is_zero(self) -> bool {
        self.abs() < ROUNDING
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }

    fn negative(self) -> Self {
        -self
    }

    fn inverse(self) -> Self {
        1.0 / self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn modular_arithmetic_is_that_of_the_integers(a in 0..PRIME, b in 0..PRIME) {
            let wide = |value: u128| u64::try_from(value % u128::from(PRIME)).unwrap();
            let (x, y) = (Modular(a), Modular(b));
            prop_assert_eq!(x.plus(y).0, wide(u128::from(a) + u128::from(b)));
            prop_assert_eq!(x.times(y).0, wide(u128::from(a) * u128::from(b)));
            prop_assert_eq!(x.plus(x.negative()), Modular::ZERO);
            if a != 0 {
                prop_assert_eq!(x.times(x.inverse()), Modular::ONE);
            }
        }

        #[test]
        fn fractions_are_found_again(numerator in -1000_i32..1000, denominator in 1_i32..1000) {
            let value = Modular::whole(numerator).times(Modular::whole(denominator).inverse());
            let (a, b) = value.fraction(1 << 20).unwrap();
            prop_assert_eq!(a * i128::from(denominator), b * i128::from(numerator));
        }
    }
}
