//go:build !(darwin || freebsd || linux)

package durable

// Space is not known here.
func Space(string) (free, total uint64, ok bool, err error) { return 0, 0, false, nil }
