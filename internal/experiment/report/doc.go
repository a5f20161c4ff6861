// Package report turns what an experiment left behind into figures and a page.
//
// [NewSummary] computes every figure from the transitions: a plain function. [Render]
// makes the page of a summary, and shows no number that the summary does not hold.
// [Write] does both for a directory.
//
// The page is one file that needs nothing from outside. Its charts are drawn by
// gonum/plot as SVG, each in a wide and a narrow form of which the style sheet shows
// the one that fits, with the page's own colours, so that it has a light and a dark
// scheme.
package report
