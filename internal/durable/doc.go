// Package durable owns how small things are kept on disk: replaced whole or not at all, readable by their owner only,
// with a version and a strict reading; counters that never go back; identities made once; and the lock that keeps two
// processes out of one data directory. It must never know what the things mean.
package durable
