package door

import (
	"encoding/json"
	"net/http"

	"berth/fleet"
	"berth/fleet/wire"
)

// refusals are the door's own answers. All carry the code not_ready: from where the client stands, another replica or
// a later moment is the way on.
var refusals = map[Refusal]struct {
	status  int
	message string
	hint    string
}{
	wire.DoorShut:     {http.StatusServiceUnavailable, "this replica's door is shut", "it is being stopped; send the request to another replica"},
	wire.DoorStarting: {http.StatusServiceUnavailable, "this replica's engine is not ready", "it is loading or restarting"},
	wire.DoorWrongKey: {http.StatusMisdirectedRequest, "this is not the replica that the request is for", "take a newer table; the address is stale"},
	wire.DoorRoute:    {http.StatusNotFound, "this route is not served through a replica's door", "serving routes, and GET of /health, /v1/models, /metrics and /version, are"},
}

// refuse answers on the headers alone. On a connection of HTTP/1.1 that is to be kept, net/http would first read the rest
// of the body, and a client that waits for the answer before it sends the body would wait for ever.
func refuse(w http.ResponseWriter, r *http.Request, why Refusal) {
	say := refusals[why]
	h := w.Header()
	h.Set(wire.HeaderDoor, string(why))
	h.Set("Retry-After", "1")
	h.Set("Content-Type", "application/json")
	unread := r.ContentLength != 0
	if unread && r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	w.WriteHeader(say.status)
	answer := struct {
		Error *fleet.Error `json:"error"`
	}{&fleet.Error{Code: fleet.NotReady, Message: say.message, Hint: say.hint}}
	_ = json.NewEncoder(w).Encode(answer) // fails only when the client is gone
	if unread {
		_ = http.NewResponseController(w).Flush()
	}
}
