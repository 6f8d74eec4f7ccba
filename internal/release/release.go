// Package release knows which release this binary is, and nothing else.
package release

// Version is set by the linker (see the Makefile); a plain go build is "dev".
var Version = "dev"
