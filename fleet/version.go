package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Constraint is a condition on an engine's version: one or more comparisons joined by commas, such as ">=0.18" or ">=0.18,<0.30".
type Constraint []comparison

type comparison struct {
	op   string
	want []int
}

// ParseConstraint reads a constraint.
func ParseConstraint(s string) (Constraint, error) {
	var c Constraint
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		op, num := "=", part
		for _, o := range []string{">=", "<=", "!=", "==", ">", "<", "="} {
			if rest, ok := strings.CutPrefix(part, o); ok {
				op, num = strings.TrimPrefix(o, "="), strings.TrimSpace(rest)
				if op == "" {
					op = "="
				}
				break
			}
		}
		want, ok := parseVersion(num)
		if !ok {
			return nil, fmt.Errorf("%q is not a version condition; write it like >=0.18 or >=0.18,<0.30", s)
		}
		c = append(c, comparison{op: op, want: want})
	}
	return c, nil
}

// Admits says whether version meets every condition. A version that cannot be read meets none.
func (c Constraint) Admits(version string) bool {
	have, ok := parseVersion(version)
	if !ok {
		return false
	}
	for _, cmp := range c {
		if !cmp.holds(have) {
			return false
		}
	}
	return true
}

func (c comparison) holds(have []int) bool {
	order := compareVersions(have, c.want)
	switch c.op {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case "!=":
		return order != 0
	default:
		return order == 0
	}
}

// parseVersion reads the leading numbers of "0.18.2", "v0.4.1", "0.33.0rc1" and llama.cpp's "b6123".
func parseVersion(s string) ([]int, bool) {
	s = strings.TrimLeft(s, "vb")
	var out []int
	for seg := range strings.SplitSeq(s, ".") {
		digits := 0
		for digits < len(seg) && seg[digits] >= '0' && seg[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(seg[:digits])
		if err != nil {
			break
		}
		out = append(out, n)
		if digits < len(seg) {
			break
		}
	}
	return out, len(out) > 0
}

func compareVersions(a, b []int) int {
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}
