// Package state keeps what a [merge.Log] holds in a directory, so that a process that
// starts later goes on where one before ended, however it ended.
//
// A [Keeper] opens the directory ([Open]), hands out what is kept there
// ([Keeper.Restored]) and then writes down what becomes of a log ([Keeper.Run]): as
// soon as one write is done, all that has come meanwhile goes into the next. It is
// off the way of events; nobody waits for it. What was told in the moments before a
// process is killed may therefore not be kept: see [merge] on what becomes of that.
//
// The directory holds state.db, a bbolt file, and lock, which the process that uses
// the directory holds locked. A file that is damaged, is none of ours or was written
// by a newer version is moved aside, never overwritten and never deleted, as
// state.db.corrupt-TIME, .foreign-TIME or .newer-TIME; who wants none of them any
// more removes them.
//
// At each start the file is written anew as a whole, beside the old one, and put in
// its place. So no file is ever written to that another process, or another version,
// left; it does not stay larger than it need be; and what makes a write fail is
// overcome in the same way.
package state
