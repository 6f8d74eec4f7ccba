package router

import (
	"net/http"
	"strings"

	"berth/router/openai"
)

// route is one path that is carried to engines.
type route struct {
	path    string // also the label of its metrics
	form    bool   // the body may be a multipart form
	dialect openai.Dialect
	count   routeCount
}

// routes returns what is carried, by path: requests that make an engine work for a client. What could change an engine
// (sleep, adapters, caches, collective calls) is not among them, and a door would refuse it too.
func routes() map[string]*route {
	list := []route{
		{path: "/v1/chat/completions"},
		{path: "/v1/completions"},
		{path: "/v1/embeddings"},
		{path: "/v1/responses", dialect: openai.Responses},
		{path: "/v1/messages", dialect: openai.Messages},
		{path: "/v1/messages/count_tokens", dialect: openai.Messages},
		{path: "/v1/rerank"},
		{path: "/v2/rerank"},
		{path: "/rerank"},
		{path: "/v1/score"},
		{path: "/score"},
		{path: "/classify"},
		{path: "/pooling"},
		{path: "/v1/images/generations"},
		{path: "/v1/images/edits", form: true},
		{path: "/v1/images/variations", form: true},
		{path: "/v1/audio/transcriptions", form: true},
		{path: "/v1/audio/translations", form: true},
		{path: "/v1/audio/speech"},
		{path: "/tokenize"},
		{path: "/detokenize"},
	}
	byPath := make(map[string]*route, len(list))
	for i := range list {
		byPath[list[i].path] = &list[i]
	}
	return byPath
}

// notServed is the answer to what no engine gets.
func notServed(r *http.Request) *openai.Error {
	e := &openai.Error{Status: http.StatusNotFound, Code: "not_found", Message: "there is no route " + r.Method + " " + r.URL.Path + " here"}
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/responses/"):
		e.Message = "stored responses are not kept: they live in the memory of one engine, and this router does not send requests back to it"
	case strings.HasPrefix(r.URL.Path, "/api/v1/"):
		e.Message += "; that is a route of a peer, whose port is 7300 unless told otherwise"
	}
	return e
}

func wrongMethod(w http.ResponseWriter, r *http.Request, allow string) *openai.Error {
	w.Header().Set("Allow", allow)
	return &openai.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: r.URL.Path + " takes " + allow + ", not " + r.Method}
}
