package fleet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxModelName is the longest name or alias of a model, in bytes.
const MaxModelName = 253

// MaxName is the longest name of a node, peer or router, in bytes; the length of a DNS label.
const MaxName = 63

// CheckModelName says what is wrong with a model's name or alias, or nil. Names are opaque and keep their case; slashes and colons are fine.
// What could be mistaken for a path on the way (empty, "." and ".." segments, control characters, a leading or trailing slash) is not.
func CheckModelName(name string) error {
	switch {
	case name == "":
		return Errorf(InvalidSpec, "a model's name is empty")
	case len(name) > MaxModelName:
		return Errorf(InvalidSpec, "a model's name has %d bytes; at most %d are allowed", len(name), MaxModelName)
	case !utf8.ValidString(name):
		return Errorf(InvalidSpec, "the model's name %q is not valid UTF-8", name)
	}
	for _, r := range name {
		if unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`?#%\`, r) {
			return Errorf(InvalidSpec, "the model's name %q contains %q", name, r).WithHint("no blanks, control characters, ?, #, %%, or backslash")
		}
	}
	for _, seg := range strings.Split(name, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return Errorf(InvalidSpec, "the model's name %q has the path segment %q", name, seg).WithHint("write it like org/name or name")
		}
	}
	return nil
}

// CheckName says what is wrong with the name of a node, peer or router, or nil: letters, digits, '.', '_' and '-', starting with a letter or digit.
func CheckName(kind, name string) error {
	if name == "" || len(name) > MaxName {
		return Errorf(BadRequest, "the %s name %q has %d bytes; it needs 1 to %d", kind, name, len(name), MaxName)
	}
	for i, r := range name {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || r != '.' && r != '_' && r != '-') {
			where := "contains"
			if i == 0 {
				where = "begins with"
			}
			return Errorf(BadRequest, "the %s name %q %s %q", kind, name, where, r).WithHint("letters, digits, '.', '_' and '-', starting with a letter or digit")
		}
	}
	return nil
}
