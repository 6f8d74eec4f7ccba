package client

import (
	"encoding/json"
	"net/http"
	"testing"

	"berth/fleet/wire"
)

func TestEachPeerSpeaksForItself(t *testing.T) {
	answer := func(w http.ResponseWriter, rows ...wire.PeerView) {
		_ = json.NewEncoder(w).Encode(wire.List[wire.PeerView]{Items: rows})
	}
	follower := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("consistency") != "stale" {
			t.Error("a follower was asked in a way that the leader would answer")
		}
		answer(w, wire.PeerView{ID: "peer-1"}, wire.PeerView{ID: "peer-2", State: "non-voter", AppliedIndex: "1.9", Fingerprint: "bb"})
	})
	dead := serve(t, refuse("internal"))
	leader := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, wire.PeerView{ID: "peer-1", AppliedIndex: "1.9", Fingerprint: "aa"}, wire.PeerView{ID: "peer-2", State: "follower", HTTP: follower}, wire.PeerView{ID: "peer-3", HTTP: dead})
	})
	got, _, err := newClient(t, leader).PeersThemselves(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if got[0].Fingerprint != "aa" || got[1].Fingerprint != "bb" || got[1].AppliedIndex != "1.9" || got[2].Fingerprint != "" {
		t.Errorf("%+v", got)
	}
	if got[1].State != "follower" {
		t.Errorf("the state is %q; the leader's word holds", got[1].State)
	}
}
