// Package compare sets two experiments side by side, arm by arm and metric by
// metric, and says which differences are beyond noise.
//
// A difference is beyond noise if its interval excludes 0 and it is at least
// [Options.MinChange] of the first run's figure. Many differences are looked at at once,
// and of 95 % intervals one in twenty would exclude 0 by chance; so the level is
// Bonferroni's: with m differences each interval is at 1 - 0.05/m, and the chance that any
// at all is called beyond noise without cause is at most 5 %.
//
// Of latencies the interval is that of the difference of quantiles, by the normal
// distribution with a block bootstrap's standard error; of missed shares Newcombe's; of
// costs Student's on the logarithms of the repeats, of which it takes three on each side.
package compare
