package main

import (
	"bytes"
	"strings"
	"testing"
)

const stream = `{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: needs gcc: the fake driver is compiled\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1.5}
`

func TestSkipsAreCountedAndStrictFailsOnlyOnWhatCouldHaveRun(t *testing.T) {
	for _, c := range []struct{ strict, have, want bool }{{false, true, true}, {true, false, true}, {true, true, false}} {
		var out bytes.Buffer
		s := newSummary(&out)
		s.read(strings.NewReader(stream))
		if got := s.report(c.strict, func(string) bool { return c.have }); got != c.want {
			t.Errorf("%+v: got %v\n%s", c, got, &out)
		}
		if text := out.String(); !strings.Contains(text, "needs gcc: the fake driver") || !strings.HasSuffix(text, "1 passed, 0 failed, 1 skipped\n") || strings.Contains(text, "noise") {
			t.Errorf("printed:\n%s", text)
		}
	}
}

func TestFailuresShowTheirOutput(t *testing.T) {
	var out bytes.Buffer
	s := newSummary(&out)
	s.read(strings.NewReader(`{"Action":"output","Package":"p","Test":"TestA","Output":"a_test.go:1: want 2\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA"}` + "\n"))
	if s.report(false, nil) || !strings.Contains(out.String(), "want 2") {
		t.Errorf("printed:\n%s", &out)
	}
}
