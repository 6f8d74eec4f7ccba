package router

import (
	"net/http"
	"strings"

	"berth/fleet/wire"
)

// hopByHop lists the headers that belong to one connection (RFC 9110 §7.6.1), not to the message.
var hopByHop = [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

// credentials lists the headers by which clients prove who they are to this router.
var credentials = [...]string{"Authorization", "X-Api-Key", "Api-Key", "Cookie"}

// dropHopByHop removes the headers that end at this router, those that Connection names too.
func dropHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// toEngine makes the headers of the request to an engine.
func toEngine(client http.Header, key, requestID string, forwardCredentials bool) http.Header {
	h := make(http.Header, len(client)+3)
	for name, values := range client {
		h[name] = values // never changed in place
	}
	trailers := tokenIn(client["Te"], "trailers")
	dropHopByHop(h)
	if trailers {
		h["Te"] = []string{"trailers"}
	}
	delete(h, "Expect") // answered by this router; it may ask for its own
	if !forwardCredentials {
		for _, name := range credentials {
			delete(h, name)
		}
	}
	h[wire.HeaderReplicaKey] = []string{key}
	h[wire.HeaderRequestID] = []string{requestID}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // net/http would put its own
	}
	return h
}

func tokenIn(lines []string, token string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if name, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(name), token) {
				return true
			}
		}
	}
	return false
}

// toClient copies an engine's headers into the answer.
func toClient(dst, engine http.Header) {
	id := dst[wire.HeaderRequestID]
	dropHopByHop(engine)
	delete(engine, wire.HeaderDoor)
	for name, values := range engine {
		dst[name] = values
	}
	dst[wire.HeaderRequestID] = id
}

// streamKind says what a content type means for the way of the answer.
func streamKind(contentType string) (events, lines bool) {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "text/event-stream", media == "application/x-ndjson" || media == "application/jsonl"
}

// validRequestID says whether a client's request id may go into logs and on to engines as it is.
func validRequestID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
