// Package access owns who may send requests through a router and how many: keys, known by their hashes alone, and the
// limits of each key and of each model. It must never know HTTP, a replica or what a request asks.
//
// Limits hold for one router: routers share nothing, so a fleet of three admits three times as many.
package access
