//go:build !unix

package durable

// syncDir does nothing where directories cannot be opened for it.
func syncDir(string) error { return nil }
