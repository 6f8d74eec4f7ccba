//go:build !cgo

package nvml

import (
	"strings"
	"testing"
)

func TestTheTruePath(t *testing.T) {
	t.Skip("needs gcc: the bindings and the fake driver library are compiled")
}

func TestWithoutCgoItSaysWhatToUseInstead(t *testing.T) {
	if _, err := Open(""); err == nil || Available || !strings.Contains(err.Error(), "nvidia-smi") {
		t.Errorf("available %v, %v", Available, err)
	}
}
