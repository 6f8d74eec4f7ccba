package door

import (
	"net/http"
	"path"
	"strings"
)

// class is what a request's route means for the door.
type class int

const (
	closed class = iota // not for clients: sleep, LoRA load, cache reset, collective RPC, and all that is unknown
	look                // a harmless GET: passes always, never counted
	use                 // makes the engine work for a client: admitted and counted
)

// exact are the routes that end where they are written.
var exact = map[string]class{
	"/health": look, "/v1/models": look, "/metrics": look, "/version": look,

	"/v1/chat/completions": use, "/v1/completions": use, "/v1/embeddings": use, "/v1/responses": use,
	"/v1/messages": use, "/v1/messages/count_tokens": use,
	"/v1/rerank": use, "/rerank": use, "/v2/rerank": use, "/v1/score": use, "/score": use,
	"/tokenize": use, "/detokenize": use, "/classify": use, "/pooling": use,
}

// below are the routes that continue: a model's name, a response's id, the kinds of audio and image work.
var below = []struct {
	prefix string
	class  class
}{
	{"/v1/models/", look}, {"/v1/responses/", use}, {"/v1/audio/", use}, {"/v1/images/", use},
}

// classify decides by the decoded path, which is what engines route by. A path that is not in its clean form is
// refused rather than cleaned: door and engine could read it differently.
// What is a use and what only looks is of DESIGN §8, rule 5.
func classify(r *http.Request) class {
	p := r.URL.Path
	if p == "" || p[0] != '/' || path.Clean(p) != p || strings.ContainsAny(p, "\\\x00") {
		return closed
	}
	c := exact[p]
	for _, b := range below {
		if len(p) > len(b.prefix) && strings.HasPrefix(p, b.prefix) {
			c = b.class
		}
	}
	if !methodFits(c, p, r.Method) {
		return closed
	}
	return c
}

// methodFits keeps looks to GET and HEAD, and uses to POST; a stored response can also be fetched and deleted.
func methodFits(c class, p, method string) bool {
	switch {
	case c == look:
		return method == http.MethodGet || method == http.MethodHead
	case method == http.MethodPost:
		return true
	case strings.HasPrefix(p, "/v1/responses/"):
		return method == http.MethodGet || method == http.MethodDelete
	}
	return false
}
