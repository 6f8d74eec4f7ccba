package main

import "testing"

func TestParse(t *testing.T) {
	m, err := parse("A use is forgotten.\nPackages: ./idle ./router\nRun: TestA\n\n--- a/idle/x.go\n+++ b/idle/x.go\n@@ -1 +1 @@\n-a\n+b\n")
	if err != nil || len(m.packages) != 2 || m.run != "TestA" || len(m.files) != 1 || m.files[0] != "idle/x.go" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"", "Packages: ./idle\n", "--- a/x\n+++ b/x\n"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

func TestFirstFailure(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestA (0.1s)\n    x.go:1: no\n--- FAIL: TestB (0.1s)\nFAIL\nFAIL\tberth/idle\t0.1s\n":                         "TestA of berth/idle",
		"panic: test timed out after 1m\n\trunning tests:\n\t\tTestSlow (1m0s)\nFAIL\tberth/idle\t60s\n":                         "TestSlow of berth/idle",
		"panic: boom\n\ngoroutine 1 [running]:\nFAIL\tberth/idle\t0.1s\n":                                                        "a panic or a leak of berth/idle",
		"# berth/idle\nidle/x.go:1:1: undefined: y\nFAIL\tberth/idle [build failed]\n--- FAIL: TestA (0.1s)\nFAIL\tberth/fsm 1s": "",
	} {
		got, err := firstFailure(out)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", out, got, err, want)
		}
	}
}
