// Package eventtest judges sequences of events for tests: whether they obey the
// law ([CheckLaw]), and what they come down to ([Keys]).
package eventtest
