package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Index is a position in the cluster's history: restores are counted by Epoch, log entries by N. Everything that can be old (orders, router
// tables, blocking reads) is compared by it, first by Epoch and then by N.
type Index struct {
	Epoch uint64
	N     uint64
}

// Compare returns -1, 0 or +1 as i is before, at or after j.
func (i Index) Compare(j Index) int {
	if c := cmp.Compare(i.Epoch, j.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(i.N, j.N)
}

// Before says whether i is older than j.
func (i Index) Before(j Index) bool { return i.Compare(j) < 0 }

// IsZero says whether i is before all history.
func (i Index) IsZero() bool { return i == Index{} }

// String writes "EPOCH.N".
func (i Index) String() string {
	return strconv.FormatUint(i.Epoch, 10) + "." + strconv.FormatUint(i.N, 10)
}

// ParseIndex reads what String writes.
func ParseIndex(s string) (Index, error) {
	e, n, ok := strings.Cut(s, ".")
	epoch, err1 := strconv.ParseUint(e, 10, 64)
	num, err2 := strconv.ParseUint(n, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return Index{}, fmt.Errorf("%q is not an index; write EPOCH.N as in the X-Berth-Index header, for example 1.4711", s)
	}
	return Index{Epoch: epoch, N: num}, nil
}

// MarshalText implements encoding.TextMarshaler.
func (i Index) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *Index) UnmarshalText(text []byte) error {
	v, err := ParseIndex(string(text))
	if err == nil {
		*i = v
	}
	return err
}
