// Package stats holds the statistics of experiments as plain functions: quantiles,
// bootstrap and Wilson intervals, paired and unpaired differences, and what theory
// says of generators that only look once a period.
//
// Three choices run through all of it.
//
// A quantile is that of definition 7 of Hyndman and Fan (1996), linear between order
// statistics: the default of R and NumPy.
//
// Transitions that are near in time are not independent: one listing tells many of
// them. So the bootstrap draws blocks of time with replacement, not transitions, and
// a block is at least as long as the longest period that is involved ([Blocks]).
// Where there are fewer than [MinBlocks] blocks no interval is given, rather than one
// that is too narrow.
//
// Bootstrap intervals are percentile intervals. BCa intervals would need the
// acceleration of a quantile, whose jackknife estimate is not consistent.
//
// Everything random comes from a seed, so the same data give the same numbers.
package stats
