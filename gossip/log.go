package gossip

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// stdLogger gives memberlist the logger that it wants: lines of the form "[LEVEL] memberlist: text".
func stdLogger(to *slog.Logger) *log.Logger { return log.New(logWriter{to}, "", 0) }

type logWriter struct{ to *slog.Logger }

// levels places memberlist's words one step lower than it does itself: it calls each lost packet of each member an error, and gossip is a
// hint. What an operator must see is an [Event].
var levels = []struct {
	prefix string
	level  slog.Level
}{
	{"[ERR] ", slog.LevelInfo},
	{"[WARN] ", slog.LevelDebug},
	{"[INFO] ", slog.LevelDebug},
	{"[DEBUG] ", slog.LevelDebug - 4},
}

func (w logWriter) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	level := slog.LevelInfo
	for _, l := range levels {
		if rest, ok := bytes.CutPrefix(text, []byte(l.prefix)); ok {
			text, level = rest, l.level
			break
		}
	}
	w.to.Log(context.Background(), level, string(text))
	return len(line), nil
}
