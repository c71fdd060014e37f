//! What samples tell of a quantile: the sample's own, and an interval that depends only on order.

/// Probability that a quantile lies beyond one of the two ends: an interval holds it with 90 %.
const BEYOND: f64 = 0.05;

/// The median; the mean of the two in the middle where their number is even.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some(f64::midpoint(sorted[n / 2 - 1], sorted[n / 2])),
    }
}

/// The value below which this part of the samples lies; the largest for 1.
pub fn quantile(samples: &[f64], part: f64) -> f64 {
    let sorted = sorted(samples);
    let at = (sorted.len() as f64 * part) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(at.min(last)).copied().unwrap_or(f64::NAN)
}

/// An interval that holds the true quantile with a probability of at least 90 %, from the order of
/// the samples alone (for the median that of the sign test). An end is infinite where so few
/// samples say nothing of it.
pub fn interval(samples: &[f64], part: f64) -> (f64, f64) {
    let sorted = sorted(samples);
    let n = sorted.len();
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    // The probability that so many samples are below the quantile (its logarithm, which does not
    // underflow), and that at most so many are.
    let (mut exactly, mut at_most) = (n as f64 * (1.0 - part).ln(), 0.0);
    for (below, &sample) in sorted.iter().enumerate() {
        let fewer = at_most;
        at_most += exactly.exp();
        if at_most <= BEYOND {
            low = sample;
        }
        if 1.0 - fewer <= BEYOND && below > 0 {
            high = high.min(sorted[below - 1]);
        }
        exactly += ((n - below) as f64 / (below + 1) as f64 * part / (1.0 - part)).ln();
    }
    if 1.0 - at_most <= BEYOND && n > 0 {
        high = high.min(sorted[n - 1]);
    }
    (low, high)
}

/// The mean, and the interval that holds the true one with a probability of 90 % (Student 1908).
pub fn mean(samples: &[f64]) -> (f64, (f64, f64)) {
    const T: [f64; 15] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
        1.761, 1.753,
    ];
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    if samples.len() < 2 {
        return (mean, (f64::NEG_INFINITY, f64::INFINITY));
    }
    let spread = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T.get(samples.len() - 2).copied().unwrap_or(1.75);
    let half = t * (spread / count).sqrt();
    (mean, (mean - half, mean + half))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        // Five: 1/32 beyond each end. Four: 1/16. Eight: (1 + 8) / 256 without the ends.
        assert_eq!(interval(&[5.0, 1.0, 4.0, 2.0, 3.0], 0.5), (1.0, 5.0));
        let infinite = (f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0], 0.5), infinite);
        let many = |n: i32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval(&many(7), 0.5), (1.0, 7.0));
        assert_eq!(interval(&many(8), 0.5), (2.0, 7.0));
        assert_eq!(interval(&[], 0.5), infinite);
    }

    #[test]
    fn few_samples_bound_a_rare_value_from_below_only() {
        let samples: Vec<f64> = (1..=201).map(f64::from).collect();
        // At most 195 of 201 are below the quantile of 99 % with 1.6 %, 196 with 5.3 %; all with
        // 13 %.
        let (low, high) = interval(&samples, 0.99);
        assert_eq!((low, high), (196.0, f64::INFINITY));
        let samples: Vec<f64> = (1..=400).map(f64::from).collect();
        assert!(interval(&samples, 0.99).1 <= 400.0);
    }

    #[test]
    fn quantiles_and_means_are_those_of_the_books() {
        let samples = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(median(&samples), Some(3.0));
        assert_eq!(median(&samples[1..]), Some(2.5));
        assert_eq!((quantile(&samples, 0.99), median(&[])), (5.0, None));
        assert!(quantile(&[], 0.5).is_nan());
        // Mean 3, deviation 1.5811, t(4) = 2.132: 2.132 * 1.5811 / sqrt(5) = 1.5075.
        let (mean, (low, high)) = mean(&samples);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-3;
        assert!(near(mean, 3.0) && near(low, 1.4925) && near(high, 4.5075));
    }
}
