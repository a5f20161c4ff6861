// Package arm runs one of the kubelet's generators of pod lifecycle events and
// writes its events as those of hybrid-pleg are written, so that the two can be set
// side by side.
//
// The generator gets the kubelet's own runtime manager, with a thin layer around it
// that notes what is listed; it makes no call of its own. What an event of the
// kubelet does not carry (names, details, how it was found) comes from these notes
// and from the cache of statuses that the generator fills.
package arm
