package integration

import (
	"strings"
	"testing"

	"berth/demo/cluster/steps"
)

// The demonstration's script, as a test: it checks each of its steps itself.
func TestDemo(t *testing.T) {
	var out strings.Builder
	err := steps.Run(t.Context(), steps.Config{Bin: programs(t), Examples: "../examples/sim", Out: &out})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
}
