package openai

import (
	"strings"
	"testing"
)

func TestPromptSpans(t *testing.T) {
	for _, c := range []struct{ body, text, before, session string }{
		{`{"model":"m","messages":[{"role":"user","content":"a]\"}"}],"stream":true}`, `[{"role":"user","content":"a]\"}"}]`, "", ""},
		{` { "prompt" : "one \\" , "model":"m"}`, `"one \\"`, "", ""},
		{`{"input":[1,[2],3],"instructions":"be brief","model":"m","prompt_cache_key":"k 1"}`, `[1,[2],3]`, `"be brief"`, `"k 1"`},
		{`{"messages":[],"tools":[{"function":{"name":"messages"}}],"system":"s","x":{"messages":[7]},"model":"m"}`, `[]`, `[{"function":{"name":"messages"}}]"s"`, ""},
		{`{"model":"m","prompt":17}`, `17`, "", ""},
		{`{"model":"m"}`, "", "", ""},
	} {
		for size := 1; size <= len(c.body); size++ {
			var s Scanner
			for rest := c.body; rest != ""; {
				n := min(size, len(rest))
				if _, err := s.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			p := s.Prompt()
			var before strings.Builder
			for _, b := range p.Before {
				before.Write(b.Of([]byte(c.body)))
			}
			if text := string(p.Text.Of([]byte(c.body))); text != c.text || before.String() != c.before || s.Session() != c.session {
				t.Fatalf("%s in pieces of %d: %q after %q, session %q", c.body, size, text, before.String(), s.Session())
			}
		}
	}
}

func TestPromptThatIsStillComing(t *testing.T) {
	var s Scanner
	body := `{"model":"m","messages":[{"role":"user","content":"abc`
	if _, err := s.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if text := string(s.Prompt().Text.Of([]byte(body))); text != `[{"role":"user","content":"abc` {
		t.Errorf("%q", text)
	}
}
