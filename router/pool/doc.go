// Package pool owns which replica takes a request, what is in flight on it, when it was last used, and who waits for a
// model that has none. It must never know HTTP, a connection or a file: it is fed routing tables and told how requests
// ended.
//
// One mutex a model guards everything of the model. A request takes it twice, in [Pool.Acquire] and in [Lease.Release],
// and the time of use is written under it both times. A use can thus be left unsaid by nobody but a process that died,
// and what a process has not served has no time of use at all: there is no zero that could be read as "long ago".
package pool
