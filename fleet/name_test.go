package fleet

import (
	"strings"
	"testing"
)

// A name is told what is wrong with it: a character may be right within a name and wrong at its beginning.
func TestWhatIsWrongWithAName(t *testing.T) {
	for name, says := range map[string]string{"": "has 0 bytes", "../x": "begins with '.'", "-x": "begins with '-'", "a/b": "contains '/'", "gpu-017.a_b": "", strings.Repeat("a", MaxName+1): "has 64 bytes"} {
		err := CheckName("node", name)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", name, err, says)
		}
	}
}
