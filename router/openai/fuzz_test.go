package openai

import (
	"encoding/json"
	"testing"
)

// FuzzPrompt: where the prompt lies does not depend on how the body is cut, and what lies there in a valid body is a value.
func FuzzPrompt(f *testing.F) {
	for _, body := range []string{`{"model":"m","messages":[{"content":"a\\\"]}"}],"tools":[{}]}`, `{"input":"x","prompt":7,"model":"m"}`, `{"messages":[[["`, `{"prompt":"\\`,
		`{"system":null ,"messages": [ ] ,"model":"m"}`, `{"messages":1,"messages":{"messages":2}}`} {
		f.Add([]byte(body), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		var whole, parts Scanner
		_, _ = whole.Write(body)
		cut = max(0, min(cut, len(body)))
		_, _ = parts.Write(body[:cut])
		_, _ = parts.Write(body[cut:])
		if whole.Close() != nil {
			_ = parts.Prompt().Text.Of(body)
			return
		}
		p, q := whole.Prompt(), parts.Prompt()
		if p != q {
			t.Fatalf("%+v; cut at %d: %+v", p, cut, q)
		}
		if !json.Valid(body) {
			return
		}
		for _, span := range append(p.Before[:], p.Text) {
			if text := span.Of(body); text != nil && !json.Valid(text) {
				t.Fatalf("%+v of %s is %s", span, body, text)
			}
		}
	})
}
