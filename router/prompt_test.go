package router

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestConversationsStay: requests of a conversation go where it has been, by the bytes of the prompt; also when its text
// is short and only a session's name tells.
func TestConversationsStay(t *testing.T) {
	for name, ask := range map[string]func(c *cluster, talk, turn int){
		"by the prompt": func(c *cluster, talk, turn int) {
			words := strings.Repeat(fmt.Sprintf("conversation %d ", talk), 400)
			c.post(chatPath, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q},{"role":"user","content":"turn %d"}]}`, words, turn))
		},
		"by prompt_cache_key": func(c *cluster, talk, turn int) {
			c.post(chatPath, fmt.Sprintf(`{"model":"m","prompt_cache_key":"k%d","messages":[%d,%q]}`, talk, turn, strings.Repeat("x", 400)))
		},
		"by X-Session-Id": func(c *cluster, talk, turn int) {
			req, _ := http.NewRequestWithContext(c.ctx, http.MethodPost, base+chatPath, strings.NewReader(fmt.Sprintf(`{"model":"m","messages":[%d,%q]}`, turn, strings.Repeat("x", 400))))
			req.Header.Set("X-Session-Id", fmt.Sprint("s", talk))
			c.do(req)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil)
				var at atomic.Value
				m := model("m")
				for i := range 4 {
					id := fmt.Sprint("r", i)
					m.Endpoints = append(m.Endpoints, c.engine(id, fmt.Sprintf("10.0.0.%d", i+1), func(w http.ResponseWriter, r *http.Request) {
						at.Store(id)
						ok(id)(w, r)
					}))
				}
				c.set(m)
				moved, first := 0, map[int]string{}
				var used []string
				for turn := range 6 {
					for talk := range 8 {
						ask(c, talk, turn)
						r := at.Load().(string)
						if turn > 0 && first[talk] != r {
							moved++
						}
						if first[talk] == "" {
							first[talk] = r
							used = append(used, r)
						}
					}
				}
				slices.Sort(used)
				if moved > 4 || len(slices.Compact(used)) < 2 {
					t.Errorf("%d of 40 requests went elsewhere; conversations began on %v", moved, used)
				}
			})
		})
	}
}

// TestReadPrompt: the order of members says nothing, other tools tell prompts apart, and the model's name does.
func TestReadPrompt(t *testing.T) {
	text := strings.Repeat("word ", 1000)
	read := func(body string) []uint64 {
		t.Helper()
		model, p, err := ReadPrompt([]byte(body))
		if err != nil || model == "" || len(p.Blocks) < 9 || p.Bytes < 5000 {
			t.Fatalf("%q, %d blocks, %d bytes, %v", model, len(p.Blocks), p.Bytes, err)
		}
		return p.Blocks
	}
	one := read(`{"model":"m","tools":[1],"messages":[{"content":"` + text + `"}]}`)
	if other := read(`{"messages":[{"content":"` + text + `"}],"temperature":1,"tools":[1],"model":"m"}`); !slices.Equal(one, other) {
		t.Error("the order of members counts")
	}
	if other := read(`{"model":"m","tools":[2],"messages":[{"content":"` + text + `"}]}`); one[0] == other[0] {
		t.Error("tools do not count")
	}
	if other := read(`{"model":"n","tools":[1],"messages":[{"content":"` + text + `"}]}`); one[0] == other[0] {
		t.Error("the model's name does not count")
	}
	longer := read(`{"model":"m","tools":[1],"messages":[{"content":"` + text + `"},{"content":"more"}]}`)
	if !slices.Equal(one[:9], longer[:9]) {
		t.Error("a turn more is another prompt")
	}
}
