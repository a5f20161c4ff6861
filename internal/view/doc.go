// Package view is what "hybrid-pleg watch" and "hybrid-pleg pods" do: they follow a
// running daemon and show what it tells, to people or to programs.
package view
