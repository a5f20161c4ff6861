// Package wire turns the vocabulary of package event into the messages of the API
// and back. Both carry the same; what the API can't say, such as an unknown number
// from a newer server, is named at each function.
//
// Nothing is copied deeply: a message shares the maps and the exit code of what it
// was made from, and the other way round. Read them, don't write to them.
package wire
