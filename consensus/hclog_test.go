package consensus

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestRaftLinesReachSlog(t *testing.T) {
	out := new(lines)
	l := newRaftLogger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	l.Debug("hidden")
	l.Named("net").With("peer", "b").Error("failed", "error", hclog.Fmt("%d", 7))
	if got := out.text(); strings.Contains(got, "hidden") || !strings.Contains(got, `level=WARN msg="raft.net: failed" peer=b error=7`) {
		t.Errorf("log %q", got)
	}
	if l.IsDebug() || !l.IsInfo() {
		t.Error("levels are not the handler's")
	}
}
