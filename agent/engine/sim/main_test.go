package sim

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// argsVar makes the test binary the engine: its value is the command line in JSON.
const argsVar = "BERTH_SIM_TEST_ARGS"

func TestMain(m *testing.M) {
	if s := os.Getenv(argsVar); s != "" {
		var args []string
		if err := json.Unmarshal([]byte(s), &args); err != nil {
			panic(err)
		}
		os.Exit(Main(context.Background(), args, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}
