// Package engine turns orders into command lines: one driver for each kind of engine that Berth runs. A driver knows its engine's flags, how its
// ranks meet, how to find out that it serves and how it names its version; it starts nothing but a version query, keeps nothing, and never sees
// a request. Which program a driver is, only the node's configuration says.
package engine
